// SPDX-License-Identifier: Apache-2.0
//! Facts and ratios of a run whose figures are known.

use super::*;

#[path = "../../tests/integration/databases/made.rs"]
mod made;

fn read(factor: f64, reference: Option<&str>) -> Result<RunFigures, HistoryError> {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    made::run_folder(&folder, "monday", factor);
    RunFigures::read(&folder, reference)
}

#[test]
fn ratios_are_those_of_the_blocks() {
    let run = read(1.5, None).unwrap();
    let mut ratios = 0;
    for fact in &run.facts {
        let same = |other: &&HistoryFact| {
            other.block == fact.block
                && other.figure.0 == run.reference
                && (&other.figure.1, &other.figure.3) == (&fact.figure.1, &fact.figure.3)
        };
        let base = run.facts.iter().find(same).unwrap();
        let found = fact.ratio.unwrap();
        assert!(
            (fact.value / base.value / found - 1.0).abs() < 1e-9,
            "{fact:?}"
        );
        ratios += 1;
    }
    assert!(ratios >= 12, "{ratios}");
    let mean = |point: &&HistoryPointDraft| point.figure.3 == "mean_response_ns";
    let point = run.points.iter().find(mean).unwrap();
    assert!((point.estimate / 1.5 - 1.0).abs() < 0.02, "{point:?}");
    let (low, high) = point.interval.unwrap();
    assert!(low <= point.estimate && point.estimate <= high && point.blocks == 3);
}

#[test]
fn the_reference_is_the_arm_that_was_named() {
    let first = read(1.5, None).unwrap();
    let other = first.points[0].figure.0.clone();
    let turned = read(1.5, Some(&other)).unwrap();
    let (one, two) = (&first.points[0], &turned.points[0]);
    assert!(
        (one.estimate * two.estimate - 1.0).abs() < 1e-9,
        "{one:?} {two:?}"
    );
    let told = read(1.5, Some("nobody")).unwrap_err().to_string();
    assert!(told.contains("no system 'nobody'"), "{told}");
}

#[test]
fn a_damaged_line_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    made::run_folder(&folder, "monday", 1.5);
    let path = folder.join("events.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let told = RunFigures::read(&folder, None).unwrap_err().to_string();
    assert!(told.contains("1 of their lines cannot be read"), "{told}");
}

/// A manifest may come from another user: an invalid search has no load line, and must not end the server.
#[test]
fn a_load_line_that_cannot_be_searched_is_refused() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../plimsoll-archive/tests/fixtures/2.6");
    let manifest = std::fs::read_to_string(fixture.join("manifest.json")).unwrap();
    // Manifests of the first formats have no checksum. The one trial of a search is of another entry there.
    let (_, manifest) = manifest.split_once("\",").unwrap();
    let mut manifest = format!("{{{manifest}");
    for (from, to) in [
        ("\"format\":\"2.6\"", "\"format\":\"2.1\""),
        ("\"label\":\"mixed\"", "\"label\":\"other\""),
        ("\"label\":\"line\"", "\"label\":\"mixed\""),
    ] {
        manifest = manifest.replacen(from, to, 1);
    }
    for (from, to) in [
        ("\"smallest\":0.02", "\"smallest\":0.0"),
        ("\"smallest\":0.02", "\"smallest\":70.0"),
        ("\"width\":0.05", "\"width\":-1.0"),
    ] {
        assert!(manifest.contains(from), "{from}");
        let place = tempfile::tempdir().unwrap();
        std::fs::write(
            place.path().join("manifest.json"),
            manifest.replacen(from, to, 1),
        )
        .unwrap();
        std::fs::copy(
            fixture.join("events.jsonl"),
            place.path().join("events.jsonl"),
        )
        .unwrap();
        let refused = RunFigures::read(place.path(), Some("slow")).unwrap_err();
        let told = refused.to_string();
        assert!(
            told.contains("manifest.json") && told.contains("mixed"),
            "{to}: {told}"
        );
    }
}
