// SPDX-License-Identifier: Apache-2.0
//! `prometheus:URL`: a week of a real Prometheus, and servers that mean harm.
//!
//! The source is `monitoring/diskstats.txt`: `/proc/diskstats` of a virtual disk, 100 times a second
//! apart, while this project was built on it. A real node_exporter turns it into its metrics, Prometheus's
//! own tool makes a week of them, in which a sample comes every minute, as is Prometheus's default, and the
//! source again and again. A real Prometheus is asked (Debian: `prometheus`, `prometheus-node-exporter`;
//! scripts/setup.sh has both).

use crate::support::{Lab, program, skipped, text, timed, until};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SOURCE: &str = include_str!("monitoring/diskstats.txt");
/// 2026-11-16 00:00 UTC.
const FROM_S: u64 = 1_794_787_200;
const STEP_S: u64 = 60;
const WEEK_S: u64 = 7 * 86_400;

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(lab: &Lab, name: &str, args: &[&str]) -> Running {
    let mut command = lab.command_of(name, args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The body of an answer; `None` while nothing listens or it is not ready.
fn asked(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Values that node_exporter makes of each line of the source: by metric, in thousandths.
fn exported(lab: &Lab) -> BTreeMap<String, Vec<i64>> {
    let folder = lab.directory("proc");
    let show =
        |line: &str| std::fs::write(lab.path("proc/diskstats"), format!("{line}\n")).unwrap();
    show("");
    let port = free_port();
    let exporter = started(
        lab,
        "prometheus-node-exporter",
        &[
            &format!("--path.procfs={folder}"),
            "--collector.disable-defaults",
            "--collector.diskstats",
            &format!("--web.listen-address=127.0.0.1:{port}"),
        ],
    );
    until("exporter", || asked(port, "/metrics").is_some());
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in SOURCE.lines().filter(|line| line.contains(" vda ")) {
        show(line);
        let text = asked(port, "/metrics").unwrap();
        let samples = text
            .lines()
            .filter_map(|line| line.split_once("{device=\"vda\"} "));
        for (name, value) in samples.filter(|(name, _)| name.starts_with("node_disk_")) {
            let value: f64 = value.parse().unwrap();
            #[expect(clippy::cast_possible_truncation, reason = "they are far from the end")]
            found
                .entry(name.into())
                .or_default()
                .push((value * 1e3).round() as i64);
        }
    }
    drop(exporter);
    found
}

/// A week of the metrics as OpenMetrics, and by how much each counter rises in it, in thousandths.
fn week(source: &BTreeMap<String, Vec<i64>>) -> (String, BTreeMap<&str, i64>) {
    let (mut text, mut rises) = (String::new(), BTreeMap::new());
    for (name, values) in source {
        let is_counter = name.ends_with("_total");
        let (first, last) = (values[0], values[values.len() - 1]);
        let period = values.len() - 1;
        let at = |step: usize| {
            let rise = i64::try_from(step / period).unwrap() * (last - first);
            values[step % period] + if is_counter { rise } else { 0 }
        };
        let kind = if is_counter { "counter" } else { "gauge" };
        let _ = writeln!(text, "# TYPE {} {kind}", name.trim_end_matches("_total"));
        let steps = usize::try_from(WEEK_S / STEP_S).unwrap();
        for step in 0..=steps {
            let (value, at_s) = (at(step), FROM_S + step as u64 * STEP_S);
            let (whole, rest) = (value / 1_000, value % 1_000);
            let _ = writeln!(
                text,
                "{name}{{device=\"vda\",instance=\"build:9100\",job=\"node\"}} {whole}.{rest:03} {at_s}.781"
            );
        }
        rises.insert(&**name, at(steps) - at(0));
    }
    (text + "# EOF\n", rises)
}

/// A Prometheus that holds a text, and its port.
fn prometheus(lab: &Lab, text: &str) -> (Running, u16) {
    std::fs::write(lab.path("week.om"), text).unwrap();
    std::fs::write(lab.path("prometheus.yml"), "scrape_configs: []\n").unwrap();
    let (input, data) = (lab.path("week.om"), lab.directory("data"));
    let backfill = [
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--max-block-duration=168h",
    ];
    let made = program(
        "promtool",
        &[&backfill[..], &[input.to_str().unwrap(), &data]].concat(),
    );
    assert!(made.is_some(), "promtool makes blocks");
    let port = free_port();
    let config = format!("--config.file={}", lab.path("prometheus.yml").display());
    let server = started(
        lab,
        "prometheus",
        &[
            &config,
            &format!("--storage.tsdb.path={data}"),
            "--storage.tsdb.retention.time=100y",
            &format!("--web.listen-address=127.0.0.1:{port}"),
        ],
    );
    until("Prometheus", || asked(port, "/-/ready").is_some());
    (server, port)
}

#[test]
fn a_week_of_a_real_prometheus_becomes_a_load_line_in_two_commands() {
    for name in ["prometheus", "promtool", "prometheus-node-exporter"] {
        if program(name, &["--version"]).is_none() {
            skipped("a week of Prometheus", &format!("{name} is missing"));
            return;
        }
    }
    let lab = Lab::new();
    let source = exported(&lab);
    let (text, rises) = week(&source);
    let (_server, port) = prometheus(&lab, &text);
    let window = format!("from={FROM_S}&to={}", FROM_S + WEEK_S + 1);
    let of = |labels: &str| format!("prometheus:http://127.0.0.1:{port}?{window}{labels}");
    let recording = of("&instance=build:9100&device=vda");
    let fitted = lab.json(&["fit", &recording, "-o", "model.toml", "--json"]);
    holds(&fitted["profile"], &rises);
    lab.json(&[
        "loadline",
        "-w",
        "model.toml",
        "--slo",
        "p99 < 50ms",
        "sim(queue,servers=4,law=exponential,service=200us,rate=100000M)",
        "--for",
        "10s",
        "--width",
        "50%",
        "--seed",
        "1",
        "-o",
        "r",
        "--json",
    ]);
    // A disk that does not exist is reported beside the disk that does.
    let other = of("&device=sdb");
    for command in [
        &["fit", &other, "-o", "other.toml"][..],
        &["verify", "model.toml", "--against", &other],
    ] {
        let refused = lab.run(command);
        let told = self::text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(
            told.contains("it has instance=build:9100&device=vda"),
            "{told}"
        );
    }
    let before = format!("prometheus:http://127.0.0.1:{port}?from=1&to=2");
    let told = self::text(&lab.run(&["profile", &before]).stderr);
    assert!(
        told.contains("no counters of disks in this window"),
        "{told}"
    );
}

/// The rates of a profile are the source's counters, divided by the time.
fn holds(profile: &serde_json::Value, rises: &BTreeMap<&str, i64>) {
    for (direction, figure, metric) in [
        ("read", "ops_per_s", "node_disk_reads_completed_total"),
        ("read", "bytes_per_s", "node_disk_read_bytes_total"),
        ("write", "ops_per_s", "node_disk_writes_completed_total"),
        ("write", "bytes_per_s", "node_disk_written_bytes_total"),
    ] {
        let directions = profile["directions"].as_array().unwrap();
        let found = directions.iter().find(|d| d["direction"] == direction);
        let found = found.unwrap()[figure]["time"].as_f64().unwrap();
        #[expect(
            clippy::cast_precision_loss,
            reason = "the counters are far below 2^53"
        )]
        let counted = rises[metric] as f64 / 1e3 / WEEK_S as f64;
        let difference = found / counted - 1.0;
        let _ = writeln!(
            std::io::stderr(),
            "{metric}: {found} {counted} {difference:e}"
        );
        assert!(
            counted > 0.0 && difference.abs() < 1e-12,
            "{metric}: {found} {counted}"
        );
    }
}

/// Behaviour of a server on a connection whose request it has read.
type Answer = fn(&str, &mut TcpStream) -> std::io::Result<()>;

/// A server of its own behaviour: its port, and all heads of requests that it got.
fn hostile(answer: Answer) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut byte = [0];
            while !head.ends_with("\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                head.push(char::from(byte[0]));
            }
            kept.lock().unwrap().push_str(&head);
            // It ends when the other side goes.
            let _ = answer(&head, &mut stream);
        }
    });
    (port, heads)
}

