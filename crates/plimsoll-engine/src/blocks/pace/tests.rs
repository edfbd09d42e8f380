// SPDX-License-Identifier: Apache-2.0
//! Instants held against their laws, from the schedule itself: no clock takes part.

use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Seed;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// The instants of all workers before `until`, each worker's in order.
fn instants(arrival: &ArrivalProcess, workers: u32, until: Nanos) -> Vec<Vec<u64>> {
    let of = |worker| {
        let rng = Rng::new(Seed(7).derive("pace", u64::from(worker)));
        let mut instants = BlockIoArrivalTimes::new(arrival, (worker, workers), rng);
        let next = std::iter::from_fn(|| instants.next());
        let found: Vec<u64> = next.take_while(|at| *at < until).map(|at| at.0).collect();
        assert!(found.is_sorted());
        found
    };
    (0..workers).map(of).collect()
}

fn merged(arrival: &ArrivalProcess, workers: u32, until: Nanos) -> Vec<u64> {
    let mut all = instants(arrival, workers, until).concat();
    all.sort_unstable();
    all
}

#[test]
fn poisson_rates_are_exact_at_any_height_and_number_of_workers() {
    for per_s in [30_000.0, 150_000.0, 300_000.0] {
        for workers in [1, 3] {
            let arrival = ArrivalProcess::Poisson { per_s };
            let seconds = 10;
            let n = merged(&arrival, workers, Nanos(seconds * SECOND)).len();
            let error = n as f64 / (per_s * seconds as f64) - 1.0;
            // Half a percent, which is 2.7 standard deviations at the lowest rate.
            assert!(error.abs() < 0.005, "{per_s} {workers}: {error}");
        }
    }
}

/// Largest distance between the distribution of `gaps` and the exponential law of this mean.
fn distance(mut gaps: Vec<f64>, mean: f64) -> f64 {
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let at = |(i, gap): (usize, &f64)| {
        let law = 1.0 - (-gap / mean).exp();
        (law - i as f64 / n)
            .abs()
            .max((law - (i + 1) as f64 / n).abs())
    };
    gaps.iter().enumerate().map(at).fold(0.0, f64::max)
}

#[test]
fn gaps_of_a_poisson_process_are_exponential_also_when_workers_share_it() {
    for workers in [1, 4] {
        let per_s = 100_000.0;
        let all = merged(
            &ArrivalProcess::Poisson { per_s },
            workers,
            Nanos(2 * SECOND),
        );
        let gaps: Vec<f64> = all
            .windows(2)
            .take(100_000)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        assert_eq!(gaps.len(), 100_000);
        // Kolmogorov-Smirnov: 1.9495/sqrt(n) is the critical value for 0.1 %.
        let limit = 1.9495 / 1e5f64.sqrt();
        let found = distance(gaps, 1e9 / per_s);
        assert!(found < limit, "{workers}: {found} {limit}");
    }
}

#[test]
fn pacing_never_drifts_and_interleaves_the_workers() {
    let per_s = 299_999.0;
    let mut one =
        BlockIoArrivalTimes::new(&ArrivalProcess::Paced { per_s }, (0, 1), Rng::new(Seed(1)));
    for k in 0..=1_000_000u64 {
        let at = one.next().unwrap().0;
        let expect = k as f64 / per_s * 1e9;
        assert!((at as f64 - expect).abs() <= 0.501, "{k}: {at} {expect}");
    }
    let arrival = ArrivalProcess::Paced { per_s: 1e6 };
    let shared = merged(&arrival, 4, Nanos(1_000_000));
    assert!(shared.into_iter().eq((0..1_000).map(|k| k * 1_000)));
}

#[test]
fn batches_are_due_at_once_and_keep_the_rate() {
    let arrival = ArrivalProcess::Batch {
        per_s: 80_000.0,
        size: 8,
    };
    let all = instants(&arrival, 2, Nanos(10 * SECOND));
    for worker in &all {
        let whole = worker.len() / 8 * 8;
        for batch in worker[..whole].chunks(8) {
            assert!(batch.iter().all(|at| *at == batch[0]), "{batch:?}");
        }
    }
    let n = all.concat().len() as f64;
    // 100 000 batches: standard deviation 0.3 %.
    assert!((n / 800_000.0 - 1.0).abs() < 0.012, "{n}");
}

#[test]
fn nothing_comes_in_the_off_phases() {
    let (on, off) = (Nanos(SECOND / 5), Nanos(SECOND * 3 / 10));
    let arrival = ArrivalProcess::OnOff {
        per_s: 50_000.0,
        on,
        off,
    };
    for workers in [1, 3] {
        let all = merged(&arrival, workers, Nanos(10 * SECOND));
        let period = on.0 + off.0;
        assert!(all.iter().all(|at| at % period <= on.0));
        // 20 on phases of 0.2 s.
        assert!((all.len() as f64 / 200_000.0 - 1.0).abs() < 0.01);
        let mut per_phase = [0u32; 20];
        for at in &all {
            per_phase[to_usize(at / period).min(19)] += 1;
        }
        // 10 000 each, standard deviation 100.
        assert!(per_phase.iter().all(|n| (9_500..10_500).contains(n)));
    }
}

#[test]
fn an_envelope_has_the_area_of_its_segments_again_and_again() {
    let segment = |seconds, from_per_s, to_per_s| ArrivalRateSegment {
        length: Nanos(seconds * SECOND),
        from_per_s,
        to_per_s,
    };
    let segments = vec![
        segment(1, 0.0, 20_000.0),
        segment(2, 20_000.0, 20_000.0),
        segment(1, 20_000.0, 5_000.0),
        segment(1, 0.0, 0.0),
    ];
    let areas = [10_000.0, 20_000.0, 20_000.0, 12_500.0, 0.0];
    for workers in [1, 4] {
        let all = merged(
            &ArrivalProcess::Envelope(segments.clone()),
            workers,
            Nanos(20 * SECOND),
        );
        let mut per_s = [0u32; 20];
        for at in &all {
            per_s[to_usize(at / SECOND)] += 1;
        }
        for (second, found) in per_s.iter().enumerate() {
            let expect: f64 = areas[second % 5];
            let error = (f64::from(*found) - expect).abs();
            assert!(error <= 4.5 * expect.sqrt(), "{second}: {found} {expect}");
        }
        // Inside a ramp from 0 the first half has a quarter of it.
        let early = all.iter().filter(|at| **at < SECOND / 2).count() as f64;
        assert!((early - 2_500.0).abs() < 225.0, "{early}");
    }
    for silent in [Vec::new(), vec![segment(1, 0.0, 0.0)]] {
        assert!(merged(&ArrivalProcess::Envelope(silent), 1, Nanos(SECOND)).is_empty());
    }
}

#[test]
fn an_envelope_of_almost_nothing_answers_at_once() {
    let segment = |length, rate| ArrivalRateSegment {
        length: Nanos(length),
        from_per_s: rate,
        to_per_s: rate,
    };
    // One instant in 10^12 s: further away than the clock reaches within a few steps.
    let thin = ArrivalProcess::Envelope(vec![segment(1_000, 1e-12)]);
    assert_eq!(merged(&thin, 1, Nanos(SECOND)).len(), 0);
    // Many rounds of short segments have the area of one long one.
    let short = ArrivalProcess::Envelope(vec![segment(1_000, 500.0), segment(1_000, 1_500.0)]);
    let n = merged(&short, 1, Nanos(20 * SECOND)).len() as f64;
    assert!((n / 20_000.0 - 1.0).abs() < 0.03, "{n}");
}
