// SPDX-License-Identifier: Apache-2.0
//! Conditional counts: how often something occurred, by situation, drawn without replacement until all are
//! used up. So over the length of the recording everything occurs as often as recorded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::REQUESTS_MAX;
use crate::num::saturating_u32;
use crate::rng::Rng;

/// Counts of symbols by situation. On disk a row for each situation: its number, then each symbol and
/// its count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<Vec<u32>>", into = "Vec<Vec<u32>>")]
pub(super) struct ConditionalCounts(BTreeMap<u32, BTreeMap<u32, u32>>);

impl ConditionalCounts {
    pub(super) fn count(&mut self, situation: u32, symbol: u32) {
        let count = self.0.entry(situation).or_default();
        let count = count.entry(symbol).or_default();
        *count = count.saturating_add(1);
    }

    /// The urns, filled.
    pub(super) fn bags(&self) -> ConditionalSampler {
        let bags = self.0.iter().map(|(situation, counts)| {
            let counts: Vec<(u32, u32)> = counts.iter().map(|(s, n)| (*s, *n)).collect();
            let all = counts.iter().map(|(_, count)| u64::from(*count)).sum();
            let bag = Bag {
                left: counts.clone(),
                sum: all,
                counts,
                all,
            };
            (*situation, bag)
        });
        ConditionalSampler(bags.collect())
    }

    /// The situation that was met and is nearest.
    pub(super) fn nearest(&self, situation: u32) -> Option<u32> {
        let below = self.0.range(..=situation).next_back();
        let above = self.0.range(situation..).next();
        let near = [below, above].into_iter().flatten();
        near.map(|(found, _)| *found)
            .min_by_key(|found| found.abs_diff(situation))
    }

    /// Symbols and counts of one situation.
    pub(super) fn of(&self, situation: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let counts = self.0.get(&situation).into_iter().flatten();
        counts.map(|(symbol, count)| (*symbol, *count))
    }
}

impl From<ConditionalCounts> for Vec<Vec<u32>> {
    fn from(urns: ConditionalCounts) -> Vec<Vec<u32>> {
        let row = |(situation, counts): (u32, BTreeMap<u32, u32>)| {
            let counts = counts
                .into_iter()
                .flat_map(|(symbol, count)| [symbol, count]);
            std::iter::once(situation).chain(counts).collect()
        };
        urns.0.into_iter().map(row).collect()
    }
}

impl TryFrom<Vec<Vec<u32>>> for ConditionalCounts {
    type Error = String;

    fn try_from(rows: Vec<Vec<u32>>) -> Result<ConditionalCounts, String> {
        let mut urns = ConditionalCounts::default();
        for row in rows {
            let Some((situation, counts)) = row.split_first() else {
                return Err("a row of its distributions is empty".into());
            };
            let (pairs, []) = counts.as_chunks::<2>() else {
                return Err(format!(
                    "row {situation} of its distributions has no last count"
                ));
            };
            let sum: u64 = pairs.iter().map(|[_, count]| u64::from(*count)).sum();
            if sum == 0 || sum > REQUESTS_MAX {
                return Err(format!(
                    "row {situation} of its distributions counts {sum}, not 1 to {REQUESTS_MAX}"
                ));
            }
            let counts = pairs.iter().map(|[symbol, count]| (*symbol, *count));
            urns.0.insert(*situation, counts.collect());
        }
        Ok(urns)
    }
}

/// One urn, and what is left in it.
#[derive(Debug)]
struct Bag {
    counts: Vec<(u32, u32)>,
    all: u64,
    left: Vec<(u32, u32)>,
    sum: u64,
}

impl Bag {
    fn draw(&mut self, rng: &mut Rng) -> Option<u32> {
        let mut nth = rng.below(self.sum.max(1));
        for (symbol, count) in &mut self.left {
            if nth < u64::from(*count) {
                *count -= 1;
                self.sum -= 1;
                return Some(*symbol);
            }
            nth -= u64::from(*count);
        }
        None
    }

