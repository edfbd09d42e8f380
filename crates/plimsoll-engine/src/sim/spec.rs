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
use plimsoll_core::settings::{
    SettingDefinition, SettingError, SettingLevels, SettingUnit, SettingValues, hint, level,
    levels, setting,
};

use super::array::{SimArray, SimArrayLayout, SimArraySpec};
use super::cache::{SimCache, SimCacheSpec};
use super::disk::SimHardDiskSpec;
use super::flash::SimFlashSpec;
use super::front::{SimNetwork, SimNetworkSpec, SimThrottle, SimThrottleSpec};
use super::queue::{SimQueueSpec, SimServiceDistribution};
use super::{SimDeviceModel, SimEngine, ns_per_byte};
use crate::clock::SimClock;

/// Most layers before a device.
const LAYERS_MAX: usize = 4;
/// Most devices in all, where there are arrays of arrays.
const DEVICES_MAX: u32 = 1024;
/// Largest size of anything here.
const BYTES_MAX: u64 = 1 << 50;
/// Largest cache: its pages are kept one by one.
const CACHE_BYTES_MAX: u64 = 16 << 30;

/// An error in the text of a simulated device, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// There is no such part.
    #[error("unknown simulated {what} '{name}'{}; available: {known}", hint(nearest.as_deref()))]
    Unknown {
        /// `device` or `layer`.
        what: &'static str,
        /// The name that was asked for.
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
    #[error("invalid simulated device '{text}': {reason}")]
    Text {
        /// The text.
        text: String,
        /// The error in it.
        reason: String,
    },
}

