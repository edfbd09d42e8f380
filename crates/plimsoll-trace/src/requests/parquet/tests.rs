// SPDX-License-Identifier: Apache-2.0
//! Tables as this program writes them, as other programs do, and as no sane program would.

use super::super::spool::TraceSpool;
use super::*;
use parquet::data_type::{DoubleType, FloatType};
use plimsoll_core::rng::{Rng, Seed};

/// Requests of two disks, more than one group.
fn all() -> Vec<TraceRequest> {
    let count = GROUP_ROWS as u64 + 10;
    let request = |n: u64| TraceRequest {
        at: Nanos(n * 1_000_003),
        took: (!n.is_multiple_of(7)).then_some(Nanos(n % 50_000)),
        kind: KINDS[usize::try_from(n % 4).unwrap()].0,
        target: u16::try_from(n % 2).unwrap(),
        bytes: if n % 4 == 3 { 0 } else { 4096 },
        offset: (n * 7919) << 12,
    };
    (0..count).map(request).collect()
}

#[test]
fn a_recording_goes_through_a_parquet_file_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, table) = (folder.path().join("spool"), folder.path().join("table"));
    let names = ["sda".to_owned(), "sdb".to_owned()];
    let mut written = TraceSpool::create(&spool, 1_700_000_000_000_000_000, &names).unwrap();
    written.append(&all(), 3).unwrap();
    let mut reader = super::super::open(&spool).unwrap();
    assert_eq!(write(&mut *reader, &table).unwrap(), all().len() as u64);
    assert!(write(&mut *reader, &table).is_err(), "it exists");
    let mut reader = super::super::open(&table).unwrap();
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap() {}
    assert!(found == all());
    assert_eq!(reader.targets(), names);
    assert_eq!(reader.lost(), 3);
    assert_eq!(reader.origin_unix_ns(), Some(1_700_000_000_000_000_000));
    assert_eq!(reader.damage(), None);
    let (spool, table) = (spool.metadata().unwrap(), table.metadata().unwrap());
    assert!(
        table.len() * 2 < spool.len(),
        "{} of {}",
        table.len(),
        spool.len()
    );
}

#[test]
fn a_table_that_is_cut_or_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, path) = (folder.path().join("spool"), folder.path().join("table"));
    let mut written = TraceSpool::create(&spool, 0, &["sda".into()]).unwrap();
    written
        .append(
            &all()[..8]
                .iter()
                .map(|row| TraceRequest { target: 0, ..*row })
                .collect::<Vec<_>>(),
            0,
        )
        .unwrap();
    write(&mut *super::super::open(&spool).unwrap(), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in 4..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(super::super::open(&path).is_err(), "{length}");
    }
    let mut rng = Rng::new(Seed(20_261_121));
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        super::super::mutate(&mut bytes, &mut rng);
        std::fs::write(&path, &bytes).unwrap();
        let Ok(mut reader) = super::super::open(&path) else {
            continue;
        };
        let mut found = Vec::new();
        while reader.read(&mut found).unwrap_or(false) {}
        assert!(found.len() <= 8, "{}", found.len());
    }
}

