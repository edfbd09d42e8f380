// SPDX-License-Identifier: Apache-2.0
//! Answers of a system of monitoring, fetched one after the other into a file.
//!
//! The peer is not trusted: head, body, time and size are bounded, redirects are not followed, and the
//! token goes to the server that was named and to no other.

use crate::secret::ServerSecret;
use crate::server::{RemoteError, RemoteServer};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, HOST, LOCATION};
use hyper::{Request, Response, StatusCode};
use plimsoll_core::text::printable;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for the next byte.
const SILENCE: Duration = Duration::from_secs(60);
/// Most bytes of an answer that is kept in memory: of a refusal, of a list.
const HELD_MAX: u64 = 8 << 20;
/// Of the reason of a refusal.
const REASON_CHARS: usize = 300;

/// Which server is asked, and how much of it.
#[derive(Debug)]
pub struct MonitoringOptions {
    /// Its address, such as `http://prometheus.example:9090`.
    pub address: String,
    /// Where its token is, if it wants one: in a file of mode 0600.
    pub token_file: Option<PathBuf>,
    /// The token, from the environment.
    pub token: Option<MonitoringToken>,
    /// Certificates (PEM) that are trusted instead of those of this machine.
    pub ca: Option<PathBuf>,
    /// Longest time for all answers together.
    pub time: Duration,
    /// Most bytes of all answers together.
    pub bytes: u64,
}

/// A token that is not shown.
pub struct MonitoringToken(pub String);

impl std::fmt::Debug for MonitoringToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MonitoringToken")
    }
}

/// A system of monitoring that is asked.
pub struct MonitoringServer {
    remote: RemoteServer,
    token: Option<ServerSecret>,
    runtime: tokio::runtime::Runtime,
    time: Duration,
    bytes: u64,
}

impl std::fmt::Debug for MonitoringServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitoringServer")
            .field("address", &self.remote.shown)
            .finish_non_exhaustive()
    }
}

