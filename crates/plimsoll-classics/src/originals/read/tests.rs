// SPDX-License-Identifier: Apache-2.0
//! Texts as the programs print them (shortened), and what is read from them.

use super::*;

fn told(text: &str) -> Vec<Vec<(String, ComparisonMetric, f64)>> {
    let format = ProgramOutputFormat::guess(text).expect("the text looks like one of the formats");
    let phases = |reading: ProgramOutputResult| {
        let one = |phase: PhaseResult| (phase.name, phase.metric, phase.value);
        reading.phases.into_iter().map(one).collect()
    };
    read(format, text)
        .unwrap()
        .into_iter()
        .map(phases)
        .collect()
}

fn figures(text: &str) -> Vec<(String, f64)> {
    let first = told(text).swap_remove(0);
    first
        .into_iter()
        .map(|(name, _, value)| (name, value))
        .collect()
}

fn named(list: &[(&str, f64)]) -> Vec<(String, f64)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

const FIO: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{ "fio version": "fio-3.33", "global options": {},
  "jobs": [ { "jobname": "x", "error": 0, "job options": {"rw": "randrw"}, "job_runtime": 1000,
    "usr_cpu": 10.0, "sys_cpu": 20.0,
    "read": { "total_ios": 3, "io_bytes": 12288, "iops": 3.0, "runtime": 1000,
      "lat_ns": {"N": 3},
      "clat_ns": { "min": 1000, "max": 5000, "mean": 2500.0, "N": 3,
        "bins": { "1000": 1, "1500": 1, "5000": 1 } } },
    "write": { "total_ios": 1, "io_bytes": 4096, "iops": 1.0, "runtime": 1000, "lat_ns": {"N": 1} },
    "trim": { "total_ios": 0 },
    "sync": { "total_ios": 0 } } ] }
"#;

#[test]
fn fio_tells_directions_and_distributions() {
    assert_eq!(figures(FIO), named(&[("x: read", 3.0), ("x: write", 1.0)]));
    let reading = read(ProgramOutputFormat::Fio, FIO).unwrap().swap_remove(0);
    let stats = &reading.phases[0].stats.0[&OpKind::Read];
    assert_eq!((stats.ops(), stats.bytes, stats.errors), (3, 12_288, 0));
    assert_eq!(
        (stats.service.max_ns(), stats.service.sum_ns()),
        (5_000, 7_500)
    );
    assert_eq!(stats.response, stats.service);
    // A quarter of the operations is a quarter of the processor's second.
    assert_eq!(reading.phases[1].system_cpu_ns, 50_000_000);
    let rated = FIO.replace("\"rw\": \"randrw\"", "\"rate_iops\": \"3\"");
    let reading = read(ProgramOutputFormat::Fio, &rated)
        .unwrap()
        .swap_remove(0);
    assert!(reading.phases[0].stats.0[&OpKind::Read].response.is_empty());
    assert!(reading.notes[0].contains("no response time"));
    assert_eq!(told(&FIO.repeat(3)).len(), 3);
    for bytes in ["18446744073709551615", "1e300"] {
        let damaged = FIO.replace("12288", bytes);
        let error = read(ProgramOutputFormat::Fio, &damaged)
            .unwrap_err()
            .to_string();
        assert!(error.contains("io_bytes of read"), "{error}");
    }
}

/// fio 3.1 to 3.16 tell no number of times, and 3.1 no runtime of a job.
#[test]
fn early_fio_3_tells_times_without_their_number() {
    let early = FIO
        .replace(
            "\"N\": 3,\n        \"bins\": { \"1000\": 1, \"1500\": 1, \"5000\": 1 }",
            "\"percentile\": { \"50.0\": 1500, \"99.0\": 5000 }",
        )
        .replace("{\"N\": 3}", "{\"mean\": 2600.0, \"max\": 5100}")
        .replace("{\"N\": 1}", "{\"mean\": 0.0, \"max\": 0}")
        .replace("\"job_runtime\": 1000,", "");
    assert!(
        early.contains("99.0") && !early.contains("\"N\""),
        "{early}"
    );
    let reading = read(ProgramOutputFormat::Fio, &early)
        .unwrap()
        .swap_remove(0);
    let reads = &reading.phases[0].stats.0[&OpKind::Read];
    assert_eq!(
        (reads.ops(), reads.service.max_ns(), reads.service.sum_ns()),
        (3, 5_000, 7_500)
    );
    assert!((5_000..5_100).contains(&reads.response.quantile_ns(0.99)));
    // Three quarters of the operations, of a fifth of a second.
    assert_eq!(reading.phases[0].system_cpu_ns, 150_000_000);
    // Response times that were not measured are absent, not 0.
    assert!(
        reading.phases[1].stats.0[&OpKind::Write]
            .response
            .is_empty()
    );
}

