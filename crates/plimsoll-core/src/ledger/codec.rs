// SPDX-License-Identifier: Apache-2.0
//! The bytes of a ledger: entries one after another, each with its length and its checksum.
//!
//! Little endian: length of tag and fields (2 bytes), tag (1), fields, CRC32C of all before it in the
//! entry (4). A text is its length (2) and its UTF-8. The first entry has the tag of a campaign and
//! says the version of the format.

use super::{
    LedgerBadBlock, LedgerCompletion, LedgerCompletionStatus, LedgerDurability, LedgerEntry,
    LedgerHeader, LedgerObservation, LedgerSession, LedgerTarget, LedgerWriteIntent,
};
use crate::data_check::DataFlaw;
use crate::format::FormatVersion;
use crate::op::OpKind;
use crate::units::Nanos;
use crc32c::crc32c;

/// Longest entry, frame included.
pub const ENTRY_BYTES_MAX: usize = 8 << 10;

/// Length before, checksum behind.
const FRAME_BYTES: usize = 2 + 4;

/// Longest text: a path.
const TEXT_BYTES_MAX: usize = 4096;

/// Magic number at the beginning of a campaign: `PLIMLEDG`.
const MAGIC: u64 = u64::from_le_bytes(*b"PLIMLEDG");

/// Result of decoding the next bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerDecodeResult {
    /// An entry, and its length in bytes.
    Entry(LedgerEntry, usize),
    /// The beginning of an entry, or nothing.
    Short,
    /// No entry: its checksum is wrong, or it says what no entry says.
    Bad,
}

/// A file does not begin as a ledger does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFormatError {
    /// It begins otherwise.
    #[error("it is not a ledger of plimsoll, or its first entry is damaged")]
    Other,
    /// A newer program wrote it.
    #[error("its format is {found}, and this program reads {own}: use a newer plimsoll")]
    Newer {
        /// Of the file.
        found: FormatVersion,
        /// Of this program.
        own: FormatVersion,
    },
}

impl LedgerHeader {
    /// The campaign that a ledger begins with.
    ///
    /// # Errors
    /// When the first entry is another, or of a version that this program does not read.
    pub fn first(entry: Option<&LedgerEntry>) -> Result<LedgerHeader, LedgerFormatError> {
        let Some(LedgerEntry::Campaign(campaign)) = entry else {
            return Err(LedgerFormatError::Other);
        };
        let (own, found) = (FormatVersion::LEDGER, campaign.format);
        if !own.reads(found) {
            return Err(LedgerFormatError::Newer { found, own });
        }
        Ok(*campaign)
    }
}

/// Appends the bytes of `entry`. A text that is too long is cut.
pub fn encode(entry: &LedgerEntry, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0, 0]);
    put(entry, bytes);
    let len = u16::try_from(bytes.len() - start - 2).expect("entries are short");
    bytes[start..start + 2].copy_from_slice(&len.to_le_bytes());
    let sum = crc32c(&bytes[start..]);
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// Reads the entry at the beginning of `bytes`.
pub fn decode(bytes: &[u8]) -> LedgerDecodeResult {
    let Some(len) = bytes.first_chunk::<2>() else {
        return LedgerDecodeResult::Short;
    };
    let whole = usize::from(u16::from_le_bytes(*len)) + FRAME_BYTES;
    if whole > ENTRY_BYTES_MAX {
        return LedgerDecodeResult::Bad;
    }
    let Some(frame) = bytes.get(..whole) else {
        return LedgerDecodeResult::Short;
    };
    let (body, sum) = frame.split_at(whole - 4);
    if crc32c(body).to_le_bytes() != sum {
        return LedgerDecodeResult::Bad;
    }
    let mut take = LedgerFieldReader(&body[2..]);
    match take.entry() {
        Some(entry) if take.0.is_empty() => LedgerDecodeResult::Entry(entry, whole),
        _ => LedgerDecodeResult::Bad,
    }
}

/// The whole entries at the beginning of `bytes`, each with its length in bytes.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = (LedgerEntry, usize)> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || match decode(rest) {
        LedgerDecodeResult::Entry(entry, len) => {
            rest = &rest[len..];
            Some((entry, len))
        }
        LedgerDecodeResult::Short | LedgerDecodeResult::Bad => None,
    })
}

