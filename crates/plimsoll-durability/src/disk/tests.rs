// SPDX-License-Identifier: Apache-2.0
//! The disk beside a model of it: sectors with the versions that each may have.

use super::*;
use plimsoll_core::durability::DeviceModel;
use plimsoll_core::rng::{Rng, Seed};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;

const SECTORS: u64 = 16;
const BYTES: u64 = SECTORS * SECTOR_BYTES;

/// A request of a test: what is done to which sectors.
#[derive(Debug, Clone, Copy)]
enum Request {
    Write { from: u64, count: u64, fua: bool },
    Zero { from: u64, count: u64 },
    Flush,
}

fn request() -> impl Strategy<Value = Request> {
    let range = (0..SECTORS, 1..5_u64).prop_map(|(from, count)| (from, count.min(SECTORS - from)));
    prop_oneof![
        6 => (range.clone(), any::<bool>()).prop_map(|((from, count), fua)| Request::Write {
            from, count, fua: fua && count == 1
        }),
        1 => range.prop_map(|(from, count)| Request::Zero { from, count }),
        2 => Just(Request::Flush),
    ]
}

/// The bytes that each sector may be filled with after a cut now.
struct SectorVersions(Vec<BTreeSet<u8>>);

impl SectorVersions {
    fn apply(&mut self, request: Request, last: &mut [u8], fill: u8) {
        let (from, count, is_durable, byte) = match request {
            Request::Write { from, count, fua } => (from, count, fua, fill),
            Request::Zero { from, count } => (from, count, false, 0),
            Request::Flush => {
                for (versions, last) in self.0.iter_mut().zip(last) {
                    *versions = BTreeSet::from([*last]);
                }
                return;
            }
        };
        for sector in from..from + count {
            let at = usize::try_from(sector).unwrap();
            last[at] = byte;
            if is_durable {
                self.0[at].clear();
            }
            self.0[at].insert(byte);
        }
    }
}

fn loss(model: DeviceModel, way: u64, seed: Seed) -> CacheLoss {
    CacheLoss {
        model,
        only: None,
        way,
        seed,
    }
}

fn disk(parts: u64) -> LoggedDisk {
    let live = tempfile::tempfile().unwrap();
    let shape = DiskShape {
        parts,
        part_bytes: BYTES,
    };
    live.set_len(shape.bytes()).unwrap();
    LoggedDisk::new(live, tempfile::tempfile().unwrap(), shape, 1 << 20)
}

fn carry_out(part: DiskPart<'_>, request: Request, fill: u8) {
    match request {
        Request::Write { from, count, fua } => {
            let data = vec![fill; usize::try_from(count * SECTOR_BYTES).unwrap()];
            part.write(&data, from * SECTOR_BYTES, fua).unwrap();
        }
        Request::Zero { from, count } => {
            part.zero(from * SECTOR_BYTES, count * SECTOR_BYTES, false)
                .unwrap();
        }
        Request::Flush => part.flush().unwrap(),
    }
}

fn untouched() -> (SectorVersions, Vec<u8>) {
    let last = vec![0; usize::try_from(SECTORS).unwrap()];
    (SectorVersions(vec![BTreeSet::from([0]); last.len()]), last)
}

fn play(requests: &[Request]) -> (DiskLog, SectorVersions, Vec<u8>) {
    let disk = disk(1);
    let (mut versions, mut last) = untouched();
    for (n, request) in (1_u8..).zip(requests) {
        carry_out(disk.part(0), *request, n);
        versions.apply(*request, &mut last, n);
    }
    (disk.into_log(), versions, last)
}

/// The byte that fills each sector of an image; every sector is of one write.
fn read_sectors(image: &std::fs::File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(image.metadata().unwrap().len()).unwrap()];
    image.read_exact_at(&mut bytes, 0).unwrap();
    let sectors = bytes.chunks(usize::try_from(SECTOR_BYTES).unwrap());
    sectors
        .map(|sector| {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "a torn sector"
            );
            sector[0]
        })
        .collect()
}

fn image_of(log: &DiskLog, crash: &CrashState, parts: u64) -> Vec<u8> {
    let (durable, image) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    durable.set_len(parts * BYTES).unwrap();
    CrashImages::new(log, &durable, parts * BYTES)
        .build(crash, &image)
        .unwrap();
    read_sectors(&image)
}