#[test]
fn syncs_of_a_job_are_no_writes() {
    let synced = FIO.replace(
        "\"sync\": { \"total_ios\": 0 }",
        "\"sync\": { \"total_ios\": 2, \"lat_ns\": { \"N\": 2, \"mean\": 9000.0, \"min\": 8000, \"max\": 10000 } }",
    );
    let expect = named(&[("x: read", 3.0), ("x: write", 1.0), ("x: sync", 2.0)]);
    assert_eq!(figures(&synced), expect);
    let reading = read(ProgramOutputFormat::Fio, &synced)
        .unwrap()
        .swap_remove(0);
    let kinds: Vec<Vec<OpKind>> = reading
        .phases
        .iter()
        .map(|p| p.stats.0.keys().copied().collect())
        .collect();
    assert_eq!(kinds, [[OpKind::Read], [OpKind::Write], [OpKind::Fsync]]);
    assert_eq!(reading.phases[2].stats.response().max_ns(), 10_000);
    assert_eq!(reading.phases[2].wall, Nanos::SECOND);
}

#[test]
fn other_forms_of_fio_are_refused_with_what_can_be_read() {
    let terse = "3;fio-3.33;x;0;0;4096;40960;10240;100;0;0;0.0;0.0\n";
    let five = "fio: a warning\n5;fio-3.42;x;0;0;4096;40960;10240;100\n";
    let normal = "x: (g=0): rw=read, bs=(R) 4096B-4096B\nfio-3.33\n\nx: (groupid=0, jobs=1): err= 0: pid=7\n  read: IOPS=10, BW=40KiB/s\n";
    for (text, word) in [(terse, "terse"), (five, "terse"), (normal, "normal")] {
        assert_eq!(
            ProgramOutputFormat::guess(text),
            Some(ProgramOutputFormat::Fio),
            "{text}"
        );
        let error = read(ProgramOutputFormat::Fio, text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(word) && error.contains("--output-format=json"),
            "{error}"
        );
    }
    assert_eq!(ProgramOutputFormat::guess("1;2;3\n"), None);
}

#[test]
fn bonnie_goes_by_its_format_version() {
    let numbers = "100,9,2048,50,1024,40,300,8,4096,60,512.5,7";
    let files = "1000,20,+++++,+++,3000,30,,,5000,50,6000,60";
    let service = "1us,2us,3us,4us,5us,6us,7us,8us,9us,10us,11us,12us";
    let header =
        "format_version,bonnie_version,name,concurrency,seed,file_size,io_chunk_size,putc\n";
    let expect = named(&[
        ("putc", 102_400.0),
        ("put_block", 2_097_152.0),
        ("rewrite", 1_048_576.0),
        ("getc", 307_200.0),
        ("get_block", 4_194_304.0),
        ("seeks", 512.5),
        ("seq_create", 1000.0),
        ("seq_del", 3000.0),
        ("ran_stat", 5000.0),
        ("ran_del", 6000.0),
    ]);
    for version in ["1.96,1.96", "1.97,1.97", "1.98,2.00a"] {
        let seeks = if version.starts_with("1.98") {
            "8192,5,"
        } else {
            ""
        };
        let line = format!("{version},host,1,42,64M,,{seeks}{numbers},16,,,,,{files},{service}\n");
        let text = format!("{header}{line}{line}");
        assert_eq!(figures(&text), expect, "{version}");
        let readings = read(ProgramOutputFormat::Bonnie, &text).unwrap();
        assert_eq!((readings.len(), readings[0].host.as_str()), (2, "host"));
        let block = &readings[0].phases[1];
        // 64 MiB at 2 MiB/s, half of a processor.
        assert_eq!(
            (block.wall.0, block.system_cpu_ns),
            (32_000_000_000, 16_000_000_000)
        );
        let longest = |at: usize| readings[0].phases[at].stats.response().max_ns();
        assert_eq!((longest(1), longest(9)), (2_000, 12_000), "{version}");
        assert_eq!(readings[0].phases[9].stats.ops(), 0);
        assert!(
            readings[0].notes[0].starts_with("seq_stat took less"),
            "{version}"
        );
    }
}

