// SPDX-License-Identifier: Apache-2.0
//! NBD to a node: nbdkit serves, with delays or errors where they are set.
//!
//! If both ends are processes of this machine in one network, they use a Unix socket in the stack's
//! directory, which no other user may enter. Over TCP every user of the machine could connect, so each end
//! proves that it knows a key made for the stack (TLS with a shared key), unless the setting `tls` is off.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels, risky,
};
use plimsoll_core::units::Nanos;

use super::ExportedDisk;
use crate::stacks::PreconditionError;

/// Delays are whole numbers of these: nbdkit supports no shorter ones, and reads 0.5ms as 0.
const MILLISECOND_NS: u64 = 1_000_000;

/// Operations that nbdkit works on at the same time, as a setting; the loop device sends fewer than 16.
pub(in crate::stacks) const THREADS: SettingDefinition = SettingDefinition {
    name: "threads",
    unit: SettingUnit::Count,
    default: "16",
    help: "operations that the server works on at the same time, 1 to 256",
};

/// Values worth trying (nbdkit(1), tgtd(8)).
pub(in crate::stacks) const THREADS_LEVELS: SettingLevels =
    levels("threads", &[level("64"), level("4"), level("16")]);

/// The write cache of the server's disk, as a setting.
pub(in crate::stacks) const CACHE: SettingDefinition = SettingDefinition {
    name: "cache",
    unit: SettingUnit::Choice(&["none", "writeback"]),
    default: "none",
    help: "NBD: write cache in the server, lost when the server is killed: none, or written at a flush \
           (writeback), as that of a disk",
};

/// Values worth trying (nbdkit-cache-filter(1)).
pub(in crate::stacks) const CACHE_LEVELS: SettingLevels = levels(
    "cache",
    &[
        risky(
            "writeback",
            "writes that no flush followed when the server lost them and the client went on",
        ),
        level("none"),
    ],
);

/// Who the client says it is, and whose key is asked for.
const USER: &str = "plimsoll";

/// The name that qemu-storage-daemon looks for in a directory of keys.
const KEYS: &str = "keys.psk";

/// The settings of an NBD export.
#[derive(Debug)]
pub(in crate::stacks) struct NbdExportOptions {
    /// Whether a key is asked for where it is served over TCP.
    pub(in crate::stacks) tls: bool,
    /// Time added to each read and to each write.
    pub(in crate::stacks) delays: [Nanos; 2],
    /// Bytes per second, each way; 0: as fast as it is.
    pub(in crate::stacks) rate_bytes_per_s: u64,
    /// How long the rate may be exceeded after a pause, as the time in which the credit is earned.
    pub(in crate::stacks) burst: Nanos,
    /// Share of reads and of writes that fail, in percent.
    pub(in crate::stacks) errors_percent: [f64; 2],
    /// How long the client waits for a server that is gone.
    pub(in crate::stacks) fail_after_s: u32,
    /// Operations that the server works on at the same time.
    pub(in crate::stacks) threads: u32,
    /// Whether the server caches writes.
    pub(in crate::stacks) cache: bool,
}

/// The default burst of nbdkit (nbdkit-rate-filter(1)).
const BURST_OF_NBDKIT: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Shortest and longest credit of a rate: in less no request fits.
const BURST_NS: [u64; 2] = [10 * MILLISECOND_NS, 3600 * Nanos::SECOND.0];

fn burst(settings: &SettingValues) -> Result<Nanos, PreconditionError> {
    let burst = settings.time("burst");
    let unmet = |reason: &str| {
        let given = settings.text("burst");
        PreconditionError(vec![format!("invalid value '{given}' for burst: {reason}")])
    };
    if !(BURST_NS[0]..=BURST_NS[1]).contains(&burst.0) {
        return Err(unmet("expected a time from 10ms to 1h"));
    }
    if burst != BURST_OF_NBDKIT && settings.bytes("rate") == 0 {
        return Err(unmet("it is the credit of a rate, and none is set"));
    }
    Ok(burst)
}

/// Whether a server caches writes by the setting.
pub(in crate::stacks) fn cache_of(settings: &SettingValues) -> bool {
    settings.text("cache") == "writeback"
}

/// Whether a flush of the client reaches its disk: not where the settings say that it should not.
pub(in crate::stacks) fn sends_flushes(settings: &SettingValues) -> bool {
    settings.flag("barrier")
}

