//! Numbers and byte strings: LEB128 varints in their shortest form, zigzag for signed ones, lengths before bytes.

use loligo_types::Name;

use super::DecodeError;

/// Appends a varint: 7 bits a byte, least significant first, the high bit says that more follow.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    if n < 0x80 {
        out.push(n as u8);
        return;
    }
    let mut buf = [0u8; 10];
    let mut len = 0;
    while n >= 0x80 {
        buf[len] = n as u8 | 0x80;
        n >>= 7;
        len += 1;
    }
    buf[len] = n as u8;
    out.extend_from_slice(&buf[..=len]);
}

/// Appends a signed varint: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
#[inline]
pub fn put_zigzag(out: &mut Vec<u8>, n: i64) {
    put_u64(out, ((n << 1) ^ (n >> 63)) as u64);
}

/// Appends a length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values from the front of bytes and knows where it is.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn invalid(&self, what: &'static str) -> DecodeError {
        DecodeError::Invalid { what, at: self.at }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next byte, if there is one, which stays.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(DecodeError::Truncated { at: self.at })?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.u64_long(first)
    }

    fn u64_long(&mut self, first: u8) -> Result<u64, DecodeError> {
        let mut n = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // A last byte of zero is not the shortest form; a tenth byte above one does not fit.
                let fits = byte != 0 && (shift < 63 || byte == 1);
                return if fits { Ok(n) } else { Err(self.invalid("number")) };
            }
        }
        Err(self.invalid("number"))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.u64()?).map_err(|_| self.invalid("32-bit number"))
    }

    #[inline]
    pub fn zigzag(&mut self) -> Result<i64, DecodeError> {
        let n = self.u64()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Exactly `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = &self.bytes[self.at..];
        let (head, _) = rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated { at: self.bytes.len() })?;
        self.at += N;
        Ok(*head)
    }

    /// A length and as many bytes; borrowed, so a hostile length allocates nothing.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u64()?;
        if len > self.left() as u64 {
            return Err(DecodeError::Truncated { at: self.bytes.len() });
        }
        let start = self.at;
        self.at += len as usize;
        Ok(&self.bytes[start..self.at])
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at = self.bytes.len();
        &self.bytes[start..]
    }

    /// A checked name.
    pub fn name(&mut self) -> Result<Name, DecodeError> {
        let bytes = self.bytes()?;
        Name::new(bytes).map_err(|_| self.invalid("name"))
    }

    /// The same where it stands.
    #[inline]
    pub fn name_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = self.bytes()?;
        Name::check(bytes).map_err(|_| self.invalid("name"))?;
        Ok(bytes)
    }

    /// A number of items that take at least `min` bytes each, so that it is bounded by what is left.
    pub fn count(&mut self, min: usize, what: &'static str) -> Result<usize, DecodeError> {
        let count = self.u64()?;
        if count > (self.left() / min) as u64 {
            return Err(self.invalid(what));
        }
        Ok(count as usize)
    }

    /// The version byte of `what`, which must be `known`.
    pub fn version(&mut self, known: u8, what: &'static str) -> Result<(), DecodeError> {
        let found = self.u8()?;
        if found == known { Ok(()) } else { Err(DecodeError::UnknownVersion { what, found, known }) }
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing { at: self.at, left }),
        }
    }
}