proptest! {
    #[test]
    fn a_volatile_cut_shows_of_each_sector_a_version_that_it_may_have(
        requests in prop::collection::vec(request(), 1..40),
        seed in any::<u64>(),
        number in 0..6_u64,
    ) {
        let (log, versions, _) = play(&requests);
        let position = log.entries.len();
        let crash = crash_state(&log, position, loss(DeviceModel::Volatile, number, Seed(seed)));
        for (sector, (found, may)) in image_of(&log, &crash, 1).iter().zip(&versions.0).enumerate() {
            prop_assert!(may.contains(found), "sector {sector} holds {found}, may hold {may:?}");
        }
    }

    #[test]
    fn parts_that_lose_their_power_together_are_flushed_by_themselves(
        requests in prop::collection::vec((0..3_u64, request()), 1..60),
        seed in any::<u64>(),
        number in 0..6_u64,
    ) {
        let disk = disk(3);
        let mut models = [untouched(), untouched(), untouched()];
        for (n, (part, request)) in (1_u8..).zip(&requests) {
            carry_out(disk.part(*part), *request, n);
            let (versions, last) = &mut models[usize::try_from(*part).unwrap()];
            versions.apply(*request, last, n);
        }
        let log = disk.into_log();
        let crash = crash_state(&log, log.entries.len(), loss(DeviceModel::Volatile, number, Seed(seed)));
        let may = models.iter().flat_map(|(versions, _)| &versions.0);
        for (sector, (found, may)) in image_of(&log, &crash, 3).iter().zip(may).enumerate() {
            prop_assert!(may.contains(found), "sector {sector} holds {found}, may hold {may:?}");
        }
    }

    #[test]
    fn a_protected_cut_shows_every_completed_write_up_to_the_instant(
        requests in prop::collection::vec(request(), 1..40),
        at in any::<prop::sample::Index>(),
    ) {
        let position = at.index(requests.len() + 1);
        let (log, ..) = play(&requests);
        let (_, _, last) = play(&requests[..position]);
        let crash = crash_state(&log, position, loss(DeviceModel::Protected, 0, Seed(1)));
        prop_assert_eq!(image_of(&log, &crash, 1), last);
    }
}

#[test]
fn every_version_that_a_sector_may_have_turns_up() {
    use Request::{Flush, Write};
    let write = |from, fua| Write {
        from,
        count: 1,
        fua,
    };
    let requests = [
        write(0, false),
        Flush,
        write(0, false),
        write(0, false),
        write(1, false),
        write(1, true),
        write(1, false),
    ];
    let (log, versions, _) = play(&requests);
    assert_eq!(versions.0[0], BTreeSet::from([1, 3, 4]));
    assert_eq!(versions.0[1], BTreeSet::from([6, 7]));
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    let mut rng = Rng::new(Seed(3));
    for number in 0..200 {
        let seed = Seed(rng.next_u64());
        let crash = crash_state(
            &log,
            log.entries.len(),
            loss(DeviceModel::Volatile, number, seed),
        );
        let image = image_of(&log, &crash, 1);
        seen[0].insert(image[0]);
        seen[1].insert(image[1]);
    }
    assert_eq!(seen[0], versions.0[0]);
    assert_eq!(seen[1], versions.0[1]);
}

#[test]
fn cuts_come_in_their_order_and_a_full_log_refuses_writes() {
    let (log, ..) = play(&[Request::Flush, Request::Flush]);
    let durable = tempfile::tempfile().unwrap();
    durable.set_len(BYTES).unwrap();
    let image = tempfile::tempfile().unwrap();
    let mut images = CrashImages::new(&log, &durable, BYTES);
    let at = |position| crash_state(&log, position, loss(DeviceModel::Volatile, 0, Seed(1)));
    images.build(&at(2), &image).unwrap();
    assert!(images.build(&at(1), &image).is_err());
    let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
    let [live, data] = files;
    let disk = LoggedDisk::new(live, data, DiskShape::one(BYTES), 600);
    let part = disk.part(0);
    part.write(&[1; 512], 0, false).unwrap();
    let error = part.write(&[1; 512], 0, false).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28));
    assert!(disk.is_full());
    assert!(part.write(&[1; 512], BYTES, false).is_err());
    assert_eq!(disk.position(), 1);
}