impl NbdExportOptions {
    /// From the settings of the stack `nbd`.
    pub(in crate::stacks) fn of(settings: &SettingValues) -> Result<Self, PreconditionError> {
        let errors_percent = ["read_errors", "write_errors"].map(|name| settings.number(name));
        for percent in errors_percent {
            if !(0.0..=100.0).contains(&percent) {
                return Err(PreconditionError(vec![format!(
                    "invalid error rate {percent}: expected read_errors and write_errors from 0 to \
                     100"
                )]));
            }
        }
        let delays = ["read_delay", "write_delay"].map(|name| settings.time(name));
        for delay in delays {
            if !delay.0.is_multiple_of(MILLISECOND_NS) {
                return Err(PreconditionError(vec![format!(
                    "invalid delay {delay}: expected read_delay and write_delay in whole \
                     milliseconds"
                )]));
            }
        }
        Ok(NbdExportOptions {
            tls: settings.flag("tls"),
            delays,
            rate_bytes_per_s: settings.bytes("rate"),
            burst: burst(settings)?,
            errors_percent,
            fail_after_s: super::fail_after_s(settings)?,
            threads: super::threads(settings)?,
            cache: cache_of(settings),
        })
    }

    /// As fast and as good as the disk.
    pub(in crate::stacks) fn plain(fail_after_s: u32) -> Self {
        NbdExportOptions {
            tls: true,
            delays: [Nanos::default(); 2],
            rate_bytes_per_s: 0,
            burst: BURST_OF_NBDKIT,
            errors_percent: [0.0; 2],
            fail_after_s,
            threads: 16,
            cache: false,
        }
    }

    fn has_delays(&self) -> bool {
        self.delays.iter().any(|delay| *delay > Nanos::default())
    }

    /// Whether operations fail.
    pub(in crate::stacks) fn has_errors(&self) -> bool {
        self.errors_percent.iter().any(|percent| *percent > 0.0)
    }

    /// The file that lets operations fail as long as it exists.
    fn trigger(node: &ExportedDisk<'_>) -> String {
        node.server_path("errors", ".on")
    }

    /// The socket it is served at, where that is not a port.
    pub(super) fn socket(node: &ExportedDisk<'_>) -> Option<String> {
        (!node.server.has_network()).then(|| node.server_path("server", ".sock"))
    }

    fn has_key(&self, node: &ExportedDisk<'_>) -> bool {
        self.tls && node.server.has_network()
    }

    /// The directory of the client's key.
    fn key_dir(node: &ExportedDisk<'_>) -> String {
        node.path("tls", "")
    }

    /// The file of the key where it serves from.
    fn server_key(node: &ExportedDisk<'_>) -> String {
        match node.server.reach.is_this_machine() {
            true => format!("{}/{KEYS}", Self::key_dir(node)),
            false => node.server_path("tls", ".psk"),
        }
    }

    /// Adds the key that client and server share.
    pub(super) fn add_key(&self, node: &ExportedDisk<'_>, plan: &mut Plan) {
        if !self.has_key(node) {
            return;
        }
        let dir = Self::key_dir(node);
        super::add_dir(plan, &dir);
        let secret = format!("{dir}/secret");
        // They go with the directory.
        let make = PlanAction::MakeSecret(secret.clone());
        plan.step("generate the TLS key", make, None);
        let path = format!("{dir}/{KEYS}");
        let write = PlanAction::WriteFile {
            path: path.clone(),
            text: format!("{USER}:{{secret}}\n"),
            secret: Some(secret),
        };
        plan.step("write the key file of client and server", write, None);
        let to = Self::server_key(node);
        if to != path {
            let remove = Some(PlanAction::RemoveFile(to.clone()));
            let copy = PlanAction::CopySecret { from: path, to };
            plan.step_on(&node.server.name, "copy it to the node", copy, remove);
        }
    }

