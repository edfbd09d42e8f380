// SPDX-License-Identifier: Apache-2.0
//! Self-tests of a stack, which must pass before it is trusted.
//!
//! Invariants: everything is done in a directory that the caller made for it; what a self-test stops,
//! it starts again; a self-test that could not be carried out never counts as passed.

use plimsoll_core::plan::{HERE, PlanAction, StackOutputs, StackSelfTest, StackServer};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_machine::host::{HostError, HostResolver, HostTimeSource, SystemClock};

/// Synced writes of which each must reach the disk below.
const FLUSHES: u32 = 24;

/// How often it is tried when others make the disk flush all the time.
const FLUSH_TRIES: u32 = 4;

/// Times a second client must see the newest of what the first wrote.
const SIGHTINGS: u32 = 20;

/// Files written while all nodes are there, and again while one is away.
const FILES: u32 = 32;

/// Bytes of each.
const FILE_BYTES: usize = 128 << 10;

/// How long the data may take to be there while a node is away: longer than every patience that
/// parts of our stacks are set to.
const PATIENCE: Duration = Duration::from_secs(90);

/// The result of a self-test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelfTestStatus {
    /// It is as it must be; with what was seen.
    Passed(String),
    /// It is not; with what was seen.
    Failed(String),
    /// It cannot be seen here; with the reason.
    Unseen(String),
}

/// A self-test and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTestResult {
    /// The property to be shown, in words.
    pub what: String,
    /// The status that was seen.
    pub outcome: SelfTestStatus,
    /// Whether figures mean nothing where it is not so. What others could do is no matter of figures.
    pub is_about_data: bool,
}

/// Which self-tests are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTestDepth {
    /// Short self-tests that stop no node.
    Quick,
    /// Also those that stop nodes for a while.
    Whole,
}

/// Looks at every self-test of what was made. `directory` lies below its mount; where there is none, only
/// what needs none is looked at. `id` is the journal's.
pub fn prove(
    made: &StackOutputs,
    directory: Option<&Path>,
    id: &str,
    depth: SelfTestDepth,
    hosts: &mut dyn HostResolver,
) -> Vec<SelfTestResult> {
    let is_outside = |proof: &StackSelfTest| {
        matches!(
            proof,
            StackSelfTest::Closed { .. } | StackSelfTest::Refused { .. }
        )
    };
    let wanted = made.proofs.iter().filter(|proof| {
        let is_quick = !matches!(proof, StackSelfTest::Survives { .. });
        (depth == SelfTestDepth::Whole || is_quick) && (directory.is_some() || is_outside(proof))
    });
    let clock = SystemClock::new();
    let bench = SelfTestContext {
        directory: directory.unwrap_or(Path::new("")),
        id,
        clock: &clock,
        servers: &made.servers,
        proofs: &made.proofs,
    };
    wanted
        .map(|proof| SelfTestResult {
            what: words(proof),
            outcome: bench.look(proof, Path::new(&made.mount_dir), hosts),
            is_about_data: !matches!(proof, StackSelfTest::Closed { .. }),
        })
        .collect()
}

/// The property that a self-test shows.
pub fn words(proof: &StackSelfTest) -> String {
    match proof {
        StackSelfTest::Flushes { node, .. } => {
            format!("a synced write flushes the disk of {node}")
        }
        StackSelfTest::SecondClient { synced, .. } => format!(
            "a second client immediately reads what was {}",
            if *synced { "synced" } else { "written" }
        ),
        StackSelfTest::Refused { why, .. } => format!("no unauthorized client can {why}"),
        StackSelfTest::Closed { node, .. } => match node.as_str() {
            HERE => "no other user of this machine gains access through it".into(),
            node => format!("no other user of node {node} gains access through it"),
        },
        StackSelfTest::Hidden { node, .. } => {
            format!("no plaintext data or names are on the disk of {node}")
        }
        StackSelfTest::Survives { node, .. } => format!("the data stay available without {node}"),
    }
}

/// Where and for whom self-tests are carried out.
struct SelfTestContext<'a> {
    directory: &'a Path,
    id: &'a str,
    clock: &'a dyn HostTimeSource,
    servers: &'a [StackServer],
    proofs: &'a [StackSelfTest],
}