impl MonitoringServer {
    /// The server of these options, which is not yet asked.
    ///
    /// # Errors
    /// When the address is none, or its token cannot be read or would be seen on the way.
    pub fn of(options: &MonitoringOptions) -> Result<MonitoringServer, RemoteError> {
        let remote = RemoteServer::of(&options.address, options.ca.as_deref())?;
        let remote = remote.ok_or_else(|| {
            let text = format!("'{}' is no address of a server", printable(&options.address));
            RemoteError::usage(
                text,
                "give http://HOST:PORT or https://HOST:PORT, with its path if it has one, without a user",
            )
        })?;
        let token = match (&options.token_file, &options.token) {
            (Some(path), _) => Some(ServerSecret::read_foreign(path)?),
            (None, Some(MonitoringToken(text))) => {
                Some(ServerSecret::foreign(text).ok_or_else(|| {
                    RemoteError::usage(
                        "PLIMSOLL_PROMETHEUS_TOKEN does not hold a token",
                        "expected at most 8,192 letters, digits and -_.~+/=",
                    )
                })?)
            }
            (None, None) => None,
        };
        if token.is_some() && !remote.is_private() {
            return Err(RemoteError::usage(
                "http:// would send the token to another machine without encryption",
                "give https://",
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(MonitoringServer {
            remote,
            token,
            runtime: runtime.map_err(RemoteError::away)?,
            time: options.time,
            bytes: options.bytes,
        })
    }

    /// Asks for a path of its interface, and writes the JSON that it answers.
    ///
    /// # Errors
    /// When it is not reached, refuses, answers something else, or too slowly or too much; or when what
    /// it answers cannot be written.
    pub fn get(&mut self, path: &str, into: &mut dyn Write) -> Result<(), RemoteError> {
        let MonitoringServer {
            remote,
            token,
            runtime,
            time,
            bytes,
        } = self;
        runtime.block_on(async {
            let began = Instant::now();
            let asked = async {
                let request = request(remote, token.as_ref(), path)?;
                let answer = remote.send(request, SILENCE).await?;
                let answer = accepted(answer).await?;
                body(answer, into, bytes).await
            };
            let asked = tokio::time::timeout(*time, asked).await;
            *time = time.saturating_sub(began.elapsed());
            asked.map_err(|_| {
                RemoteError::away(
                    "it took longer than the limit; take a shorter window, or raise time-limit",
                )
            })?
        })
    }
}

fn request(
    remote: &RemoteServer,
    token: Option<&ServerSecret>,
    path: &str,
) -> Result<Request<Empty<Bytes>>, RemoteError> {
    let mut request = Request::builder()
        .uri(format!("{}{path}", remote.base))
        .header(HOST, &remote.authority)
        .header(ACCEPT, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
    }
    request.body(Empty::new()).map_err(RemoteError::away)
}

/// An answer that is what was asked for, so far as its head says.
async fn accepted(answer: Response<Incoming>) -> Result<Response<Incoming>, RemoteError> {
    let (status, headers) = (answer.status(), answer.headers());
    if let Some(coding) = headers.get(CONTENT_ENCODING)
        && coding != "identity"
    {
        return Err(RemoteError::away(
            "it answers compressed, which was not asked for",
        ));
    }
    match status {
        StatusCode::OK => Ok(answer),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(RemoteError::usage(
            format!("the server refuses: {status}"),
            "put a token into PLIMSOLL_PROMETHEUS_TOKEN, or into a file of mode 0600 and its name behind \
             token-file=",
        )),
        _ if status.is_redirection() => {
            let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let to = printable(to.unwrap_or("nowhere"));
            Err(RemoteError::usage(
                format!("the server sends on to {to}, which is not followed"),
                "give the address that it sends to, if you trust it",
            ))
        }
        _ => {
            let (mut held, mut left) = (Vec::new(), HELD_MAX);
            let read = body(answer, &mut held, &mut left).await;
            let told: serde_json::Value = serde_json::from_slice(&held).unwrap_or_default();
            let reason = told["error"].as_str().filter(|_| read.is_ok());
            let Some(reason) = reason else {
                return Err(RemoteError::usage(
                    format!("no Prometheus answers there: {status}"),
                    "give the address before /api/v1, with its path if it has one",
                ));
            };
            let reason: String = reason.chars().take(REASON_CHARS).collect();
            Err(RemoteError::away(format!(
                "it refuses the question: {reason}"
            )))
        }
    }
}

/// Writes the body, which must be JSON.
async fn body(
    answer: Response<Incoming>,
    into: &mut dyn Write,
    left: &mut u64,
) -> Result<(), RemoteError> {
    let mut pieces = answer.into_body();
    let mut is_begun = false;
    loop {
        let piece = tokio::time::timeout(SILENCE, pieces.frame()).await;
        let piece =
            piece.map_err(|_| RemoteError::away("it stopped in the middle of an answer"))?;
        let Some(piece) = piece else {
            return Ok(());
        };
        // Behind the body there may be further headers, which nothing here needs.
        let Ok(piece) = piece.map_err(RemoteError::away)?.into_data() else {
            continue;
        };
        let text = piece.trim_ascii_start();
        // Compressed bytes would be decompressed by the reader, a page is no answer.
        if !is_begun && !text.is_empty() {
            is_begun = true;
            if !text.starts_with(b"{") {
                return Err(RemoteError::usage(
                    "no Prometheus answers there: it sends something else than JSON",
                    "give the address before /api/v1, with its path if it has one",
                ));
            }
        }
        *left = left.checked_sub(piece.len() as u64).ok_or_else(|| {
            RemoteError::away("it answers more than the limit; take a shorter window or fewer disks, or raise size-limit")
        })?;
        into.write_all(&piece).map_err(|error| {
            RemoteError::away(format!("what it answers cannot be written: {error}"))
        })?;
    }
}
