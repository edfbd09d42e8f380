// SPDX-License-Identifier: Apache-2.0
//! Servers of others: their addresses, and connections to them, encrypted or not.
//!
//! Invariant: a redirect is never followed, so that no secret and no request goes to another machine than
//! the one that was named.

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Response, Uri};
use hyper_util::rt::TokioIo;
use plimsoll_core::text::printable;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// Why a server could not be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Something is to be given in another way.
    #[error("{text}")]
    Usage {
        /// The sentence.
        text: String,
        /// How to mend it.
        hint: String,
    },
    /// It was not reached, the connection broke, or what it answers is no answer.
    #[error("{reason}")]
    Away {
        /// The cause.
        reason: String,
    },
}

impl RemoteError {
    /// How to mend it.
    pub fn hint(&self) -> &str {
        match self {
            RemoteError::Usage { hint, .. } => hint,
            RemoteError::Away { .. } => "try again later",
        }
    }

    pub(crate) fn usage(text: impl Into<String>, hint: impl Into<String>) -> RemoteError {
        RemoteError::Usage {
            text: text.into(),
            hint: hint.into(),
        }
    }

    pub(crate) fn away(reason: impl std::fmt::Display) -> RemoteError {
        RemoteError::Away {
            reason: printable(&reason.to_string()),
        }
    }
}

/// A server that is spoken to.
pub(crate) struct RemoteServer {
    pub(crate) shown: String,
    /// The prefix of all paths of its interface; empty, or begins with a slash.
    pub(crate) base: String,
    pub(crate) authority: String,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
}

/// A connection of either kind.
pub(crate) trait RemoteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> RemoteStream for T {}

impl RemoteServer {
    /// The server at an address; `None` for what is none.
    pub(crate) fn of(
        address: &str,
        ca: Option<&Path>,
    ) -> Result<Option<RemoteServer>, RemoteError> {
        let Ok(uri) = address.parse::<Uri>() else {
            return Ok(None);
        };
        let (Some(host), Some(authority)) = (uri.host(), uri.authority()) else {
            return Ok(None);
        };
        let (is_tls, port) = match uri.scheme_str() {
            Some("https") => (true, uri.port_u16().unwrap_or(443)),
            Some("http") => (false, uri.port_u16().unwrap_or(80)),
            _ => return Ok(None),
        };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Ok(None);
        }
        Ok(Some(RemoteServer {
            shown: printable(address),
            base: uri.path().trim_end_matches('/').to_owned(),
            authority: authority.as_str().to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            tls: is_tls.then(|| connector(ca)).transpose()?,
        }))
    }

    /// Whether what is sent to it cannot be read on the way.
    pub(crate) fn is_private(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        let is_here = self.host == "localhost" || address.is_ok_and(|a| a.is_loopback());
        self.tls.is_some() || is_here
    }

    /// A connection of its own.
    async fn connect(&self) -> Result<Box<dyn RemoteStream>, RemoteError> {
        let silent = |_| RemoteError::away("it does not answer");
        let connected = TcpStream::connect((self.host.as_str(), self.port));
        let stream = tokio::time::timeout(CONNECT_TIME, connected).await;
        let stream = stream.map_err(silent)?.map_err(RemoteError::away)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(self.host.clone()).map_err(RemoteError::away)?;
        let stream = tokio::time::timeout(CONNECT_TIME, tls.connect(name, stream)).await;
        let stream = stream.map_err(silent)?;
        Ok(Box::new(stream.map_err(|error| self.unencrypted(&error))?))
    }

    /// Sends a request on a connection of its own; gives the answer as soon as its head has come, within
    /// `time`.
    pub(crate) async fn send<B>(
        &self,
        request: hyper::Request<B>,
        time: Duration,
    ) -> Result<Response<Incoming>, RemoteError>
    where
        B: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
        B::Data: Send,
    {
        let stream = TokioIo::new(self.connect().await?);
        let exchange = async {
            let (mut sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        let answered = tokio::time::timeout(time, exchange).await;
        answered
            .map_err(|_| RemoteError::away("it does not answer"))?
            .map_err(RemoteError::away)
    }

    /// The error of a failed TLS handshake. A certificate that is not trusted is an error of its own: the
    /// user can mend it.
    fn unencrypted(&self, error: &io::Error) -> RemoteError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        let Some(rustls::Error::InvalidCertificate(fault)) = inner else {
            return RemoteError::away(error);
        };
        let fault = fault.to_string();
        let hint = match fault.contains("CaUsedAsEndEntity") {
            true => {
                "it signs others, and must not serve itself: make it with basicConstraints=CA:FALSE"
            }
            false => "give --ca with the certificate that signed it, and the name that it is for",
        };
        let server = &self.shown;
        RemoteError::usage(
            format!("the certificate of {server} is not trusted: {fault}"),
            hint,
        )
    }
}

/// The encryption of a connection, and the certificates that it trusts.
fn connector(ca: Option<&Path>) -> Result<TlsConnector, RemoteError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |reason: String| {
                RemoteError::usage(
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
        .map_err(|error| {
            RemoteError::usage(error.to_string(), "use another build of this program")
        })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
