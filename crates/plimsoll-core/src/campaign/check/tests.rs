// SPDX-License-Identifier: Apache-2.0
//! Planted mistakes, and campaigns that are written and read back.

mod mistakes;

use super::super::*;
use super::*;
use crate::rng::Rng;
use crate::rng::Seed;
use crate::written::{WrittenSize, WrittenTexts};
use mistakes::{MISTAKES, campaign_text};

fn campaign(head: &str, tables: &str) -> CampaignSpec {
    let text = campaign_text(head, tables);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{head}{tables}: {error}"))
}

#[test]
fn every_planted_mistake_is_told_of_its_key() {
    assert_eq!(campaign("", "").problems(), []);
    for (head, tables, key) in MISTAKES {
        let found = campaign(head, tables).problems();
        let first = found
            .first()
            .unwrap_or_else(|| panic!("{head} {tables}: nothing found"));
        assert_eq!(first.at, *key, "{head} {tables}: {found:?}");
        assert_eq!(found.len(), 1, "{head} {tables}: {found:?}");
        let told = first.words(&|key| key.to_owned());
        assert!(told.len() > 20, "{told}");
    }
}

#[test]
fn the_load_of_a_requirement_is_its_own() {
    let mut spec = campaign("", "[load_line]\nrequirement = \"etcd\"\nfrom = 1.5");
    spec.workload.clear();
    let found: Vec<String> = spec.problems().into_iter().map(|one| one.at).collect();
    assert_eq!(found, ["load_line.from"]);
    spec.load_line = spec
        .load_line
        .map(|line| CampaignLoadLine { from: 0.5, ..line });
    assert_eq!(spec.problems(), []);
}

#[test]
fn a_file_that_asks_for_very_many_choices_is_refused_at_once() {
    let many = CampaignParameter::Each((0..100).map(CampaignSetting::Whole).collect());
    let mut spec = campaign("", "");
    for name in 0..30 {
        spec.target[0]
            .settings
            .insert(name.to_string(), many.clone());
        spec.workload[0]
            .settings
            .insert(name.to_string(), many.clone());
    }
    let found: Vec<String> = spec.problems().into_iter().map(|one| one.at).collect();
    assert_eq!(found, ["target", "workload"]);
}

#[test]
fn systems_and_workloads_are_needed() {
    let mut spec = CampaignSpec::default();
    let keys = |spec: &CampaignSpec| -> Vec<String> {
        spec.problems().into_iter().map(|one| one.at).collect()
    };
    assert_eq!(keys(&spec), ["target", "workload"]);
    // Sessions feel a fault without one.
    spec.faults.inject.push("kill".into());
    assert_eq!(keys(&spec), ["target"]);
    spec.target = vec![(&"null".to_owned()).into()];
    assert_eq!(keys(&spec), [""; 0]);
    spec.control = false;
    spec.faults.inject.clear();
    spec.workload = vec![(&"randread".to_owned()).into()];
    assert_eq!(keys(&spec), ["target"]);
    spec.blocks = Some(1);
    assert_eq!(keys(&spec), [""; 0]);
}

/// Keys of a campaign that are drawn, without sense.
struct DrawnKeys {
    rng: Rng,
    seed: u64,
}

impl DrawnKeys {
    fn odds(&mut self) -> bool {
        self.rng.below(3) == 0
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.odds().then(|| value(self))
    }

    /// A fraction that JSON keeps to the last digit.
    fn fraction(&mut self) -> f64 {
        self.rng.below(8_000) as f64 / 8_192.0
    }

    fn time(&mut self) -> WrittenTime {
        WrittenTime(Nanos(self.rng.next_u64() >> 14))
    }

    fn word(&mut self) -> String {
        let words = ["a b", "ü\"\\\n", "x=[1]", "'", ""];
        words[usize::try_from(self.rng.below(5)).unwrap()].into()
    }

    fn settings(&mut self) -> BTreeMap<String, CampaignParameter> {
        let each = CampaignParameter::Each(vec![
            CampaignSetting::Number(self.fraction() * 1e3),
            CampaignSetting::Text(self.word()),
            CampaignSetting::Whole(-7),
            CampaignSetting::Switch(true),
        ]);
        let one = CampaignParameter::One(CampaignSetting::Whole(3));
        BTreeMap::from([(self.word(), each), ("k".into(), one)])
    }

    fn design(&mut self) -> CampaignDesign {
        CampaignDesign {
            effect: self.maybe(Self::fraction),
            stop: self.maybe(|_| StoppingRule::Anytime),
            budget: self.maybe(Self::time),
            pilot: self.odds(),
        }
    }

    fn trial(&mut self) -> CampaignTrial {
        CampaignTrial {
            length: self.maybe(Self::time),
            bytes: self.maybe(|one| WrittenSize(one.rng.below(1 << 50))),
            full_replay: self.odds(),
            verify: self.odds(),
            record: self.odds(),
            verify_data: DataCheck::Always,
            ..CampaignTrial::default()
        }
    }

    fn load_line(&mut self) -> CampaignLoadLine {
        CampaignLoadLine {
            limits: vec![self.word(), "p99 < 1ms".into()],
            from: self.fraction(),
            to: self.fraction() * 1e6,
            width: 0.05,
            budget: self.maybe(Self::time),
            costs: BTreeMap::from([(self.word(), 0.1)]),
            requirement: WrittenTexts((0..self.rng.below(3)).map(|_| self.word()).collect()),
        }
    }

    fn workload(&mut self) -> CampaignWorkload {
        CampaignWorkload {
            workload: self.word(),
            name: self.maybe(Self::word),
            length: self.maybe(Self::time),
            settings: self.settings(),
        }
    }

    fn campaign(&mut self) -> CampaignSpec {
        CampaignSpec {
            directory: self.maybe(Self::word),
            seed: self.maybe(|one| one.rng.next_u64().into()),
            blocks: self.maybe(|one| u32::try_from(one.seed).unwrap()),
            margin: self.maybe(Self::fraction),
            control: self.odds(),
            closed_and_open: self.odds(),
            under: vec![self.word(), self.word()],
            design: self.maybe(Self::design),
            trial: self.trial(),
            load_line: self.maybe(Self::load_line),
            faults: CampaignFaults {
                inject: self.maybe(|_| "kill".into()).into_iter().collect(),
                observers: self.maybe(|_| FaultObserver::Scp).into_iter().collect(),
                rate: self.maybe(Self::fraction),
                ..CampaignFaults::default()
            },
            clients: self.maybe(|one| CampaignClients {
                on: one.word(),
                lose: one.maybe(Self::fraction),
            }),
            stacks: CampaignStacks {
                port: self.maybe(|_| 7),
                on: self.maybe(Self::word),
                ..CampaignStacks::default()
            },
            target: vec![
                CampaignTarget {
                    target: self.word(),
                    name: self.maybe(Self::word),
                    settings: self.settings(),
                };
                2
            ],
            workload: vec![self.workload()],
            ..CampaignSpec::default()
        }
    }
}

#[test]
fn what_is_written_is_read_back_and_problems_never_panic() {
    for seed in 0..500 {
        let rng = Rng::new(Seed(seed));
        let spec = DrawnKeys { rng, seed }.campaign();
        let text = toml::to_string(&spec).unwrap();
        let again: CampaignSpec =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again, spec, "{text}");
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            serde_json::from_str::<CampaignSpec>(&json).unwrap(),
            spec,
            "{json}"
        );
        let told = spec
            .problems()
            .into_iter()
            .map(|one| one.words(&|key| key.to_owned()));
        assert!(told.into_iter().all(|told| !told.is_empty()));
    }
}
