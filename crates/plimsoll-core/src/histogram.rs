// SPDX-License-Identifier: Apache-2.0
//! A log-linear histogram of nanoseconds: full distributions at fixed cost.
//!
//! Every power of two is cut into 64 buckets, so a bucket is at most 1/64 (1.6 %) of its value
//! wide; values below 128 ns are exact. Values above 2^37 - 1 ns (137 s) land in the last bucket;
//! `max` and `sum` stay exact. Recording is one index, three additions and no branch on the value.
//!
//! One that was read or merged holds only the buckets in use, eight bytes each; all of them are there
//! from the first value that is recorded on. A foreign file therefore takes about as much
//! memory as it has bytes.

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, to_usize};
use crate::units::Nanos;

const LARGEST: u64 = (1 << 37) - 1;
const LEN: usize = (30 << 6) + 128;

/// Bits of a bucket in use that hold its count; those above hold its number.
const COUNT_BITS: u32 = 53;
/// The largest count of a bucket that is held with its number.
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
/// With more buckets in use than this, all are held.
const FEW_MAX: usize = LEN / 2;

/// The counts of the buckets.
#[derive(Clone)]
enum Buckets {
    /// Those in use, ascending: number and count in one word.
    Few(Vec<u64>),
    /// All of them.
    All(Box<[u64; LEN]>),
}

/// Counts per bucket, with the exact sum, minimum and maximum.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Buckets,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: Buckets::Few(Vec::new()),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let exact = |one: &Self| (one.sum_ns, one.min_ns, one.max_ns);
        exact(self) == exact(other) && self.counts.used().eq(other.counts.used())
    }
}

impl Eq for Histogram {}

impl Buckets {
    /// Number and count of every bucket in use, ascending.
    fn used(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let (few, all) = match self {
            Buckets::Few(few) => (&few[..], &[][..]),
            Buckets::All(all) => (&[][..], &all[..]),
        };
        let all = all.iter().copied().enumerate();
        let all = all.filter(|(_, count)| *count > 0);
        few.iter().map(|word| apart(*word)).chain(all)
    }

    /// All buckets, to be written to.
    #[inline]
    fn all(&mut self) -> &mut [u64; LEN] {
        if let Buckets::Few(few) = self {
            *self = Buckets::All(spread(few));
        }
        match self {
            Buckets::All(all) => all,
            Buckets::Few(_) => unreachable!("they were spread"),
        }
    }

    /// From buckets in use, ascending by number, each of them once.
    fn from_used(used: Vec<(usize, u64)>) -> Buckets {
        let fits = used.len() <= FEW_MAX && used.iter().all(|(_, count)| *count <= COUNT_MAX);
        if fits {
            return Buckets::Few(used.into_iter().map(together).collect());
        }
        let mut all = Box::new([0; LEN]);
        used.into_iter()
            .for_each(|(place, count)| all[place] = count);
        Buckets::All(all)
    }

    /// Adds the counts of `other`.
    fn add(&mut self, other: &Buckets) {
        if let Buckets::Few(few) = self {
            let mine = few.iter().map(|word| apart(*word));
            *self = Buckets::from_used(merged(mine, other.used()));
            return;
        }
        let all = self.all();
        other.used().for_each(|(place, count)| {
            all[place] = all[place].saturating_add(count);
        });
    }
}

#[cold]
fn spread(few: &[u64]) -> Box<[u64; LEN]> {
    let mut all = Box::new([0; LEN]);
    few.iter()
        .map(|word| apart(*word))
        .for_each(|(place, count)| all[place] = count);
    all
}

fn together((place, count): (usize, u64)) -> u64 {
    (place as u64) << COUNT_BITS | count
}

fn apart(word: u64) -> (usize, u64) {
    (to_usize(word >> COUNT_BITS), word & COUNT_MAX)
}

