//! Numbers and byte strings in blocks: LEB128 varints in their shortest form, zigzag for signed ones, lengths before bytes.

use super::Fault;

pub(super) fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(super) fn put_zigzag(out: &mut Vec<u8>, n: i64) {
    put_u64(out, ((n << 1) ^ (n >> 63)) as u64);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values from the front of a block's bytes.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Place of the block in the file, for errors.
    offset: u64,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], offset: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, offset }
    }

    pub fn invalid(&self, what: &'static str) -> Fault {
        Fault::Block { offset: self.offset, at: self.at, what }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// All that follows ends where so many of its last bytes begin.
    pub fn without_last(mut self, bytes: usize) -> Result<(Cursor<'a>, &'a [u8]), Fault> {
        let end = self.bytes.len().checked_sub(bytes).filter(|end| *end >= self.at);
        let end = end.ok_or_else(|| self.invalid("it is too short"))?;
        let (front, last) = self.bytes.split_at(end);
        self.bytes = front;
        Ok((self, last))
    }

    /// The same from another place on.
    pub fn jump(&self, at: usize) -> Result<Cursor<'a>, Fault> {
        if at > self.bytes.len() {
            return Err(self.invalid("a restart is beyond the end"));
        }
        Ok(Cursor { at, ..self.clone() })
    }

    pub fn u8(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.invalid("it ends in the middle"))?;
        self.at += 1;
        Ok(byte)
    }

    pub fn u64(&mut self) -> Result<u64, Fault> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // A last byte of zero is not the shortest form; a tenth byte above one does not fit.
                let fits = (byte != 0 || shift == 0) && (shift < 63 || byte == 1);
                return if fits { Ok(n) } else { Err(self.invalid("a number in another form")) };
            }
        }
        Err(self.invalid("a number in another form"))
    }

    pub fn u32(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.u64()?).map_err(|_| self.invalid("a number of more than 32 bits"))
    }

    pub fn zigzag(&mut self) -> Result<i64, Fault> {
        let n = self.u64()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Bytes of this length, borrowed, so that a hostile length allocates nothing.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        if len > self.left() as u64 {
            return Err(self.invalid("it ends in the middle"));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(&self.bytes[start..self.at])
    }

    /// A length, at most `max`, and as many bytes.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Fault> {
        let len = self.u64()?;
        if len > max as u64 {
            return Err(self.invalid("bytes that are too many"));
        }
        self.take(len)
    }

    /// A number of rows, which take at least `least` bytes each.
    pub fn count(&mut self, least: usize) -> Result<u64, Fault> {
        let count = self.u64()?;
        if count == 0 || count > (self.left() / least) as u64 {
            return Err(self.invalid("a number of rows that it cannot have"));
        }
        Ok(count)
    }
}
