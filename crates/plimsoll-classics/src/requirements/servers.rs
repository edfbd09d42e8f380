// SPDX-License-Identifier: Apache-2.0
//! Servers with many users: virtual machines that boot, and mail.

use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncPolicy;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
};

use super::{RequirementDefinition, RequirementSource, blocks, mixed, poisson, positive};
use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{setting, shared_file};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Most machines, mailboxes, and operations a second of one.
const USERS_MAX: u32 = 100_000;
const IOPS_EACH_MAX: f64 = 10_000.0;

/// Smallest and largest data set.
const DATA: (u64, u64) = (1 << 24, 1 << 50);

/// Reads among the operations of a boot: the least that is published.
const BOOT_READS: f64 = 0.6;
/// Operations of a boot, as the guest's file system makes them.
const BOOT_BYTES: u32 = 16 << 10;

/// Reads among the operations of a mail database: the least that is published.
const MAIL_READS: f64 = 0.66;
/// A page of the database.
const MAIL_PAGE: u32 = 32 << 10;
/// A record of its log, and room for the log.
const MAIL_RECORD: u32 = 4 << 10;
const MAIL_LOG: u64 = 64 << 20;

/// Most operations in flight.
const DEPTH: u32 = 64;

const VM_SETTINGS: &[SettingDefinition] = &[
    setting(
        "vms",
        SettingUnit::Count,
        "1",
        "virtual machines that boot at once",
    ),
    setting(
        "iops",
        SettingUnit::Number,
        "150",
        "operations a second of one that boots: 150 of a pooled desktop, 400 of a personal one",
    ),
    setting(
        "size",
        SettingUnit::Size(1),
        "1GiB",
        "size of the images, in one file",
    ),
];

const MAIL_SETTINGS: &[SettingDefinition] = &[
    setting("mailboxes", SettingUnit::Count, "200", "mailboxes"),
    setting(
        "iops",
        SettingUnit::Number,
        "0.5",
        "database operations a second of a mailbox: 0.5 of a light user to 1.5 of a large one",
    ),
    setting(
        "size",
        SettingUnit::Size(1),
        "1GiB",
        "size of the database, in one file",
    ),
];

pub(super) const VM_BOOT: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "vm-boot",
        about: "virtual desktops that boot at once from shared storage",
        settings: VM_SETTINGS,
        build: vm_boot,
    },
    limits: &["mean < 30ms"],
    load: "{vms} × {iops} operations of 16 KiB a second at random places, 60 % of them reads",
    sources: &[
        RequirementSource {
            title: "CTX135986, Boot Storm: IOPS considerations for VDI-in-a-Box (Citrix)",
            url: "https://support.citrix.com/s/article/CTX135986-boot-storm-iops-considerations-for-vdiinabox-deployment",
            date: "read 2026-11-23",
            says: "about 150 IOPS for each pooled desktop during a boot, 400 to 450 for a personal one; 60 to 70 % reads",
        },
        RequirementSource {
            title: "Learning PowerCLI, 2nd edition, Configuring Storage I/O Control (R. van den Nieuwendijk, Packt)",
            url: "https://www.packtpub.com/en-lv/product/learning-powercli-second-edition-7-9781786468017/chapter/managing-storage/configuring-storage-i-o-control",
            date: "2017",
            says: "vSphere throttles virtual machines when a datastore's latency exceeds 30 ms by default; 10 to 15 ms are advised for SSDs",
        },
    ],
    notes: &[
        "Of each published range the least is needed to fit: 150 IOPS, 60 % reads, 30 ms.",
        "Where other servers stream the image, 16 to 18 IOPS a desktop were measured (Dell, BP1018): give iops=N.",
        "The size of the operations is not published there; 16 KiB is an assumption.",
        "plimsoll run boot boots real machines on the target.",
    ],
};

pub(super) const MAIL: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "mail",
        about: "an Exchange mailbox server: its database, and its log beside it",
        settings: MAIL_SETTINGS,
        build: mail,
    },
    limits: &[
        "read mean < 20ms",
        "write mean < 50ms",
        "append mean < 10ms",
    ],
    load: "{mailboxes} mailboxes × {iops} database operations of 32 KiB a second at random places, 66 % of \
           them reads, and a durable log record of 4 KiB with each write",
    sources: &[
        RequirementSource {
            title: "Exchange 2013 Performance Counters, Storage performance (Microsoft)",
            url: "https://learn.microsoft.com/en-us/exchange/exchange-2013-performance-counters-exchange-2013-help",
            date: "read 2026-11-23",
            says: "averages below 20 ms for database reads, 50 ms for database writes, 10 ms for log writes",
        },
        RequirementSource {
            title: "How to Calculate Your Disk I/O Requirements (Microsoft, Exchange 2003)",
            url: "https://learn.microsoft.com/en-us/previous-versions/tn-archive/bb125019(v=exchg.65)",
            date: "read 2026-11-23",
            says: "0.5 (light) to 1.5 (large) database IOPS a mailbox; reads 75/25 to 66/33",
        },
        RequirementSource {
            title: "Jetstress Nuances (NetApp Community)",
            url: "http://community.netapp.com/t5/Technology/Jetstress-Nuances/ba-p/82877",
            date: "read 2026-11-23",
            says: "Jetstress passes when database reads and writes stay below 20 ms and the target IOPS are reached",
        },
    ],
    notes: &[
        "Of each published range the least is needed to fit: 0.5 IOPS a mailbox and 50 ms for database writes, \
         which Jetstress holds to 20 ms.",
        "Later versions of Exchange need less of each mailbox: give iops=N from Microsoft's calculator.",
        "One log record with each database write, pages of 32 KiB and records of 4 KiB are assumptions.",
    ],
};

fn vm_boot(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let machines = f64::from(settings.count_within("vms", 1, USERS_MAX)?);
    let bytes = settings.bytes_within("size", DATA.0, DATA.1)?;
    let disks = BlockIoGroup {
        name: "disks".into(),
        depth: DEPTH,
        extent: shared_file("images", bytes, BlockIoFileCreation::Before),
        mix: mixed(BOOT_READS, BOOT_BYTES),
        pace: poisson(machines * positive(settings, "iops", IOPS_EACH_MAX)?),
        ..BlockIoGroup::default()
    };
    Ok(blocks("vm-boot", vec![disks]))
}

fn mail(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let mailboxes = f64::from(settings.count_within("mailboxes", 1, USERS_MAX)?);
    let bytes = settings.bytes_within("size", DATA.0, DATA.1)?;
    let per_s = mailboxes * positive(settings, "iops", IOPS_EACH_MAX)?;
    let database = BlockIoGroup {
        name: "database".into(),
        depth: DEPTH,
        extent: shared_file("database", bytes, BlockIoFileCreation::Before),
        mix: mixed(MAIL_READS, MAIL_PAGE),
        pace: poisson(per_s),
        ..BlockIoGroup::default()
    };
    let log = BlockIoGroup {
        name: "log".into(),
        extent: shared_file("log", MAIL_LOG, BlockIoFileCreation::During),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Append, MAIL_RECORD)],
        offsets: OffsetPattern::Sequential,
        pace: poisson(per_s * (1.0 - MAIL_READS)),
        syncs: SyncPolicy {
            each_write: true,
            ..SyncPolicy::default()
        },
        direct: false,
        ..BlockIoGroup::default()
    };
    Ok(blocks("mail", vec![database, log]))
}
