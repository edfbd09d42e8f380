// SPDX-License-Identifier: Apache-2.0
//! Cost of an operation: on nothing, on requests that do nothing, on direct reads.

use plimsoll_core::workload::blocks::{BlockIoGroup, BlockIoWorkload};
use plimsoll_core::workload::{Workload, blocks::BlockIoExtent};

use super::table::{Gate, Row, Sample};
use super::{Bench, Failure, Player};

/// Bytes of the file that is read: far beyond the caches of a device, soon laid out.
const FILE_BYTES: u64 = 1 << 30;

const NO_T_IO_URING: &str = "t/io_uring is not here (scripts/setup.sh bench)";

fn random_reads(depth: u32) -> Workload {
    let extent = BlockIoExtent {
        bytes: FILE_BYTES,
        ..BlockIoExtent::default()
    };
    Workload::Blocks(BlockIoWorkload {
        name: format!("reads at depth {depth}"),
        groups: vec![BlockIoGroup {
            depth,
            extent,
            ..BlockIoGroup::default()
        }],
    })
}

/// Operations per second of one thread on nothing.
pub(crate) fn null(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let seconds = bench.options.seconds;
    let mut rows = Vec::new();
    for (depth, gate) in [(32, Gate::AtLeast(8.0)), (1, Gate::None)] {
        let workload = random_reads(depth);
        let depth_option = format!("--iodepth={depth}");
        let players: [Player<'_>; 2] = [
            (
                "plimsoll",
                Box::new(|| Ok(bench.plimsoll.run(&workload, "null", seconds)?.sample())),
            ),
            (
                "fio null",
                Box::new(|| {
                    let options = [
                        "--ioengine=null",
                        "--rw=randread",
                        "--bs=4k",
                        "--size=1g",
                        "--norandommap=1",
                        &depth_option,
                    ];
                    super::rivals::fio(&options, seconds)
                }),
            ),
        ];
        let samples = bench.rounds(&players)?;
        let (ours, fio) = (&samples[0], &samples[1]);
        rows.extend([
            Row::of(
                format!("depth {depth}: plimsoll, million/s"),
                ours,
                millions,
                Gate::None,
            ),
            Row::of(
                format!("depth {depth}: fio, million/s"),
                fio,
                millions,
                Gate::None,
            ),
            Row::ratio(
                format!("depth {depth}: plimsoll / fio, by the clock"),
                ours,
                fio,
                Sample::per_second,
                Gate::None,
            ),
            // Speed of a thread that has a processor for itself, even when other threads compete for it.
            Row::ratio(
                format!("depth {depth}: plimsoll / fio, per second of processor time"),
                ours,
                fio,
                |sample| 1.0 / sample.cpu_ns(),
                gate,
            ),
        ]);
    }
    Ok(rows)
}

fn millions(sample: &Sample) -> f64 {
    sample.per_second() / 1e6
}

fn outside_us(sample: &Sample) -> f64 {
    sample.outside_ns.unwrap_or(f64::NAN) / sample.ops / 1e3
}

fn user_us(sample: &Sample) -> f64 {
    sample.user_ns() / 1e3
}

fn cpu_us(sample: &Sample) -> f64 {
    sample.cpu_ns() / 1e3
}

/// Requests that do nothing in the kernel.
pub(crate) fn nop(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let Some(rival) = &bench.t_io_uring else {
        return Ok(vec![Row::absent("NOP", NO_T_IO_URING)]);
    };
    let (seconds, workload) = (bench.options.seconds, random_reads(32));
    let players: [Player<'_>; 2] = [
        (
            "plimsoll",
            Box::new(|| Ok(bench.plimsoll.run(&workload, "nop", seconds)?.sample())),
        ),
        (
            "t/io_uring",
            // As many per call as plimsoll hands over.
            Box::new(|| rival.run(&["-N1", "-d32", "-s16", "-c16", "-p0", "-n1"], seconds)),
        ),
    ];
    let samples = bench.rounds(&players)?;
    let (ours, bare) = (&samples[0], &samples[1]);
    let more = ours.iter().zip(bare);
    let more = more
        .map(|(our, bare)| our.cpu_ns() - bare.cpu_ns())
        .collect();
    Ok(vec![
        Row::of("plimsoll, ns", ours, Sample::cpu_ns, Gate::None),
        Row::of("t/io_uring, ns", bare, Sample::cpu_ns, Gate::None),
        Row::new("plimsoll - t/io_uring, ns", more, Gate::AtMost(50.0)),
    ])
}

/// Direct random reads of 4 KiB.
pub(crate) fn read(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = deep(bench)?;
    rows.extend(shallow(bench)?);
    Ok(rows)
}