#[test]
fn a_client_of_the_protocol_reads_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("disk.sock");
    let disk = std::sync::Arc::new(disk(1));
    let server = NbdServer::start(&disk, 0, &socket).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    nbd_tests::talk(&mut stream, BYTES);
    drop(server);
    let log = std::sync::Arc::try_unwrap(disk).unwrap().into_log();
    let kinds: Vec<bool> = log
        .entries
        .iter()
        .map(|entry| entry.kind == DiskLogKind::Flush)
        .collect();
    assert_eq!(kinds, [false, true]);
    assert!(log.entries[0].fua);
}

/// A client of the protocol, written from its document and not from the server.
mod nbd_tests {
    use std::io::{Read, Write};

    pub(super) fn talk(stream: &mut (impl Read + Write), size: u64) {
        let mut hello = [0; 18];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        // An option that the server does not know, then the one that begins.
        for (option, data) in [(8_u32, &b""[..]), (7, &[0, 0, 0, 0, 0, 0])] {
            stream.write_all(b"IHAVEOPT").unwrap();
            stream.write_all(&option.to_be_bytes()).unwrap();
            stream
                .write_all(&u32::try_from(data.len()).unwrap().to_be_bytes())
                .unwrap();
            stream.write_all(data).unwrap();
        }
        let mut refused = [0; 20];
        stream.read_exact(&mut refused).unwrap();
        assert_eq!(refused[12..16], [0x80, 0, 0, 1]);
        let mut info = [0; 32];
        stream.read_exact(&mut info).unwrap();
        assert_eq!(info[22..30], size.to_be_bytes());
        let mut ack = [0; 20];
        stream.read_exact(&mut ack).unwrap();
        let mut request = |flags: u16, command: u16, offset: u64, bytes: u32, data: &[u8]| {
            let mut head = vec![0x25, 0x60, 0x95, 0x13];
            head.extend(flags.to_be_bytes());
            head.extend(command.to_be_bytes());
            head.extend(*b"cookie!!");
            head.extend(offset.to_be_bytes());
            head.extend(bytes.to_be_bytes());
            head.extend(data);
            stream.write_all(&head).unwrap();
            let mut reply = [0; 16];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(&reply[8..], b"cookie!!");
            let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
            let mut read = vec![0; if command == 0 && error == 0 { 1024 } else { 0 }];
            stream.read_exact(&mut read).unwrap();
            (error, read)
        };
        assert_eq!(request(1, 1, 512, 1024, &[7; 1024]).0, 0);
        assert_eq!(request(0, 3, 0, 0, &[]).0, 0);
        assert_eq!(request(0, 0, 512, 1024, &[]), (0, vec![7; 1024]));
        assert_eq!(request(0, 0, size, 1024, &[]).0, 22);
        assert_eq!(request(0, 99, 0, 0, &[]).0, 22);
    }
}

#[test]
fn data_are_at_risk_until_right_before_the_flush_of_their_part() {
    let disk = disk(2);
    let data = [1; 1024];
    for (part, flushes) in [
        (0, false),
        (1, false),
        (1, true),
        (1, true),
        (0, false),
        (0, true),
    ] {
        match flushes {
            true => disk.part(part).flush().unwrap(),
            false => disk.part(part).write(&data, 0, false).unwrap(),
        }
    }
    let log = disk.into_log();
    let risk = |number: usize, sectors| DataAtRisk {
        until: log.entries[number].at,
        sectors,
    };
    // The first part is flushed at the end, the second one after its only write; then nothing is at risk.
    assert_eq!(log.at_risk(0..6), [risk(1, 2), risk(4, 4)]);
    assert_eq!(log.at_risk(1..3), [risk(1, 2)]);
    assert_eq!(log.at_risk(0..9), []);
}

#[test]
fn a_part_without_power_refuses_everything_and_alone_loses_its_cache() {
    let disk = disk(2);
    let [off, on] = [0, 1].map(|number| disk.part(number));
    off.write(&[1; 512], 0, false).unwrap();
    disk.end_power(0, disk.now());
    on.write(&[2; 512], 0, false).unwrap();
    for failed in [
        off.write(&[3; 512], 0, false),
        off.flush(),
        off.zero(0, 512, false),
        off.read(&mut [0; 512], 0),
    ] {
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(5));
    }
    on.flush().unwrap();
    on.write(&[4; 512], 512, false).unwrap();
    let log = disk.into_log();
    let only = CacheLoss {
        only: Some(0),
        ..loss(DeviceModel::Volatile, 0, Seed(1))
    };
    let fates = crash_state(&log, log.entries.len(), only).fates;
    use WriteFate::{Dropped, Kept};
    assert_eq!(fates, [Dropped, Kept, Kept, Kept]);
}
