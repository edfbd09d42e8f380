// SPDX-License-Identifier: Apache-2.0
//! Which programs plans may name.

use plimsoll_core::plan::{PlanCommand, PlanCommandArg};

use super::watchdog;

/// Subcommand of this program that is the power switch of virtual machines.
pub const SWITCH: [&str; 2] = ["vm", "power-switch"];

/// Programs a plan may name. Plans are read back from files, so they are not trusted blindly.
pub(super) const ALLOWED: &[&str] = &[
    "bindfs",
    "blockdev",
    "btrfs",
    "cat",
    "ceph",
    "ceph-authtool",
    "ceph-fuse",
    "ceph-mds",
    "ceph-mgr",
    "ceph-mon",
    "ceph-osd",
    "e2fsck",
    "fallocate",
    "ganesha.nfsd",
    "gluster",
    "glusterd",
    "glusterfs",
    "gocryptfs",
    "grep",
    "lfs",
    "losetup",
    "ls",
    "mdadm",
    "mkdir",
    "mkfs.btrfs",
    "mkfs.ext4",
    "mkfs.lustre",
    "mkfs.xfs",
    "monmaptool",
    "mount",
    "nbdfuse",
    "nbdinfo",
    "nbdkit",
    "openssl",
    watchdog::PROGRAM,
    "qemu-storage-daemon",
    "rados",
    "rbd",
    "rpc.mountd",
    "rpcbind",
    "sh",
    "test",
    "tgtadm",
    "tgtd",
    "timeout",
];

/// The program that `bwrap` starts for us with a view of the machine's directories of its own;
/// plans may name `bwrap` only with the options that make such a view.
pub(super) fn enclosed(cmd: &PlanCommand) -> Option<&str> {
    match cmd.args.get(enclosed_at(cmd)?) {
        Some(PlanCommandArg::Text(program)) => Some(program),
        _ => None,
    }
}

/// Which of the arguments of `bwrap` is that program.
pub(super) fn enclosed_at(cmd: &PlanCommand) -> Option<usize> {
    if cmd.program != "bwrap" {
        return None;
    }
    let mut rest = cmd.args.as_slice();
    loop {
        let [PlanCommandArg::Text(first), after @ ..] = rest else {
            return None;
        };
        let values = match first.as_str() {
            "--bind" | "--dev-bind" | "--ro-bind" | "--ro-bind-try" | "--setenv" => 2,
            "--cap-add" | "--chdir" | "--dev" | "--dir" | "--perms" | "--proc" | "--tmpfs" => 1,
            "--" | "--clearenv" | "--unshare-ipc" | "--unshare-pid" => 0,
            program => return (!program.starts_with('-')).then(|| cmd.args.len() - rest.len()),
        };
        rest = after.get(values..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_view_of_its_own_encloses_is_what_counts() {
        for (words, expect) in [
            (
                &[
                    "--dev-bind",
                    "/",
                    "/",
                    "--bind",
                    "/a",
                    "/run",
                    "rpcbind",
                    "-f",
                ][..],
                Some("rpcbind"),
            ),
            (
                &[
                    "--cap-add",
                    "ALL",
                    "--proc",
                    "/proc",
                    "--",
                    "glusterd",
                    "--bind",
                ],
                Some("glusterd"),
            ),
            (&["--unshare-all", "sh"], None),
            (&["--bind", "/a"], None),
        ] {
            assert_eq!(
                enclosed(&PlanCommand::new("bwrap", words.iter().copied())),
                expect
            );
        }
    }
}