/// Two ascending rows of buckets as one.
fn merged(
    mine: impl Iterator<Item = (usize, u64)>,
    theirs: impl Iterator<Item = (usize, u64)>,
) -> Vec<(usize, u64)> {
    let (mut mine, mut theirs) = (mine.peekable(), theirs.peekable());
    let mut both = Vec::new();
    loop {
        let next = match (mine.peek(), theirs.peek()) {
            (Some((a, _)), Some((b, _))) if a == b => {
                let other = theirs.next().map_or(0, |(_, count)| count);
                mine.next()
                    .map(|(place, count)| (place, count.saturating_add(other)))
            }
            (Some((a, _)), Some((b, _))) if a > b => theirs.next(),
            (Some(_), _) => mine.next(),
            (None, _) => theirs.next(),
        };
        match next {
            Some(next) => both.push(next),
            None => return both,
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
        self.counts.all()[index(value.0)] += count;
        self.sum_ns = self.sum_ns.saturating_add(value.0.saturating_mul(count));
        self.min_ns = self.min_ns.min(value.0);
        self.max_ns = self.max_ns.max(value.0);
    }

    /// A histogram that another program made: values (in ns) with their counts, and the exact sum,
    /// smallest and largest value where it has them.
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
            histogram.counts.all()[index(value_ns)] += count;
        }
        if room < u64::MAX {
            histogram.sum_ns = sum_ns;
            histogram.min_ns = min_ns.min(max_ns);
            histogram.max_ns = max_ns;
        }
        histogram
    }

    /// Adds all values of `other`: the histogram of both together.
    #[inline]
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.add(&other.counts);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        match &mut self.counts {
            Buckets::Few(few) => few.clear(),
            Buckets::All(all) => all.fill(0),
        }
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        let counts = self.counts.used().map(|(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.min_ns > self.max_ns
    }

    /// Exact mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        crate::num::ratio(self.sum_ns as f64, self.count() as f64)
    }

    /// Exact sum of all values.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Exact smallest value; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min_ns }
    }

    /// Exact largest value; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that a share `q` (0..=1) of the values do not exceed: the upper edge of its
    /// bucket, never above the maximum; 0 when empty.
    #[inline]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let want = floor_u64((self.count() as f64 * q).ceil()).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.used() {
            seen = u64::saturating_add(seen, count);
            if seen >= want {
                // The last bucket has no upper edge.
                let last = index + 1 == LEN;
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
    pub fn supports_quantile(&self, q: f64) -> bool {
        self.count() as f64 >= (0.05f64.ln() / q.ln()).ceil()
    }

    /// The non-empty buckets as (upper edge in ns, count), smallest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.counts.used();
        used.map(|(place, count)| (upper_ns(place), count))
    }
}

