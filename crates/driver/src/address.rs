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
    /// Several, of which at most one leads to the server: the others stand by.
    Any(Arc<[Address]>),
    /// One end of a socket pair, whose other end the server of this process has. Used once.
    Pair(Arc<OwnedFd>),
}

/// The text is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no address of a server: give unix:PATH (or a path with a slash), tcp:HOST:PORT, or several with commas between"
)]
pub struct AddressError(String);

impl Address {
    /// Those that it stands for.
    pub fn each(&self) -> &[Address] {
        match self {
            Address::Any(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let bad = || AddressError(text.to_owned());
        // A path may have commas, too: one of several begins as a path does, or has no slash.
        let is_one = |part: &str| !part.contains('/') || part.starts_with(['/', '.']) || part.starts_with("unix:");
        if text.contains(',') && text.split(',').all(is_one) {
            return Ok(Address::Any(text.split(',').map(str::parse).collect::<Result<_, _>>()?));
        }
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
            Address::Any(all) => {
                for (at, address) in all.iter().enumerate() {
                    write!(f, "{}{address}", if at > 0 { "," } else { "" })?;
                }
                Ok(())
            }
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
            ("/run,1/a", "unix:/run,1/a"),
            ("tcp:localhost:70", "tcp:localhost:70"),
            ("[::1]:70", "tcp:[::1]:70"),
            ("a:70,/run/b,tcp:c:71", "tcp:a:70,unix:/run/b,tcp:c:71"),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), canonical);
        }
        for text in
            ["", "unix:", "tcp:", "localhost", "tcp:localhost", "tcp::80", "localhost:70000", "a:1,", ",", "a:1,,b:2"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
