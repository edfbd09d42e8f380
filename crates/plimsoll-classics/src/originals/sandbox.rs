// SPDX-License-Identifier: Apache-2.0
//! The view of the machine that an original program has while it runs an untrusted job. bubblewrap makes it:
//! programs and libraries, read only, the directory on the target, and the job. It has no network, no devices
//! but those of every program, and an empty `/tmp`.
//!
//! The kernel carries out its I/O as without a view: what is shown is the same file system.

/// Where the target is in the view.
pub(crate) const TARGET: &str = "/target";
/// Where the job is in the view.
pub const SANDBOX_JOB: &str = "/job";

/// Programs and what they need, wherever distributions put them.
const SHOWN: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix",
];

/// Where the job of a program comes from.
#[derive(Debug, Clone, Copy)]
pub enum SandboxJobSource<'a> {
    /// This file.
    File(&'a str),
    /// Content of a descriptor that the program inherits.
    Descriptor(i32),
}

/// The words that start a program in the view. `target` is the only directory that it can change.
pub fn sandboxed(target: Option<&str>, job: SandboxJobSource<'_>, program: &[&str]) -> Vec<String> {
    // Without a first process of its own, which would hide the processor time of the program.
    let begin = "bwrap --unshare-pid --as-pid-1 --unshare-net --unshare-ipc --die-with-parent --cap-drop ALL";
    let mut words: Vec<&str> = begin.split(' ').collect();
    for place in SHOWN {
        words.extend(["--ro-bind-try", place, place]);
    }
    // Even without capabilities root may change settings of the kernel below /proc/sys.
    let kernel = "--ro-bind /sys /sys --proc /proc --remount-ro /proc --dev /dev --tmpfs /tmp";
    words.extend(kernel.split(' '));
    let place = target.map_or("/", |target| {
        words.extend(["--bind", target, TARGET]);
        TARGET
    });
    let number;
    match job {
        SandboxJobSource::File(file) => words.extend(["--ro-bind", file, SANDBOX_JOB]),
        SandboxJobSource::Descriptor(descriptor) => {
            number = descriptor.to_string();
            words.extend(["--ro-bind-data", &number, SANDBOX_JOB]);
        }
    }
    words.extend(["--chdir", place, "--"]);
    words.extend(program);
    words.into_iter().map(String::from).collect()
}
