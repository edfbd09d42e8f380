// SPDX-License-Identifier: Apache-2.0
//! A Lustre file system that is mounted here already: a directory of our own in it, striped as asked.
//!
//! Manual: `lustre.md`. Nothing is formatted and nothing is mounted.

use plimsoll_core::plan::{Action, Cmd, Made, Plan};
use plimsoll_core::settings::{Setting, SettingError, Settings, Unit};

use super::{Choice, Needs, Order, Place, Shape, Stack, Unmet, node};

/// The type of file system, as the kernel names it.
const FILE_SYSTEM: &str = "lustre";

/// Most object storage targets of one file.
const STRIPES_MAX: u32 = 2000;

/// Stripes are multiples of this.
const STRIPE_STEP_BYTES: u64 = 64 << 10;

/// Largest stripe: its size is kept in 32 bits.
const STRIPE_MAX_BYTES: u64 = (4 << 30) - STRIPE_STEP_BYTES;

const SETTINGS: &[Setting] = &[
    Setting {
        name: "mount",
        unit: Unit::Text,
        default: "/mnt/lustre",
        help: "where the file system is mounted",
    },
    Setting {
        name: "stripe_count",
        unit: Unit::Count,
        default: "1",
        help: "storage targets that each file is spread over, up to 2000; 0: all",
    },
    Setting {
        name: "stripe_size",
        unit: Unit::Size(1),
        default: "1MiB",
        help: "bytes on one target before the next, in multiples of 64KiB below 4GiB",
    },
];

/// The stack `lustre`.
#[derive(Debug)]
pub struct Lustre;

/// What is asked for.
struct Asked {
    mount: String,
    /// As `lfs` takes it: -1 for all.
    stripe_count: String,
    stripe_bytes: u64,
}

impl Asked {
    fn of(settings: &Settings) -> Result<Self, Unmet> {
        let unmet = |error: SettingError| Unmet(vec![error.to_string()]);
        let mount = settings.text("mount");
        node::check_path(mount)?;
        let count = settings.count_within("stripe_count", 0, STRIPES_MAX);
        let bytes = settings.bytes_within("stripe_size", STRIPE_STEP_BYTES, STRIPE_MAX_BYTES);
        let stripe_bytes = bytes.map_err(unmet)?;
        if !stripe_bytes.is_multiple_of(STRIPE_STEP_BYTES) {
            return Err(Unmet(vec!["stripe_size is a multiple of 64KiB".into()]));
        }
        Ok(Asked {
            mount: mount.trim_end_matches('/').into(),
            stripe_count: match count.map_err(unmet)? {
                0 => "-1".into(),
                count => count.to_string(),
            },
            stripe_bytes,
        })
    }
}

impl Stack for Lustre {
    fn name(&self) -> &'static str {
        "lustre"
    }

    fn about(&self) -> &'static str {
        "a directory, striped as asked, in a Lustre file system that is mounted here already"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        Asked::of(&choice.settings)?;
        Ok(Shape {
            servers: 0,
            ports: 0,
            place: Place::Here,
        })
    }

    fn needs(&self, _: &Choice) -> Needs {
        Needs {
            programs: vec!["lfs"],
            ..Needs::default()
        }
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        let asked = Asked::of(order.settings())?;
        let mut plan = Plan::default();
        // Else the directory would lie on the disk below, and that would be measured.
        let look = Action::MountIs {
            path: asked.mount.clone(),
            file_system: FILE_SYSTEM.into(),
        };
        plan.step("see the file system mounted", look, None);
        let dir = order.dir_on(&asked.mount);
        node::add_dir(&mut plan, &dir);
        let bytes = asked.stripe_bytes.to_string();
        let words = ["setstripe", "--stripe-count", &asked.stripe_count];
        let words = words.into_iter().chain(["--stripe-size", &bytes, &dir]);
        let stripe = Action::Run(Cmd::new("lfs", words));
        plan.step("stripe what is made in it", stripe, None);
        let over = match asked.stripe_count.as_str() {
            "-1" => "all storage targets".into(),
            "1" => "one storage target".into(),
            count => format!("{count} storage targets"),
        };
        let made = Made {
            mount_dir: dir,
            description: format!(
                "Lustre at {}, each file over {over} in stripes of {bytes} bytes",
                asked.mount
            ),
            ..Made::default()
        };
        Ok((plan, made))
    }
}

#[cfg(test)]
mod plan_tests;
