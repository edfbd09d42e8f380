// SPDX-License-Identifier: Apache-2.0
//! Samples, rows with gates, the table on the terminal and the file that is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Failure;

/// Work of one program in one round.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Operations.
    pub(crate) ops: f64,
    /// Seconds they took.
    pub(crate) seconds: f64,
    /// Processor time in user space.
    pub(crate) user_ns: f64,
    /// Processor time in the kernel.
    pub(crate) system_ns: f64,
    /// Time outside the engine, where the program tells it.
    pub(crate) outside_ns: Option<f64>,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        self.ops / self.seconds
    }

    /// Processor time of an operation in all.
    pub(crate) fn cpu_ns(&self) -> f64 {
        (self.user_ns + self.system_ns) / self.ops
    }

    /// Processor time of an operation in user space.
    pub(crate) fn user_ns(&self) -> f64 {
        self.user_ns / self.ops
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, user, all) = (self.per_second(), self.user_ns(), self.cpu_ns());
        write!(f, "{rate:.0}/s, {user:.0} ns user, {all:.0} ns in all")?;
        match self.outside_ns {
            Some(outside) => write!(f, ", {:.0} ns outside", outside / self.ops),
            None => Ok(()),
        }
    }
}

/// Limit that a row has to keep to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Gate {
    AtMost(f64),
    AtLeast(f64),
    /// Not further from 0 than this.
    Within(f64),
    /// For comparison only.
    None,
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Name of the figure, with the unit.
    what: String,
    /// One value per round; empty when it could not be measured.
    values: Vec<f64>,
    gate: Gate,
    /// Why there are no values.
    absent: Option<String>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, values: Vec<f64>, gate: Gate) -> Self {
        Row {
            what: what.into(),
            values,
            gate,
            absent: None,
        }
    }

    /// A row that could not be measured here; it fails nothing.
    pub(crate) fn absent(what: impl Into<String>, why: impl Into<String>) -> Self {
        Row {
            what: what.into(),
            values: Vec::new(),
            gate: Gate::None,
            absent: Some(why.into()),
        }
    }

    /// `pick` of each sample.
    pub(crate) fn of(
        what: impl Into<String>,
        samples: &[Sample],
        pick: impl Fn(&Sample) -> f64,
        gate: Gate,
    ) -> Self {
        Row::new(what, samples.iter().map(pick).collect(), gate)
    }

    /// `pick` of ours over that of theirs, round by round.
    pub(crate) fn ratio(
        what: impl Into<String>,
        ours: &[Sample],
        theirs: &[Sample],
        pick: impl Fn(&Sample) -> f64,
        gate: Gate,
    ) -> Self {
        let pairs = ours.iter().zip(theirs);
        let ratios = pairs.map(|(our, their)| pick(our) / pick(their));
        Row::new(what, ratios.collect(), gate)
    }

    /// Whether the median keeps to the gate.
    pub(crate) fn passed(&self) -> bool {
        match (self.median(), self.gate) {
            (Some(median), Gate::AtMost(limit)) => median <= limit,
            (Some(median), Gate::AtLeast(limit)) => median >= limit,
            (Some(median), Gate::Within(limit)) => median.abs() <= limit,
            (_, Gate::None) => true,
            (None, _) => false,
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = sorted[(sorted.len() - 1) / 2];
        let median = f64::midpoint(lower, upper);
        median.is_finite().then_some(median)
    }

    fn verdict(&self) -> String {
        let word = if self.passed() { "pass" } else { "FAIL" };
        match self.gate {
            Gate::AtMost(limit) => format!("<= {} {word}", number(limit)),
            Gate::AtLeast(limit) => format!(">= {} {word}", number(limit)),
            Gate::Within(limit) => format!("±{} {word}", number(limit)),
            Gate::None => String::new(),
        }
    }
}

/// Three figures that matter.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Prints the rows: median, range, gate.
pub(crate) fn print(rows: &[Row]) {
    let width = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    eprintln!(
        "{:width$} {:>12} {:>22}  gate",
        "median of the rounds", "median", "range"
    );
    for row in rows {
        let sorted = row.sorted();
        let (median, range) = match (row.median(), sorted.first(), sorted.last()) {
            (Some(median), Some(low), Some(high)) => (
                number(median),
                format!("{} .. {}", number(*low), number(*high)),
            ),
            _ => ("-".into(), row.absent.clone().unwrap_or_default()),
        };
        let verdict = row.verdict();
        eprintln!("{:width$} {median:>12} {range:>22}  {verdict}", row.what);
    }
}

/// Writes the rows to `<date>-<name>.json` in `folder`.
pub(crate) fn save(folder: &Path, name: &str, rows: &[Row]) -> Result<PathBuf, Failure> {
    let date = super::rivals::output("date", &["+%F"])?;
    let kernel = super::rivals::output("uname", &["-sr"])?;
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let gate = |row: &Row| match row.gate {
        Gate::AtMost(limit) => json!({ "at_most": limit }),
        Gate::AtLeast(limit) => json!({ "at_least": limit }),
        Gate::Within(limit) => json!({ "within": limit }),
        Gate::None => json!(null),
    };
    let row = |row: &Row| {
        json!({ "what": row.what, "median": row.median(), "rounds": row.values,
            "gate": gate(row), "passed": row.passed(), "absent": row.absent })
    };
    let result = json!({
        "bench": name,
        "date": date.trim(),
        "kernel": kernel.trim(),
        "processor": model.map(|(_, model)| model),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "load_average": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&result).map_err(|error| error.to_string())?;
    let path = folder.join(format!("{}-{name}.json", date.trim()));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text + "\n"));
    written.map_err(|error| format!("write {}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides_and_what_is_absent_fails_nothing() {
        for (values, median, at_most, passed) in [
            (&[3.0, 1.0, 2.0][..], Some(2.0), 2.0, true),
            (&[4.0, 1.0, 2.0, 3.0], Some(2.5), 2.4, false),
            (&[f64::NAN], None, 1e9, false),
            (&[], None, 1.0, false),
        ] {
            let row = Row::new("x", values.to_vec(), Gate::AtMost(at_most));
            assert_eq!((row.median(), row.passed()), (median, passed), "{values:?}");
        }
        assert!(!Row::new("x", vec![1.0], Gate::AtLeast(1.1)).passed());
        assert!(Row::new("x", vec![-1.0], Gate::Within(1.1)).passed());
        assert!(!Row::new("x", vec![-1.0], Gate::Within(0.9)).passed());
        assert!(Row::absent("x", "not found").passed());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let sample = |ops| Sample {
            ops,
            seconds: 1.0,
            ..Sample::default()
        };
        let (ours, theirs) = ([sample(2.0), sample(30.0)], [sample(1.0), sample(10.0)]);
        let row = Row::ratio("x", &ours, &theirs, Sample::per_second, Gate::None);
        assert_eq!(row.values, [2.0, 3.0]);
    }
}
