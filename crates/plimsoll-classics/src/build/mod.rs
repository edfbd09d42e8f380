// SPDX-License-Identifier: Apache-2.0
//! Building software: what a developer's disk does all day. A C program is unpacked, compiled and
//! removed; or a whole root file system is unpacked, its packages installed, and the program
//! compiled inside it.
//!
//! Every step ends with a write-back of its file system (`sync -f`) inside its time. The source
//! that is compiled has left the page cache before.

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandWorkload, WorkloadCommand};

use crate::copy::script;
use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::setting;
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Source package of Debian that is built when none is named: 30 000 lines of C and a Makefile
/// that needs nothing but a compiler.
const PACKAGE: &str = "lua5.4";
/// Packages that a root needs to compile.
const TOOLS: &str = "--include=make,gcc,libc6-dev";
/// Room of a source tree with what is made from it.
const TREE_BYTES: u64 = 256 << 20;
/// Room of a root with a compiler.
const ROOT_BYTES: u64 = 2 << 30;

/// Fetches the source package with apt from where the machine has its packages, with lists of its
/// own, so that nothing of the machine's set-up is needed or changed. `$1`: cache, `$2`: package,
/// `$3`: where the archive goes.
const FETCH: &str = "mkdir -p \"$1/source\" \"$1/apt/lists/partial\" \"$1/apt/archives/partial\"
cd \"$1/source\"
if ! ls \"$2\"_*.orig.tar.?z* > /dev/null 2>&1; then
  . /etc/os-release
  site=$(apt-get indextargets --format '$(REPO_URI)' \"Codename: $VERSION_CODENAME\" | head -n 1)
  echo \"deb-src $site $VERSION_CODENAME main\" > \"$1/apt/sources.list\"
  apt() { apt-get -q -o Dir::Etc::SourceList=\"$C/apt/sources.list\" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=\"$C/apt/lists\" -o Dir::Cache=\"$C/apt\" -o APT::Sandbox::User=root \"$@\"; }
  C=$1
  apt update >&2
  apt source --download-only \"$2\" >&2
fi
cat $(ls \"$2\"_*.orig.tar.?z* | grep -v 'asc$' | head -n 1) > \"$3\"";
/// Takes a directory or an archive. `$1`: it, `$2`: where the archive goes.
const TAKE: &str = "if [ -d \"$1\" ]; then d=$(cd \"$1\" && pwd -P); tar -C \"$(dirname \"$d\")\" -cf \"$2\" \"$(basename \"$d\")\"; else cat \"$1\" > \"$2\"; fi";
/// Unpacks the archive `$1` into a new directory `$2`.
const UNPACK: &str = "mkdir \"$2\"; tar -xf \"$1\" -C \"$2\" --strip-components=1 --no-same-owner";
/// Compiles what lies in the working directory, `$1` at a time.
const COMPILE: &str = "[ -e Makefile ] || [ -e makefile ] || [ -e GNUmakefile ] || ./configure > /dev/null; make -j \"$1\" > /dev/null";

/// Runs the words behind the root `$1` inside it. What it mounts there is seen by itself only, and goes
/// with it: a file system may be mounted without device nodes, so those are the machine's own.
const INSIDE: &str = "mount -t tmpfs -o mode=755 devices \"$1/dev\"
for d in null zero full random urandom tty; do touch \"$1/dev/$d\"; mount --bind \"/dev/$d\" \"$1/dev/$d\"; done
exec chroot \"$@\"";

const SOURCE: SettingDefinition = setting(
    "src",
    SettingUnit::Text,
    "",
    "C source with a Makefile or a configure script: a directory or an archive (default: Debian's lua5.4)",
);
const JOBS: SettingDefinition = setting(
    "jobs",
    SettingUnit::Count,
    "2",
    "compilers at the same time",
);

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: "build",
    about: "a C program is unpacked, compiled and removed, or that in a root file system of its own",
    settings: &[
        setting(
            "mode",
            SettingUnit::Text,
            "compile",
            "compile, or chroot (as root)",
        ),
        SOURCE,
        JOBS,
        setting(
            "suite",
            SettingUnit::Text,
            "bookworm",
            "release of Debian (chroot)",
        ),
    ],
    build: |settings| match settings.text("mode") {
        "compile" => compile(settings),
        "chroot" => chroot(settings),
        other => Err(settings.wrong("mode", other, "expected compile or chroot")),
    },
}];

fn tool(name: &str) -> WorkloadCommand {
    let argv = [name, "--version"].map(String::from).to_vec();
    WorkloadCommand {
        name: format!("find {name}"),
        argv,
        output: CommandOutputFormat::Time,
        moves: None,
    }
}

/// The archive `{tmp}/source.tar`, whatever it is packed with: tar sees that by itself.
fn source(settings: &SettingValues) -> WorkloadCommand {
    match settings.text("src") {
        "" => script(
            "fetch the source",
            FETCH,
            &["{cache}", PACKAGE, "{tmp}/source.tar"],
        ),
        path if path.starts_with('/') => {
            script("take the source", TAKE, &[path, "{tmp}/source.tar"])
        }
        path => script(
            "take the source",
            TAKE,
            &[&format!("{{here}}/{path}"), "{tmp}/source.tar"],
        ),
    }
}

fn compile(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let jobs = settings.count_within("jobs", 1, 1024)?.to_string();
    let forget = ["{plimsoll}", "__forget", "{dir}/tree"]
        .map(String::from)
        .to_vec();
    let forget = WorkloadCommand {
        name: "forget the source".into(),
        argv: forget,
        output: CommandOutputFormat::Time,
        moves: None,
    };
    let synced =
        |name: &str, text: &str, words: &[&str]| script(name, &format!("{text}\nsync -f ."), words);
    Ok(Workload::Commands(CommandWorkload {
        name: "build".into(),
        prepare: vec![
            tool("tar"),
            tool("make"),
            tool("cc"),
            source(settings),
            script(
                "unpack the source",
                UNPACK,
                &["{tmp}/source.tar", "{dir}/tree"],
            ),
            forget,
        ],
        phases: vec![
            synced("unpack", UNPACK, &["{tmp}/source.tar", "{dir}/unpacked"]),
            synced(
                "compile",
                &format!("cd \"$2\"; {COMPILE}"),
                &[&jobs, "{dir}/tree"],
            ),
            synced(
                "remove",
                "rm -rf \"$1\" \"$2\"",
                &["{dir}/unpacked", "{dir}/tree"],
            ),
        ],
        finish: Vec::new(),
        data_bytes: TREE_BYTES,
    }))
}

fn chroot(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let jobs = settings.count_within("jobs", 1, 1024)?.to_string();
    let suite = settings.text("suite");
    if suite.is_empty() || !suite.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(settings.wrong(
            "suite",
            suite,
            "expected the name of a release, such as bookworm",
        ));
    }
    // The packages are fetched once; what is measured needs no network.
    let fetch = "if [ ! -e \"$1/root-$2.tar\" ]; then mkdir -p \"$1\"; debootstrap --variant=minbase \
                 --make-tarball=\"$1/root-$2.tar.new\" \"$3\" \"$2\" \"$4\" >&2; mv \"$1/root-$2.tar.new\" \"$1/root-$2.tar\"; fi; \
                 cat \"$1/root-$2.tar\" > /dev/null";
    // As in a container of LXC it does not try device nodes.
    let unpack = "container=lxc debootstrap --foreign --variant=minbase --unpack-tarball=\"$1/root-$2.tar\" \"$3\" \"$2\" \"$4\" > /dev/null";
    let install = "container=lxc unshare --mount --propagation private sh -ec \"$2\" sh \"$1\" /debootstrap/debootstrap --second-stage > /dev/null";
    let inside = format!("cd /build; {COMPILE}");
    let compile = format!(
        "{}\nunshare --mount --propagation private sh -ec \"$5\" sh \"$2\" sh -ec \"$3\" sh \"$4\"",
        UNPACK.replace("\"$2\"", "\"$2/build\"")
    );
    let synced =
        |name: &str, text: &str, words: &[&str]| script(name, &format!("{text}\nsync -f ."), words);
    let root = "{dir}/root";
    Ok(Workload::Commands(CommandWorkload {
        name: "build".into(),
        prepare: vec![
            tool("debootstrap"),
            script(
                "see whether it is root",
                "[ \"$1\" = 0 ] || { echo 'chroot needs root' >&2; exit 1; }",
                &["{user}"],
            ),
            source(settings),
            script(
                "fetch the packages",
                fetch,
                &["{cache}", suite, TOOLS, "{tmp}/root"],
            ),
        ],
        phases: vec![
            synced("unpack", unpack, &["{cache}", suite, TOOLS, root]),
            synced("install", install, &[root, INSIDE]),
            synced(
                "compile",
                &compile,
                &["{tmp}/source.tar", root, &inside, &jobs, INSIDE],
            ),
            synced("remove", "rm -rf --one-file-system \"$1\"", &[root]),
        ],
        finish: Vec::new(),
        data_bytes: ROOT_BYTES,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn steps_are_phases_and_tools_are_looked_for_first() {
        for (name, phases, tools) in [
            (
                "compile",
                vec!["unpack", "compile", "remove"],
                vec!["tar", "make", "cc"],
            ),
            (
                "chroot",
                vec!["unpack", "install", "compile", "remove"],
                vec!["debootstrap"],
            ),
        ] {
            let given = [("mode".to_owned(), name.to_owned())];
            let Workload::Commands(commands) = workload("build", &given).unwrap() else {
                panic!("programs are commands");
            };
            let names: Vec<&str> = commands
                .phases
                .iter()
                .map(|phase| phase.name.as_str())
                .collect();
            assert_eq!(names, phases);
            let first: Vec<&str> = commands
                .prepare
                .iter()
                .map(|c| c.argv[0].as_str())
                .collect();
            assert!(first.starts_with(&tools), "{first:?}");
        }
    }

    #[test]
    fn a_source_of_ones_own_is_taken_from_where_one_stands() {
        for (path, expect) in [("a/b", "{here}/a/b"), ("/a/b", "/a/b")] {
            let given = [("src".to_owned(), path.to_owned())];
            let Workload::Commands(commands) = workload("build", &given).unwrap() else {
                panic!("programs are commands");
            };
            assert!(
                commands
                    .prepare
                    .iter()
                    .any(|c| c.argv.contains(&expect.to_owned()))
            );
        }
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let bad = [set("mode", "chroot"), set("suite", "../x")];
        assert!(workload("build", &bad).is_err());
        assert!(workload("build", &[set("mode", "x")]).is_err());
    }
}
