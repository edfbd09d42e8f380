// SPDX-License-Identifier: Apache-2.0
//! Files that are close to a recording, and what makes one of them.

use crate::error::TraceError;
use crate::text::{cells, first_line, lines, words};
use plimsoll_core::text::printable;

/// A kind of file that is not read.
struct Resembling {
    is: fn(head: &[u8]) -> bool,
    /// Kind of the file, and the remedy.
    hint: &'static str,
}

/// The first two bytes of the files that sar and sadc write, in either byte order.
const SA_MAGIC: [[u8; 2]; 2] = [[0x96, 0xd5], [0xd5, 0x96]];

/// The first bytes of the files that atop writes on little-endian machines.
const ATOP_MAGIC: [u8; 4] = [0xef, 0xbe, 0xed, 0xfe];

const ALL: [Resembling; 14] = [
    Resembling {
        is: |head| SA_MAGIC.iter().any(|magic| head.starts_with(magic)),
        hint: "it is a binary file of sar; convert it: sadf -j FILE -- -d -p > FILE.json",
    },
    Resembling {
        is: |head| starts_with_line(head, b"Linux ") && has_words(head, &["tps", "rtps"]),
        hint: "it is the text of sar -b, which sums up all disks; take each from sar's own \
               file: sadf -j FILE -- -d -p > FILE.json",
    },
    Resembling {
        is: |head| head.starts_with(&ATOP_MAGIC),
        hint: "it is a file of atop; let atop print it: atop -r FILE -P DSK > FILE.txt",
    },
    Resembling {
        is: |head| head.starts_with(b"#####") && has_words(head, &["#", "Collectl:"]),
        hint: "it is a raw file of collectl; let collectl print it: \
               collectl -p FILE -sD -P -oUm > FILE.txt",
    },
    Resembling {
        is: |head| head.starts_with(b"\"pcp-dstat "),
        hint: "it is the CSV of pcp dstat, whose times have no year; give the PCP archive that it was \
               printed from, or record with dool --output",
    },
    Resembling {
        is: |head| {
            has_words(head, &["mounted", "on"]) && has_words(head, &["read:", "kB/op", "retrans"])
        },
        hint: "it is the text of nfsiostat, which has no times; print date +%s.%N and \
               /proc/self/mountstats again and again",
    },
    Resembling {
        is: |head| starts_with_line(head, b"Linux ") && has_words(head, &["avg-cpu:"]),
        hint: "it is a text of iostat without disks; record with iostat -xt 1",
    },
    Resembling {
        is: |head| starts_with_line(head, b"Linux ") && has_words(head, &["kB_rd/s", "kB_wr/s"]),
        hint: "it is the text of pidstat -d, which lists processes; record disks with iostat -xt 1",
    },
    Resembling {
        is: |head| {
            let has = |part: &[u8]| head.windows(part.len()).any(|found| found == part);
            head.trim_ascii_start().starts_with(b"{")
                && (has(b"\"warp_version\"") || has(b"\"by_op_type\""))
        },
        hint: "it is warp's sums; run warp with --full, and give its .csv.zst, which lists every operation",
    },
    Resembling {
        is: is_placeless_fio,
        hint: "it is a log of fio without offsets; record with write_lat_log=NAME and log_offset=1, and \
               give NAME_clat.1.log",
    },
    Resembling {
        is: |head| has_words(head, &["Total", "DISK"]),
        hint: "it is the text of iotop, which lists processes; record disks with iostat -xt 1",
    },
    Resembling {
        // The types of the columns stand behind a point: LBA.I, LATENCY_USECS.D.
        is: |head| has_columns(head, &["cmd|op", "lba", "nblks|size|len", "elapsed_usecs"]),
        hint: "it is a trace of hfplayer (NetApp); the closest format that is read is MSR's CSV: print \
               of each row time in units of 100 ns since 1601,host,number of the disk,Read or Write,\
               offset in bytes,bytes,response time in units of 100 ns",
    },
    Resembling {
        is: |head| {
            has_columns(
                head,
                &[
                    "time|timestamp",
                    "size|obj_size",
                    "lbn|lba|obj_id|object|id",
                ],
            )
        },
        hint: "it is a CSV of libCacheSim; if its objects are blocks of a disk, open the vscsi file \
               it was made of, or print its rows as Alibaba's CSV, the closest format that is read: \
               volume,R or W,offset in bytes,bytes,microseconds",
    },
    Resembling {
        is: is_formatted_blkparse,
        hint: "it seems to be text of blkparse with a format of its own (-f); print it again without: \
               blkparse -i TRACE > FILE.txt, or open the files TRACE.blktrace.* themselves",
    },
];

