// SPDX-License-Identifier: Apache-2.0
//! Simulated devices against what is known of them in closed form.

use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDeviceSpec;
use plimsoll_engine::sim::{SimDeviceModel, parts};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn device(text: &str) -> Box<dyn SimDeviceModel> {
    text.parse::<SimDeviceSpec>().unwrap().device(Seed(1))
}

fn request(kind: OpKind, offset: u64, bytes: u64) -> OpRequest {
    OpRequest {
        kind,
        file: 0,
        offset,
        len: saturating_u32(bytes),
        intended_at: Nanos(0),
    }
}

/// Mean time that `n` requests take one after the other, ns.
fn mean_alone(
    device: &mut dyn SimDeviceModel,
    n: u64,
    mut next: impl FnMut(u64) -> OpRequest,
) -> f64 {
    let mut now = Nanos(0);
    for i in 0..n {
        now = device.serve(now, &next(i));
    }
    now.0 as f64 / n as f64
}

/// Mean response of `n` Poisson arrivals, ns.
fn mean_open(
    device: &mut dyn SimDeviceModel,
    (n, gap_ns): (u64, f64),
    mut next: impl FnMut(&mut Rng) -> OpRequest,
) -> f64 {
    let mut rng = Rng::new(Seed(7));
    let (mut at, mut sum) = (0.0, 0.0);
    for _ in 0..n {
        at += rng.exponential(gap_ns);
        let begin = Nanos(round_u64(at));
        let end = device.serve(begin, &next(&mut rng));
        sum += end.since(begin).0 as f64;
    }
    sum / n as f64
}

fn near(found: f64, expect: f64, share: f64) {
    assert!((found / expect - 1.0).abs() < share, "{found} for {expect}");
}

const SIZE: u64 = 1 << 40;

fn anywhere(rng: &mut Rng) -> OpRequest {
    request(OpKind::Read, rng.below(SIZE / 4096) * 4096, 4096)
}

/// Mean and mean square of the time of a random read on the disk by default, ns.
fn disk_moments() -> (f64, f64) {
    let (seek, range, turn) = (0.8e6, 15.2e6, 60e9 / 7200.0);
    let moved = 4096.0 / (180.0 * MIB as f64) * 1e9;
    // Of two places at random on a line of length 1, the distance d has the density 2 (1 - d): the
    // mean of its root is 8/15, the mean of itself 1/3. A turn is waited for evenly.
    let mean = seek + range * 8.0 / 15.0 + turn / 2.0 + moved;
    let variance = range * range * (1.0 / 3.0 - (8.0f64 / 15.0).powi(2)) + turn * turn / 12.0;
    (mean, variance + mean * mean)
}

#[test]
fn a_disk_takes_the_mean_seek_and_half_a_turn() {
    let mut rng = Rng::new(Seed(3));
    let found = mean_alone(&mut *device("sim(disk)"), 200_000, |_| anywhere(&mut rng));
    near(found, disk_moments().0, 0.01);
}

#[test]
fn a_disk_is_a_queue_of_general_service() {
    let (mean, square) = disk_moments();
    for load in [0.3, 0.6] {
        let every = mean / load;
        let found = mean_open(&mut *device("sim(disk)"), (400_000, every), anywhere);
        // Pollaczek and Khinchine. Ways that share an end are not quite independent.
        let expect = mean + square / (2.0 * every * (1.0 - load));
        near(found, expect, 0.03);
    }
}

#[test]
fn a_disk_reads_on_at_the_rate_of_its_medium() {
    let mut disk = device("sim(disk,rate=100M)");
    disk.serve(Nanos(0), &request(OpKind::Read, 0, 64 * KIB));
    let before = disk.free_at();
    for i in 1..=1600 {
        disk.serve(before, &request(OpKind::Read, i * 64 * KIB, 64 * KIB));
    }
    near(disk.free_at().since(before).as_secs_f64(), 1.0, 1e-6);
}

#[test]
fn a_rewrite_in_place_waits_for_a_whole_turn() {
    let mut disk = device("sim(disk,rpm=6000)");
    let read = disk.serve(Nanos(0), &request(OpKind::Read, MIB, 4096));
    let write = disk.serve(read, &request(OpKind::Write, MIB, 4096));
    let turn = Nanos(10 * MS);
    assert!(
        write.since(read).0.abs_diff(turn.0) < 10,
        "{}",
        write - read
    );
}

#[test]
fn units_of_flash_are_queues_of_their_own() {
    // 8 units of 100 µs: Poisson arrivals at random pages are Poisson at each.
    let text = "sim(flash,units=8,page=4K,read=100us,rate=0,spread=0)";
    for load in [0.5, 0.8] {
        let service = 100.0 * US as f64;
        let every = service / (8.0 * load);
        let next = |rng: &mut Rng| request(OpKind::Read, rng.below(1 << 20) * 4096, 4096);
        let found = mean_open(&mut *device(text), (2_000_000, every), next);
        let expect = service + load * service / (2.0 * (1.0 - load));
        near(found, expect, 0.02);
        // A stride of their count meets one unit only, which then cannot keep up.
        let stride = |rng: &mut Rng| request(OpKind::Read, rng.below(1 << 17) * 8 * 4096, 4096);
        let found = mean_open(&mut *device(text), (20_000, every), stride);
        assert!(found > 100.0 * expect, "{found}");
    }
}

