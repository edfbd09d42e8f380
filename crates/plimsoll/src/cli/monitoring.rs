// SPDX-License-Identifier: Apache-2.0
//! `prometheus:URL` in place of a recording: the counters of disks that a system of monitoring holds.
//!
//! Source: the HTTP API of Prometheus. A selector with a range (`{…}[1d]`) gives the samples as they were
//! scraped, at their own times, so that no step is assumed, nothing is filled in between, and the limit of
//! 11,000 points a series does not apply. The window is asked for in parts that are small enough for the
//! server's limit on samples of a query.
//!
//! Manual: `docs/recordings.md`.

use jiff::Timestamp;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_console::terminal;
use plimsoll_core::text::printable;
use plimsoll_core::units;
use plimsoll_remote::{MonitoringOptions, MonitoringServer, MonitoringToken, RemoteError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the name of a recording that is queried from Prometheus.
const SCHEME: &str = "prometheus:";
/// Where the token is found.
const TOKEN: &str = "PLIMSOLL_PROMETHEUS_TOKEN";
const DAY_S: i64 = 86_400;
/// Samples of one question, where targets are scraped every second: a tenth of what Prometheus allows.
const SAMPLES_EACH: i64 = 5_000_000;
/// Limits of those who give none.
const TIME: Duration = Duration::from_secs(600);
const SIZE_BYTES: u64 = 2 << 30;
const DAYS_MAX: i64 = 3_660;
/// Disks and machines that are listed when the wanted ones are not there.
const LISTED_MAX: usize = 12;

/// Most bytes of a list of series: those of a hundred thousand.
const LIST_BYTES_MAX: usize = 32 << 20;

/// A list of series, which is held in memory.
struct HeldList(Vec<u8>);

impl io::Write for HeldList {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LIST_BYTES_MAX {
            return Err(io::Error::other(
                "it lists more than 32 MiB of series; name a machine or a disk",
            ));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Recordings as files: those of systems of monitoring lie in folders that go with this value.
pub(super) struct RecordingPaths {
    paths: Vec<PathBuf>,
    _folders: Vec<tempfile::TempDir>,
}

impl Deref for RecordingPaths {
    type Target = [PathBuf];

    fn deref(&self) -> &[PathBuf] {
        &self.paths
    }
}

/// Fetches the recordings that systems of monitoring hold; all others stay as they are.
pub(super) fn fetched(named: Vec<PathBuf>) -> Result<RecordingPaths, CliError> {
    let mut folders = Vec::new();
    let mut paths = Vec::new();
    for path in named {
        let text = path.to_str().and_then(|text| text.strip_prefix(SCHEME));
        match text {
            None => paths.push(path),
            Some(text) => {
                let folder = tempfile::Builder::new()
                    .prefix("plimsoll-monitoring-")
                    .tempdir();
                let folder = folder.map_err(|error| unwritten(&error))?;
                paths.push(MonitoringQuestion::parse(text)?.fetch(folder.path())?);
                folders.push(folder);
            }
        }
    }
    Ok(RecordingPaths {
        paths,
        _folders: folders,
    })
}

fn unwritten(error: &io::Error) -> CliError {
    CliError::new(
        CliExitCode::Failed,
        format!("keep what monitoring answers: {error}"),
    )
}

/// Query, and the server that it goes to.
struct MonitoringQuestion {
    server: MonitoringOptions,
    /// Labels and what they must be.
    labels: BTreeMap<String, String>,
    from_s: i64,
    to_s: i64,
}

impl MonitoringQuestion {
    /// `http://HOST:PORT?instance=db1:9100&device=sda&window=7d`.
    fn parse(text: &str) -> Result<MonitoringQuestion, CliError> {
        let (address, rest) = text.split_once('?').unwrap_or((text, ""));
        let mut labels = parts(rest)?;
        let mut take = |name: &str| labels.remove(name);
        let now_s = Timestamp::now().as_second();
        let to_s = take("to").map_or(Ok(now_s), |text| instant_s(&text))?;
        let length_s = take("window").map(|text| days_s(&text)).transpose()?;
        let from_s = take("from").map(|text| instant_s(&text)).transpose()?;
        let from_s = match (from_s, length_s) {
            (Some(_), Some(_)) => {
                return Err(invalid("window", "from and window exclude each other"));
            }
            (Some(from_s), None) => from_s,
            (None, length_s) => to_s - length_s.unwrap_or(7 * DAY_S),
        };
        if from_s >= to_s || to_s - from_s > DAYS_MAX * DAY_S {
            return Err(invalid(
                "window",
                "expected at least a second, at most ten years",
            ));
        }
        let time = take("time-limit").map(|text| units::parse_duration(&text));
        let time = time
            .transpose()
            .map_err(|what| invalid("time-limit", &what))?;
        let size = take("size-limit").map(|text| units::parse_size(&text));
        let size = size
            .transpose()
            .map_err(|what| invalid("size-limit", &what))?;
        let server = MonitoringOptions {
            address: address.into(),
            token_file: take("token-file").map(PathBuf::from),
            token: std::env::var(TOKEN)
                .ok()
                .filter(|t| !t.is_empty())
                .map(MonitoringToken),
            ca: take("ca").map(PathBuf::from),
            time: time.map_or(TIME, |time| Duration::from_nanos(time.0)),
            bytes: size.unwrap_or(SIZE_BYTES),
        };
        let is_label = |name: &str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !name.is_empty() && name.chars().all(is_word) && !name.starts_with("__")
        };
        if let Some(name) = labels.keys().find(|name| !is_label(name)) {
            return Err(invalid(name, "it is no label, and no part of a question"));
        }
        Ok(MonitoringQuestion {
            server,
            labels,
            from_s,
            to_s,
        })
    }

    /// Asks, and keeps the answers in a file of this folder.
    fn fetch(&self, folder: &Path) -> Result<PathBuf, CliError> {
        let mut server = MonitoringServer::of(&self.server).map_err(|error| self.failed(&error))?;
        let wanted = selector(&self.labels);
        let series = self.series(&mut server, &wanted)?;
        if series.is_empty() {
            return Err(self.nothing(&mut server));
        }
        let of_labels: Vec<&str> = self.labels.values().map(String::as_str).collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = format!("prometheus {}.json", of_labels.join(" "));
        let path = folder.join(name.replace(|c| !is_plain(c), "-"));
        let file = File::create_new(&path).map_err(|error| unwritten(&error))?;
        let mut file = BufWriter::new(file);
        let count = i64::try_from(series.len()).unwrap_or(SAMPLES_EACH);
        let part_s = (SAMPLES_EACH / count).clamp(60, DAY_S);
        let mut end_s = self.from_s;
        while end_s < self.to_s {
            let begin_s = end_s;
            end_s = (begin_s + part_s).min(self.to_s);
            let query = encoded(&format!("{wanted}[{}s]", end_s - begin_s));
            let asked = format!("/api/v1/query?query={query}&time={end_s}");
            server
                .get(&asked, &mut file)
                .map_err(|error| self.failed(&error))?;
            file.write_all(b"\n").map_err(|error| unwritten(&error))?;
        }
        file.flush().map_err(|error| unwritten(&error))?;
        terminal::say(&format!(
            "note: {} series of {} were fetched from {}",
            series.len(),
            wanted
                .split_once("\",")
                .map_or("all disks", |(_, labels)| labels.trim_end_matches('}')),
            printable(&self.server.address)
        ));
        Ok(path)
    }

    /// The series of a selector in the window, by their labels.
    fn series(
        &self,
        server: &mut MonitoringServer,
        selector: &str,
    ) -> Result<Vec<BTreeMap<String, String>>, CliError> {
        let path = format!(
            "/api/v1/series?match[]={}&start={}&end={}",
            encoded(selector),
            self.from_s,
            self.to_s
        );
        let mut held = HeldList(Vec::new());
        server
            .get(&path, &mut held)
            .map_err(|error| self.failed(&error))?;
        let answer: Value = serde_json::from_slice(&held.0).unwrap_or_default();
        let series = serde_json::from_value(answer["data"].clone());
        match (answer["status"] == "success", series) {
            (true, Ok(series)) => Ok(series),
            _ => {
                let text = "its list of series is not as Prometheus gives it";
                Err(self.failed(&RemoteError::Away {
                    reason: text.into(),
                }))
            }
        }
    }

    /// Why nothing was found: what is there instead.
    fn nothing(&self, server: &mut MonitoringServer) -> CliError {
        let all = match self.series(server, &selector(&BTreeMap::new())) {
            Ok(all) => all,
            Err(error) => return error,
        };
        let shown = |series: &BTreeMap<String, String>| {
            let labels = ["instance", "host", "device", "volume", "name"];
            let named = labels
                .iter()
                .filter_map(|label| Some((label, series.get(*label)?)));
            let named: Vec<String> = named
                .map(|(label, value)| format!("{label}={value}"))
                .collect();
            printable(&named.join("&"))
        };
        let there: BTreeSet<String> = all.iter().map(shown).collect();
        let mut listed: Vec<&str> = there.iter().take(LISTED_MAX).map(String::as_str).collect();
        if there.len() > LISTED_MAX {
            listed.push("…");
        }
        let address = printable(&self.server.address);
        if listed.is_empty() {
            let text = format!("{address} has no counters of disks in this window");
            return CliError::invalid(text).hint(
                "choose another window; known are those of node_exporter, windows_exporter, cAdvisor and \
                 Telegraf under their own names, such as node_disk_reads_completed_total",
            );
        }
        let text = format!("{address} has no counters of disks with these labels");
        CliError::invalid(text).hint(format!("it has {}", listed.join(", ")))
    }

    fn failed(&self, error: &RemoteError) -> CliError {
        let address = printable(&self.server.address);
        match error {
            RemoteError::Usage { text, hint } => {
                CliError::invalid(format!("{address}: {text}")).hint(hint)
            }
            RemoteError::Away { reason } => {
                CliError::new(CliExitCode::Failed, format!("ask {address}: {reason}"))
            }
        }
    }
}

/// The parts of a question, by name.
fn parts(text: &str) -> Result<BTreeMap<String, String>, CliError> {
    let mut labels = BTreeMap::new();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let named = part.split_once('=');
        let named = named.and_then(|(name, value)| Some((name, decoded(value)?)));
        let (name, value) = named.ok_or_else(|| invalid(part, "expected NAME=VALUE"))?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(invalid(part, "it stands twice"));
        }
    }
    Ok(labels)
}

