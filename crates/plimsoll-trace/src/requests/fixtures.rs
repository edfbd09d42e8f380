// SPDX-License-Identifier: Apache-2.0
//! A small recording of every format, made for the tests.

use plimsoll_core::op::OpKind;

use super::TraceFormat;
use crate::input::RecordingInput;
use crate::recording::TraceSource;

pub(crate) const MSR: &[u8] = b"\
128166385295514663,hm,0,Write,9056014336,2048,2833\n\
128166385295514878,hm,1,Read,11855351808,512,2617\n";

pub(super) const SYSTOR: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
1456095145.133133000,0.000806000,R,0,899056,131072\n\
1456095145.126285000,0.008044000,W,4,42560,122880\n\
1456095145.127397000,,R,0,37722,58368\n";

pub(super) const ALIBABA: &[u8] = b"\
419,W,8792731648,16384,1577808144360767\n\
725,R,126703616,4096,1577808144360796\n";

pub(super) const TENCENT: &[u8] = b"\
1538323199,12910952,48,1,1063\n\
1538323199,6735176,8,0,1064\n\
1538323200,0,8,1,1063\n";

pub(super) const SPC: &[u8] = b"\
0,20941264,8192,W,0.551706\n\
1, 0, 512, r, 0.554747, 17\n";

pub(super) const FIU: &[u8] = b"\
89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
89968195793462 4892 Web Content 904265560 8 W 8 1 531e779b8b1b5a8a1f8a8e5a1b2b8e77\n";

pub(super) const MQSIM: &[u8] = b"\
938513000 4 264719034 16 0\n\
938828000 3 197570570 16 1\n";

pub(super) const IOLOG_2: &[u8] = b"fio version 2 iolog\n\
/data/a add\n\
/data/a open\n\
/data/a read 8192 4096\n\
/data/a wait 1000 0\n\
/data/a wait 500 0\n\
/data/a write 0 8192\n\
/data/a datasync 0 0\n\
/data/a close\n";

pub(super) const IOLOG_3: &[u8] = b"fio version 3 iolog\n\
0 /data/a add\n\
0 /data/a open\n\
100 /data/a read 8192 4096\n\
350 /data/a write 0 8192\n\
351 /data/a trim 0 4096\n\
400 /data/a sync 0 0\n\
401 /data/a close\n";

pub(super) const WARP: &[u8] = b"\
idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\tcat\n\
0\t1\tPUT\tab\t1\t1048576\thttp://10.0.0.1:9000\ta/1.rnd\t\t2020-02-06T11:00:00.25+01:00\t\t2020-02-06T11:00:00.262+01:00\t12000000\t0\n\
1\t2\tSTAT\tab\t1\t0\thttp://10.0.0.1:9000\ta/1.rnd\t\t2020-02-06T11:00:01+01:00\t\t2020-02-06T11:00:01.1+01:00\t100000000\t0\n\
2\t2\tGET\tab\t1\t1048576\thttp://10.0.0.1:9000\ta/1.rnd\t\"no\tsuch\"\t2020-02-06T11:00:01+01:00\t\t2020-02-06T11:00:01.1+01:00\t100000000\t0\n\
3\t2\tGET\tab\t1\t1048576\thttp://10.0.0.1:9000\ta/1.rnd\tno such object\t2020-02-06T11:00:01+01:00\t\t2020-02-06T11:00:01.1+01:00\t100000000\t0\n\
4\t1\tGET\tab\t1\t1048576\thttp://10.0.0.2:9000\ta/1.rnd\t\t2020-02-06T10:00:01.750000000Z\t\t2020-02-06T10:00:01.753000001Z\t3000001\t0\n\
# warp mixed --full\n";

pub(super) const FIO_LAT: &[u8] = b"\
3, 3400000, 0, 4096, 8192, 0\n\
5, 100000, 1, 65536, 0, 0x0004\n\
6, 900000, 2, 4096, 512, 0, 5123456\n";

pub(super) const BIOSNOOP: &[u8] = b"\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n\
0.000000    fio            950    vda     W 13192496   4096      1.230\n\
0.001500    Web Content    1950   vda     R 8          131072    0.500\n\
0.002000    ?              0      nvme0n1 FF -1        0         0.800\n";

pub(super) const BIOSNOOP_QUEUED: &[u8] = b"Tracing block device I/O...\n\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   P QUE(ms) LAT(ms)\n\
0.000000    fio            950    vda     W 8          4096    S   0.100   1.230\n\
0.001500    fio            950    vda     R 16         4096    R   0.100   0.500\n";

pub(super) const BIOSNOOP_BT: &[u8] = b"Attaching 4 probes...\n\
TIME(ms)     DISK    COMM             PID    LAT(ms)\n\
611          nvme0n1 bash             4179         1\n\
915          nvme0n2 my process       4180         0\n";

