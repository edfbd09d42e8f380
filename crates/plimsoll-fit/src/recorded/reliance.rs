// SPDX-License-Identifier: Apache-2.0
//! Whether recorded requests waited for earlier ones, and which for which.
//!
//! Two kinds of waiting leave traces that independent arrivals do not. A *chain*: requests that start
//! a short and steady time after another has ended, far more often than by chance. A *closed loop*:
//! a fixed number of lanes, each of which thinks after its request has ended and then sends the next, so
//! that the fewer of them are in flight, the more start. Where neither is plain, requests stay where they
//! were: open loop. `docs/workloads/models.md` describes the rules, their limits and the reasons for them.

use plimsoll_core::model::PackedDependency;
use plimsoll_core::num::{ratio, round_u64, saturating_u32};
use plimsoll_core::units::Nanos;

use super::TraceFitOptions;
use plimsoll_trace::nearly::sort_nearly;

/// Fewest requests that allow a conclusion.
const REQUESTS_MIN: usize = 200;
/// Most requests that are looked at: their starts and ends are held.
const REQUESTS_MAX: usize = 1 << 22;

/// A start looks back over this number of ends: the chains that may be under way at once.
const ENDS_BACK: usize = 32;
/// The longest pause that is looked for, in mean times between starts: as many ends are surely among
/// those that a start looks back over, and with them what is met by chance.
const PAUSE_GAPS: f64 = 8.0;
/// Number of requests, the first of a recording, among which chains are looked for.
const LOOKED_AT: usize = 1 << 16;
/// The limit of steadiness: the longest of the pauses over the shortest.
const STEADY: f64 = 1.26;
/// Share of the requests that must follow another in the steady pause, chance taken off.
const CHAINED_MIN: f64 = 0.2;
/// Starts are no chains when as many are steady after other starts as this share of those that are steady
/// after ends.
const AS_STEADY: f64 = 0.4;
/// How many times as many pairs there must be in the steady pause as by chance.
const OVER_CHANCE: f64 = 3.0;

/// Twice the difference of the logarithms of the likelihoods, at least.
const EVIDENCE_MIN: f64 = 30.0;
/// Share of what an even rate leaves unexplained that the lanes must explain.
const EXPLAINED_MIN: f64 = 0.75;
/// Most lanes that are tried, in multiples of the most requests that were ever in flight.
const LANES_OVER_MOST: usize = 2;
/// Starts at distances that vary less than this share are kept by a clock, unless the pauses show
/// otherwise.
const BY_CLOCK: f64 = 0.5;

/// How requests wait for earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DependencyPattern {
    /// Lanes that send one request after the other.
    Closed {
        /// How many.
        lanes: usize,
        /// The mean time from an end to the lane's next start, ns.
        think_ns: f64,
        /// Share of what an even rate leaves unexplained that they explain.
        explained: f64,
    },
    /// Requests that follow others after a steady pause.
    Chained {
        /// Share of all requests.
        share: f64,
        /// Share of them that would be found by chance.
        by_chance: f64,
        /// The shortest and the longest pause, ns.
        pause_ns: (f64, f64),
    },
}

/// How requests that waited are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyReplayMode {
    /// At their instants, as was asked.
    Open,
    /// At their instants, as their order is another.
    Shuffled,
    /// After those that they waited for.
    Waiting,
}

impl DependencyReplayMode {
    pub(super) fn of(keep: TraceFitOptions) -> DependencyReplayMode {
        match keep {
            TraceFitOptions {
                open_loop: true, ..
            } => DependencyReplayMode::Open,
            TraceFitOptions {
                shuffle: Some(_), ..
            } => DependencyReplayMode::Shuffled,
            TraceFitOptions { .. } => DependencyReplayMode::Waiting,
        }
    }
}

/// Which requests wait for which.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TraceDependencies {
    pub(super) way: DependencyPattern,
    /// By request: which later one starts when it has ended.
    pub(super) links: Vec<Option<PackedDependency>>,
}

