// SPDX-License-Identifier: Apache-2.0
//! Job files and what becomes of them.

use super::*;
use plimsoll_core::syncs::{SyncKind, SyncPolicy};
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoFinalOp, BlockIoMixEntry, BlockIoOffsetSharing,
    BlockIoOpKind, BlockIoPacing, BlockIoRegion, BlockIoStopCondition,
};

fn group(options: &str) -> BlockIoGroup {
    match job("j", &format!("[a]\nsize=1m\n{options}\n"))
        .unwrap()
        .workload
    {
        Workload::Blocks(blocks) => blocks.groups[0].clone(),
        other => panic!("{other:?}"),
    }
}

fn turn(kind: BlockIoOpKind, bytes: u32, weight: f64) -> BlockIoMixEntry {
    BlockIoMixEntry {
        kind,
        bytes,
        weight,
    }
}

#[test]
fn defaults_are_those_of_fio() {
    let expect = BlockIoGroup {
        name: "a".into(),
        extent: BlockIoExtent {
            file: "a".into(),
            shared: false,
            bytes: 1 << 20,
            ..BlockIoExtent::default()
        },
        mix: vec![turn(BlockIoOpKind::Read, 4096, 100.0)],
        offsets: OffsetPattern::Sequential,
        direct: false,
        work: BlockIoStopCondition::Pass,
        batch: 1,
        ..BlockIoGroup::default()
    };
    assert_eq!(group(""), expect);
}