pub(super) const BLKPARSE: &[u8] = b"\
#Maj,Mn CPU   SeqNo     Seconds     PID  Evt Typ Sector   +Len Description\n\
259,0    3        1     0.000000000  1867  A   W 763360912 + 8 <- (259,3) 746579600\n\
259,0    3        3     0.000001000  1867  Q   W 763360912 + 8 [dmcrypt_write/2]\n\
259,0    3        4     0.000001500  1867  G   W 763360912 + 8 [dmcrypt_write/2]\n\
259,0    3        5     0.000001700  1867  P   N [dmcrypt_write/2]\n\
259,0    3        6     0.000002000  1867  Q  WS 763360920 + 8 [Web Content]\n\
259,0    3        7     0.000002500  1867  M  WS 763360920 + 8 [Web Content]\n\
259,0    3        8     0.000003000  1867  Q FWS [jbd2/sda]\n  \
8,16   1        1     0.000004000    12  Q   D 0 + 2048 [fstrim]\n  \
8,16   1        2     0.000004500    12  X   D 0 / 1000 [fstrim]\n  \
8,16   1        3     0.000005000    12  Q   R 8 + 8 [fio]\n\
259,0    3        9     0.000006000  1867  U   N [dmcrypt_write/2] 1\n\
259,0    3       10     0.000007000  1867  D   W 763360912 + 16 (    6000) [dmcrypt_write/2]\n\
259,0    3        x     0.000007000  1867  D   W 763360912 + 16 [damaged]\n\
259,0    3       11     0.000008000     0  C   W 763360912 + 16 (    1000) [0]\n\
259,0    3       12     0.000012000     0  C  FN 0 [0]\n  \
8,16   1        4     0.000050000     0  C   D 0 + 1000 [0]\n  \
8,16   1        5     0.000101000     0  C   D 1000 + 1048 [0]\n  \
8,16   1        6     0.000102000     0  m   N cfq schedule\n\
CPU1 (sdb):\n \
Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB\n\
Throughput (R/W): 0KiB/s / 0KiB/s\n\
Events (sdb): 6 entries\n\
Skips: 2 forward (4,162 -  99.9%)\n";

/// A trace of vscsiStats: three commands, the second of which moves no data.
pub(super) fn vscsi(version: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, command, length, block, us) in [
        (1u32, 0x2au16, 4096u32, 800u64, 5_000_000u64),
        (2, 0x00, 0, 0, 5_000_100),
        (3, 0x28, 8192, 16, 5_000_200),
    ] {
        let kind = [&command.to_le_bytes()[..], &[0, version]].concat();
        let middle = [number, length, 1].map(u32::to_le_bytes).concat();
        let end = [block, us].map(u64::to_le_bytes).concat();
        let parts = if version == 1 {
            [middle, kind, end, Vec::new()]
        } else {
            [kind, middle, end, 300u64.to_le_bytes().into()]
        };
        bytes.extend(parts.concat());
    }
    bytes
}

/// A trace of blktrace: the time of day, then a write, a flush, a read of another device and a
/// discard that is cut, with a gap of two records. Each device counts its own.
pub(super) fn blktrace(version: u8, is_big_endian: bool) -> Vec<u8> {
    const SDB: u32 = (8 << 20) | 16;
    const NVME: u32 = 259 << 20;
    let (write, flush, discard) = (2u64, 4, 8192);
    let (queue, issue, complete, split) = (1, 7, 8, 13);
    let order = |mut word: Vec<u8>| {
        if is_big_endian {
            word.reverse();
        }
        word
    };
    let word = |value: u32| order(value.to_le_bytes().into());
    let long = |value: u64| order(value.to_le_bytes().into());
    let half = |value: u16| order(value.to_le_bytes().into());
    let record = |number, at, (act, flags): (u64, u64), device, sector, bytes, payload: &[u8]| {
        let (magic, action) = (word(0x6561_7400 | u32::from(version)), act | (flags << 16));
        let head = [magic, word(number), long(at), long(sector), word(bytes)].concat();
        let length = half(u16::try_from(payload.len()).unwrap());
        let low = word(u32::try_from(action).unwrap());
        let rest = if version == 7 {
            [low, word(77), word(device), word(0), half(0), length].concat()
        } else {
            let end = [half(0), length, vec![0; 12]].concat();
            [word(77), long(action), word(device), word(0), end].concat()
        };
        [&head[..], &rest, payload].concat()
    };
    let day = [word(1_700_000_000), word(0)].concat();
    let cut = 1000u64.to_be_bytes();
    [
        record(0, 10_000, (1, 1024), SDB, 0, 0, &day),
        record(1, 11_000, (queue, write), SDB, 100, 4096, &[]),
        record(2, 12_000, (queue, write | flush), SDB, 0, 0, &[]),
        record(0, 13_000, (queue, 1), NVME, 8, 131_072, &[]),
        record(3, 13_500, (queue, discard), SDB, 0, 1 << 20, &[]),
        record(4, 13_600, (issue, write), SDB, 100, 4096, &[]),
        record(5, 13_700, (split, discard), SDB, 0, 1 << 20, &cut),
        record(8, 14_000, (complete, write), SDB, 100, 4096, &[]),
        record(9, 15_000, (complete, flush), SDB, 0, 0, &[]),
        record(1, 17_000, (complete, 1), NVME, 8, 131_072, &[]),
        record(10, 18_000, (complete, discard), SDB, 0, 512_000, &[]),
        record(11, 21_000, (complete, discard), SDB, 1000, 1048 * 512, &[]),
    ]
    .concat()
}

