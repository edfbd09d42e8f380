// SPDX-License-Identifier: Apache-2.0
//! Encryption of files and their names on the client: gocryptfs over whatever is mounted below.
//!
//! Manual: `crypt.md`.

use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanReadinessCheck, StackOutputs, StackSelfTest,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

use super::{LayerRecipe, PreconditionError, StackPlanInput, StackRequirements};

/// The program that encrypts, and the mark of its process.
const PROGRAM: &str = "gocryptfs";

/// Most threads: more than any machine here has processors.
const THREADS_MAX: u32 = 256;

/// The type of file system of its mount, as the kernel names it.
const FILE_SYSTEM: &str = "fuse.gocryptfs";

/// The cost of making a key from the password, as a power of two: gocryptfs takes 10 to 28. The
/// password is random, so that it cannot be guessed whatever this costs.
const SCRYPT_N: &str = "10";

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "cipher",
        unit: SettingUnit::Choice(&["gcm", "siv", "xchacha"]),
        default: "gcm",
        help: "AES-256-GCM, AES-512-SIV or XChaCha20-Poly1305, each over blocks of 4 KiB",
    },
    SettingDefinition {
        name: "names",
        unit: SettingUnit::Flag,
        default: "on",
        help: "names of files are encrypted as well",
    },
    SettingDefinition {
        name: "threads",
        unit: SettingUnit::Count,
        default: "0",
        help: "threads of gocryptfs that run at the same time (GOMAXPROCS), 1 to 256; 0: as it chooses",
    },
];

/// The layer `crypt`.
#[derive(Debug)]
pub struct CryptLayer;

impl LayerRecipe for CryptLayer {
    fn name(&self) -> &'static str {
        "crypt"
    }

    fn about(&self) -> &'static str {
        "files and their names encrypted on the client (gocryptfs)"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn needs(&self, _: &SettingValues) -> StackRequirements {
        StackRequirements {
            programs: vec!["gocryptfs", "mkdir", "umount", "setsid"],
            devices: vec![("/dev/fuse", "modprobe fuse")],
            root: true,
            ..StackRequirements::default()
        }
    }

    fn add(
        &self,
        plan: &mut Plan,
        made: &mut StackOutputs,
        order: &StackPlanInput<'_>,
        settings: &SettingValues,
    ) -> Result<(), PreconditionError> {
        settings
            .count_within("threads", 0, THREADS_MAX)
            .map_err(|error| PreconditionError(vec![error.to_string()]))?;
        // Beside the stack's directory: where that is what is measured, the password must not lie
        // among the data it protects.
        let dir = format!("{}-crypt", order.dir());
        super::node::add_dir(plan, &dir);
        let password = format!("{dir}/password");
        let make = PlanAction::MakeSecret(password.clone());
        plan.step("generate a password", make, None);
        let config = format!("{dir}/gocryptfs.conf");
        let below = format!("{}/cipher", made.mount_dir);
        // Not with our mark: it must be empty. It goes with what is below.
        let make = PlanAction::Run(PlanCommand::new("mkdir", [&*below]));
        plan.step("create the directory of the encrypted files", make, None);
        plan.lasting();
        let own = [
            "-passfile".to_owned(),
            password,
            "-config".into(),
            config,
            "-q".into(),
        ];
        add_init(plan, settings, &own, &below);
        let at = format!("{dir}/mnt");
        let mark = order.mark(PROGRAM);
        let view = mount(&mark, (settings, &own), [&below, &at]);
        take_off_while_below_is_unmounted(made, &mark, &view, &at);
        add_mount(plan, view, &mark, [&below, &at]);
        made.client_programs
            .push(super::node::client_program(PROGRAM, [mark]));
        tell(made, settings, &below, at);
        Ok(())
    }
}