#[test]
fn flash_takes_its_times_and_spreads_them() {
    let text =
        |spread| format!("sim(flash,units=4,page=16K,read=50us,rate=16384K,spread={spread})");
    // 4 KiB are a quarter of a millisecond at 16 MiB/s.
    let moved = 4.0 * KIB as f64 / (16.0 * MIB as f64) * 1e9;
    for spread in ["0", "0.5"] {
        let next = |i| request(OpKind::Read, i * 16 * KIB, 4 * KIB);
        let found = mean_alone(&mut *device(&text(spread)), 20_000, next);
        near(found, 50.0 * US as f64 + moved, 0.01);
    }
    // A transfer of four pages uses four units at once.
    let mut flash = device(&text("0"));
    let end = flash.serve(Nanos(0), &request(OpKind::Read, 0, 64 * KIB));
    near(end.0 as f64, 50.0 * US as f64 + 4.0 * moved, 1e-6);
}

#[test]
fn erases_take_their_share_of_the_time() {
    let text = "sim(flash,units=4,page=16K,write=200us,rate=0,spread=0,erase_every=1M,erase=4ms)";
    let mut flash = device(text);
    // 64 pages of 200 µs, then 4 ms: 4 units that are all kept busy.
    let pages = 40_000;
    for page in 0..pages {
        flash.serve(Nanos(0), &request(OpKind::Write, page * 16 * KIB, 16 * KIB));
    }
    let expect = pages as f64 / 4.0 * (200.0 + 4_000.0 / 64.0) * US as f64;
    near(flash.free_at().0 as f64, expect, 0.005);
}

#[test]
fn a_small_write_with_parity_reads_before_it_writes_and_a_whole_row_does_not() {
    let flash = "flash,read=50us,write=300us,rate=0,spread=0";
    let mut raid = device(&format!("sim({flash}+raid5,disks=5,chunk=64K)"));
    let small = raid.serve(Nanos(0), &request(OpKind::Write, 0, 4096));
    assert_eq!(small, Nanos(350 * US));
    let at = Nanos(MS);
    let row = raid.serve(at, &request(OpKind::Write, 0, 256 * KIB));
    assert_eq!(row.since(at), Nanos(300 * US));
    let at = Nanos(2 * MS);
    let read = raid.serve(at, &request(OpKind::Read, 0, 256 * KIB));
    assert_eq!(read.since(at), Nanos(50 * US));
    // Four accesses for one: five members of which each does 1000/s do 1250 small writes.
    let queue = "queue,servers=1,service=1ms,rate=0";
    let mut raid = device(&format!("sim({queue}+raid5,disks=5,chunk=64K)"));
    let mut rng = Rng::new(Seed(2));
    let n = 20_000;
    for _ in 0..n {
        let place = rng.below(1 << 20) * 4096;
        raid.serve(Nanos(0), &request(OpKind::Write, place, 4096));
    }
    // Parities that wait for the other member's read cost some of it.
    let per_s = n as f64 / raid.free_at().as_secs_f64();
    assert!((700.0..1250.0).contains(&per_s), "{per_s}");
}

#[test]
fn stripes_share_the_load_and_mirrors_the_reads() {
    let queue = "queue,servers=1,service=1ms,rate=0";
    let ends = |text: &str, kind| {
        let mut array = device(&format!("sim({queue}+{text})"));
        let mut rng = Rng::new(Seed(2));
        for _ in 0..10_000 {
            let place = rng.below(1 << 20) * 64 * KIB;
            array.serve(Nanos(0), &request(kind, place, 4096));
        }
        array.free_at().as_secs_f64()
    };
    near(ends("stripe,disks=4", OpKind::Write), 2.5, 0.05);
    near(ends("mirror,disks=4", OpKind::Read), 2.5, 0.01);
    near(ends("mirror,disks=4", OpKind::Write), 10.0, 0.01);
}

#[test]
fn a_cache_takes_bursts_and_keeps_the_pace_of_its_device() {
    let text = "sim(queue,servers=1,service=1ms,rate=0+cache,size=8M,hit=50us)";
    let mut cache = device(text);
    // Writes far from each other: nothing is written back together.
    let write = |i: u64| request(OpKind::Write, i * MIB, 4096);
    let half = 8 * MIB / 4096 / 2;
    for i in 0..half {
        assert_eq!(cache.serve(Nanos(0), &write(i)), Nanos(50 * US), "{i}");
    }
    let mut now = Nanos(0);
    for i in half..half + 5_000 {
        now = cache.serve(now, &write(i));
    }
    near(now.as_secs_f64(), 5.0, 0.01);
    // Left alone, it empties; what was written last is still there to be read.
    let later = now + Nanos(60 * Nanos::SECOND.0);
    let hit = cache.serve(later, &request(OpKind::Read, (half + 4_999) * MIB, 4096));
    assert_eq!(hit.since(later), Nanos(50 * US));
    let miss = cache.serve(later, &request(OpKind::Read, 50_000 * MIB, 4096));
    assert_eq!(miss.since(later), Nanos(1_050 * US));
    assert_eq!(cache.free_at().since(later), Nanos(MS));
}

