//! Written bytes that wait, by their place in the file. Pure data: knows no server.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes from this length on are kept as they came, not copied.
const SHARE_MIN: usize = 64 << 10;
/// Most bytes gathered into one piece.
pub(crate) const PIECE_MAX: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Seg {
    Own(Vec<u8>),
    Shared { data: Arc<[u8]>, from: usize, len: usize },
}

impl Seg {
    fn bytes(&self) -> &[u8] {
        match self {
            Seg::Own(bytes) => bytes,
            Seg::Shared { data, from, len } => &data[*from..*from + *len],
        }
    }

    fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// The part of it from `from` on, `len` bytes.
    fn part(&self, from: usize, len: usize) -> Seg {
        match self {
            Seg::Own(bytes) => Seg::Own(bytes[from..from + len].to_vec()),
            Seg::Shared { data, from: start, .. } => Seg::Shared { data: Arc::clone(data), from: start + from, len },
        }
    }
}

/// Bytes by offset; what was written last counts. Pieces never overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    map: BTreeMap<u64, Seg>,
    bytes: u64,
}

impl Extents {
    /// Number of bytes in the set.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Where the last piece ends.
    pub(crate) fn end(&self) -> u64 {
        self.map.iter().next_back().map_or(0, |(at, seg)| at + seg.len())
    }

    /// Bytes with what is in it put over them, and made longer by zeros if need be.
    pub(crate) fn over(&self, base: &[u8]) -> Arc<[u8]> {
        let mut bytes = base.to_vec();
        bytes.resize(base.len().max(self.end() as usize), 0);
        self.copy_to(0, &mut bytes);
        Arc::from(bytes)
    }

    /// Puts bytes over what was there.
    pub(crate) fn insert(&mut self, offset: u64, data: &Arc<[u8]>) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        if data.len() >= SHARE_MIN {
            self.remove(offset, end);
            self.put(offset, Seg::Shared { data: Arc::clone(data), from: 0, len: data.len() });
        } else if !self.overwrite(offset, data) {
            self.remove(offset, end);
            if !self.append(offset, data) {
                self.put(offset, Seg::Own(data.to_vec()));
            }
        }
    }

    /// Puts all of another one over what was there.
    pub(crate) fn absorb(&mut self, other: Extents) {
        for (offset, seg) in other.map {
            self.remove(offset, offset + seg.len());
            self.put(offset, seg);
        }
    }

    /// Puts bytes only where nothing is.
    pub(crate) fn fill_under(&mut self, offset: u64, data: &[u8]) {
        for (start, end) in self.gaps(offset, offset + data.len() as u64) {
            let part = &data[(start - offset) as usize..(end - offset) as usize];
            self.put(start, Seg::Own(part.to_vec()));
        }
    }

    fn put(&mut self, offset: u64, seg: Seg) {
        self.bytes += seg.len();
        self.map.insert(offset, seg);
    }

    /// Overwrites inside one piece. Whether there was such a piece.
    fn overwrite(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((at, Seg::Own(bytes))) = self.map.range_mut(..=offset).next_back() else { return false };
        let from = (offset - at) as usize;
        let Some(place) = bytes.get_mut(from..).and_then(|rest| rest.get_mut(..data.len())) else { return false };
        place.copy_from_slice(data);
        true
    }

    /// Adds to the piece that ends at `offset`. Whether there was such a piece with room.
    fn append(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((at, Seg::Own(bytes))) = self.map.range_mut(..offset).next_back() else { return false };
        if at + bytes.len() as u64 != offset || bytes.len() + data.len() > PIECE_MAX {
            return false;
        }
        bytes.extend_from_slice(data);
        self.bytes += data.len() as u64;
        true
    }

    /// Takes a range out.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let before = self.map.range(..start).next_back().map(|(at, _)| *at);
        let inside: Vec<u64> = self.map.range(start..end).map(|(at, _)| *at).collect();
        for at in before.into_iter().chain(inside) {
            let Some(seg) = self.map.get(&at) else { continue };
            let seg_end = at + seg.len();
            if seg_end <= start {
                continue;
            }
            let seg = self.map.remove(&at).expect("looked up just now");
            self.bytes -= seg.len();
            if at < start {
                let head = seg.part(0, (start - at) as usize);
                self.put(at, head);
            }
            if seg_end > end {
                let tail = seg.part((end - at) as usize, (seg_end - end) as usize);
                self.put(end, tail);
            }
        }
    }

    /// Copies what is in it over a buffer that stands for the file from `offset` on.
    pub(crate) fn copy_to(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        let first = self.map.range(..offset).next_back().map_or(offset, |(at, _)| *at);
        for (at, seg) in self.map.range(first..end) {
            let (from, to) = ((*at).max(offset), (at + seg.len()).min(end));
            if from < to {
                let bytes = &seg.bytes()[(from - at) as usize..(to - at) as usize];
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
            }
        }
    }

    /// Parts of a range that are not in it, in order.
    pub(crate) fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = start;
        let first = self.map.range(..start).next_back().map_or(start, |(at, _)| *at);
        for (seg_at, seg) in self.map.range(first..end) {
            if *seg_at > at {
                gaps.push((at, *seg_at));
            }
            at = at.max(seg_at + seg.len());
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Every piece, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.map.iter().map(|(at, seg)| (*at, seg.bytes()))
    }

    /// Everything in order, as it goes to the server: long writes as they came, short neighbours joined.
    pub(crate) fn pieces(&self) -> Vec<(u64, Arc<[u8]>)> {
        let mut pieces = Vec::new();
        let mut open: Option<(u64, Vec<u8>)> = None;
        for (at, seg) in &self.map {
            let bytes = seg.bytes();
            let whole = matches!(seg, Seg::Shared { data, len, .. } if *len == data.len());
            let end = open.as_ref().map(|(start, gathered)| (start + gathered.len() as u64, gathered.len()));
            let joins = !whole && end.is_some_and(|(end, len)| end == *at && len + bytes.len() <= PIECE_MAX);
            if let (true, Some((_, gathered))) = (joins, open.as_mut()) {
                gathered.extend_from_slice(bytes);
                continue;
            }
            pieces.extend(open.take().map(|(start, gathered)| (start, Arc::from(gathered))));
            match seg {
                Seg::Shared { data, .. } if whole => split(*at, data, &mut pieces),
                _ if bytes.len() <= PIECE_MAX => open = Some((*at, bytes.to_vec())),
                _ => split(*at, &Arc::from(bytes), &mut pieces),
            }
        }
        pieces.extend(open.take().map(|(start, gathered)| (start, Arc::from(gathered))));
        pieces
    }
}

/// Cuts bytes into pieces that are not too long.
pub(crate) fn split(offset: u64, data: &Arc<[u8]>, pieces: &mut Vec<(u64, Arc<[u8]>)>) {
    if data.len() <= PIECE_MAX {
        pieces.push((offset, Arc::clone(data)));
        return;
    }
    for (n, chunk) in data.chunks(PIECE_MAX).enumerate() {
        pieces.push((offset + (n * PIECE_MAX) as u64, Arc::from(chunk)));
    }
}
