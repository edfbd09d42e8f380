// SPDX-License-Identifier: Apache-2.0
//! Files from strangers: they start no programs, and their names are only text.

use super::bad_input::refuses;
use super::verify::diskstats;
use crate::support::{Lab, Loop, skipped, text};

const COMMANDS: &str = "format = \"2.0\"\n[workload.commands]\nname = \"nas\"\ndata_bytes = 4096\n\
    [[workload.commands.phases]]\nname = \"x\"\nargv = [\"touch\", \"pwned\"]\n";

#[test]
fn a_workload_file_starts_no_program() {
    let lab = Lab::new();
    let target = lab.directory("t");
    std::fs::write(lab.path("evil.toml"), COMMANDS).unwrap();
    for args in [
        &["run", "evil.toml", &target][..],
        &["run", "evil.toml", &target, "--dry-run"],
        &["compare", &target, "null", "-w", "evil.toml"],
    ] {
        refuses(&lab, args, 2, &["evil.toml", "names programs", "cmd:"]);
    }
    assert!(!lab.path("pwned").exists());
}

#[test]
fn a_job_file_that_starts_programs_is_not_given_to_the_original() {
    let lab = Lab::new();
    let target = lab.directory("t");
    std::fs::create_dir(lab.path("others")).unwrap();
    std::fs::write(lab.path("others/precious"), "precious").unwrap();
    let here = lab.path("").display().to_string();
    std::fs::write(lab.path("mon"), diskstats(1)).unwrap();
    std::fs::write(lab.path("disk.img"), [b'd'; 1 << 20]).unwrap();
    // Where there are no loop devices, the job writes to a device that keeps nothing.
    let device = Loop::over(&lab.path("disk.img").display().to_string());
    let device = device
        .as_ref()
        .map_or("/dev/null", Loop::path)
        .trim_start_matches("/dev/");
    let long = format!("# {}exec_prerun=touch {here}/pwned", "x".repeat(8_189));
    for lines in [
        "exec_prerun=touch HERE/pwned",
        "exec_postrun = touch HERE/pwned",
        "${X}exec_prerun=touch HERE/pwned",
        "ioengine=external:HERE/evil.so",
        "ioengine = exec\nprogram=/bin/touch\narguments=HERE/pwned",
        "ioengine=${E}exec\nprogram=/bin/touch\narguments=HERE/pwned",
        "include other.fio",
        &long,
        "directory=HERE/others\nfilename=precious",
        "filename=HERE/others/precious",
        "directory=/dev\nfilename=DEVICE",
        "write_iolog=HERE/pwned",
        "write_bw_log=HERE/pwned",
    ] {
        let lines = lines.replace("HERE", &here).replace("DEVICE", device);
        let job = format!("[a]\nrw=write\nsize=64k\nrate_iops=100\n{lines}\n");
        std::fs::write(lab.path("evil.fio"), job).unwrap();
        // Jobs that name a `directory` run on the target, without it; all others are refused.
        let names_a_place = lines.starts_with("directory=");
        if !names_a_place {
            refuses(
                &lab,
                &["run", "fio:evil.fio", &target],
                2,
                &["evil.fio", "line 5"],
            );
        }
        lab.run(&["run", "fio:evil.fio", &target]);
        lab.run(&["verify", "evil.fio", "--against", "mon", "--measured=10ms"]);
        for name in ["pwned", "pwned_bw.1.log"] {
            assert!(!lab.path(name).exists(), "{lines}");
        }
        let kept = std::fs::read_to_string(lab.path("others/precious")).unwrap();
        assert_eq!(kept, "precious", "{lines}");
        let disk = std::fs::read(lab.path("disk.img")).unwrap();
        assert!(disk.iter().all(|byte| *byte == b'd'), "{lines}");
    }
    std::fs::write(
        lab.path("evil.f"),
        "set $x=1\n system \"touch pwned\"\nrun 1\n",
    )
    .unwrap();
    let words = ["evil.f", "line 2", "'system' is not supported"];
    refuses(&lab, &["run", "filebench:evil.f", &target], 2, &words);
}