#[test]
fn plain_fio_tells_counts_means_and_percentiles() {
    let plain = FIO
        .replace(
            "\"bins\": { \"1000\": 1, \"1500\": 1, \"5000\": 1 }",
            "\"percentile\": { \"30.0\": 1000, \"60.000000\": 1500 }",
        )
        .replace(
            "\"lat_ns\": {\"N\": 1}",
            "\"lat_ns\": {\"N\": 1, \"mean\": 700, \"min\": 700, \"max\": 700}",
        );
    let reading = read(ProgramOutputFormat::Fio, &plain)
        .unwrap()
        .swap_remove(0);
    let stats = &reading.phases[0].stats.0[&OpKind::Read];
    assert_eq!((stats.ops(), stats.service.sum_ns()), (3, 7_500));
    assert_eq!(
        (stats.service.min_ns(), stats.service.max_ns()),
        (1_000, 5_000)
    );
    assert!((1_500..1_524).contains(&stats.service.quantile_ns(0.5)));
    let writes = &reading.phases[1].stats.0[&OpKind::Write];
    assert_eq!((writes.ops(), writes.service.max_ns()), (1, 700));
    assert!(
        reading
            .notes
            .iter()
            .any(|note| note.contains("percentiles"))
    );
}

#[test]
fn fio_jobs_that_ran_together_share_their_time() {
    let reading = |options: &str, groups: [u32; 2]| {
        let job = |name: &str, group: u32| {
            format!(
                "{{\"jobname\": \"{name}\", \"groupid\": {group}, \"job options\": {{{options}}}, \
                 \"read\": {{\"total_ios\": 1, \"runtime\": 1000, \"lat_ns\": {{}}}}, \
                 \"write\": {{\"total_ios\": 1, \"runtime\": 900, \"lat_ns\": {{}}}}}}"
            )
        };
        let jobs = [job("a", groups[0]), job("b", groups[1])].join(",");
        let text = format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{jobs}]}}");
        read(ProgramOutputFormat::Fio, &text)
            .unwrap()
            .swap_remove(0)
    };
    for (options, groups, expect_s) in [
        ("", [0, 0], 1),
        ("\"stonewall\": \"1\"", [0, 1], 2),
        ("\"stonewall\": \"1\"", [0, 0], 1),
        ("\"new_group\": \"1\"", [0, 1], 1),
    ] {
        let length = reading(options, groups).length();
        assert_eq!(
            length,
            Nanos(expect_s * 1_000_000_000),
            "{options} {groups:?}"
        );
    }
}

#[test]
fn iozone_tells_children_and_parent() {
    let text = "\tRun began: Sat\n\tOutput is in kBytes/sec\n\
        \tChildren see throughput for  2 initial writers \t=  1024.00 kB/sec\n\
        \tParent sees throughput for  2 initial writers \t=   512.00 kB/sec\n\
        \tMin throughput per process \t\t\t=  500.00 kB/sec\n\
        \tChildren see throughput for 2 readers\t\t=     2.00 MB/sec\n\
        \tChildren see throughput for 2 random readers\t=   77.50 ops/sec\n";
    let expect = named(&[
        ("2 initial writers", 1_048_576.0),
        ("2 initial writers (parent)", 524_288.0),
        ("2 readers", 2_097_152.0),
        ("2 random readers", 77.5),
    ]);
    assert_eq!(figures(text), expect);
    assert_eq!(told(&text.repeat(2)).len(), 2);
}

