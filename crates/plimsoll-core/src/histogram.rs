// SPDX-License-Identifier: Apache-2.0
//! A log-linear histogram of nanoseconds: full distributions at fixed cost.
//!
//! Every power of two is cut into 64 buckets, so a bucket is at most 1/64 (1.6 %) of its value
//! wide; values below 128 ns are exact. Values above 2^37 - 1 ns (137 s) land in the last bucket;
//! `max` and `sum` stay exact. Recording is one index, three additions and no branch on the value.

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, to_usize};
use crate::units::Nanos;

const LARGEST: u64 = (1 << 37) - 1;
const LEN: usize = (30 << 6) + 128;

/// Counts per bucket, with the exact sum, minimum and maximum.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Box<[u64; LEN]>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: Box::new([0; LEN]),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Histogram({} values, mean {:.0} ns, max {} ns)",
            self.count(),
            self.mean_ns(),
            self.max_ns
        )
    }
}

#[inline]
fn index(ns: u64) -> usize {
    let ns = ns.min(LARGEST);
    let shift = (ns | 64).ilog2() - 6;
    ((shift as usize) << 6) + to_usize(ns >> shift)
}

/// The largest value that lands in bucket `index`.
fn upper_ns(index: usize) -> u64 {
    if index < 128 {
        return index as u64;
    }
    let shift = (index >> 6) - 1;
    (((index - (shift << 6)) as u64 + 1) << shift) - 1
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.record_many(value, 1);
    }

    /// Counts one value `count` times.
    #[inline]
    pub fn record_many(&mut self, value: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        self.counts[index(value.0)] += count;
        self.sum_ns = self.sum_ns.saturating_add(value.0.saturating_mul(count));
        self.min_ns = self.min_ns.min(value.0);
        self.max_ns = self.max_ns.max(value.0);
    }

    /// A histogram that another program made: values (in ns) with their counts, and the exact sum,
    /// smallest and largest value where it told them.
    #[must_use]
    pub fn from_counts(
        counts: impl IntoIterator<Item = (u64, u64)>,
        sum_ns: u64,
        min_ns: u64,
        max_ns: u64,
    ) -> Self {
        let mut histogram = Histogram::new();
        let mut room = u64::MAX;
        for (value_ns, count) in counts {
            // Counts come from files: together they must not pass what can be counted.
            let count = count.min(room);
            room -= count;
            histogram.counts[index(value_ns)] += count;
        }
        if room < u64::MAX {
            histogram.sum_ns = sum_ns;
            histogram.min_ns = min_ns.min(max_ns);
            histogram.max_ns = max_ns;
        }
        histogram
    }

    /// Adds all values of `other`: the histogram of both together.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min_ns > self.max_ns
    }

    /// Exact mean in nanoseconds; 0 when empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        crate::num::ratio(self.sum_ns as f64, self.count() as f64)
    }

    /// Exact sum of all values.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Exact smallest value; 0 when empty.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min_ns }
    }

    /// Exact largest value; 0 when empty.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that a share `q` (0..=1) of the values do not exceed: the upper edge of its
    /// bucket, never above the maximum; 0 when empty.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let want = floor_u64((self.count() as f64 * q).ceil()).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= want {
                // The last bucket has no upper edge.
                let last = index + 1 == self.counts.len();
                return if last {
                    self.max_ns
                } else {
                    upper_ns(index).min(self.max_ns)
                };
            }
        }
        self.max_ns
    }

    /// Whether quantile `q` rests on enough values for a 95 % interval to exist: a share of at
    /// most 5 % of samples this large lies wholly below it (n ≥ ln 0.05 / ln q).
    #[must_use]
    pub fn supports_quantile(&self, q: f64) -> bool {
        self.count() as f64 >= (0.05f64.ln() / q.ln()).ceil()
    }

    /// The non-empty buckets as (upper edge in ns, count), smallest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, c)| **c > 0)
            .map(|(i, c)| (upper_ns(i), *c))
    }
}

