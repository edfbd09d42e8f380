// SPDX-License-Identifier: Apache-2.0
//! Energy that this machine says it has used: counters of its processors (RAPL) and the power meter of its
//! firmware (ACPI, which a BMC feeds). Other parts have no reading that the kernel passes on.

use crate::host::HostTimeSource;
use plimsoll_core::event::EnergyUse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the kernel shows counters of energy: `Documentation/power/powercap/powercap.rst`.
const POWERCAP: &str = "sys/class/powercap";

/// Where it shows power meters: `Documentation/hwmon/acpi_power_meter.rst`.
const HWMON: &str = "sys/class/hwmon";

/// A counter of energy in microjoules that begins anew after its range.
#[derive(Debug)]
struct EnergyCounter {
    name: String,
    path: PathBuf,
    range_uj: u64,
    last_uj: u64,
    used_uj: u64,
}

/// A meter of power in microwatts.
#[derive(Debug)]
struct PowerGauge {
    path: PathBuf,
    last_at: Duration,
    used_uj: f64,
}

/// A meter of power on this machine, from when it was opened.
#[derive(Debug)]
pub struct PowerMeter {
    counters: Vec<EnergyCounter>,
    gauges: Vec<PowerGauge>,
}

impl PowerMeter {
    /// Looks for readings below `root`, which is `/` but in tests.
    pub fn open(root: &Path, clock: &dyn HostTimeSource) -> PowerMeter {
        PowerMeter {
            counters: folders(&root.join(POWERCAP))
                .filter_map(|at| counter(&at))
                .collect(),
            gauges: (folders(&root.join(HWMON)))
                .filter_map(|at| gauge(&at, clock.now()))
                .collect(),
        }
    }

    /// Reads all of them: about once a second, before a counter can begin anew twice.
    pub fn read(&mut self, clock: &dyn HostTimeSource) {
        for counter in &mut self.counters {
            let Some(now) = number(&counter.path) else {
                continue;
            };
            let passed = match now.checked_sub(counter.last_uj) {
                Some(passed) => passed,
                None => (counter.range_uj.saturating_sub(counter.last_uj)).saturating_add(now),
            };
            counter.used_uj = counter.used_uj.saturating_add(passed);
            counter.last_uj = now;
        }
        for gauge in &mut self.gauges {
            let now = clock.now();
            let passed = now.saturating_sub(gauge.last_at).as_secs_f64();
            gauge.last_at = now;
            gauge.used_uj += number(&gauge.path).unwrap_or(0) as f64 * passed;
        }
    }

    /// The energy used so far, by source.
    pub fn used(&self) -> Vec<EnergyUse> {
        let counters = self.counters.iter().map(|counter| EnergyUse {
            source: format!("processor (RAPL {})", counter.name),
            joules: counter.used_uj as f64 / 1e6,
        });
        let gauges = self.gauges.iter().map(|gauge| EnergyUse {
            source: "machine (ACPI power meter)".into(),
            joules: gauge.used_uj / 1e6,
        });
        counters.chain(gauges).collect()
    }
}

fn folders(of: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter()
}

/// A counter of a whole processor; those of its parts are in it.
fn counter(at: &Path) -> Option<EnergyCounter> {
    let folder = at.file_name()?.to_str()?;
    let is_whole = folder.starts_with("intel-rapl:") && folder.matches(':').count() == 1;
    let name = fs::read_to_string(at.join("name")).ok()?;
    let name = name.trim();
    if !is_whole || !name.starts_with("package") {
        return None;
    }
    let path = at.join("energy_uj");
    Some(EnergyCounter {
        name: name.into(),
        last_uj: number(&path)?,
        path,
        range_uj: number(&at.join("max_energy_range_uj"))?,
        used_uj: 0,
    })
}

fn gauge(at: &Path, now: Duration) -> Option<PowerGauge> {
    let name = fs::read_to_string(at.join("name")).ok()?;
    let path = at.join("power1_average");
    (name.trim() == "power_meter" && number(&path).is_some()).then_some(PowerGauge {
        path,
        last_at: now,
        used_uj: 0.0,
    })
}

fn number(at: &Path) -> Option<u64> {
    fs::read_to_string(at).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[derive(Debug)]
    struct SetClock(Cell<Duration>);

    impl HostTimeSource for SetClock {
        fn now(&self) -> Duration {
            self.0.get()
        }

        fn unix_time(&self) -> Duration {
            self.0.get()
        }

        fn pause(&self, time: Duration) {
            self.0.set(self.0.get() + time);
        }
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn counters_that_begin_anew_and_meters_give_the_energy_between_two_readings() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        let rapl = "sys/class/powercap/intel-rapl:0";
        put(at, &format!("{rapl}/name"), "package-0\n");
        put(at, &format!("{rapl}/max_energy_range_uj"), "10000000\n");
        put(at, &format!("{rapl}/energy_uj"), "9000000\n");
        // The part of a processor, which is in the whole.
        put(at, "sys/class/powercap/intel-rapl:0:0/name", "core\n");
        put(at, "sys/class/powercap/intel-rapl:0:0/energy_uj", "1\n");
        put(at, "sys/class/hwmon/hwmon3/name", "power_meter\n");
        put(at, "sys/class/hwmon/hwmon3/power1_average", "150000000\n");
        let clock = SetClock(Cell::new(Duration::from_secs(100)));
        let mut meter = PowerMeter::open(at, &clock);
        clock.pause(Duration::from_secs(2));
        put(at, &format!("{rapl}/energy_uj"), "4000000\n");
        meter.read(&clock);
        let used = meter.used();
        let found: Vec<(&str, f64)> = (used.iter())
            .map(|one| (one.source.as_str(), one.joules))
            .collect();
        assert_eq!(
            found,
            [
                ("processor (RAPL package-0)", 5.0),
                ("machine (ACPI power meter)", 300.0)
            ]
        );
    }

    #[test]
    fn a_machine_without_readings_has_none() {
        let root = tempfile::tempdir().unwrap();
        let clock = SetClock(Cell::new(Duration::ZERO));
        let mut meter = PowerMeter::open(root.path(), &clock);
        meter.read(&clock);
        assert!(meter.used().is_empty());
    }
}
