// SPDX-License-Identifier: Apache-2.0
//! Why an action could not be carried out, for the person at the terminal.

use std::io;
use std::path::Path;

use super::places::PlaceError;

/// An action that could not be carried out; the text completes "failed to …: ".
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program is not installed.
    #[error("{program} is missing: {}", remedy_of(.program))]
    Missing {
        /// The program.
        program: String,
    },
    /// A command ended with something else than 0.
    #[error("'{command}' ended with {status}{}", output_note(.output))]
    Failed {
        /// The command line.
        command: String,
        /// Exit status, in words.
        status: String,
        /// The last lines it wrote.
        output: String,
    },
    /// A command did not end in time.
    #[error("'{command}' did not end within {seconds} s{}", output_note(.output))]
    TimedOut {
        /// The command line.
        command: String,
        /// How long we waited.
        seconds: u64,
        /// The last lines it wrote.
        output: String,
    },
    /// A daemon was started and did not become ready.
    #[error("'{command}' was not ready within {seconds} s{}", output_note(.output))]
    NotReady {
        /// The command line.
        command: String,
        /// How long we waited.
        seconds: u64,
        /// The last lines it wrote.
        output: String,
    },
    /// Another machine could not do it.
    #[error("on node {node}: {what}")]
    OnNode {
        /// The node.
        node: String,
        /// The fault there, with what to do.
        what: String,
    },
    /// We will not do this.
    #[error("refused to {what}: {why}")]
    Refused {
        /// The request.
        what: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A place is not ours to work in.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The machine is not as it must be.
    #[error("{0}")]
    State(String),
    /// The system said no.
    #[error("could not {what}: {source}")]
    Io {
        /// The action, with its object.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

fn output_note(output: &str) -> String {
    if output.is_empty() {
        String::new()
    } else {
        format!("; last output: {output}")
    }
}

impl HostError {
    /// Wraps an error of the system: `verb` and `path` say what was tried.
    pub fn io(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
        let what = format!("{verb} {}", path.display());
        move |source| HostError::Io { what, source }
    }

    /// The same for errors of system calls.
    pub(crate) fn sys(verb: &str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> HostError {
        let wrap = HostError::io(verb, path);
        move |errno| wrap(errno.into())
    }

    /// A function for `map_err` that says what was being done.
    pub fn doing(what: impl Into<String>) -> impl Fn(io::Error) -> HostError {
        let what = what.into();
        move |source| HostError::Io {
            what: what.clone(),
            source,
        }
    }
}

/// The remedy for a missing program, or a missing module of one.
pub fn remedy_of(program: &str) -> String {
    match program {
        "lfs" | "lctl" | "mount.lustre" => format!("{NO_LUSTRE} lustre-client-utils"),
        "mkfs.lustre" => format!("{NO_LUSTRE} lustre-server-utils"),
        _ => format!("apt-get install {}", package_of(program)),
    }
}

/// Begins what to do about programs of Lustre.
const NO_LUSTRE: &str = "Debian has no Lustre; build its programs and its modules for the kernel in use \
    from source, or get them from the maker of the system, package";

/// The Debian package that brings a program or a module of one.
fn package_of(program: &str) -> &'static str {
    match program {
        "tgtd" | "tgtadm" => "tgt",
        "qemu-storage-daemon" => "qemu-system-common",
        "block-iscsi.so" | "block-rbd.so" => "qemu-block-extra",
        "nbdfuse" | "nbdinfo" => "libnbd-bin",
        "nbdkit" => "nbdkit",
        "qemu-system-x86_64" => "qemu-system-x86",
        "mmdebstrap" => "mmdebstrap",
        "mkfs.erofs" => "erofs-utils",
        "cpio" => "cpio",
        "apt-config" | "apt-get" => "apt",
        "dpkg-deb" | "dpkg-query" => "dpkg",
        "mkfs.xfs" => "xfsprogs",
        "fusermount3" => "fuse3",
        "ip" => "iproute2",
        "nft" => "nftables",
        "bwrap" => "bubblewrap",
        "ganesha.nfsd" => "nfs-ganesha nfs-ganesha-vfs",
        "rpcbind" => "rpcbind",
        "mount.nfs" => "nfs-common",
        "rpc.mountd" | "rpc.nfsd" | "exportfs" => "nfs-kernel-server",
        "modprobe" => "kmod",
        "iscsiadm" | "iscsid" => "open-iscsi",
        "nvme" => "nvme-cli",
        "drbdadm" => "drbd-utils",
        "nsenter" | "unshare" => "util-linux",
        "mkfs.btrfs" | "btrfs" => "btrfs-progs",
        "mdadm" => "mdadm",
        "arping" => "iputils-arping",
        "corosync" => "corosync",
        "perl" => "perl-base",
        "pacemakerd" => "pacemaker",
        "cibadmin" | "crm_attribute" | "crm_mon" | "crm_resource" => "pacemaker-cli-utils",
        "mkfs.ext4" | "mke2fs" => "e2fsprogs",
        "sfdisk" => "fdisk",
        "grub-mkimage" => "grub-common",
        "qemu-img" => "qemu-utils",
        "mount" | "umount" | "losetup" => "mount",
        "blockdev" | "setsid" | "fallocate" => "util-linux",
        "gluster" | "glusterd" => "glusterfs-server",
        "glusterfs" => "glusterfs-client",
        "grep" => "grep",
        "gocryptfs" => "gocryptfs",
        "bindfs" => "bindfs",
        "openssl" => "openssl",
        "ceph" | "ceph-authtool" | "rados" | "rbd" => "ceph-common",
        "monmaptool" => "ceph-base",
        "ceph-mon" => "ceph-mon",
        "ceph-mgr" => "ceph-mgr",
        "ceph-osd" => "ceph-osd",
        "ceph-mds" => "ceph-mds",
        "ceph-fuse" => "ceph-fuse",
        "fio" => "fio",
        "bonnie++" => "bonnie++",
        "iozone" => "iozone3 (Debian non-free; or build it from iozone.org)",
        "filebench" => "filebench (not in every release; or build it from its source)",
        "scp" | "ssh" | "ssh-keygen" => "openssh-client",
        "sshd" => "openssh-server",
        "make" => "make",
        "cc" | "gcc" => "gcc",
        "tar" => "tar",
        "debootstrap" => "debootstrap",
        "cat" | "chroot" | "cp" | "ls" | "mkdir" | "mv" | "sha256sum" | "sync" | "timeout" => {
            "coreutils"
        }
        "dpkg-source" => "dpkg-dev",
        _ => "the package that brings it",
    }
}
