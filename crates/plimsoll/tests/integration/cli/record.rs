// SPDX-License-Identifier: Apache-2.0
//! `plimsoll record` from the outside: what it writes is judged by PCP's own programs, and kept
//! when it is killed.

use crate::support::{Lab, Loop, pause, program, skipped, text};
use std::path::Path;
use std::process::Child;

/// The disk that the kernel has counted most of, so that something may happen on it. What lies on
/// disks is recorded under other names.
fn busiest_disk() -> Option<String> {
    let statistics = std::fs::read_to_string("/proc/diskstats").ok()?;
    let is_disk = |name: &str| {
        let is_whole = Path::new("/sys/block").join(name).exists();
        is_whole && !["dm-", "md"].iter().any(|above| name.starts_with(above))
    };
    let rows = statistics.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !is_disk(words[2]) {
            return None;
        }
        let (reads, writes): (u64, u64) = (words[3].parse().ok()?, words[7].parse().ok()?);
        Some((reads + writes, words[2].to_owned()))
    });
    rows.max()
        .filter(|(count, _)| *count > 0)
        .map(|(_, name)| name)
}

/// Looks every 50 ms, five minutes long: only what hangs is ended by it.
const LOOKS_MAX: u32 = 6_000;

/// Waits until the recorder has written some samples of a disk.
fn wait_for_samples(volume: &Path) {
    for _ in 0..LOOKS_MAX {
        if volume.metadata().is_ok_and(|data| data.len() > 4096) {
            return;
        }
        pause(50);
    }
    panic!("nothing was recorded into {}", volume.display());
}

/// Waits until a file has grown by `bytes` over its length `from`.
fn wait_for_growth(file: &Path, from: u64, bytes: u64) {
    for _ in 0..LOOKS_MAX {
        if length(file) >= from + bytes {
            return;
        }
        pause(50);
    }
    panic!("{} has not grown by {bytes} B", file.display());
}

fn length(file: &Path) -> u64 {
    file.metadata().map_or(0, |data| data.len())
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(program("kill", &[name, &pid]).is_some(), "kill {name}");
}

/// The figures of one disk in what pmlogsummary prints, base units per second.
fn summarised(summary: &str, metric: &str, disk: &str) -> f64 {
    let begin = format!("disk.dev.{metric} [\"{disk}\"] ");
    let line = summary.lines().find_map(|line| line.strip_prefix(&begin));
    let line = line.unwrap_or_else(|| panic!("{begin} in {summary}"));
    let (value, unit) = line.trim().split_once(' ').expect("a value and a unit");
    let unit = if unit.starts_with("Kbyte") {
        1024.0
    } else {
        1.0
    };
    value.parse::<f64>().expect("a number") * unit
}