#[test]
fn access_patterns_become_offsets() {
    for (options, expect) in [
        ("rw=randread", OffsetPattern::Permutation),
        ("rw=randread\nnorandommap", OffsetPattern::Uniform),
        ("rw=write", OffsetPattern::Sequential),
        ("rw=randwrite:8", OffsetPattern::Runs { blocks: 8 }),
        (
            "rw=read:12k",
            OffsetPattern::Strided {
                stride_bytes: 16_384,
            },
        ),
        (
            "rw=randrw\npercentage_random=25",
            OffsetPattern::Runs { blocks: 4 },
        ),
        ("rw=read:-8k", OffsetPattern::Backward),
        (
            "rw=randread\nrandom_distribution=zipf:1.2",
            OffsetPattern::Zipf { exponent: 1.2 },
        ),
        (
            "rw=randread\nrandom_distribution=zoned:90/10:10/90",
            OffsetPattern::Zones(vec![
                plimsoll_core::offsets::OffsetZone {
                    access: 90.0,
                    size: 10.0,
                },
                plimsoll_core::offsets::OffsetZone {
                    access: 10.0,
                    size: 90.0,
                },
            ]),
        ),
        (
            "rw=randread\nrandom_distribution=zoned:50/5:30/15:20/",
            OffsetPattern::Zones(
                [(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]
                    .map(|(access, size)| plimsoll_core::offsets::OffsetZone { access, size })
                    .into(),
            ),
        ),
    ] {
        assert_eq!(group(options).offsets, expect, "{options}");
    }
}

#[test]
fn mixes_have_kinds_and_sizes() {
    use BlockIoOpKind::{Discard, Read, Write};
    for (options, expect) in [
        (
            "rw=randrw\nrwmixread=70",
            vec![turn(Read, 4096, 70.0), turn(Write, 4096, 30.0)],
        ),
        (
            "rw=rw\nbs=4k,64k",
            vec![turn(Read, 4096, 50.0), turn(Write, 65_536, 50.0)],
        ),
        ("rw=randtrim\nbs=1m", vec![turn(Discard, 1 << 20, 100.0)]),
        (
            "rw=randrw\nrwmixwrite=50\nbssplit=4k/60:64k/40,8k/100",
            vec![
                turn(Read, 4096, 30.0),
                turn(Read, 65_536, 20.0),
                turn(Write, 8192, 50.0),
            ],
        ),
        (
            "rw=randread\nbsrange=4k-12k",
            vec![
                turn(Read, 4096, 100.0 / 3.0),
                turn(Read, 8192, 100.0 / 3.0),
                turn(Read, 12_288, 100.0 / 3.0),
            ],
        ),
        ("bsrange=8k-8k", vec![turn(Read, 8192, 100.0)]),
        // fio cuts sizes to multiples of the smallest.
        (
            "bssplit=4k/50:6k/30:8k/20",
            vec![turn(Read, 4096, 80.0), turn(Read, 8192, 20.0)],
        ),
        (
            "rw=randrw\nrate_iops=300,100",
            vec![turn(Read, 4096, 300.0), turn(Write, 4096, 100.0)],
        ),
    ] {
        assert_eq!(group(options).mix, expect, "{options}");
    }
}

#[test]
fn paces_are_of_the_whole_group() {
    let paced = |per_s| BlockIoPacing::Open(ArrivalProcess::Paced { per_s });
    for (options, expect) in [
        ("rate_iops=100\nnumjobs=4", paced(400.0)),
        ("rate=1m\nbs=4k", paced(256.0)),
        ("rw=randrw\nrate_iops=300,100", paced(400.0)),
        ("rw=write\nrate_iops=300,100", paced(100.0)),
        (
            "rate_iops=2k\nrate_process=poisson",
            BlockIoPacing::Open(ArrivalProcess::Poisson { per_s: 2048.0 }),
        ),
        (
            "thinktime=500\nthinktime_blocks=8",
            BlockIoPacing::Closed {
                think: Nanos(500_000),
                every: 8,
                drains: false,
            },
        ),
    ] {
        assert_eq!(group(options).pace, expect, "{options}");
    }
}

#[test]
fn work_ends_after_the_bytes_that_fio_would_move() {
    for (options, expect) in [
        ("", BlockIoStopCondition::Pass),
        ("io_size=64k", BlockIoStopCondition::Each(16)),
        ("loops=3", BlockIoStopCondition::Each(768)),
        ("bssplit=4k/50:12k/50", BlockIoStopCondition::Bytes(1 << 20)),
        (
            "bs=4k,64k\nrw=randrw\nloops=2",
            BlockIoStopCondition::Bytes(2 << 20),
        ),
        ("rw=read:12k", BlockIoStopCondition::Each(256)),
    ] {
        assert_eq!(group(options).work, expect, "{options}");
    }
}

#[test]
fn the_rest_is_carried_over() {
    let it = group(
        "rw=write\nnumjobs=4\niodepth=8\nioengine=io_uring\ndirect=1\nfdatasync=16\nend_fsync=1\n\
         buffer_compress_percentage=30\ndedupe_percentage=10\nfilename=f\noffset_increment=1m\nstartdelay=2",
    );
    let syncs = SyncPolicy {
        every: 16,
        with: SyncKind::Fdatasync,
        each_write: false,
    };
    assert_eq!(
        (it.workers, it.depth, it.direct, it.syncs),
        (4, 8, true, syncs)
    );
    assert_eq!(
        (it.finish, it.delay),
        (vec![BlockIoFinalOp::Fsync], Nanos(2_000_000_000))
    );
    assert!((it.content.compressible - 0.3).abs() < 1e-9);
    assert!((it.content.duplicate - 0.1).abs() < 1e-9);
    let extent = BlockIoExtent {
        file: "f".into(),
        shared: true,
        bytes: 4 << 20,
        region: BlockIoRegion::Part,
        made: BlockIoFileCreation::During,
    };
    assert_eq!(it.extent, extent);
}

#[test]
fn walls_and_times_make_phases() {
    let text = "[global]\nsize=1m\nfilename=x\n[lay]\nrw=write\n[read]\nstonewall\nrw=randread\nruntime=5\n\
                time_based\n[also]\nrw=randread\nruntime=5\ntime_based\n";
    let Workload::Series(series) = job("j", text).unwrap().workload else {
        panic!("phases were asked for");
    };
    let told: Vec<_> = series
        .phases
        .iter()
        .map(|p| (p.name.as_str(), p.limit, p.metric, p.cold))
        .collect();
    assert_eq!(
        told,
        [
            ("lay", None, ComparisonMetric::BytesPerSecond, true),
            (
                "read + also",
                Some(Nanos(5_000_000_000)),
                ComparisonMetric::OpsPerSecond,
                true
            )
        ]
    );
    let PhaseWorkload::Blocks(blocks) = &series.phases[1].body else {
        panic!("a job is block I/O");
    };
    assert!(
        blocks
            .groups
            .iter()
            .all(|g| g.work == BlockIoStopCondition::Time
                && g.extent.made == BlockIoFileCreation::Earlier)
    );
    let text = "[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n[a]\nsize=1m\n";
    let Workload::Series(series) = job("j", text).unwrap().workload else {
        panic!("phases were asked for");
    };
    let names: Vec<&str> = series.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "b + a 2"]);
}

