// SPDX-License-Identifier: Apache-2.0
//! Lustre: a directory of our own in a file system that is mounted here already, or servers over
//! files on machines that carry Lustre's packages.
//!
//! Manual: `lustre.md`. Of what is mounted already nothing is formatted and nothing is unmounted; the
//! servers are in [`servers`].

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, StackOutputs};
use plimsoll_core::settings::{SettingDefinition, SettingError, SettingUnit};

use super::{
    ClientPlace, PreconditionError, StackConfig, StackFootprint, StackPlanInput, StackRecipe,
    StackRequirements, node,
};
use plimsoll_machine::host::lustre::FILE_SYSTEM;
use servers::LustreServers;

mod servers;

/// Most object storage targets of one file.
const STRIPES_MAX: u32 = 2000;

/// Most object storage targets that are made: far more than one machine carries.
const OSTS_MAX: u32 = 12;

/// Stripes are multiples of this.
const STRIPE_STEP_BYTES: u64 = 64 << 10;

/// Largest stripe: its size is kept in 32 bits.
const STRIPE_MAX_BYTES: u64 = (4 << 30) - STRIPE_STEP_BYTES;

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "servers",
        unit: SettingUnit::Choice(&["mounted", "files"]),
        default: "mounted",
        help: "a file system that is already mounted here; or one that plimsoll creates over files",
    },
    SettingDefinition {
        name: "mount",
        unit: SettingUnit::Text,
        default: "/mnt/lustre",
        help: "servers=mounted: where the file system is mounted",
    },
    SettingDefinition {
        name: "osts",
        unit: SettingUnit::Count,
        default: "2",
        help: "servers=files: object storage targets, each on a node of its own, from 1 to 12",
    },
    SettingDefinition {
        name: "nid",
        unit: SettingUnit::Text,
        default: "",
        help: "servers=files: NID of the first server, such as 10.0.0.5@tcp; on other machines their \
               address over TCP by default",
    },
    SettingDefinition {
        name: "stripe_count",
        unit: SettingUnit::Count,
        default: "1",
        help: "storage targets per file, up to 2000; 0: all",
    },
    SettingDefinition {
        name: "stripe_size",
        unit: SettingUnit::Size(1),
        default: "1MiB",
        help: "stripe size, a multiple of 64KiB below 4GiB",
    },
];

/// The stack `lustre`.
#[derive(Debug)]
pub struct LustreStack;

/// Settings that go with one kind of servers only.
const OF_KIND: &[(&str, &str)] = &[("mount", "mounted"), ("osts", "files"), ("nid", "files")];

/// The options that were asked for.
#[derive(Debug)]
struct LustreOptions {
    has_servers: bool,
    mount: String,
    osts: u16,
    nid: String,
    /// As `lfs` takes it: -1 for all.
    stripe_count: String,
    stripe_bytes: u64,
}

impl LustreOptions {
    fn of(choice: &StackConfig) -> Result<Self, PreconditionError> {
        let unmet = |error: SettingError| PreconditionError(vec![error.to_string()]);
        let settings = &choice.settings;
        check_kind(choice)?;
        let mount = settings.text("mount");
        node::check_path(mount)?;
        let osts = settings.count_within("osts", 1, OSTS_MAX);
        let osts = u16::try_from(osts.map_err(unmet)?).unwrap_or(1);
        let nid = settings.text("nid");
        check_nid(nid)?;
        let count = settings.count_within("stripe_count", 0, STRIPES_MAX);
        let bytes = settings.bytes_within("stripe_size", STRIPE_STEP_BYTES, STRIPE_MAX_BYTES);
        let stripe_bytes = bytes.map_err(unmet)?;
        if !stripe_bytes.is_multiple_of(STRIPE_STEP_BYTES) {
            return Err(PreconditionError(vec![
                "invalid stripe_size: expected a multiple of 64KiB".into(),
            ]));
        }
        Ok(LustreOptions {
            has_servers: has_servers(choice),
            osts,
            nid: nid.into(),
            mount: mount.trim_end_matches('/').into(),
            stripe_count: match count.map_err(unmet)? {
                0 => "-1".into(),
                count => count.to_string(),
            },
            stripe_bytes,
        })
    }

