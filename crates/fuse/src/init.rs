//! The handshake: what the kernel offers, what is wished of it, and what comes of both.

use std::fmt;

use crate::reply::Reply;
use crate::request::{Operation, ParseError, Request};
use crate::{Buffer, Device, MAJOR, MINOR, MINOR_MIN, Received};

const INIT_EXT: u64 = 1 << 30;
const MAX_PAGES: u64 = 1 << 22;
const BIG_WRITES: u64 = 1 << 5;
const PAGE: u32 = 4096;

/// Abilities of the kernel: bits of `FUSE_INIT`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

#[allow(missing_docs)] // The names are those of `fuse.h`.
impl Capabilities {
    pub const ASYNC_READ: Capabilities = Capabilities(1);
    pub const POSIX_LOCKS: Capabilities = Capabilities(1 << 1);
    pub const ATOMIC_O_TRUNC: Capabilities = Capabilities(1 << 3);
    pub const DONT_MASK: Capabilities = Capabilities(1 << 6);
    pub const FLOCK_LOCKS: Capabilities = Capabilities(1 << 10);
    pub const AUTO_INVAL_DATA: Capabilities = Capabilities(1 << 12);
    pub const ASYNC_DIO: Capabilities = Capabilities(1 << 15);
    pub const PARALLEL_DIROPS: Capabilities = Capabilities(1 << 18);
    pub const POSIX_ACL: Capabilities = Capabilities(1 << 20);
    pub const CACHE_SYMLINKS: Capabilities = Capabilities(1 << 23);
    pub const HANDLE_KILLPRIV_V2: Capabilities = Capabilities(1 << 28);
    pub const DIRECT_IO_ALLOW_MMAP: Capabilities = Capabilities(1 << 36);

    /// True if all of the others are in these.
    pub fn has(self, others: Capabilities) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and others.
    pub const fn and(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Offer of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Minor version of its protocol.
    pub minor: u32,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

/// Capabilities and limits to ask of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Abilities to be used, as far as they are offered.
    pub capabilities: Capabilities,
    /// Largest write, bytes.
    pub max_write: u32,
    /// Requests under way in the background at most.
    pub max_background: u16,
}

/// Why there was no agreement.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The kernel speaks another protocol.
    #[error(
        "the kernel's FUSE has version {0}.{1}; version {MAJOR}.{MINOR_MIN} (Linux 5.4) is the oldest that is served"
    )]
    Version(u32, u32),
    /// The first request was not a handshake.
    #[error("the kernel did not begin with a handshake")]
    NotInit,
    /// The first request made no sense.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It was unmounted before the handshake.
    #[error("it was unmounted before the handshake")]
    Unmounted,
    /// The device failed.
    #[error("reading /dev/fuse: {0}")]
    Io(#[from] std::io::Error),
}

impl Device {
    /// Waits for the kernel's handshake and answers it.
    pub fn handshake(&self, wish: &Wish) -> Result<Offer, InitError> {
        let mut buffer = Buffer::new(0);
        loop {
            let bytes = match self.receive(&mut buffer)? {
                Received::Request(bytes) => bytes,
                Received::Nothing => continue,
                Received::Unmounted => return Err(InitError::Unmounted),
            };
            let request = Request::parse(bytes)?;
            let reply = Reply::new(self, request.header.unique);
            let Operation::Init { body } = request.operation else {
                reply.error(crate::Errno(libc::EIO));
                return Err(InitError::NotInit);
            };
            match answer(body, wish) {
                Ok((Some(offer), out)) => {
                    reply.bytes(&out);
                    return Ok(offer);
                }
                // It asks again with the version that it was told.
                Ok((None, out)) => reply.bytes(&out),
                Err(error) => {
                    reply.error(crate::Errno(libc::EPROTO));
                    return Err(error);
                }
            }
        }
    }
}

/// The answer (`struct fuse_init_out`) to a handshake; without an offer it only names the version.
pub(crate) fn answer(body: &[u8], wish: &Wish) -> Result<(Option<Offer>, Vec<u8>), InitError> {
    let word = |at: usize| body.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let (Some(major), Some(minor)) = (word(0), word(4)) else { return Err(InitError::NotInit) };
    let mut out = Out::default();
    if major > MAJOR {
        out.u32(MAJOR).u32(MINOR);
        out.0.resize(64, 0);
        return Ok((None, out.0));
    }
    if major < MAJOR || minor < MINOR_MIN {
        return Err(InitError::Version(major, minor));
    }
    let (Some(max_readahead), Some(flags)) = (word(8), word(12)) else { return Err(InitError::NotInit) };
    let mut offered = u64::from(flags);
    if offered & INIT_EXT != 0 {
        offered |= u64::from(word(16).unwrap_or(0)) << 32;
    }
    let used = offered & (wish.capabilities.0 | INIT_EXT | MAX_PAGES | BIG_WRITES);
    out.u32(MAJOR).u32(MINOR.min(minor)).u32(max_readahead).u32(used as u32);
    out.u16(wish.max_background).u16(wish.max_background / 4 * 3).u32(wish.max_write);
    // Times have nanoseconds.
    out.u32(1).u16(u16::try_from(wish.max_write.div_ceil(PAGE)).unwrap_or(u16::MAX)).u16(0).u32((used >> 32) as u32);
    out.0.resize(64, 0);
    let offer = Offer { minor, capabilities: Capabilities(offered) };
    Ok((Some(offer), out.0))
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u16(&mut self, value: u16) -> &mut Out {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Out {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }
}
