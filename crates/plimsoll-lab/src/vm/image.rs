// SPDX-License-Identifier: Apache-2.0
//! The image that every virtual machine boots from: made once from the packages of this machine's
//! distribution, kept under a name that says what went into it, and never written again.

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanStep};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::VmError;
use crate::stacks::{StackRequirements, manage::new_id};
use plimsoll_machine::host::network::fingerprint;
use plimsoll_machine::host::{
    Host, HostError, HostProcessId, HostResolver, HostTimeSource, SystemClock, command_mark,
    processes, removal, rfc3339,
};
use plimsoll_machine::journal::{Journal, JournalHeader, JournalScope, StateDir};
use plimsoll_machine::raise::{raise_telling, raze};
use plimsoll_machine::set_on_drop::SetOnDrop;

/// The packages that are installed.
const PACKAGES: &str = include_str!("guest/packages.txt");

/// Scripts that make the image on this machine, and what they put into it.
const FILES: [(&str, &str); 13] = [
    ("build.sh", include_str!("guest/build.sh")),
    ("pack.sh", include_str!("guest/pack.sh")),
    ("init", include_str!("guest/init")),
    ("inittab", include_str!("guest/inittab")),
    ("rc", include_str!("guest/rc")),
    ("mount-data", include_str!("guest/mount-data")),
    ("ports", include_str!("guest/ports")),
    ("power", include_str!("guest/power")),
    ("node-inittab", include_str!("guest/node-inittab")),
    ("node-sshd_config", include_str!("guest/node-sshd_config")),
    ("node-keys", include_str!("guest/node-keys")),
    ("node-lease", include_str!("guest/node-lease")),
    ("node-greet", include_str!("guest/node-greet")),
];

/// How long fetching and unpacking the packages may take: some 250 MB, over a slow line too.
const UNPACK_LIMIT_S: u32 = 3600;

/// How often it is looked whether all is to be stopped.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// How long packing may take; it takes some seconds.
const PACK_LIMIT_S: u32 = 600;

/// Programs that making an image needs on this machine.
const PROGRAMS: [&str; 7] = [
    "mmdebstrap",
    "mkfs.erofs",
    "cpio",
    "apt-config",
    "dpkg-deb",
    "dpkg-query",
    "unshare",
];

/// Programs that the steps below name.
const TRUSTED: [&str; 2] = ["unshare", "sh"];

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmImage {
    /// Its folder: `root.erofs`, `initrd`, `initrd-node`, `vmlinuz`, `packages`.
    pub dir: PathBuf,
    /// Checksum of its inputs: the list of packages and the scripts.
    pub recipe: String,
    /// Version of its kernel.
    pub kernel: String,
    /// Its size on disk.
    pub size_bytes: u64,
}

/// Where root's images are, which everybody may read.
const SHARED: &str = "/var/lib/plimsoll";

/// Where images are: what is there is of use again, so it is not undone but removed on request.
fn images(state: &StateDir) -> PathBuf {
    state.path().join("images")
}

/// A checksum of what goes into an image: the list of packages and the scripts.
pub fn recipe() -> String {
    let files = FILES.iter().map(|(name, text)| format!("{name}\n{text}\n"));
    let all: String = files.chain([PACKAGES.into()]).collect();
    format!("{:016x}", fingerprint(&all))
}

/// The image of this program, of the newest kernel, if there is one: of this state directory, else one that
/// root made.
///
/// # Errors
/// When the folder of images cannot be read.
pub fn find(state: &StateDir) -> io::Result<Option<VmImage>> {
    match find_in(state)? {
        Some(found) => Ok(Some(found)),
        None => find_in(&StateDir::new(Path::new(SHARED))),
    }
}