/// Six columns of numbers and words, and the values of a table with them.
fn made(
    schema: &str,
    write: &dyn Fn(&mut SerializedRowGroupWriter<'_, &File>),
) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let schema = parse_message_type(&format!("message m {{ {schema} }}")).unwrap();
    let plain = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .build();
    let mut writer =
        SerializedFileWriter::new(file.as_file(), Arc::new(schema), Arc::new(plain)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    write(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
    file
}

/// Starts in ns, bytes, origin and warnings.
type Found = (Vec<(u64, u32, OpKind)>, Option<u64>, Vec<String>);

fn found(path: &Path) -> Result<Found, String> {
    let mut reader = super::super::open(path).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    while reader.read(&mut found).map_err(|error| error.to_string())? {}
    let rows = found.iter().map(|r| (r.at.0, r.bytes, r.kind)).collect();
    Ok((rows, reader.origin_unix_ns(), reader.warnings().to_vec()))
}

const REST: &str =
    "required binary kind (utf8); required binary device (utf8); required int64 offset;";

/// Two rows: these starts, words of these kinds, and these bytes.
fn two(at: (&str, [i64; 2]), kinds: [&str; 2], bytes: (&str, [i32; 2])) -> tempfile::NamedTempFile {
    let schema = format!(
        "required int64 at_ns {}; {REST} required int32 bytes {};",
        at.0, bytes.0
    );
    made(&schema, &|group| {
        column::<Int64Type, _>(group, at.1.into_iter(), None).unwrap();
        column::<ByteArrayType, _>(group, kinds.into_iter().map(ByteArray::from), None).unwrap();
        column::<ByteArrayType, _>(group, ["a", "a"].into_iter().map(ByteArray::from), None)
            .unwrap();
        column::<Int64Type, _>(group, [0, 512].into_iter(), None).unwrap();
        column::<parquet::data_type::Int32Type, _>(group, bytes.1.into_iter(), None).unwrap();
    })
}

#[test]
fn units_and_widths_of_other_programs_are_theirs() {
    const AT_NS: u64 = 1_700_000_000_000_000_000;
    let us = i64::try_from(AT_NS / 1_000).unwrap();
    let expect = vec![(0, 4096, OpKind::Read), (7_000, u32::MAX, OpKind::Write)];
    // Times since 1970 in microseconds, words in capitals, lengths without a sign, no ends.
    for unit in [
        "(timestamp_micros)",
        "(timestamp(micros,true))",
        "(timestamp(micros,false))",
    ] {
        let file = two(
            (unit, [us, us + 7]),
            ["READ", "w"],
            ("(uint_32)", [4096, -1]),
        );
        let (rows, origin, told) = found(file.path()).unwrap();
        assert_eq!((rows, origin), (expect.clone(), Some(AT_NS)), "{unit}");
        let has_zone = !unit.contains("false");
        assert_eq!(told.is_empty(), has_zone, "{told:?}");
        let reader = super::super::open(file.path()).unwrap();
        assert_eq!(reader.about().carries.resolution, Nanos(1_000));
        assert_eq!(reader.about().carries.service, RecordingDetail::Absent);
    }
    // Nanoseconds since 1970 in a column without that type, unsorted; then nanoseconds since an origin.
    let ns = i64::try_from(AT_NS).unwrap();
    let file = two(("", [ns + 7_000, ns]), ["read", "read"], ("", [1, 1]));
    let (rows, origin, _) = found(file.path()).unwrap();
    assert_eq!((rows[0].0, rows[1].0, origin), (7_000, 0, Some(AT_NS)));
    let file = two(("", [5, 9]), ["read", "read"], ("", [1, 1]));
    let (rows, origin, _) = found(file.path()).unwrap();
    assert_eq!((rows[0].0, rows[1].0, origin), (5, 9, None));
}

#[test]
fn a_row_that_is_no_request_is_left_out_and_named() {
    let file = two(("", [5, 9]), ["read", "frob"], ("", [1, 1]));
    let (rows, _, told) = found(file.path()).unwrap();
    assert_eq!(rows.len(), 1);
    assert!(told[0].contains("row 2: kind is 'frob'"), "{told:?}");
    let file = two(("", [-5, -9]), ["read", "read"], ("", [1, 1]));
    let error = found(file.path()).unwrap_err();
    assert!(error.contains("row 1: at_ns is -5"), "{error}");
}

#[test]
fn numbers_with_a_fraction_are_read_where_they_are_whole() {
    let schema = format!("optional double at_ns; {REST} required float bytes;");
    let file = made(&schema, &|group| {
        let there = [1, 0, 1, 1];
        column::<DoubleType, _>(group, [3.0, 4.5, 5.0].into_iter(), Some(&there)).unwrap();
        let words = |word| std::iter::repeat_n(ByteArray::from(word), 4);
        column::<ByteArrayType, _>(group, words("read"), None).unwrap();
        column::<ByteArrayType, _>(group, words("a"), None).unwrap();
        column::<Int64Type, _>(group, [0; 4].into_iter(), None).unwrap();
        column::<FloatType, _>(group, [512.0; 4].into_iter(), None).unwrap();
    });
    let (rows, _, told) = found(file.path()).unwrap();
    assert_eq!(rows, [(3, 512, OpKind::Read), (5, 512, OpKind::Read)]);
    assert!(
        told[0].contains("2 rows") && told[0].contains("row 2: at_ns is absent"),
        "{told:?}"
    );
}
