// SPDX-License-Identifier: Apache-2.0
//! Programs that bring agents to hosts: their names on the command line, and the commands that they become.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::FleetError;
use crate::kubernetes::KubernetesJob;

/// Most hosts of a fleet.
const HOSTS_MAX: u32 = 4096;

/// Words that begin the request for a fleet; anything else names nodes of an inventory.
const KINDS: [&str; 4] = ["local", "slurm", "k8s", "exec"];

/// A program that brings agents to hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetCarrier {
    /// Copies of the agent on this machine.
    Local,
    /// `salloc` and `srun`, with these options of `salloc`.
    Slurm(Vec<String>),
    /// A job of Kubernetes.
    Kubernetes(KubernetesJob),
    /// A command that starts what is appended to it on every host.
    Command(Vec<String>),
}

/// A fleet as it is asked for: `slurm:32`, `k8s:32,image=NAME`, `exec:32:mpiexec -n 32`, `local:4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRequest {
    /// How many hosts.
    pub hosts: u32,
    /// The program that brings agents there.
    pub carrier: FleetCarrier,
    /// Where the agent lies on the hosts, if not where it lies here.
    pub agent: Option<PathBuf>,
    /// A file that the ticket is given in, where the carrier does not pass the environment on.
    pub ticket: Option<PathBuf>,
}

impl FleetRequest {
    /// Whether a text asks for a fleet, and not for nodes by their names.
    pub fn is_meant(text: &str) -> bool {
        text.split_once(':')
            .is_some_and(|(kind, _)| KINDS.contains(&kind))
    }

    /// The command that is run on this machine, for an agent that lies here at this path; none where
    /// another program does that work.
    pub fn command(&self, agent: &Path, is_in_job: bool) -> Vec<String> {
        let agent = self.agent.as_deref().unwrap_or(agent);
        let agent = agent.to_string_lossy().into_owned();
        let mut dial = vec![agent.clone(), "dial".to_owned()];
        dial.extend(
            self.ticket
                .iter()
                .map(|path| path.to_string_lossy().into_owned()),
        );
        let hosts = self.hosts.to_string();
        match &self.carrier {
            FleetCarrier::Local => dial,
            FleetCarrier::Kubernetes(_) => Vec::new(),
            FleetCarrier::Slurm(options) => {
                let mut words = Vec::new();
                // Within an allocation of the user's own that one is used.
                if !is_in_job {
                    words.extend(["salloc".into(), format!("--nodes={hosts}")]);
                    words.extend(
                        ["--ntasks-per-node=1", "--no-kill", "--job-name=plimsoll"].map(Into::into),
                    );
                    words.extend(options.iter().cloned());
                }
                words.extend([
                    "srun".into(),
                    format!("--nodes={hosts}"),
                    format!("--ntasks={hosts}"),
                ]);
                // One host less is one host less; the others go on.
                let alone = [
                    "--ntasks-per-node=1",
                    "--kill-on-bad-exit=0",
                    "--no-kill",
                    "--wait=0",
                ];
                words.extend(alone.map(Into::into));
                words.extend(dial);
                words
            }
            FleetCarrier::Command(given) => {
                let put = |word: &String| word.replace("{n}", &hosts).replace("{agent}", &agent);
                let mut words: Vec<String> = given.iter().map(put).collect();
                if !given.iter().any(|word| word.contains("{agent}")) {
                    words.extend(dial);
                }
                words
            }
        }
    }

    /// How many copies this machine starts.
    pub(crate) fn copies(&self) -> u32 {
        match self.carrier {
            FleetCarrier::Local => self.hosts,
            _ => 0,
        }
    }
}