    /// Where it is served, and what shows that it is.
    fn place(&self, node: &ExportedDisk<'_>) -> (Vec<PlanCommandArg>, PlanReadinessCheck) {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| PlanCommandArg::from(*word))
                .collect()
        };
        if let Some(socket) = Self::socket(node) {
            let uri = format!("nbd+unix:///?socket={socket}");
            let ready = PlanReadinessCheck::Succeeds(PlanCommand::new("nbdinfo", ["--size", &uri]));
            return (words(&["--unix", &socket]), ready);
        }
        let port = node.server.first_port.to_string();
        let mut place: Vec<PlanCommandArg> =
            words(&["--ipaddr", &node.server.address, "--port", &port]);
        if self.has_key(node) {
            let key = format!("--tls-psk={}", Self::server_key(node));
            place.extend(["--tls=require".into(), key.into()]);
        }
        (place, PlanReadinessCheck::Port(node.server.first_port))
    }

    /// Adds the server.
    pub(super) fn add_server(&self, node: &ExportedDisk<'_>, plan: &mut Plan) {
        // In the foreground and never as a daemon: it is found by its mark.
        // nbdkit asks the kernel to be ended with its parent, and plimsoll ends at once. So `timeout` is the
        // parent: it waits for nbdkit, with no time limit.
        let mut args: Vec<PlanCommandArg> = ["0", "nbdkit", "--foreground"]
            .map(PlanCommandArg::from)
            .into();
        let (place, ready) = self.place(node);
        args.extend(place);
        let threads = self.threads.to_string();
        args.extend(["--threads", &threads].map(PlanCommandArg::from));
        // Errors first: an operation that fails need not wait.
        if self.has_errors() {
            args.push("--filter=error".into());
        }
        if self.has_delays() {
            args.push("--filter=delay".into());
        }
        if self.rate_bytes_per_s > 0 {
            args.push("--filter=rate".into());
        }
        // Below what slows it down: the cache is the disk's.
        if self.cache {
            args.push("--filter=cache".into());
        }
        args.push("file".into());
        args.push(format!("file={}", node.image()).into());
        // Data leave the page cache at once: else the cache is measured. Without read-ahead, since
        // pages that the kernel reads ahead, and large ones of which a request covers a part, stay.
        if !self.cache {
            // With a write cache the word is that filter's.
            args.push("cache=none".into());
        }
        args.push("fadvise=random".into());
        self.add_values(node, &mut args);
        if let Some(socket) = Self::socket(node) {
            // The socket of an earlier server that was killed would be in the way.
            let forget = PlanAction::RemoveFile(socket);
            plan.step("remove the stale socket of the server", forget, None);
        }
        let mut cmd = PlanCommand::new("timeout", args);
        if self.cache {
            // Its file has no name, and goes with the process.
            cmd = cmd.env("TMPDIR", &*node.server_dir);
        }
        node.start_server(plan, "start the NBD server", cmd, ready);
    }

    fn add_values(&self, node: &ExportedDisk<'_>, args: &mut Vec<PlanCommandArg>) {
        let [reads, writes] = self.delays.map(|delay| delay.0 / MILLISECOND_NS);
        if self.has_delays() {
            args.push(format!("rdelay={reads}ms").into());
            args.push(format!("wdelay={writes}ms").into());
        }
        if self.rate_bytes_per_s > 0 {
            // It counts bits.
            let bits = self.rate_bytes_per_s.saturating_mul(8);
            args.push(format!("rate={bits}").into());
            if self.burst != BURST_OF_NBDKIT {
                args.push(format!("burstiness={}", self.burst.as_secs_f64()).into());
            }
        }
        if self.cache {
            args.push("cache=writeback".into());
        }
        if self.has_errors() {
            let [reads, writes] = self.errors_percent;
            args.push(format!("error-pread-rate={reads}%").into());
            args.push(format!("error-pwrite-rate={writes}%").into());
            args.push(format!("error-file={}", Self::trigger(node)).into());
        }
    }

    /// Adds the step that lets operations fail, once the file system is made and mounted.
    pub(in crate::stacks) fn add_errors(&self, node: &ExportedDisk<'_>, plan: &mut Plan) {
        if self.has_errors() {
            let path = Self::trigger(node);
            let make = PlanAction::MakeFile {
                path: path.clone(),
                bytes: 0,
            };
            let remove = Some(PlanAction::RemoveFile(path));
            plan.step_on(
                &node.server.name,
                "configure injected I/O errors",
                make,
                remove,
            );
        }
    }

    /// The options of the client: objects, and its disk. It waits for a server that is gone, connects
    /// again by itself, and fails what waited too long.
    pub(super) fn client(&self, node: &ExportedDisk<'_>) -> (Vec<PlanCommandArg>, String) {
        let server = match Self::socket(node) {
            Some(socket) => format!("server.type=unix,server.path={socket}"),
            None => format!(
                "server.type=inet,server.host={},server.port={}",
                node.server.address, node.server.first_port
            ),
        };
        let mut disk = format!(
            "driver=nbd,node-name=lun,{server},reconnect-delay={},open-timeout=10,cache.direct=on",
            self.fail_after_s
        );
        if !self.has_key(node) {
            return (Vec::new(), disk);
        }
        disk += ",tls-creds=key";
        let key = format!(
            "tls-creds-psk,id=key,endpoint=client,username={USER},dir={}",
            Self::key_dir(node)
        );
        (vec!["--object".into(), key.into()], disk)
    }
}
