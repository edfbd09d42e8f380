// SPDX-License-Identifier: Apache-2.0
//! Forms that the page sends.

use serde_json::{Value, json};

/// The form of a campaign of one workload, with more keys.
pub(super) fn campaign(targets: &[&str], workload: &str, keys: &Value) -> Value {
    let targets: Vec<Value> = targets.iter().map(|one| json!({ "target": one })).collect();
    let mut campaign =
        json!({ "format": "1.2", "target": targets, "workload": [{ "workload": workload }] });
    let keys = keys.as_object().expect("keys of a campaign").clone();
    campaign.as_object_mut().expect("a campaign").extend(keys);
    json!({ "campaign": campaign })
}
