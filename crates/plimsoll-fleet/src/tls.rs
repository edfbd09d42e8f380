// SPDX-License-Identifier: Apache-2.0
//! Encryption of a fleet's connections: TLS 1.3 with a key that lives as long as the run. The agent knows
//! the controller by the digest of that key (a raw public key, RFC 7250), so no authority and no
//! certificate file is needed.

use plimsoll_machine::host::agent::AgentStream;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ServerConnection};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, Connection, DigitallySignedStruct, Error, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::error::FleetError;
use crate::ticket::SECRET_BYTES;

/// The server name in the handshake. An agent knows its controller by the key in the ticket, not by this
/// name.
const NAME: &str = "controller.plimsoll";

fn failed(what: &str) -> impl Fn(String) -> FleetError {
    let what = what.to_owned();
    move |why| FleetError::Connection {
        what: what.clone(),
        why,
    }
}

/// The key of a controller, and its digest.
pub(crate) fn identity() -> Result<(Arc<ServerConfig>, [u8; SECRET_BYTES]), FleetError> {
    let failed = failed("make the key of the run");
    let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let pair = pair.map_err(|error| failed(error.to_string()))?;
    let secret = PrivatePkcs8KeyDer::from(pair.as_ref());
    let key = provider::sign::any_eddsa_type(&secret).map_err(|error| failed(error.to_string()))?;
    let public = key
        .public_key()
        .ok_or_else(|| failed("it has no public half".into()))?;
    let pin = digest_of(public.as_ref());
    let certified = CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key);
    let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| failed(error.to_string()))?;
    let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(
        AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified)),
    ));
    // Every agent connects once.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((Arc::new(config), pin))
}

fn digest_of(public: &[u8]) -> [u8; SECRET_BYTES] {
    let mut pin = [0; SECRET_BYTES];
    pin.copy_from_slice(digest(&SHA256, public).as_ref());
    pin
}

/// Accepts the key of one digest, and no other.
#[derive(Debug)]
struct PinnedKeyVerifier {
    pin: [u8; SECRET_BYTES],
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if digest_of(end_entity) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// An encrypted connection. The socket does not block.
pub struct FleetStream {
    socket: TcpStream,
    tls: Connection,
    /// Bytes that are decrypted and not yet read.
    plain: usize,
}

impl fmt::Debug for FleetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStream")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl FleetStream {
    /// The controller's end.
    pub(crate) fn accepted(
        socket: TcpStream,
        config: Arc<ServerConfig>,
    ) -> io::Result<FleetStream> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        FleetStream::of(socket, tls.into())
    }

    /// The agent's end, once the other one has shown that it owns the key with this digest.
    pub(crate) fn dialled(
        mut socket: TcpStream,
        pin: [u8; SECRET_BYTES],
        limit: Duration,
    ) -> io::Result<FleetStream> {
        let provider = provider::default_provider();
        let algorithms = provider.signature_verification_algorithms;
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?;
        let verifier = Arc::new(PinnedKeyVerifier { pin, algorithms });
        let mut config = config
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        FleetStream::of(socket, tls.into())
    }

    fn of(socket: TcpStream, tls: Connection) -> io::Result<FleetStream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let plain = 0;
        Ok(FleetStream { socket, tls, plain })
    }

    /// Decrypts what has come.
    fn take_in(&mut self) -> io::Result<()> {
        let came = self.tls.read_tls(&mut self.socket)?;
        match self.tls.process_new_packets() {
            Ok(state) => self.plain = state.plaintext_bytes_to_read(),
            Err(error) => {
                // The other side hears why, if it still listens.
                let _ = self.flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        match (came, self.plain) {
            (0, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
            (_, 0) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

impl AgentStream for FleetStream {
    fn input(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn holds_input(&self) -> bool {
        self.plain > 0
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.plain == 0 {
            self.take_in()?;
        }
        let read = self.tls.reader().read(bytes)?;
        self.plain = self.plain.saturating_sub(read);
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        self.tls.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