impl TraceDependencies {
    /// Warnings of it for the reader.
    pub(super) fn sentence(&self, played: DependencyReplayMode) -> String {
        let found = match self.way {
            DependencyPattern::Closed {
                lanes,
                think_ns,
                explained,
            } => format!(
                "the fewer requests were in flight, the more started: {lanes} lanes that pause for {} \
                 on average explain {:.0} % of it, as in a closed loop",
                Nanos(round_u64(think_ns)),
                explained * 100.0
            ),
            DependencyPattern::Chained {
                share,
                by_chance,
                pause_ns: (low, high),
            } => format!(
                "{:.0} % of the requests start {} to {} after another has ended (of them {:.0} % by \
                 chance), as in chains",
                share * 100.0,
                Nanos(round_u64(low)),
                Nanos(round_u64(high)),
                by_chance * 100.0
            ),
        };
        let played = match played {
            DependencyReplayMode::Open => "they are played open loop, as requested",
            DependencyReplayMode::Shuffled => {
                "they are played open loop, as shuffled requests wait for none"
            }
            DependencyReplayMode::Waiting => {
                "each is played that pause after the end of the one it waited for"
            }
        };
        format!("{found}: {played}")
    }
}

/// Starts and ends of requests, in the order of the starts.
#[derive(Debug)]
pub(super) struct DependencyFinder {
    times: Vec<(u64, u64)>,
    /// Most that are held.
    most: usize,
    /// Whether some have no end.
    lacks: bool,
    /// Whether there were too many.
    is_over: bool,
}

impl Default for DependencyFinder {
    fn default() -> DependencyFinder {
        DependencyFinder::of_at_most(REQUESTS_MAX)
    }
}

impl DependencyFinder {
    fn of_at_most(most: usize) -> DependencyFinder {
        DependencyFinder {
            times: Vec::new(),
            most,
            lacks: false,
            is_over: false,
        }
    }

    /// A request that started and took so long, if that is recorded.
    pub(super) fn add(&mut self, at: Nanos, took: Option<Nanos>) {
        if self.lacks || self.is_over {
            return;
        }
        match took {
            Some(took) if self.times.len() < self.most => {
                self.times.push((at.0, at.0.saturating_add(took.0)));
                return;
            }
            Some(_) => self.is_over = true,
            None => self.lacks = true,
        }
        self.times = Vec::new();
    }

    /// A warning where there were too many to look at.
    pub(super) fn left_out(&self) -> Option<String> {
        self.is_over.then(|| {
            format!(
                "dependencies between requests were not analysed, since there are more than {}: they \
                 are played open loop; select a part with --from and --to",
                self.most
            )
        })
    }

    /// Which requests wait for which, if that is plain.
    pub(super) fn finish(self) -> Option<TraceDependencies> {
        if self.lacks || self.is_over || self.times.len() < REQUESTS_MIN {
            return None;
        }
        chained(&self.times).or_else(|| closed(&self.times))
    }
}

/// Requests by their ends.
fn by_end(times: &[(u64, u64)]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..saturating_u32(times.len() as u64)).collect();
    sort_nearly(&mut order, 0, |request| times[*request as usize].1);
    order
}

// ---- chains

/// Tells every pair of a start and one of the ends before it, the latest end first: the pause, who
/// ended, who started.
fn pauses(times: &[(u64, u64)], ends: &[u32], mut tell: impl FnMut(u64, usize, usize)) {
    let mut ended = 0;
    for (starts, (at, _)) in times.iter().enumerate() {
        while ends
            .get(ended)
            .is_some_and(|one| times[*one as usize].1 <= *at)
        {
            ended += 1;
        }
        for one in ends[..ended].iter().rev().take(ENDS_BACK) {
            let one = *one as usize;
            // Recordings count in microseconds or finer; a pause of nothing is one of less.
            let pause = (at - times[one].1).max(1);
            if one < starts {
                tell(pause, one, starts);
            }
        }
    }
}

