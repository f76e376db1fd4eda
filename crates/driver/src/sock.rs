//! Stream sockets, Unix and TCP alike: opened, accepted, read and written without waiting. No bytes are understood here.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::Address;

/// How long connecting over TCP may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connected stream socket that does not wait.
#[derive(Debug)]
pub struct Sock {
    fd: OwnedFd,
}

impl AsFd for Sock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Sock {
    /// Takes a connected socket.
    pub fn new(fd: OwnedFd) -> io::Result<Sock> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Sock { fd })
    }

    /// Connects to a server; waits for it at most some seconds.
    pub fn connect(address: &Address) -> io::Result<Sock> {
        match address {
            Address::Unix(path) => Sock::new(UnixStream::connect(path)?.into()),
            Address::Tcp(at) => Sock::connect_tcp(at),
            Address::Pair(fd) => Sock::new(fd.try_clone()?),
            Address::Any(all) => {
                let all: Vec<&Address> = all.iter().collect();
                Ok(Sock::connect_any(&all)?.1)
            }
        }
    }

    /// Connects to the first of these that takes the connection; which one that is.
    pub fn connect_any(all: &[&Address]) -> io::Result<(usize, Sock)> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no address");
        for (at, address) in all.iter().enumerate() {
            match Sock::connect(address) {
                Ok(sock) => return Ok((at, sock)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_tcp(at: &str) -> io::Result<Sock> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for addr in at.to_socket_addrs()? {
            match TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Sock::new(stream.into());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Two sockets that are connected to each other.
    pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
    }

    /// Reads what is there. `Ok(None)`: nothing now. `Ok(Some(0))`: the peer has closed.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::net::recv(&self.fd, &mut *buf, RecvFlags::empty()) {
                Ok((n, _)) => return Ok(Some(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes as much as there is room for; 0: none now.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            let mut control = rustix::net::SendAncillaryBuffer::default();
            // NOSIGNAL: a peer that closed is an error and not a SIGPIPE.
            match rustix::net::sendmsg(&self.fd, parts, &mut control, rustix::net::SendFlags::NOSIGNAL) {
                Ok(n) => return Ok(n),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// User of the process at the other end of a Unix socket.
    pub fn peer_uid(&self) -> io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(&self.fd)?.uid.as_raw())
    }

    /// Groups of the process at the other end of a Unix socket, primary first; empty if the system does not tell.
    pub fn peer_groups(&self) -> Vec<u32> {
        let Ok(cred) = rustix::net::sockopt::socket_peercred(&self.fd) else { return Vec::new() };
        let mut groups = vec![0u32; loligo_types::limits::GROUPS_MAX];
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the buffer is as long as `bytes` says, and the kernel writes at most that.
        let told = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&self.fd);
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, groups.as_mut_ptr().cast(), &mut bytes)
        };
        groups.truncate(if told == 0 { bytes as usize / size_of::<u32>() } else { 0 });
        groups.insert(0, cred.gid.as_raw());
        groups
    }
}

/// A listening socket that does not wait.
#[derive(Debug)]
pub enum Listener {
    /// Unix; the file is the one who made it's to remove.
    Unix(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(l) => l.as_fd(),
            Listener::Tcp(l) => l.as_fd(),
        }
    }
}

impl Listener {
    /// Listens on a TCP address of this host.
    pub fn tcp(addr: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// Listens on a Unix socket; the path must be free.
    pub fn unix(path: &std::path::Path) -> io::Result<Listener> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Listener::Unix(l) => {
                let addr = l.local_addr()?;
                Address::Unix(addr.as_pathname().map(Into::into).unwrap_or_default())
            }
            Listener::Tcp(l) => Address::Tcp(l.local_addr()?.to_string()),
        })
    }

    /// A new connection; `None`: none now.
    pub fn accept(&self) -> io::Result<Option<Sock>> {
        let accepted = match self {
            Listener::Unix(l) => l.accept().map(|(stream, _)| OwnedFd::from(stream)),
            Listener::Tcp(l) => l.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(OwnedFd::from(stream))
            }),
        };
        match accepted {
            Ok(fd) => Sock::new(fd).map(Some),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Whether the peers' users are known to the operating system.
    pub fn knows_peers(&self) -> bool {
        matches!(self, Listener::Unix(_))
    }
}

/// Wakes a thread that waits in epoll: a number in the kernel that is not zero.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Waker {
    /// A new one.
    pub fn new() -> io::Result<Waker> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Waker { fd: Arc::new(rustix::event::eventfd(0, flags)?) })
    }

    /// Wakes. Cannot fail: a full counter is awake already.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes the wake-up away.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}
