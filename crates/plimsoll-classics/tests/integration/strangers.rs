// SPDX-License-Identifier: Apache-2.0
//! Untrusted jobs that try to be programs: every option of the installed fio and every word of filebench, in
//! several disguises. The tests judge by the effects and not by our messages: a file that was made, and a
//! file that has changed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_classics::originals::{JobTrust, SANDBOX_JOB, SandboxJobSource, sandboxed, workload};
use plimsoll_classics::{filebench, fio};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

const PRECIOUS: &str = "precious";

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts programs"
)]
fn start(argv: &[String], directory: &Path) -> Option<Output> {
    let (program, args) = argv.split_first().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).output().ok()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether this machine has what jobs of strangers are run with.
fn is_possible() -> bool {
    for program in ["fio", "bwrap"] {
        if start(&words(&[program, "--version"]), Path::new("/")).is_none() {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {program} is missing");
            return false;
        }
    }
    true
}

/// A place with a file that may not change, and without one that may not come to be.
struct Place(tempfile::TempDir, AtomicUsize);

impl Place {
    fn new() -> Self {
        // Not below /tmp, of which a view has its own.
        let root = env!("CARGO_TARGET_TMPDIR");
        let folder = tempfile::tempdir_in(root).expect("a writable directory");
        let place = Place(folder, AtomicUsize::new(0));
        for name in ["target", "tmp"] {
            std::fs::create_dir(place.0.path().join(name)).expect("a writable directory");
        }
        std::fs::write(place.path("victim"), PRECIOUS).expect("a writable directory");
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A new directory for jobs.
    fn scratch(&self) -> String {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("tmp/{number}"));
        std::fs::create_dir(&path).expect("a writable directory");
        path
    }

    /// Harm that a stranger has done to this place.
    fn harm(&self) -> Option<String> {
        let known = ["target", "tmp", "victim"];
        let entries = std::fs::read_dir(self.0.path()).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let made = names
            .into_iter()
            .find(|name| !known.iter().any(|known| name == known));
        if let Some(name) = made {
            return Some(format!("{} was made", name.display()));
        }
        let kept = std::fs::read_to_string(self.path("victim")).unwrap_or_default();
        (kept != PRECIOUS).then(|| "the victim was overwritten".to_owned())
    }

    fn check(&self, after: &str) {
        assert_eq!(self.harm(), None, "after:\n{after}");
    }

    /// Values that make a file, start a program, or overwrite the victim, and one that does nothing.
    fn values(&self) -> Vec<String> {
        let (sentinel, victim) = (self.path("sentinel"), self.path("victim"));
        vec![
            format!("sh -c 'echo >{sentinel}'"),
            format!("0:{victim}"),
            "exec".into(),
            victim,
            "1".into(),
        ]
    }

    /// Runs what `fio:JOB` runs, and says whether it ended well.
    fn run(&self, made: &Workload) -> bool {
        let Workload::Commands(commands) = made else {
            panic!("programs are commands");
        };
        let (target, tmp) = (self.path("target"), self.scratch());
        let fill = |word: &String| word.replace("{dir}", &target).replace("{tmp}", &tmp);
        commands
            .prepare
            .iter()
            .chain(&commands.phases)
            .all(|command| {
                let argv: Vec<String> = command.argv.iter().map(fill).collect();
                let output = start(&argv, Path::new(&target)).expect("the program is there");
                output.status.success()
            })
    }

    /// Runs jobs together, and those of them apart with which fio ends at once. Gives how many ran.
    fn run_all(&self, jobs: &[String], run: &(dyn Fn(&str) -> bool + Sync)) -> usize {
        let text = jobs.concat();
        let ran = run(&text);
        self.check(&text);
        match jobs {
            [] | [_] => usize::from(ran),
            _ if ran => jobs.len(),
            _ => {
                let (some, others) = jobs.split_at(jobs.len() / 2);
                std::thread::scope(|scope| {
                    let some = scope.spawn(|| self.run_all(some, run));
                    self.run_all(others, run) + some.join().expect("a half ran")
                })
            }
        }
    }
}

