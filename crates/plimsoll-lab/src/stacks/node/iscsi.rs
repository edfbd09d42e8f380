// SPDX-License-Identifier: Apache-2.0
//! iSCSI to a node: tgtd serves, qemu-storage-daemon asks, and a process of ours ends the latter
//! when the former is gone for too long.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanCommandArg, PlanReadinessCheck};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels,
};
use std::fmt::Write as _;

use super::ExportedDisk;
use crate::stacks::PreconditionError;

/// Name of the account where one is asked for.
const USER: &str = "plimsoll";

/// The caching page of an iSCSI disk (SPC: page 8, 18 bytes) that says no write cache; with it tgtd
/// answers a write when it is on the disk. Byte 2 has the flag of the cache (0x04), which is off,
/// and that of limits for reading ahead (0x10).
const NO_WRITE_CACHE: &str =
    "mode_page=8:0:18:0x10:0:0xff:0xff:0:0:0xff:0xff:0xff:0xff:0x80:0x14:0:0:0:0:0:0";

/// Whether data go along with the command of a write, as a setting.
pub(in crate::stacks) const IMMEDIATE_DATA: SettingDefinition = SettingDefinition {
    name: "immediate_data",
    unit: SettingUnit::Flag,
    default: "on",
    help: "the first data of a write go along with its command; off: the target asks for them",
};

/// Values worth trying (RFC 7143, section 13.11).
pub(in crate::stacks) const IMMEDIATE_DATA_LEVELS: SettingLevels =
    levels("immediate_data", &[level("off"), level("on")]);

/// Most bytes that one answer of the target asks for or sends, as a setting.
pub(in crate::stacks) const MAX_BURST: SettingDefinition = SettingDefinition {
    name: "max_burst",
    unit: SettingUnit::Size(1),
    default: "256KiB",
    help: "maximum bytes of one burst of data (MaxBurstLength), 64KiB to 16MiB",
};

/// Values worth trying (RFC 7143, section 13.13).
pub(in crate::stacks) const MAX_BURST_LEVELS: SettingLevels = levels(
    "max_burst",
    &[level("4MiB"), level("64KiB"), level("256KiB")],
);

/// Bounds of a burst: not below the first one, which tgtd has at 64 KiB, and below what the protocol allows.
const BURSTS: (u64, u64) = (64 << 10, 16 << 20);

/// The settings of an iSCSI export.
#[derive(Debug)]
pub(in crate::stacks) struct IscsiExportOptions {
    /// Whether the client must show that it knows a secret.
    pub(in crate::stacks) chap: bool,
    /// Whether the disk may keep writes until a flush.
    pub(in crate::stacks) write_cache: bool,
    /// Size of its sectors: 512 or 4096.
    pub(in crate::stacks) sector_bytes: u32,
    /// How long the client waits for a target that is gone.
    pub(in crate::stacks) fail_after_s: u32,
    /// Threads that the target does I/O with, where that was asked for.
    pub(in crate::stacks) threads: Option<u32>,
    /// Parameters of the protocol that were asked for, by their names.
    pub(in crate::stacks) parameters: Vec<(&'static str, String)>,
}

/// Parameters of the protocol that differ from what the target has by itself.
fn parameters(settings: &SettingValues) -> Result<Vec<(&'static str, String)>, PreconditionError> {
    let mut parameters = Vec::new();
    if settings.is_given("immediate_data") {
        let word = if settings.flag("immediate_data") {
            "Yes"
        } else {
            "No"
        };
        parameters.push(("ImmediateData", word.to_owned()));
    }
    let (low, high) = BURSTS;
    let burst = settings.bytes_within("max_burst", low, high);
    let burst = burst.map_err(|error| PreconditionError(vec![error.to_string()]))?;
    if settings.is_given("max_burst") {
        parameters.push(("MaxBurstLength", burst.to_string()));
    }
    Ok(parameters)
}

impl IscsiExportOptions {
    /// From the settings of the stack `iscsi`.
    pub(in crate::stacks) fn of(settings: &SettingValues) -> Result<Self, PreconditionError> {
        Ok(IscsiExportOptions {
            chap: settings.flag("chap"),
            write_cache: settings.flag("write_cache"),
            sector_bytes: if settings.text("sectors") == "4096" {
                4096
            } else {
                512
            },
            fail_after_s: super::fail_after_s(settings)?,
            threads: settings
                .is_given("threads")
                .then(|| super::threads(settings))
                .transpose()?,
            parameters: parameters(settings)?,
        })
    }

    /// A secret, a write cache, sectors of 512 bytes.
    pub(in crate::stacks) fn plain(fail_after_s: u32) -> Self {
        IscsiExportOptions {
            chap: true,
            write_cache: true,
            sector_bytes: 512,
            fail_after_s,
            threads: None,
            parameters: Vec::new(),
        }
    }

    fn name(node: &ExportedDisk<'_>) -> String {
        format!("iqn.2026-01.lab.plimsoll:{}.{}", node.id, node.number)
    }

    /// Where the target listens.
    pub(super) fn portal(node: &ExportedDisk<'_>) -> String {
        format!("{}:{}", node.server.address, node.server.first_port)
    }

    fn secret(node: &ExportedDisk<'_>) -> String {
        node.path("chap", ".secret")
    }

    /// The same where the target is.
    fn server_secret(node: &ExportedDisk<'_>) -> String {
        node.server_path("chap", ".secret")
    }

