//! Which hashes the names of a directory have in the table, for ranges of hashes: enough to know that a name is not there, with eight
//! bytes for each name that is. Knows no names; whoever lets an entry go out of memory must take its range out here.

use std::cell::Cell;
use std::collections::BTreeMap;

/// Pages that do not overlap, by their first hashes.
#[derive(Clone, Default, Debug)]
pub struct Hashes {
    pages: BTreeMap<u64, Page>,
    bytes: usize,
    used: Cell<bool>,
}

#[derive(Clone, Debug)]
struct Page {
    /// Inclusive.
    upto: u64,
    /// Ascending.
    hashes: Box<[u64]>,
}

impl Page {
    /// With its key and its share of a node.
    fn bytes(&self) -> usize {
        size_of::<(u64, Page)>() * 3 / 2 + self.hashes.len() * 8
    }
}

impl Hashes {
    /// Whether the table has no name with this hash that memory does not know.
    pub fn deny(&self, hash: u64) -> bool {
        let Some(page) = self.page(hash) else { return false };
        let denies = page.hashes.binary_search(&hash).is_err();
        self.used.set(self.used.get() | denies);
        denies
    }

    /// The last hash of the page that has this one.
    pub fn known_until(&self, hash: u64) -> Option<u64> {
        self.page(hash).map(|page| page.upto)
    }

    /// The last hash of the last page before this hash, if that is not in a page.
    pub fn end_before(&self, hash: u64) -> Option<u64> {
        self.pages.range(..=hash).next_back().map(|(_, page)| page.upto)
    }

    fn page(&self, hash: u64) -> Option<&Page> {
        let (_, page) = self.pages.range(..=hash).next_back()?;
        (hash <= page.upto).then_some(page)
    }

    /// Takes in what was read: `hashes`, ascending, are all there are in `from..=upto`. Of what is known already, nothing changes.
    pub fn add(&mut self, from: u64, upto: u64, mut hashes: Vec<u64>) {
        if self.page(from).is_some() {
            return;
        }
        let next = self.pages.range(from..).next();
        let upto = next.map_or(upto, |(next, _)| upto.min(next - 1));
        hashes.truncate(hashes.partition_point(|hash| *hash <= upto));
        let page = Page { upto, hashes: hashes.into() };
        self.bytes += page.bytes();
        self.pages.insert(from, page);
    }

    /// Forgets all pages with a hash in `from..=upto`.
    pub fn remove(&mut self, from: u64, upto: u64) {
        while let Some((first, page)) = self.pages.range(..=upto).next_back()
            && page.upto >= from
        {
            let (first, bytes) = (*first, page.bytes());
            self.bytes -= bytes;
            self.pages.remove(&first);
        }
    }

    /// Forgets all if nothing was denied since this was called last.
    pub fn forget_unused(&mut self) {
        if !self.used.replace(false) {
            *self = Hashes::default();
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_is_in_a_page_and_not_in_its_list() {
        let mut hashes = Hashes::default();
        // What the table has: every third hash. What a page covers, by the rules of `add` and `remove`.
        let (mut covered, mut pages) = ([false; 64], Vec::<(u64, u64)>::new());
        let mut state = 12345u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (a, b) = ((state >> 20) % 64, (state >> 40) % 64);
            let (from, upto) = (a.min(b), a.max(b));
            if state >> 62 != 0 {
                hashes.add(from, upto, (from..=upto).filter(|hash| hash % 3 == 0).collect());
                let end = (from..=upto).take_while(|at| !covered[*at as usize]).last();
                pages.extend(end.map(|end| (from, end)));
            } else {
                hashes.remove(from, upto);
                pages.retain(|(first, last)| *last < from || *first > upto);
            }
            covered = std::array::from_fn(|at| pages.iter().any(|(a, b)| (*a..=*b).contains(&(at as u64))));
            for at in 0..64 {
                assert_eq!(hashes.deny(at), covered[at as usize] && at % 3 != 0);
                let page = pages.iter().find(|(a, b)| (*a..=*b).contains(&at));
                assert_eq!(hashes.known_until(at), page.map(|(_, upto)| *upto));
            }
            let bytes: usize = hashes.pages.values().map(Page::bytes).sum();
            assert_eq!(hashes.heap_bytes(), bytes);
        }
    }

    #[test]
    fn what_is_of_no_use_goes_in_the_second_round() {
        let mut hashes = Hashes::default();
        hashes.add(0, 9, vec![5]);
        assert!(hashes.deny(4));
        hashes.forget_unused();
        assert!(!hashes.deny(5), "a name that may be there is no use of it");
        hashes.forget_unused();
        assert_eq!((hashes.deny(4), hashes.heap_bytes()), (false, 0));
    }
}