/// fio is there and would be seen to start; the program that makes its view is not.
#[test]
fn without_bubblewrap_no_job_of_somebody_else_is_started() {
    if !rustix::process::geteuid().is_root() {
        skipped("without_bubblewrap", "only root hides a program");
        return;
    }
    const HIDDEN: &str = "mount --bind /dev/null \"$(command -v bwrap)\" && exec \"$@\"";
    let lab = Lab::new();
    let (target, programs) = (lab.directory("t"), lab.directory("bin"));
    let path = std::env::var("PATH").unwrap_or_default();
    let fio = lab.path("bin/fio");
    std::fs::write(&fio, "#!/bin/sh\necho >> \"$0.started\"\necho fio-3.33\n").unwrap();
    std::fs::set_permissions(&fio, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(lab.path("mon"), diskstats(1)).unwrap();
    std::fs::write(lab.path("a.fio"), "[a]\nrw=read\nsize=64k\nrate_iops=9\n").unwrap();
    for args in [
        &["run", "fio:a.fio", &target, "-o", "run"][..],
        &["compare", &target, "null", "-w", "fio:a.fio", "-o", "run"],
        &["verify", "a.fio", "--against", "mon", "--measured=10ms"],
    ] {
        let program = env!("CARGO_BIN_EXE_plimsoll");
        let words = [&["--mount", "sh", "-c", HIDDEN, "sh", program], args].concat();
        let mut command = lab.command_of("unshare", &words);
        command.env("PATH", format!("{programs}:{path}"));
        let output = command.output().unwrap();
        let told = text(&output.stderr);
        let code = output.status.code();
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?} {told}");
        let says = "bwrap is missing: apt-get install bubblewrap";
        assert!(told.contains(says), "{args:?}: {told}");
        assert!(!lab.path("bin/fio.started").exists(), "{args:?}: {told}");
        assert!(!lab.path("run").exists(), "{args:?}: {told}");
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "{args:?}");
    }
}

#[test]
fn a_dry_run_shows_every_program_and_its_arguments() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let args = [
        "run",
        "cmd:dd if=/dev/zero of=x bs=4k count=1",
        &target,
        "--dry-run",
    ];
    let output = lab.run(&args);
    let plan = text(&output.stdout);
    assert!(
        plan.contains("start sh -c 'dd if=/dev/zero of=x bs=4k count=1'"),
        "{plan}"
    );
}

/// Characters that a terminal would act on, or that would reorder the words around them.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn names_with_control_characters_are_refused_and_never_shown_raw() {
    let lab = Lab::new();
    let target = lab.directory("t");
    for name in [
        "x\\u001b]0;owned\\u0007",
        "x\\u202egnp.exe",
        "x\u{202e}y",
        "x\\u009b2J",
        // A text of several lines needs no backslash.
        "\"\"x\nexec_prerun=id\"\"",
    ] {
        let file = crate::support::blocks(name, 1 << 20, 0.5, false);
        std::fs::write(lab.path("evil.toml"), file).unwrap();
        let args = ["run", "evil.toml", &target, "--dry-run"];
        refuses(&lab, &args, 2, &["evil.toml", "control character"]);
        let output = lab.run(&args);
        let said = text(&output.stderr);
        assert!(!said.chars().any(acts), "{said:?}");
    }
}

#[test]
fn errors_show_what_was_typed_without_acting_on_the_terminal() {
    let lab = Lab::new();
    let evil = "no\u{1b}[2Jsuch\u{202e}";
    for args in [
        &["run", evil, "t"][..],
        &["report", evil],
        &["run", "varmail", "t", evil],
        &["profile", evil],
    ] {
        let output = lab.run(args);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(said.contains("such"), "{said:?}");
        assert!(!said.chars().any(acts), "{said:?}");
    }
}