fn find_in(state: &StateDir) -> io::Result<Option<VmImage>> {
    let begin = format!("{}-", recipe());
    let mut found = all(state)?;
    found.retain(|dir| name_of(dir).starts_with(&begin));
    let Some(dir) = found.pop() else {
        return Ok(None);
    };
    let mut size_bytes = 0;
    for file in fs::read_dir(&dir)? {
        size_bytes += file?.metadata()?.len();
    }
    let kernel = name_of(&dir)[begin.len()..].to_owned();
    Ok(Some(VmImage {
        recipe: recipe(),
        kernel,
        size_bytes,
        dir,
    }))
}

/// Folders of all images, of other versions of this program too, sorted.
fn all(state: &StateDir) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(images(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut dirs = Vec::new();
    for entry in entries {
        dirs.push(entry?.path());
    }
    dirs.retain(|dir| dir.join("root.erofs").is_file());
    dirs.sort();
    Ok(dirs)
}

fn name_of(dir: &Path) -> String {
    dir.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Removes every image but this one; gives how many there were.
///
/// # Errors
/// When one cannot be removed.
pub fn remove_but(state: &StateDir, kept: Option<&VmImage>) -> io::Result<usize> {
    let mut dirs = all(state)?;
    dirs.retain(|dir| kept.is_none_or(|kept| kept.dir != *dir));
    for dir in &dirs {
        removal::below_ours(dir)?;
    }
    // Nothing else is kept there; if something is, it stays.
    let _ = fs::remove_dir(images(state));
    Ok(dirs.len())
}

/// Makes the image; `watch` gets each step before it is begun. When `stop` is set the step under
/// way is ended.
///
/// # Errors
/// When something is missing, or a step fails or is ended: then nothing of it is left.
pub fn make(
    state: &StateDir,
    stop: &AtomicBool,
    hosts: &mut dyn HostResolver,
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<VmImage, VmError> {
    if !hosts.here().is_root() {
        return Err(VmError::State(
            "only root can unpack a system: make it once with sudo plimsoll vm image, and everybody on this \
             machine can boot it"
                .into(),
        ));
    }
    let needs = StackRequirements {
        programs: PROGRAMS.to_vec(),
        ..StackRequirements::default()
    };
    needs.check(hosts.here())?;
    let suite = suite()?;
    let id = new_id("vmimage", hosts.here());
    let folder = state.path().join(format!("plimsoll-{id}"));
    let image = images(state).join(recipe());
    let plan = plan(&text_of(&folder), &text_of(&image), &suite);
    hosts.trust(&id, &TRUSTED.map(String::from));
    let journal = Journal::create(state, run_header(&id, "vm-image", hosts.here()))?;
    let raised = stoppable(&id, stop, || {
        raise_telling(&plan, None, hosts, journal, watch)
    });
    razed_whole(&raze(raised?.journal, hosts))?;
    let found = find_in(state).map_err(HostError::io("look at", &images(state)))?;
    found.ok_or_else(|| VmError::State(format!("no image was created at {}", image.display())))
}

/// Does work whose commands, those of the journal `id`, are ended as soon as `stop` is set: they take
/// minutes, and what was begun is undone anyway.
pub(super) fn stoppable<T>(id: &str, stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let clock = SystemClock::new();
            while !ended.load(Ordering::Relaxed) {
                clock.pause(STOP_LOOK);
                if stop.load(Ordering::Relaxed) {
                    // Commands that do not end are waited for, as without this.
                    let _ = processes::kill(&command_mark(id), &clock);
                }
            }
        });
        let _over = SetOnDrop(&ended);
        work()
    })
}

/// The header of what is worth nothing without this process.
pub(super) fn run_header(id: &str, name: &str, host: &dyn Host) -> JournalHeader {
    JournalHeader {
        format: FormatVersion::JOURNAL,
        id: id.into(),
        kind: JournalScope::Run(name.into()),
        owner: HostProcessId::this(),
        began_at: rfc3339(host.clock().unix_seconds()),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    }
}