#[test]
fn filebench_tells_its_summary_and_operations() {
    for text in [
        "61.0: Per-Operation Breakdown\n\
         closefile4           1200ops       20ops/s   0.0mb/s      0.0ms/op [0.002ms - 0.1ms]\n\
         fsyncfile2           600ops        10ops/s   0.0mb/s     12.0ms/op [1.0ms - 99.1ms]\n\
         61.0: IO Summary: 1800 ops 30.000 ops/s 10/20 rd/wr   7.6mb/s   1.9ms/op\n",
        " 61.0: Per-Operation Breakdown\n\
         closefile4 1200ops 20ops/s 0.0mb/s 0.0ms/op 12us/op-cpu\n\
         fsyncfile2 600ops 10ops/s 0.0mb/s 12.0ms/op 40us/op-cpu\n\
         61.0: IO Summary: 1800 ops, 30.000 ops/s, (10/20 r/w), 7.6mb/s, 500us cpu/op, 1.9ms\n",
    ] {
        let expect = named(&[
            ("IO Summary", 30.0),
            ("closefile4", 20.0),
            ("fsyncfile2", 10.0),
        ]);
        assert_eq!(figures(text), expect);
        let reading = read(ProgramOutputFormat::Filebench, text)
            .unwrap()
            .swap_remove(0);
        assert_eq!(reading.phases[0].wall, Nanos(60_000_000_000));
        assert!(
            reading.notes[0].contains("fsyncfile2 12"),
            "{:?}",
            reading.notes
        );
    }
}

#[test]
fn operations_of_filebench_have_the_length_of_the_run_and_no_rounded_rate() {
    let text = "5.300: Per-Operation Breakdown\n\
        newvid    5ops        1ops/s   0.0mb/s      0.5ms/op [0.002ms - 0.1ms]\n\
        serving   2120ops      400ops/s  99.9mb/s      3.1ms/op [0.002ms - 0.1ms]\n\
        5.300: IO Summary:  2125 ops 400.943 ops/s 400/0 rd/wr  99.9mb/s 3.100ms/op\n";
    let reading = read(ProgramOutputFormat::Filebench, text)
        .unwrap()
        .swap_remove(0);
    let [_, newvid, serving] = &reading.phases[..] else {
        panic!("{:?}", reading.phases);
    };
    assert!((newvid.value - 5.0 / 5.3).abs() < 1e-4, "{}", newvid.value);
    for phase in [newvid, serving] {
        let seconds = phase.wall.as_secs_f64();
        assert!((seconds - 5.3).abs() < 1e-4, "{}: {seconds}", phase.name);
    }
}

#[test]
fn a_rate_without_an_amount_keeps_its_processor_time() {
    // putc and getc say 54 and 51 percent, and not how much they moved.
    let line = "1.98,2.00a,host,1,1,64M,,8192,5,400,54,90000,20,50000,10,300,51,90000,20,5000,10,,,,,,,,,,,,,,,,,,\
        10us,10us,10us,10us,10us,10us,,,,,,";
    let reading = read(ProgramOutputFormat::Bonnie, line)
        .unwrap()
        .swap_remove(0);
    for (name, percent) in [("putc", 0.54), ("getc", 0.51)] {
        let phase = reading
            .phases
            .iter()
            .find(|phase| phase.name == name)
            .unwrap();
        let share = phase.system_cpu_ns as f64 / phase.wall.0 as f64;
        assert!((share - percent).abs() < 1e-6, "{name}: {share}");
    }
    let told = reading.notes.iter().any(|note| note.contains("putc, getc"));
    assert!(told, "{:?}", reading.notes);
}

#[test]
fn what_iozone_prints_of_a_single_file_is_named() {
    let text = "\tCommand line used: iozone -a\n\
        random    random     bkwd\n\
        kB  reclen    write  rewrite    read    reread    read     write\n\
        64       4   372517   1279447  2203800  3203069 2467108  1279447\n";
    assert_eq!(
        ProgramOutputFormat::guess(text),
        Some(ProgramOutputFormat::Iozone)
    );
    let error = read(ProgramOutputFormat::Iozone, text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("-t"), "{error}");
}