/// Runs plimsoll in a directory of its own, whose file it makes and removes.
fn ours(bench: &Bench, depth: u32) -> Result<Sample, Failure> {
    let folder = super::ours::fresh(&bench.options.dir, "read")?;
    let target = folder.display().to_string();
    let ran = bench
        .plimsoll
        .run(&random_reads(depth), &target, bench.options.seconds);
    crate::bench::clear(&folder);
    Ok(ran?.sample())
}

/// Runs fio on a file that stays for the next round.
fn fio(bench: &Bench, options: &[&str]) -> Result<Sample, Failure> {
    let file = format!("--filename={}", rival_file(bench));
    let mut all = vec!["--rw=randread", "--bs=4k", "--direct=1", "--size=1g", &file];
    all.extend_from_slice(options);
    super::rivals::fio(&all, bench.options.seconds)
}

fn rival_file(bench: &Bench) -> String {
    bench.options.dir.join("rivals.data").display().to_string()
}

fn deep(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let path = rival_file(bench);
    let mut players: Vec<Player<'_>> = vec![
        ("plimsoll, depth 32", Box::new(|| ours(bench, 32))),
        (
            "fio, depth 32",
            Box::new(|| fio(bench, &["--ioengine=io_uring", "--iodepth=32"])),
        ),
    ];
    if let Some(rival) = &bench.t_io_uring {
        // fio makes the file that it reads.
        fio(bench, &["--ioengine=psync", "--number_ios=1"])?;
        // As plimsoll does it, every end is seen at once; then as it is cheapest, where the first of
        // eight ends waits for the last.
        for (name, submit, complete) in [
            ("t/io_uring, depth 32", "-s16", "-c1"),
            ("t/io_uring, depth 32, by 8", "-s8", "-c8"),
        ] {
            let options = ["-d32", submit, complete, "-p0", "-n1", path.as_str()];
            let play = move || rival.run(&options, bench.options.seconds);
            players.push((name, Box::new(play)));
        }
    }
    let samples = bench.rounds(&players)?;
    let (ours, fio) = (&samples[0], &samples[1]);
    let mut rows = vec![
        Row::of(
            "depth 32: plimsoll, outside the kernel, us",
            ours,
            outside_us,
            Gate::AtMost(0.1),
        ),
        Row::of("depth 32: plimsoll, all CPU, us", ours, cpu_us, Gate::None),
        Row::of("depth 32: fio, user CPU, us", fio, user_us, Gate::None),
        Row::of("depth 32: fio, all CPU, us", fio, cpu_us, Gate::None),
        Row::ratio(
            "depth 32: outside / fio's user CPU",
            ours,
            fio,
            |sample| {
                sample
                    .outside_ns
                    .map_or(sample.user_ns(), |ns| ns / sample.ops)
            },
            Gate::AtMost(0.15),
        ),
        Row::ratio(
            "depth 32: all CPU / fio",
            ours,
            fio,
            Sample::cpu_ns,
            Gate::AtMost(0.7),
        ),
        Row::ratio(
            "depth 32: IOPS / fio",
            ours,
            fio,
            Sample::per_second,
            Gate::AtLeast(0.95),
        ),
    ];
    for (index, what, gate) in [
        (2, "depth 32: all CPU / t/io_uring", Gate::AtMost(1.1)),
        (3, "depth 32: all CPU / t/io_uring by 8", Gate::None),
    ] {
        rows.push(match samples.get(index) {
            Some(bare) => Row::ratio(what, ours, bare, Sample::cpu_ns, gate),
            None => Row::absent(what, NO_T_IO_URING),
        });
    }
    Ok(rows)
}

fn shallow(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let players: [Player<'_>; 2] = [
        ("plimsoll, depth 1", Box::new(|| ours(bench, 1))),
        ("fio psync", Box::new(|| fio(bench, &["--ioengine=psync"]))),
    ];
    let samples = bench.rounds(&players)?;
    let _ = std::fs::remove_file(rival_file(bench));
    let (ours, fio) = (&samples[0], &samples[1]);
    Ok(vec![
        Row::of(
            "depth 1: plimsoll, outside the kernel, us",
            ours,
            outside_us,
            Gate::None,
        ),
        Row::of("depth 1: plimsoll, all CPU, us", ours, cpu_us, Gate::None),
        Row::of("depth 1: fio psync, all CPU, us", fio, cpu_us, Gate::None),
        Row::ratio(
            "depth 1: all CPU / fio psync",
            ours,
            fio,
            Sample::cpu_ns,
            Gate::AtMost(1.0),
        ),
        Row::ratio(
            "depth 1: IOPS / fio psync",
            ours,
            fio,
            Sample::per_second,
            Gate::AtLeast(0.95),
        ),
    ])
}