/// Fails when something could not be undone.
pub(super) fn razed_whole(razed: &plimsoll_machine::raise::RazeReport) -> Result<(), VmError> {
    if razed.is_clean() {
        return Ok(());
    }
    Err(VmError::State(format!(
        "not everything could be removed: {}; try again with: plimsoll raze",
        razed.problems().join("; ")
    )))
}

pub(super) fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The release of this machine's distribution, by its name: its packages are the ones at hand.
fn suite() -> Result<String, VmError> {
    let path = Path::new("/etc/os-release");
    let text = fs::read_to_string(path).map_err(HostError::io("read", path))?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let name = value("VERSION_CODENAME=").map(|name| name.trim_matches('"').to_owned());
    match (value("ID="), name) {
        (Some("debian"), Some(name)) if !name.is_empty() => Ok(name),
        _ => Err(VmError::State(
            "the image needs packages of Debian, and this machine has another system; make it \
             on a Debian machine (plimsoll vm image) and copy its folder images here"
                .into(),
        )),
    }
}

fn plan(folder: &str, image: &str, suite: &str) -> Plan {
    let mut plan = Plan::default();
    plan.step(
        "create a folder for the image's parts",
        PlanAction::MakeDir(folder.into()),
        Some(PlanAction::RemoveDir(folder.into())),
    );
    for (name, text) in FILES {
        let write = PlanAction::write_file(format!("{folder}/{name}"), text);
        plan.step(&format!("write {name}"), write, None);
    }
    let mut script = |why: &str, name: &str, more: &[String], limit_s: u32| {
        // In a world of its own, whose mounts and processes end with it however it ends.
        let alone = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let mut words: Vec<String> = alone.map(String::from).to_vec();
        words.extend(["sh".into(), format!("{folder}/{name}"), folder.into()]);
        words.extend_from_slice(more);
        let run = PlanCommand::new("unshare", words).within_s(limit_s);
        plan.step(why, PlanAction::Run(run), None);
    };
    let names = packages().map(str::to_owned);
    let words: Vec<String> = std::iter::once(suite.to_owned()).chain(names).collect();
    let why = "fetch and unpack the packages";
    script(why, "build.sh", &words, UNPACK_LIMIT_S);
    script(
        "pack the image",
        "pack.sh",
        &[image.to_owned()],
        PACK_LIMIT_S,
    );
    plan
}

fn packages() -> impl Iterator<Item = &'static str> {
    let lines = PACKAGES.lines().filter(|line| !line.starts_with('#'));
    let of_line = |line: &'static str| line.split_once(": ").map_or("", |(_, names)| names);
    lines.flat_map(move |line| of_line(line).split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_named_once_and_may_stand_on_a_command_line() {
        let names: Vec<&str> = packages().collect();
        assert!(names.contains(&"busybox-static") && names.len() > 30);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        for name in &names {
            assert!(name.chars().all(is_plain), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1);
        }
    }

    #[test]
    fn the_newest_image_of_this_recipe_is_taken_and_all_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        assert_eq!(find_in(&state).unwrap(), None);
        let other = format!("{:016x}-6.2.0", 1);
        for name in [
            format!("{}-6.1.0-1", recipe()),
            format!("{}-6.1.0-2", recipe()),
            other,
        ] {
            let dir = images(&state).join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("root.erofs"), "12345").unwrap();
        }
        let found = find_in(&state).unwrap().unwrap();
        assert_eq!((found.kernel.as_str(), found.size_bytes), ("6.1.0-2", 5));
        // One that never became whole is none.
        fs::create_dir(images(&state).join(format!("{}-6.1.0-3", recipe()))).unwrap();
        assert_eq!(find_in(&state).unwrap(), Some(found.clone()));
        assert_eq!(find(&state).unwrap(), Some(found.clone()), "its own first");
        assert_eq!(remove_but(&state, Some(&found)).unwrap(), 2);
        assert_eq!(find_in(&state).unwrap(), Some(found));
        assert_eq!(remove_but(&state, None).unwrap(), 1);
        assert_eq!(find_in(&state).unwrap(), None);
    }
}
