// SPDX-License-Identifier: Apache-2.0
//! Copying: one large file, or a tree of mixed sizes, to the target and from it, as people do it
//! with `cp` or `scp`.
//!
//! Copied data is made by this program from a seed and cannot be compressed. The time of a copy to
//! the target includes the write-back (`sync -f`), or a copy would be as fast as memory; before a
//! copy from it the files on the target have left the page cache.

mod tree;

pub use tree::{CopyFile, CopySourceKind, files};

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{
    CommandOutputFormat, CommandTransfer, CommandWorkload, WorkloadCommand,
};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::setting;
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Characters of a host and its directory besides letters and digits: a word that a shell on the
/// other side would read differently is refused.
const HOST_CHARACTERS: &str = "@.-_/~:[]";

const SEED: SettingDefinition = setting(
    "seed",
    SettingUnit::Count,
    "1",
    "seed of sizes and contents",
);
const HOST: SettingDefinition = setting(
    "host",
    SettingUnit::Text,
    "",
    "copy over ssh from and to this machine: user@host or user@host:directory",
);

const LARGE: &[SettingDefinition] = &[
    setting(
        "size",
        SettingUnit::Size(1),
        "297000000",
        "bytes of the file",
    ),
    HOST,
    SEED,
];
const TREE: &[SettingDefinition] = &[
    setting(
        "size",
        SettingUnit::Size(1),
        "203000000",
        "bytes of all files",
    ),
    HOST,
    SEED,
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: "copy-large",
        about: "one file of 297 MB copied to the target and from it (cp, or scp with host=)",
        settings: LARGE,
        build: |settings| build("copy-large", CopySourceKind::Large, settings),
    },
    WorkloadDefinition {
        name: "copy-tree",
        about: "a tree of 203 MB copied to the target and from it (cp -r, or scp -r with host=)",
        settings: TREE,
        build: |settings| build("copy-tree", CopySourceKind::Tree, settings),
    },
];

fn build(
    name: &str,
    shape: CopySourceKind,
    settings: &SettingValues,
) -> Result<Workload, ClassicsError> {
    let bytes = settings.bytes_within("size", 1 << 10, 1 << 40)?;
    let seed = settings.count("seed");
    let make = |place: &str| {
        let words = ["{plimsoll}", "__make-tree", place, shape.name()];
        let numbers = [bytes.to_string(), seed.to_string()];
        step(
            "make the files",
            words.map(String::from).into_iter().chain(numbers).collect(),
        )
    };
    let forget = step(
        "forget the files",
        ["{plimsoll}", "__forget", "{dir}/source"]
            .map(String::from)
            .to_vec(),
    );
    let mut prepare = vec![
        script("make room", "rm -rf \"$1\"", &["{tmp}/back"]),
        make("{tmp}/tree"),
        make("{dir}/source"),
        forget,
    ];
    let host = settings.text("host");
    let way = if host.is_empty() {
        local()
    } else {
        check_host(host)
            .map_err(|reason| settings.wrong::<ClassicsError>("host", host, &reason))?;
        over_ssh(host)
    };
    prepare.extend(way.prepare);
    Ok(Workload::Commands(CommandWorkload {
        name: name.into(),
        prepare,
        phases: vec![
            WorkloadCommand {
                moves: Some(CommandTransfer::To(bytes)),
                ..way.to
            },
            WorkloadCommand {
                moves: Some(CommandTransfer::From(bytes)),
                ..way.from
            },
        ],
        finish: vec![way.finish],
        data_bytes: bytes.saturating_mul(2),
    }))
}

/// How files get to the target and from it.
struct CopyCommands {
    prepare: Vec<WorkloadCommand>,
    to: WorkloadCommand,
    from: WorkloadCommand,
    finish: WorkloadCommand,
}