/// The form on disk: only the buckets in use, as (bucket number, count).
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sparse {
    buckets: Vec<(u16, u64)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Sparse {
        let numbered = (0u16..).zip(histogram.counts.iter());
        Sparse {
            buckets: numbered
                .filter(|(_, c)| **c > 0)
                .map(|(i, c)| (i, *c))
                .collect(),
            sum_ns: histogram.sum_ns,
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns,
        }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;
    fn try_from(sparse: Sparse) -> Result<Histogram, String> {
        let mut histogram = Histogram::new();
        for (bucket, count) in &sparse.buckets {
            let slot = histogram.counts.get_mut(usize::from(*bucket));
            *slot.ok_or_else(|| format!("histogram bucket {bucket} does not exist"))? += count;
        }
        if !sparse.buckets.is_empty() {
            histogram.min_ns = sparse.min_ns;
        }
        histogram.sum_ns = sparse.sum_ns;
        histogram.max_ns = sparse.max_ns;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Seed};

    fn filled(seed: u64, n: usize) -> (Histogram, Vec<u64>) {
        let mut rng = Rng::new(Seed(seed));
        let mut histogram = Histogram::new();
        let values: Vec<u64> = (0..n)
            .map(|_| floor_u64(2f64.powf(rng.unit() * 36.0)))
            .collect();
        values.iter().for_each(|v| histogram.record(Nanos(*v)));
        (histogram, values)
    }

    #[test]
    fn quantiles_are_within_one_bucket_of_the_truth() {
        let (histogram, mut values) = filled(3, 100_000);
        values.sort_unstable();
        for q in [0.001, 0.01, 0.5, 0.9, 0.99, 0.999] {
            let truth = values[to_usize(floor_u64((values.len() as f64 * q).ceil())) - 1] as f64;
            let found = histogram.quantile_ns(q) as f64;
            assert!(
                found >= truth && found <= truth * (1.0 + 1.0 / 64.0) + 1.0,
                "{q}: {found} {truth}"
            );
        }
        assert_eq!(histogram.max_ns(), *values.last().unwrap());
        assert_eq!(histogram.sum_ns(), values.iter().sum::<u64>());
    }

    #[test]
    fn merging_histograms_is_the_histogram_of_all_values() {
        let (mut a, values_a) = filled(1, 5_000);
        let (b, values_b) = filled(2, 7_000);
        a.merge(&b);
        let mut pooled = Histogram::new();
        values_a
            .iter()
            .chain(&values_b)
            .for_each(|v| pooled.record(Nanos(*v)));
        assert_eq!(a, pooled);
    }

    #[test]
    fn a_value_counted_many_times_is_as_if_it_were_counted_one_by_one() {
        let (mut together, mut apart) = (Histogram::new(), Histogram::new());
        for (value, count) in [(5_000, 3), (90, 1), (7, 0), (u64::MAX, 2)] {
            together.record_many(Nanos(value), count);
            (0..count).for_each(|_| apart.record(Nanos(value)));
        }
        assert_eq!(together, apart);
        assert_eq!(together.count(), 6);
    }

    #[test]
    fn edges_are_exact_small_and_bounded_large() {
        let mut histogram = Histogram::new();
        for v in [0, 127, u64::MAX / 4] {
            histogram.record(Nanos(v));
        }
        assert_eq!(
            histogram
                .buckets()
                .map(|(upper, _)| upper)
                .collect::<Vec<_>>(),
            [0, 127, LARGEST]
        );
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (0, u64::MAX / 4));
    }

    #[test]
    fn disk_form_round_trips_and_refuses_nonsense() {
        let (histogram, _) = filled(9, 1_000);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        let empty = serde_json::to_string(&Histogram::new()).unwrap();
        assert!(
            serde_json::from_str::<Histogram>(&empty)
                .unwrap()
                .is_empty()
        );
        let bad = r#"{"buckets":[[9999,1]],"sum_ns":1,"min_ns":1,"max_ns":1}"#;
        assert!(
            serde_json::from_str::<Histogram>(bad)
                .unwrap_err()
                .to_string()
                .contains("9999")
        );
    }

    #[test]
    fn counts_of_another_program_become_a_histogram() {
        let histogram = Histogram::from_counts([(100, 3), (5_000, 1)], 5_310, 90, 5_050);
        assert_eq!(histogram.count(), 4);
        assert!((histogram.mean_ns() - 1_327.5).abs() < 1e-9);
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (90, 5_050));
        assert_eq!(histogram.quantile_ns(0.5), 100);
        assert_eq!(Histogram::from_counts([], 1, 2, 3), Histogram::new());
    }

    #[test]
    fn a_quantile_needs_enough_values() {
        let (small, _) = filled(1, 298);
        let (enough, _) = filled(1, 299);
        assert!(!small.supports_quantile(0.99) && enough.supports_quantile(0.99));
    }

    #[test]
    fn what_lies_beyond_the_last_bucket_is_told_as_the_largest() {
        let mut histogram = Histogram::new();
        for seconds in [1, 300, 301] {
            histogram.record(Nanos(seconds * 1_000_000_000));
        }
        assert_eq!(histogram.quantile_ns(0.9), 301_000_000_000);
        assert!(histogram.quantile_ns(0.3) < 1_020_000_000);
        histogram.record(Nanos(u64::MAX));
        assert_eq!(histogram.sum_ns(), u64::MAX, "a sum does not wrap");
    }
}
