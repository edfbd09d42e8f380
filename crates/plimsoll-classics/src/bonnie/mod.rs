// SPDX-License-Identifier: Apache-2.0
//! bonnie++ 2.00: one large file byte by byte and block by block, random seeks, and many small
//! files, phase after phase. The page `docs/workloads/bonnie++.md` says what each number means.

mod phases;
mod text;

pub(crate) use text::text;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::units::parse_size;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::setting;
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(crate) const NAME: &str = "bonnie++";

const MIB: u64 = 1 << 20;
/// Size of the file when neither size nor memory is given, MiB.
const SIZE_MIB: u64 = 300;
/// Largest file: 1 PiB.
const SIZE_MIB_MAX: u64 = 1 << 30;
/// Size of a chunk when none is given, bytes; the same for large and small files.
const CHUNK: u32 = 8192;
const SEEKS: u64 = 8192;
const SEEKERS: u32 = 5;
/// Files are counted in multiples of this many.
const FILES_EACH: u32 = 1024;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "s",
        SettingUnit::Text,
        "",
        "size of the file in MiB[:chunk[:seeks[:seekers]]] (default twice r, else 300); 0: none",
    ),
    setting(
        "n",
        SettingUnit::Text,
        "16",
        "thousands (1024) of small files[:max[:min[:directories[:chunk]]]]; 0: none",
    ),
    setting(
        "r",
        SettingUnit::Text,
        "",
        "memory of the machine in MiB, to check s against; 0: no check",
    ),
    setting(
        "f",
        SettingUnit::CountOr("0"),
        "3",
        "size of the byte tests in MiB; 0: none",
    ),
    setting(
        "b",
        SettingUnit::Flag,
        "off",
        "fsync after each small file (not of its directory) and each update",
    ),
    setting(
        "D",
        SettingUnit::Flag,
        "off",
        "bypass the page cache in the block tests",
    ),
    setting(
        "c",
        SettingUnit::Count,
        "1",
        "label: copies that run at the same time",
    ),
    setting(
        "x",
        SettingUnit::Count,
        "1",
        "runs; more than one with --blocks",
    ),
    setting(
        "z",
        SettingUnit::Text,
        "",
        "label: the seed in the CSV line",
    ),
    setting(
        "m",
        SettingUnit::Text,
        "plimsoll",
        "label: name of the machine",
    ),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: NAME,
    about: "one large file by bytes, blocks and seeks, then many small files (bonnie++ 2.00)",
    settings: SETTINGS,
    build: |settings| Ok(phases::build(&BonnieOptions::read(settings)?, settings)),
}];

/// The settings, understood.
#[derive(Debug, Clone, PartialEq)]
struct BonnieOptions {
    size_mib: u64,
    chunk_bytes: u32,
    seeks: u64,
    seekers: u32,
    byte_mib: u64,
    /// Thousands of small files.
    number: u32,
    max_bytes: u64,
    min_bytes: u64,
    directories: u32,
    file_chunk_bytes: u32,
    sync: bool,
    direct: bool,
    machine: String,
    concurrency: u32,
    seed: String,
}