#[test]
fn what_cannot_be_done_is_named_with_its_line() {
    for (options, word) in [
        ("nonsense=1", "not supported"),
        ("iodeph=3", "did you mean 'iodepth'"),
        ("ramp_time=5", "no warm-up"),
        ("rate_iops=0.5", "expected an integer"),
        ("rw=randrw\nrate_iops=1.5,2", "expected an integer"),
        ("rw=trimwrite", "expected one of"),
        ("bs=0", "from 1 byte"),
        ("bssplit=4k/30", "add up"),
        ("filename=/dev/sdb", "command line"),
        ("rw=randrw\nrate_iops=100", "READ,WRITE"),
        ("time_based", "runtime"),
        ("rw=randread\nrandom_distribution=pareto:0.9", "zipf"),
        (
            "rw=randread\nrandom_distribution=zoned:50/50",
            "100 percent",
        ),
        ("ioengine=rbd", "expected one of"),
        ("rw=read:-4k", "rw=read:-8k"),
        ("iodepth_batch_complete_min=4", "as they end"),
        ("bs=4k\nblockalign=8k", "smallest block"),
        ("bsrange=64k-4k", "smaller size"),
        ("bsrange=512-1m", "bssplit"),
        ("nrfiles=4", "one file"),
        ("filesize=2m", "io_size"),
        (
            "bs=512\nloops=1000000000\nio_size=1t",
            "more work than a job",
        ),
        ("offset_increment=1m", "filename"),
        ("size=50%", "share of the device"),
    ] {
        let text = format!("[a]\nsize=1m\n{options}\n");
        let error = job("j", &text).unwrap_err().to_string();
        assert!(error.starts_with("line "), "{error}");
        assert!(error.contains(word), "{options}: {error}");
    }
    let error = job("j", "[a]\nrw=read\n").unwrap_err().to_string();
    assert!(error.contains("size="), "{error}");
    let text = "[a]\nsize=1m\nruntime=3\n[b]\nsize=1m\nruntime=4\n";
    assert!(job("j", text).unwrap_err().to_string().contains("line 4"));
}

#[test]
fn the_time_of_a_phase_counts_the_delays_of_its_jobs() {
    let timed = "size=1m\ntime_based\n";
    for (second, expect) in [
        ("startdelay=5\nruntime=2", Some(7_000_000_000)),
        ("startdelay=1\nruntime=6", Some(7_000_000_000)),
        ("runtime=2", None),
    ] {
        let text = format!("[a]\n{timed}startdelay=5\nruntime=2\n[b]\n{timed}{second}\n");
        let limit = job("j", &text).ok().map(|job| match job.workload {
            Workload::Series(series) => series.phases[0].limit.unwrap().0,
            other => panic!("{other:?}"),
        });
        assert_eq!(limit, expect, "{second}");
    }
}

#[test]
fn a_later_job_finds_the_file_large_enough() {
    for (first, second, fits) in [
        ("rw=write\nsize=1m", "rw=read\nsize=1m", true),
        ("rw=write\nsize=1m", "rw=read\nsize=2m", false),
        ("rw=read\nsize=1m", "rw=randrw\nsize=2m", false),
        ("rw=read\nsize=1m", "rw=write\nsize=2m", true),
    ] {
        let text = format!("[global]\nfilename=x\n[a]\n{first}\n[b]\nstonewall\n{second}\n");
        match job("j", &text) {
            Ok(_) => assert!(fits, "{first} {second}"),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !fits && error.contains("line 6"),
                    "{first} {second}: {error}"
                );
            }
        }
    }
}

#[test]
fn buffered_libaio_is_synchronous() {
    let uring = "ioengine=io_uring\niodepth=16";
    let aio = "ioengine=libaio\niodepth=16";
    assert_eq!(group(uring).depth, 16);
    assert_eq!(group(&format!("{aio}\ndirect=1")).depth, 16);
    assert_eq!(group(&format!("{aio}\nbuffered=0")).depth, 16);
    assert_eq!(group(aio).depth, 1);
    let notes = job("j", &format!("[a]\nsize=1m\n{aio}\n")).unwrap().notes;
    assert!(
        notes.iter().any(|note| note.contains("libaio")),
        "{notes:?}"
    );
}

#[test]
fn the_queue_runs_empty_for_a_thought() {
    let drains = |options: &str| match group(options).pace {
        BlockIoPacing::Closed { drains, .. } => drains,
        other => panic!("{other:?}"),
    };
    assert!(drains("ioengine=io_uring\niodepth=4\nthinktime=100"));
    assert!(!drains("iodepth=4\nthinktime=100"));
    assert!(!drains("ioengine=io_uring\niodepth=4"));
}

