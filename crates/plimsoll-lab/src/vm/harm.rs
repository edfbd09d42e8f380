// SPDX-License-Identifier: Apache-2.0
//! Faults of a machine: what is done to it from outside, and by a shell in it that no network is
//! needed for.
//!
//! Invariant: ending a fault that is not there is fine, so a fault can be ended by anybody at any time.

use plimsoll_core::fault::{DELAY_MS, FaultCommand, FaultKind, LOSS_PERCENT};
use serde_json::Value;
use std::time::Duration;

use super::power::{BREAKER, VmDiskLimits, VmQmpCommand};
use super::{VmError, VmGroup, VmState};
use plimsoll_machine::host::Host;

/// How long a command in a machine may take: filling a disk is a few calls, also under emulation.
const LIMIT: Duration = Duration::from_secs(60);

/// How far a clock is ahead.
const AHEAD: Duration = Duration::from_secs(3600);

/// Limits of a disk that is slow: some ten requests, and 1 MiB, a second.
const SLOW: VmDiskLimits = VmDiskLimits {
    requests_per_s: 10,
    bytes_per_s: 1 << 20,
};

/// Limits of one that hangs. QEMU lets the first request pass, and makes up for it with the rest of
/// the day.
const HUNG: VmDiskLimits = VmDiskLimits {
    requests_per_s: 1,
    bytes_per_s: 1,
};

/// File that fills the disk.
const FILLER: &str = "/data/.plimsoll-full";

/// Takes all that is free, also what is kept for root, in ever smaller pieces.
const FILL: &str = "at=0; size=$(stat -f -c '%f * %S' /data); size=$(($size))
while [ $size -ge 4096 ]; do
  if fallocate -o $at -l $size FILLER 2>/dev/null; then at=$((at + size)); else size=$((size / 2)); fi
done
[ $at -gt 0 ]";

/// A disk, as QEMU describes it.
#[derive(Debug, PartialEq, Eq)]
struct VmDiskState {
    name: String,
    /// Whether every request to it fails.
    is_broken: bool,
}

impl VmDiskState {
    fn of(told: &Value) -> Option<VmDiskState> {
        let driver = told["inserted"]["drv"].as_str();
        Some(VmDiskState {
            name: told["device"].as_str()?.to_owned(),
            is_broken: driver == Some(BREAKER),
        })
    }
}

impl VmGroup {
    /// Does a fault to a machine, ends it, or tries whether it could be done.
    ///
    /// # Errors
    /// When there is no machine of this name, it cannot be reached, or cannot do that.
    pub fn fault(
        &self,
        name: &str,
        fault: FaultKind,
        word: FaultCommand,
        host: &dyn Host,
    ) -> Result<(), VmError> {
        self.check_name(name)?;
        let is_on = word == FaultCommand::On;
        match (fault, word) {
            (FaultKind::LinkDown | FaultKind::Flap, FaultCommand::Try) => {
                self.tell(name, VmQmpCommand::Status).map(drop)
            }
            (FaultKind::LinkDown | FaultKind::Flap, _) => self.link(name, !is_on),
            (FaultKind::DiskSlow, _) => self.throttle(name, SLOW, word),
            (FaultKind::DiskHung, _) => self.throttle(name, HUNG, word),
            (FaultKind::DiskErrors, _) => self.break_disks(name, word),
            (FaultKind::ClockStep, FaultCommand::Try) => self.sh(name, "true", host),
            (FaultKind::ClockStep, _) => {
                let ahead = if is_on { AHEAD } else { Duration::ZERO };
                self.set_clock(name, ahead, host)
            }
            (FaultKind::Partition, _) => self.part(name, word, host),
            (FaultKind::OneWay | FaultKind::Delay | FaultKind::Loss | FaultKind::DiskFull, _) => {
                self.sh(name, &script(fault, word), host)
            }
            _ => Err(VmError::Wanted(format!(
                "{fault} cannot be injected into a machine from outside; use plimsoll failover"
            ))),
        }
    }

    fn throttle(
        &self,
        name: &str,
        limits: VmDiskLimits,
        word: FaultCommand,
    ) -> Result<(), VmError> {
        let limits = match word {
            FaultCommand::Try => return self.tell(name, VmQmpCommand::Status).map(drop),
            FaultCommand::On => limits,
            FaultCommand::Off => VmDiskLimits::default(),
        };
        for disk in self.disks_of(name)? {
            self.tell(name, VmQmpCommand::Throttle(&disk.name, limits))?;
        }
        Ok(())
    }

