// SPDX-License-Identifier: Apache-2.0
//! Whether a model of counters alone ranks devices as the recording itself does.
//!
//! The requests are counted in intervals, a model is fitted to the counts blind, and both are played
//! on devices of different kinds.

use plimsoll_core::model::WorkloadModel;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDeviceSpec;
use plimsoll_trace::TraceError;

use super::FidelityRow;
use super::play::{FidelityTrace, ResponseTimes};
use super::reasons::{self, TAKEN};

/// Devices that are ranked.
const DEVICES: [&str; 14] = [
    "sim(queue)",
    "sim(flash)",
    "sim(flash,units=4)",
    "sim(flash,erase_every=4M)",
    "sim(flash+cache)",
    "sim(flash+raid5)",
    "sim(flash+network,rtt=500us,rate=125000000)",
    "sim(flash+throttle,iops=500)",
    "sim(disk)",
    "sim(disk,rpm=15000,seek=300us,seek_full=8ms)",
    "sim(disk+stripe,disks=8)",
    "sim(disk+raid5,disks=8)",
    "sim(disk+cache)",
    "sim(disk+raid5,disks=8+cache,size=1G)",
];
/// Intervals of the counters, as pmlogger and sar often have them.
const INTERVAL: Nanos = Nanos(15 * Nanos::SECOND.0);
/// Fewest intervals: those of shorter recordings are shorter.
const INTERVALS_MIN: u64 = 8;
const SEEDS: u64 = 5;
/// Pairs of devices that are no further apart than this are not asked for.
const APART: f64 = 0.1;
/// A model whose mean is no further off than this is near, %.
const NEARLY: f64 = 25.0;
/// Pairs within this factor of each other are harder to order, so they are also counted separately.
const NEAR: f64 = 3.0;

type DecisionStatistic = fn(&ResponseTimes) -> f64;
const FIGURES: [(&str, DecisionStatistic); 2] = [
    ("mean", ResponseTimes::mean),
    ("p99", |responses| responses.quantile(0.99)),
];

/// One figure of one device.
struct Compared {
    device: &'static str,
    recorded: f64,
    model: f64,
}

/// Plays a model with every seed; the mean of each figure, ns.
fn figures(model: &WorkloadModel, device: &SimDeviceSpec) -> [f64; FIGURES.len()] {
    let mut sums = [0.0; FIGURES.len()];
    for seed in 1..=SEEDS {
        let responses = ResponseTimes::of(model, 1.0, device, Seed(seed));
        for (sum, (_, of)) in sums.iter_mut().zip(FIGURES) {
            *sum += of(&responses) / SEEDS as f64;
        }
    }
    sums
}

/// A recording, and the model of its counters.
struct Both {
    name: String,
    interval: Nanos,
    recorded: WorkloadModel,
    model: WorkloadModel,
}

impl Both {
    fn of(trace: &FidelityTrace) -> Result<Both, TraceError> {
        let shorter = Nanos(trace.survey.length.0 / INTERVALS_MIN);
        let interval = INTERVAL.min(shorter);
        let recorded = trace.exactly()?;
        Ok(Both {
            name: trace.name.clone(),
            interval,
            model: trace.counters(interval)?,
            recorded,
        })
    }

    /// The table, by figure.
    fn compared(&self) -> [Vec<Compared>; FIGURES.len()] {
        let mut all = [const { Vec::new() }; FIGURES.len()];
        for name in DEVICES {
            let device: SimDeviceSpec = name.parse().expect("it is written above");
            let truth = figures(&self.recorded, &device);
            let plain = figures(&self.model, &device);
            for (number, table) in all.iter_mut().enumerate() {
                table.push(Compared {
                    device: name,
                    recorded: truth[number],
                    model: plain[number],
                });
            }
        }
        all
    }

