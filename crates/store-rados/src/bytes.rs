//! Small records as bytes: numbers little endian, texts with their length, a version in front. And keys of the table as keys of omaps.

use loligo_store::{Result, StoreError};

use crate::error::corrupt;

/// Writes a record.
pub(crate) struct Put(pub(crate) Vec<u8>);

impl Put {
    pub(crate) fn new(version: u8) -> Put {
        Put(vec![version])
    }

    pub(crate) fn u8(mut self, value: u8) -> Put {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Put {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Put {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Put {
        let mut out = self.u32(u32::try_from(value.len()).expect("records are small"));
        out.0.extend(value);
        out
    }
}

/// Reads a record.
pub(crate) struct Get<'a> {
    place: &'a str,
    rest: &'a [u8],
}

impl<'a> Get<'a> {
    /// `place`: where the bytes are, for errors. A newer version than `known` is refused by name.
    pub(crate) fn new(place: &'a str, bytes: &'a [u8], known: u8) -> Result<Get<'a>> {
        let mut get = Get { place, rest: bytes };
        match get.u8()? {
            0 => Err(corrupt(place, "version 0 does not exist")),
            found if found > known => {
                Err(StoreError::NewerVersion { what: place.into(), found: found.into(), known: known.into() })
            }
            _ => Ok(get),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        if self.rest.len() < len {
            return Err(corrupt(self.place, format!("it ends {} bytes too early", len - self.rest.len())));
        }
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let place = self.place;
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| corrupt(place, "a text is not UTF-8"))
    }

    pub(crate) fn end(self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(corrupt(self.place, format!("{more} bytes follow it"))),
        }
    }
}

/// A key of the table as one of an omap: without NUL, because librados takes the key behind which a listing goes on for a C string. The
/// order stays.
pub(crate) fn escape(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 8);
    for byte in key {
        match byte {
            0 => out.extend([1, 1]),
            1 => out.extend([1, 2]),
            other => out.push(*other),
        }
    }
    out
}

/// And back.
pub(crate) fn unescape(place: &str, key: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(key.len());
    let mut bytes = key.iter();
    while let Some(byte) = bytes.next() {
        out.push(match (byte, byte == &1) {
            (_, true) => match bytes.next() {
                Some(1) => 0,
                Some(2) => 1,
                _ => return Err(corrupt(place, "a key was not written by this program")),
            },
            (0, _) => return Err(corrupt(place, "a key was not written by this program")),
            (other, _) => *other,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_come_back() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for a in [0u8, 1, 2, 255] {
            for b in [0u8, 1, 2, 255] {
                keys.extend([vec![a], vec![a, b], vec![a, b, 0], vec![a, b, 1]]);
            }
        }
        keys.sort();
        keys.dedup();
        let escaped: Vec<Vec<u8>> = keys.iter().map(|key| escape(key)).collect();
        assert!(escaped.is_sorted() && escaped.iter().all(|key| !key.contains(&0)));
        for (key, escaped) in keys.iter().zip(&escaped) {
            assert_eq!(unescape("a test", escaped).as_ref(), Ok(key));
        }
        for bad in [&[0u8][..], &[1], &[1, 3], &[5, 1]] {
            assert!(unescape("a test", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn records_are_read_back_and_newer_short_and_long_ones_refused() {
        let bytes = Put::new(1).u8(7).u32(8).u64(9).bytes(b"ten").0;
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "01070800000009000000000000000300000074656e");
        let mut get = Get::new("a test", &bytes, 1).expect("version 1");
        assert_eq!((get.u8(), get.u32(), get.u64(), get.text()), (Ok(7), Ok(8), Ok(9), Ok("ten".to_owned())));
        assert_eq!(get.end(), Ok(()));
        assert!(matches!(Get::new("a test", &[2], 1).err(), Some(StoreError::NewerVersion { found: 2, known: 1, .. })));
        assert!(matches!(
            Get::new("a test", &[1, 5], 1).and_then(|mut get| get.u32()),
            Err(StoreError::Corrupt { .. })
        ));
        assert!(matches!(Get::new("a test", &[1, 5], 1).and_then(Get::end), Err(StoreError::Corrupt { .. })));
        assert!(Get::new("a test", &[], 1).is_err() && Get::new("a test", &[0], 1).is_err());
    }
}
