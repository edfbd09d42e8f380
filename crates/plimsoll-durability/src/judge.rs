// SPDX-License-Identifier: Apache-2.0
//! The fate of acknowledged writes: the account of a load beside the contents after a cut.

use plimsoll_core::durability::{CrashFindings, DurabilityFlaw};
use plimsoll_core::units::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// The sum of a key that was deleted.
pub const DELETED: &str = "-";

/// A value of a key that was submitted or acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SubmittedValue {
    sum: String,
    /// How many requests the disk had completed when the acknowledgement was read, and the time then.
    acknowledged: Option<AckInstant>,
}

/// When an acknowledgement was read: it was given before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckInstant {
    /// Requests that the disk had completed.
    pub position: usize,
    /// The time on the clock of the disk.
    pub at: Nanos,
}

/// The account that a witness gave of a load.
#[derive(Debug, Clone, Default)]
pub struct AckAccount {
    keys: BTreeMap<String, Vec<SubmittedValue>>,
    instants: Vec<AckInstant>,
}

/// The keys that are there, by what was found of each.
pub type FoundKeys = BTreeMap<String, String>;

/// An instant at which a disk is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutInstant {
    /// Requests that the disk had completed.
    pub position: usize,
    /// The time on the clock of the disk.
    pub at: Nanos,
    /// The longest window of loss that is promised.
    pub promised: Option<Nanos>,
}

impl CutInstant {
    /// After everything.
    const NEVER: CutInstant = CutInstant {
        position: usize::MAX,
        at: Nanos(u64::MAX),
        promised: None,
    };
}

impl AckAccount {
    /// Notes that a value is about to be submitted.
    pub fn try_value(&mut self, key: &str, sum: &str) {
        let values = self.keys.entry(key.to_owned()).or_default();
        values.push(SubmittedValue {
            sum: sum.to_owned(),
            acknowledged: None,
        });
    }

    /// Notes that a value was acknowledged.
    ///
    /// # Errors
    /// When it was acknowledged already.
    pub fn acknowledge(&mut self, key: &str, sum: &str, at: AckInstant) -> Result<(), String> {
        let values = self.keys.entry(key.to_owned()).or_default();
        match values.iter_mut().rev().find(|value| value.sum == sum) {
            Some(value) if value.acknowledged.is_some() => {
                return Err(format!("it acknowledged '{key}' with the same value twice"));
            }
            Some(value) => value.acknowledged = Some(at),
            None => values.push(SubmittedValue {
                sum: sum.to_owned(),
                acknowledged: Some(at),
            }),
        }
        self.instants.push(at);
        Ok(())
    }

    /// How many values were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.instants.len()
    }

    /// When each was.
    pub fn instants(&self) -> &[AckInstant] {
        &self.instants
    }

    /// From the first acknowledgement to the last.
    pub fn span(&self) -> Nanos {
        match (self.instants.first(), self.instants.last()) {
            (Some(first), Some(last)) => last.at.since(first.at),
            _ => Nanos(0),
        }
    }

    /// Judges what is there after a cut at this instant.
    pub fn judge(&self, found: &FoundKeys, cut: CutInstant) -> CrashFindings {
        let mut findings = CrashFindings::default();
        let mut oldest: Option<Nanos> = None;
        let mut present = 0_u64;
        for (key, values) in &self.keys {
            let Some(expected) = last_acknowledged(values, cut) else {
                continue;
            };
            findings.acknowledged += 1;
            present += u64::from(values[expected].sum != DELETED);
            let Some(flaw) = flaw_of(values, expected, found.get(key)) else {
                continue;
            };
            *findings.flaws.entry(flaw).or_default() += 1;
            if findings.example.is_empty() {
                findings.example = key.clone();
            }
            let given = values[expected].acknowledged.map(|given| given.at);
            oldest = [oldest, given].into_iter().flatten().min();
        }
        if found.is_empty() && present > 0 && !findings.is_whole() {
            let lost = findings
                .flaws
                .remove(&DurabilityFlaw::Lost)
                .unwrap_or(present);
            findings.flaws.insert(DurabilityFlaw::Empty, lost);
        }
        findings.window = oldest.map(|oldest| cut.at.since(oldest));
        if let (Some(window), Some(promised)) = (findings.window, cut.promised)
            && window > promised
        {
            let flaw = DurabilityFlaw::OlderThanPromised;
            findings.flaws.insert(flaw, 1);
        }
        findings
    }

    /// The findings where nothing can be asked: the file system is not mounted, or the server does not
    /// start.
    pub fn nothing_to_ask(
        &self,
        flaw: DurabilityFlaw,
        words: &str,
        cut: CutInstant,
    ) -> CrashFindings {
        let mut findings = self.judge(&FoundKeys::new(), cut);
        // All of it is lost, so the oldest may be older than promised.
        findings
            .flaws
            .retain(|found, _| *found == DurabilityFlaw::OlderThanPromised);
        findings.flaws.insert(flaw, 1);
        words.clone_into(&mut findings.example);
        findings
    }

    /// Keys of which a witness that is asked while the server runs does not find the last acknowledged
    /// value.
    pub fn not_found_alive(&self, found: &FoundKeys) -> BTreeSet<&str> {
        let of_key = |(key, values): (&'_ String, &Vec<SubmittedValue>)| {
            let expected = last_acknowledged(values, CutInstant::NEVER)?;
            flaw_of(values, expected, found.get(key)).map(drop)
        };
        let keys = self.keys.iter();
        keys.filter(|(key, values)| of_key((key, values)).is_some())
            .map(|(key, _)| key.as_str())
            .collect()
    }
}