/// Writes a whole answer of this status and these headers.
fn whole(stream: &mut TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)
}

const LIST: &str = r#"{"status":"success","data":[{"__name__":"node_disk_reads_completed_total","device":"sda"}]}"#;
const TOKEN: &str = "glsa_0123456789abcdef";

/// A good list, and then this.
fn listed(head: &str, stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    let is_list = head.contains("/series");
    whole(
        stream,
        "200 OK",
        if is_list { LIST.as_bytes() } else { body },
    )
}

/// Without end, a piece at a time.
fn endless(stream: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(piece)?;
    }
}

/// Where a redirect leads, and how often anybody came.
static ELSEWHERE: Mutex<u16> = Mutex::new(0);
static CAME: AtomicUsize = AtomicUsize::new(0);

const CASES: [(&str, Answer, &str); 14] = [
    (
        "it says nothing",
        |_, stream| stream.read(&mut [0]).map(drop),
        "longer than the limit",
    ),
    ("it hangs up", |_, _| Ok(()), "failed to ask"),
    (
        "headers without end",
        |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            endless(stream, &b"X-Y: zzzzzzzzzzzzzzzzzzzzzzz\r\n".repeat(100))
        },
        "failed to ask",
    ),
    (
        "a list without end",
        |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"data\":[")?;
            endless(stream, &b"{},".repeat(10_000))
        },
        "failed to ask",
    ),
    (
        "samples without end",
        |head, stream| {
            if head.contains("/series") {
                return whole(stream, "200 OK", LIST.as_bytes());
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            endless(stream, &b"{\"data\":".repeat(10_000))
        },
        "more than the limit",
    ),
    (
        "a byte now and then",
        |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(b"{")?;
                crate::support::pause(50);
            }
        },
        "longer than the limit",
    ),
    (
        "elsewhere",
        |_, stream| {
            let port = *ELSEWHERE.lock().unwrap();
            whole(
                stream,
                &format!("302 Found\r\nLocation: http://127.0.0.1:{port}/"),
                b"",
            )
        },
        "which is not followed",
    ),
    (
        "a deep list",
        |_, stream| {
            let deep = format!(
                "{{\"status\":\"success\",\"data\":{}",
                "[".repeat(1_000_000)
            );
            whole(stream, "200 OK", deep.as_bytes())
        },
        "not as Prometheus gives it",
    ),
    (
        "deep samples",
        |head, stream| {
            let begin = r#"{"status":"success","data":{"resultType":"matrix","result":"#;
            listed(
                head,
                stream,
                format!("{begin}{}", "[".repeat(1_000_000)).as_bytes(),
            )
        },
        "broken or cut off",
    ),
    (
        "less than it says",
        |_, stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\""),
        "failed to ask",
    ),
    (
        "a bomb with its name",
        |_, stream| whole(stream, "200 OK\r\nContent-Encoding: gzip", b"\x1f\x8b\x08"),
        "compressed",
    ),
    (
        "a bomb without",
        |head, stream| listed(head, stream, b"\x1f\x8b\x08\x00\x00"),
        "something else than JSON",
    ),
    (
        "a refusal",
        |_, stream| whole(stream, "403 Forbidden", b"go away \x1b[2J"),
        "PLIMSOLL_PROMETHEUS_TOKEN",
    ),
    (
        "an error",
        |_, stream| {
            whole(
                stream,
                "422 X",
                br#"{"status":"error","error":"too many \u001b[2J samples"}"#,
            )
        },
        "too many",
    ),
];

