// SPDX-License-Identifier: Apache-2.0
//! The other side of a push: reads a run folder and sends what the server lacks of it.

use super::files::{digest, open, walk};
use super::listing::{PushAnswer, PushFile, PushListing};
use crate::secret::ServerSecret;
use axum::body::{Body, Bytes};
use futures_util::stream;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use plimsoll_archive::{is_being_written, is_run_file};
use plimsoll_core::text::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Longest waits: for a connection, and for an answer.
const CONNECT_TIME: Duration = Duration::from_secs(20);
const ANSWER_TIME: Duration = Duration::from_secs(600);
/// Most bytes of an answer.
const ANSWER_MAX: usize = 8 << 20;
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// What is pushed, and where to.
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
    /// What was measured: a commit, a release.
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
        /// What to do about it.
        hint: String,
    },
    /// The server was not reached, or the connection broke.
    #[error("failed to push to {server}: {reason}")]
    Away {
        /// Its address.
        server: String,
        /// What was observed.
        reason: String,
    },
    /// The server refused.
    #[error("the server refused the run: {text}")]
    Refused {
        /// Its words.
        text: String,
        /// What to do about it.
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
    shown: String,
    host: String,
    port: u16,
    authority: String,
    tls: Option<TlsConnector>,
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
                "invalid value '{}' for --to: expected https://HOST:PORT",
                printable(&options.to)
            );
            usage(
                text,
                "give the address that plimsoll serve printed, without its token",
            )
        };
        let uri: Uri = options.to.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?.to_owned();
        let is_plain = matches!(
            uri.path_and_query().map(|path| path.as_str()),
            None | Some("/" | "")
        );
        let is_user = uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'));
        let (is_tls, port) = match uri.scheme_str() {
            Some("https") => (true, uri.port_u16().unwrap_or(443)),
            Some("http") => (false, uri.port_u16().unwrap_or(80)),
            _ => return Err(wrong()),
        };
        if !is_plain || is_user {
            return Err(wrong());
        }
        let bare = host.trim_matches(['[', ']']);
        let is_here = bare == "localhost"
            || bare
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if !is_tls && !is_here {
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
            PushToken::File(path) => ServerSecret::read(path).map_err(|error| match &error {
                crate::error::ServeError::Usage { hint, .. } => {
                    usage(error.to_string(), hint.clone())
                }
                _ => usage(
                    error.to_string(),
                    "give a file of mode 0600 that holds the token",
                ),
            })?,
        };
        let tls = is_tls
            .then(|| connector(options.ca.as_deref()))
            .transpose()?;
        Ok(PushServer {
            shown: printable(&options.to),
            authority: match uri.port() {
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            },
            host: bare.to_owned(),
            port,
            tls,
            token,
        })
    }

    fn away(&self, reason: impl std::fmt::Display) -> PushError {
        PushError::Away {
            server: self.shown.clone(),
            reason: printable(&reason.to_string()),
        }
    }

    /// Why no encrypted connection came about: what its user can mend is said apart.
    fn unencrypted(&self, error: &io::Error) -> PushError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        let Some(rustls::Error::InvalidCertificate(fault)) = inner else {
            return self.away(error);
        };
        let fault = fault.to_string();
        let hint = match fault.contains("CaUsedAsEndEntity") {
            true => {
                "it signs others, and must not serve itself: make it with basicConstraints=CA:FALSE"
            }
            false => "give --ca with the certificate that signed it, and the name that it is for",
        };
        let server = &self.shown;
        usage(
            format!("the certificate of {server} is not trusted: {fault}"),
            hint,
        )
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        form: &impl Serialize,
    ) -> Result<T, PushError> {
        let text = serde_json::to_vec(form).map_err(|error| self.away(error))?;
        let length = text.len() as u64;
        let answered = self
            .request(method, path, (Body::from(text), length))
            .await?;
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
                    Some((Ok(Bytes::from(piece)), file))
                }
                Err(error) => Some((Err(error), file)),
            }
        });
        let body = (Body::from_stream(parts), bytes);
        self.request(Method::PUT, path, body).await.map(drop)
    }

    /// One request on a connection of its own; gives the body of the answer.
    async fn request(
        &self,
        method: Method,
        path: &str,
        (body, bytes): (Body, u64),
    ) -> Result<Bytes, PushError> {
        let connected = TcpStream::connect((self.host.as_str(), self.port));
        let stream = tokio::time::timeout(CONNECT_TIME, connected).await;
        let stream = stream
            .map_err(|_| self.away("it does not answer"))?
            .map_err(|error| self.away(error))?;
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, format!("Bearer {}", self.token.reveal()))
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, bytes)
            .body(body)
            .map_err(|error| self.away(error))?;
        let answered = match &self.tls {
            None => tokio::time::timeout(ANSWER_TIME, exchange(stream, request)).await,
            Some(tls) => {
                let name =
                    ServerName::try_from(self.host.clone()).map_err(|error| self.away(error))?;
                let stream = tokio::time::timeout(CONNECT_TIME, tls.connect(name, stream)).await;
                let stream = stream
                    .map_err(|_| self.away("it does not answer"))?
                    .map_err(|error| self.unencrypted(&error))?;
                tokio::time::timeout(ANSWER_TIME, exchange(stream, request)).await
            }
        };
        let (status, body) = answered
            .map_err(|_| self.away("it does not answer"))?
            .map_err(|error| self.away(error))?;
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

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Body>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let running = tokio::spawn(connection);
    let answered: Response<Incoming> = sender.send_request(request).await?;
    let (head, body) = answered.into_parts();
    let body = axum::body::to_bytes(Body::new(body), ANSWER_MAX).await?;
    running.abort();
    Ok((head.status, body))
}

/// What encrypts, and whom it trusts.
fn connector(ca: Option<&Path>) -> Result<TlsConnector, PushError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |reason: String| {
                usage(
                    format!(
                        "failed to use the certificates {}: {reason}",
                        path.display()
                    ),
                    "give a file of PEM certificates",
                )
            };
            let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            let all: Vec<CertificateDer<'static>> =
                all.map_err(|error| wrong(error.to_string()))?;
            for one in all {
                roots.add(one).map_err(|error| wrong(error.to_string()))?;
            }
        }
        None => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| usage(error.to_string(), "use another build of this program"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