/// The value that was acknowledged last before this instant.
fn last_acknowledged(values: &[SubmittedValue], cut: CutInstant) -> Option<usize> {
    let is_before = |given: AckInstant| given.position <= cut.position && given.at <= cut.at;
    values
        .iter()
        .rposition(|value| value.acknowledged.is_some_and(is_before))
}

/// The flaw of a key, if it has one. Values that were submitted after the expected one may be there.
fn flaw_of(
    values: &[SubmittedValue],
    expected: usize,
    found: Option<&String>,
) -> Option<DurabilityFlaw> {
    // A key that is not there has the value of one that was deleted.
    let found = found.map_or(DELETED, String::as_str);
    let (before, since) = values.split_at(expected);
    if since.iter().any(|value| value.sum == found) {
        return None;
    }
    let is_deleted = values[expected].sum == DELETED;
    Some(match found {
        DELETED => DurabilityFlaw::Lost,
        _ if is_deleted => DurabilityFlaw::Resurrected,
        old if before.iter().any(|value| value.sum == old) => DurabilityFlaw::Stale,
        _ => DurabilityFlaw::Wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(position: usize) -> AckInstant {
        AckInstant {
            position,
            at: Nanos(position as u64 * 10),
        }
    }

    fn cut(position: usize) -> CutInstant {
        CutInstant {
            position,
            at: Nanos(position as u64 * 10),
            promised: None,
        }
    }

    fn found(keys: &[(&str, &str)]) -> FoundKeys {
        let owned = |(key, sum): &(&str, &str)| ((*key).to_owned(), (*sum).to_owned());
        keys.iter().map(owned).collect()
    }

    /// Key `a` with values 1 and 2, acknowledged at 10 and 20, and value 3 submitted; key `b` deleted at
    /// 30.
    fn account() -> AckAccount {
        let mut account = AckAccount::default();
        account.try_value("a", "1");
        account.acknowledge("a", "1", instant(10)).unwrap();
        account.try_value("a", "2");
        account.acknowledge("a", "2", instant(20)).unwrap();
        account.try_value("a", "3");
        account.acknowledge("b", "7", instant(25)).unwrap();
        account.acknowledge("b", "-", instant(30)).unwrap();
        account
    }

    #[test]
    fn each_flaw_has_its_name() {
        use DurabilityFlaw::{Empty, Lost, Resurrected, Stale, Wrong};
        let account = account();
        for (position, keys, flaws) in [
            // Before the first acknowledgement anything may be there.
            (9, &[][..], &[][..]),
            (10, &[("a", "1")], &[]),
            (10, &[("a", "2")], &[]),
            (10, &[("a", "9")], &[Wrong]),
            (10, &[], &[Empty]),
            (20, &[("a", "1")], &[Stale]),
            (20, &[("a", "3"), ("b", "7")], &[]),
            // A deletion that was submitted later may have happened.
            (25, &[("a", "2")], &[]),
            (30, &[("a", "2"), ("b", "7")], &[Resurrected]),
            (30, &[("a", "2")], &[]),
            (30, &[("c", "1")], &[Lost]),
        ] {
            let findings = account.judge(&found(keys), cut(position));
            let names: Vec<_> = findings.flaws.keys().copied().collect();
            assert_eq!(names, flaws, "cut at {position} with {keys:?}");
        }
    }

    #[test]
    fn the_window_is_that_of_the_oldest_loss_and_is_compared_with_the_promise() {
        let account = account();
        let at = CutInstant {
            promised: Some(Nanos(150)),
            ..cut(40)
        };
        let findings = account.judge(&found(&[]), at);
        assert_eq!(findings.window, Some(Nanos(200)));
        assert!(
            findings
                .flaws
                .contains_key(&DurabilityFlaw::OlderThanPromised)
        );
        assert_eq!(findings.lost(), 1);
        assert_eq!(findings.acknowledged, 2);
    }

    #[test]
    fn a_value_acknowledged_twice_is_the_fault_of_the_witness() {
        let mut account = account();
        let error = account.acknowledge("a", "2", instant(50)).unwrap_err();
        assert_eq!(error, "it acknowledged 'a' with the same value twice");
    }

    #[test]
    fn where_nothing_can_be_asked_all_is_lost() {
        let flaw = DurabilityFlaw::DoesNotStart;
        let findings = account().nothing_to_ask(flaw, "no", cut(40));
        assert_eq!((findings.lost(), findings.acknowledged), (2, 2));
        assert_eq!(findings.flaws.len(), 1);
        let promised = Some(Nanos(150));
        let late = account().nothing_to_ask(
            flaw,
            "no",
            CutInstant {
                promised,
                ..cut(40)
            },
        );
        let names: Vec<_> = late.flaws.keys().copied().collect();
        assert_eq!(names, [flaw, DurabilityFlaw::OlderThanPromised]);
    }
}
