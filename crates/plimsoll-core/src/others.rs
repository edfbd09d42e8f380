// SPDX-License-Identifier: Apache-2.0
//! Use of a machine by other programs during a measurement.

use serde::{Deserialize, Serialize};

use crate::num::ratio;
use crate::units::Nanos;

/// Others are named from this share of all processor time on: one processor of ten.
const CPU_SHARE: f64 = 0.1;
/// The same of time that a hypervisor gave to other machines.
const STEAL_SHARE: f64 = 0.05;
/// The same of the time in which a disk worked that nothing was asked of.
const DISK_SHARE: f64 = 0.1;

/// From this share of all processor time on others decide what is measured: a load that was not carried then
/// says nothing of the storage.
const DECIDING_CPU_SHARE: f64 = 0.25;
/// The same of a disk, which may still be at the work of the trial before.
const DECIDING_DISK_SHARE: f64 = 0.5;

/// Activity of other programs and machines in a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NeighbourUse {
    /// How long it was.
    pub length: Nanos,
    /// Processors of the machine.
    pub cpus: u32,
    /// Processor time of programs that are neither the generator nor servers of stacks.
    pub cpu_ns: u64,
    /// Processor time that a hypervisor gave to other machines.
    pub steal_ns: u64,
    /// Time in which some program waited for a processor, for storage, for memory (pressure stall
    /// information): the load's own waiting is in it. Absent where the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<PressureStallTimes>,
    /// Programs that wanted to run, on average over the last minute.
    pub load: f64,
    /// The busiest disk before the stretch began, while nothing was asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<NeighbourDiskUse>,
}

/// Time in which some program waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PressureStallTimes {
    /// For a processor.
    pub cpu: Nanos,
    /// For storage.
    pub io: Nanos,
    /// For memory.
    pub memory: Nanos,
}

/// A disk that nothing was asked of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NeighbourDiskUse {
    /// The kernel's name of it.
    pub disk: String,
    /// How long it was watched.
    pub length: Nanos,
    /// Time in which it had something to do.
    pub busy: Nanos,
}

impl NeighbourDiskUse {
    /// The share of the time in which it worked.
    pub fn share(&self) -> f64 {
        ratio(self.busy.0 as f64, self.length.0 as f64).min(1.0)
    }
}

impl NeighbourUse {
    /// The share of all processor time that other programs took.
    pub fn cpu_share(&self) -> f64 {
        self.share(self.cpu_ns)
    }

    /// The share of all processor time that other machines took.
    pub fn steal_share(&self) -> f64 {
        self.share(self.steal_ns)
    }

    fn share(&self, ns: u64) -> f64 {
        let all = self.length.0 as f64 * f64::from(self.cpus);
        ratio(ns as f64, all).clamp(0.0, 1.0)
    }

    /// Several stretches as one; the disk is that of the one in which it was busiest.
    #[must_use]
    pub fn and(mut self, other: &NeighbourUse) -> NeighbourUse {
        self.length = self.length + other.length;
        self.cpus = self.cpus.max(other.cpus);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.steal_ns = self.steal_ns.saturating_add(other.steal_ns);
        self.load = self.load.max(other.load);
        self.waited = self
            .waited
            .zip(other.waited)
            .map(|(a, b)| PressureStallTimes {
                cpu: a.cpu + b.cpu,
                io: a.io + b.io,
                memory: a.memory + b.memory,
            });
        let share =
            |disk: &Option<NeighbourDiskUse>| disk.as_ref().map_or(0.0, NeighbourDiskUse::share);
        if share(&other.disk) > share(&self.disk) {
            self.disk.clone_from(&other.disk);
        }
        self
    }

    /// Activity that disturbs a measurement, in words: `other processes used 71 % of the CPUs and
    /// 40 % of vda`; `None` on a quiet machine.
    pub fn disturbance(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let mut used = Vec::new();
        if self.cpu_share() >= CPU_SHARE {
            used.push(format!("{} of the CPUs", percent(self.cpu_share())));
        }
        let disk = self.disk.as_ref().filter(|disk| disk.share() >= DISK_SHARE);
        used.extend(disk.map(|disk| format!("{} of {}", percent(disk.share()), disk.disk)));
        let used =
            (!used.is_empty()).then(|| format!("other processes used {}", used.join(" and ")));
        let stolen = (self.steal_share() >= STEAL_SHARE).then(|| {
            let share = percent(self.steal_share());
            format!("the hypervisor gave {share} of the CPUs to other machines")
        });
        let parts: Vec<String> = used.into_iter().chain(stolen).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// All of these stretches as one; `None` of none.
    pub fn of_all<'a>(all: impl Iterator<Item = &'a NeighbourUse>) -> Option<NeighbourUse> {
        all.fold(None, |sum: Option<NeighbourUse>, one| match sum {
            Some(sum) => Some(sum.and(one)),
            None => Some(one.clone()),
        })
    }