/// The form on disk: only the buckets in use, as (bucket number, count).
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Sparse {
    buckets: Vec<(u16, u64)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Sparse {
        let used = histogram.counts.used();
        let numbered = |(place, count)| Some((u16::try_from(place).ok()?, count));
        Sparse {
            buckets: used.filter_map(numbered).collect(),
            sum_ns: histogram.sum_ns,
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns,
        }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;
    fn try_from(sparse: Sparse) -> Result<Histogram, String> {
        let mut used: Vec<(usize, u64)> = Vec::with_capacity(sparse.buckets.len());
        let mut room = u64::MAX;
        for (bucket, count) in &sparse.buckets {
            if usize::from(*bucket) >= LEN {
                return Err(format!("histogram bucket {bucket} does not exist"));
            }
            room = room
                .checked_sub(*count)
                .ok_or("a histogram counts more than can be counted")?;
            used.push((usize::from(*bucket), *count));
        }
        used.retain(|(_, count)| *count > 0);
        used.sort_by_key(|(place, _)| *place);
        used.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        let mut histogram = Histogram::new();
        if !used.is_empty() {
            histogram.min_ns = sparse.min_ns;
        }
        histogram.counts = Buckets::from_used(used);
        histogram.sum_ns = sparse.sum_ns;
        histogram.max_ns = sparse.max_ns;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, Seed};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn filled(seed: u64, n: usize) -> (Histogram, Vec<u64>) {
        let mut rng = Rng::new(Seed(seed));
        let mut histogram = Histogram::new();
        let values: Vec<u64> = (0..n)
            .map(|_| floor_u64(2f64.powf(rng.unit() * 36.0)))
            .collect();
        values.iter().for_each(|v| histogram.record(Nanos(*v)));
        (histogram, values)
    }

    /// Times of every order of magnitude.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = (0..=36_u32, any::<u64>()).prop_map(|(bits, time)| time & ((1 << bits) - 1));
        vec(time, 1..400)
    }

    fn histogram_of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        times.iter().for_each(|time| histogram.record(Nanos(*time)));
        histogram
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn merging_histograms_is_the_histogram_of_all_values(one in times(), other in times()) {
            let mut merged = histogram_of(&one);
            merged.merge(&histogram_of(&other));
            prop_assert_eq!(merged, histogram_of(&[one, other].concat()));
        }

        #[test]
        fn the_disk_form_comes_back(times in times()) {
            let histogram = histogram_of(&times);
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }

        #[test]
        fn quantiles_are_within_one_bucket_of_the_truth(mut times in times(), q in 0.001..=1.0_f64) {
            let histogram = histogram_of(&times);
            times.sort_unstable();
            let truth = times[to_usize(floor_u64((times.len() as f64 * q).ceil())) - 1] as f64;
            let found = histogram.quantile_ns(q) as f64;
            prop_assert!(found >= truth && found <= truth * (1.0 + 1.0 / 64.0) + 1.0, "{} {}", found, truth);
            prop_assert_eq!(histogram.max_ns(), *times.last().unwrap());
            prop_assert_eq!(histogram.sum_ns(), times.iter().sum::<u64>());
        }
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
    fn an_empty_disk_form_is_read_and_nonsense_is_refused() {
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
    fn what_is_read_or_merged_holds_only_the_buckets_in_use() {
        let held = |histogram: &Histogram| match &histogram.counts {
            Buckets::Few(few) => few.len(),
            Buckets::All(_) => LEN,
        };
        assert_eq!(held(&Histogram::new()), 0);
        let (recorded, _) = filled(4, 300);
        assert_eq!(held(&recorded), LEN);
        let text = serde_json::to_string(&recorded).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert!(held(&read) <= 300);
        let mut merged = Histogram::new();
        merged.merge(&recorded);
        merged.merge(&read);
        assert!(held(&merged) <= 300);
        let mut twice = recorded.clone();
        twice.merge(&recorded);
        assert_eq!(merged, twice);
        assert_eq!(merged.quantile_ns(0.9), twice.quantile_ns(0.9));
        merged.record(Nanos(77));
        twice.record(Nanos(77));
        assert_eq!(merged, twice);
        let (wide, _) = filled(5, 100_000);
        merged.merge(&wide);
        twice.merge(&wide);
        assert_eq!((held(&merged), &merged), (LEN, &twice));
    }

    #[test]
    fn rows_of_buckets_that_somebody_else_wrote_are_put_in_order() {
        let text = r#"{"buckets":[[9,1],[3,2],[9,4],[5,0]],"sum_ns":1,"min_ns":1,"max_ns":9}"#;
        let read: Histogram = serde_json::from_str(text).unwrap();
        assert_eq!(read.buckets().collect::<Vec<_>>(), [(3, 2), (9, 5)]);
        let most = u64::MAX;
        let text = format!(r#"{{"buckets":[[9,{most}]],"sum_ns":1,"min_ns":1,"max_ns":9}}"#);
        let mut read: Histogram = serde_json::from_str(&text).unwrap();
        read.merge(&read.clone());
        assert_eq!(read.count(), most, "a count does not wrap");
        let text = format!(r#"{{"buckets":[[9,{most}],[8,1]],"sum_ns":1,"min_ns":1,"max_ns":9}}"#);
        assert!(serde_json::from_str::<Histogram>(&text).is_err());
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
