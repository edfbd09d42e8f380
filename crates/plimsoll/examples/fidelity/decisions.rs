// SPDX-License-Identifier: Apache-2.0
//! Whether a model of counters alone ranks devices as the recording itself does.
//!
//! The requests are counted in intervals, a model is fitted to the counts blind, and both are played
//! on devices of different kinds. The corners of the model give a band for each figure.

use plimsoll_core::model::Model;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDevice;
use plimsoll_trace::TraceError;

use super::Row;
use super::play::{Responses, Trace};

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
/// Pairs that are no further apart than this factor are harder to tell, and counted by themselves, too.
const NEAR: f64 = 3.0;

type Figure = fn(&Responses) -> f64;
const FIGURES: [(&str, Figure); 2] = [
    ("mean", Responses::mean),
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
}

/// Plays a model with every seed; the mean of each figure, ns.
fn figures(model: &Model, device: &SimDevice) -> [f64; FIGURES.len()] {
    let mut sums = [0.0; FIGURES.len()];
    for seed in 1..=SEEDS {
        let responses = Responses::of(model, 1.0, device, Seed(seed));
        for (sum, (_, of)) in sums.iter_mut().zip(FIGURES) {
            *sum += of(&responses) / SEEDS as f64;
        }
    }
    sums
}

/// The table, by figure.
fn compared(trace: &Trace, interval: Nanos) -> Result<[Vec<Compared>; FIGURES.len()], TraceError> {
    let recorded = trace.exactly()?;
    let model = trace.counters(interval)?;
    let corners = model.corners();
    let mut all = [const { Vec::new() }; FIGURES.len()];
    for name in DEVICES {
        let device: SimDevice = name.parse().expect("it is written above");
        let truth = figures(&recorded, &device);
        let plain = figures(&model, &device);
        let cornered: Vec<_> = corners
            .iter()
            .map(|corner| figures(&corner.model, &device))
            .collect();
        for (number, table) in all.iter_mut().enumerate() {
            let of_corners: Vec<f64> = cornered.iter().map(|all| all[number]).collect();
            let band = of_corners.iter().copied().chain([plain[number]]);
            table.push(Compared {
                device: name,
                recorded: truth[number],
                model: plain[number],
                low: band.clone().fold(f64::INFINITY, f64::min),
                high: band.fold(0.0, f64::max),
                corners: of_corners,
            });
        }
    }
    Ok(all)
}

/// How devices came out, and pairs of them.
#[derive(Debug, Default)]
struct Judged {
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
}

impl Judged {
    fn of(table: &[Compared]) -> Judged {
        let mut judged = Judged {
            devices: table.len() as u64,
            held: table.iter().filter(|row| row.holds()).count() as u64,
            ..Judged::default()
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
pub(crate) fn rows(traces: &[Trace]) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    let mut all = FIGURES.map(|_| Judged::default());
    for trace in traces {
        let shorter = Nanos(trace.survey.length.0 / INTERVALS_MIN);
        let interval = INTERVAL.min(shorter);
        eprintln!("\n{}, counted in intervals of {interval}", trace.name);
        let tables = compared(trace, interval)?;
        for (((figure, _), table), sum) in FIGURES.iter().zip(&tables).zip(&mut all) {
            print(figure, table);
            let judged = Judged::of(table);
            rows.extend(judged.rows(&trace.name, figure));
            sum.add(&judged);
        }
    }
    for ((figure, _), sum) in FIGURES.iter().zip(&all) {
        rows.extend(sum.rows("all", figure));
    }
    Ok(rows)
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
}

impl Judged {
    fn add(&mut self, other: &Judged) {
        self.apart += other.apart;
        self.alike += other.alike;
        self.near += other.near;
        self.near_alike += other.near_alike;
        self.agreed += other.agreed;
        self.agreed_alike += other.agreed_alike;
        self.devices += other.devices;
        self.held += other.held;
    }

    fn rows(&self, name: &str, figure: &str) -> [Row; 5] {
        let row = |what: String, part: u64, whole: u64, at_least| Row {
            what: format!("{name}: {what}, %"),
            values: vec![100.0 * part as f64 / whole as f64],
            within: None,
            at_least,
        };
        let goal = Some(90.0);
        [
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
                None,
            ),
        ]
    }
}