#[test]
fn neighbours_leave_a_cache_together() {
    let mut cache = device("sim(queue,servers=1,service=1ms,rate=0+cache,size=8M)");
    for i in 0..1024 {
        cache.serve(Nanos(0), &request(OpKind::Write, i * 4096, 4096));
    }
    // Four runs of 1 MiB.
    cache.serve(Nanos(Nanos::SECOND.0), &request(OpKind::Fsync, 0, 0));
    assert_eq!(cache.free_at(), Nanos(4 * MS));
}

#[test]
fn a_network_has_a_delay_and_a_rate_each_way() {
    let text = "sim(queue,servers=64,service=100us,rate=0+network,rtt=1ms,rate=104857600)";
    let mut network = device(text);
    let read = network.serve(Nanos(0), &request(OpKind::Read, 0, MIB));
    assert_eq!(read, Nanos(11_100 * US));
    // The other way is free meanwhile.
    let write = network.serve(Nanos(0), &request(OpKind::Write, 0, MIB));
    assert_eq!(write, Nanos(11_100 * US));
    for kind in [OpKind::Read, OpKind::Write] {
        let mut network = device(text);
        let ends = (0..100).map(|_| network.serve(Nanos(0), &request(kind, 0, MIB)));
        near(ends.max().unwrap().as_secs_f64(), 1.0011, 1e-6);
    }
}

#[test]
fn a_throttle_lets_pass_what_it_says() {
    let free = "queue,servers=64,service=0,rate=0";
    let ends = |limit: &str, bytes| {
        let mut throttle = device(&format!("sim({free}+throttle,{limit})"));
        let ends = (0..10_000).map(|_| throttle.serve(Nanos(0), &request(OpKind::Read, 0, bytes)));
        ends.max().unwrap().as_secs_f64()
    };
    near(ends("iops=1000,burst=0", 4096), 10.0, 1e-3);
    near(ends("iops=1000,burst=2s", 4096), 8.0, 1e-3);
    near(ends("rate=4096000,burst=0", 4096), 10.0, 1e-3);
    near(ends("rate=4096000,iops=500,burst=0", 4096), 20.0, 1e-3);
}

#[test]
fn texts_of_devices_are_read_and_mistakes_named() {
    for text in [
        "sim",
        "sim(queue)",
        "sim(disk, rpm=15000 + raid5, disks=6 + cache + network,rtt=1ms)",
    ] {
        assert!(SimDeviceSpec::is_meant(text));
        text.parse::<SimDeviceSpec>().unwrap();
    }
    assert_eq!(
        "sim".parse::<SimDeviceSpec>(),
        "sim(queue)".parse::<SimDeviceSpec>()
    );
    for (text, expect) in [
        ("sim(flahs)", "did you mean 'flash'"),
        ("sim(cache)", "unknown simulated device"),
        ("sim(disk+flash)", "unknown simulated layer"),
        ("sim(disk,rmp=1)", "did you mean 'rpm'"),
        ("sim(disk,rpm=0)", "from 1 to 1000000"),
        ("sim(flash,spread=2)", "from 0 to 1"),
        ("sim(disk+raid5,disks=2)", "from 3 to 64"),
        (
            "sim(disk+cache+cache+cache+cache+cache)",
            "more than 4 layers",
        ),
        (
            "sim(disk+stripe,disks=64+stripe,disks=64)",
            "more than 1024",
        ),
        ("sim()", "''"),
        ("simdisk", "expected sim"),
    ] {
        let error = text.parse::<SimDeviceSpec>().unwrap_err().to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
    assert!(!SimDeviceSpec::is_meant("simdisk"));
}

#[test]
fn every_part_is_described_and_made_by_its_defaults() {
    for part in parts() {
        let text = match part.is_layer {
            true => format!("sim(flash+{})", part.name),
            false => format!("sim({})", part.name),
        };
        let mut device = text.parse::<SimDeviceSpec>().unwrap().device(Seed(1));
        let end = device.serve(Nanos(5), &request(OpKind::Write, 0, 4096));
        assert!(end > Nanos(5), "{text}");
        assert!(part.settings.iter().all(|s| !s.help.is_empty()), "{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_device() {
    let play = |seed| {
        let device: SimDeviceSpec = "sim(flash,erase_every=1M+mirror+cache,size=1M)"
            .parse()
            .unwrap();
        let mut device = device.device(Seed(seed));
        let mut rng = Rng::new(Seed(9));
        let serve = |i: u64| {
            let kind = if i.is_multiple_of(3) {
                OpKind::Read
            } else {
                OpKind::Write
            };
            device.serve(
                Nanos(i * 20 * US),
                &request(kind, rng.below(1 << 14) * 4096, 8192),
            )
        };
        (0..5_000).map(serve).collect::<Vec<_>>()
    };
    assert_eq!(play(4), play(4));
    assert_ne!(play(4), play(5));
}