    /// One of this symbol, if any is left.
    fn take(&mut self, symbol: u32) -> bool {
        let place = self
            .left
            .binary_search_by_key(&symbol, |(symbol, _)| *symbol);
        let found = place.ok().and_then(|place| self.left.get_mut(place));
        let Some((_, count)) = found.filter(|(_, count)| *count > 0) else {
            return false;
        };
        *count -= 1;
        self.sum -= 1;
        true
    }
}

/// Urns that are drawn from.
#[derive(Debug)]
pub(super) struct ConditionalSampler(BTreeMap<u32, Bag>);

impl ConditionalSampler {
    /// The nearest situation of which something is left; all are filled again when nothing is left.
    fn nearest(&mut self, situation: u32) -> Option<&mut Bag> {
        let find = |bags: &BTreeMap<u32, Bag>| {
            let has_left = |(_, bag): &(&u32, &Bag)| bag.sum > 0;
            let below = bags.range(..=situation).rev().find(has_left);
            let above = bags.range(situation..).find(has_left);
            let near = [below, above].into_iter().flatten();
            near.map(|(found, _)| *found)
                .min_by_key(|found| found.abs_diff(situation))
        };
        let found = find(&self.0).or_else(|| {
            for bag in self.0.values_mut() {
                bag.left.clone_from(&bag.counts);
                bag.sum = bag.all;
            }
            find(&self.0)
        });
        self.0.get_mut(&found?)
    }

    /// A symbol of a situation, or of the nearest one where nothing is left of it. `None` where nothing
    /// was ever met.
    pub(super) fn draw(&mut self, situation: u32, rng: &mut Rng) -> Option<u32> {
        self.nearest(situation)?.draw(rng)
    }

    /// This symbol of the nearest situation, where any is left, else another.
    pub(super) fn draw_if(&mut self, situation: u32, symbol: u32, rng: &mut Rng) -> Option<u32> {
        let bag = self.nearest(situation)?;
        match bag.take(symbol) {
            true => Some(symbol),
            false => bag.draw(rng),
        }
    }
}

/// The power of two of a number: 0 for 0 and 1.
pub(super) fn power(number: u64) -> u32 {
    number.checked_ilog2().unwrap_or(0)
}

/// A symbol for a place in a list that is not longer than symbols go.
pub(super) fn symbol(place: usize) -> u32 {
    saturating_u32(place as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn an_urn_gives_everything_it_holds_and_is_filled_again() {
        let mut urns = ConditionalCounts::default();
        for (symbol, count) in [(7, 3), (9, 1)] {
            (0..count).for_each(|_| urns.count(4, symbol));
        }
        let mut rng = Rng::new(Seed(1));
        let mut bags = urns.bags();
        for _ in 0..5 {
            let mut drawn: Vec<u32> = (0..4).filter_map(|_| bags.draw(4, &mut rng)).collect();
            drawn.sort_unstable();
            assert_eq!(drawn, [7, 7, 7, 9]);
        }
        assert_eq!(bags.draw_if(4, 9, &mut rng), Some(9));
        assert_eq!(bags.draw_if(4, 9, &mut rng), Some(7));
        // A situation that was not met is like the nearest.
        assert!(bags.draw(60, &mut rng).is_some() && bags.draw(0, &mut rng).is_some());
        assert_eq!(ConditionalCounts::default().bags().draw(0, &mut rng), None);
        let rows = Vec::<Vec<u32>>::from(urns.clone());
        assert_eq!(rows, [[4, 7, 3, 9, 1]]);
        assert_eq!(ConditionalCounts::try_from(rows), Ok(urns));
        for nonsense in [vec![], vec![1, 2], vec![1, 2, 0], vec![1, 2, u32::MAX]] {
            assert!(ConditionalCounts::try_from(vec![nonsense]).is_err());
        }
    }
}
