//! Stream sockets, Unix and TCP alike, with TLS or without: opened, accepted, read and written without waiting. No bytes
//! are understood here.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::Address;
use crate::tls::{Identity, Tls};

/// Time limit of connecting over TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a server's part of a TLS handshake; servers give clients as long.
const TLS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a server that closes connections is tried again, and the first and the longest pause before that.
const AGAIN_FOR: Duration = Duration::from_secs(2);
const AGAIN_MIN: Duration = Duration::from_millis(10);
const AGAIN_MAX: Duration = Duration::from_millis(200);
/// Message about a server that closes connections before they are secure.
const CLOSED: &str = "the server closes the connection before it has seen the identity, which may be as good as ever: it has as many \
                      connections as it takes just now, or it stops; try again later";

/// A connected stream socket that does not wait.
#[derive(Debug)]
pub struct Sock {
    fd: OwnedFd,
    /// A client's sending and receiving threads share it; a server's rank is alone with it.
    tls: Option<Mutex<Box<Tls>>>,
}

/// Reads what is there, as [`Sock::read`].
pub(crate) fn recv(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<Option<usize>> {
    recv_with(fd, buf, RecvFlags::empty())
}

fn recv_with(fd: &OwnedFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<Option<usize>> {
    loop {
        match rustix::net::recv(fd, &mut *buf, flags) {
            Ok((n, _)) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes as much as there is room for, as [`Sock::write`].
pub(crate) fn send(fd: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        let mut control = rustix::net::SendAncillaryBuffer::default();
        // NOSIGNAL: a peer that closed is an error and not a SIGPIPE.
        match rustix::net::sendmsg(fd, parts, &mut control, rustix::net::SendFlags::NOSIGNAL) {
            Ok(n) => return Ok(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(error) => return Err(error.into()),
        }
    }
}

/// True if the other end has gone, or has no room for one more.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
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
        Ok(Sock { fd, tls: None })
    }

    /// Connects to a server; waits for it at most some seconds. Over TCP with an identity: with TLS.
    pub fn connect(address: &Address, identity: Option<&Identity>) -> io::Result<Sock> {
        match address {
            Address::Unix(path) => Sock::new(UnixStream::connect(path)?.into()),
            Address::Tcp(at) => match identity {
                Some(identity) => Sock::connect_tls(at, identity),
                None => Sock::connect_tcp(at),
            },
            Address::Pair(fd) => Sock::new(fd.try_clone()?),
            Address::Any(all) => {
                let all: Vec<&Address> = all.iter().collect();
                Ok(Sock::connect_any(&all, identity)?.1)
            }
        }
    }

    /// Connects to the first of these that takes the connection; which one that is.
    pub fn connect_any(all: &[&Address], identity: Option<&Identity>) -> io::Result<(usize, Sock)> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no address");
        for (at, address) in all.iter().enumerate() {
            match Sock::connect(address, identity) {
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

    /// Connects with TLS. A server that has no room for one more closes the connection before it can say so: then again, for some seconds.
    fn connect_tls(at: &str, identity: &Identity) -> io::Result<Sock> {
        let until = Instant::now() + AGAIN_FOR;
        let mut pause = AGAIN_MIN;
        loop {
            match Sock::connect_tcp(at)?.greet(identity) {
                Err(error) if is_closed(&error) && Instant::now() + pause < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(AGAIN_MAX);
                }
                Err(error) if is_closed(&error) => return Err(io::Error::new(error.kind(), CLOSED)),
                done => return done,
            }
        }
    }

    /// The client's part of a TLS handshake; waits for the server's at most some seconds.
    fn greet(mut self, identity: &Identity) -> io::Result<Sock> {
        let mut tls = Box::new(Tls::client(identity)?);
        let until = Instant::now() + TLS_TIMEOUT;
        while !tls.handshake(&self.fd)? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not answer the TLS handshake"));
            }
            let interest = if tls.is_writing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match rustix::event::poll(&mut [PollFd::new(&self.fd, interest)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.tls = Some(Mutex::new(tls));
        Ok(self)
    }

    /// From now on what goes over it is TLS, and this the server's end.
    pub(crate) fn secure(&mut self, config: &Arc<rustls::ServerConfig>) -> io::Result<()> {
        self.tls = Some(Mutex::new(Box::new(Tls::server(config)?)));
        Ok(())
    }

    fn tls(&self) -> Option<MutexGuard<'_, Box<Tls>>> {
        Some(self.tls.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes on with the TLS handshake, if it is TLS. Once it is done, the certificate of the other end.
    pub(crate) fn handshake(&self) -> io::Result<Option<[u8; 32]>> {
        let Some(mut tls) = self.tls() else { return Ok(None) };
        if !tls.handshake(&self.fd)? {
            return Ok(None);
        }
        // The verifier has demanded it.
        tls.peer().map(Some).ok_or_else(|| io::Error::other("there is no certificate"))
    }

    /// The first byte that came, which stays. `Ok(None)`: nothing yet.
    pub(crate) fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        match recv_with(&self.fd, &mut first, RecvFlags::PEEK)? {
            None => Ok(None),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => Ok(Some(first[0])),
        }
    }

    /// True if there is something to read of which the system does not tell.
    pub(crate) fn holds(&self) -> bool {
        self.tls().is_some_and(|tls| tls.holds())
    }

    /// True if written bytes wait here for room. Writing on, also nothing, sends them.
    pub(crate) fn is_writing(&self) -> bool {
        self.tls().is_some_and(|tls| tls.is_writing())
    }

    /// Reads what is there. `Ok(None)`: nothing now. `Ok(Some(0))`: the peer has closed.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tls() {
            Some(mut tls) => tls.read(&self.fd, buf),
            None => recv(&self.fd, buf),
        }
    }

    /// Writes as much as there is room for; 0: none now.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.tls() {
            Some(mut tls) => tls.write(&self.fd, parts),
            None => send(&self.fd, parts),
        }
    }

    /// Host at the other end of a TCP connection.
    pub fn peer_host(&self) -> Option<IpAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok()??).ok().map(|at| at.ip())
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
            Listener::Tcp(l) => l.accept().map(|(stream, _)| {
                // One that has gone already is seen to be so when it is read.
                let _ = stream.set_nodelay(true);
                OwnedFd::from(stream)
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

    /// True if the operating system knows the peers' users.
    pub fn knows_peers(&self) -> bool {
        matches!(self, Listener::Unix(_))
    }

    /// True if other hosts reach it.
    pub fn is_open(&self) -> bool {
        match self {
            Listener::Unix(_) => false,
            Listener::Tcp(l) => !l.local_addr().is_ok_and(|at| at.ip().is_loopback()),
        }
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
