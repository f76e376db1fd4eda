//! The certificate authority of a file system: it signs the certificates of its servers and of its identities. Where its
//! key is kept is `server/auth.rs`'s.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::{hex, pem, provider, server_name};

/// The authority. Certificates have no end: who may come in is said by the list of identities, and clocks of hosts differ.
pub(crate) struct Authority {
    fs_id: [u8; 16],
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

/// A certificate that was just made, and its key, which nobody else has.
pub(crate) struct Issued {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) serial: String,
    key: KeyPair,
}

impl Authority {
    /// A new one.
    pub(crate) fn make(fs_id: [u8; 16]) -> Result<Authority, String> {
        let key = KeyPair::generate().map_err(|e| format!("a key could not be made: {e}"))?;
        let made = authority_params(&fs_id).self_signed(&key).map_err(|e| format!("it could not be signed: {e}"))?;
        Ok(Authority { fs_id, certificate: made.der().clone(), key })
    }

    /// The one that [`Authority::pem`] is of.
    pub(crate) fn read(fs_id: [u8; 16], text: &str) -> Result<Authority, String> {
        let certificate =
            CertificateDer::from_pem_slice(text.as_bytes()).map_err(|e| format!("its certificate: {e}"))?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|e| format!("its key: {e}"))?;
        let key = KeyPair::try_from(key.secret_der()).map_err(|e| format!("its key: {e}"))?;
        Ok(Authority { fs_id, key, certificate })
    }

    /// Its certificate and its key.
    pub(crate) fn pem(&self) -> String {
        self.certificate_pem() + &pem("PRIVATE KEY", self.key.serialized_der())
    }

    fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    fn issue(&self, mut params: CertificateParams, name: &str) -> Result<Issued, String> {
        let mut serial = [0; 16];
        SystemRandom::new().fill(&mut serial).map_err(|_| "the system gives no random numbers".to_string())?;
        // Serial numbers are positive.
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.distinguished_name = called(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|e| format!("a key could not be made: {e}"))?;
        let issuer = Issuer::new(authority_params(&self.fs_id), &self.key);
        let signed = params.signed_by(&key, &issuer).map_err(|e| format!("it could not be signed: {e}"))?;
        Ok(Issued { certificate: signed.der().clone(), serial: hex(&serial), key })
    }

    /// A certificate for an identity.
    pub(crate) fn issue_identity(&self, name: &str) -> Result<Issued, String> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, name)
    }

    /// The text of the file that an identity is.
    pub(crate) fn file(&self, name: &str, issued: &Issued) -> String {
        let head = format!("loligo identity 1\nfile system {}\nname {name}\n\n", hex(&self.fs_id));
        let certificate = pem("CERTIFICATE", &issued.certificate);
        head + &self.certificate_pem() + &certificate + &pem("PRIVATE KEY", issued.key.serialized_der())
    }

    /// TLS configuration of a server, with a key and a certificate of its own.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, String> {
        let name = server_name(&self.fs_id);
        let mut params = CertificateParams::new(vec![name.clone()]).map_err(|e| e.to_string())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issued = self.issue(params, &name)?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(|e| format!("the authority's certificate: {e}"))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::Pkcs8(issued.key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| e.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![issued.certificate], key)
            .map_err(|e| e.to_string())?;
        // Who comes again shows its certificate again: it may have been revoked.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// The same each time, so that what is signed later has the name of who signed it.
fn authority_params(fs_id: &[u8; 16]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = called(&format!("loligo {}", hex(fs_id)));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}
