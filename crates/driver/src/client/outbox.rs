//! Bytes on their way to a socket that may not take them all at once. Long payloads are not copied.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use loligo_types::msg::ToServer;

use crate::sock::Sock;

/// Payloads from this length on are sent from where they lie, bytes.
const APART_MIN: usize = 8 << 10;
/// Parts given to one write.
const PARTS_MAX: usize = 64;

enum Part {
    Heads(Vec<u8>),
    Payload(Arc<[u8]>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Part::Heads(bytes) => bytes,
            Part::Payload(bytes) => bytes,
        }
    }
}

/// The bytes. `sent`: how many of the first part are gone.
#[derive(Default)]
pub struct Outbox {
    parts: VecDeque<Part>,
    sent: usize,
    spare: Vec<u8>,
}

impl Outbox {
    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Forgets everything: the connection is gone.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.sent = 0;
    }

    /// Adds a message.
    pub fn push(&mut self, msg: &ToServer) {
        if !matches!(self.parts.back(), Some(Part::Heads(_))) {
            self.parts.push_back(Part::Heads(std::mem::take(&mut self.spare)));
        }
        let Some(Part::Heads(heads)) = self.parts.back_mut() else { return };
        match loligo_wire::head_to_server(msg, heads) {
            Some(payload) if payload.len() >= APART_MIN => self.parts.push_back(Part::Payload(payload)),
            Some(payload) => heads.extend_from_slice(&payload),
            None => {}
        }
    }

    /// Writes what the socket takes now. Whether everything is gone.
    pub fn write(&mut self, sock: &Sock) -> io::Result<bool> {
        while !self.parts.is_empty() {
            let mut slices = Vec::with_capacity(self.parts.len().min(PARTS_MAX));
            for (at, part) in self.parts.iter().take(PARTS_MAX).enumerate() {
                let skip = if at == 0 { self.sent } else { 0 };
                slices.push(IoSlice::new(&part.bytes()[skip..]));
            }
            let written = sock.write(&slices)?;
            if written == 0 {
                return Ok(false);
            }
            self.advance(written);
        }
        if sock.is_writing() {
            sock.write(&[])?;
            return Ok(!sock.is_writing());
        }
        Ok(true)
    }

    fn advance(&mut self, written: usize) {
        self.sent += written;
        while let Some(part) = self.parts.front() {
            let len = part.bytes().len();
            if self.sent < len {
                return;
            }
            self.sent -= len;
            if let Some(Part::Heads(mut bytes)) = self.parts.pop_front() {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}