/// Adds the making of the encrypted directory. Its settings, with the key that the password opens,
/// lie with the password and not with the data.
fn add_init(plan: &mut Plan, settings: &SettingValues, own: &[String], below: &str) {
    let mut words = vec!["-init".to_owned(), "-scryptn".into(), SCRYPT_N.into()];
    let cipher = match settings.text("cipher") {
        "xchacha" => Some("-xchacha"),
        "siv" => Some("-aessiv"),
        _ => None,
    };
    words.extend(cipher.map(Into::into));
    if !settings.flag("names") {
        words.push("-plaintextnames".into());
    }
    words.extend(own.iter().cloned());
    words.push(below.into());
    let init = PlanAction::Run(PlanCommand::new(PROGRAM, words));
    plan.step("initialize the encryption", init, None);
    plan.lasting();
}

/// Starts the program that shows what lies decrypted `below` at another place.
fn mount(
    mark: &str,
    (settings, own): (&SettingValues, &[String]),
    [below, at]: [&str; 2],
) -> PlanAction {
    let first = ["-fg", "-nonempty", "-nosyslog"].map(String::from);
    let words = first.into_iter().chain(own.iter().cloned());
    let mut cmd = PlanCommand::new(PROGRAM, words.chain([below.into(), at.into()]));
    // gocryptfs is written in Go, whose scheduler takes the limit on its threads from this variable.
    match settings.text("threads") {
        "0" => {}
        count => cmd = cmd.env("GOMAXPROCS", count),
    }
    PlanAction::Start {
        cmd,
        mark: mark.into(),
        log: format!("{at}.log"),
        ready: PlanReadinessCheck::Mounted(at.into()),
    }
}

/// Actions that bring a server back may unmount the mount below the view for a moment, which cannot
/// be done while the view shows it.
fn take_off_while_below_is_unmounted(
    made: &mut StackOutputs,
    mark: &str,
    view: &PlanAction,
    at: &str,
) {
    let here = |action| (HERE.to_owned(), action);
    let off = [
        here(PlanAction::Unmount(at.into())),
        here(PlanAction::Stop { mark: mark.into() }),
    ];
    let on = [here(view.clone())];
    let unmount = here(PlanAction::Unmount(made.mount_dir.clone()));
    let of_proofs = made.proofs.iter_mut().filter_map(|proof| match proof {
        StackSelfTest::Survives { restore, .. } => Some(restore),
        _ => None,
    });
    let of_servers = made.servers.iter_mut().map(|server| &mut server.restore);
    for restore in of_proofs.chain(of_servers) {
        if restore.contains(&unmount) {
            *restore = [&off, &restore[..], &on].concat();
        }
    }
}

fn add_mount(plan: &mut Plan, view: PlanAction, mark: &str, [below, at]: [&str; 2]) {
    let unmount = PlanAction::Unmount(at.into());
    plan.step(
        "create the mount point",
        PlanAction::MakeDir(at.into()),
        Some(unmount.clone()),
    );
    let stop = PlanAction::Stop { mark: mark.into() };
    plan.step("mount the decrypted view", view, Some(stop));
    let look = PlanAction::mount_is(at, FILE_SYSTEM, vec![below.into()]);
    plan.step(
        "check that the decrypted view is mounted",
        look,
        Some(unmount),
    );
}

/// The outputs of the layer, made from those of the stack below.
fn tell(made: &mut StackOutputs, settings: &SettingValues, below: &str, at: String) {
    // The other client would see what is encrypted.
    made.proofs
        .retain(|proof| !matches!(proof, StackSelfTest::SecondClient { .. }));
    let mut hidden: Vec<(String, String)> = made
        .proofs
        .iter()
        .filter_map(|proof| match proof {
            // Where a disk must flush is where the servers keep the data.
            StackSelfTest::Flushes { node, dir } => Some((node.clone(), dir.clone())),
            _ => None,
        })
        .collect();
    hidden.push((HERE.into(), below.into()));
    if settings.flag("names") {
        let hide = |(node, dir)| StackSelfTest::Hidden {
            node,
            dirs: vec![dir],
        };
        made.proofs.extend(hidden.into_iter().map(hide));
    }
    let names = if settings.flag("names") {
        "with"
    } else {
        "without"
    };
    made.description = format!(
        "{}; encrypted by gocryptfs ({}, {names} names)",
        made.description,
        settings.text("cipher")
    );
    made.mount_dir = at;
    made.file_system = FILE_SYSTEM.into();
}

#[cfg(test)]
mod plan_tests;