impl FromStr for FleetRequest {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<FleetRequest, FleetError> {
        let bad = |what: String| {
            FleetError::Asked(format!("invalid value '{text}' for --clients: {what}"))
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (head, command) = match kind {
            "exec" => {
                let (head, command) = rest.split_once(':').ok_or_else(|| {
                    bad("expected exec:NUMBER:COMMAND, as in 'exec:32:mpiexec -n 32'".into())
                })?;
                (head, words_of(command).map_err(&bad)?)
            }
            _ => (rest, Vec::new()),
        };
        let mut parts = head.split(',');
        let number = parts.next().unwrap_or_default();
        let hosts = number.parse().ok().filter(|n| (1..=HOSTS_MAX).contains(n));
        let hosts = hosts.ok_or_else(|| {
            bad(format!(
                "expected a number of hosts, 1 to {HOSTS_MAX}, and not '{number}'"
            ))
        })?;
        let mut request = FleetRequest {
            hosts,
            carrier: FleetCarrier::Local,
            agent: None,
            ticket: None,
        };
        let mut options = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .filter(|(key, value)| !key.is_empty() && !value.is_empty())
                .ok_or_else(|| bad(format!("expected KEY=VALUE instead of '{part}'")))?;
            match (key, kind) {
                ("agent", "local" | "slurm" | "exec") => request.agent = Some(value.into()),
                ("ticket", "exec") => request.ticket = Some(value.into()),
                _ => options.push((key, value)),
            }
        }
        request.carrier = match kind {
            "slurm" => FleetCarrier::Slurm(
                options
                    .iter()
                    .map(slurm_option)
                    .collect::<Result<_, _>>()
                    .map_err(bad)?,
            ),
            "k8s" => FleetCarrier::Kubernetes(KubernetesJob::of(&options).map_err(bad)?),
            _ if !options.is_empty() => {
                return Err(bad(format!("unknown key '{}'", options[0].0)));
            }
            "exec" if command.is_empty() => return Err(bad("the command is missing".into())),
            "exec" => FleetCarrier::Command(command),
            _ => FleetCarrier::Local,
        };
        Ok(request)
    }
}

/// Any long option of `salloc` may be given.
fn slurm_option((key, value): &(&str, &str)) -> Result<String, String> {
    let is_name = key.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    match is_name && !key.starts_with('-') {
        true => Ok(format!("--{key}={value}")),
        false => Err(format!("'{key}' is no option of salloc")),
    }
}

/// The words of a command; quotes keep blanks in one.
fn words_of(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("a {open} is not closed")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> String {
        let request: FleetRequest = text.parse().unwrap();
        request.command(Path::new("/bin/agent"), false).join(" ")
    }

    #[test]
    fn each_carrier_is_a_command() {
        assert_eq!(command("local:3"), "/bin/agent dial");
        assert_eq!(
            command("slurm:16,partition=fast,agent=/shared/agent"),
            "salloc --nodes=16 --ntasks-per-node=1 --no-kill --job-name=plimsoll --partition=fast srun \
             --nodes=16 --ntasks=16 --ntasks-per-node=1 --kill-on-bad-exit=0 --no-kill --wait=0 \
             /shared/agent dial"
        );
        assert_eq!(
            command("exec:8:mpiexec -n {n}"),
            "mpiexec -n 8 /bin/agent dial"
        );
        assert_eq!(
            command("exec:8,ticket=/home/me/t:pbsdsh --"),
            "pbsdsh -- /bin/agent dial /home/me/t"
        );
        assert_eq!(
            command("exec:1:sh -c '{agent} dial'"),
            "sh -c /bin/agent dial"
        );
        let request: FleetRequest = "slurm:2".parse().unwrap();
        assert_eq!(request.command(Path::new("a"), true)[0], "srun");
    }

    #[test]
    fn a_fleet_is_told_from_names_and_mistakes_are_named() {
        assert!(FleetRequest::is_meant("slurm:2") && FleetRequest::is_meant("k8s:"));
        assert!(!FleetRequest::is_meant("n1,n2") && !FleetRequest::is_meant("slurm"));
        for (text, expect) in [
            ("slurm:", "a number of hosts"),
            ("slurm:0", "a number of hosts"),
            ("local:9999", "1 to 4096"),
            ("local:2,x", "KEY=VALUE"),
            ("local:2,x=1", "unknown key 'x'"),
            ("exec:2", "exec:NUMBER:COMMAND"),
            ("exec:2:", "the command is missing"),
            ("exec:2:a 'b", "is not closed"),
            ("slurm:2,Bad=1", "no option of salloc"),
            ("k8s:2", "image"),
        ] {
            let error = text.parse::<FleetRequest>().unwrap_err().to_string();
            assert!(
                error.contains(expect) && error.contains("--clients"),
                "{error}"
            );
        }
    }
}
