// SPDX-License-Identifier: Apache-2.0
//! Simulated devices as people write them: `sim`, `sim(flash)`, `sim(disk,rpm=15000)`,
//! `sim(disk+raid5,disks=6+cache,size=1G+network)`.
//!
//! First a device, then what stands before it, from below, as in the text of a stack. Settings
//! follow the part they belong to.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::nearest::nearest;
use plimsoll_core::rng::Seed;
use plimsoll_core::settings::{Setting, SettingError, Settings, Unit, hint, setting};

use super::array::{Array, Members, Spread};
use super::cache::{Cache, Cached};
use super::disk::Disk;
use super::flash::Flash;
use super::front::{Network, Networked, Throttle, Throttled};
use super::queue::{Law, SimDisk};
use super::{Device, Sim, ns_per_byte};
use crate::clock::SimClock;

/// Most layers before a device.
const LAYERS_MAX: usize = 4;
/// Most devices in all, where there are arrays of arrays.
const DEVICES_MAX: u32 = 1024;
/// Largest size of anything here.
const BYTES_MAX: u64 = 1 << 50;
/// Largest cache: its pages are kept one by one.
const CACHE_BYTES_MAX: u64 = 16 << 30;

/// What is wrong with the text of a simulated device; completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// There is no such part.
    #[error("find '{name}' among simulated {what}s{}: there are {known}", hint(nearest.as_deref()))]
    Unknown {
        /// `device` or `layer`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// A setting of a part.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The text as a whole.
    #[error("read simulated device '{text}': {reason}")]
    Text {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A part that a simulated device may have.
#[derive(Debug, Clone, Copy)]
pub struct PartKind {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands before a device, and is none itself.
    pub is_layer: bool,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What can be set.
    pub settings: &'static [Setting],
    make: fn(&Settings) -> Result<Part, SettingError>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Base(Base),
    Layer(Layer),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Base {
    Queue(SimDisk),
    Flash(Flash),
    Disk(Disk),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Layer {
    Array(Array),
    Cache(Cache),
    Network(Network),
    Throttle(Throttle),
}

/// A simulated device for the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimDevice {
    base: Base,
    /// From below.
    layers: [Option<Layer>; LAYERS_MAX],
}

impl Default for SimDevice {
    fn default() -> Self {
        SimDisk::default().into()
    }
}

impl From<SimDisk> for SimDevice {
    fn from(disk: SimDisk) -> Self {
        SimDevice::bare(Base::Queue(disk))
    }
}

/// Every part, devices first.
#[must_use]
pub fn parts() -> &'static [PartKind] {
    &PARTS
}

const CHUNK: Setting = setting("chunk", Unit::Size(1), "64K", "bytes of a chunk");

static PARTS: [PartKind; 9] = [
    PartKind {
        name: "queue",
        is_layer: false,
        about: "servers before which requests wait, first in, first out",
        settings: &[
            setting("service", Unit::Time, "100us", "mean time of a request"),
            setting(
                "rate",
                Unit::Size(1),
                "1000000000",
                "bytes per second and server",
            ),
            setting("servers", Unit::Count, "4", "requests served at a time"),
            setting(
                "law",
                Unit::Choice(&["constant", "exponential"]),
                "constant",
                "how times spread",
            ),
        ],
        make: queue,
    },
    PartKind {
        name: "flash",
        is_layer: false,
        about: "units by address, each reading or programming a page at a time",
        settings: &[
            setting("units", Unit::Count, "16", "units that work side by side"),
            setting("page", Unit::Size(1), "16K", "bytes of a page"),
            setting("read", Unit::Time, "60us", "time to read a page"),
            setting("write", Unit::Time, "400us", "time to program a page"),
            setting("rate", Unit::Size(1), "400M", "bytes per second and unit"),
            setting(
                "spread",
                Unit::Number,
                "0.1",
                "how far times spread, 0 to 1",
            ),
            setting(
                "erase_every",
                Unit::Size(1),
                "0",
                "bytes a unit programs between erases (0: it never erases)",
            ),
            setting("erase", Unit::Time, "3500us", "time of an erase"),
        ],
        make: flash,
    },
    PartKind {
        name: "disk",
        is_layer: false,
        about: "an arm over turning platters",
        settings: &[
            setting("rpm", Unit::Count, "7200", "turns per minute"),
            setting("seek", Unit::Time, "800us", "to the next track"),
            setting("seek_full", Unit::Time, "16ms", "over all tracks"),
            setting("rate", Unit::Size(1), "180M", "bytes per second"),
            setting("size", Unit::Size(1), "1T", "bytes of the disk"),
        ],
        make: disk,
    },
    PartKind {
        name: "stripe",
        is_layer: true,
        about: "several, chunk by chunk",
        settings: &[setting("disks", Unit::Count, "4", "members"), CHUNK],
        make: |settings| array(settings, Spread::Stripe, 2),
    },
    PartKind {
        name: "mirror",
        is_layer: true,
        about: "several with the same on each",
        settings: &[setting("disks", Unit::Count, "2", "members")],
        make: |settings| array(settings, Spread::Mirror, 2),
    },
    PartKind {
        name: "raid5",
        is_layer: true,
        about: "several, chunk by chunk, with parity",
        settings: &[setting("disks", Unit::Count, "4", "members"), CHUNK],
        make: |settings| array(settings, Spread::Parity, 3),
    },
    PartKind {
        name: "cache",
        is_layer: true,
        about: "keeps writes and what was read last",
        settings: &[
            setting("size", Unit::Size(1), "256M", "bytes"),
            setting(
                "hit",
                Unit::Time,
                "50us",
                "time of what needs only the cache",
            ),
        ],
        make: cache,
    },
    PartKind {
        name: "network",
        is_layer: true,
        about: "a line each way",
        settings: &[
            setting("rtt", Unit::Time, "200us", "there and back"),
            setting(
                "rate",
                Unit::Size(1),
                "1000000000",
                "bytes per second each way",
            ),
        ],
        make: network,
    },
    PartKind {
        name: "throttle",
        is_layer: true,
        about: "a limit on operations and bytes",
        settings: &[
            setting(
                "iops",
                Unit::Number,
                "0",
                "operations per second (0: no limit)",
            ),
            setting("rate", Unit::Size(1), "0", "bytes per second (0: no limit)"),
            setting("burst", Unit::Time, "1s", "how long it can save up"),
        ],
        make: throttle,
    },
];

fn queue(settings: &Settings) -> Result<Part, SettingError> {
    Ok(Part::Base(Base::Queue(SimDisk {
        service: settings.time("service"),
        ns_per_byte: ns_per_byte(settings.bytes("rate")),
        servers: settings.count_within("servers", 1, 65_536)?,
        law: match settings.text("law") {
            "exponential" => Law::Exponential,
            _ => Law::Constant,
        },
    })))
}

fn flash(settings: &Settings) -> Result<Part, SettingError> {
    let spread = settings.number("spread");
    if !(0.0..=1.0).contains(&spread) {
        return Err(settings.wrong("spread", settings.text("spread"), "it is from 0 to 1"));
    }
    Ok(Part::Base(Base::Flash(Flash {
        units: settings.count_within("units", 1, 65_536)?,
        page_bytes: settings.bytes_within("page", 512, 16 << 20)?,
        read: settings.time("read"),
        write: settings.time("write"),
        bytes_per_s: settings.bytes("rate"),
        spread,
        erase_every_bytes: settings.bytes("erase_every"),
        erase: settings.time("erase"),
    })))
}

fn disk(settings: &Settings) -> Result<Part, SettingError> {
    Ok(Part::Base(Base::Disk(Disk {
        rpm: settings.count_within("rpm", 1, 1_000_000)?,
        seek: settings.time("seek"),
        seek_full: settings.time("seek_full"),
        bytes_per_s: settings.bytes_within("rate", 1, BYTES_MAX)?,
        size_bytes: settings.bytes_within("size", 1 << 20, BYTES_MAX)?,
    })))
}

fn array(settings: &Settings, spread: Spread, disks_min: u32) -> Result<Part, SettingError> {
    Ok(Part::Layer(Layer::Array(Array {
        spread,
        disks: settings.count_within("disks", disks_min, 64)?,
        chunk_bytes: match spread {
            // Not used: all bytes are on each.
            Spread::Mirror => 1,
            _ => settings.bytes_within("chunk", 4096, 1 << 30)?,
        },
    })))
}

fn cache(settings: &Settings) -> Result<Part, SettingError> {
    Ok(Part::Layer(Layer::Cache(Cache {
        size_bytes: settings.bytes_within("size", 64 << 10, CACHE_BYTES_MAX)?,
        hit: settings.time("hit"),
    })))
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for all parts")]
fn network(settings: &Settings) -> Result<Part, SettingError> {
    Ok(Part::Layer(Layer::Network(Network {
        round_trip: settings.time("rtt"),
        bytes_per_s: settings.bytes("rate"),
    })))
}

fn throttle(settings: &Settings) -> Result<Part, SettingError> {
    let ops_per_s = settings.number("iops");
    if !(0.0..=1e9).contains(&ops_per_s) {
        return Err(settings.wrong("iops", settings.text("iops"), "it is from 0 to 1e9"));
    }
    Ok(Part::Layer(Layer::Throttle(Throttle {
        ops_per_s,
        bytes_per_s: settings.bytes("rate"),
        burst: settings.time("burst"),
    })))
}

impl FromStr for SimDevice {
    type Err = SimError;

    /// Reads `sim`, or `sim(…)`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let wrong = |reason: &str| SimError::Text {
            text: text.into(),
            reason: reason.into(),
        };
        let inside = match text.strip_prefix("sim").map(str::trim) {
            Some("") => return Ok(SimDevice::default()),
            Some(rest) => rest.strip_prefix('(').and_then(|s| s.strip_suffix(')')),
            None => None,
        };
        let inside = inside.ok_or_else(|| wrong("write sim, or sim(device,setting=value)"))?;
        let mut pieces = inside.split('+').map(read_part);
        let mut device = match pieces.next() {
            Some(Ok((_, Part::Base(base)))) => SimDevice::bare(base),
            Some(Ok((kind, _))) => return Err(unknown("device", kind.name, false)),
            Some(Err(error)) => return Err(error),
            None => return Err(wrong("it names no device")),
        };
        for (place, piece) in pieces.enumerate() {
            let Part::Layer(layer) = piece.and_then(|(kind, part)| match part {
                Part::Layer(_) => Ok(part),
                Part::Base(_) => Err(unknown("layer", kind.name, true)),
            })?
            else {
                continue;
            };
            let slot = device.layers.get_mut(place);
            *slot.ok_or_else(|| wrong("it has more than 4 layers"))? = Some(layer);
        }
        if device.devices() > DEVICES_MAX {
            return Err(wrong("its arrays have more than 1024 devices"));
        }
        Ok(device)
    }
}

/// One part with its settings.
fn read_part(text: &str) -> Result<(&'static PartKind, Part), SimError> {
    let mut words = text.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let Some(kind) = PARTS.iter().find(|kind| kind.name == name) else {
        return Err(unknown("part", name, false));
    };
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.trim().to_owned(), value.trim().to_owned())
    };
    let given: Vec<(String, String)> = words.map(pair).collect();
    let settings = Settings::new(&format!("sim({})", kind.name), kind.settings, &given)?;
    Ok((kind, (kind.make)(&settings)?))
}