    /// Puts between each disk and its file what fails every request, or takes it away.
    fn break_disks(&self, name: &str, word: FaultCommand) -> Result<(), VmError> {
        if word == FaultCommand::Try {
            return self.tell(name, VmQmpCommand::Status).map(drop);
        }
        for disk in self.disks_of(name)? {
            match (word == FaultCommand::On, disk.is_broken) {
                (true, false) => {
                    self.tell(name, VmQmpCommand::Breaker(&disk.name))?;
                    self.tell(name, VmQmpCommand::Break(&disk.name))?;
                }
                (false, true) => {
                    self.tell(name, VmQmpCommand::Mend(&disk.name))?;
                    self.tell(name, VmQmpCommand::NoBreaker(&disk.name))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The disks of a server: what its system is read from is none.
    fn disks_of(&self, name: &str) -> Result<Vec<VmDiskState>, VmError> {
        let listed = self.tell(name, VmQmpCommand::Disks)?;
        let disks = listed.as_array().into_iter().flatten();
        Ok(disks
            .filter_map(VmDiskState::of)
            .filter(|disk| disk.name != "root")
            .collect())
    }

    /// Cuts a machine off from the other servers, in both directions.
    fn part(&self, name: &str, word: FaultCommand, host: &dyn Host) -> Result<(), VmError> {
        let servers = self
            .nodes()
            .iter()
            .filter(|node| node.name.starts_with('n'));
        let (this, others): (Vec<_>, Vec<_>) = servers.partition(|node| node.name == name);
        let addresses: Vec<&str> = others.iter().map(|node| &*node.address).collect();
        if this.is_empty() || others.is_empty() {
            return Err(VmError::State(format!(
                "{name} has no second server, so there is nothing to isolate it from"
            )));
        }
        let from = [&*this[0].address];
        let own = (name, routes(&addresses, word));
        let of_others = others.iter().map(|node| (&*node.name, routes(&from, word)));
        let mut all = std::iter::once(own).chain(of_others);
        if word != FaultCommand::Off {
            return all.try_for_each(|(name, text)| self.sh(name, &text, host));
        }
        // A machine without power has no routes, and what fails on one must not keep the others apart.
        let is_on = |name: &str| !matches!(self.condition(name, host), Ok(VmState::Off));
        let on = all.filter(|(name, _)| is_on(name));
        let ended = on.map(|(name, text)| self.sh(name, &text, host));
        ended.fold(Ok(()), Result::and)
    }

    /// Carries out some lines in a machine.
    pub(super) fn sh(&self, name: &str, script: &str, host: &dyn Host) -> Result<(), VmError> {
        let failed = |why: &str| VmError::State(format!("in machine {name}: '{script}': {why}"));
        match self.port(name, host)?.run(script, host.clock(), LIMIT) {
            Ok(ended) if ended.status == 0 => Ok(()),
            Ok(ended) => Err(failed(ended.errors.trim())),
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

/// The script that brings a fault about in a machine, ends it, or tries it.
fn script(fault: FaultKind, word: FaultCommand) -> String {
    let netem = |how: String| {
        let root = "dev eth0 root";
        let end = format!("tc qdisc delete {root} netem 2>/dev/null || true");
        match word {
            FaultCommand::On => format!("tc qdisc replace {root} netem {how}"),
            FaultCommand::Off => end,
            // The kernel is asked by having it done without any effect.
            FaultCommand::Try => format!("tc qdisc replace {root} netem delay 0ms && {{ {end}; }}"),
        }
    };
    match fault {
        FaultKind::Delay => netem(format!("delay {DELAY_MS}ms")),
        FaultKind::Loss => netem(format!("loss {LOSS_PERCENT}%")),
        FaultKind::DiskFull => match word {
            FaultCommand::Try => "command -v fallocate >/dev/null".into(),
            FaultCommand::On => FILL.replace("FILLER", FILLER),
            FaultCommand::Off => format!("rm -f {FILLER}"),
        },
        // Both halves of its network: narrower than the route it has, so they are taken first.
        _ => {
            let network = "${network}";
            let halves = [0, 128].map(|half| format!("{network}.{half}/25"));
            let network = "network=$(ip -4 -o address show dev eth0 | sed 's/.* inet \\([0-9.]*\\)\\.[0-9]*\\/.*/\\1/')";
            format!(
                "{network}\n{}",
                routes(&halves.each_ref().map(String::as_str), word)
            )
        }
    }
}

/// Routes that throw away what is sent to these destinations.
fn routes(destinations: &[&str], word: FaultCommand) -> String {
    let one = |destination: &&str| match word {
        FaultCommand::Try => "command -v ip >/dev/null".to_owned(),
        FaultCommand::On => format!("ip route replace blackhole {destination}"),
        FaultCommand::Off => format!("ip route delete blackhole {destination} 2>/dev/null || true"),
    };
    let lines: Vec<String> = destinations.iter().map(one).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_told_to_be_broken_by_what_it_is_made_of() {
        let told = |drv| serde_json::json!({ "device": "data", "inserted": { "drv": drv } });
        let disk = |is_broken| {
            Some(VmDiskState {
                name: "data".into(),
                is_broken,
            })
        };
        assert_eq!(VmDiskState::of(&told("raw")), disk(false));
        assert_eq!(VmDiskState::of(&told("blkdebug")), disk(true));
        assert_eq!(VmDiskState::of(&Value::Null), None);
    }

    #[test]
    fn every_fault_of_a_machine_is_ended_by_what_can_be_done_twice() {
        for fault in [
            FaultKind::OneWay,
            FaultKind::Delay,
            FaultKind::Loss,
            FaultKind::DiskFull,
        ] {
            let off = script(fault, FaultCommand::Off);
            let forgives = |line: &str| {
                line.ends_with("|| true")
                    || ["rm -f ", "network="]
                        .iter()
                        .any(|word| line.starts_with(word))
            };
            assert!(off.lines().all(forgives), "{off}");
            assert_ne!(
                script(fault, FaultCommand::On),
                script(fault, FaultCommand::Try)
            );
        }
        let loss = script(FaultKind::Loss, FaultCommand::On);
        assert_eq!(loss, "tc qdisc replace dev eth0 root netem loss 5%");
    }
}
