// SPDX-License-Identifier: Apache-2.0
//! Base directories however they are named, and how errors read.

use super::*;
use crate::fake::{FakeHost, FakeWhen};
use plimsoll_machine::host::{LocalHost, SearchPath};
use std::fs;
use std::os::unix::fs::symlink;

fn local() -> StackConfig {
    StackConfig::parse("local").unwrap()
}

fn first_dir(plan: &Plan) -> &str {
    let dir = plan.steps.iter().find_map(|step| match &step.apply {
        PlanAction::MakeDir(path) => Some(path.as_str()),
        _ => None,
    });
    dir.unwrap()
}

#[test]
fn a_dry_run_names_the_directories_that_a_real_one_makes() {
    let place = tempfile::tempdir().unwrap();
    let real = place.path().canonicalize().unwrap();
    symlink(&real, real.join("link")).unwrap();
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    for (given, expect) in [
        (PathBuf::from("./absent/x"), here.join("absent/x")),
        (PathBuf::from("absent"), here.join("absent")),
        (PathBuf::from("."), here),
        (real.join("link/absent"), real.join("absent")),
        (real.join("link/./"), real.clone()),
    ] {
        let options = StackUpOptions::new(given);
        let plan = plan(&local(), &options, &mut FakeHost::new()).unwrap().plan;
        let expect = expect.join("plimsoll-local");
        assert_eq!(Path::new(first_dir(&plan)), expect);
    }
    let options = StackUpOptions::new(real.join("absent/../x"));
    let error = plan(&local(), &options, &mut FakeHost::new()).unwrap_err();
    assert!(error.to_string().contains("without '..'"), "{error}");
    assert!(!real.join("absent").exists());
}

#[test]
fn a_base_directory_that_was_made_goes_with_the_stack() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path().join("state"));
    let mut host = LocalHost::new(SearchPath::new("".as_ref()));
    let options = StackUpOptions::new(place.path().join("made/deep"));
    let up = up(&local(), &options, &state, &mut host).unwrap();
    fs::write(up.mount_dir().join("file"), "x").unwrap();
    assert!(down("local", &state, &mut host).unwrap().is_clean());
    assert!(!place.path().join("made").exists());
    // One that was there stays.
    fs::create_dir(place.path().join("theirs")).unwrap();
    let options = StackUpOptions::new(place.path().join("theirs"));
    super::up(&local(), &options, &state, &mut host).unwrap();
    assert!(down("local", &state, &mut host).unwrap().is_clean());
    assert!(place.path().join("theirs").exists());
}

#[test]
fn errors_complete_a_sentence_that_others_begin() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let options = StackUpOptions::new(place.path().into());
    let mut host = FakeHost::new().failing_at(0, FakeWhen::Before);
    let error = up(&local(), &options, &state, &mut host).unwrap_err();
    let text = error.to_string();
    let begin = "could not create the stack directory: told to fail at 0; everything";
    assert!(text.starts_with(begin), "{text}");
    // The error below is whole: it may be shown alone.
    let UpError::Raise(whole) = error else {
        panic!("{text}")
    };
    assert_eq!(whole.to_string(), text);
    let not_ready = HostError::NotReady {
        command: "tgtd -f &".into(),
        seconds: 20,
        output: "no".into(),
    };
    let expect = "'tgtd -f &' was not ready within 20 s; last output: no";
    assert_eq!(not_ready.to_string(), expect);
    let name = || "local".to_string();
    let kind = || JournalScope::Stack(name());
    for text in [
        UpError::Unfinished { name: name() }.to_string(),
        UpError::Base(not_ready).to_string(),
        DownError::NotUp { name: name() }.to_string(),
        JournalError::NotStanding { kind: kind() }.to_string(),
        JournalError::InUse {
            kind: kind(),
            path: "/j".into(),
            pid: None,
        }
        .to_string(),
    ] {
        assert!(!text.starts_with("failed"), "{text}");
        assert!(!text.ends_with('.') && !text.contains("  "), "{text}");
    }
}

#[test]
fn a_stack_whose_network_was_taken_meanwhile_takes_another() {
    let bridge = PlanAction::MakeBridge {
        name: "plimsoll7".into(),
        address: "10.92.7.254/24".into(),
    };
    let failed = |action: &PlanAction, output: &str| RaiseError {
        why: "create the network of the nodes".into(),
        action: action.to_string(),
        source: HostError::Failed {
            command: "ip".into(),
            status: "status 2".into(),
            output: output.into(),
        }
        .into(),
        razed: RazeReport::default(),
        goes_on: false,
    };
    let taken = "RTNETLINK answers: File exists";
    assert!(has_lost_network(&failed(&bridge, taken)));
    assert!(!has_lost_network(&failed(
        &bridge,
        "Operation not permitted"
    )));
    let directory = PlanAction::MakeDir("/a".into());
    assert!(!has_lost_network(&failed(&directory, taken)));
}
