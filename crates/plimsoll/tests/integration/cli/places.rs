// SPDX-License-Identifier: Apache-2.0
//! Attacks of another user, and slips of the hand, on the places that plimsoll works in.

use crate::support::{Lab, Loop, pause, program, skipped, text};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

/// Another user.
const NOBODY: u32 = 65_534;

/// Gives a directory away, as far as that is allowed.
fn give_away(path: &Path, test: &str) -> bool {
    let given = chown(path, Some(NOBODY), Some(NOBODY)).is_ok();
    if !given {
        skipped(test, "only root can give a directory away");
    }
    given
}

fn write_as_root(path: &Path, text: &str) {
    fs::write(path, text).expect("a writable target directory");
}

#[test]
fn root_does_not_measure_in_a_directory_of_another_user() {
    let lab = Lab::new();
    let theirs = lab.directory("theirs");
    if !give_away(Path::new(&theirs), "a target of another user") {
        return;
    }
    let below = format!("{theirs}/ours");
    fs::create_dir(&below).unwrap();
    for target in [&theirs, &below] {
        let output = lab.run(&["run", "randwrite,size=1MiB", target, "--for", "100ms"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("belongs to user 65534"), "{error}");
        let output = lab.run(&["ledger", "write", target, "--for", "100ms", "--ledger", "l"]);
        let error = text(&output.stderr);
        assert!(error.contains("belongs to user 65534"), "{error}");
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
}

#[test]
fn a_journal_that_somebody_else_can_place_is_not_carried_out() {
    let lab = Lab::new();
    let state = lab.path("state");
    fs::create_dir_all(state.join("journals")).unwrap();
    let rooted = lab.path("rooted");
    let owner = r#"{"pid":1,"started_ticks":1,"boot":"none"}"#;
    let header = format!(
        r#"{{"format":"1.0","id":"x-1","kind":{{"run":"x"}},"owner":{owner},"began_at":"now","mount_dir":null}}"#
    );
    let step = format!(
        r#"{{"intend":{{"why":"x","node":"here","apply":{{"port_free":1}},"undo":{{"run":{{"program":"touch","args":[{{"text":"{}"}}]}}}}}}}}"#,
        rooted.display()
    );
    let forged = format!("{header}\n{{\"trust\":[\"touch\"]}}\n{step}\n");
    // Command line of a program of root's as procfs shows it: the caller's words, in a file that
    // root owns and that cannot be written.
    let shown = lab.path("cmdline");
    write_as_root(&shown, &forged);
    symlink(&shown, state.join("journals/run-x.jsonl")).unwrap();
    let output = lab.run(&["raze"]);
    assert!(
        !output.status.success() && !rooted.exists(),
        "{}",
        text(&output.stderr)
    );
    fs::remove_file(state.join("journals/run-x.jsonl")).unwrap();
    if !give_away(&state, "a state directory of another user") {
        return;
    }
    fs::copy(&shown, state.join("journals/run-x.jsonl")).unwrap();
    for args in [&["raze"][..], &["raze", "--dry-run"], &["stack", "status"]] {
        let output = lab.run(args);
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(error.contains("belongs to user 65534"), "{args:?}: {error}");
    }
    assert!(!rooted.exists());
    chown(&state, Some(0), Some(0)).unwrap();
}

#[test]
fn a_pipe_among_the_journals_keeps_nobody_waiting() {
    let lab = Lab::new();
    let journals = lab.path("state/journals");
    fs::create_dir_all(&journals).unwrap();
    let pipe = journals.join("run-x.jsonl");
    if program("mkfifo", &[pipe.to_str().unwrap()]).is_none() {
        return skipped("a pipe among the journals", "mkfifo is missing");
    }
    let output = lab.run(&["raze", "--dry-run"]);
    assert!(text(&output.stderr).contains("not trusted"), "{output:?}");
    lab.run(&["stack", "status"]);
}

#[test]
fn raze_removes_what_is_ours_and_tells_it_before() {
    let lab = Lab::new();
    let state = lab.path("state");
    for dir in ["journals", "plimsoll-agent"] {
        fs::create_dir_all(state.join(dir)).unwrap();
    }
    let thesis = state.join("journals/thesis.tmp");
    let notes = state.join("plimsoll-agent/my-own-notes.txt");
    for path in [&thesis, &notes] {
        write_as_root(path, "x");
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let gone = state.join(format!("journals/1_1_{}.tmp", boot.trim()));
    write_as_root(&gone, "x");
    let told = text(&lab.run(&["raze", "--dry-run"]).stdout);
    assert!(told.contains(&format!("rm {}", gone.display())), "{told}");
    assert!(
        !told.contains("thesis") && !told.contains("notes"),
        "{told}"
    );
    let output = lab.run(&["raze"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("Removed: 1 file"),
        "{output:?}"
    );
    assert!(!gone.exists() && thesis.exists() && notes.exists());
    // Files behind a symbolic link are not ours.
    let victim = lab.path("victim");
    fs::create_dir(&victim).unwrap();
    write_as_root(&victim.join("mail-queue.tmp"), "x");
    fs::rename(state.join("journals"), lab.path("aside")).unwrap();
    symlink(&victim, state.join("journals")).unwrap();
    assert!(!lab.run(&["raze"]).status.success());
    assert!(victim.join("mail-queue.tmp").exists());
}

#[test]
fn results_and_ledgers_follow_no_link() {
    let lab = Lab::new();
    let short = ["--for", "100ms", "--warmup", "0s"];
    let run = ["run", "randread,size=1MiB", "sim(flash)", "-o", "r"];
    let output = lab.run(&[&run[..], &short].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (victim, page) = (lab.path("victim"), lab.path("r/report.html"));
    write_as_root(&victim, "precious");
    fs::remove_file(&page).unwrap();
    symlink(&victim, &page).unwrap();
    assert!(lab.run(&["report", "r"]).status.success());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    // A ledger's file that a link promises elsewhere is there, and not made.
    let (directory, elsewhere) = (lab.directory("led"), lab.path("elsewhere"));
    let link = Path::new(&directory).join("plimsoll.ledger.0");
    symlink(&elsewhere, &link).unwrap();
    for more in [&[][..], &["--destroy"]] {
        let args = [
            "ledger", "write", &directory, "--for", "100ms", "--ledger", "ledger",
        ];
        let output = lab.run(&[&args[..], more].concat());
        let error = text(&output.stderr);
        assert!(error.contains("plimsoll.ledger.0"), "{error}");
        assert!(
            !output.status.success() && !elsewhere.exists(),
            "{output:?}"
        );
        let _ = fs::remove_file(lab.path("ledger"));
    }
}

#[test]
fn a_device_that_takes_the_name_in_mid_comparison_is_not_written_to() {
    const TEST: &str = "a device behind a link";
    let lab = Lab::new();
    let image = |name: &str| {
        let path = lab.path(name);
        let file = fs::File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        path.display().to_string()
    };
    let (first, second) = (image("a"), image("b"));
    let (Some(meant), Some(other)) = (Loop::over(&first), Loop::over(&second)) else {
        return skipped(TEST, "no loop device can be made here");
    };
    if program("mkfs.ext4", &["-q", "-F", other.path()]).is_none() {
        return skipped(TEST, "mkfs.ext4 is missing");
    }
    let link = lab.path("link");
    symlink(meant.path(), &link).unwrap();
    let link_text = link.display().to_string();
    let target = lab.directory("t");
    let before = fs::read(&second).unwrap();
    let mut args = vec!["compare", &link_text, &target, "-w", "randwrite,size=4MiB"];
    args.extend([
        "--destroy",
        "--blocks",
        "4",
        "--for",
        "300ms",
        "--warmup",
        "0s",
    ]);
    args.extend(["-o", "r"]);
    let child = lab.start(&args);
    lab.wait_for_text("r", "trial_ended");
    fs::remove_file(&link).unwrap();
    symlink(other.path(), &link).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("another device"), "{error}");
    assert!(fs::read(&second).unwrap() == before, "it was written to");
}

#[test]
fn a_disk_that_is_pulled_in_mid_run_is_cleaned_when_it_is_back() {
    const TEST: &str = "a target that is unmounted in mid-run";
    let lab = Lab::new();
    let image = lab.path("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let target = lab.directory("mnt");
    let Some(device) = Loop::over(image.to_str().unwrap()) else {
        return skipped(TEST, "no loop device can be made here");
    };
    let mount = || program("mount", &["-t", "ext4", device.path(), &target]);
    if program("mkfs.ext4", &["-q", "-F", device.path()]).is_none() || mount().is_none() {
        return skipped(TEST, "nothing can be formatted or mounted here");
    }
    let child = lab.start(&[
        "run",
        "randwrite,size=4MiB",
        &target,
        "--for",
        "3s",
        "-o",
        "r",
    ]);
    lab.wait_for_events("r", 2);
    program("umount", &["--lazy", &target]).unwrap();
    child.wait_with_output().unwrap();
    let output = lab.run(&["raze"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(13), "{error}");
    assert!(error.contains("another file system"), "{error}");
    mount().unwrap();
    assert!(
        fs::read_dir(&target).unwrap().count() > 1,
        "the run's directory"
    );
    let output = lab.run(&["raze"]);
    let names: Vec<_> = fs::read_dir(&target).unwrap().flatten().collect();
    program("umount", &["--lazy", &target]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(names.len(), 1, "lost+found: {names:?}");
}

#[test]
fn a_full_disk_below_the_run_folder_ends_the_run_and_keeps_what_there_was() {
    const TEST: &str = "a run folder on a disk that is full";
    let lab = Lab::new();
    let small = lab.directory("small");
    let options = ["-t", "tmpfs", "-o", "size=256k", "plimsoll-test", &small];
    if program("mount", &options).is_none() {
        return skipped(TEST, "nothing can be mounted here");
    }
    let target = lab.directory("target");
    let folder = format!("{small}/r");
    let run = ["run", "randwrite,size=1MiB", &target, "--for", "15m", "-o"];
    let mut child = lab.start(&[&run[..], &[&folder]].concat());
    lab.wait_for_events("small/r", 2);
    let filler = fs::write(lab.path("small/filler"), vec![1_u8; 1 << 20]);
    // Long for a busy machine, and short beside what was asked for.
    let mut looks = 0;
    while child.try_wait().unwrap().is_none() && looks < 3000 {
        pause(100);
        looks += 1;
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    let report = lab.run(&["report", &folder]);
    program("umount", &["--lazy", &small]);
    let error = text(&output.stderr);
    assert!(filler.is_err(), "it was to be full");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("No space left"), "{error}");
    assert!(error.contains("the run was ended"), "{error}");
    let said = text(&report.stderr);
    assert!(!said.contains("damaged"), "{said}");
    assert_eq!(
        fs::read_dir(&target).unwrap().count(),
        0,
        "cleaned all the same"
    );
}

#[test]
fn a_run_whose_directory_somebody_removes_does_not_keep_raze_from_its_end() {
    let lab = Lab::new();
    let target = lab.directory("target");
    let made = || {
        let mut entries = fs::read_dir(&target).unwrap().flatten();
        entries.next().expect("the directory of the run").path()
    };
    let start = |folder: &str| {
        let run = ["run", "randwrite,size=1MiB", &target, "--for", "15m", "-o"];
        let child = lab.start(&[&run[..], &[folder]].concat());
        lab.wait_for_events(folder, 2);
        child
    };
    // Removed while it is in use, which goes on in the file that is open; nothing makes it again.
    let mut child = start("a");
    let gone = made();
    program("rm", &["-rf", gone.to_str().unwrap()]).unwrap();
    pause(1500);
    assert!(!gone.exists());
    child.kill().unwrap();
    child.wait_with_output().unwrap();
    let output = lab.run(&["raze"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Without its mark and not empty: what is in it could be anybody's, and the way out is named.
    let mut child = start("b");
    child.kill().unwrap();
    child.wait_with_output().unwrap();
    let left = made();
    fs::remove_file(left.join(".plimsoll")).unwrap();
    for _ in 0..2 {
        let output = lab.run(&["raze"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(13), "{error}");
        let way = format!("plimsoll raze --forget-node {}", left.display());
        assert!(error.lines().any(|line| line.contains(&way)), "{error}");
    }
    let output = lab.run(&["raze", "--forget-node", left.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(left.exists(), "not ours to remove");
    let output = lab.run(&["raze"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}