    /// The command that stripes a directory.
    fn stripe(&self, dir: &str) -> PlanCommand {
        let bytes = self.stripe_bytes.to_string();
        let words = ["setstripe", "--stripe-count", &self.stripe_count];
        let words = words.into_iter().chain(["--stripe-size", &bytes, dir]);
        PlanCommand::new("lfs", words)
    }

    /// How files are striped, in words.
    fn striping(&self) -> String {
        let over = match self.stripe_count.as_str() {
            "-1" => "all storage targets".into(),
            "1" => "one storage target".into(),
            count => format!("{count} storage targets"),
        };
        let bytes = self.stripe_bytes;
        format!("each file over {over} in stripes of {bytes} bytes")
    }

    /// The steps to a directory in what is mounted already.
    fn mounted(&self, order: &StackPlanInput<'_>) -> (Plan, StackOutputs) {
        let mut plan = Plan::default();
        // Else the directory would lie on the disk below, and that would be measured.
        let look = PlanAction::mount_is(self.mount.clone(), FILE_SYSTEM, Vec::new());
        plan.step("check that the file system is mounted", look, None);
        let dir = order.dir_on(&self.mount);
        node::add_dir(&mut plan, &dir);
        let stripe = PlanAction::Run(self.stripe(&dir));
        plan.step("set the stripe layout", stripe, None);
        let made = StackOutputs {
            mount_dir: dir,
            description: format!("Lustre at {}, {}", self.mount, self.striping()),
            ..StackOutputs::default()
        };
        (plan, made)
    }
}

/// A setting that would have no meaning is a mistake.
fn check_kind(choice: &StackConfig) -> Result<(), PreconditionError> {
    let kind = choice.settings.text("servers");
    let given = &choice.parts.base.given;
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let mut foreign = OF_KIND.iter().filter(|(_, of)| *of != kind);
    match foreign.find(|(name, _)| is_given(name)) {
        None => Ok(()),
        Some((name, of)) => Err(PreconditionError(vec![format!(
            "{name} needs servers={of}, and servers is {kind}: leave one of them out"
        )])),
    }
}

/// Checks an address in Lustre's network; none is fine.
fn check_nid(nid: &str) -> Result<(), PreconditionError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ".-:@".contains(c);
    let has_parts = nid.split_once('@').is_some_and(|(address, network)| {
        !address.is_empty() && !network.is_empty() && !network.contains('@') && network != "lo"
    });
    let is_loopback = nid.starts_with("127.") || nid.starts_with("localhost");
    if nid.is_empty() || (has_parts && !is_loopback && nid.chars().all(is_safe)) {
        return Ok(());
    }
    Err(PreconditionError(vec![format!(
        "invalid value '{nid}' for nid: expected an address and a network of Lustre, such as \
         10.0.0.5@tcp, that other machines can reach (see 'lctl list_nids')"
    )]))
}

impl StackRecipe for LustreStack {
    fn name(&self) -> &'static str {
        "lustre"
    }

    fn about(&self) -> &'static str {
        "Lustre, striped as asked: a directory in a file system that is mounted here already, or \
         servers over files"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        let asked = LustreOptions::of(choice)?;
        Ok(StackFootprint::here(
            if asked.has_servers { asked.osts + 1 } else { 0 },
            0,
        ))
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        if has_servers(choice) {
            return servers::client_needs();
        }
        StackRequirements {
            programs: vec!["lfs"],
            ..StackRequirements::default()
        }
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        if has_servers(choice) {
            servers::needs()
        } else {
            StackRequirements::default()
        }
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let asked = LustreOptions::of(order.choice)?;
        if asked.has_servers {
            LustreServers::of(order, &asked)?.plan()
        } else {
            Ok(asked.mounted(order))
        }
    }

    fn client_needs(&self, choice: &StackConfig) -> Option<StackRequirements> {
        has_servers(choice).then(servers::client_needs)
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let asked = LustreOptions::of(order.choice)?;
        Ok(LustreServers::of(order, &asked)?.client(place))
    }
}

fn has_servers(choice: &StackConfig) -> bool {
    choice.settings.text("servers") == "files"
}

#[cfg(test)]
mod plan_tests;
