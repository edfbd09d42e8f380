// SPDX-License-Identifier: Apache-2.0
//! Numbers of a run folder replaced by others, several at once, with the checksums of our own sealing: the
//! reader takes what a run can plan, and what is read can be compared.
//!
//! Each eleven bytes are a change: two for which number, one for how the other eight are taken.

use serde_json::{Value, json};
use std::fs;
use std::sync::LazyLock;

const MANIFEST: &str =
    include_str!("../../../crates/plimsoll-archive/tests/fixtures/2.6/manifest.json");
const EVENTS: &str =
    include_str!("../../../crates/plimsoll-archive/tests/fixtures/2.6/events.jsonl");

/// The manifest, then the events, without their checksums.
static DOCUMENTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let texts = std::iter::once(MANIFEST).chain(EVENTS.lines());
    let plain = |text| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        value.as_object_mut().map(|keys| keys.remove("crc32c"));
        value
    };
    texts.map(plain).collect()
});

/// Runs the target on one input.
pub fn run_folder(input: &[u8]) {
    let mut documents = DOCUMENTS.clone();
    let mut numbers = Vec::new();
    documents
        .iter_mut()
        .for_each(|document| collect(document, &mut numbers));
    let (changes, _) = input.as_chunks::<11>();
    for [low, high, kind, bytes @ ..] in changes {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % numbers.len();
        *numbers[at] = number(*kind, *bytes);
    }
    let mut texts = documents.iter().map(sealed);
    let manifest = texts.next().unwrap_or_default();
    let events = texts.collect::<Vec<_>>().join("\n") + "\n";
    let folder = tempfile::tempdir().expect("a place");
    fs::write(folder.path().join("manifest.json"), manifest).expect("a place");
    fs::write(folder.path().join("events.jsonl"), events).expect("a place");
    let whole = plimsoll_archive::open_whole(folder.path());
    let Ok(results) = plimsoll_archive::open(folder.path()) else {
        assert!(whole.is_err(), "one reader takes what the other refuses");
        return;
    };
    let _ = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    let _ = plimsoll_stats::compare_secondary(&results.manifest, &results.trials);
}

fn collect<'a>(value: &'a mut Value, numbers: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Array(items) => items.iter_mut().for_each(|item| collect(item, numbers)),
        Value::Object(items) => items.values_mut().for_each(|item| collect(item, numbers)),
        _ => {}
    }
}

/// Whole, negative, of any size, or small.
fn number(kind: u8, bytes: [u8; 8]) -> Value {
    let whole = u64::from_le_bytes(bytes);
    match kind % 5 {
        0 => json!(whole),
        1 => json!(whole.cast_signed()),
        // NaN and infinities become null, which is no number either.
        2 => json!(f64::from_bits(whole)),
        3 => json!(1_u64 << (whole % 64)),
        _ => json!(whole % 1000),
    }
}

fn sealed(document: &Value) -> String {
    let text = document.to_string();
    let rest = &text[1..];
    let sum = crc32c::crc32c(rest.as_bytes());
    format!("{{\"crc32c\":\"{sum:08x}\",{rest}")
}
