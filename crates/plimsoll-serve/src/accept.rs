// SPDX-License-Identifier: Apache-2.0
//! Connections: how many there may be, how long they may take, and their encryption.

use crate::error::ServeError;
use crate::share::{ShareBoard, TakenShare};
use crate::state::ServerState;
use crate::sync::locked;
use crate::timed_stream::TimedStream;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Most connections at once: in all, from one address before it is let in, and of one user.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_ADDRESS: usize = 16;
const CONNECTIONS_USER: usize = 32;
/// Longest time for a handshake, and for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Most bytes of the head of a request, and headers of it.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// The pause after a connection could not be taken, because of too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a request comes from, and whose share of the connections it takes.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    pub(crate) address: IpAddr,
    users: Arc<ShareBoard<String>>,
    share: Mutex<ConnectionShare>,
}

#[derive(Debug)]
enum ConnectionShare {
    Address { _of: TakenShare<IpAddr> },
    User { _of: TakenShare<String> },
}

impl PeerConnection {
    /// From now on it is this user's: behind one address, such as a proxy's, there may be many.
    pub(crate) fn belongs_to(&self, user: &str) {
        let mut share = locked(&self.share);
        if let ConnectionShare::Address { .. } = *share
            && let Some(of) = self.users.try_take(&user.to_owned())
        {
            *share = ConnectionShare::User { _of: of };
        }
    }
}

/// Whom an address stands for: who has one of IPv6 has all that begin like it.
fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(of) => IpAddr::V6(Ipv6Addr::from_bits(of.to_bits() >> 64 << 64)),
        of @ IpAddr::V4(_) => of,
    }
}

/// A bound address, with what encrypts its connections.
pub(crate) struct ServerListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

/// Binds the address, and tells where the page is.
pub(crate) async fn listen(state: &ServerState) -> Result<ServerListener, ServeError> {
    let options = &state.options;
    let tls = options
        .tls
        .as_ref()
        .map(|(cert, key)| acceptor(cert, key))
        .transpose()?;
    let fail = |source| ServeError::Listen {
        address: options.listen,
        source,
    };
    let listener = TcpListener::bind(options.listen).await.map_err(fail)?;
    state.bound(listener.local_addr().map_err(fail)?);
    Ok(ServerListener { listener, tls })
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, reason: String| ServeError::Certificate {
        path: path.into(),
        reason,
    };
    let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> =
        chain.map_err(|error| wrong(cert, error.to_string()))?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        });
    let config = config.map_err(|error| wrong(cert, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Takes connections until the runtime ends.
pub(crate) async fn accept(of: ServerListener, app: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = ShareBoard::of(CONNECTIONS_MAX, CONNECTIONS_ADDRESS);
    let users = ShareBoard::of(CONNECTIONS_MAX, CONNECTIONS_USER);
    loop {
        // One more waits in the kernel's queue until another one has ended.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match of.listener.accept().await {
            Ok(taken) => taken,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(share) = addresses.try_take(&place_of(peer.ip())) else {
            continue;
        };
        let peer = Arc::new(PeerConnection {
            address: peer.ip(),
            users: Arc::clone(&users),
            share: Mutex::new(ConnectionShare::Address { _of: share }),
        });
        let _ = stream.set_nodelay(true);
        let stream = TimedStream::of(stream);
        let (tls, app) = (of.tls.clone(), app.clone());
        tokio::spawn(async move {
            match tls {
                None => talk(stream, peer, app).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) =
                        tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await
                    {
                        talk(stream, peer, app).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// Answers the requests of one connection. How it ends is the client's business.
async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: Arc<PeerConnection>,
    app: Router,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&peer));
        app.call(request)
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