    /// Whether others took as much of the processors as decides what is measured.
    pub fn takes_processors(&self) -> bool {
        self.cpu_share() >= DECIDING_CPU_SHARE || self.steal_share() >= DECIDING_CPU_SHARE
    }

    /// Activity that may have decided in place of the storage, in words: `other programs took 66 %
    /// of the CPUs`.
    pub fn decides(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        if self.cpu_share() >= DECIDING_CPU_SHARE {
            let share = percent(self.cpu_share());
            return Some(format!("other programs took {share} of the CPUs"));
        }
        if self.steal_share() >= DECIDING_CPU_SHARE {
            let share = percent(self.steal_share());
            return Some(format!("other machines took {share} of the CPUs"));
        }
        let disk = self.disk.as_ref()?;
        (disk.share() >= DECIDING_DISK_SHARE).then(|| {
            let share = percent(disk.share());
            format!(
                "{} was busy {share} of the time before the load began",
                disk.disk
            )
        })
    }

    /// All its figures in one line.
    pub fn line(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let waited = self.waited.map_or_else(
            || "pressure not known".into(),
            |waited| {
                let share =
                    |time: Nanos| percent(ratio(time.0 as f64, self.length.0 as f64).min(1.0));
                format!(
                    "pressure: cpu {}, io {}, memory {}",
                    share(waited.cpu),
                    share(waited.io),
                    share(waited.memory)
                )
            },
        );
        format!(
            "other processes use {} of the CPUs, steal {}, load {:.2}, {waited}",
            percent(self.cpu_share()),
            percent(self.steal_share()),
            self.load
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbs_is_named_with_its_shares() {
        let quiet = NeighbourUse {
            length: Nanos(10 * Nanos::SECOND.0),
            cpus: 4,
            cpu_ns: Nanos::SECOND.0,
            ..NeighbourUse::default()
        };
        assert_eq!(quiet.disturbance(), None);
        let busy = NeighbourUse {
            cpu_ns: 28_400_000_000,
            disk: Some(NeighbourDiskUse {
                disk: "vda".into(),
                length: Nanos(1000),
                busy: Nanos(400),
            }),
            ..quiet.clone()
        };
        let text = "other processes used 71 % of the CPUs and 40 % of vda";
        assert_eq!(busy.disturbance().as_deref(), Some(text));
        let both = quiet.clone().and(&busy);
        let text = "other processes used 37 % of the CPUs and 40 % of vda";
        assert_eq!(both.disturbance().as_deref(), Some(text));
        let stolen = NeighbourUse {
            steal_ns: 8 * Nanos::SECOND.0,
            ..quiet
        };
        let text = "the hypervisor gave 20 % of the CPUs to other machines";
        assert_eq!(stolen.disturbance().as_deref(), Some(text));
        assert_eq!(NeighbourUse::default().disturbance(), None);
    }

    #[test]
    fn others_decide_from_a_quarter_of_the_processors_on() {
        // Of 40 s of processor time.
        let use_of = |cpu_s: u64| NeighbourUse {
            length: Nanos(10 * Nanos::SECOND.0),
            cpus: 4,
            cpu_ns: cpu_s * Nanos::SECOND.0,
            ..NeighbourUse::default()
        };
        assert_eq!(use_of(9).decides(), None);
        let text = "other programs took 25 % of the CPUs";
        assert_eq!(use_of(10).decides().as_deref(), Some(text));
        let both = NeighbourUse::of_all([use_of(1), use_of(30)].iter());
        let text = "other programs took 39 % of the CPUs";
        assert_eq!(both.and_then(|both| both.decides()).as_deref(), Some(text));
        let disk = |busy: u64| NeighbourUse {
            disk: Some(NeighbourDiskUse {
                disk: "sda".into(),
                length: Nanos(1000),
                busy: Nanos(busy),
            }),
            ..use_of(1)
        };
        assert_eq!(disk(490).decides(), None);
        let text = "sda was busy 60 % of the time before the load began";
        assert_eq!(disk(600).decides().as_deref(), Some(text));
        assert_eq!(NeighbourUse::of_all(std::iter::empty()), None);
    }
}
