// SPDX-License-Identifier: Apache-2.0
//! The other side of a push: reads a run folder and sends what the server lacks of it.

use crate::files::{digest, open, walk};
use crate::listing::{PushAnswer, PushFile, PushListing};
use crate::secret::ServerSecret;
use crate::server::{RemoteError, RemoteServer};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Body, Frame};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::http::request;
use hyper::{Method, Request, StatusCode};
use plimsoll_archive::{is_being_written, is_run_file};
use plimsoll_core::text::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(600);
/// Most bytes of an answer.
const ANSWER_MAX: usize = 8 << 20;
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// A run to push, and its server.
#[derive(Debug)]
pub struct PushOptions {
    /// The run folder.
    pub run: PathBuf,
    /// Address of the server, such as `https://lab.example:7433`.
    pub to: String,
    /// The token.
    pub token: PushToken,
    /// Certificates (PEM) that are trusted instead of those of this machine.
    pub ca: Option<PathBuf>,
    /// The revision measured: a commit, a release.
    pub revision: String,
    /// The system that the others are divided by.
    pub reference: Option<String>,
    /// Whether the whole team sees it.
    pub is_shared: bool,
}

/// Where the token is.
pub enum PushToken {
    /// This is it.
    Given(String),
    /// In a file of mode 0600.
    File(PathBuf),
}

impl std::fmt::Debug for PushToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PushToken")
    }
}

/// A push that was acknowledged.
#[derive(Debug)]
pub struct PushOutcome {
    /// Name of the folder on the server.
    pub folder: String,
    /// Files that were sent; those that the server had are not.
    pub files_sent: usize,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Files of the folder that belong to no run and were left out.
    pub left_out: Vec<String>,
}

/// Why a push was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Something is to be given in another way.
    #[error("{text}")]
    Usage {
        /// The sentence.
        text: String,
        /// How to mend it.
        hint: String,
    },
    /// The server was not reached, or the connection broke.
    #[error("failed to push to {server}: {reason}")]
    Away {
        /// Its address.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The server refused.
    #[error("the server refused the run: {text}")]
    Refused {
        /// Its words.
        text: String,
        /// How to mend it.
        hint: Option<String>,
    },
}

fn usage(text: impl Into<String>, hint: impl Into<String>) -> PushError {
    PushError::Usage {
        text: text.into(),
        hint: hint.into(),
    }
}

/// A server that is spoken to.
struct PushServer {
    remote: RemoteServer,
    token: ServerSecret,
}

/// Pushes a run; when this returns, the server has it and cannot lose it.
///
/// # Errors
/// When it was not acknowledged. What arrived stays there, and is not sent again.
pub fn push(options: &PushOptions) -> Result<PushOutcome, PushError> {
    let server = PushServer::of(options)?;
    let (listing, paths, left_out) = list(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| server.away(error))?;
    runtime.block_on(async {
        let begun: PushAnswer = server.ask(Method::POST, "/push", &listing).await?;
        let (mut files_sent, mut bytes_sent) = (0, 0);
        for number in &begun.wanted {
            let Some((file, path)) = listing.files.get(*number).zip(paths.get(*number)) else {
                return Err(server.away("it asked for a file that is not in the list"));
            };
            server
                .send(
                    &format!("/push/{}/files/{number}", begun.id),
                    path,
                    file.bytes,
                )
                .await?;
            files_sent += 1;
            bytes_sent += file.bytes;
        }
        let done = match begun.stored {
            true => begun,
            false => {
                let path = format!("/push/{}/commit", begun.id);
                server
                    .ask(Method::POST, &path, &serde_json::json!({}))
                    .await?
            }
        };
        let Some(folder) = done.folder.filter(|_| done.stored) else {
            return Err(server.away("it did not acknowledge the run"));
        };
        if options.is_shared {
            let form = serde_json::json!({ "shared": true });
            let path = format!("/runs/{folder}/share");
            let _: serde_json::Value = server.ask(Method::POST, &path, &form).await?;
        }
        Ok(PushOutcome {
            folder,
            files_sent,
            bytes_sent,
            left_out,
        })
    })
}