impl BonnieOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let ram_mib = memory(settings)?;
        let mut shape = BonnieOptions {
            size_mib: size_for(ram_mib),
            chunk_bytes: CHUNK,
            seeks: SEEKS,
            seekers: SEEKERS,
            byte_mib: 0,
            number: 0,
            max_bytes: 0,
            min_bytes: 0,
            directories: 1,
            file_chunk_bytes: CHUNK,
            sync: settings.flag("b"),
            direct: settings.flag("D"),
            machine: settings.text("m").into(),
            concurrency: settings.count_within("c", 1, 200)?,
            seed: settings.text("z").into(),
        };
        shape.read_size(settings)?;
        shape.read_number(settings)?;
        shape.byte_mib = settings.count("f").min(shape.size_mib);
        shape.check(settings, ram_mib)?;
        Ok(shape)
    }

    /// `s`: MiB, or with a unit; chunk; seeks; seekers.
    fn read_size(&mut self, settings: &SettingValues) -> Result<(), ClassicsError> {
        let parts = BonnieSettingParts::new(settings, "s", 4)?;
        if let Some(size) = parts.get(0) {
            let mib = match size.parse::<u64>() {
                Ok(mib) => Ok(mib),
                Err(_) => parse_size(size).map(|bytes| bytes / MIB),
            };
            self.size_mib = mib.map_err(|reason| parts.wrong(&reason))?;
        }
        if self.size_mib > SIZE_MIB_MAX {
            return Err(parts.wrong("the file would be larger than 1 PiB"));
        }
        if let Some(chunk) = parts.get(1) {
            self.chunk_bytes = parts.chunk(chunk)?;
        }
        self.seeks = parts.whole(2, self.seeks, 1 << 40)?;
        self.seekers = saturating_u32(parts.whole(3, self.seekers.into(), 4096)?);
        if self.direct && self.chunk_bytes < 512 {
            return Err(parts.wrong("direct I/O (D) needs a chunk of 512 bytes or more"));
        }
        Ok(())
    }

    /// `n`: thousands of files; largest and smallest size; directories; chunk.
    fn read_number(&mut self, settings: &SettingValues) -> Result<(), ClassicsError> {
        let parts = BonnieSettingParts::new(settings, "n", 5)?;
        self.number = saturating_u32(parts.whole_from_zero(0, 16, 1_000_000)?);
        if let Some(max) = parts.get(1) {
            if max.starts_with('-') {
                return Err(parts.wrong("files that are links (-1, -2) are not offered here"));
            }
            self.max_bytes = parse_size(max).map_err(|reason| parts.wrong(&reason))?;
        }
        if let Some(min) = parts.get(2) {
            self.min_bytes = parse_size(min).map_err(|reason| parts.wrong(&reason))?;
        }
        if self.min_bytes > self.max_bytes {
            return Err(parts.wrong("the smallest size is above the largest"));
        }
        self.directories = saturating_u32(parts.whole(3, 1, 1_000_000)?);
        if let Some(chunk) = parts.get(4) {
            self.file_chunk_bytes = parts.chunk(chunk)?;
        }
        Ok(())
    }

    fn check(&self, settings: &SettingValues, ram_mib: u64) -> Result<(), ClassicsError> {
        if self.size_mib == 0 && self.number == 0 {
            return Err(settings.wrong("s", "0", "without small files (n) there is nothing to do"));
        }
        let together = self.size_mib.saturating_mul(self.concurrency.into());
        if self.size_mib > 0 && together < ram_mib.saturating_mul(2) {
            let reason = format!(
                "it should be twice the memory of {ram_mib} MiB, or the page cache answers; \
                 r=0 switches this check off"
            );
            return Err(settings.wrong("s", &self.size_mib.to_string(), &reason));
        }
        if settings.count("x") > 1 {
            let reason = "repeats are the blocks of a comparison: use --blocks";
            return Err(settings.wrong("x", settings.text("x"), reason));
        }
        Ok(())
    }

    /// Small files.
    fn files(&self) -> u32 {
        self.number.saturating_mul(FILES_EACH)
    }
}

/// Memory in MiB; 0 when it is not known or not to be checked against.
/// Where its numbers differ from those of the original.
pub(crate) fn notes() -> Vec<String> {
    vec![
        "unlike in bonnie++, chunks hold random bytes (there zeros, which some storage does not \
         store), and 3 MiB are moved byte by byte (20 MiB there); %CPU of the seeks counts each \
         worker once (there the whole process once for each)"
            .to_owned(),
    ]
}

fn memory(settings: &SettingValues) -> Result<u64, ClassicsError> {
    match settings.text("r") {
        "" => Ok(0),
        text => match text.parse::<u64>() {
            Ok(mib) if mib <= SIZE_MIB_MAX => Ok(mib),
            _ => Err(settings.wrong("r", text, "expected a whole number of MiB")),
        },
    }
}

/// Twice the memory, to the next GiB where more than half of it is begun; 300 MiB at least.
fn size_for(ram_mib: u64) -> u64 {
    let size = SIZE_MIB.max(ram_mib * 2);
    if ram_mib > 0 && size % 1024 > 512 {
        return size.next_multiple_of(1024);
    }
    size
}

/// The value of a setting that is parts between colons; an empty part has its default.
struct BonnieSettingParts<'a> {
    settings: &'a SettingValues,
    name: &'a str,
    parts: Vec<&'a str>,
}