/// Whether the first line is a heading in which each of these columns stands, by one of its names
/// (`a|b`).
fn has_columns(head: &[u8], wanted: &[&str]) -> bool {
    let Some(heading) = first_line(head) else {
        return false;
    };
    let heading = String::from_utf8_lossy(heading).to_ascii_lowercase();
    let name = |column: &str| -> String {
        let bare = column.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '#');
        bare.split('.').next().unwrap_or(bare).into()
    };
    let columns: Vec<String> = heading.split([',', ';', '\t']).map(name).collect();
    wanted.iter().all(|names| {
        let mut names = names.split('|');
        names.any(|wanted| columns.iter().any(|column| column == wanted))
    })
}

/// Whether most of the first lines hold an action of the block layer followed by the letters that name
/// what it does, such as `Q` and `WS`, or it ends in blkparse's summary.
fn is_formatted_blkparse(head: &[u8]) -> bool {
    const LOOKED_AT: usize = 16;
    let is_action = |word: &[u8]| {
        matches!(
            word,
            [b'A' | b'C' | b'D' | b'F' | b'G' | b'I' | b'M' | b'Q']
        )
    };
    let is_kind = |word: &[u8]| {
        word.len() <= 6
            && word.iter().all(|byte| b"RWDFNSAMVB".contains(byte))
            && word.iter().any(|byte| b"RWDF".contains(byte))
    };
    let is_event = |line: &[u8]| {
        let split = line.split(|byte| byte.is_ascii_whitespace() || b",;|".contains(byte));
        let found: Vec<&[u8]> = split.filter(|word| !word.is_empty()).collect();
        let action = found.iter().position(|word| is_action(word));
        action.is_some_and(|at| found[at + 1..].iter().any(|word| is_kind(word)))
    };
    let first = || lines(head).filter(|line| !line.is_empty()).take(LOOKED_AT);
    let events = first().filter(|line| is_event(line)).count();
    2 * events > first().count() || has_words(head, &["Reads", "Queued:"])
}

/// Whether the first line is time, value, direction, block size and, in newer versions, priority.
fn is_placeless_fio(head: &[u8]) -> bool {
    let Some(line) = first_line(head) else {
        return false;
    };
    let line = String::from_utf8_lossy(line);
    let fields: Vec<&str> = line.split(", ").collect();
    let number = |field: &str| field.parse::<u64>().ok();
    let numbers = fields.iter().filter_map(|field| number(field)).count();
    matches!(fields.len(), 4 | 5) && numbers >= 4 && number(fields[2]).is_some_and(|way| way < 3)
}

fn starts_with_line(head: &[u8], start: &[u8]) -> bool {
    lines(head).any(|line| line.starts_with(start))
}

/// Whether a line holds these words among others, in this order.
fn has_words(head: &[u8], wanted: &[&str]) -> bool {
    lines(head).any(|line| {
        let mut rest = words(line);
        wanted
            .iter()
            .all(|word| rest.any(|found| found == word.as_bytes()))
    })
}

/// Advice for a file that begins so, if it is close to a recording.
pub(super) fn hint(head: &[u8]) -> Option<&'static str> {
    let found = ALL.iter().find(|resembling| (resembling.is)(head));
    found.map(|resembling| resembling.hint)
}

/// Error for a file of no known format that begins so, with the known format that it is close to.
pub(crate) fn unknown(file: &str, head: &[u8], formats: &[&str]) -> TraceError {
    let begins = beginning(head);
    let closest = match hint(head) {
        Some(hint) => Some(hint.to_owned()),
        None => table(head).map(|kind| {
            format!(
                "it begins with {begins}; the closest that is read is a {kind} table with columns by name: \
                 say what its columns are in the file that plimsoll new mapping {file} begins"
            )
        }),
    };
    let closest = closest.unwrap_or_else(|| {
        let formats = formats.join(", ");
        match begins.is_empty() {
            true => format!("or its beginning is damaged; known formats: {formats}"),
            false => format!(
                "or its beginning is damaged: it begins with {begins}; known formats: {formats}"
            ),
        }
    });
    TraceError::Unknown {
        file: file.into(),
        closest,
    }
}