    /// On how many devices the model's mean is near, with what is taken from the recording.
    fn reasons(&self) -> Vec<FidelityRow> {
        let near = |taken| {
            let is_near = |name: &&&str| {
                let device: SimDeviceSpec = name.parse().expect("it is written above");
                let truth = ResponseTimes::of(&self.recorded, 1.0, &device, Seed(1)).mean();
                let mean = reasons::mean((&self.model, &self.recorded), taken, &device, Seed(1));
                (mean / truth - 1.0).abs() <= NEARLY / 100.0
            };
            DEVICES.iter().filter(is_near).count()
        };
        let row = |taken: reasons::TraceAspects| FidelityRow {
            what: format!(
                "{}: devices whose mean is within {NEARLY} % with {} from the recording, %",
                self.name, taken.name
            ),
            values: vec![100.0 * near(taken) as f64 / DEVICES.len() as f64],
            within: None,
            at_least: None,
        };
        TAKEN.map(row).into()
    }
}

/// How devices came out, and pairs of them.
#[derive(Debug, Default)]
struct DecisionCounts {
    /// Further apart than [`APART`] in the recording.
    apart: u64,
    /// Of those, ordered alike by the model.
    alike: u64,
    /// No further apart than [`NEAR`].
    near: u64,
    /// Of those, ordered alike by the model.
    near_alike: u64,
}

impl DecisionCounts {
    fn of(table: &[Compared]) -> DecisionCounts {
        let mut judged = DecisionCounts::default();
        for (number, a) in table.iter().enumerate() {
            for b in &table[number + 1..] {
                let ratio = a.recorded / b.recorded;
                if ratio.max(1.0 / ratio) <= 1.0 + APART {
                    continue;
                }
                judged.apart += 1;
                let is_alike = (a.model < b.model) == (ratio < 1.0);
                judged.alike += u64::from(is_alike);
                if ratio.max(1.0 / ratio) <= NEAR {
                    judged.near += 1;
                    judged.near_alike += u64::from(is_alike);
                }
            }
        }
        judged
    }
}

/// Prints the tables, and gives the rows that are kept: those of each recording, and of all together.
pub(crate) fn rows(traces: &[FidelityTrace]) -> Result<Vec<FidelityRow>, TraceError> {
    let mut rows = Vec::new();
    let mut all = FIGURES.map(|_| DecisionCounts::default());
    let both: Vec<Both> = traces.iter().map(Both::of).collect::<Result<_, _>>()?;
    for one in &both {
        eprintln!("\n{}, counted in intervals of {}", one.name, one.interval);
        let tables = one.compared();
        for (((figure, _), table), sum) in FIGURES.iter().zip(&tables).zip(&mut all) {
            print(figure, table);
            let judged = DecisionCounts::of(table);
            rows.extend(judged.rows(&one.name, figure));
            sum.add(&judged);
        }
        rows.extend(one.reasons());
    }
    for ((figure, _), sum) in FIGURES.iter().zip(&all) {
        rows.extend(sum.rows("all", figure));
    }
    Ok(rows)
}

fn print(figure: &str, table: &[Compared]) {
    eprintln!("\n| device | {figure} recorded, ms | model, ms |");
    eprintln!("| --- | --- | --- |");
    let ms = |ns: f64| plimsoll_core::units::three_digits(ns / 1e6);
    for row in table {
        eprintln!(
            "| `{}` | {} | {} |",
            row.device,
            ms(row.recorded),
            ms(row.model)
        );
    }
}

impl DecisionCounts {
    fn add(&mut self, other: &DecisionCounts) {
        self.apart += other.apart;
        self.alike += other.alike;
        self.near += other.near;
        self.near_alike += other.near_alike;
    }

    fn rows(&self, name: &str, figure: &str) -> Vec<FidelityRow> {
        let row = |what: String, part: u64, whole: u64, at_least| FidelityRow {
            what: format!("{name}: {what}, %"),
            values: vec![100.0 * part as f64 / whole as f64],
            within: None,
            at_least,
        };
        let goal = Some(90.0);
        vec![
            row(
                format!("{} pairs ordered alike by {figure}", self.apart),
                self.alike,
                self.apart,
                goal,
            ),
            row(
                format!("of {} pairs within a factor of 3 by {figure}", self.near),
                self.near_alike,
                self.near,
                None,
            ),
        ]
    }
}