/// Selector of the counters of disks with these labels.
fn selector(labels: &BTreeMap<String, String>) -> String {
    let names: Vec<String> = plimsoll_trace::counters::monitored_names().collect();
    let mut text = format!("{{__name__=~\"{}\"", names.join("|"));
    for (label, value) in labels {
        let _ = write!(text, ",{label}={}", Value::from(value.as_str()));
    }
    text + "}"
}

fn invalid(part: &str, what: &str) -> CliError {
    let text = format!(
        "invalid part '{}' of a recording prometheus:URL: {what}",
        printable(part)
    );
    CliError::invalid(text).hint(
        "give prometheus:http://HOST:PORT?instance=db1:9100&device=sda&window=7d; instead of window, \
         from=TIME and to=TIME",
    )
}

/// A time as RFC 3339 or in seconds since 1970.
fn instant_s(text: &str) -> Result<i64, CliError> {
    let second = text.parse().ok();
    let second = second.or_else(|| text.parse::<Timestamp>().ok().map(Timestamp::as_second));
    second
        .filter(|second| (0..1 << 40).contains(second))
        .ok_or_else(|| invalid(text, "expected a time such as 2026-11-20T08:00:00Z"))
}

/// Seconds of `90s`, `12h`, `7d` or `2w`.
fn days_s(text: &str) -> Result<i64, CliError> {
    let in_days = [("d", DAY_S), ("w", 7 * DAY_S)];
    let found = in_days.iter().find_map(|(unit, length_s)| {
        let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
        Some(i64::from(count) * length_s)
    });
    if let Some(found) = found {
        return Ok(found);
    }
    let time = units::parse_duration(text).map_err(|what| invalid(text, &what))?;
    Ok(i64::try_from(time.0 / 1_000_000_000).unwrap_or(i64::MAX))
}