fn local() -> CopyCommands {
    let [tree, copy, source, back] = ["{tmp}/tree", "{dir}/copy", "{dir}/source", "{tmp}/back"];
    CopyCommands {
        prepare: Vec::new(),
        to: script(
            "to",
            "cp -r --reflink=never \"$1\" \"$2\"; sync -f \"$2\"",
            &[tree, copy],
        ),
        from: script(
            "from",
            "cp -r --reflink=never \"$1\" \"$2\"",
            &[source, back],
        ),
        finish: script("remove the copy", "rm -rf \"$1\"", &[back]),
    }
}

fn over_ssh(host: &str) -> CopyCommands {
    let (machine, directory) = host.split_once(':').unwrap_or((host, "."));
    let there = format!("{}/plimsoll-copy", directory.trim_end_matches('/'));
    let [tree, back] = ["tree", "back"].map(|name| format!("{machine}:{there}/{name}"));
    let copy = "scp -o BatchMode=yes -qr \"$1\" \"$2\"";
    let shell = "ssh -o BatchMode=yes \"$1\"";
    let put =
        format!("{shell} \"rm -rf $2 && mkdir -p $2\"; scp -o BatchMode=yes -qr \"$3\" \"$4\"");
    let put = script(
        "put the files on the other machine",
        &put,
        &[machine, &there, "{tmp}/tree", &tree],
    );
    CopyCommands {
        prepare: vec![
            step("find ssh", ["ssh", "-V"].map(String::from).to_vec()),
            put,
        ],
        to: script(
            "to",
            &format!("{copy}; sync -f \"$2\""),
            &[&tree, "{dir}/copy"],
        ),
        from: script("from", copy, &["{dir}/source", &back]),
        finish: script(
            "remove the copies",
            &format!("{shell} \"rm -rf $2\""),
            &[machine, &there],
        ),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || HOST_CHARACTERS.contains(c);
    if host.starts_with('-') || !host.chars().all(plain) {
        return Err("it is user@host, or user@host:directory, without spaces and quotes".into());
    }
    Ok(())
}

fn step(name: &str, argv: Vec<String>) -> WorkloadCommand {
    WorkloadCommand {
        name: name.into(),
        argv,
        output: CommandOutputFormat::Time,
        moves: None,
    }
}

/// A few commands of a shell, which find their words as `$1` and so on: names of directories are
/// never part of the script.
pub(crate) fn script(name: &str, text: &str, words: &[&str]) -> WorkloadCommand {
    let argv = ["sh", "-ec", text, "sh"]
        .into_iter()
        .chain(words.iter().copied());
    step(name, argv.map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    fn commands(name: &str, given: &[(&str, &str)]) -> Result<CommandWorkload, ClassicsError> {
        let own = given
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        match workload(name, &own.collect::<Vec<_>>())? {
            Workload::Commands(commands) => Ok(commands),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_directions_move_all_bytes() {
        for (name, bytes) in [("copy-large", 297_000_000), ("copy-tree", 203_000_000)] {
            let it = commands(name, &[]).unwrap();
            let moves: Vec<_> = it.phases.iter().map(|phase| phase.moves).collect();
            assert_eq!(
                moves,
                [
                    Some(CommandTransfer::To(bytes)),
                    Some(CommandTransfer::From(bytes))
                ]
            );
            assert!(
                it.phases
                    .iter()
                    .all(|phase| phase.argv[2].starts_with("cp -r"))
            );
        }
    }

    #[test]
    fn a_host_is_copied_from_and_to_over_ssh() {
        let it = commands("copy-large", &[("host", "me@there:/data/")]).unwrap();
        assert!(
            it.phases[0]
                .argv
                .contains(&"me@there:/data/plimsoll-copy/tree".to_owned())
        );
        assert!(
            it.finish[0]
                .argv
                .contains(&"/data/plimsoll-copy".to_owned())
        );
        for host in ["-oProxyCommand=x", "a b", "a;b", "a'b"] {
            assert!(commands("copy-large", &[("host", host)]).is_err(), "{host}");
        }
    }
}
