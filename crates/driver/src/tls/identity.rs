//! The file that an identity is: certificates and a key in one PEM bundle, with which a client comes in over TLS. Its
//! bytes are drawn in docs/formats/identity.md. What it may do is known to the servers alone.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::{provider, server_name, unhex};

/// The first line.
const HEAD: &str = "loligo identity 1";
/// Longer files are something else.
const FILE_MAX: u64 = 1 << 20;

/// An identity, with its key.
#[derive(Clone)]
pub struct Identity {
    name: String,
    fs_id: String,
    pub(super) server_name: ServerName<'static>,
    pub(super) config: Arc<ClientConfig>,
}

/// A file cannot be used as an identity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("identity file {file}: {cause}")]
pub struct IdentityError {
    file: String,
    cause: String,
}

impl fmt::Debug for Identity {
    /// Not with the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("name", &self.name).field("fs_id", &self.fs_id).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads a file that `loligo auth add` made.
    pub fn read(path: &Path) -> Result<Identity, IdentityError> {
        let bad = |cause: String| IdentityError { file: path.display().to_string(), cause };
        let len = std::fs::metadata(path).map_err(|e| bad(e.to_string()))?.len();
        if len > FILE_MAX {
            return Err(bad(format!("it has {len} bytes, and is none")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        Identity::parse(&text).map_err(bad)
    }

    /// Reads the text of such a file.
    pub fn parse(text: &str) -> Result<Identity, String> {
        let mut lines = text.lines();
        match lines.next() {
            Some(HEAD) => {}
            Some(line) if line.starts_with("loligo identity ") => {
                return Err("it is of a newer version: use a newer version of loligo".into());
            }
            _ => return Err("it is none: loligo auth add NAME --out FILE makes one".into()),
        }
        let odd = || "it is damaged: make another one with loligo auth add".to_string();
        let fs_id = lines.next().and_then(|line| line.strip_prefix("file system ")).ok_or_else(odd)?;
        let name = lines.next().and_then(|line| line.strip_prefix("name ")).ok_or_else(odd)?;
        let mut certificates = Vec::new();
        for found in CertificateDer::pem_slice_iter(text.as_bytes()) {
            certificates.push(found.map_err(|_| odd())?);
        }
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| odd())?;
        let [authority, own] = <[_; 2]>::try_from(certificates).map_err(|_| odd())?;
        let id = unhex::<16>(fs_id).ok_or_else(odd)?;
        let server_name = ServerName::try_from(server_name(&id)).map_err(|_| odd())?;
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|e| format!("{}: {e}", odd()))?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![own], key)
            .map_err(|e| format!("{}: {e}", odd()))?;
        config.resumption = Resumption::disabled();
        // The name is that of a file system, not of a host, and tells listeners nothing that they need to know.
        config.enable_sni = false;
        Ok(Identity { name: name.into(), fs_id: fs_id.into(), server_name, config: Arc::new(config) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file system that it is for, in hexadecimal digits.
    pub fn fs_id(&self) -> &str {
        &self.fs_id
    }
}
