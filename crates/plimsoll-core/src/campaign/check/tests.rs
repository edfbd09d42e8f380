// SPDX-License-Identifier: Apache-2.0
//! Planted mistakes, and campaigns that are written and read back.

use super::super::*;
use super::*;
use crate::rng::Rng;
use crate::rng::Seed;
use crate::written::WrittenSize;

/// Two systems under a workload, with keys before the tables and tables behind them.
fn campaign(head: &str, tables: &str) -> CampaignSpec {
    let text = format!(
        "format = \"1.2\"\n{head}\n{tables}\n[[target]]\ntarget = \"null\"\n[[target]]\ntarget = \"sim(disk)\"\n\
         [[workload]]\nworkload = \"randread\"\n"
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{head}{tables}: {error}"))
}

const KILL: &str = "[faults]\ninject = [\"kill\"]\n";
const LINE: &str = "[load_line]\nlimits = [\"p99 < 20ms\"]\n";

/// Keys before the tables, tables, and the key that the first mistake is told of.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("seed = -1", "", "seed"),
    ("seed = \"x\"", "", "seed"),
    ("blocks = 0", "", "blocks"),
    ("blocks = 1001", "", "blocks"),
    ("margin = 0.0", "", "margin"),
    ("margin = 1.0", "", "margin"),
    ("margin = nan", "", "margin"),
    ("margin = -0.1", "", "margin"),
    ("confidence = 1.0", "", "confidence"),
    ("confidence = 95.0", "", "confidence"),
    ("ladder = [\"one\"]", "", "ladder"),
    ("ladder = [\"one\", \"two\", \"three\"]", "", "ladder"),
    ("under = [\"sloow\"]", "", "under[0]"),
    ("under = [\"healthy\", \"slow\", \"slow\"]", "", "under[2]"),
    ("under = [\"slow\"]", KILL, "under"),
    ("closed_and_open = true", KILL, "closed_and_open"),
    (
        "closed_and_open = true\nunder = [\"slow\"]",
        "",
        "closed_and_open",
    ),
    (
        "closed_and_open = true",
        "[design]\neffect = 0.05",
        "closed_and_open",
    ),
    ("closed_and_open = true", LINE, "closed_and_open"),
    ("", "[design]\neffect = 0.0", "design.effect"),
    ("", "[design]\neffect = 11.0", "design.effect"),
    ("", "[design]\nstop = \"two_stage\"", "design.stop"),
    ("", "[design]\nstop = \"anytime\"", "design.stop"),
    ("blocks = 5", "[design]\neffect = 0.05", "blocks"),
    (
        "",
        "[design]\neffect = 0.05\n[faults]\ninject = [\"kill\"]",
        "design",
    ),
    (
        "",
        "[design]\neffect = 0.05\n[load_line]\nlimits = [\"p99 < 1s\"]",
        "design",
    ),
    ("", "[trial]\nfor = \"99ms\"", "trial.for"),
    ("", "[trial]\nbytes = \"0\"", "trial.bytes"),
    (
        "",
        "[trial]\nbytes = \"1G\"\n[design]\neffect = 0.05",
        "trial.bytes",
    ),
    (
        "",
        "[trial]\nbytes = \"1G\"\n[faults]\ninject = [\"kill\"]",
        "trial.bytes",
    ),
    (
        "",
        "[trial]\nbytes = \"1G\"\n[load_line]\nlimits = [\"p99 < 1s\"]",
        "trial.bytes",
    ),
    (
        "",
        "[trial]\nfull_replay = true\nfor = \"10s\"",
        "trial.full_replay",
    ),
    (
        "",
        "[trial]\nprove_client = true\n[clients]\non = \"n1\"",
        "trial.prove_client",
    ),
    (
        "",
        "[conditioning]\nprecondition = 0.0",
        "conditioning.precondition",
    ),
    (
        "",
        "[conditioning]\nprecondition = 101.0",
        "conditioning.precondition",
    ),
    (
        "",
        "[conditioning]\nsteady = \"119s\"",
        "conditioning.steady",
    ),
    (
        "",
        "[conditioning]\nsteady = \"10m\"\n[load_line]\nlimits = [\"p99 < 1s\"]",
        "conditioning.steady",
    ),
    ("", "[load_line]\nwidth = 0.1", "load_line"),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 20\"]",
        "load_line.limits[0]",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\", \"p101 < 1s\"]",
        "load_line.limits[1]",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\nfrom = 0.0",
        "load_line.from",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\nfrom = 2.0\nto = 1.0",
        "load_line.from",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\nto = inf",
        "load_line.from",
    ),
    (
        "",
        "[load_line]\nrequirement = \"etcd\"",
        "load_line.requirement",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\nwidth = 0.001",
        "load_line.width",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\n[trial]\nfor = \"9s\"",
        "trial.for",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\ncosts = { b = 0.1 }",
        "load_line.costs",
    ),
    (
        "",
        "[load_line]\nlimits = [\"p99 < 1s\"]\ncosts = { null = -0.1 }",
        "load_line.costs",
    ),
    ("", "[faults]\ninject = [\"kil\"]", "faults.inject[0]"),
    ("", "[faults]\nvictim = \"server1\"", "faults.victim"),
    (
        "",
        "[faults]\nrecovery_timeout = \"1m\"",
        "faults.recovery_timeout",
    ),
    ("", "[faults]\nsessions = 2", "faults.sessions"),
    ("", "[faults]\nduration = \"1s\"", "faults.duration"),
    ("", "[faults]\nobservers = [\"stamp\"]", "faults.observers"),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nrate = 10.0\nload = 0.5",
        "faults.load",
    ),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nrate = 0.0",
        "faults.rate",
    ),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nload = 1.5",
        "faults.load",
    ),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nsessions = 65",
        "faults.sessions",
    ),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nblock = \"5000\"",
        "faults.block",
    ),
    (
        "",
        "[faults]\ninject = [\"kill\"]\nblock = \"1M\"\nfile_size = \"15M\"",
        "faults.file_size",
    ),
    ("", "[clients]\non = \" \"", "clients.on"),
    ("", "[clients]\non = \"n1\"\nlose = 1.0", "clients.lose"),
    (
        "",
        "[[target]]\ntarget = \"sim\"\nsettings = { rpm = [] }",
        "target[0].settings.rpm",
    ),
    (
        "",
        "[[target]]\ntarget = \"sim\"\nsettings = { rpm = [1, 1] }",
        "target[0].target",
    ),
    (
        "",
        "[[target]]\ntarget = \"raid1+crypt\"\nsettings = { level = 5 }",
        "target[0].settings",
    ),
    (
        "",
        "[[workload]]\nworkload = \"a.fio\"\nsettings = { depth = 2 }",
        "workload[0].settings",
    ),
    (
        "",
        "[[workload]]\nworkload = \"w\"\nsettings = { depth = [] }",
        "workload[0].settings.depth",
    ),
    (
        "",
        "[[workload]]\nworkload = \"w\"\nfor = \"1ms\"",
        "workload[0].for",
    ),
    (
        "",
        "[build]\ncommand = \" \"\nfiles = [\"a\"]",
        "build.command",
    ),
    ("", "[build]\ncommand = \"make\"\nfiles = []", "build.files"),
    (
        "",
        "[build]\ncommand = \"make\"\nfiles = [\"/etc/passwd\"]",
        "build.files[0]",
    ),
    (
        "",
        "[build]\ncommand = \"make\"\nfiles = [\"a/x\", \"b/x\"]",
        "build.files[1]",
    ),
];

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
            requirement: self.maybe(Self::word),
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