/// Each with the name of the format that must recognise it.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    use super::{
        alibaba, biosnoop, blkparse, blktrace as binary, darshan, fio_iolog, fio_lat, fiu, mqsim,
        msr, spc, systor, tencent, vscsi as command, warp,
    };
    let text = [
        (&msr::FORMAT, MSR),
        (&systor::FORMAT, SYSTOR),
        (&systor::FORMAT, SYSTOR.split_at(42).1),
        (&alibaba::FORMAT, ALIBABA),
        (&tencent::FORMAT, TENCENT),
        (&spc::FORMAT, SPC),
        (&fiu::FORMAT, FIU),
        (&mqsim::FORMAT, MQSIM),
        (&fio_lat::FORMAT, FIO_LAT),
        (&darshan::TEXT, darshan::tests::PRINTED),
        (&warp::FORMAT, WARP),
        (&fio_iolog::FORMAT, IOLOG_2),
        (&fio_iolog::FORMAT, IOLOG_3),
        (&biosnoop::FORMAT, BIOSNOOP),
        (&biosnoop::FORMAT, BIOSNOOP_QUEUED),
        (&biosnoop::FORMAT, BIOSNOOP_BT),
        (&blkparse::FORMAT, BLKPARSE),
        (&blkparse::FORMAT, BLKPARSE.split_at(75).1),
    ];
    let mut all: Vec<_> = text
        .map(|(format, bytes)| (format.name, bytes.to_vec()))
        .into();
    all.extend([1, 2].map(|version| (command::FORMAT.name, vscsi(version))));
    all.extend([(7, false), (8, true)].map(|(version, big)| {
        let bytes = blktrace(version, big);
        (binary::FORMAT.name, bytes)
    }));
    all.push((super::spool::FORMAT.name, spool()));
    for (version, is_big, method) in [("3.10", false, 0), ("3.41", true, 1), ("3.21", false, 2)] {
        let made = darshan::tests::MadeLog {
            version,
            is_big,
            method,
            ..darshan::tests::MADE
        };
        all.push((darshan::LOG.name, made.bytes()));
    }
    // Its end, where the table of what is where stands, is read from a file only.
    #[cfg(feature = "parquet")]
    all.push((super::parquet::FORMAT.name, b"PAR1 and then columns".into()));
    all
}

/// Two requests as a recorder that was killed leaves them.
fn spool() -> Vec<u8> {
    let mut bytes = b"plimsoll requests 1\norigin 1700000000000000000\ndevice sda\n\n".to_vec();
    for (at_ns, took_ns, offset, kind) in [(10_u64, 7_u64, 4096_u64, 0), (20, u64::MAX, 0, 1)] {
        bytes.extend([at_ns, took_ns, offset].map(u64::to_le_bytes).concat());
        bytes.extend(4096_u32.to_le_bytes());
        bytes.extend([0, 0, kind, 0]);
    }
    bytes
}

/// A request as the tests say it: start, how long it took, kind, device, bytes, offset.
pub(super) type FixtureRequest = (u64, Option<u64>, OpKind, u16, u32, u64);

/// Everything in a recording that a format must recognise.
pub(super) fn read(
    format: &TraceFormat,
    bytes: &[u8],
) -> (Box<dyn TraceSource>, Vec<FixtureRequest>) {
    assert!((format.is)(bytes), "{}", format.name);
    let input =
        RecordingInput::new("f".into(), Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
    let mut reader = (format.open)(input).unwrap();
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap() {}
    let told = found
        .iter()
        .map(|r| {
            (
                r.at.0,
                r.took.map(|t| t.0),
                r.kind,
                r.target,
                r.bytes,
                r.offset,
            )
        })
        .collect();
    (reader, told)
}