/// A pause that is met far more often than by chance.
struct SteadyThinkTime {
    low: f64,
    high: f64,
    by_chance: f64,
    /// Pairs beyond chance.
    over: f64,
}

/// The steady pause with the most pairs over chance, `least` or more, and none longer than
/// `longest`: chance is how dense pairs are around it.
fn steady(sorted: &[u64], least: f64, longest: f64) -> Option<SteadyThinkTime> {
    let below = |pause: f64| sorted.partition_point(|one| (*one as f64) < pause);
    let mut best: Option<SteadyThinkTime> = None;
    // Windows that begin at a pause that is there, a thousand of them at most.
    for first in (0..sorted.len()).step_by((sorted.len() / 4_096).max(1)) {
        let low = sorted[first] as f64;
        let high = low * STEADY;
        if high > longest {
            break;
        }
        let count = (below(high) - below(low)) as f64;
        // As wide on both sides, a window's width away.
        let width = high - low;
        let (left, right) = ((low - 2.0 * width).max(0.0), high + 4.0 * width);
        let around =
            below(low - width).saturating_sub(below(left)) + below(right) - below(high + width);
        let room = (low - width - left).max(0.0) + 3.0 * width;
        let by_chance = around as f64 * width / room;
        let over = count - by_chance;
        let is_plain = over >= least && count >= OVER_CHANCE * by_chance;
        if is_plain && best.as_ref().is_none_or(|best| over > best.over) {
            best = Some(SteadyThinkTime {
                low,
                high,
                by_chance: by_chance / count,
                over,
            });
        }
    }
    best
}

/// Distances between starts, as far back as those that are looked at for pauses.
fn distances(times: &[(u64, u64)]) -> Vec<u64> {
    let back = |n: usize| (1..=ENDS_BACK.min(n)).map(move |distance| (n, n - distance));
    let pairs = (0..times.len()).flat_map(back);
    let mut distances: Vec<u64> = pairs
        .map(|(late, early)| times[late].0.saturating_sub(times[early].0).max(1))
        .collect();
    distances.sort_unstable();
    distances
}

fn chained(times: &[(u64, u64)]) -> Option<TraceDependencies> {
    let looked_at = &times[..times.len().min(LOOKED_AT)];
    let mut sorted = Vec::new();
    pauses(looked_at, &by_end(looked_at), |pause, _, _| {
        sorted.push(pause);
    });
    sorted.sort_unstable();
    // Requests further back than that may be out of reach of the ends that are looked at.
    let lasted = looked_at.last()?.0.saturating_sub(looked_at.first()?.0) as f64;
    let longest = PAUSE_GAPS * lasted / looked_at.len() as f64;
    let found = steady(&sorted, CHAINED_MIN * looked_at.len() as f64, longest)?;
    // Where starts are as steady after starts as after ends, they may keep to a clock: that of a timer
    // in which the requests end within a small part of its tick looks like chains otherwise.
    if steady(&distances(looked_at), AS_STEADY * found.over, longest).is_some() {
        return None;
    }
    let mut links = vec![None; times.len()];
    let mut follows = vec![false; times.len()];
    let mut pairs = Vec::new();
    pauses(times, &by_end(times), |pause, one, starts| {
        let fits = (found.low..found.high).contains(&(pause as f64));
        if fits && !follows[starts] && links[one].is_none() {
            follows[starts] = true;
            links[one] = link(times, one, starts);
            pairs.push((one, starts));
        }
    });
    let share = pairs.len() as f64 / times.len() as f64;
    let is_plain = share >= CHAINED_MIN && !is_by_clock(times, &pairs);
    is_plain.then_some(TraceDependencies {
        way: DependencyPattern::Chained {
            share,
            by_chance: found.by_chance,
            pause_ns: (found.low, found.high),
        },
        links,
    })
}