    /// The secret without an end of line, which the client would take for a part of it.
    fn password(node: &ExportedDisk<'_>) -> String {
        node.path("chap", ".password")
    }

    /// Adds the secret that client and target share.
    pub(super) fn add_secret(&self, node: &ExportedDisk<'_>, plan: &mut Plan) {
        if self.chap {
            let file = || Self::secret(node);
            let remove = Some(PlanAction::RemoveFile(file()));
            plan.step(
                "generate the CHAP secret",
                PlanAction::MakeSecret(file()),
                remove,
            );
            let path = Self::password(node);
            let write = PlanAction::WriteFile {
                path: path.clone(),
                text: "{secret}".into(),
                secret: Some(file()),
            };
            let remove = Some(PlanAction::RemoveFile(path));
            plan.step("write the CHAP secret for the client", write, remove);
            if !node.server.reach.is_this_machine() {
                let to = Self::server_secret(node);
                let remove = Some(PlanAction::RemoveFile(to.clone()));
                let copy = PlanAction::CopySecret { from: file(), to };
                plan.step_on(&node.server.name, "copy it to the node", copy, remove);
            }
        }
    }

    /// Adds the target.
    pub(super) fn add_target(&self, node: &ExportedDisk<'_>, plan: &mut Plan) {
        let control = node.server_path("tgt", ".sock");
        let portal = format!("portal={}", Self::portal(node));
        let mut args = vec!["-f".to_owned(), "--iscsi".into(), portal];
        if let Some(threads) = self.threads {
            args.extend(["--nr_iothreads".into(), threads.to_string()]);
        }
        let tgtd = PlanCommand::new("tgtd", args).env("TGT_IPC_SOCKET", &control);
        let ready = PlanReadinessCheck::Port(node.server.first_port);
        node.start_server(plan, "start the iSCSI target", tgtd, ready);
        // Its control socket is there a little after its port.
        let ask = ["--lld", "iscsi", "--op", "show", "--mode", "target"];
        let ask = PlanCommand::new("tgtadm", ask).env("TGT_IPC_SOCKET", &control);
        let why = "wait until the iSCSI target can be configured";
        plan.step_on(&node.server.name, why, PlanAction::Await(ask), None);
        let name = Self::name(node);
        let image = node.image();
        let sectors = self.sector_bytes.to_string();
        // Settings made here live in tgtd and end with it: nothing to undo.
        let mut admin = |why: &str, args: &str, more: &[&str]| {
            let all = ["--lld", "iscsi", "--op"].into_iter();
            let all = all.chain(args.split(' ')).chain(more.iter().copied());
            let cmd = PlanCommand::new("tgtadm", all).env("TGT_IPC_SOCKET", &control);
            plan.step_on(&node.server.name, why, PlanAction::Run(cmd), None);
        };
        let why = "create the iSCSI target";
        admin(why, "new --mode target --tid 1 --targetname", &[&name]);
        for (name, value) in &self.parameters {
            let of = "update --mode target --tid 1 --name";
            let why = format!("set {name} of the target");
            admin(&why, of, &[name, "--value", value]);
        }
        // Direct: else the server's page cache answers and the disk is not measured.
        let unit = "new --mode logicalunit --tid 1 --lun 1 --bstype rdwr --bsoflags direct";
        let more = ["--blocksize", &sectors, "--backing-store", &image];
        admin("create the logical unit", unit, &more);
        if !self.write_cache {
            let unit = "update --mode logicalunit --tid 1 --lun 1 --params";
            admin("disable the write cache", unit, &[NO_WRITE_CACHE]);
        }
        if self.chap {
            self.add_account(node, plan, &control);
        }
        let mut admin = |why: &str, args: &str| {
            let all = ["--lld", "iscsi", "--op"]
                .into_iter()
                .chain(args.split(' '));
            let cmd = PlanCommand::new("tgtadm", all).env("TGT_IPC_SOCKET", &control);
            plan.step_on(&node.server.name, why, PlanAction::Run(cmd), None);
        };
        // The portal listens on the address of its node only; who gets in there is asked for the secret.
        let all = "bind --mode target --tid 1 --initiator-address ALL";
        admin("allow all initiators", all);
    }

    fn add_account(&self, node: &ExportedDisk<'_>, plan: &mut Plan, control: &str) {
        let tell = PlanAction::TellAccount {
            socket: format!("{control}.0"),
            user: USER.into(),
            secret: Self::server_secret(node),
        };
        plan.step_on(&node.server.name, "configure the CHAP account", tell, None);
        let args = "--lld iscsi --op bind --mode account --tid 1 --user plimsoll";
        let cmd = PlanCommand::new("tgtadm", args.split(' ')).env("TGT_IPC_SOCKET", control);
        let why = "require CHAP";
        plan.step_on(&node.server.name, why, PlanAction::Run(cmd), None);
    }

    /// The options of the client: objects, and its disk.
    pub(super) fn client(&self, node: &ExportedDisk<'_>) -> (Vec<PlanCommandArg>, String) {
        let name = Self::name(node);
        let mut disk = format!(
            "driver=iscsi,node-name=lun,transport=tcp,portal={},target={name},lun=1,\
             initiator-name={name}.client,cache.direct=on,timeout=30",
            Self::portal(node),
        );
        if !self.chap {
            return (Vec::new(), disk);
        }
        let _ = write!(disk, ",user={USER},password-secret=chap");
        let secret = format!("secret,id=chap,file={}", Self::password(node));
        (vec!["--object".into(), secret.into()], disk)
    }
}
