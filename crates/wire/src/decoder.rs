//! Bytes as they come from a connection, messages as they are whole.

use std::marker::PhantomData;
use std::sync::Arc;

use loligo_types::limits::FRAME_MAX;
use loligo_types::msg::{ToClient, ToServer};
use prost::Message;

use crate::frame::{HEAD_MAX, HEADER_LEN, Header, TO_CLIENT, TO_SERVER};
use crate::{DecodeError, HANDSHAKE_MAX, from_client, from_server, proto};

/// Payloads of at least this are received straight into their final place, bytes.
const DIRECT_MIN: usize = 16 << 10;
/// Least room offered to a read, bytes.
const READ_MIN: usize = 16 << 10;
/// A buffer that grew beyond this is given back when it is empty, bytes.
const KEEP_MAX: usize = 256 << 10;

/// Sender of the bytes that a [`Decoder`] takes, and so the kind of their messages.
pub trait Side {
    /// The messages.
    type Message;
    #[doc(hidden)]
    const DIRECTION: u8;
    /// Longest frame before the handshake is done, bytes.
    #[doc(hidden)]
    const FIRST_MAX: usize;
    #[doc(hidden)]
    fn message(head: &[u8], payload: Payload) -> Result<Self::Message, DecodeError>;
}

/// The bytes come from a client: messages are [`ToServer`].
#[derive(Debug)]
pub enum FromClient {}
/// The bytes come from a server: messages are [`ToClient`].
#[derive(Debug)]
pub enum FromServer {}

impl Side for FromClient {
    type Message = ToServer;
    const DIRECTION: u8 = TO_SERVER;
    const FIRST_MAX: usize = HANDSHAKE_MAX;
    fn message(head: &[u8], payload: Payload) -> Result<ToServer, DecodeError> {
        from_client::decode(proto::ToServer::decode(head)?, payload)
    }
}

impl Side for FromServer {
    type Message = ToClient;
    const DIRECTION: u8 = TO_CLIENT;
    // The welcome holds the maps.
    const FIRST_MAX: usize = HEAD_MAX;
    fn message(head: &[u8], payload: Payload) -> Result<ToClient, DecodeError> {
        from_server::decode(proto::ToClient::decode(head)?, payload)
    }
}

/// The raw section of a frame, to be taken by the one field that it belongs to.
#[doc(hidden)]
#[derive(Debug)]
pub struct Payload(Option<Arc<[u8]>>);

impl Payload {
    /// The bytes; empty if there are none.
    pub(crate) fn take(&mut self) -> Arc<[u8]> {
        self.0.take().unwrap_or_else(|| Arc::from(&[][..]))
    }

    /// Nothing may be left when the message was made.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.0 {
            Some(bytes) => Err(DecodeError::Payload(bytes.len())),
            None => Ok(()),
        }
    }
}

/// A payload that is being received into its final place.
#[derive(Debug)]
struct Direct {
    head: Vec<u8>,
    payload: Arc<[u8]>,
    filled: usize,
}

/// Takes bytes, gives messages. Holds at most one frame and what one read brought.
///
/// Either [`Decoder::feed`] bytes, or read a socket into [`Decoder::space`] and tell how much with
/// [`Decoder::filled`]; then [`Decoder::next_message`] until it gives `None`. After an error the decoder gives the same
/// error for ever.
#[derive(Debug)]
pub struct Decoder<S: Side> {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are used up.
    start: usize,
    /// Bytes of `buffer` that were received; the rest is room.
    end: usize,
    direct: Option<Direct>,
    max: usize,
    failed: Option<DecodeError>,
    side: PhantomData<fn() -> S>,
}

impl<S: Side> Default for Decoder<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Side> Decoder<S> {
    /// A decoder of a new connection: until [`Decoder::handshake_done`] only frames of up to
    /// [`HANDSHAKE_MAX`] bytes are accepted from a client, and of up to [`crate::HEAD_MAX`] from a server.
    pub fn new() -> Self {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            direct: None,
            max: S::FIRST_MAX,
            failed: None,
            side: PhantomData,
        }
    }

    /// From now on frames of full length are accepted.
    pub fn handshake_done(&mut self) {
        self.max = FRAME_MAX;
    }

    /// Takes bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.filled(n);
            bytes = &bytes[n..];
        }
    }

    /// Room to read a socket into; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.direct.as_ref().is_some_and(|d| d.filled < d.payload.len()) {
            let direct = self.direct.as_mut().expect("looked at just now");
            let filled = direct.filled;
            return &mut Arc::get_mut(&mut direct.payload).expect("not given out before it is whole")[filled..];
        }
        self.make_room();
        &mut self.buffer[self.end..]
    }

    /// The first `n` bytes of [`Decoder::space`] were filled.
    pub fn filled(&mut self, n: usize) {
        match &mut self.direct {
            Some(direct) if direct.filled < direct.payload.len() => {
                direct.filled = (direct.filled + n).min(direct.payload.len());
            }
            _ => self.end = (self.end + n).min(self.buffer.len()),
        }
    }

    /// True if part of a frame has come and its rest has not.
    pub fn is_inside_frame(&self) -> bool {
        self.direct.is_some() || self.start < self.end
    }

    /// The next whole message.
    pub fn next_message(&mut self) -> Result<Option<S::Message>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.step().inspect_err(|error| {
            self.buffer = Vec::new();
            (self.start, self.end, self.direct) = (0, 0, None);
            self.failed = Some(error.clone());
        })
    }

    fn step(&mut self) -> Result<Option<S::Message>, DecodeError> {
        if let Some(direct) = self.direct.take_if(|d| d.filled == d.payload.len()) {
            return S::message(&direct.head, Payload(Some(direct.payload))).map(Some);
        }
        if self.direct.is_some() {
            return Ok(None);
        }
        let have = &self.buffer[self.start..self.end];
        let Some((header, rest)) = have.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let header = Header::decode(header, S::DIRECTION, self.max)?;
        let Some((head, rest)) = rest.split_at_checked(header.head_len) else {
            return Ok(None);
        };
        header.check(head)?;
        if let Some(payload) = rest.get(..header.payload_len) {
            let payload = Payload((!payload.is_empty()).then(|| Arc::from(payload)));
            let message = S::message(head, payload)?;
            self.start += HEADER_LEN + header.head_len + header.payload_len;
            self.give_back();
            return Ok(Some(message));
        }
        if header.payload_len >= DIRECT_MIN {
            let mut payload: Arc<[u8]> = std::iter::repeat_n(0, header.payload_len).collect();
            Arc::get_mut(&mut payload).expect("just made")[..rest.len()].copy_from_slice(rest);
            self.direct = Some(Direct { head: head.to_vec(), filled: rest.len(), payload });
            (self.start, self.end) = (0, 0);
        }
        Ok(None)
    }

    /// Makes room behind what was received, by moving it to the front or by growing; a frame is never longer than
    /// `FRAME_MAX`, so neither is the buffer by more than a read.
    fn make_room(&mut self) {
        if self.buffer.len() - self.end >= READ_MIN {
            return;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < READ_MIN {
            let len = (self.end + READ_MIN).max(self.buffer.len() * 2);
            self.buffer.resize(len.max(4 * READ_MIN), 0);
        }
    }

    fn give_back(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEEP_MAX {
                self.buffer = Vec::new();
            }
        }
    }
}
