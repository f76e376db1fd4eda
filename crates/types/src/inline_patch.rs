//! A change of the data held in an inode, as what differs from the data before it. Only journals have it: a rank decides and applies the
//! whole data, and who reads a journal makes it whole again (`loligo_journal::InlineLog`).
//!
//! Not absolute as other events: it says nothing without the data that it changes, so it names it, by the record that has it or that its
//! changes begin with, and by its length and checksum. Checksums are computed elsewhere.

use std::sync::Arc;

use crate::{Ino, Lsn, limits};

/// A change of data held in an inode.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct InlinePatch {
    /// The inode.
    pub ino: Ino,
    /// Record of the journal with the whole data that this change and those before it build on.
    pub whole: Lsn,
    /// Length of the data that it changes.
    pub base_len: u32,
    /// CRC-32C of the data that it changes.
    pub base_crc: u32,
    /// Length of the data after it.
    pub len: u32,
    /// Place of the new bytes.
    pub offset: u32,
    /// The new bytes.
    pub bytes: Arc<[u8]>,
}

impl InlinePatch {
    /// The difference between two states of the data; `base_crc`: that of `base`. `None` if one of them is longer than an inode holds.
    pub fn between(ino: Ino, whole: Lsn, (base, base_crc): (&[u8], u32), data: &[u8]) -> Option<InlinePatch> {
        if base.len().max(data.len()) > limits::INLINE_MAX {
            return None;
        }
        let same = |pair: &(&u8, &u8)| pair.0 == pair.1;
        let first = base.iter().zip(data).take_while(same).count();
        let last = if base.len() == data.len() {
            data.len() - base[first..].iter().rev().zip(data[first..].iter().rev()).take_while(same).count()
        } else {
            data.len()
        };
        let bytes = data[first..last].into();
        let number = |len: usize| u32::try_from(len).ok();
        let (base_len, len, offset) = (number(base.len())?, number(data.len())?, number(first)?);
        Some(InlinePatch { ino, whole, base_len, base_crc, len, offset, bytes })
    }

    /// True if its numbers can be those of data held in an inode.
    pub fn is_valid(&self) -> bool {
        let end = u64::from(self.offset) + self.bytes.len() as u64;
        let max = limits::INLINE_MAX as u64;
        end <= u64::from(self.len) && u64::from(self.len) <= max && u64::from(self.base_len) <= max
    }

    /// The data after the change: zeros where it is longer and has no bytes. `None` if it cannot be a change of `base`.
    pub fn apply(&self, base: &[u8]) -> Option<Arc<[u8]>> {
        if !self.is_valid() || base.len() != self.base_len as usize {
            return None;
        }
        let (len, offset) = (self.len as usize, self.offset as usize);
        let mut data = Vec::with_capacity(len);
        data.extend_from_slice(&base[..base.len().min(len)]);
        data.resize(len, 0);
        data[offset..offset + self.bytes.len()].copy_from_slice(&self.bytes);
        Some(data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(base: &[u8], data: &[u8]) -> InlinePatch {
        InlinePatch::between(Ino(9), Lsn(3), (base, 7), data).expect("both are short")
    }

    #[test]
    fn the_difference_of_any_two_states_makes_the_later_one_of_the_earlier_one() {
        let states: [&[u8]; 9] =
            [b"", b"a", b"ab", b"abcd", b"abXd", b"Xbcd", b"abc\0\0\0", b"abcdabcd", b"\0\0\0\0\0\0\0\0\0"];
        for base in states {
            for data in states {
                let patch = patch(base, data);
                assert!(patch.is_valid());
                assert_eq!(patch.apply(base).as_deref(), Some(data), "{base:?} to {data:?}");
            }
        }
    }

    #[test]
    fn only_what_differs_is_in_it() {
        assert_eq!((patch(b"abcd", b"abcdef").offset, &*patch(b"abcd", b"abcdef").bytes), (4, &b"ef"[..]));
        assert_eq!((patch(b"abcd", b"aXcd").offset, &*patch(b"abcd", b"aXcd").bytes), (1, &b"X"[..]));
        assert_eq!((patch(b"abcd", b"ab").len, patch(b"abcd", b"ab").bytes.len()), (2, 0));
        assert_eq!(patch(b"abcd", b"abcd").bytes.len(), 0);
    }

    #[test]
    fn data_of_another_length_and_numbers_beyond_the_data_are_refused() {
        let good = patch(b"abcd", b"abcdef");
        assert_eq!(good.apply(b"abc"), None);
        let beyond = InlinePatch { offset: 5, ..good.clone() };
        assert!(!beyond.is_valid() && beyond.apply(b"abcd").is_none());
        assert!(!InlinePatch { len: limits::INLINE_MAX as u32 + 1, ..good.clone() }.is_valid());
        assert!(!InlinePatch { base_len: u32::MAX, ..good.clone() }.is_valid());
        assert!(!InlinePatch { offset: u32::MAX, ..good }.is_valid());
        assert!(InlinePatch::between(Ino(9), Lsn(3), (b"", 0), &vec![0; limits::INLINE_MAX + 1]).is_none());
    }
}
