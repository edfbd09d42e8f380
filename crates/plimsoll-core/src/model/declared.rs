// SPDX-License-Identifier: Apache-2.0
//! Facts of a recorded load that a person declares because its counters do not contain them.

use super::{ModelArrivalPattern, ModelFactValue, ModelFacts};
use crate::offsets::OffsetPattern;
use crate::units::parse_size;

/// Most threads that can be declared: what a model plays with at most is far less.
const THREADS_MAX: u32 = 65_536;

/// A fact that can be declared.
struct DeclarableFact {
    name: &'static str,
    /// Its value as it is listed, empty where it has none.
    value: &'static str,
    meaning: &'static str,
    /// Facts of one kind exclude each other.
    kind: DeclarableFactKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeclarableFactKind {
    Places,
    Writes,
    Size,
    Threads,
    Syncs,
    Arrivals,
}

const fn fact(
    kind: DeclarableFactKind,
    name: &'static str,
    value: &'static str,
    meaning: &'static str,
) -> DeclarableFact {
    DeclarableFact {
        name,
        value,
        meaning,
        kind,
    }
}

const FACTS: [DeclarableFact; 10] = [
    fact(
        DeclarableFactKind::Places,
        "sequential",
        "",
        "each request goes on where the last one ended",
    ),
    fact(
        DeclarableFactKind::Places,
        "random",
        "",
        "every place equally likely",
    ),
    fact(
        DeclarableFactKind::Places,
        "skewed",
        "EXPONENT",
        "few places get most (Zipf; above 0, below 10)",
    ),
    fact(
        DeclarableFactKind::Writes,
        "write-once",
        "",
        "writes go on to the end of the file and never come back before",
    ),
    fact(
        DeclarableFactKind::Size,
        "file-size",
        "SIZE",
        "bytes the load is spread over, such as 150M",
    ),
    fact(
        DeclarableFactKind::Threads,
        "threads",
        "N",
        "at most so many requests in flight, 1 to 65536",
    ),
    fact(
        DeclarableFactKind::Syncs,
        "sync",
        "",
        "each write is durable when it ends, by O_DSYNC or a sync after it",
    ),
    fact(
        DeclarableFactKind::Arrivals,
        "even",
        "",
        "requests come at equal distances",
    ),
    fact(
        DeclarableFactKind::Arrivals,
        "poisson",
        "",
        "requests come independently of each other",
    ),
    fact(
        DeclarableFactKind::Arrivals,
        "bursty",
        "",
        "requests come in bursts within bursts",
    ),
];

/// Everything that may be declared, for the person who typed something else.
fn listed() -> String {
    let line = |fact: &DeclarableFact| {
        let equals = if fact.value.is_empty() { "" } else { "=" };
        format!("{}{equals}{} ({})", fact.name, fact.value, fact.meaning)
    };
    FACTS.iter().map(line).collect::<Vec<_>>().join("; ")
}

impl ModelFacts {
    /// Takes over what is declared: names, some with a value, separated by commas, such as
    /// `write-once,sequential,file-size=150M,threads=4`.
    ///
    /// # Errors
    /// When a fact is not known, its value is missing, superfluous or out of range, or two exclude
    /// each other; the text says what may be declared.
    pub fn declare(&mut self, text: &str) -> Result<(), String> {
        let mut declared: Vec<&DeclarableFact> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (part, None),
            };
            let fact = FACTS.iter().find(|fact| fact.name == name);
            let fact = fact.ok_or_else(|| {
                format!(
                    "cannot declare '{part}': no such fact; available: {}",
                    listed()
                )
            })?;
            if let Some(other) = declared.iter().find(|other| other.kind == fact.kind) {
                return Err(if other.name == name {
                    format!("cannot declare '{name}' twice")
                } else {
                    format!(
                        "cannot declare both '{}' and '{name}': one excludes the other",
                        other.name
                    )
                });
            }
            if fact.value.is_empty() != value.is_none() {
                return Err(match value {
                    Some(_) => format!("cannot declare '{part}': '{name}' has no value"),
                    None => {
                        let value = fact.value;
                        format!("cannot declare '{name}': it needs a value: {name}={value}")
                    }
                });
            }
            self.take(fact, value.unwrap_or_default())
                .map_err(|reason| format!("cannot declare '{part}': {reason}"))?;
            declared.push(fact);
        }
        Ok(())
    }

    fn take(&mut self, fact: &DeclarableFact, value: &str) -> Result<(), String> {
        match fact.name {
            "sequential" => {
                self.offsets = Some(ModelFactValue::declared(OffsetPattern::Sequential));
            }
            "random" => self.offsets = Some(ModelFactValue::declared(OffsetPattern::Uniform)),
            "skewed" => {
                let exponent = value.parse::<f64>().ok();
                let exponent = exponent.filter(|e| *e > 0.0 && *e < 10.0);
                let exponent =
                    exponent.ok_or("expected an exponent above 0 and below 10, such as 0.99")?;
                self.offsets = Some(ModelFactValue::declared(OffsetPattern::Zipf { exponent }));
            }
            "write-once" => {
                self.write_offsets = Some(ModelFactValue::declared(OffsetPattern::Sequential));
            }
            "file-size" => self.working_set_bytes = ModelFactValue::declared(parse_size(value)?),
            "threads" => {
                let threads = value.parse::<u32>().ok();
                let threads = threads.filter(|n| (1..=THREADS_MAX).contains(n));
                let threads = threads.ok_or("expected 1 to 65536 threads")?;
                self.threads = Some(ModelFactValue::declared(threads));
            }
            "sync" => self.sync_writes = Some(ModelFactValue::declared(true)),
            "even" => self.arrivals = Some(ModelFactValue::declared(ModelArrivalPattern::Even)),
            "poisson" => {
                self.arrivals = Some(ModelFactValue::declared(ModelArrivalPattern::Poisson));
            }
            _ => self.arrivals = Some(ModelFactValue::declared(ModelArrivalPattern::BURSTY)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_taken_over_and_the_rest_stays_assumed() {
        let mut facts = ModelFacts::assumed(1 << 30);
        facts
            .declare("write-once, sequential,file-size=150M,threads=4,sync")
            .unwrap();
        assert_eq!(facts.working_set_bytes, ModelFactValue::declared(150 << 20));
        assert_eq!(
            facts.offsets,
            Some(ModelFactValue::declared(OffsetPattern::Sequential))
        );
        assert_eq!(
            facts.write_offsets,
            Some(ModelFactValue::declared(OffsetPattern::Sequential))
        );
        assert_eq!(facts.threads, Some(ModelFactValue::declared(4)));
        assert!(facts.syncs().each_write && !ModelFacts::assumed(1).syncs().each_write);
        assert!(facts.assumes_arrivals());
        facts.declare("skewed=0.99,bursty").unwrap();
        assert_eq!(
            facts.offsets,
            Some(ModelFactValue::declared(OffsetPattern::Zipf {
                exponent: 0.99
            }))
        );
        assert_eq!(
            facts.arrivals,
            Some(ModelFactValue::declared(ModelArrivalPattern::BURSTY))
        );
    }

    #[test]
    fn mistakes_are_named_with_what_may_be_declared() {
        for (text, words) in [
            (
                "mirrored",
                &["'mirrored'", "write-once", "file-size=SIZE", "1 to 65536"][..],
            ),
            ("", &["no such fact"]),
            ("sequential,random", &["both 'sequential' and 'random'"]),
            ("threads=2,threads=2", &["'threads' twice"]),
            ("sync,sync", &["'sync' twice"]),
            ("threads", &["needs a value: threads=N"]),
            ("random=3", &["has no value"]),
            ("threads=0", &["'threads=0'", "1 to 65536"]),
            ("skewed=11", &["below 10"]),
            ("skewed=NaN", &["below 10"]),
            ("file-size=much", &["'file-size=much'"]),
            ("even,bursty", &["excludes"]),
        ] {
            let reason = ModelFacts::assumed(1 << 30).declare(text).unwrap_err();
            for word in words {
                assert!(reason.contains(word), "{text}: {reason}");
            }
        }
    }
}
