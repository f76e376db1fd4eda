//! Numbers and byte strings of the store's protocol: fixed lengths, little endian. Nothing is known of requests.

use std::io::{self, Read, Write};

/// Bytes that are no message of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The value that was being read.
    pub what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a message of the store's protocol holds an invalid {}; use programs of the same release", self.what)
    }
}

impl std::error::Error for Malformed {}

pub(crate) type Result<T> = std::result::Result<T, Malformed>;

pub(crate) fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// A length of four bytes, and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_u32(out, list.len() as u32);
    list.iter().for_each(|one| put(out, one));
}

pub(crate) fn put_option<T: ?Sized>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Takes values from the front of bytes.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed { what })?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { what }),
        }
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Borrowed, so that a hostile length allocates nothing.
    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let len = self.u32(what)? as usize;
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed { what })?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<String> {
        String::from_utf8(self.bytes(what)?.to_vec()).map_err(|_| Malformed { what })
    }

    /// Items of at least `min` bytes each.
    pub(crate) fn list<T>(
        &mut self,
        min: usize,
        what: &'static str,
        mut take: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.u32(what)? as usize;
        if count > self.0.len() / min {
            return Err(Malformed { what });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(take(self)?);
        }
        Ok(list)
    }

    pub(crate) fn option<T>(
        &mut self,
        what: &'static str,
        take: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.bool(what)? { take(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed { what: "end" }) }
    }
}

/// Begins a message in a buffer that is used again and again: room for its length.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.clear();
    put_u32(out, 0);
}

/// Ends it, and sends it.
pub(crate) fn send(out: &mut [u8], to: &mut impl Write) -> io::Result<()> {
    let len = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&len.to_le_bytes());
    to.write_all(out)
}

/// Reads a message of at most `max` bytes into `into`; false: the peer has closed between two messages. Room is made as the
/// bytes come.
pub(crate) fn receive(from: &mut impl Read, max: usize, into: &mut Vec<u8>) -> io::Result<bool> {
    into.clear();
    let mut len = [0u8; 4];
    let mut got = 0;
    while got < len.len() {
        match from.read(&mut len[got..]) {
            Ok(0) if got == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > max {
        let text = format!("a message of {len} bytes, {max} are allowed; use programs of the same release");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if from.take(len as u64).read_to_end(into)? < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}
