// SPDX-License-Identifier: Apache-2.0
//! How often a screening is right, under every noise law that verdicts are held against.

use super::noise::{NoiseLaw, SimulatedCampaign};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::screening::{ScreeningDesign, screen};

/// Intervals cover and settings that do nothing are rarely called effects, under every noise law that
/// verdicts are held against: 500 screenings each of a setting that matters and nine that do not.
#[test]
fn intervals_cover_under_every_noise_law() {
    for (number, law) in (0..).zip(NoiseLaw::ALL) {
        let mut rng = Rng::new(Seed(90).derive("screening", number));
        let (mut covered, mut alarms) = (0, 0);
        for _ in 0..500 {
            let design = ScreeningDesign::plackett_burman(10, false, &mut rng).unwrap();
            let rows = design.rows().len();
            // The base of such a campaign and its arms are runs of equal systems.
            let runs = SimulatedCampaign {
                law,
                blocks: 3,
                arms: rows - 1,
                has_control: false,
                effect: 0.0,
            };
            let mut arms = runs.draw(&mut rng);
            for (arm, row) in arms.iter_mut().zip(design.rows()) {
                let planted = if row[4] { 0.3f64.exp() } else { 1.0 };
                arm.values
                    .iter_mut()
                    .flatten()
                    .for_each(|value| *value *= planted);
            }
            let values: Vec<_> = arms.into_iter().map(|arm| arm.values).collect();
            let found = screen(&design, &values, 0.95).unwrap();
            let at = found.effects[4].interval;
            covered += u32::from(at.low <= 0.3 && at.high >= 0.3);
            let others = found.effects.iter().filter(|effect| effect.setting != 4);
            alarms += u32::from(others.clone().any(|effect| effect.family_p_value <= 0.05));
        }
        let (covered, alarms) = (f64::from(covered) / 500.0, f64::from(alarms) / 500.0);
        assert!(covered > 0.92, "{law:?}: {covered}");
        assert!(alarms < 0.09, "{law:?}: {alarms}");
    }
}
