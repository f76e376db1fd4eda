//! Where a server listens or is found. Only the words; [`crate::sock`] opens what they name.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// An address of a server.
#[derive(Clone, Debug)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
    /// One end of a socket pair, whose other end the server of this process has. Used once.
    Pair(Arc<OwnedFd>),
}

/// The text is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no address of a server: give unix:PATH (or a path with a slash), or tcp:HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let bad = || AddressError(text.to_owned());
        let tcp = |rest: &str| {
            let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
            let port: u16 = port.parse().map_err(|_| bad())?;
            if host.is_empty() { Err(bad()) } else { Ok(Address::Tcp(format!("{host}:{port}"))) }
        };
        match text.split_once(':') {
            Some(("unix", "")) => Err(bad()),
            Some(("unix", path)) => Ok(Address::Unix(path.into())),
            Some(("tcp", rest)) => tcp(rest),
            _ if text.contains('/') => Ok(Address::Unix(text.into())),
            _ => tcp(text),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(at) => write!(f, "tcp:{at}"),
            Address::Pair(_) => f.write_str("the server in this process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_the_same() {
        for (text, canonical) in [
            ("unix:/run/a", "unix:/run/a"),
            ("/run/a:1", "unix:/run/a:1"),
            ("./a", "unix:./a"),
            ("tcp:localhost:70", "tcp:localhost:70"),
            ("[::1]:70", "tcp:[::1]:70"),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), canonical);
        }
        for text in ["", "unix:", "tcp:", "localhost", "tcp:localhost", "tcp::80", "localhost:70000"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
