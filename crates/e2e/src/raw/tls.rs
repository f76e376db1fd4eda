//! TLS for a raw connection, with the parts of any identity file and without its good manners: the server's certificate is not
//! looked at, so a client of one file system comes to another one. The identity of a real client is `loligo_driver::Identity`.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// A certificate and a key to show.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<ClientConfig>);

/// Takes every server for good.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

impl Credentials {
    /// Those of an identity file: its second certificate, and its key.
    pub fn read(file: &Path) -> Credentials {
        let text = std::fs::read(file).expect("an identity file");
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text).map(|one| one.expect("good PEM")).collect();
        Credentials::make(Some((certificates[1].clone(), PrivateKeyDer::from_pem_slice(&text).expect("a key"))))
    }

    /// No certificate.
    pub fn none() -> Credentials {
        Credentials::make(None)
    }

    fn make(shown: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> Credentials {
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3 is there")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let config = match shown {
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).expect("they match"),
            None => builder.with_no_client_auth(),
        };
        Credentials(Arc::new(config))
    }

    /// Speaks TLS over a connection. The handshake goes on with the first bytes that are sent.
    pub(super) fn over(&self, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("any.loligo.internal").expect("a name");
        StreamOwned::new(ClientConnection::new(self.0.clone(), name).expect("a connection"), stream)
    }
}