/// The failure of a look at the machine: a fault of the stack, or of the look.
enum Trouble {
    Stack(String),
    Look(String),
}

impl Trouble {
    fn stack(what: &str) -> impl Fn(std::io::Error) -> Trouble + '_ {
        move |error| Trouble::Stack(format!("could not {what}: {error}"))
    }
}

impl From<HostError> for Trouble {
    fn from(error: HostError) -> Trouble {
        Trouble::Look(error.to_string())
    }
}

impl SelfTestContext<'_> {
    fn look(
        &self,
        proof: &StackSelfTest,
        mount: &Path,
        hosts: &mut dyn HostResolver,
    ) -> SelfTestStatus {
        let seen = match proof {
            StackSelfTest::Flushes { node, dir } => self.flushes(node, dir, hosts),
            StackSelfTest::SecondClient { path, synced } => {
                self.second_client(mount, Path::new(path), *synced)
            }
            StackSelfTest::Refused {
                node,
                before,
                attempt,
                undo,
                ..
            } => self.refused(node, (before, attempt, undo), hosts),
            StackSelfTest::Closed { node, .. } => closed(proof, node, hosts),
            StackSelfTest::Hidden { node, dirs } => self.hidden(node, dirs, hosts),
            StackSelfTest::Survives {
                node,
                lose,
                restore,
            } => self.survives(node, lose, restore, hosts),
        };
        match seen {
            Ok(seen) => SelfTestStatus::Passed(seen),
            Err(Trouble::Stack(seen)) => SelfTestStatus::Failed(seen),
            Err(Trouble::Look(why)) => SelfTestStatus::Unseen(why),
        }
    }

    /// A file of its own for a self-test, removed when it is dropped.
    fn file(&self, name: &str) -> Scratch {
        Scratch(self.directory.join(format!("proof-{name}")))
    }

    fn flushes(
        &self,
        node: &str,
        dir: &str,
        hosts: &mut dyn HostResolver,
    ) -> Result<String, Trouble> {
        // Servers of one machine share its disk: the flushes of the others are not those of one that is
        // gone.
        for server in self.servers.iter().filter(|server| server.node == node) {
            let host = hosts.on(node)?;
            let is_gone = |mark: &String| host.marked(mark).is_empty();
            if !server.marks.is_empty() && server.marks.iter().all(is_gone) {
                let text = format!("{} is gone: it has no process", server.name);
                return Err(Trouble::Look(text));
            }
        }
        let mut count = || match hosts.on(node)?.flushes(Path::new(dir)) {
            Some(flushes) => Ok(flushes.count),
            None => Err(Trouble::Look(format!(
                "the kernel counts no flushes for the device under {dir}"
            ))),
        };
        let file = self.file("flush");
        let write = "write and sync a file";
        let mut open = File::create(&file.0).map_err(Trouble::stack(write))?;
        let mut foreign = 0;
        for _ in 0..FLUSH_TRIES {
            foreign = 0;
            let mut missed = 0;
            for n in 0..FLUSHES {
                let began = self.clock.now();
                let before = count()?;
                writeln!(open, "{n}").map_err(Trouble::stack(write))?;
                open.sync_data().map_err(Trouble::stack(write))?;
                let synced = count()?;
                missed += u32::from(synced <= before);
                // As long again without a sync: what the disk flushes then it does for others.
                self.clock.pause(self.clock.now().saturating_sub(began));
                foreign += u32::from(count()? > synced);
            }
            if missed > 0 {
                let text = format!("{missed} of {FLUSHES} syncs did not flush the disk");
                return Err(Trouble::Stack(text));
            }
            if foreign * 2 <= FLUSHES {
                self.check_alone(node, dir, hosts)?;
                return Ok(format!(
                    "{FLUSHES} syncs, each with a disk flush; in {foreign} of as many pauses other \
                     processes flushed it"
                ));
            }
        }
        Err(Trouble::Look(format!(
            "other processes flush the same disk all the time: {foreign} of {FLUSHES} pauses without \
             a sync had a flush"
        )))
    }

    /// Whether no other server of the stack flushes the same disk: one that drops its flushes would be hidden
    /// behind one that does not.
    fn check_alone(
        &self,
        node: &str,
        dir: &str,
        hosts: &mut dyn HostResolver,
    ) -> Result<(), Trouble> {
        let mut device_of = |node: &str, dir: &str| {
            let flushes = hosts.on(node).ok()?.flushes(Path::new(dir))?;
            Some(flushes.device)
        };
        let own = device_of(node, dir);
        for proof in self.proofs {
            if let StackSelfTest::Flushes { node: n, dir: d } = proof
                && (n.as_str(), d.as_str()) != (node, dir)
                && device_of(n, d) == own
            {
                return Err(Trouble::Look(format!(
                    "each sync flushed the disk, and {d} lies on the same one: which server flushed it cannot \
                     be told apart; give each a machine of its own (--on FILE)"
                )));
            }
        }
        Ok(())
    }

    fn second_client(&self, mount: &Path, second: &Path, synced: bool) -> Result<String, Trouble> {
        let file = self.file("seen");
        let below = file.0.strip_prefix(mount).map_err(|_| {
            Trouble::Look(format!("{} is not below the mount point", file.0.display()))
        })?;
        let other = second.join(below);
        for n in 0..SIGHTINGS {
            let text = format!("sighting {n}");
            let write = "write a file";
            let mut open = File::create(&file.0).map_err(Trouble::stack(write))?;
            open.write_all(text.as_bytes())
                .and_then(|()| if synced { open.sync_all() } else { Ok(()) })
                .map_err(Trouble::stack(write))?;
            drop(open);
            let read = fs::read_to_string(&other).unwrap_or_default();
            if read != text {
                return Err(Trouble::Stack(format!(
                    "'{text}' was written and closed, and '{read}' was read through {}",
                    second.display()
                )));
            }
        }
        Ok(format!("{SIGHTINGS} of {SIGHTINGS} times"))
    }

    fn refused(
        &self,
        node: &str,
        (before, attempt, undo): (
            &[PlanAction],
            &plimsoll_core::plan::PlanCommand,
            &[PlanAction],
        ),
        hosts: &mut dyn HostResolver,
    ) -> Result<String, Trouble> {
        let host = hosts.on(node)?;
        let mut all = before.iter();
        let tried = all
            .try_for_each(|action| host.carry_out(self.id, action))
            .and_then(|()| host.carry_out(self.id, &PlanAction::Run(attempt.clone())));
        for action in undo {
            host.carry_out(self.id, action)?;
        }
        match tried {
            Ok(()) => Err(Trouble::Stack(format!("'{attempt}' succeeded"))),
            Err(HostError::Failed { status, .. }) => Ok(format!("refused with {status}")),
            Err(other) => Err(other.into()),
        }
    }

    fn hidden(
        &self,
        node: &str,
        dirs: &[String],
        hosts: &mut dyn HostResolver,
    ) -> Result<String, Trouble> {
        // Long enough to stand nowhere by chance; no compression makes a block of it vanish.
        let name = format!("unveiled-name-{}", self.id);
        let text = format!("unveiled-text-{}", self.id);
        let file = Scratch(self.directory.join(&name));
        let write = "write and sync a file";
        let mut open = File::create(&file.0).map_err(Trouble::stack(write))?;
        let line = format!("{text}\n").repeat(1 << 12);
        open.write_all(line.as_bytes())
            .and_then(|()| open.sync_all())
            .map_err(Trouble::stack(write))?;
        match hosts.on(node)?.find_text(dirs, &[name, text])? {
            None => Ok(format!("looked through {}", dirs.join(", "))),
            Some(place) => Err(Trouble::Stack(place)),
        }
    }

    fn survives(
        &self,
        node: &str,
        lose: &[(String, PlanAction)],
        restore: &[(String, PlanAction)],
        hosts: &mut dyn HostResolver,
    ) -> Result<String, Trouble> {
        let place = ScratchDir::make(self.directory.join("proof-files"))?;
        let files = place.0.as_path();
        within(files, "write", |dir| write_files(dir, 0))?;
        self.all(lose, hosts)?;
        let without = within(files, "read", |dir| check_files(dir, 0))
            .and_then(|()| within(files, "write", |dir| write_files(dir, FILES)))
            .and_then(|()| within(files, "read", |dir| check_files(dir, FILES)));
        // A server taken away and still missing is a fault of the stack, not of this look.
        self.all(restore, hosts).map_err(|trouble| match trouble {
            Trouble::Look(why) => Trouble::Stack(format!("could not restart {node}: {why}")),
            other => other,
        })?;
        without.map_err(|trouble| match trouble {
            Trouble::Stack(text) => Trouble::Stack(format!("without {node}: {text}")),
            other => other,
        })?;
        within(files, "read", |dir| {
            check_files(dir, 0).and_then(|()| check_files(dir, FILES))
        })?;
        Ok(format!(
            "{FILES} files read and {FILES} written while it was down, all present after its return"
        ))
    }

    fn all(
        &self,
        actions: &[(String, PlanAction)],
        hosts: &mut dyn HostResolver,
    ) -> Result<(), Trouble> {
        Ok(crate::faults::carry_out(actions, self.id, hosts)?)
    }
}

