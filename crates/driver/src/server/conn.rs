//! One connection: bytes in to messages, messages out to bytes, and the bounds of both. Sessions are the machine's.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_mds::Identity;
use loligo_types::SessionId;
use loligo_types::msg::{Refusal, ToClient};
use loligo_wire::{Decoder, FromClient};

use super::slots::{Kind, Slot};
use crate::sock::Sock;

/// Payloads below this are copied behind their frame, bytes.
const COPY_MAX: usize = 4096;
/// Bytes of one chunk of small frames.
const CHUNK: usize = 64 << 10;
/// With this much unsent the connection's requests wait, bytes.
const OUT_PAUSE: usize = 8 << 20;
/// With this much unsent the connection is closed, bytes.
const OUT_MAX: usize = 256 << 20;
/// Data requests of a connection that may be under way before its further requests wait.
const DATA_MAX: usize = 64;
/// Chunks of one write.
const WRITE_PARTS: usize = 32;
/// Time limit of the handshake.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Time limit for a peer that leaves a frame half sent, or does not read.
const STALL_TIME: Duration = Duration::from_secs(30);

/// Unsent bytes, in order.
enum Chunk {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Own(bytes) => bytes,
            Chunk::Shared(bytes) => bytes,
        }
    }
}

/// Requests of a connection whose times are kept: more than a client may have unanswered.
const ASKED_MAX: usize = 2 * loligo_types::limits::IN_FLIGHT_MAX;

/// A request that was not answered: its number, its kind, and when it came.
pub(crate) type Asked = (u64, usize, Instant);

/// Stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Over TCP; its first byte tells whether it is TLS.
    New,
    /// In the TLS handshake.
    Greets,
    /// The machines know of it.
    Open,
}

/// A connection.
pub(crate) struct Conn {
    pub(crate) stage: Stage,
    /// It is told this when it says hello, and closed.
    pub(crate) refusal: Option<(Refusal, String)>,
    /// Its place among all; none: that of the client in this process.
    pub(crate) slot: Option<Slot>,
    /// The host at the other end, over TCP.
    pub(crate) host: Option<IpAddr>,
    /// It may come in without an identity.
    pub(crate) trusted: bool,
    /// The identity that the peer has shown.
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) sock: Sock,
    pub(crate) decoder: Decoder<FromClient>,
    out: VecDeque<Chunk>,
    /// Bytes of the first chunk that were sent.
    sent: usize,
    unsent: usize,
    /// A spare buffer of small frames.
    spare: Vec<u8>,
    pub(crate) session: Option<SessionId>,
    /// A `Hello` came.
    pub(crate) greeted: bool,
    /// To be closed when everything was sent.
    pub(crate) closing: bool,
    /// Interest registered with epoll: read, write.
    pub(crate) interest: (bool, bool),
    /// In the list of connections to flush.
    pub(crate) queued: bool,
    pub(crate) asked: VecDeque<Asked>,
    pub(crate) data_asked: VecDeque<Asked>,
    opened: Instant,
    last_read: Instant,
    last_write: Instant,
}

/// Why a connection must go.
pub(crate) enum Verdict {
    Keep,
    Drop(&'static str),
}

impl Conn {
    pub(crate) fn new(sock: Sock, now: Instant) -> Conn {
        Conn {
            stage: Stage::Open,
            refusal: None,
            slot: None,
            host: None,
            trusted: false,
            identity: None,
            sock,
            decoder: Decoder::new(),
            out: VecDeque::new(),
            sent: 0,
            unsent: 0,
            spare: Vec::new(),
            session: None,
            greeted: false,
            closing: false,
            interest: (true, false),
            queued: false,
            asked: VecDeque::new(),
            data_asked: VecDeque::new(),
            opened: now,
            last_read: now,
            last_write: now,
        }
    }

    /// Reads once into the decoder. `Ok(None)`: nothing there. `Ok(Some((0, _)))`: closed. The flag: there may be more.
    pub(crate) fn read(&mut self, now: Instant) -> io::Result<Option<(usize, bool)>> {
        let space = self.decoder.space();
        let room = space.len();
        let Some(n) = self.sock.read(space)? else { return Ok(None) };
        self.decoder.filled(n);
        self.last_read = now;
        Ok(Some((n, n == room || self.sock.holds())))
    }

