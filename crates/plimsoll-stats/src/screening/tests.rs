// SPDX-License-Identifier: Apache-2.0
//! Screening on systems whose truth is known.

use super::{SETTINGS_MAX, ScreeningDesign, candidates, screen};
use plimsoll_core::rng::{Rng, Seed};

fn design(settings: usize, is_folded: bool) -> ScreeningDesign {
    ScreeningDesign::plackett_burman(settings, is_folded, &mut Rng::new(Seed(7))).unwrap()
}

#[test]
fn every_pair_of_columns_meets_all_four_combinations_equally_often() {
    for settings in 1..=SETTINGS_MAX {
        for is_folded in [false, true] {
            let design = design(settings, is_folded);
            let rows = design.rows();
            assert!(rows[0].iter().all(|is_on| !is_on), "the base comes first");
            for one in 0..settings {
                for other in 0..one {
                    for levels in [[false, false], [false, true], [true, false], [true, true]] {
                        let meets = |row: &&Vec<bool>| [row[one], row[other]] == levels;
                        let met = rows.iter().filter(meets).count();
                        assert_eq!(4 * met, rows.len(), "{settings} {one} {other}");
                    }
                }
                let on = rows.iter().filter(|row| row[one]).count();
                assert_eq!(2 * on, rows.len());
            }
            let mut distinct = rows.to_vec();
            distinct.sort();
            distinct.dedup();
            assert!(settings < 3 || distinct.len() == rows.len(), "{settings}");
        }
    }
    let mut rng = Rng::new(Seed(7));
    assert!(ScreeningDesign::plackett_burman(0, false, &mut rng).is_none());
    assert!(ScreeningDesign::plackett_burman(SETTINGS_MAX + 1, false, &mut rng).is_none());
}

/// Values of the runs of a design, where each setting has an effect and each block a level of its own.
fn drawn(
    design: &ScreeningDesign,
    effects: &[f64],
    (blocks, deviation): (usize, f64),
    rng: &mut Rng,
) -> Vec<Vec<Option<f64>>> {
    let levels: Vec<f64> = (0..blocks).map(|_| 0.3 * rng.normal()).collect();
    let value = |row: &Vec<bool>, level: f64, rng: &mut Rng| {
        let on = row.iter().zip(effects).filter(|(is_on, _)| **is_on);
        let sum: f64 = on.map(|(_, effect)| effect).sum();
        Some((level + sum + deviation * rng.normal()).exp())
    };
    let mut of_row = |row: &Vec<bool>| levels.iter().map(|l| value(row, *l, rng)).collect();
    design.rows().iter().map(&mut of_row).collect()
}

#[test]
fn effects_without_noise_are_found_exactly_whatever_the_blocks_do() {
    let design = design(10, false);
    let truth: Vec<f64> = (0..10).map(|n| 0.1 * f64::from(n) - 0.4).collect();
    let values = drawn(&design, &truth, (2, 0.0), &mut Rng::new(Seed(1)));
    let found = screen(&design, &values, 0.95).unwrap();
    for (effect, truth) in found.effects.iter().zip(&truth) {
        assert!((effect.estimate - truth).abs() < 1e-9, "{effect:?}");
    }
    assert_eq!(found.runs, 24);
    assert_eq!(candidates(&found, 1.0, 3), [9, 8, 7]);
    assert_eq!(candidates(&found, -1.0, 2), [0, 1]);
}

#[test]
fn runs_without_a_value_are_left_out_and_too_few_say_nothing() {
    let design = design(10, false);
    let truth: Vec<f64> = (0..10).map(|n| 0.05 * f64::from(n)).collect();
    let mut values = drawn(&design, &truth, (2, 0.0), &mut Rng::new(Seed(1)));
    values[3][1] = None;
    values[5][0] = Some(0.0);
    let found = screen(&design, &values, 0.95).unwrap();
    assert_eq!(found.runs, 22);
    for (effect, truth) in found.effects.iter().zip(&truth) {
        assert!((effect.estimate - truth).abs() < 1e-9, "{effect:?}");
    }
    let one_block: Vec<Vec<Option<f64>>> = values.iter().map(|row| row[..1].to_vec()).collect();
    // Eleven runs have no more to say than ten effects and a level.
    assert_eq!(screen(&design, &one_block, 0.95), None);
}

#[test]
fn interactions_widen_intervals_and_are_no_noise() {
    let design = design(10, false);
    let mut values = drawn(&design, &[0.1; 10], (3, 0.01), &mut Rng::new(Seed(4)));
    for (row, of_row) in design.rows().iter().zip(&mut values) {
        if row[0] && row[1] {
            of_row.iter_mut().flatten().for_each(|value| *value *= 2.0);
        }
    }
    let found = screen(&design, &values, 0.95).unwrap();
    assert!((0.006..0.016).contains(&found.noise), "{found:?}");
    assert!(found.deviation > 5.0 * found.noise, "{found:?}");
}

#[test]
fn one_at_a_time_needs_more_than_three_times_the_runs_for_ten_settings() {
    let runs = design(10, false).one_at_a_time(2);
    assert!((runs - 24.0 * 17.32 / 4.0).abs() < 0.1, "{runs}");
    assert!(runs > 3.0 * 24.0);
}
