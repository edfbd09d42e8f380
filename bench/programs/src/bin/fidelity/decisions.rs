// SPDX-License-Identifier: Apache-2.0
//! Whether a model of counters alone ranks devices as the recording itself does.
//!
//! The requests are counted in intervals, a model is fitted to the counts blind, and both are played
//! on devices of different kinds. The corners of the model give a band for each figure: those of every
//! model, and those that the other recordings alone let expect, as nothing may be judged by what it
//! was chosen on.

use plimsoll_core::model::{SensitivityBoundLimits, WorkloadModel};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDeviceSpec;
use plimsoll_trace::TraceError;

use super::FidelityRow;
use super::extremes::{DirectionExtremes, expected, seen};
use super::play::{FidelityTrace, ResponseTimes};
use super::reasons::{self, TAKEN};
use super::requests::median;

/// What is ranked.
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
/// Pairs that are no further apart than this factor are harder to tell, and counted by themselves, too.
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
    /// Of the model and all its corners.
    low: f64,
    high: f64,
    /// By corner.
    corners: Vec<f64>,
    /// The band of the corners that the other recordings let expect; `None` without others.
    blind: Option<(f64, f64)>,
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
    seen: Vec<DirectionExtremes>,
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
            seen: seen(&recorded, interval),
            recorded,
        })
    }

    /// The table, by figure; `elsewhere` is what the other recordings let expect.
    fn compared(
        &self,
        elsewhere: Option<SensitivityBoundLimits>,
    ) -> [Vec<Compared>; FIGURES.len()] {
        let corners = self.model.corners();
        let blind = elsewhere.map(|extremes| self.model.corners_at(extremes));
        let mut all = [const { Vec::new() }; FIGURES.len()];
        for name in DEVICES {
            let device: SimDeviceSpec = name.parse().expect("it is written above");
            let truth = figures(&self.recorded, &device);
            let plain = figures(&self.model, &device);
            let of = |corners: &Vec<plimsoll_core::model::SensitivityBound>| -> Vec<_> {
                let each = corners.iter();
                each.map(|corner| figures(&corner.model, &device)).collect()
            };
            let (cornered, blind) = (of(&corners), blind.as_ref().map(of));
            for (number, table) in all.iter_mut().enumerate() {
                let band = |corners: &[[f64; FIGURES.len()]]| {
                    let values = corners.iter().map(|all| all[number]).chain([plain[number]]);
                    let low = values.clone().fold(f64::INFINITY, f64::min);
                    (low, values.fold(0.0, f64::max))
                };
                let (low, high) = band(&cornered);
                table.push(Compared {
                    device: name,
                    recorded: truth[number],
                    model: plain[number],
                    low,
                    high,
                    corners: cornered.iter().map(|all| all[number]).collect(),
                    blind: blind.as_deref().map(band),
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
    /// Ordered the same way by the model and all its corners.
    agreed: u64,
    /// Of those, as in the recording.
    agreed_alike: u64,
    /// No further apart than [`NEAR`].
    near: u64,
    /// Of those, ordered alike by the model.
    near_alike: u64,
    devices: u64,
    /// Whose recorded figure is in the band of the corners.
    held: u64,
    /// The same of the model and its first and last corner alone, which `--bounds ends` plays.
    held_by_ends: u64,
    /// How many times its lower end the upper end of each band is.
    widths: Vec<f64>,
    /// Whose recorded figure is in the band that the other recordings let expect.
    held_blind: u64,
    widths_blind: Vec<f64>,
}

impl DecisionCounts {
    fn of(table: &[Compared]) -> DecisionCounts {
        let mut judged = DecisionCounts {
            devices: table.len() as u64,
            held: table.iter().filter(|row| row.holds()).count() as u64,
            held_by_ends: table.iter().filter(|row| row.ends_hold()).count() as u64,
            widths: table.iter().map(|row| row.high / row.low).collect(),
            held_blind: table.iter().filter(|row| row.holds_blind()).count() as u64,
            widths_blind: table
                .iter()
                .filter_map(|row| row.blind)
                .map(|(low, high)| high / low)
                .collect(),
            ..DecisionCounts::default()
        };
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
                let corners = a.corners.iter().zip(&b.corners);
                let mut orders = corners.map(|(a, b)| a < b);
                if orders.all(|order| order == (a.model < b.model)) {
                    judged.agreed += 1;
                    judged.agreed_alike += u64::from(is_alike);
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
        print_seen(&one.seen);
        let others = both.iter().filter(|other| other.name != one.name);
        let others: Vec<DirectionExtremes> = others.flat_map(|other| other.seen.clone()).collect();
        let elsewhere = (others.len() > 1).then(|| expected(&others));
        if let Some(SensitivityBoundLimits { others, times }) = elsewhere {
            eprintln!("the other recordings let expect: others {others:.2}, times {times:.2}");
        }
        let tables = one.compared(elsewhere);
        for (((figure, _), table), sum) in FIGURES.iter().zip(&tables).zip(&mut all) {
            print(figure, table);
            let judged = DecisionCounts::of(table);
            rows.extend(judged.rows(&one.name, figure));
            sum.add(&judged);
        }
        rows.extend(one.reasons());
    }
    let seen: Vec<DirectionExtremes> = both.iter().flat_map(|one| one.seen.clone()).collect();
    if seen.len() > 1 {
        let SensitivityBoundLimits { others, times } = expected(&seen);
        eprintln!("\nall recordings let expect: others {others:.2}, times {times:.2}");
    }
    for ((figure, _), sum) in FIGURES.iter().zip(&all) {
        rows.extend(sum.rows("all", figure));
    }
    Ok(rows)
}

fn print_seen(seen: &[DirectionExtremes]) {
    for one in seen {
        eprintln!(
            "{}: {:.2} others near each, square of sizes {:.2} times that of their mean",
            one.direction, one.others, one.times
        );
    }
}

fn print(figure: &str, table: &[Compared]) {
    eprintln!("\n| device | {figure} recorded, ms | model, ms | band, ms | holds it |");
    eprintln!("| --- | --- | --- | --- | --- |");
    let ms = |ns: f64| plimsoll_core::units::three_digits(ns / 1e6);
    for row in table {
        eprintln!(
            "| `{}` | {} | {} | {} to {} | {} |",
            row.device,
            ms(row.recorded),
            ms(row.model),
            ms(row.low),
            ms(row.high),
            if row.holds() { "yes" } else { "no" }
        );
    }
}

impl Compared {
    fn holds(&self) -> bool {
        (self.low..=self.high).contains(&self.recorded)
    }

    fn ends_hold(&self) -> bool {
        let ends = self.corners.first().into_iter().chain(self.corners.last());
        let ends = ends.copied().chain([self.model]);
        let low = ends.clone().fold(f64::INFINITY, f64::min);
        (low..=ends.fold(0.0, f64::max)).contains(&self.recorded)
    }

    fn holds_blind(&self) -> bool {
        self.blind
            .is_some_and(|(low, high)| (low..=high).contains(&self.recorded))
    }
}

impl DecisionCounts {
    fn add(&mut self, other: &DecisionCounts) {
        self.apart += other.apart;
        self.alike += other.alike;
        self.near += other.near;
        self.near_alike += other.near_alike;
        self.agreed += other.agreed;
        self.agreed_alike += other.agreed_alike;
        self.devices += other.devices;
        self.held += other.held;
        self.held_by_ends += other.held_by_ends;
        self.widths.extend(&other.widths);
        self.held_blind += other.held_blind;
        self.widths_blind.extend(&other.widths_blind);
    }

    fn rows(&self, name: &str, figure: &str) -> Vec<FidelityRow> {
        let row = |what: String, part: u64, whole: u64, at_least| FidelityRow {
            what: format!("{name}: {what}, %"),
            values: vec![100.0 * part as f64 / whole as f64],
            within: None,
            at_least,
        };
        let width = |what: &str, widths: &[f64]| FidelityRow {
            what: format!("{name}: {figure}: upper end of the band over the lower{what}, median"),
            values: vec![median(widths)],
            within: None,
            at_least: None,
        };
        let goal = Some(90.0);
        let mut rows = vec![
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
            row(
                format!("pairs that all corners order one way by {figure}"),
                self.agreed,
                self.apart,
                None,
            ),
            row(
                format!("of those, ordered as recorded by {figure}"),
                self.agreed_alike,
                self.agreed,
                goal,
            ),
            row(
                format!("devices whose {figure} is in the band"),
                self.held,
                self.devices,
                Some(80.0),
            ),
            row(
                format!("devices whose {figure} is in the band of the two ends"),
                self.held_by_ends,
                self.devices,
                None,
            ),
            width("", &self.widths),
        ];
        if !self.widths_blind.is_empty() {
            rows.push(row(
                format!(
                    "devices whose {figure} is in the band that the other recordings let expect"
                ),
                self.held_blind,
                self.devices,
                Some(80.0),
            ));
            rows.push(width(
                " that the other recordings let expect",
                &self.widths_blind,
            ));
        }
        rows
    }
}