/// Asks a server with a token, in a gigabyte of memory.
fn ask(lab: &Lab, port: u16) -> Output {
    let limited = "ulimit -v 1048576; exec \"$0\" \"$@\"";
    let url = format!("prometheus:http://127.0.0.1:{port}?device=sda&time-limit=2s&size-limit=20M");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let mut command = lab.command_of("sh", &["-c", limited, program, "profile", &url]);
    command
        .env("PLIMSOLL_PROMETHEUS_TOKEN", TOKEN)
        .output()
        .unwrap()
}

#[test]
fn a_server_that_means_harm_is_bounded_and_gets_no_token_that_is_not_its_own() {
    let lab = Lab::new();
    let (other, _) = hostile(|_, _| {
        CAME.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    *ELSEWHERE.lock().unwrap() = other;
    for (name, answer, part) in CASES {
        let (port, heads) = hostile(answer);
        let (output, took) = timed(|| ask(&lab, port));
        let told = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{name}: {:?} {told}",
            output.status
        );
        assert!(told.contains(part), "{name}: {told}");
        assert!(
            !told.contains(TOKEN) && !told.contains('\u{1b}'),
            "{name}: {told}"
        );
        assert!(took < Duration::from_secs(20), "{name}: {took:?}");
        let heads = heads.lock().unwrap().to_lowercase();
        assert!(
            heads.contains(&format!("bearer {TOKEN}").to_lowercase()),
            "{name}: {heads}"
        );
    }
    assert_eq!(CAME.load(Ordering::Relaxed), 0, "a redirect was followed");
    // Neither would it be sent where others can read it, nor is a user taken from the address.
    for (url, part) in [
        ("http://192.0.2.1:9090", "without encryption"),
        ("http://me:secret@127.0.0.1:1", "is no address"),
        ("ftp://127.0.0.1:1", "is no address"),
    ] {
        let mut command = lab.command(&["profile", &format!("prometheus:{url}")]);
        let output = command
            .env("PLIMSOLL_PROMETHEUS_TOKEN", TOKEN)
            .output()
            .unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part) && !told.contains(TOKEN), "{told}");
    }
}