#[test]
fn operations_are_submitted_one_by_one_unless_asked_otherwise() {
    let deep = "ioengine=io_uring\niodepth=16";
    for (options, expect) in [
        ("", 1),
        ("iodepth_batch=4", 4),
        ("iodepth_batch_submit=99", 16),
        ("iodepth_batch=0", 16),
        (
            "iodepth_batch_complete_min=1\niodepth_batch_complete_max=8",
            1,
        ),
    ] {
        assert_eq!(
            group(&format!("{deep}\n{options}")).batch,
            expect,
            "{options}"
        );
    }
}

#[test]
fn each_pass_of_a_buffered_job_begins_cold() {
    let timed = "time_based\nruntime=5";
    let cold = |options: &str| {
        let text = format!("[a]\nsize=1m\n{options}\n");
        match job("j", &text).unwrap().workload {
            Workload::Blocks(blocks) => blocks.groups[0].cold_every_bytes,
            Workload::Series(series) => match &series.phases[0].body {
                PhaseWorkload::Blocks(blocks) => blocks.groups[0].cold_every_bytes,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    for (options, expect) in [
        ("", 0),
        ("loops=3", 1 << 20),
        (timed, 1 << 20),
        ("time_based\nruntime=5\nio_size=64k", 64 << 10),
        ("time_based\nruntime=5\ninvalidate=0", 0),
        ("time_based\nruntime=5\ndirect=1", 0),
    ] {
        assert_eq!(cold(options), expect, "{options}");
    }
}

#[test]
fn kinds_and_sizes_that_differ_have_places_of_their_own() {
    for (options, expect) in [
        ("rw=randrw", BlockIoOffsetSharing::Shared),
        ("rw=write", BlockIoOffsetSharing::Shared),
        ("rw=rw", BlockIoOffsetSharing::ByKind),
        ("rw=randrw\nbs=4k,16k", BlockIoOffsetSharing::ByKind),
        (
            "rw=randread\nbssplit=4k/50:64k/50",
            BlockIoOffsetSharing::ByKind,
        ),
    ] {
        assert_eq!(group(options).positions, expect, "{options}");
    }
    // A map of every block of a petabyte would need more than the machine has.
    let it = job("j", "[a]\nsize=1p\nrw=randread\nbssplit=4k/50:8k/50\n").unwrap();
    assert!(
        it.notes.iter().any(|note| note.contains("map")),
        "{:?}",
        it.notes
    );
}

/// Options that only shape fio's reports, or where it would run, are no reason to refuse a job.
#[test]
fn options_that_change_no_number_are_taken() {
    let plain = group("");
    for options in [
        "directory=/mnt/elsewhere",
        "write_bw_log=x\nwrite_lat_log\nlog_avg_msec=500\nper_job_logs=0",
        "gtod_reduce=1",
        "ioengine=null",
        "blockalign=4k",
        "bsrange=4k-4k",
    ] {
        assert_eq!(group(options), plain, "{options}");
    }
}

#[test]
fn differences_from_fio_are_told() {
    for (options, word) in [
        ("iodepth=32", "iodepth"),
        ("directory=/mnt", "target"),
        ("ioengine=null", "null"),
        ("rw=randrw\nbs=4k,16k", "map of its own"),
        ("rw=randread\nrandom_distribution=zipf:1.2", "generator"),
        ("rate_iops=100", "due"),
        (
            "rate_iops=200\nbssplit=4k/50:64k/50",
            "blocks of the smallest",
        ),
        ("rate_iops=50k\nrate_process=poisson", "microseconds"),
        ("rw=randrw\nfsync=1", "syncs again"),
        ("rw=randwrite", "laid out"),
        ("rw=write", "grows"),
        ("rw=randwrite\nscramble_buffers=0", "scramble_buffers"),
        ("rw=randtrim", "hole"),
        ("rw=read:-8k", "last block"),
        ("sync=1\nrw=write", "O_DSYNC"),
    ] {
        let notes = job("j", &format!("[a]\nsize=1m\n{options}\n"))
            .unwrap()
            .notes;
        assert!(
            notes.iter().any(|note| note.contains(word)),
            "{options}: {notes:?}"
        );
    }
    for options in [
        "",
        "rw=rw\noverwrite=1",
        "rw=randread\nbssplit=4k/50:64k/50",
        "rw=randwrite\noverwrite=1",
    ] {
        let notes = job("j", &format!("[a]\nsize=1m\n{options}\n"))
            .unwrap()
            .notes;
        assert!(notes.is_empty(), "{options}: {notes:?}");
    }
}