/// Access that another user gains, tried as that user.
fn closed(
    proof: &StackSelfTest,
    node: &str,
    hosts: &mut dyn HostResolver,
) -> Result<String, Trouble> {
    let report = hosts.on(node)?.strange(proof)?;
    if !report.gained.is_empty() {
        let text = format!("another user could {}", report.gained.join("; "));
        return Err(Trouble::Stack(text));
    }
    let (places, doors, ways) = (report.places, report.doors, report.ways);
    let mut tried =
        format!("as user nobody: {places} directories and disks closed, {doors} addresses refused");
    if ways > 0 {
        // Writing to a String cannot fail.
        let _ = write!(
            tried,
            ", as were {ways} tries from sockets bound to an interface"
        );
    }
    match report.unknown.is_empty() {
        true => Ok(tried),
        false => Err(Trouble::Look(format!(
            "{tried}; {} was not tried: its protocol is not known here",
            report.unknown.join("; ")
        ))),
    }
}

/// Does something with a directory that may never end, for as long as our patience lasts.
fn within(
    directory: &Path,
    verb: &str,
    work: impl FnOnce(&Path) -> Result<(), Trouble> + Send + 'static,
) -> Result<(), Trouble> {
    let (tell, told) = mpsc::channel();
    let owned = directory.to_path_buf();
    // Not joined: what hangs in the kernel would hold us for ever. It ends with what it waits for.
    std::thread::spawn(move || tell.send(work(&owned)));
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Err(Trouble::Stack(format!(
            "could not {verb} the files within {} s",
            PATIENCE.as_secs()
        )))
    })
}

