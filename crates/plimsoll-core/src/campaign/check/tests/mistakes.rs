// SPDX-License-Identifier: Apache-2.0
//! Planted mistakes, one a campaign. The tests of the page's form use this list as well.

/// Two systems under a workload, with keys before the tables and tables behind them.
pub(super) fn campaign_text(head: &str, tables: &str) -> String {
    format!(
        "format = \"1.2\"\n{head}\n{tables}\n[[target]]\ntarget = \"null\"\n[[target]]\ntarget = \"sim(disk)\"\n\
         [[workload]]\nworkload = \"randread\"\n"
    )
}

const KILL: &str = "[faults]\ninject = [\"kill\"]\n";
const LINE: &str = "[load_line]\nlimits = [\"p99 < 20ms\"]\n";

/// Keys before the tables, the tables, and the key that the error names.
pub(super) const MISTAKES: &[(&str, &str, &str)] = &[
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