impl<'a> BonnieSettingParts<'a> {
    fn new(settings: &'a SettingValues, name: &'a str, most: usize) -> Result<Self, ClassicsError> {
        let parts: Vec<&str> = settings.text(name).split(':').collect();
        let count = parts.len();
        let parts = BonnieSettingParts {
            settings,
            name,
            parts,
        };
        if count > most {
            return Err(parts.wrong(&format!("expected at most {most} parts between colons")));
        }
        Ok(parts)
    }

    fn get(&self, place: usize) -> Option<&'a str> {
        let part = self.parts.get(place).copied();
        part.filter(|part| !part.is_empty())
    }

    fn whole(&self, place: usize, default: u64, most: u64) -> Result<u64, ClassicsError> {
        match self.whole_from_zero(place, default, most)? {
            0 => Err(self.wrong("a part is 0 and must be at least 1")),
            value => Ok(value),
        }
    }

    fn whole_from_zero(&self, place: usize, default: u64, most: u64) -> Result<u64, ClassicsError> {
        let Some(part) = self.get(place) else {
            return Ok(default);
        };
        match part.parse() {
            Ok(value) if value <= most => Ok(value),
            _ => Err(self.wrong(&format!("expected an integer up to {most}, got '{part}'"))),
        }
    }

    /// A chunk: a power of two of 256 bytes to 1 MiB.
    fn chunk(&self, part: &str) -> Result<u32, ClassicsError> {
        let bytes = parse_size(part).map_err(|reason| self.wrong(&reason))?;
        if bytes.is_power_of_two() && (256..=MIB).contains(&bytes) {
            return Ok(saturating_u32(bytes));
        }
        Err(self.wrong("expected a chunk that is a power of two from 256 to 1 MiB"))
    }

    fn wrong(&self, reason: &str) -> ClassicsError {
        let value = self.settings.text(self.name);
        self.settings.wrong(self.name, value, reason)
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, refused};

    use super::*;

    fn shape(given: &[(&str, &str)]) -> BonnieOptions {
        let classic = built(NAME, given).classic.unwrap();
        let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).unwrap();
        BonnieOptions::read(&settings).unwrap()
    }

    #[test]
    fn the_size_follows_the_memory_and_the_parts_their_colons() {
        for (given, size_mib) in [
            (&[][..], 300),
            (&[("r", "100")], 300),
            (&[("r", "1100")], 2200),
            (&[("r", "1000")], 2048),
            (&[("r", "0")], 300),
            (&[("s", "2g"), ("r", "1024")], 2048),
            (&[("s", "64")], 64),
            (&[("s", "500"), ("r", "1000"), ("c", "4")], 500),
        ] {
            assert_eq!(shape(given).size_mib, size_mib, "{given:?}");
        }
        let all = shape(&[("s", "64:512:100:3"), ("n", "2:10k:1k:4:256")]);
        assert_eq!((all.chunk_bytes, all.seeks, all.seekers), (512, 100, 3));
        assert_eq!((all.number, all.directories), (2, 4));
        assert_eq!((all.max_bytes, all.min_bytes), (10_240, 1024));
        assert_eq!(all.file_chunk_bytes, 256);
        let some = shape(&[("s", "64::100")]);
        assert_eq!((some.chunk_bytes, some.seeks, some.seekers), (8192, 100, 5));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (
                &[("s", "100"), ("r", "64")][..],
                "twice the memory of 64 MiB",
            ),
            (&[("s", "64:1000")], "power of two"),
            (&[("s", "64:128")], "power of two"),
            (&[("s", "64:8k:1:1:1")], "at most 4 parts"),
            (&[("s", "64:8k:0")], "at least 1"),
            (&[("s", "64:256"), ("D", "on")], "512 bytes or more"),
            (&[("s", "0"), ("n", "0")], "nothing to do"),
            (&[("s", "many")], "expected a size"),
            (&[("n", "1:-1")], "links"),
            (&[("n", "1:10:20")], "above the largest"),
            (&[("n", "x")], "got 'x'"),
            (&[("x", "3")], "--blocks"),
            (&[("c", "201")], "from 1 to 200"),
            (&[("r", "1g")], "whole number of MiB"),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
