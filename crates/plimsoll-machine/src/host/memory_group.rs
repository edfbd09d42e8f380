// SPDX-License-Identifier: Apache-2.0
//! The control group of this program as far as it limits memory, of version 2 of the kernel's groups or of
//! version 1. Looks, but for the controller of memory that a group of version 2 is asked for.
//!
//! Formats: `admin-guide/cgroup-v2.rst` and `admin-guide/cgroup-v1/memory.rst` of the kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where groups that limit memory are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryHierarchy {
    /// The group that this program is in.
    pub(crate) own: PathBuf,
    /// The group that new ones are made in.
    pub(crate) parent: PathBuf,
    /// The file that sets the limit.
    pub(crate) limit: &'static str,
}

/// Where this program may make groups.
///
/// # Errors
/// When there is no such place.
pub(crate) fn hierarchy() -> io::Result<MemoryHierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let second = second(&mounts, &groups).filter(prepared);
    second.or_else(|| first(&mounts, &groups)).ok_or_else(|| {
        io::Error::other(
            "this machine has no control groups that limit memory, or does not show them",
        )
    })
}

/// Of version 2: a group beside our own, since one with processes may have none below it.
fn second(mounts: &str, groups: &str) -> Option<MemoryHierarchy> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount) = mounted(mounts, |kind, _| kind == "cgroup2")?;
    let own = below(&root, &mount, path)?;
    let parent = match own == mount {
        true => own.clone(),
        false => own.parent()?.to_path_buf(),
    };
    Some(MemoryHierarchy {
        own,
        parent,
        limit: "memory.max",
    })
}

/// Whether groups in it can limit memory.
fn prepared(hierarchy: &MemoryHierarchy) -> bool {
    let control = hierarchy.parent.join("cgroup.subtree_control");
    let has = || {
        fs::read_to_string(&control)
            .is_ok_and(|text| text.split_whitespace().any(|w| w == "memory"))
    };
    has() || (fs::write(&control, "+memory").is_ok() && has())
}

/// Of version 1: a group in our own.
fn first(mounts: &str, groups: &str) -> Option<MemoryHierarchy> {
    let (own, _) = first_own(mounts, groups, "memory")?;
    Some(MemoryHierarchy {
        parent: own.clone(),
        own,
        limit: "memory.limit_in_bytes",
    })
}

/// Our own group of version 1 for a controller, and where these groups are mounted.
fn first_own(mounts: &str, groups: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let has = |list: &str| list.split(',').any(|one| one == controller);
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        has(fields.next()?).then(|| fields.next())?
    })?;
    let (root, mount) = mounted(mounts, |kind, options| kind == "cgroup" && has(options))?;
    Some((below(&root, &mount, path)?, mount))
}

/// The groups that hold this program under a controller, its own first: of version 1 where that has
/// the controller, else of version 2.
pub(super) fn holding(mounts: &str, groups: &str, controller: &str) -> Vec<PathBuf> {
    let of_second = || {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let (root, mount) = mounted(mounts, |kind, _| kind == "cgroup2")?;
        Some((below(&root, &mount, path)?, mount))
    };
    let Some((own, mount)) = first_own(mounts, groups, controller).or_else(of_second) else {
        return Vec::new();
    };
    let above = own.ancestors().take_while(|one| one.starts_with(&mount));
    above.map(Path::to_path_buf).collect()
}

/// Root and place of the first mount of this kind, by its type and its super options.
fn mounted(mounts: &str, is_wanted: impl Fn(&str, &str) -> bool) -> Option<(String, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split_whitespace();
        let (kind, options) = (tail.next()?, tail.nth(1)?);
        let head: Vec<&str> = head.split_whitespace().collect();
        is_wanted(kind, options)
            .then(|| Some(((*head.get(3)?).into(), PathBuf::from(head.get(4)?))))?
    })
}

/// The directory of a group.
fn below(root: &str, mount: &Path, path: &str) -> Option<PathBuf> {
    let inner = match root {
        "/" => path,
        root => path.strip_prefix(root)?,
    };
    let inner = inner.trim_start_matches('/');
    Some(match inner.is_empty() {
        true => mount.to_path_buf(),
        false => mount.join(inner),
    })
}

/// The memory that this program may use at most, by its group and those above it; `None` where none says.
pub(crate) fn limit_bytes() -> Option<u64> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let of_second = second(&mounts, &groups).map(|found| {
        let above = found.own.ancestors();
        let limits = above.filter_map(|group| number(&group.join("memory.max")));
        limits.min()
    });
    let of_first = first(&mounts, &groups).map(|found| {
        let text = fs::read_to_string(found.own.join("memory.stat")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("hierarchical_memory_limit "))?;
        line.trim().parse().ok()
    });
    let both = [of_second.flatten(), of_first.flatten()];
    both.into_iter().flatten().min()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 /docker/x /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn a_group_of_version_1_is_made_in_our_own() {
        let found = first(MOUNTS, "9:name=systemd:/\n4:memory:/a/b\n0::/\n").unwrap();
        assert_eq!(found.own, Path::new("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(
            (found.parent, found.limit),
            (found.own, "memory.limit_in_bytes")
        );
        assert_eq!(first(MOUNTS, "3:cpu:/\n"), None);
    }

    #[test]
    fn a_group_of_version_2_is_made_beside_our_own() {
        let found = second(MOUNTS, "0::/docker/x/user.slice/one.scope\n").unwrap();
        assert_eq!(
            found.own,
            Path::new("/sys/fs/cgroup/unified/user.slice/one.scope")
        );
        assert_eq!(found.parent, Path::new("/sys/fs/cgroup/unified/user.slice"));
        let top = second(MOUNTS, "0::/docker/x\n").unwrap();
        assert_eq!(
            (&top.own, &*top.own),
            (&top.parent, Path::new("/sys/fs/cgroup/unified"))
        );
        assert_eq!(second(MOUNTS, "0::/elsewhere\n"), None);
    }

    #[test]
    fn limits_of_all_groups_above_hold_this_program() {
        let groups = "4:memory:/a/b\n0::/docker/x/user.slice/one.scope\n";
        let holding = |controller| holding(MOUNTS, groups, controller);
        let of_first = ["/a/b", "/a", ""].map(|end| format!("/sys/fs/cgroup/memory{end}"));
        assert_eq!(holding("memory"), of_first.map(PathBuf::from));
        let of_second = ["/user.slice/one.scope", "/user.slice", ""];
        let of_second = of_second.map(|end| format!("/sys/fs/cgroup/unified{end}"));
        assert_eq!(holding("blkio"), of_second.map(PathBuf::from));
    }
}