#[test]
fn sgpdd_tells_cells_in_both_forms() {
    let mib = 1_048_576.0;
    for text in [
        "Sat sgpdd-survey on /dev/sdb from host\n\
         dev  1 sz  1048576K rsz 1024K crg     4 thr     8 write  128.00 [  30.00,  33.50] read  256.00 [  60.0,  65.1] \n",
        "total_size  1048576K rsz 1024 crg     4 thr     8 write  128.00 MB/s     4 x  30.00 =  120.00 MB/s read  256.00 MB/s     4 x  60.00 =  240.00 MB/s\n",
    ] {
        let expect = named(&[
            ("rsz 1024 crg 4 thr 8 write", 128.0 * mib),
            ("rsz 1024 crg 4 thr 8 read", 256.0 * mib),
        ]);
        assert_eq!(figures(text), expect);
        let reading = read(ProgramOutputFormat::Sgpdd, text)
            .unwrap()
            .swap_remove(0);
        assert_eq!(reading.phases[0].wall, Nanos(8_000_000_000));
    }
    let failed =
        "dev 1 sz 1048576K rsz 1024K crg 4 thr 8 write 2 failed read 256.00 [ 60.0, 65.1]\n";
    let reading = read(ProgramOutputFormat::Sgpdd, failed)
        .unwrap()
        .swap_remove(0);
    assert_eq!(reading.phases.len(), 1);
    assert!(reading.notes[0].contains("2 transfers failed"));
}

#[test]
fn damaged_outputs_are_refused_with_a_reason() {
    for (format, text, word) in [
        (ProgramOutputFormat::Fio, "nothing", "no result"),
        (ProgramOutputFormat::Fio, "\n\n{\"jobs\": [", "line 3"),
        (ProgramOutputFormat::Fio, "{\"jobs\": []}", "fio version"),
        (
            ProgramOutputFormat::Fio,
            "{\"fio version\": \"fio-3.33\", \"jobs\": []}",
            "moved",
        ),
        (
            ProgramOutputFormat::Fio,
            "{\"fio version\": \"fio-2.1\", \"jobs\": [{\"jobname\": \"a\", \"read\": {\"total_ios\": 1}}]}",
            "older than fio 3.0",
        ),
        (
            ProgramOutputFormat::Fio,
            &FIO.replace("\"iops\": 3.0", "\"iops\": 1e308"),
            "'x: read' has a rate",
        ),
        (
            ProgramOutputFormat::Fio,
            &FIO.replace("\"runtime\": 1000", "\"runtime\": 1e13"),
            "time above",
        ),
        (
            ProgramOutputFormat::Bonnie,
            "1.97,1.97,h,1\n",
            "line 1: it has 4 fields",
        ),
        (ProgramOutputFormat::Bonnie, "2.03,x", "format version"),
        (
            ProgramOutputFormat::Iozone,
            "x\nChildren see throughput for 2 readers = soon\n",
            "line 2",
        ),
        (ProgramOutputFormat::Iozone, "", "no result"),
        (
            ProgramOutputFormat::Filebench,
            "IO Summary: many ops\n",
            "line 1",
        ),
        (ProgramOutputFormat::Filebench, "stop", "did not end"),
        (
            ProgramOutputFormat::Sgpdd,
            "sz 1K rsz 1 crg 1 thr x write 3\n",
            "after thr",
        ),
        (
            ProgramOutputFormat::Sgpdd,
            "sz 1K rsz 1 crg 1 thr 1 write x\n",
            "not a rate",
        ),
    ] {
        let error = read(format, text).unwrap_err().to_string();
        assert!(error.starts_with("invalid output of "), "{error}");
        assert!(error.contains(word), "{text}: {error}");
    }
    assert_eq!(ProgramOutputFormat::guess("anything else"), None);
}

const WARP: &str = "\
idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\tcat
0\t0\tPUT\tab\t1\t1000000\thttp://a\to\t\t2020-02-06T10:00:00Z\t\t2020-02-06T10:00:01Z\t1000000000\t0
1\t1\tPUT\tab\t1\t1000000\thttp://a\to\t\t2020-02-06T11:00:01+01:00\t\t2020-02-06T10:00:02Z\t1000000000\t0
2\t0\tGET\tab\t1\t1000000\thttp://a\to\t\t2020-02-06T10:00:02Z\t2020-02-06T10:00:02Z\t2020-02-06T10:00:04Z\t2000000000\t0
3\t1\tGET\tab\t1\t0\thttp://b\to\t\"no\tsuch\"\t2020-02-06T10:00:02Z\t\t2020-02-06T10:00:04Z\t500000000\t0
4\t1\tDELETE\tab\t4\t0\thttp://b\t\t\t2020-02-06T10:00:04Z\t\t2020-02-06T10:00:05Z\t1000000000\t0
";