fn put(entry: &LedgerEntry, bytes: &mut Vec<u8>) {
    let mut put = LedgerFieldWriter(bytes);
    match entry {
        LedgerEntry::Campaign(campaign) => put.campaign(campaign),
        LedgerEntry::Target(target) => {
            put.byte(2).word(target.number).text(&target.name);
        }
        LedgerEntry::Session(session) => {
            put.byte(3).word(session.number).word(session.target);
            put.word(session.file)
                .long(session.offset)
                .long(session.bytes);
            put.time(session.write_period).time(session.read_period);
            put.text(&session.name);
        }
        LedgerEntry::Probing(from, until) => {
            put.byte(4).time(*from).time(*until);
        }
        LedgerEntry::Opened { session, epoch, at } => {
            put.byte(5).word(*session).word(*epoch).time(*at);
        }
        LedgerEntry::Issued(issued) => {
            put.byte(6).word(issued.session).long(issued.op);
            put.long(issued.offset).word(issued.len);
            put.long(issued.version).time(issued.intended_at);
        }
        LedgerEntry::Ended(ended) => put.ended(ended),
        LedgerEntry::Found(found) => put.found(found),
        LedgerEntry::Seen(seen) => {
            put.byte(9).word(seen.session).long(seen.offset);
            put.long(seen.version);
        }
        LedgerEntry::Closed { at } => {
            put.byte(10).time(*at);
        }
    }
}

/// Appends fields.
struct LedgerFieldWriter<'a>(&'a mut Vec<u8>);

impl LedgerFieldWriter<'_> {
    fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn time(&mut self, value: Nanos) -> &mut Self {
        self.long(value.0)
    }

    fn text(&mut self, text: &str) {
        let mut len = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let short = u16::try_from(len).expect("texts are short");
        self.0.extend_from_slice(&short.to_le_bytes());
        self.0.extend_from_slice(&text.as_bytes()[..len]);
    }

    fn campaign(&mut self, campaign: &LedgerHeader) {
        let FormatVersion { major, minor } = campaign.format;
        self.byte(1).long(MAGIC).word(major).word(minor);
        self.long(campaign.id).time(campaign.began_at);
        self.word(campaign.block_bytes);
        match campaign.durability {
            LedgerDurability::EachWrite => self.byte(1).word(0),
            LedgerDurability::Fsync(count) => self.byte(2).word(count),
            LedgerDurability::None => self.byte(3).word(0),
        };
    }

    fn ended(&mut self, ended: &LedgerCompletion) {
        let kind = match ended.kind {
            OpKind::Read => 1,
            OpKind::Write => 2,
            _ => 3,
        };
        self.byte(7).word(ended.session).long(ended.op).byte(kind);
        self.long(ended.offset).long(ended.version);
        self.time(ended.intended_at).time(ended.submitted_at);
        self.time(ended.ended_at);
        match ended.outcome {
            LedgerCompletionStatus::Ok => self.byte(1).word(0),
            LedgerCompletionStatus::Error(errno) => self.byte(2).word(errno.cast_unsigned()),
            LedgerCompletionStatus::GivenUp => self.byte(3).word(0),
        };
    }

    fn found(&mut self, found: &LedgerBadBlock) {
        let belongs_at = match found.flaw {
            DataFlaw::Misplaced { belongs_at } => belongs_at,
            _ => 0,
        };
        self.byte(8).word(found.session).long(found.offset);
        self.byte(number_of(found.flaw)).long(belongs_at);
    }
}

fn number_of(flaw: DataFlaw) -> u8 {
    match flaw {
        DataFlaw::Stale => 1,
        DataFlaw::Torn => 2,
        DataFlaw::Misplaced { .. } => 3,
        DataFlaw::Wrong => 4,
        DataFlaw::Unreadable => 5,
        DataFlaw::Lost => 6,
        DataFlaw::Hole => 7,
        DataFlaw::Foreign => 8,
        DataFlaw::Zombie => 9,
        DataFlaw::Diverged => 10,
        DataFlaw::Plaintext => 11,
    }
}