#[test]
fn an_archive_gives_pmlogsummary_the_averages_that_fit_finds() {
    let Some(disk) = busiest_disk() else {
        return skipped("record", "this machine has no disk that counts anything");
    };
    let lab = Lab::new();
    let made = lab.path("made");
    let args = [
        "record",
        "-o",
        "made",
        "--disk",
        &disk,
        "--interval",
        "100ms",
        "--for",
        "2s",
    ];
    let mut child = lab.start(&[&args[..], &["--json"]].concat());
    // Something to count, on whichever disk, until all is recorded.
    let mut turn = 0;
    while child.try_wait().unwrap().is_none() {
        turn += 1;
        let path = lab.path(&format!("data{}", turn % 15));
        let file = std::fs::File::create(&path).unwrap();
        std::io::Write::write_all(&mut &file, &vec![7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        pause(100);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (samples, missed) = (
        told["samples"].as_u64().unwrap(),
        told["missed"].as_u64().unwrap(),
    );
    assert_eq!(samples + missed, 21, "{told}");
    assert!(told["cpu_ns"].as_u64().unwrap() > 0, "{told}");
    let base = made.to_str().unwrap();
    if program("which", &["pmlogcheck"]).is_none() {
        return skipped("record", "pmlogcheck is not installed (pcp)");
    }
    assert!(
        program("pmlogcheck", &["-w", base]).is_some(),
        "pmlogcheck complains of {base}"
    );
    let summary = program("pmlogsummary", &["-p6", base]).unwrap();
    let fitted = lab.run(&["fit", "made", "--disk", &disk, "--json"]);
    let fitted: serde_json::Value = serde_json::from_slice(&fitted.stdout).unwrap();
    for (ours, theirs) in [
        ("read operations per second", "read"),
        ("write operations per second", "write"),
        ("read bytes per second", "read_bytes"),
        ("write bytes per second", "write_bytes"),
    ] {
        let lines = fitted["fidelity"].as_array().unwrap();
        let line = lines.iter().find(|line| line["metric"] == ours);
        // A direction in which nothing happened has no line.
        let ours = line.map_or(0.0, |line| line["recorded"].as_f64().unwrap());
        let theirs = summarised(&summary, theirs, &disk);
        let off = (ours - theirs).abs();
        assert!(
            off <= 1e-4 * theirs + 1e-3,
            "{ours} and {theirs}: {fitted} {summary}"
        );
    }
}

#[test]
fn a_recorder_that_is_stopped_ends_well_and_one_that_is_killed_leaves_what_it_had() {
    let Some(disk) = busiest_disk() else {
        return skipped(
            "record, killed",
            "this machine has no disk that counts anything",
        );
    };
    for (name, code) in [("-INT", Some(0)), ("-TERM", Some(0)), ("-KILL", None)] {
        let lab = Lab::new();
        let args = [
            "record",
            "-o",
            "made",
            "--disk",
            &disk,
            "--interval",
            "100ms",
            "--json",
        ];
        let child = lab.start(&args);
        wait_for_samples(&lab.path("made.0"));
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            code,
            "{name}: {}",
            text(&output.stderr)
        );
        let told = lab.run(&["profile", "made"]);
        let (told, error) = (text(&told.stdout), text(&told.stderr));
        assert!(told.contains(&disk), "{name}: {told}{error}");
        let made = lab.path("made").display().to_string();
        if program("which", &["pmlogsummary"]).is_some() {
            assert!(program("pmlogsummary", &[&made]).is_some(), "{name}");
        } else {
            skipped(
                "record, judged after its end",
                "pmlogsummary is not installed (pcp)",
            );
        }
        // A second recorder does not touch it.
        let volume = std::fs::read(lab.path("made.0")).unwrap();
        let again = lab.run(&args);
        assert_eq!(again.status.code(), Some(2));
        assert!(
            text(&again.stderr).contains("exists"),
            "{}",
            text(&again.stderr)
        );
        assert_eq!(std::fs::read(lab.path("made.0")).unwrap(), volume);
    }
}

#[test]
fn a_program_is_recorded_from_its_start_to_its_end() {
    let Some(disk) = busiest_disk() else {
        return skipped(
            "record, with a program",
            "this machine has no disk that counts anything",
        );
    };
    let lab = Lab::new();
    let record = |base: &str, more: &[&str], command: &[&str]| {
        let how = ["record", "--disk", &disk, "--interval", "100ms", "-o", base];
        lab.run(&[&how, more, &["--"], command].concat())
    };
    let output = record("whole", &[], &["sh", "-c", "echo done; sleep 1; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n");
    // One before it begins, ten while it runs, two behind it; what is missed is counted.
    let told = text(&output.stderr);
    let before = |word: &str| -> u64 {
        let (front, _) = told.split_once(word).unwrap();
        front.rsplit([' ', '\n']).next().unwrap().parse().unwrap()
    };
    assert!(before(" samples in ") + before(" missed") >= 11, "{told}");
    assert!(lab.path("whole.meta").exists());
    // Killed, by itself or because the recording is over.
    let output = record("killed", &[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137));
    let output = record("over", &["--for", "300ms"], &["sleep", "600"]);
    assert_eq!(output.status.code(), Some(143));
    let output = record("nothing", &[], &["/no/such/program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("start /no/such/program"));
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let lab = Lab::new();
    for (args, expect) in [
        (&["--interval", "50ms"][..], "expected at least 100 ms"),
        (
            &["--disk", "nosuchdisk"],
            "there is no block device 'nosuchdisk' here",
        ),
        (&["-o", "no/such/folder/made"], "no/such/folder/made"),
    ] {
        let output = lab.run(&[&["record", "--for", "1s"], args].concat());
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        let error = text(&output.stderr);
        assert!(error.contains(expect), "{error}");
        assert!(!error.contains("Ctrl-C"), "it never began: {error}");
        assert_eq!(
            error
                .lines()
                .filter(|line| line.starts_with("error"))
                .count(),
            1
        );
    }
}

/// The instance of the kernel's tracer that a recorder has made, if it is there.
fn tracer_of(recorder: u32) -> Option<String> {
    let entries = std::fs::read_dir("/sys/kernel/tracing/instances").ok()?;
    let names = entries.flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let end = format!("-{recorder}");
    names.find(|name| name.starts_with("plimsoll-record-") && name.ends_with(&end))
}

/// Waits until the recorder traces: its instance and the file it grows are there.
fn wait_for_tracer(recorder: u32, part: &Path) {
    for _ in 0..LOOKS_MAX {
        let folder =
            tracer_of(recorder).map(|name| Path::new("/sys/kernel/tracing/instances").join(name));
        // The last event that is switched on.
        let event = folder.map(|folder| folder.join("events/block/block_bio_queue/enable"));
        let enabled = event.and_then(|path| std::fs::read_to_string(path).ok());
        if part.exists() && enabled.is_some_and(|text| text.starts_with('1')) {
            return;
        }
        pause(50);
    }
    panic!("nothing was traced");
}

/// 2,000 reads and writes of 4 KiB, of which fio tells how many were which.
fn known_load(device: &str) -> Option<[u64; 2]> {
    let file = format!("--filename={device}");
    let args = [
        "--name=known",
        &file,
        "--direct=1",
        "--rw=randrw",
        "--rwmixread=70",
        "--bs=4k",
        "--ioengine=libaio",
        "--iodepth=4",
        "--size=32m",
        "--number_ios=2000",
        "--output-format=json",
    ];
    let told: serde_json::Value = serde_json::from_str(&program("fio", &args)?).ok()?;
    let of = |way: &str| told["jobs"][0][way]["total_ios"].as_u64();
    Some([of("read")?, of("write")?])
}

/// A loop device that can be traced, or why there is none.
fn traceable(lab: &Lab) -> Result<Loop, &'static str> {
    if !Path::new("/sys/kernel/tracing/instances").exists() {
        return Err("tracefs is not mounted, or this is not root");
    }
    if program("fio", &["--version"]).is_none() {
        return Err("fio is not installed");
    }
    plain_loop(lab)
}

#[test]
fn every_request_of_a_known_load_is_recorded_and_fitted() {
    let lab = Lab::new();
    let device = match traceable(&lab) {
        Ok(device) => device,
        Err(why) => return skipped("record --requests", why),
    };
    let name = device.path().trim_start_matches("/dev/");
    let args = [
        "record",
        "--requests",
        "--disk",
        device.path(),
        "-o",
        "made.parquet",
        "--json",
    ];
    let child = lab.start(&args);
    let recorder = child.id();
    wait_for_tracer(recorder, &lab.path("made.parquet.part"));
    let known = known_load(device.path()).expect("fio runs");
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(tracer_of(recorder), None, "the instance is gone");
    assert!(!lab.path("made.parquet.part").exists());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["lost_events"], 0, "{told}");
    // A program that looks at the device when fio closes it (udev) may add some reads.
    let (recorded, sent) = (told["requests"].as_u64().unwrap(), known[0] + known[1]);
    assert!(
        (sent..sent + 100).contains(&recorded),
        "{recorded} of {sent}"
    );
    let fitted = lab.run(&[
        "fit",
        "made.parquet",
        "--disk",
        name,
        "-o",
        "model.toml",
        "--json",
    ]);
    let fitted: serde_json::Value = serde_json::from_slice(&fitted.stdout).unwrap();
    let rate = |way: &str| {
        let name = format!("{way} operations per second");
        let lines = fitted["fidelity"].as_array().unwrap();
        let line = lines.iter().find(|line| line["metric"] == *name);
        line.expect("a line for each way")["recorded"]
            .as_f64()
            .unwrap()
    };
    let share = rate("write") / (rate("read") + rate("write"));
    let expect = known[1] as f64 / recorded as f64;
    assert!((share - expect).abs() < 1e-6, "{share} {expect}: {fitted}");
}

#[test]
fn a_killed_recorder_of_requests_leaves_what_it_had_and_raze_removes_its_tracer() {
    let lab = Lab::new();
    let device = match traceable(&lab) {
        Ok(device) => device,
        Err(why) => return skipped("record --requests, killed", why),
    };
    let name = device.path().trim_start_matches("/dev/");
    let args = [
        "record",
        "--requests",
        "--disk",
        device.path(),
        "-o",
        "made.parquet",
    ];
    let child = lab.start(&args);
    let part = lab.path("made.parquet.part");
    let recorder = child.id();
    wait_for_tracer(recorder, &part);
    let empty = length(&part);
    let known = known_load(device.path()).expect("fio runs");
    // Killed only when it has written what was sent, 32 bytes for each; then what others may have
    // read before that.
    wait_for_growth(&part, empty, 32 * (known[0] + known[1]));
    pause(200);
    signal(&child, "-KILL");
    child.wait_with_output().unwrap();
    assert!(tracer_of(recorder).is_some(), "it had no time to remove it");
    let razed = lab.run(&["raze"]);
    assert_eq!(razed.status.code(), Some(0), "{}", text(&razed.stderr));
    assert_eq!(tracer_of(recorder), None);
    // The part file that it left is read as it is, is not overwritten, and becomes a table.
    let fitted = lab.run(&["fit", "made.parquet.part", "--disk", name]);
    // Of so few requests a model may miss a gate.
    assert!(
        matches!(fitted.status.code(), Some(0 | 14)),
        "{}",
        text(&fitted.stderr)
    );
    let again = lab.run(&args);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("--finish"),
        "{}",
        text(&again.stderr)
    );
    let finished = lab.json(&["record", "--finish", "made.parquet.part", "--json"]);
    let (recorded, sent) = (finished["requests"].as_u64().unwrap(), known[0] + known[1]);
    assert!(
        (sent..sent + 100).contains(&recorded),
        "{recorded} of {sent}"
    );
    assert!(!part.exists());
}

/// A loop device over a file of 32 MiB, or why there is none.
fn plain_loop(lab: &Lab) -> Result<Loop, &'static str> {
    let image = lab.path("image");
    std::fs::write(&image, vec![1; 32 << 20]).expect("a writable target directory");
    Loop::over(image.to_str().expect("a path of text")).ok_or("no loop device can be made here")
}

#[test]
fn the_device_of_a_run_is_recorded_and_held_against_what_was_asked() {
    let lab = Lab::new();
    let device = match plain_loop(&lab) {
        Ok(device) => device,
        Err(why) => return skipped("the device of a run", why),
    };
    let name = device.path().trim_start_matches("/dev/");
    let run = |folder: &str, more: &[&str]| {
        let args = [
            "run",
            "randread,size=16MiB",
            device.path(),
            "--destroy",
            "--warmup",
            "0s",
            "--for",
            "1500ms",
            "-o",
            folder,
            "--json",
        ];
        lab.json(&[&args[..], more].concat())
    };
    let told = run("recorded", &[]);
    let used = &told["trials"][0]["device"];
    assert_eq!(used["device"], name, "{told}");
    let bytes = |of: &str| used[of]["read_bytes"].as_f64().unwrap();
    let ratio = bytes("served") / bytes("asked");
    // Operations that end between the last second and the look at the device.
    assert!((0.9..1.1).contains(&ratio), "{ratio}: {told}");
    let page = std::fs::read_to_string(lab.path("recorded/report.html")).unwrap();
    assert!(page.contains("the bytes requested in the same seconds"));
    let listed = lab.run(&["fit", "recorded/disks"]);
    assert!(
        text(&listed.stderr).contains(name),
        "{}",
        text(&listed.stderr)
    );
    run("unrecorded", &["--no-record"]);
    assert!(!lab.path("unrecorded/disks.meta").exists());
}

/// Counts of one disk in a recording: operations and bytes of reads, then of writes.
fn totals(lab: &Lab, recording: &str, disk: &str) -> [f64; 4] {
    let output = lab.run(&["fit", recording, "--disk", disk, "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let points = told["profile"]["points"]
        .as_array()
        .expect("figures over time");
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
    // Each point has its own length: on a busy machine a sample comes late.
    let sum = |what: &str| -> f64 {
        let of = |point: &serde_json::Value| {
            number(&point[what]) * (number(&point["to_s"]) - number(&point["from_s"]))
        };
        points.iter().map(of).sum()
    };
    [
        sum("reads_per_s"),
        sum("read_bytes_per_s"),
        sum("writes_per_s"),
        sum("write_bytes_per_s"),
    ]
}

/// Begins to record what a disk counts; when it returns, there are samples.
fn counting(lab: &Lab, base: &str, disk: &str) -> Child {
    let args = ["record", "--disk", disk, "--interval", "200ms", "-o", base];
    let child = lab.start(&args);
    wait_for_samples(&lab.path(&format!("{base}.0")));
    child
}

/// Waits until what has happened so far is in the samples: the first that is written from now on may
/// have been taken before.
fn wait_for_two_samples(volume: &Path) {
    for _ in 0..2 {
        wait_for_growth(volume, length(volume), 1);
    }
}

fn end_well(child: Child) {
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("it was started");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// 1,200 reads and writes of 4 KiB at about 400 per second; what fio says of them, as [`totals`].
fn paced_load(device: &str) -> [f64; 4] {
    let file = format!("--filename={device}");
    let args = [
        "--name=known",
        &file,
        "--direct=1",
        "--rw=randrw",
        "--rwmixread=70",
        "--bs=4k",
        "--ioengine=libaio",
        "--iodepth=4",
        "--size=32m",
        "--rate_iops=280,120",
        "--rate_process=poisson",
        "--number_ios=1200",
        "--output-format=json",
    ];
    let told = program("fio", &args).expect("fio runs");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let of = |way: &str, what: &str| told["jobs"][0][way][what].as_f64().expect("a number");
    [
        of("read", "total_ios"),
        of("read", "io_bytes"),
        of("write", "total_ios"),
        of("write", "io_bytes"),
    ]
}

/// A known load, recorded, fitted, played and recorded again.
#[test]
fn a_recording_of_a_played_recording_tells_the_same() {
    let lab = Lab::new();
    let device = match plain_loop(&lab) {
        Ok(device) if program("fio", &["--version"]).is_some() => device,
        Ok(_) => return skipped("record, fit, run, record", "fio is not installed"),
        Err(why) => return skipped("record, fit, run, record", why),
    };
    let name = device.path().trim_start_matches("/dev/");
    let first = counting(&lab, "first", name);
    // Nothing happens at first, so that the second recorder can begin while it is played, also where
    // it has to wait for a processor.
    pause(8000);
    let sent = paced_load(device.path());
    wait_for_two_samples(&lab.path("first.0"));
    end_well(first);
    let fit = [
        "fit",
        "first",
        "--disk",
        name,
        "--working-set",
        "16M",
        "-o",
        "model.toml",
    ];
    let fitted = lab.run(&fit);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let args = [
        "run",
        "model.toml",
        device.path(),
        "--destroy",
        "--full-replay",
        "-o",
        "played",
    ];
    let played = lab.start(&args);
    // I/O before the trial is in no recording.
    lab.wait_for_text("played", "prepared");
    let second = counting(&lab, "second", name);
    let output = played.wait_with_output().unwrap();
    // A recorder that is ended takes no last sample: what came after the one before is not in it.
    wait_for_two_samples(&lab.path("second.0"));
    end_well(second);
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let (once, again) = (totals(&lab, "first", name), totals(&lab, "second", name));
    // A program that looks at all devices of the machine (udev, `blkid`, `btrfs device scan` of a parallel
    // test) adds 48 reads of a mebibyte in all, and writes nothing.
    let looks = [3.0 * 48.0, 3.0 * 1_069_056.0, 0.0, 0.0];
    for n in 0..4 {
        let shown = format!("sent {sent:?}, recorded {once:?}, recorded again {again:?}");
        // The gate of rates.
        for (found, expect) in [(once[n], sent[n]), (again[n], once[n])] {
            let allowed = expect * 0.99..expect * 1.01 + looks[n];
            assert!(allowed.contains(&found), "{shown}");
        }
    }
}
