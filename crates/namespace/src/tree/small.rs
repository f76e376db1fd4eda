//! A name as the cache holds it: up to 22 bytes without a heap block. Not checked; it is made from checked names.

use loligo_types::Name;

const INLINE: usize = 22;

/// A name in 24 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SmallName {
    /// Here.
    Here { len: u8, bytes: [u8; INLINE] },
    /// On the heap.
    Heap(Box<[u8]>),
}

impl SmallName {
    /// From the bytes of a name.
    pub fn new(name: &[u8]) -> SmallName {
        if name.len() > INLINE {
            return SmallName::Heap(name.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..name.len()].copy_from_slice(name);
        SmallName::Here { len: name.len() as u8, bytes }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            SmallName::Here { len, bytes } => &bytes[..usize::from(*len)],
            SmallName::Heap(bytes) => bytes,
        }
    }

    /// As a name.
    pub fn to_name(&self) -> Name {
        Name::new(self.as_bytes()).expect("made from a checked name")
    }

    /// Bytes on the heap, with the allocator's share.
    pub fn heap_bytes(&self) -> usize {
        match self {
            SmallName::Here { .. } => 0,
            SmallName::Heap(bytes) => bytes.len().next_multiple_of(16) + 16,
        }
    }
}

const _: () = assert!(size_of::<SmallName>() == 24);
