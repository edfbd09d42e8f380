// SPDX-License-Identifier: Apache-2.0
//! A fleet as an Indexed Job: the objects, and the commands that make and remove them.
//!
//! The Job is made first and owns the Secret, so that whatever removes the one removes both. It ends itself
//! when its agents do, after its deadline in any case, and is then removed by the cluster.

use serde_json::{Value, json};

use crate::ticket::TICKET_VARIABLE;

/// How long a job may live, unless another time is given.
const DEADLINE_S: u32 = 24 * 3600;

/// How long an ended job is kept.
const KEPT_S: u32 = 60;

/// The name of the one entry of the Secret.
const ENTRY: &str = "ticket";

/// The settings of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesJob {
    image: String,
    namespace: Option<String>,
    context: Option<String>,
    /// A claim of storage, and where it is mounted.
    claim: Option<(String, String)>,
    deadline_s: u32,
    cpu: Option<String>,
    memory: Option<String>,
}

impl KubernetesJob {
    pub(crate) fn of(options: &[(&str, &str)]) -> Result<KubernetesJob, String> {
        let mut job = KubernetesJob {
            image: String::new(),
            namespace: None,
            context: None,
            claim: None,
            deadline_s: DEADLINE_S,
            cpu: None,
            memory: None,
        };
        for &(key, value) in options {
            let text = value.to_owned();
            match key {
                "image" => job.image = text,
                "namespace" => job.namespace = Some(text),
                "context" => job.context = Some(text),
                "cpu" => job.cpu = Some(text),
                "memory" => job.memory = Some(text),
                "deadline" => {
                    let seconds = value.strip_suffix('s').unwrap_or(value).parse();
                    let seconds = seconds.ok().filter(|seconds| *seconds > 0);
                    job.deadline_s = seconds.ok_or("expected deadline=SECONDS")?;
                }
                "claim" => {
                    let (name, path) = value
                        .split_once(':')
                        .filter(|(_, path)| path.starts_with('/'))
                        .ok_or("expected claim=NAME:/PATH, where the claim is mounted")?;
                    job.claim = Some((name.into(), path.into()));
                }
                _ => {
                    return Err(format!(
                        "unknown key '{key}'; keys are image, namespace, context, claim, deadline, cpu, memory"
                    ));
                }
            }
        }
        match job.image.is_empty() {
            true => Err("image=NAME is missing: the image that plimsoll-agent is in".into()),
            false => Ok(job),
        }
    }

    /// The job `name` of `hosts` hosts.
    pub fn job(&self, name: &str, hosts: u32) -> Value {
        let labels = json!({"app.kubernetes.io/name": "plimsoll", "plimsoll/fleet": name});
        let mut container = json!({
            "name": "agent",
            "image": self.image,
            "command": ["plimsoll-agent", "dial"],
            "env": [{
                "name": TICKET_VARIABLE,
                "valueFrom": {"secretKeyRef": {"name": name, "key": ENTRY}},
            }],
            "securityContext": {"allowPrivilegeEscalation": false},
        });
        let mut pod = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            // One host each, as far as there are enough.
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"plimsoll/fleet": name}},
            }],
        });
        let mut wanted = serde_json::Map::new();
        for (key, value) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            if let Some(value) = value {
                wanted.insert(key.into(), json!(value));
            }
        }
        if !wanted.is_empty() {
            container["resources"] = json!({"requests": wanted});
        }
        if let Some((claim, path)) = &self.claim {
            container["volumeMounts"] = json!([{"name": "storage", "mountPath": path}]);
            let volume = json!({"name": "storage", "persistentVolumeClaim": {"claimName": claim}});
            pod["volumes"] = json!([volume]);
        }
        pod["containers"] = json!([container]);
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(name, &labels),
            "spec": {
                "completionMode": "Indexed",
                "completions": hosts,
                "parallelism": hosts,
                // A lost host is not started again, and takes no other one with it.
                "backoffLimitPerIndex": 0,
                "activeDeadlineSeconds": self.deadline_s,
                "ttlSecondsAfterFinished": KEPT_S,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })
    }

    /// The Secret of the job with this identifier.
    pub fn secret(&self, name: &str, uid: &str, ticket: &str) -> Value {
        let mut metadata = self.metadata(name, &json!({"app.kubernetes.io/name": "plimsoll"}));
        metadata["ownerReferences"] = json!([{
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": uid,
        }]);
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "immutable": true,
            "type": "Opaque",
            "stringData": {ENTRY: ticket},
        })
    }

    fn metadata(&self, name: &str, labels: &Value) -> Value {
        let mut metadata = json!({"name": name, "labels": labels});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    /// The command that makes an object it is given, and says its identifier.
    pub(crate) fn make(&self) -> Vec<String> {
        self.kubectl(&["create", "-f", "-", "-o", "jsonpath={.metadata.uid}"])
    }

    /// The command that removes all of it.
    pub(crate) fn remove(&self, name: &str) -> Vec<String> {
        let job = format!("job/{name}");
        self.kubectl(&["delete", &job, "--ignore-not-found", "--wait=false"])
    }

    /// The command that says how its pods are.
    pub(crate) fn look(&self, name: &str) -> Vec<String> {
        let label = format!("plimsoll/fleet={name}");
        self.kubectl(&["get", "pods", "-l", &label, "--no-headers"])
    }

    fn kubectl(&self, words: &[&str]) -> Vec<String> {
        let mut all = vec!["kubectl".to_owned()];
        for (option, value) in [("context", &self.context), ("namespace", &self.namespace)] {
            all.extend(value.iter().map(|value| format!("--{option}={value}")));
        }
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_ends_itself_and_owns_its_secret() {
        let options = [
            ("image", "i:1"),
            ("namespace", "bench"),
            ("claim", "c:/data"),
        ];
        let job = KubernetesJob::of(&options).unwrap();
        let made = job.job("plimsoll-x", 32);
        let spec = &made["spec"];
        assert_eq!(
            (&spec["completions"], &spec["backoffLimitPerIndex"]),
            (&json!(32), &json!(0))
        );
        assert!(spec["activeDeadlineSeconds"].is_u64() && spec["ttlSecondsAfterFinished"].is_u64());
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "c");
        // The ticket is in the Secret alone.
        let secret = job.secret("plimsoll-x", "uid-1", "the ticket");
        assert_eq!(secret["stringData"]["ticket"], "the ticket");
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "uid-1");
        assert!(!made.to_string().contains("the ticket"));
        assert_eq!(
            job.remove("plimsoll-x")[..2],
            ["kubectl", "--namespace=bench"]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (options, expect) in [
            (vec![], "image"),
            (vec![("image", "i"), ("claim", "c")], "claim=NAME:/PATH"),
            (vec![("image", "i"), ("deadline", "soon")], "SECONDS"),
            (
                vec![("image", "i"), ("colour", "red")],
                "unknown key 'colour'",
            ),
        ] {
            let error = KubernetesJob::of(&options).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }
}