#[test]
fn every_operation_of_warp_counts() {
    let expect = named(&[("DELETE", 1.0), ("GET", 500_000.0), ("PUT", 1_000_000.0)]);
    assert_eq!(figures(WARP), expect);
    let reading = read(ProgramOutputFormat::Warp, WARP)
        .unwrap()
        .swap_remove(0);
    let gets = &reading.phases[1].stats.0[&OpKind::ReadWhole];
    assert_eq!((gets.ops(), gets.bytes, gets.errors), (2, 1_000_000, 1));
    assert_eq!(gets.service.max_ns(), 2_000_000_000);
    assert_eq!(gets.response, gets.service);
    assert_eq!(reading.length(), Nanos(5_000_000_000));
    let notes = reading.notes.join("; ");
    for part in ["4 objects in 1 operations", "2 endpoints", "leaves out"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let sums = r#"{"v":2,"final":true,"total":{"total_requests":5},"by_op_type":{"GET":{"total_requests":5}}}"#;
    let format = ProgramOutputFormat::guess(sums);
    assert_eq!(format, Some(ProgramOutputFormat::Warp));
    let error = read(ProgramOutputFormat::Warp, sums).unwrap_err();
    assert!(error.to_string().contains("--full"), "{error}");
    let limited = format!("{WARP}# warp mixed --rps-limit=100\n");
    let reading = read(ProgramOutputFormat::Warp, &limited)
        .unwrap()
        .swap_remove(0);
    assert!(
        reading.phases[1].stats.0[&OpKind::ReadWhole]
            .response
            .is_empty()
    );
    for (from, to, part) in [
        (
            "\t2000000000\t",
            "\tlong\t",
            "line 4: invalid value 'long' for duration_ns",
        ),
        (
            "2020-02-06T10:00:04Z\t\t2020-02-06T10:00:05Z",
            "then\t\t",
            "line 6: invalid value 'then' for start",
        ),
        (
            "4\t1\tDELETE\t",
            "4\tDELETE\t",
            "line 6: it has 13 columns, and 14 are named",
        ),
    ] {
        let error = read(ProgramOutputFormat::Warp, &WARP.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn elbencho_tells_phases_and_what_differs_between_them() {
    let heading = "ISO date,label,hosts,threads,block size,operation,time ms [first],time ms [last],\
        entries/s [last],IOPS [last],MiB/s [first],MiB/s [last],MiB [last],IO lat us [min],IO lat us [avg],\
        IO lat us [max],rwmix read IOPS [last],rwmix read MiB/s [last],rwmix read MiB [last],version,command\n";
    let row = |threads: u32, operation: &str, mib: u32, reads: &str| {
        format!(
            "2026-01-02T03:04:05+0000,,1,{threads},1048576,{operation},1900,2000,10,{mib},9,{mib},{},70,900,\
             12000,{reads},3.0,\"elbencho\"\n",
            2 * mib
        )
    };
    let text = [
        heading,
        &row(4, "WRITE", 100, ",,"),
        &row(4, "READ", 300, ",,"),
    ]
    .concat();
    let expect = named(&[
        ("WRITE", 104_857_600.0),
        ("WRITE: I/Os", 100.0),
        ("WRITE: entries", 10.0),
        ("READ", 314_572_800.0),
        ("READ: I/Os", 300.0),
        ("READ: entries", 10.0),
    ]);
    assert_eq!(figures(&text), expect);
    let reading = read(ProgramOutputFormat::Elbencho, &text)
        .unwrap()
        .swap_remove(0);
    assert_eq!(reading.phases[0].wall, Nanos(2_000_000_000));
    assert_eq!(reading.phases[0].stats.0[&OpKind::Write].bytes, 209_715_200);
    let notes = reading.notes.join("; ");
    for part in ["last done", "whole MiB/s", "mean 900 us", "no distribution"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    // The same phases again are the next run; other settings are other phases.
    let again = [&text[..], &row(4, "WRITE", 101, ",,")].concat();
    assert_eq!(told(&again).len(), 2);
    let swept = [&text[..], &row(8, "WRITE", 101, ",,")].concat();
    let names: Vec<String> = figures(&swept).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"WRITE (threads=8)".to_owned()), "{names:?}");
    let mixed = [heading, &row(4, "RWMIX70", 30, "70,70,140")].concat();
    let mixed = figures(&mixed);
    assert!(
        mixed.contains(&("RWMIX70: READ: I/Os".into(), 70.0)),
        "{mixed:?}"
    );
    for (from, to, part) in [
        (
            ",1900,2000,",
            ",1900,soon,",
            "line 2: invalid value 'soon' for time ms [last]",
        ),
        (
            ",1900,2000,",
            ",1900,",
            "line 2: it has 20 columns, and 21 are named",
        ),
    ] {
        let error = read(ProgramOutputFormat::Elbencho, &text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn elbencho_tells_its_buckets_in_json() {
    let text = r#"{"phase_type":"READ","phase_id":"x","config":{"threads":"4","block_size":"4096"},
        "first_done":{"elapsed_time_ms":"900"},
        "last_done":{"elapsed_time_ms":"1000","iops":"3","bytes/s":"12288","bytes":"12288","cpu%":"1",
          "latency":{"IO":{"min_us":"60","avg_us":"100","max_us":"170",
            "histogram":[{"range":"53.8-64us","count":"2"},{"range":"152.2-181us","count":"1"}]}}}}
"#;
    let reading = read(ProgramOutputFormat::Elbencho, text)
        .unwrap()
        .swap_remove(0);
    assert_eq!(
        figures(text),
        named(&[("READ", 12_288.0), ("READ: I/Os", 3.0)])
    );
    let reads = &reading.phases[0].stats.0[&OpKind::Read];
    assert_eq!((reads.ops(), reads.bytes), (3, 12_288));
    // No time is above the largest, and the sum follows from the mean.
    assert_eq!(
        (reads.service.max_ns(), reads.service.sum_ns()),
        (170_000, 300_000)
    );
    assert_eq!(told(&text.repeat(3)).len(), 3);
    let cut = read(ProgramOutputFormat::Elbencho, &text[..text.len() - 4]).unwrap_err();
    assert!(
        cut.to_string().contains("not a whole JSON document"),
        "{cut}"
    );
}

#[test]
fn io500_tells_its_phases_and_what_it_calls_invalid() {
    let summary = "IO500 version io500-sc22 (standard)
[RESULT]       ior-easy-write        1.500000 GiB/s : time 301.500 seconds
[RESULT]    mdtest-easy-write       12.500000 kIOPS : time 300.100 seconds [INVALID]
[      ]            timestamp        0.000000 kIOPS : time 0.001 seconds
[RESULT]                 find        0.000000 kIOPS : time 0.000 seconds
[SCORE ] Bandwidth 1.500000 GiB/s : IOPS 12.500000 kiops : TOTAL 4.330127 [INVALID]
";
    let expect = named(&[
        ("ior-easy-write", 1_610_612_736.0),
        ("mdtest-easy-write", 12_500.0),
    ]);
    assert_eq!(figures(summary), expect);
    let reading = read(ProgramOutputFormat::Io500, summary)
        .unwrap()
        .swap_remove(0);
    assert_eq!(reading.phases[0].wall, Nanos(301_500_000_000));
    let notes = reading.notes.join("; ");
    for part in [
        "version io500-sc22",
        "calls mdtest-easy-write invalid",
        "find was not run",
        "score: Bandwidth 1.500000 GiB/s",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(told(&summary.repeat(2)).len(), 2);
    let old = "[RESULT] BW   phase 1            ior_easy_write                2.000 GB/s : time 310.00 seconds\n";
    assert_eq!(figures(old), named(&[("ior_easy_write", 2_147_483_648.0)]));
    let sections = "version         = io500-sc22
[ior-easy-write]
t_start         = 2022-11-01 10:00:00
score           = 1.500000
t_delta         = 301.5000
[timestamp]
t_delta         = 0.0010
[mdtest-easy-write]
score           = 12.500000 [INVALID]
t_delta         = 300.1000
[SCORE]
SCORE           = 4.330127  [INVALID]
";
    assert_eq!(figures(sections), expect);
    for (line, part) in [
        ("[RESULT] ior-easy-write 1.5 GiB/s", "line 1"),
        (
            "[RESULT] ior-easy-write much GiB/s : time 3 seconds",
            "line 1",
        ),
        (
            "[RESULT] ior-easy-write 1.5 furlongs : time 3 seconds",
            "line 1",
        ),
    ] {
        let error = read(ProgramOutputFormat::Io500, line).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