fn unknown(what: &'static str, name: &str, is_layer: bool) -> SimError {
    let fits = |kind: &&PartKind| what == "part" || kind.is_layer == is_layer;
    let names: Vec<&str> = PARTS.iter().filter(fits).map(|kind| kind.name).collect();
    SimError::Unknown {
        what,
        name: name.into(),
        nearest: nearest(name, names.iter().copied()).map(Into::into),
        known: names.join(", "),
    }
}

impl SimDevice {
    fn bare(base: Base) -> Self {
        SimDevice {
            base,
            layers: [None; LAYERS_MAX],
        }
    }

    /// Whether a text is meant as a simulated device.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text == "sim" || (text.starts_with("sim(") && text.ends_with(')'))
    }

    fn layers(&self) -> impl Iterator<Item = Layer> {
        self.layers.into_iter().flatten()
    }

    /// How many devices there are below all arrays.
    fn devices(&self) -> u32 {
        let members = |layer| match layer {
            Layer::Array(array) => array.disks,
            _ => 1,
        };
        self.layers()
            .map(members)
            .fold(1, |product: u32, n| product.saturating_mul(n))
    }

    /// The device at work; what it draws comes from `seed`.
    #[must_use]
    pub fn device(&self, seed: Seed) -> Box<dyn Device> {
        let layers: Vec<Layer> = self.layers().collect();
        self.build(&layers, seed)
    }

    fn build(&self, layers: &[Layer], seed: Seed) -> Box<dyn Device> {
        let Some((top, below)) = layers.split_last() else {
            return match self.base {
                Base::Queue(queue) => Box::new(queue.device(seed)),
                Base::Flash(flash) => Box::new(flash.device(seed)),
                Base::Disk(disk) => Box::new(disk.device(seed)),
            };
        };
        let inner = |seed| self.build(below, seed);
        match *top {
            Layer::Array(array) => {
                let member = |number| inner(seed.derive("member", number));
                let members = (0..u64::from(array.disks)).map(member).collect();
                Box::new(Members::new(array, members))
            }
            Layer::Cache(cache) => Box::new(Cached::new(cache, inner(seed))),
            Layer::Network(network) => Box::new(Networked::new(network, inner(seed))),
            Layer::Throttle(throttle) => Box::new(Throttled::new(throttle, inner(seed))),
        }
    }

    /// The engine of the device, on `clock`.
    #[must_use]
    pub fn engine(&self, slots: u32, clock: SimClock, seed: Seed) -> Sim<Box<dyn Device>> {
        Sim::new(self.to_string(), slots, clock, self.device(seed))
    }
}

impl fmt::Display for SimDevice {
    /// What it is, for reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Queue(queue) => write!(f, "sim, {} servers", queue.servers)?,
            Base::Flash(flash) => write!(f, "sim, flash of {} units", flash.units)?,
            Base::Disk(disk) => write!(f, "sim, disk of {} rpm", disk.rpm)?,
        }
        for layer in self.layers() {
            match layer {
                Layer::Array(array) => match array.spread {
                    Spread::Stripe => write!(f, ", {} striped", array.disks)?,
                    Spread::Mirror => write!(f, ", {} mirrored", array.disks)?,
                    Spread::Parity => write!(f, ", {} as raid5", array.disks)?,
                },
                Layer::Cache(_) => write!(f, ", behind a cache")?,
                Layer::Network(_) => write!(f, ", behind a network")?,
                Layer::Throttle(_) => write!(f, ", throttled")?,
            }
        }
        write!(f, ", virtual time")
    }
}
