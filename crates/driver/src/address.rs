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
    /// The address for a client that found the server at `own`: Unix sockets or TCP, as the client came, with an identity over TCP. A
    /// server that listens on all addresses of its host is reached by the name that the client knows it by.
    pub(crate) fn reached_as(self, own: &Address, has_identity: bool) -> Address {
        let tcp_of = |address: &Address| match address {
            Address::Tcp(at) => Some(at.clone()),
            _ => None,
        };
        let host = own.each().iter().find_map(tcp_of);
        let over_tcp = has_identity || matches!(own.each().first(), Some(Address::Tcp(_)));
        let wanted = |address: &&Address| matches!(address, Address::Tcp(_)) == over_tcp;
        let mut ways: Vec<Address> = self.each().iter().filter(wanted).cloned().collect();
        if ways.is_empty() {
            ways = self.each().to_vec();
        }
        for way in &mut ways {
            let (Address::Tcp(at), Some(host)) = (&mut *way, &host) else { continue };
            let Some((anywhere, port)) = at.rsplit_once(':') else { continue };
            if let ("0.0.0.0" | "[::]", Some((host, _))) = (anywhere, host.rsplit_once(':')) {
                *at = format!("{host}:{port}");
            }
        }
        if ways.len() == 1 { ways.swap_remove(0) } else { Address::Any(ways.into()) }
    }

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
    fn a_rank_is_reached_the_way_that_the_client_came() {
        let rank = || "unix:/d/loligo-1.sock,tcp:0.0.0.0:71".parse::<Address>().expect("addresses");
        let reached = |own: &str, identity| rank().reached_as(&own.parse().expect("an address"), identity).to_string();
        assert_eq!(reached("/d/loligo.sock", false), "unix:/d/loligo-1.sock");
        assert_eq!(reached("/d/loligo.sock", true), "tcp:0.0.0.0:71");
        assert_eq!(reached("tcp:host:70", true), "tcp:host:71");
        assert_eq!(reached("tcp:host:70", false), "tcp:host:71");
        assert_eq!(reached("tcp:a:70,tcp:b:70", true), "tcp:a:71");
        let unix: Address = "/d/loligo-1.sock".parse().expect("an address");
        let own = "tcp:host:70".parse().expect("an address");
        assert_eq!(unix.reached_as(&own, true).to_string(), "unix:/d/loligo-1.sock", "there is no other way");
    }

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