/// As part of an address.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The other way round; `None` for a percent sign without two digits, or what is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_a_server_labels_and_a_window() {
        let text = "http://h:9090/p?instance=db1:9100&device=a%20b&from=2026-11-20T00:00:00Z&to=1795219200";
        let asked = MonitoringQuestion::parse(text).unwrap();
        assert_eq!((asked.from_s, asked.to_s), (1_795_132_800, 1_795_219_200));
        assert_eq!(asked.server.address, "http://h:9090/p");
        let end = selector(&asked.labels);
        assert!(
            end.ends_with(r#"",device="a b",instance="db1:9100"}"#),
            "{end}"
        );
        assert_eq!(encoded(r#"{a="é"}"#), "%7Ba%3D%22%C3%A9%22%7D");
        let week = MonitoringQuestion::parse("http://h").unwrap();
        assert_eq!(week.to_s - week.from_s, 7 * DAY_S);
    }

    #[test]
    fn a_question_that_is_none_says_which_part() {
        for (rest, part) in [
            ("window=7y", "unknown unit"),
            ("window=0s", "at least a second"),
            ("window=999999w", "at most ten years"),
            ("from=1&window=1d", "exclude each other"),
            ("to=yesterday", "expected a time"),
            ("device", "expected NAME=VALUE"),
            ("device=%4", "expected NAME=VALUE"),
            ("device=a&device=b", "stands twice"),
            ("a-b=1", "is no label"),
            ("__name__=up", "is no label"),
            ("size-limit=much", "size-limit"),
        ] {
            let error = MonitoringQuestion::parse(&format!("http://h?{rest}"))
                .err()
                .unwrap();
            assert!(error.text().contains(part), "{rest}: {}", error.text());
        }
    }
}