fn content(number: u32) -> Vec<u8> {
    let mut rng = plimsoll_core::rng::Rng::new(plimsoll_core::rng::Seed(number.into()));
    let word = |_| rng.next_u64().to_le_bytes();
    (0..FILE_BYTES / 8).flat_map(word).collect()
}

fn write_files(dir: &Path, from: u32) -> Result<(), Trouble> {
    let write = "write and sync a file";
    for number in from..from + FILES {
        let mut file = File::create(dir.join(number.to_string())).map_err(Trouble::stack(write))?;
        file.write_all(&content(number))
            .and_then(|()| file.sync_all())
            .map_err(Trouble::stack(write))?;
    }
    Ok(())
}

fn check_files(dir: &Path, from: u32) -> Result<(), Trouble> {
    for number in from..from + FILES {
        let path = dir.join(number.to_string());
        let read = format!("read {}", path.display());
        let mut file = File::open(&path).map_err(Trouble::stack(&read))?;
        forget_cached(&file);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(Trouble::stack(&read))?;
        if bytes != content(number) {
            let text = format!("{} does not contain what was written", path.display());
            return Err(Trouble::Stack(text));
        }
    }
    Ok(())
}

/// The page cache of this machine must not answer for a node that is gone. Where it cannot be
/// dropped, the reading proves less; it never proves what is not so.
fn forget_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// A file of a self-test, removed at its end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The whole directory goes later; what cannot be removed now goes then.
        let _ = fs::remove_file(&self.0);
    }
}

/// A directory of a self-test and its files, likewise. None of it is held open: what brings a node back may
/// have to unmount what it lies on.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn make(path: PathBuf) -> Result<ScratchDir, Trouble> {
        fs::create_dir(&path).map_err(Trouble::stack("create a directory"))?;
        Ok(ScratchDir(path))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        for number in 0..2 * FILES {
            let _ = fs::remove_file(self.0.join(number.to_string()));
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests;