/// Kind of table that a text may be.
fn table(head: &[u8]) -> Option<&'static str> {
    let line = first_line(head)?;
    let separated = |separator: &u8| cells(line, *separator).count() > 1;
    match line.trim_ascii_start().first()? {
        b'{' | b'[' => Some("JSON"),
        _ if beginning(head).is_empty() => None,
        _ => b",;\t".iter().any(separated).then_some("CSV"),
    }
}

/// The first lines of a text as they are shown; nothing of other bytes.
fn beginning(head: &[u8]) -> String {
    const LINES: usize = 2;
    const SHOWN: usize = 60;
    let is_text = |line: &&[u8]| str::from_utf8(line).is_ok() && !line.contains(&0);
    let first = lines(head).filter(|line| !line.is_empty()).take(LINES);
    let shown = first.take_while(is_text).map(|line| {
        let text: String = String::from_utf8_lossy(line).chars().take(SHOWN).collect();
        format!("'{}'", printable(&text))
    });
    shown.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_close_to_a_recording_gets_the_command_that_makes_one() {
        let cases: [(&[u8], &str); 17] = [
            (b"\x96\xd5\x75\x21\x0c\x06", "sadf -j"),
            (
                b"Linux 6.1 (vm) \t11/21/26\n\n07:36:12          tps      rtps      wtps\n",
                "sar -b",
            ),
            (b"\xef\xbe\xed\xfe\x08\x82", "atop -r FILE"),
            (b"#######\n# Collectl:   V4.3.1-1  HiRes: 1\n", "collectl -p"),
            (b"\"pcp-dstat 6.0.3 CSV Output\"\n", "PCP archive"),
            (b"xx:/ mounted on /mnt:\n\nread:  ops/s kB/s kB/op retrans\n", "mountstats"),
            (b"Linux 6.1 (vm)\n\navg-cpu:  %user\n", "without disks"),
            (b"Total DISK READ: 0.00 B/s\n", "iotop"),
            (
                b"Linux 6.1 (vm) \t11/21/26\n\n05:44:05 UID PID kB_rd/s kB_wr/s kB_ccwr/s iodelay Command\n",
                "pidstat",
            ),
            (b"0, 110229, 0, 4096, 0\n", "log_offset=1"),
            (b"0, 110229, 1, 4096\n", "log_offset=1"),
            (b"{\"v\":2,\"warp_version\":\"1.3.0\",\"total\":{}}", "--full"),
            (b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n", "libCacheSim"),
            (b"# Time; Object; Size; next_access_vtime\n1;2;3;4\n", "libCacheSim"),
            (
                b"#DUMP_OFFSET.I,ELAPSED_USECS.D,CMD.S,LBA.I,NBLKS.I,LATENCY_USECS.D\n1,50,RD,2,2,9\n",
                "MSR's CSV",
            ),
            (b"0.000001 Q WS 2048 8\n0.000009 C WS 2048 8\n", "blkparse -i"),
            (b"CPU0 (8,0):\n Reads Queued:  3,  12KiB\n", "blkparse -i"),
        ];
        for (head, part) in cases {
            let hint = hint(head).unwrap_or_else(|| panic!("{part}"));
            assert!(hint.contains(part), "{part}: {hint}");
        }
        for other in [
            "hello\nworld\n",
            "",
            "time,name\n1,2\n",
            "A WORD OF\nNOTHING\nAT ALL\n",
        ] {
            assert_eq!(hint(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_file_of_no_known_format_is_shown_with_the_closest_and_the_way_to_it() {
        for (head, parts) in [
            (
                &b"when;what\n1;2\n3;4\n"[..],
                [
                    "'when;what' and '1;2'",
                    "CSV table",
                    "plimsoll new mapping f",
                ],
            ),
            (
                b"{\"a\": 1}\n",
                ["'{\"a\": 1}'", "JSON table", "plimsoll new mapping f"],
            ),
            (
                b"hello\x1b[2J\n",
                [
                    "begins with 'hello\u{fffd}[2J'",
                    "known formats: x",
                    "damaged",
                ],
            ),
            (
                b"\x00\xff\n",
                ["beginning is damaged; known", "formats: x", "or"],
            ),
        ] {
            let error = unknown("f", head, &["x"]).to_string();
            for part in parts {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }
}
