//! Opens the addresses that a server listens on.

use std::fs;
use std::io;
use std::net::ToSocketAddrs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use loligo_types::Rank;

use super::cluster::address_of;
use super::error::{Result, ServerError};
use crate::Address;
use crate::sock::Listener;

/// Listeners, and the socket files to remove at the end.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) sockets: Vec<Listener>,
    files: Vec<PathBuf>,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for path in &self.files {
            let _ = fs::remove_file(path);
        }
    }
}

impl Listeners {
    /// Opens all of them, or none.
    pub(crate) fn open(addresses: &[Address]) -> Result<Listeners> {
        let mut open = Listeners::default();
        for address in addresses {
            match address {
                Address::Unix(path) => {
                    let listener = unix(path).map_err(|e| refused(address, &e))?;
                    open.files.push(path.clone());
                    open.sockets.push(listener);
                }
                Address::Tcp(at) => open.tcp(address, at)?,
                Address::Any(_) | Address::Pair(_) => {
                    let cause = "a server listens on one address after the other: name each by itself".to_owned();
                    return Err(ServerError::Listen { address: address.to_string(), cause });
                }
            }
        }
        Ok(open)
    }

    fn tcp(&mut self, address: &Address, at: &str) -> Result<()> {
        let addrs: Vec<_> = at.to_socket_addrs().map_err(|e| refused(address, &e))?.collect();
        if addrs.is_empty() {
            let cause = "the host has no address".to_string();
            return Err(ServerError::Listen { address: address.to_string(), cause });
        }
        for addr in addrs {
            self.sockets.push(Listener::tcp(addr).map_err(|e| refused(address, &e))?);
            if addr.port() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The Unix sockets among them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Where they listen, with the ports that the system chose.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.sockets.iter().filter_map(|l| l.address().ok()).collect()
    }
}

/// Checks that so many ranks could listen at these addresses now. Nothing stays open, so another program may still take them. Unix sockets
/// count where their directory exists.
pub fn check_listen(addresses: &[Address], ranks: u16) -> Result<()> {
    let mut all = Vec::new();
    for address in addresses {
        if let Address::Unix(path) = address
            && !path.parent().is_some_and(Path::is_dir)
        {
            continue;
        }
        for rank in 0..ranks.max(1) {
            all.push(address_of(address, Rank(rank))?);
        }
    }
    Listeners::open(&all).map(drop)
}

fn refused(address: &Address, error: &io::Error) -> ServerError {
    ServerError::Listen { address: address.to_string(), cause: error.to_string() }
}

/// Listens on a path, for a thread that waits for who connects.
pub(crate) fn unix_blocking(path: &Path) -> io::Result<UnixListener> {
    match unix(path)? {
        Listener::Unix(listener) => listener.set_nonblocking(false).map(|()| listener),
        Listener::Tcp(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Listens on a path. A socket that nobody listens on is what a killed server left, and is removed.
fn unix(path: &Path) -> io::Result<Listener> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => match UnixStream::connect(path) {
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there; stop it first"));
            }
            Err(_) => fs::remove_file(path)?,
        },
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is in the way"));
        }
        Err(_) => {}
    }
    let listener = Listener::unix(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