/// A part that a simulated device may have.
#[derive(Debug, Clone, Copy)]
pub struct SimPartInfo {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands before a device, and is none itself.
    pub is_layer: bool,
    /// Its settings.
    pub settings: &'static [SettingDefinition],
    /// Values that a search tries.
    pub levels: &'static [SettingLevels],
    make: fn(&SettingValues) -> Result<SimPartSpec, SettingError>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SimPartSpec {
    Base(SimBaseSpec),
    Layer(SimLayerSpec),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SimBaseSpec {
    Queue(SimQueueSpec),
    Flash(SimFlashSpec),
    Disk(SimHardDiskSpec),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SimLayerSpec {
    Array(SimArraySpec),
    Cache(SimCacheSpec),
    Network(SimNetworkSpec),
    Throttle(SimThrottleSpec),
}

/// A simulated device for the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimDeviceSpec {
    base: SimBaseSpec,
    /// From below.
    layers: [Option<SimLayerSpec>; LAYERS_MAX],
}

impl Default for SimDeviceSpec {
    fn default() -> Self {
        SimQueueSpec::default().into()
    }
}

impl From<SimQueueSpec> for SimDeviceSpec {
    fn from(disk: SimQueueSpec) -> Self {
        SimDeviceSpec::bare(SimBaseSpec::Queue(disk))
    }
}

/// Every part, devices first.
pub fn parts() -> &'static [SimPartInfo] {
    &PARTS
}

const CHUNK: SettingDefinition = setting("chunk", SettingUnit::Size(1), "64K", "bytes of a chunk");

static PARTS: [SimPartInfo; 9] = [
    SimPartInfo {
        name: "queue",
        is_layer: false,
        settings: &[
            setting(
                "service",
                SettingUnit::Time,
                "100us",
                "mean time of a request",
            ),
            setting(
                "rate",
                SettingUnit::Size(1),
                "1000000000",
                "bytes per second and server",
            ),
            setting(
                "servers",
                SettingUnit::Count,
                "4",
                "requests served at a time",
            ),
            setting(
                "law",
                SettingUnit::Choice(&["constant", "exponential"]),
                "constant",
                "how times spread",
            ),
        ],
        levels: &[
            levels("service", &[level("50us"), level("100us")]),
            levels("rate", &[level("1000000000"), level("4000000000")]),
            levels("servers", &[level("16"), level("4")]),
            levels("law", &[level("constant"), level("exponential")]),
        ],
        make: queue,
    },
    SimPartInfo {
        name: "flash",
        is_layer: false,
        settings: &[
            setting(
                "units",
                SettingUnit::Count,
                "16",
                "units that work side by side",
            ),
            setting("page", SettingUnit::Size(1), "16K", "bytes of a page"),
            setting("read", SettingUnit::Time, "60us", "time to read a page"),
            setting(
                "write",
                SettingUnit::Time,
                "400us",
                "time to program a page",
            ),
            setting(
                "rate",
                SettingUnit::Size(1),
                "400M",
                "bytes per second and unit",
            ),
            setting(
                "spread",
                SettingUnit::Number,
                "0.1",
                "how far times spread, 0 to 1",
            ),
            setting(
                "erase_every",
                SettingUnit::Size(1),
                "0",
                "bytes a unit programs between erases (0: it never erases)",
            ),
            setting("erase", SettingUnit::Time, "3500us", "time of an erase"),
        ],
        levels: &[
            levels("units", &[level("64"), level("16")]),
            levels("page", &[level("4K"), level("16K")]),
            levels("read", &[level("30us"), level("60us")]),
            levels("write", &[level("200us"), level("400us")]),
            levels("rate", &[level("1G"), level("400M")]),
            levels("spread", &[level("0"), level("0.1")]),
            levels("erase_every", &[level("0")]),
        ],
        make: flash,
    },
    SimPartInfo {
        name: "disk",
        is_layer: false,
        settings: &[
            setting("rpm", SettingUnit::Count, "7200", "turns per minute"),
            setting("seek", SettingUnit::Time, "800us", "to the next track"),
            setting("seek_full", SettingUnit::Time, "16ms", "over all tracks"),
            setting("rate", SettingUnit::Size(1), "180M", "bytes per second"),
            setting("size", SettingUnit::Size(1), "1T", "bytes of the disk"),
        ],
        levels: &[
            levels("rpm", &[level("15000"), level("7200")]),
            levels("seek", &[level("400us"), level("800us")]),
            levels("seek_full", &[level("8ms"), level("16ms")]),
            levels("rate", &[level("250M"), level("180M")]),
        ],
        make: disk,
    },
    SimPartInfo {
        name: "stripe",
        is_layer: true,
        settings: &[setting("disks", SettingUnit::Count, "4", "members"), CHUNK],
        levels: &[
            levels("disks", &[level("8"), level("4")]),
            levels("chunk", &[level("256K"), level("64K")]),
        ],
        make: |settings| array(settings, SimArrayLayout::Stripe, 2),
    },
    SimPartInfo {
        name: "mirror",
        is_layer: true,
        settings: &[setting("disks", SettingUnit::Count, "2", "members")],
        levels: &[levels("disks", &[level("3"), level("2")])],
        make: |settings| array(settings, SimArrayLayout::Mirror, 2),
    },
    SimPartInfo {
        name: "raid5",
        is_layer: true,
        settings: &[setting("disks", SettingUnit::Count, "4", "members"), CHUNK],
        levels: &[
            levels("disks", &[level("8"), level("4")]),
            levels("chunk", &[level("256K"), level("64K")]),
        ],
        make: |settings| array(settings, SimArrayLayout::Parity, 3),
    },
    SimPartInfo {
        name: "cache",
        is_layer: true,
        settings: &[
            setting("size", SettingUnit::Size(1), "256M", "bytes"),
            setting(
                "hit",
                SettingUnit::Time,
                "50us",
                "time of what needs only the cache",
            ),
        ],
        levels: &[
            levels("size", &[level("1G"), level("256M")]),
            levels("hit", &[level("25us"), level("50us")]),
        ],
        make: cache,
    },
    SimPartInfo {
        name: "network",
        is_layer: true,
        settings: &[
            setting("rtt", SettingUnit::Time, "200us", "there and back"),
            setting(
                "rate",
                SettingUnit::Size(1),
                "1000000000",
                "bytes per second each way",
            ),
        ],
        levels: &[
            levels("rtt", &[level("100us"), level("200us")]),
            levels("rate", &[level("4000000000"), level("1000000000")]),
        ],
        make: network,
    },
    SimPartInfo {
        name: "throttle",
        is_layer: true,
        settings: &[
            setting(
                "iops",
                SettingUnit::Number,
                "0",
                "operations per second (0: no limit)",
            ),
            setting(
                "rate",
                SettingUnit::Size(1),
                "0",
                "bytes per second (0: no limit)",
            ),
            setting("burst", SettingUnit::Time, "1s", "how long it can save up"),
        ],
        levels: &[
            levels("iops", &[level("0")]),
            levels("rate", &[level("0")]),
            levels("burst", &[level("100ms"), level("1s")]),
        ],
        make: throttle,
    },
];

fn queue(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    Ok(SimPartSpec::Base(SimBaseSpec::Queue(SimQueueSpec {
        service: settings.time("service"),
        ns_per_byte: ns_per_byte(settings.bytes("rate")),
        servers: settings.count_within("servers", 1, 65_536)?,
        law: match settings.text("law") {
            "exponential" => SimServiceDistribution::Exponential,
            _ => SimServiceDistribution::Constant,
        },
    })))
}

fn flash(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    let spread = settings.number("spread");
    if !(0.0..=1.0).contains(&spread) {
        return Err(settings.wrong(
            "spread",
            settings.text("spread"),
            "expected a number from 0 to 1",
        ));
    }
    Ok(SimPartSpec::Base(SimBaseSpec::Flash(SimFlashSpec {
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

fn disk(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    Ok(SimPartSpec::Base(SimBaseSpec::Disk(SimHardDiskSpec {
        rpm: settings.count_within("rpm", 1, 1_000_000)?,
        seek: settings.time("seek"),
        seek_full: settings.time("seek_full"),
        bytes_per_s: settings.bytes_within("rate", 1, BYTES_MAX)?,
        size_bytes: settings.bytes_within("size", 1 << 20, BYTES_MAX)?,
    })))
}

fn array(
    settings: &SettingValues,
    spread: SimArrayLayout,
    disks_min: u32,
) -> Result<SimPartSpec, SettingError> {
    Ok(SimPartSpec::Layer(SimLayerSpec::Array(SimArraySpec {
        spread,
        disks: settings.count_within("disks", disks_min, 64)?,
        chunk_bytes: match spread {
            // Not used: all bytes are on each.
            SimArrayLayout::Mirror => 1,
            _ => settings.bytes_within("chunk", 4096, 1 << 30)?,
        },
    })))
}

fn cache(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    Ok(SimPartSpec::Layer(SimLayerSpec::Cache(SimCacheSpec {
        size_bytes: settings.bytes_within("size", 64 << 10, CACHE_BYTES_MAX)?,
        hit: settings.time("hit"),
    })))
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for all parts")]
fn network(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    Ok(SimPartSpec::Layer(SimLayerSpec::Network(SimNetworkSpec {
        round_trip: settings.time("rtt"),
        bytes_per_s: settings.bytes("rate"),
    })))
}

fn throttle(settings: &SettingValues) -> Result<SimPartSpec, SettingError> {
    let ops_per_s = settings.number("iops");
    if !(0.0..=1e9).contains(&ops_per_s) {
        return Err(settings.wrong(
            "iops",
            settings.text("iops"),
            "expected a number from 0 to 1e9",
        ));
    }
    Ok(SimPartSpec::Layer(SimLayerSpec::Throttle(
        SimThrottleSpec {
            ops_per_s,
            bytes_per_s: settings.bytes("rate"),
            burst: settings.time("burst"),
        },
    )))
}

impl FromStr for SimDeviceSpec {
    type Err = SimError;

    /// Reads `sim`, or `sim(…)`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let wrong = |reason: &str| SimError::Text {
            text: text.into(),
            reason: reason.into(),
        };
        let inside = match text.strip_prefix("sim").map(str::trim) {
            Some("") => return Ok(SimDeviceSpec::default()),
            Some(rest) => rest.strip_prefix('(').and_then(|s| s.strip_suffix(')')),
            None => None,
        };
        let inside = inside.ok_or_else(|| wrong("expected sim, or sim(device,setting=value)"))?;
        let mut pieces = inside.split('+').map(read_part);
        let mut device = match pieces.next() {
            Some(Ok((_, SimPartSpec::Base(base)))) => SimDeviceSpec::bare(base),
            Some(Ok((kind, _))) => return Err(unknown("device", kind.name, false)),
            Some(Err(error)) => return Err(error),
            None => return Err(wrong("it names no device")),
        };
        for (place, piece) in pieces.enumerate() {
            let SimPartSpec::Layer(layer) = piece.and_then(|(kind, part)| match part {
                SimPartSpec::Layer(_) => Ok(part),
                SimPartSpec::Base(_) => Err(unknown("layer", kind.name, true)),
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
fn read_part(text: &str) -> Result<(&'static SimPartInfo, SimPartSpec), SimError> {
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
    let settings = SettingValues::new(&format!("sim({})", kind.name), kind.settings, &given)?;
    Ok((kind, (kind.make)(&settings)?))
}

fn unknown(what: &'static str, name: &str, is_layer: bool) -> SimError {
    let fits = |kind: &&SimPartInfo| what == "part" || kind.is_layer == is_layer;
    let names: Vec<&str> = PARTS.iter().filter(fits).map(|kind| kind.name).collect();
    SimError::Unknown {
        what,
        name: name.into(),
        nearest: nearest(name, names.iter().copied()).map(Into::into),
        known: names.join(", "),
    }
}

impl SimDeviceSpec {
    fn bare(base: SimBaseSpec) -> Self {
        SimDeviceSpec {
            base,
            layers: [None; LAYERS_MAX],
        }
    }

    /// Whether a text is meant as a simulated device.
    pub fn is_meant(text: &str) -> bool {
        text == "sim" || (text.starts_with("sim(") && text.ends_with(')'))
    }

    fn layers(&self) -> impl Iterator<Item = SimLayerSpec> {
        self.layers.into_iter().flatten()
    }

    /// How many devices there are below all arrays.
    fn devices(&self) -> u32 {
        let members = |layer| match layer {
            SimLayerSpec::Array(array) => array.disks,
            _ => 1,
        };
        self.layers()
            .map(members)
            .fold(1, |product: u32, n| product.saturating_mul(n))
    }

    /// The device at work; what it draws comes from `seed`.
    pub fn device(&self, seed: Seed) -> Box<dyn SimDeviceModel> {
        let layers: Vec<SimLayerSpec> = self.layers().collect();
        self.build(&layers, seed)
    }

    fn build(&self, layers: &[SimLayerSpec], seed: Seed) -> Box<dyn SimDeviceModel> {
        let Some((top, below)) = layers.split_last() else {
            return match self.base {
                SimBaseSpec::Queue(queue) => Box::new(queue.device(seed)),
                SimBaseSpec::Flash(flash) => Box::new(flash.device(seed)),
                SimBaseSpec::Disk(disk) => Box::new(disk.device(seed)),
            };
        };
        let inner = |seed| self.build(below, seed);
        match *top {
            SimLayerSpec::Array(array) => {
                let member = |number| inner(seed.derive("member", number));
                let members = (0..u64::from(array.disks)).map(member).collect();
                Box::new(SimArray::new(array, members))
            }
            SimLayerSpec::Cache(cache) => Box::new(SimCache::new(cache, inner(seed))),
            SimLayerSpec::Network(network) => Box::new(SimNetwork::new(network, inner(seed))),
            SimLayerSpec::Throttle(throttle) => Box::new(SimThrottle::new(throttle, inner(seed))),
        }
    }

    /// The engine of the device, on `clock`.
    pub fn engine(
        &self,
        slots: u32,
        clock: SimClock,
        seed: Seed,
    ) -> SimEngine<Box<dyn SimDeviceModel>> {
        SimEngine::new(self.to_string(), slots, clock, self.device(seed))
    }
}

impl fmt::Display for SimDeviceSpec {
    /// Its description, for reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            SimBaseSpec::Queue(queue) => write!(f, "sim, {} servers", queue.servers)?,
            SimBaseSpec::Flash(flash) => write!(f, "sim, flash of {} units", flash.units)?,
            SimBaseSpec::Disk(disk) => write!(f, "sim, disk of {} rpm", disk.rpm)?,
        }
        for layer in self.layers() {
            match layer {
                SimLayerSpec::Array(array) => match array.spread {
                    SimArrayLayout::Stripe => write!(f, ", {} striped", array.disks)?,
                    SimArrayLayout::Mirror => write!(f, ", {} mirrored", array.disks)?,
                    SimArrayLayout::Parity => write!(f, ", {} as raid5", array.disks)?,
                },
                SimLayerSpec::Cache(_) => write!(f, ", behind a cache")?,
                SimLayerSpec::Network(_) => write!(f, ", behind a network")?,
                SimLayerSpec::Throttle(_) => write!(f, ", throttled")?,
            }
        }
        write!(f, ", virtual time")
    }
}