fn link(times: &[(u64, u64)], one: usize, starts: usize) -> Option<PackedDependency> {
    let distance = starts.checked_sub(one).filter(|distance| *distance > 0)?;
    Some(PackedDependency {
        distance: saturating_u32(distance as u64),
        think: Nanos(times[starts].0.saturating_sub(times[one].1)),
    })
}

// ---- closed loops

/// Time and starts by how many were in flight.
#[derive(Debug, Default)]
struct Levels {
    time_ns: Vec<f64>,
    starts: Vec<f64>,
}

impl Levels {
    fn of(times: &[(u64, u64)], ends: &[u32]) -> Levels {
        let mut levels = Levels::default();
        let (mut ended, mut now) = (0, times.first().map_or(0, |first| first.0));
        for (started, (at, _)) in times.iter().enumerate() {
            // A request that takes no time may stand behind its like: no more end than have started.
            while ended < started && times[ends[ended] as usize].1 <= *at {
                let end = times[ends[ended] as usize].1;
                levels.pass(started - ended, end.saturating_sub(now));
                now = now.max(end);
                ended += 1;
            }
            levels.pass(started - ended, at.saturating_sub(now));
            now = now.max(*at);
            levels.starts[started - ended] += 1.0;
        }
        levels
    }

    fn pass(&mut self, level: usize, ns: u64) {
        if self.time_ns.len() <= level {
            self.time_ns.resize(level + 1, 0.0);
            self.starts.resize(level + 1, 0.0);
        }
        self.time_ns[level] += ns as f64;
    }

    fn all_starts(&self) -> f64 {
        self.starts.iter().sum()
    }

    /// The mean pause of `lanes` lanes: the time that they were not in flight, divided by the starts.
    fn think_ns(&self, lanes: usize) -> f64 {
        let free = |(level, time): (usize, &f64)| lanes.saturating_sub(level) as f64 * time;
        let idle: f64 = self.time_ns.iter().enumerate().map(free).sum();
        ratio(idle, self.all_starts())
    }

    /// The part that rates by level leave unexplained: twice how much less likely the starts are than with
    /// the rate of each level as it was.
    fn deviance(&self, rate: impl Fn(usize) -> f64) -> f64 {
        let of = |(level, (time, starts)): (usize, (&f64, &f64))| {
            let expected = rate(level) * time;
            let likely = match *starts > 0.0 {
                true => starts * (starts / expected).ln(),
                false => 0.0,
            };
            2.0 * (likely - (starts - expected))
        };
        self.time_ns
            .iter()
            .zip(&self.starts)
            .enumerate()
            .map(of)
            .sum()
    }
}