/// Every option of the fio that is installed, those of its engines too.
fn options() -> BTreeSet<String> {
    let said = |args: &[&str]| {
        let output = start(&words(args), Path::new("/")).expect("fio is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let mut all: BTreeSet<String> = said(&["fio", "--cmdhelp"])
        .lines()
        .filter_map(name)
        .collect();
    for engine in said(&["fio", "--enghelp"]).lines().skip(1).filter_map(name) {
        let help = said(&["fio", &format!("--enghelp={engine}")]);
        all.extend(
            help.lines()
                .filter(|line| line.contains(':'))
                .filter_map(name),
        );
    }
    let all = all
        .into_iter()
        .map(|option| option.trim_end_matches(':').to_owned());
    all.chain(["include".to_owned(), "filename_prefix".to_owned()])
        .collect()
}

/// A job with one option, plainly and disguised.
fn disguises(option: &str, value: &str) -> Vec<String> {
    let begin = "[global]\nrw=write\nsize=4k\n[a]\n";
    vec![
        format!("{begin}{option}={value}\n"),
        format!("{begin}${{X}}{option}={value}\n"),
        format!("{begin}{option}=${{X}}{value}\n"),
        format!("{begin}# {}{option}={value}\n", "x".repeat(8_189)),
        format!("{begin}# {}\n{option}={value}\n", "x".repeat(8_189)),
        format!("{begin} \t{} \t = {value}\n", option.to_uppercase()),
        format!("{begin}{option}\u{b}={value}\n"),
        format!("{begin}{option} {value}\n"),
        format!("[global]\nrw=write\nsize=4k\n{option}={value}\n[a]\n"),
        format!("{begin}[global {option}]\n{option}={value}\n"),
        format!("[{value}]\nrw=write\nsize=4k\n"),
    ]
}

#[test]
fn no_option_of_fio_reaches_out_of_a_job_of_a_stranger() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    // The oracle works: fio itself does what such a job says.
    let plain = format!(
        "[a]\nrw=write\nsize=4k\nexec_prerun=touch {}\n",
        place.path("sentinel")
    );
    std::fs::write(place.path("tmp/plain"), plain).unwrap();
    let directory = format!("--directory={}", place.path("target"));
    start(
        &words(&["fio", &directory, &place.path("tmp/plain")]),
        Path::new("/"),
    );
    assert!(place.harm().is_some(), "fio starts no program");
    std::fs::remove_file(place.path("sentinel")).unwrap();

    let (mut tried, mut runs, mut nulls) = (0, BTreeSet::new(), BTreeSet::new());
    let options = options();
    assert!(
        options.contains("exec_prerun") && options.contains("program"),
        "{options:?}"
    );
    for option in &options {
        for text in place
            .values()
            .iter()
            .flat_map(|value| disguises(option, value))
        {
            tried += 1;
            runs.extend(fio::rewritten(&text, &[]));
            nulls.extend(fio::on_null(&text, &["a".to_owned()], Nanos(1_000_000)));
        }
    }
    // Jobs that are written alike are run once.
    let [runs, nulls] = [runs, nulls].map(|jobs| jobs.into_iter().collect::<Vec<String>>());
    let on_target = |text: &str| {
        let job = Some(JobTrust::Stranger(text));
        place.run(&workload("fio", "a.fio", job).expect("it was written before"))
    };
    let on_null = |text: &str| {
        let file = place.scratch() + "/job";
        std::fs::write(&file, text).expect("a writable directory");
        let program = ["fio", "--output-format=json", SANDBOX_JOB];
        let argv = sandboxed(None, SandboxJobSource::File(&file), &program);
        start(&argv, Path::new("/")).is_some_and(|output| output.status.success())
    };
    let ran = place.run_all(&runs, &on_target) + place.run_all(&nulls, &on_null);
    assert!(ran > (runs.len() + nulls.len()) / 2, "only {ran} jobs ran");
    let written = std::fs::read_dir(place.path("target")).unwrap().count();
    assert!(written > 0, "no job wrote");
    let _ = writeln!(
        std::io::stderr(),
        "{} options, {tried} jobs; of {} different ones on a target and {} on the null engine {ran} ran to their end",
        options.len(),
        runs.len(),
        nulls.len()
    );
}

#[test]
fn what_passes_the_reader_would_still_change_only_the_target() {
    if !is_possible() {
        return;
    }
    let place = Place::new();
    let (sentinel, victim) = (place.path("sentinel"), place.path("victim"));
    let folder = place.path("");
    for lines in [
        format!("exec_prerun=touch {sentinel}"),
        format!("ioengine=exec\nprogram=/usr/bin/touch\narguments={sentinel}"),
        format!("directory={folder}\nfilename=victim"),
        format!("filename={victim}"),
        format!("write_bw_log={sentinel}"),
        format!("write_iolog={sentinel}"),
        "filename=/proc/sys/kernel/hostname".to_owned(),
        "exec_prerun=mknod /target/disk b 7 0".to_owned(),
    ] {
        let file = place.path("tmp/job");
        std::fs::write(&file, format!("[a]\nrw=write\nsize=4k\n{lines}\n")).unwrap();
        let target = place.path("target");
        let program = ["fio", "--directory=/target", SANDBOX_JOB];
        // In the view, the engine that starts programs waits for them in vain.
        let argv = sandboxed(Some(&target), SandboxJobSource::File(&file), &program);
        let argv = [words(&["timeout", "-s", "KILL", "3"]), argv].concat();
        start(&argv, Path::new(&target)).expect("bwrap is there");
        place.check(&lines);
        assert!(!Path::new(&target).join("disk").exists(), "{lines}");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(host.trim().len() < 64 && host.is_ascii(), "{host:?}");
    // It is a view in which a job runs.
    let file = place.path("tmp/job");
    std::fs::write(&file, "[a]\nrw=write\nsize=4k\n").unwrap();
    let target = place.path("target");
    let program = ["fio", "--directory=/target", SANDBOX_JOB];
    let argv = sandboxed(Some(&target), SandboxJobSource::File(&file), &program);
    let output = start(&argv, Path::new(&target)).expect("bwrap is there");
    assert!(output.status.success(), "{output:?}");
    assert!(Path::new(&target).join("a.0.0").exists());
}

/// The commands, kinds of flowops and attributes of filebench 1.4 and 1.5.
const WML: &str = "create define debug domultisync echo enable eventgen exit foreach flowop fscheck \
    fsflush help list load log nousestats run psrun set shutdown sleep stats system usage vars version \
    warmup quit aiowait aiowrite appendfile appendfilerand block bwlimit closefile createfile deletefile \
    delay eventlimit finishoncount finishonbytes fsync fsyncset hog iopslimit listdir makedir opslimit \
    openfile print read readwholefile removedir semblock sempost statfile testrandvar wakeup write \
    writewholefile sh exec alldone blocking cached client dirwidth dirdepthrv directio dirgamma dsync \
    entries fd filename filesetname possetname filesize filesizegamma firstdone fstype highwater indexed \
    instances ioprio iosize iters leafdirs master memsize min max mean name namelength nice opennext \
    paralloc parameters path prealloc procname random randsrc randtable rate readonly writeonly reuse \
    round seed size srcfd target timeout trusttree type useism value workingset noreadahead lathist";

#[test]
fn no_word_of_filebench_reaches_out_of_a_script_of_a_stranger() {
    let script = |attribute: &str, line: &str, flowop: &str| {
        format!(
            "set $dir=/tmp\n{line}\ndefine fileset name=set,path=$dir,entries=1,size=4k{attribute}\n\
             define process name=p{attribute} {{ thread name=t,memsize=1m{attribute} {{\n\
             flowop createfile name=c,filesetname=set,fd=1{attribute}\n{flowop}\n}} }}\nrun 1\n"
        )
    };
    assert!(filebench::rewritten(&script("", "", ""), "/target").is_ok());
    let long = format!("#{}", "x".repeat(8_190));
    let hostile = "/hostile";
    let values = [
        "\"touch /hostile\"",
        "/hostile",
        "\"../../hostile\"",
        "\"x\ny system /hostile\"",
        "\"`/hostile`\"",
    ];
    let (mut tried, mut passed) = (0, 0);
    for word in WML.split_whitespace() {
        for value in values {
            for text in [
                script(&format!(",{word}={value}"), "", ""),
                script("", &format!("{word} {value}"), ""),
                script(
                    "",
                    "",
                    &format!("flowop {word} name=x,target={value},filesetname=set"),
                ),
                script(
                    "",
                    &format!("set $x={value}"),
                    &format!("flowop {word} name=x,value=$x"),
                ),
                script("", &format!("{long}\n\t{word}\t{value}"), ""),
                script("", &format!("{long}{word} {value}"), ""),
                script(&format!(",{}={value}", word.to_uppercase()), "", ""),
                script("", &format!("set ${word}={value}"), ""),
                script(&format!(",{word}=$x"), &format!("set $x={value}"), ""),
            ] {
                tried += 1;
                let Ok(written) = filebench::rewritten(&text, "/target") else {
                    continue;
                };
                passed += 1;
                assert!(!written.contains("hostile"), "{text}\nbecame\n{written}");
                let places: Vec<&str> = written.matches("path=").collect();
                assert_eq!(
                    places.len(),
                    written.matches("path=/target,").count(),
                    "{written}"
                );
                for line in written.lines() {
                    let first = line.split(' ').next().unwrap_or_default();
                    let known = "set define thread flowop eventgen run psrun { }";
                    assert!(known.split(' ').any(|known| known == first), "{line}");
                }
            }
        }
    }
    assert!(passed > 0 && passed < tried, "{passed} of {tried}");
    let _ = writeln!(
        std::io::stderr(),
        "{tried} scripts with {hostile}, {passed} written anew without it"
    );
}

#[test]
fn names_in_a_log_lead_nowhere() {
    let place = Place::new();
    let victim = place.path("victim");
    let log = format!(
        "fio version 3 iolog\n0 {victim} add\n0 {victim} open\n1 {victim} write 0 4096\n2 {victim} close\n"
    );
    let Workload::Blocks(blocks) = fio::read_log("log", &log).unwrap() else {
        panic!("a log is block I/O");
    };
    let said = serde_json::to_string(&blocks).unwrap();
    assert!(!said.contains("victim"), "{said}");
}