/// The list of a run folder, where its files are, and what else is there.
fn list(options: &PushOptions) -> Result<(PushListing, Vec<PathBuf>, Vec<String>), PushError> {
    let folder = &options.run;
    let manifest = plimsoll_archive::manifest(folder)
        .map_err(|error| usage(format!("failed to {error}"), "give the folder of a run"))?;
    if is_being_written(folder).unwrap_or(false) {
        let text = format!("the run in {} goes on", folder.display());
        return Err(usage(text, "push it when it has ended"));
    }
    let (mut files, mut paths, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = Vec::new();
    walk(folder, "", &mut found).map_err(|error| {
        let text = format!("failed to read {}: {error}", folder.display());
        usage(text, "check the folder and who may read it")
    })?;
    found.sort_unstable();
    for (name, path) in found {
        if !is_run_file(&name) {
            left_out.push(name);
            continue;
        }
        let (bytes, sha256) = digest(&path).map_err(|error| {
            let text = format!("failed to read {}: {error}", path.display());
            usage(
                text,
                "a run folder holds plain files: no links, no pipes, no devices",
            )
        })?;
        files.push(PushFile {
            path: name,
            bytes,
            sha256,
        });
        paths.push(path);
    }
    let listing = PushListing {
        run: manifest.id,
        revision: options.revision.clone(),
        reference: options.reference.clone(),
        shared: options.is_shared,
        files,
    };
    Ok((listing, paths, left_out))
}

impl PushServer {
    fn of(options: &PushOptions) -> Result<PushServer, PushError> {
        let wrong = || {
            let text = format!(
                "invalid value '{}' for --server: expected https://HOST:PORT",
                printable(&options.to)
            );
            usage(
                text,
                "give the address that plimsoll serve printed, without its token",
            )
        };
        let remote = RemoteServer::of(&options.to, options.ca.as_deref());
        let remote = remote.map_err(|error| match error {
            RemoteError::Usage { text, hint } => usage(text, hint),
            RemoteError::Away { .. } => wrong(),
        })?;
        let remote = remote.filter(|remote| remote.base.is_empty());
        let remote = remote.ok_or_else(wrong)?;
        if !remote.is_private() {
            return Err(usage(
                "http:// would send the token to another machine without encryption",
                "give https://",
            ));
        }
        let token = match &options.token {
            PushToken::Given(text) => ServerSecret::given(text).ok_or_else(|| {
                usage(
                    "PLIMSOLL_TOKEN does not hold a token",
                    "give what plimsoll team token add printed",
                )
            })?,
            PushToken::File(path) => {
                ServerSecret::read(path).map_err(|error| usage(error.to_string(), error.hint()))?
            }
        };
        Ok(PushServer { remote, token })
    }

    fn away(&self, reason: impl std::fmt::Display) -> PushError {
        PushError::Away {
            server: self.remote.shown.clone(),
            reason: printable(&reason.to_string()),
        }
    }

    fn failed(&self, error: RemoteError) -> PushError {
        match error {
            RemoteError::Usage { text, hint } => usage(text, hint),
            RemoteError::Away { reason } => self.away(reason),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        form: &impl Serialize,
    ) -> Result<T, PushError> {
        let text = serde_json::to_vec(form).map_err(|error| self.away(error))?;
        let length = text.len() as u64;
        let request = self.request(method, path, length);
        let answered = self.answer(request.body(Full::<Bytes>::from(text))).await?;
        serde_json::from_slice(&answered).map_err(|error| self.away(error))
    }

    async fn send(&self, path: &str, file: &Path, bytes: u64) -> Result<(), PushError> {
        let opened = open(file).map_err(|error| {
            usage(
                format!("failed to read {}: {error}", file.display()),
                "push again",
            )
        })?;
        let parts = stream::unfold(opened, |mut file| async move {
            let mut piece = vec![0; PIECE];
            match file.read(&mut piece) {
                Ok(0) => None,
                Ok(read) => {
                    piece.truncate(read);
                    Some((Ok(Frame::data(Bytes::from(piece))), file))
                }
                Err(error) => Some((Err(error), file)),
            }
        });
        let request = self.request(Method::PUT, path, bytes);
        let request = request.body(StreamBody::new(parts));
        self.answer(request).await.map(drop)
    }

    /// The head of a request with a body of `bytes` bytes.
    fn request(&self, method: Method, path: &str, bytes: u64) -> request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(HOST, &self.remote.authority)
            .header(AUTHORIZATION, format!("Bearer {}", self.token.reveal()))
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, bytes)
    }

    /// Sends a request on a connection of its own; gives the body of the answer.
    async fn answer<B>(&self, request: hyper::http::Result<Request<B>>) -> Result<Bytes, PushError>
    where
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let request = request.map_err(|error| self.away(error))?;
        let exchange = async {
            let answered = self.remote.send(request, ANSWER_TIME).await;
            let (head, body) = answered.map_err(|error| self.failed(error))?.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            let body = body.map_err(|error| self.away(error))?;
            Ok((head.status, body.to_bytes()))
        };
        let answered = tokio::time::timeout(ANSWER_TIME, exchange).await;
        let (status, body) = answered.map_err(|_| self.away("it does not answer"))??;
        match status.is_success() {
            true => Ok(body),
            false => Err(self.refused(status, &body)),
        }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> PushError {
        let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let part = |name: &str| told["error"][name].as_str().map(printable);
        let text = part("text").unwrap_or_else(|| format!("it answers {status}"));
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => self.away(text),
            _ if status.is_server_error() => self.away(text),
            _ => PushError::Refused {
                text,
                hint: part("hint"),
            },
        }
    }
}
