// SPDX-License-Identifier: Apache-2.0
//! Many recordings: partial results that are merged, against one process, and what is refused.

use super::bad_input::refuses;
use crate::support::{Lab, text};
use std::fmt::Write as _;

/// Counters of two disks, an interval of ten seconds each, from a minute of November 2026 on.
fn counters(minute: u64, rate: u64) -> String {
    let mut recording = String::new();
    for i in 0..=60u64 {
        let _ = writeln!(recording, "{}", 1_795_220_400 + minute * 60 + i * 10);
        for (minor, disk, factor) in [(0, "sda", 1), (16, "sdb", 3)] {
            let ops = i * rate * factor;
            let _ = writeln!(
                recording,
                "8 {minor} {disk} {ops} 0 {} {ops} {} 0 {} {ops} 0 {} {ops}",
                ops * 8,
                2 * ops,
                ops * 32,
                i * 100
            );
        }
    }
    recording
}

/// Requests of one disk, four a second, in the form of MSR Cambridge.
fn requests(minute: u64) -> String {
    let row = |i: u64| {
        let at = 134_396_256_000_000_000 + minute * 600_000_000 + i * 2_500_000;
        let way = if i.is_multiple_of(4) { "Write" } else { "Read" };
        format!("{at},h{minute},0,{way},{},4096,{}\n", i * 65_536, 900 + i)
    };
    (0..400).map(row).collect()
}

/// Twelve recordings; their names.
fn recordings(lab: &Lab) -> Vec<String> {
    let name = |i: u64| {
        let (name, content) = match i % 4 {
            3 => (format!("r{i}.csv"), requests(i * 3)),
            _ => (format!("r{i}.txt"), counters(i * 3, 10 + i)),
        };
        std::fs::write(lab.path(&name), content).expect("the folder is ours");
        name
    };
    (0..12).map(name).collect()
}

/// Runs a command that succeeds; its standard output.
fn done(lab: &Lab, words: &[&str]) -> String {
    let output = lab.run(words);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn words<'a>(first: &[&'a str], names: &'a [String], last: &[&'a str]) -> Vec<&'a str> {
    let names = names.iter().map(String::as_str);
    let words = first.iter().copied().chain(names);
    words.chain(last.iter().copied()).collect()
}

#[test]
fn merged_is_unmerged_to_the_last_byte() {
    let lab = Lab::new();
    let names = recordings(&lab);
    lab.directory("parts");
    for (i, task) in names.chunks(5).enumerate() {
        let part = format!("parts/{i}.part");
        let said = done(&lab, &words(&["profile"], task, &["--partial", &part]));
        assert!(said.starts_with("Written: parts/"), "{said}");
    }
    for form in [&["--json"][..], &[]] {
        let one = done(&lab, &words(&["profile"], &names, form));
        assert_eq!(done(&lab, &words(&["merge", "parts"], &[], form)), one);
    }
    done(&lab, &words(&["profile"], &names, &["-o", "one.html"]));
    done(&lab, &["merge", "parts", "--html", "merged.html"]);
    let fit = ["--name", "all", "--working-set", "2G", "-o"];
    let one = [&fit[..], &["one.toml"]].concat();
    done(&lab, &words(&["fit"], &names, &one));
    let merged = [&["merge", "parts"], &fit[..], &["merged.toml"]].concat();
    done(&lab, &merged);
    for end in ["html", "toml"] {
        let of = |name: &str| std::fs::read(lab.path(&format!("{name}.{end}"))).unwrap();
        assert!(of("one") == of("merged"), "{end}");
    }
    // A list on a file, the same twice, and parts of parts.
    std::fs::write(lab.path("list"), names.join("\n")).unwrap();
    done(
        &lab,
        &["profile", "--list", "list", "--partial", "all.part"],
    );
    let halves = [
        "merge",
        "parts/2.part",
        "parts/0.part",
        "--partial",
        "half.part",
    ];
    done(&lab, &halves);
    let tree = [
        "merge",
        "half.part",
        "parts",
        "half.part",
        "--partial",
        "tree.part",
    ];
    let output = lab.run(&tree);
    assert!(
        text(&output.stderr).contains("more than once"),
        "{output:?}"
    );
    let of = |name: &str| std::fs::read(lab.path(name)).unwrap();
    assert!(of("all.part") == of("tree.part"));
}

#[test]
fn what_cannot_be_merged_is_refused_with_one_error() {
    let lab = Lab::new();
    let names = recordings(&lab);
    let task = words(&["profile"], &names[..2], &["--partial"]);
    done(&lab, &[&task[..], &["a.part"]].concat());
    done(&lab, &[&task[..], &["b.part", "--step", "1m"]].concat());
    let whole = std::fs::read(lab.path("a.part")).unwrap();
    std::fs::write(lab.path("cut.part"), &whole[..whole.len() - 40]).unwrap();
    let newer = text(&whole).replacen("\"1.0\"", "\"2.0\"", 1);
    std::fs::write(lab.path("newer.part"), newer).unwrap();
    let odd = text(&whole).replacen("\"sum\":", "\"sum\":1", 1);
    std::fs::write(lab.path("odd.part"), odd).unwrap();
    lab.directory("empty");
    let cases: [(&[&str], &str); 12] = [
        (&["merge", "a.part", "b.part"], "--step 60s and 600s"),
        (&["merge", "cut.part"], "cut off"),
        (&["merge", "newer.part"], "its format is 2.0"),
        (&["merge", "odd.part"], "digest differs"),
        (&["merge", "r0.txt"], "no partial result"),
        (&["merge", "empty"], "no file that ends in .part"),
        (&["merge", "none.part"], "none.part"),
        (&["merge", "a.part", "--name", "x"], "--name is for a model"),
        (
            &["profile", "r0.txt", "--step", "1m"],
            "--step is for several",
        ),
        (
            &["profile", "r0.txt", "r1.txt", "--step", "7m"],
            "divides a day",
        ),
        (
            &["fit", "r0.txt", "r3.csv", "--exact"],
            "--exact is for one",
        ),
        (&["profile", "r0.txt", "none"], "find a recording at none"),
    ];
    for (words, expect) in cases {
        refuses(&lab, words, 2, &[expect]);
    }
}

#[test]
fn an_unreadable_recording_is_named_in_every_result() {
    let lab = Lab::new();
    let names = recordings(&lab);
    std::fs::write(lab.path("bad.txt"), "hello\n").unwrap();
    let (r0, r1) = (names[0].as_str(), names[1].as_str());
    let skip = "--skip-unreadable";
    done(
        &lab,
        &["profile", r0, "bad.txt", skip, "--partial", "a.part"],
    );
    done(
        &lab,
        &["profile", r1, "none.txt", skip, "--partial", "b.part"],
    );
    let merged = done(&lab, &["merge", "b.part", "a.part"]);
    for expect in [
        "2 recordings could not be read",
        "bad.txt was not read",
        "none.txt was not read",
    ] {
        assert!(merged.contains(expect), "{expect}: {merged}");
    }
    let one = done(&lab, &["profile", r0, "bad.txt", r1, "none.txt", skip]);
    assert_eq!(merged, one);
}