fn closed(times: &[(u64, u64)]) -> Option<TraceDependencies> {
    let ends = by_end(times);
    let levels = Levels::of(times, &ends);
    // The largest level at which one starts makes one more.
    let most = levels.starts.iter().rposition(|starts| *starts > 0.0)? + 1;
    let even = ratio(levels.all_starts(), levels.time_ns.iter().sum());
    let open = levels.deviance(|_| even);
    let lanes_deviance = |lanes: usize| {
        let think = levels.think_ns(lanes).max(f64::MIN_POSITIVE);
        // Instants that coincide may seem one more than there are lanes.
        levels.deviance(|level| (lanes.saturating_sub(level) as f64 / think).max(1e-12 * even))
    };
    let (lanes, left) = (most..=most * LANES_OVER_MOST)
        .map(|lanes| (lanes, lanes_deviance(lanes)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let explained = 1.0 - ratio(left, open);
    let is_plain = open - left >= EVIDENCE_MIN && explained >= EXPLAINED_MIN;
    let is_bounded = lanes < most * LANES_OVER_MOST || most == 1;
    if !is_plain || !is_bounded {
        return None;
    }
    let ends = ends.iter().map(|one| *one as usize);
    let pairs: Vec<(usize, usize)> = ends.zip(lanes..times.len()).collect();
    // Which lane sent which is not known: pairs of irregular starts say little of a clock.
    if is_regular(times) && is_by_clock(times, &pairs) {
        return None;
    }
    let mut links = vec![None; times.len()];
    for (one, starts) in pairs {
        links[one] = link(times, one, starts);
    }
    let way = DependencyPattern::Closed {
        lanes,
        think_ns: levels.think_ns(lanes),
        explained,
    };
    Some(TraceDependencies { way, links })
}

/// Whether starts come at distances that hardly vary.
fn is_regular(times: &[(u64, u64)]) -> bool {
    let gap = |two: &[(u64, u64)]| (two[1].0 - two[0].0) as f64;
    let (mean, variance) = moments(&times.windows(2).map(gap).collect::<Vec<_>>());
    ratio(variance.sqrt(), mean) < BY_CLOCK
}

/// Whether starts keep to a clock instead of to ends: then a pause is the shorter the longer the
/// request before it took. `pairs` are who ended and who started then.
fn is_by_clock(times: &[(u64, u64)], pairs: &[(usize, usize)]) -> bool {
    let took = |one: usize| (times[one].1 - times[one].0) as f64;
    let pause = |(one, starts): (usize, usize)| times[starts].0 as f64 - times[one].1 as f64;
    let (mean_took, spread) = moments(&pairs.iter().map(|pair| took(pair.0)).collect::<Vec<_>>());
    if spread.sqrt() < mean_took * 1e-3 {
        // Where all take the same time there is no conclusion, and a clock is the safer guess for regular
        // starts.
        return is_regular(times);
    }
    let (mean_pause, _) = moments(&pairs.iter().map(|pair| pause(*pair)).collect::<Vec<_>>());
    let together = pairs
        .iter()
        .map(|pair| (took(pair.0) - mean_took) * (pause(*pair) - mean_pause));
    let slope = ratio(together.sum::<f64>() / pairs.len() as f64, spread);
    slope < -0.5
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = ratio(values.iter().sum(), values.len() as f64);
    let off = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, ratio(off, values.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn ns(value: f64) -> u64 {
        round_u64(value)
    }

    fn found(mut times: Vec<(u64, u64)>) -> Option<TraceDependencies> {
        times.sort_unstable();
        let mut watch = DependencyFinder::default();
        for (at, end) in times {
            watch.add(Nanos(at), Some(Nanos(end - at)));
        }
        watch.finish()
    }

    /// Independent arrivals; each takes an exponential time of 1 ms.
    fn open(seed: u64, gap_ns: impl Fn(&mut Rng) -> f64) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(Seed(seed));
        let mut at = 0.0;
        let mut one = || {
            at += gap_ns(&mut rng);
            (ns(at), ns(at + rng.exponential(1e6)))
        };
        (0..3_000).map(|_| one()).collect()
    }

    /// Lanes that think for an exponential time; each request takes an exponential 1 ms.
    fn lanes(seed: u64, lanes: usize, think_ns: f64) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(Seed(seed));
        let mut all = Vec::new();
        for _ in 0..lanes {
            let mut at = rng.exponential(think_ns);
            while at < 2e9 {
                let end = at + rng.exponential(1e6);
                all.push((ns(at), ns(end)));
                at = end + rng.exponential(think_ns);
            }
        }
        all
    }

    /// Independent chains of five, each request 200 µs after the end of the one before.
    fn chains(seed: u64, gap_ns: f64) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(Seed(seed));
        let (mut first, mut all) = (0.0, Vec::new());
        for _ in 0..600 {
            first += rng.exponential(gap_ns);
            let mut at = first;
            for _ in 0..5 {
                let end = at + rng.exponential(1e6);
                all.push((ns(at), ns(end)));
                at = end + 195_000.0 + 10_000.0 * rng.unit();
            }
        }
        all
    }

    #[test]
    fn independent_requests_wait_for_none() {
        let mut wrong = Vec::new();
        for seed in 0..20 {
            for load in [0.3, 2.0, 8.0] {
                let poisson = open(seed, |rng| rng.exponential(1e6 / load));
                wrong.extend(found(poisson).map(|found| (seed, load, found.way)));
            }
        }
        assert!(wrong.len() <= 3, "{wrong:?}");
    }

    #[test]
    fn a_clock_and_bursts_are_no_lanes() {
        for seed in 0..20 {
            assert_eq!(found(open(seed, |_| 8e6)).map(|found| found.way), None);
            let bursts = open(seed, |rng| {
                let mean = if rng.unit() < 0.9 { 1e5 } else { 1e7 };
                rng.exponential(mean)
            });
            assert_eq!(found(bursts).map(|found| found.way), None);
            // Alone, and again at the next tick of a clock of 64 Hz.
            let alone = open(seed, |rng| rng.exponential(1e8));
            let mut rng = Rng::new(Seed(seed + 100));
            let mut again = |at: u64| (at, at + ns(rng.exponential(1e6)));
            let ticks: Vec<(u64, u64)> =
                alone.iter().map(|one| again(one.0 + 15_625_000)).collect();
            let both = [alone, ticks].concat();
            assert_eq!(found(both).map(|found| found.way), None);
            // Half of them at the next tick, and most over long before it.
            let alone = open(seed, |rng| rng.exponential(1e8));
            let some = alone.iter().step_by(2);
            let mut soon = |at: u64| (at, at + 300_000 + ns(rng.exponential(1e5)));
            let ticks: Vec<(u64, u64)> = some.map(|one| soon(one.0 + 15_625_000)).collect();
            let both = [alone, ticks].concat();
            assert_eq!(found(both).map(|found| found.way), None);
        }
    }

    #[test]
    fn lanes_that_think_are_found_with_their_number_and_their_pause() {
        let mut right = 0;
        for seed in 0..20 {
            for (count, think) in [(1, 5e6), (4, 1e6), (8, 4e6)] {
                let found = found(lanes(seed, count, think));
                let Some(DependencyPattern::Closed {
                    lanes, think_ns, ..
                }) = found.map(|found| found.way)
                else {
                    continue;
                };
                // One lane more or less, with a longer or shorter pause, gives the same starts.
                let is_near = (think_ns / think - 1.0).abs() < 0.25;
                right += u64::from(lanes.abs_diff(count) <= 1 && is_near);
            }
        }
        assert!(right >= 57, "{right} of 60");
    }

    #[test]
    fn chains_are_found_with_what_follows_what() {
        let mut right = 0;
        for seed in 0..20 {
            // One chain at a time, and three.
            for gap in [2e7, 2e6] {
                let mut times = chains(seed, gap);
                times.sort_unstable();
                let Some(found) = found(times.clone()) else {
                    continue;
                };
                let DependencyPattern::Chained { share, .. } = found.way else {
                    continue;
                };
                let mut thinks = found.links.iter().flatten();
                let is_near = thinks.all(|link| (150_000..260_000).contains(&link.think.0));
                right += u64::from((0.7..=0.85).contains(&share) && is_near);
            }
        }
        assert!(right >= 38, "{right} of 40");
    }

    #[test]
    fn where_there_are_too_many_nothing_is_found_and_that_is_said() {
        let mut times = chains(1, 2e7);
        times.sort_unstable();
        let watched = |most: usize| {
            let mut watch = DependencyFinder::of_at_most(most);
            for (at, end) in &times {
                watch.add(Nanos(*at), Some(Nanos(end - at)));
            }
            (watch.left_out(), watch.finish().is_some())
        };
        assert_eq!(watched(times.len()), (None, true));
        let (said, found) = watched(times.len() - 1);
        let said = said.unwrap_or_default();
        assert!(said.contains("were not analysed") && !found, "{said}");
    }

    #[test]
    fn without_ends_nothing_is_told() {
        let mut watch = DependencyFinder::default();
        for (at, _) in lanes(1, 4, 1e6) {
            watch.add(Nanos(at), None);
        }
        assert_eq!((watch.left_out(), watch.finish()), (None, None));
    }
}