    /// Adds a message to what is to be sent.
    pub(crate) fn send(&mut self, msg: &ToClient, now: Instant) {
        if self.out.is_empty() {
            self.last_write = now;
        }
        if !matches!(self.out.back(), Some(Chunk::Own(bytes)) if bytes.len() < CHUNK) {
            self.out.push_back(Chunk::Own(std::mem::take(&mut self.spare)));
        }
        let Some(Chunk::Own(bytes)) = self.out.back_mut() else { return };
        let before = bytes.len();
        match loligo_wire::head_to_client(msg, bytes) {
            Some(payload) if payload.len() >= COPY_MAX => {
                self.unsent += bytes.len() - before + payload.len();
                self.out.push_back(Chunk::Shared(payload));
            }
            payload => {
                bytes.extend_from_slice(payload.as_deref().unwrap_or_default());
                self.unsent += bytes.len() - before;
            }
        }
    }

    /// Sends as much as the peer takes; the number of bytes.
    pub(crate) fn flush(&mut self, now: Instant) -> io::Result<usize> {
        let mut total = 0;
        while self.unsent > 0 {
            let n = {
                let mut parts = Vec::with_capacity(self.out.len().min(WRITE_PARTS));
                for (at, chunk) in self.out.iter().take(WRITE_PARTS).enumerate() {
                    let from = if at == 0 { self.sent } else { 0 };
                    parts.push(IoSlice::new(&chunk.bytes()[from..]));
                }
                self.sock.write(&parts)?
            };
            if n == 0 {
                break;
            }
            total += n;
            self.advance(n);
            self.last_write = now;
        }
        if self.unsent == 0 && self.sock.is_writing() {
            self.sock.write(&[])?;
        }
        Ok(total)
    }

    fn advance(&mut self, mut n: usize) {
        self.unsent -= n;
        while let Some(first) = self.out.front() {
            let left = first.bytes().len() - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.sent = 0;
            if let Some(Chunk::Own(mut bytes)) = self.out.pop_front()
                && bytes.capacity() <= 2 * CHUNK
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }

    /// True if the peer has not shown its identity yet.
    pub(crate) fn is_half_open(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.kind() == Kind::HalfOpen)
    }

    /// True if the peer may change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.rights.is_read_only())
    }

    /// True if bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0 || self.sock.is_writing()
    }

    /// True if further requests of the peer wait until it has taken answers.
    pub(crate) fn is_paused(&self) -> bool {
        self.closing || self.unsent > OUT_PAUSE || self.data_asked.len() >= DATA_MAX
    }

    /// Checks the limits of time and space of the peer.
    pub(crate) fn verdict(&self, now: Instant) -> Verdict {
        let since = |then: Instant| now.saturating_duration_since(then);
        if self.unsent > OUT_MAX {
            Verdict::Drop("it does not read its answers")
        } else if self.has_unsent() && since(self.last_write) > STALL_TIME {
            Verdict::Drop("it has not read for 30 s")
        } else if !self.greeted && since(self.opened) > HELLO_TIME {
            Verdict::Drop("it has not said who it is for 5 s")
        } else if self.decoder.is_inside_frame() && !self.is_paused() && since(self.last_read) > STALL_TIME {
            Verdict::Drop("it left a message half sent for 30 s")
        } else {
            Verdict::Keep
        }
    }
}

/// Notes a request. The oldest makes room: some are never answered, as those that a client sends again after it had the answer.
pub(crate) fn ask(asked: &mut VecDeque<Asked>, request: Asked) {
    if asked.len() >= ASKED_MAX {
        asked.pop_front();
    }
    asked.push_back(request);
}

/// Takes the request with this number out of those that were asked.
pub(crate) fn answered(asked: &mut VecDeque<Asked>, number: u64) -> Option<Asked> {
    if asked.front().is_some_and(|(n, ..)| *n == number) {
        return asked.pop_front();
    }
    let at = asked.iter().position(|(n, ..)| *n == number)?;
    asked.remove(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_never_answered_make_room_and_the_others_are_found() {
        let (mut asked, now) = (VecDeque::new(), Instant::now());
        for number in 0..3 * ASKED_MAX as u64 {
            ask(&mut asked, (number % 7, 0, now));
        }
        ask(&mut asked, (100, 3, now));
        assert_eq!(asked.len(), ASKED_MAX);
        assert_eq!(answered(&mut asked, 100), Some((100, 3, now)));
        assert_eq!(answered(&mut asked, 100), None);
    }
}
