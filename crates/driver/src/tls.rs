//! TLS between clients and servers: the authority of a file system, the identities that it signs, and the bytes on a
//! socket. Who may do what is the list of identities (`server/auth.rs`) and the machines'; no policy is here.
//!
//! TLS 1.3 only, with rustls and ring; nothing is resumed, so every connection shows its certificate. What a certificate
//! says of its holder is not read: a server knows identities by the SHA-256 of the whole certificate.

mod authority;
mod identity;
mod stream;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub(crate) use self::authority::Authority;
pub use self::identity::{Identity, IdentityError};
pub(crate) use self::stream::Tls;

/// The first byte of a connection that begins with a TLS handshake; a frame of ours begins with `L`.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// SHA-256 of a certificate, by which an identity is known.
pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// The name that servers of a file system have in their certificates, and clients look for.
pub(crate) fn server_name(fs_id: &[u8; 16]) -> String {
    format!("{}.loligo.internal", hex(fs_id))
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A block of PEM.
fn pem(label: &str, der: &[u8]) -> String {
    let form = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), form)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn pem_is_what_others_read() {
        for len in 0..200u8 {
            let bytes: Vec<u8> = (0..len).map(|at| at.wrapping_mul(77)).collect();
            let text = pem("CERTIFICATE", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64));
            assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).expect("good PEM").as_ref(), bytes);
        }
    }

    #[test]
    fn hexadecimal_digits_are_read_as_written_and_nothing_else() {
        assert_eq!(unhex(&hex(&[0, 0xab, 0xff])), Some([0, 0xab, 0xff]));
        for bad in ["", "0", "00gg00", "0000000", "é000"] {
            assert_eq!(unhex::<3>(bad), None, "{bad}");
        }
    }
}
