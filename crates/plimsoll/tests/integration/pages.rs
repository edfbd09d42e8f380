// SPDX-License-Identifier: Apache-2.0
//! Pages in a browser: each file of `web/test`, run by Node's test runner with the program of this build.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test starts programs, and its output is what a report of it shows"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const OLDEST_NODE: u32 = 18;
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Why pages cannot be tested here.
fn missing() -> Option<String> {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = |text: String| text.trim_start_matches('v').split('.').next()?.parse().ok();
    if version
        .ok()
        .and_then(major)
        .is_none_or(|major: u32| major < OLDEST_NODE)
    {
        return Some("Node 18 or newer is missing: apt-get install nodejs npm".into());
    }
    let has = |name: &&str| Path::new("/usr/bin").join(name).exists();
    if std::env::var_os("CHROMIUM").is_none() && !BROWSERS.iter().any(has) {
        return Some("Chromium is missing: apt-get install chromium".into());
    }
    if !web().join("node_modules/playwright-core").exists() {
        return Some("web/node_modules is missing: npm ci in web/".into());
    }
    None
}

/// Of a summary that Node prints in TAP: `# pass 8`.
fn count(text: &str, what: &str) -> u32 {
    let head = format!("# {what} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&head));
    line.unwrap_or_else(|| panic!("no number of {what}: {text}"))
        .parse()
        .unwrap()
}

fn run(name: &str) {
    if let Some(why) = missing() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: pages: {why}");
        return;
    }
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new("node")
        .args(["--test", "--test-reporter=tap"])
        .arg(format!("test/{name}.test.mjs"))
        .current_dir(web())
        .env("PLIMSOLL", env!("CARGO_BIN_EXE_plimsoll"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&stdout);
    println!("{text}\n{}", String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}");
    let tests = count(&text, "tests");
    assert!(tests > 0 && count(&text, "pass") == tests, "not all passed");
}

macro_rules! pages {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn no_file_is_left_out() {
            let files = std::fs::read_dir(web().join("test")).unwrap();
            let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut found: Vec<String> = names
                .filter_map(|name| Some(name.strip_suffix(".test.mjs")?.to_owned()))
                .collect();
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
        }
    };
}

pages!(client, live, report, script, team);