fn flaw_of(number: u8, belongs_at: u64) -> Option<DataFlaw> {
    Some(match number {
        1 => DataFlaw::Stale,
        2 => DataFlaw::Torn,
        3 => DataFlaw::Misplaced { belongs_at },
        4 => DataFlaw::Wrong,
        5 => DataFlaw::Unreadable,
        6 => DataFlaw::Lost,
        7 => DataFlaw::Hole,
        8 => DataFlaw::Foreign,
        9 => DataFlaw::Zombie,
        10 => DataFlaw::Diverged,
        11 => DataFlaw::Plaintext,
        _ => return None,
    })
}

/// Takes fields from the front; `None`: there are too few bytes, or they say nothing.
struct LedgerFieldReader<'a>(&'a [u8]);

impl LedgerFieldReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Nanos> {
        self.long().map(Nanos)
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::from(u16::from_le_bytes(self.array()?));
        if len > TEXT_BYTES_MAX {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn entry(&mut self) -> Option<LedgerEntry> {
        Some(match self.byte()? {
            1 => LedgerEntry::Campaign(self.campaign()?),
            2 => LedgerEntry::Target(LedgerTarget {
                number: self.word()?,
                name: self.text()?,
            }),
            3 => LedgerEntry::Session(self.session()?),
            4 => LedgerEntry::Probing(self.time()?, self.time()?),
            5 => LedgerEntry::Opened {
                session: self.word()?,
                epoch: self.word()?,
                at: self.time()?,
            },
            6 => LedgerEntry::Issued(LedgerWriteIntent {
                session: self.word()?,
                op: self.long()?,
                offset: self.long()?,
                len: self.word()?,
                version: self.long()?,
                intended_at: self.time()?,
            }),
            7 => LedgerEntry::Ended(self.ended()?),
            8 => LedgerEntry::Found(self.found()?),
            9 => LedgerEntry::Seen(LedgerObservation {
                session: self.word()?,
                offset: self.long()?,
                version: self.long()?,
            }),
            10 => LedgerEntry::Closed { at: self.time()? },
            _ => return None,
        })
    }

    fn campaign(&mut self) -> Option<LedgerHeader> {
        if self.long()? != MAGIC {
            return None;
        }
        let format = FormatVersion {
            major: self.word()?,
            minor: self.word()?,
        };
        Some(LedgerHeader {
            format,
            id: self.long()?,
            began_at: self.time()?,
            block_bytes: self.word()?,
            durability: match (self.byte()?, self.word()?) {
                (1, 0) => LedgerDurability::EachWrite,
                (2, count) => LedgerDurability::Fsync(count),
                (3, 0) => LedgerDurability::None,
                _ => return None,
            },
        })
    }

    fn session(&mut self) -> Option<LedgerSession> {
        Some(LedgerSession {
            number: self.word()?,
            target: self.word()?,
            file: self.word()?,
            offset: self.long()?,
            bytes: self.long()?,
            write_period: self.time()?,
            read_period: self.time()?,
            name: self.text()?,
        })
    }

    fn ended(&mut self) -> Option<LedgerCompletion> {
        Some(LedgerCompletion {
            session: self.word()?,
            op: self.long()?,
            kind: match self.byte()? {
                1 => OpKind::Read,
                2 => OpKind::Write,
                3 => OpKind::Fsync,
                _ => return None,
            },
            offset: self.long()?,
            version: self.long()?,
            intended_at: self.time()?,
            submitted_at: self.time()?,
            ended_at: self.time()?,
            outcome: match (self.byte()?, self.word()?) {
                (1, 0) => LedgerCompletionStatus::Ok,
                (2, errno) => LedgerCompletionStatus::Error(errno.cast_signed()),
                (3, 0) => LedgerCompletionStatus::GivenUp,
                _ => return None,
            },
        })
    }

    fn found(&mut self) -> Option<LedgerBadBlock> {
        Some(LedgerBadBlock {
            session: self.word()?,
            offset: self.long()?,
            flaw: flaw_of(self.byte()?, self.long()?)?,
        })
    }
}
