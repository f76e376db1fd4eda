//! Which hashes the names of a directory have in the table, for ranges of hashes: enough to know that a name is not there, with eight
//! bytes for each name that is. Knows no names; whoever lets an entry go out of memory must put its hash in here, or take it out of
//! what is known.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::deferred_free::cut_out;

/// Pages that do not overlap, by their first hashes.
#[derive(Default)]
pub struct Hashes {
    pages: Pages,
    bytes: usize,
    used: Cell<bool>,
}

/// Pages by their first hashes.
pub type Pages = BTreeMap<u64, Page>;

/// Known hashes of a range.
pub struct Page {
    /// Inclusive.
    upto: u64,
    /// Ascending.
    hashes: Vec<u64>,
}

/// Hashes that a page may have; one with more is cut in two.
const PAGE_MAX: usize = if cfg!(test) { 8 } else { 1024 };

impl Page {
    /// Memory of the page, bytes, with its key and its share of a node.
    pub fn bytes(&self) -> usize {
        size_of::<(u64, Page)>() * 3 / 2 + self.hashes.capacity() * 8
    }
}

impl Hashes {
    /// True if the table has no name with this hash that memory does not know.
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
        hashes.shrink_to_fit();
        self.put(from, Page { upto, hashes });
    }

    fn put(&mut self, from: u64, page: Page) {
        self.bytes += page.bytes();
        self.pages.insert(from, page);
    }

    /// An entry with this hash leaves memory: it stays known that it is there, as far as anything is.
    pub fn keep(&mut self, hash: u64) {
        let Some((first, page)) = self.pages.range_mut(..=hash).next_back().filter(|(_, page)| hash <= page.upto)
        else {
            return;
        };
        let Err(at) = page.hashes.binary_search(&hash) else { return };
        self.bytes -= page.bytes();
        page.hashes.insert(at, hash);
        if page.hashes.len() <= PAGE_MAX {
            self.bytes += page.bytes();
            return;
        }
        let (first, middle) = (*first, page.hashes[PAGE_MAX / 2]);
        let Some(mut low) = self.pages.remove(&first) else { return };
        let high = Page { upto: low.upto, hashes: low.hashes.split_off(PAGE_MAX / 2) };
        low.upto = middle - 1;
        self.put(first, low);
        self.put(middle, high);
    }

    /// Takes all pages out that have a hash in `from..=upto`.
    pub fn cut(&mut self, from: u64, upto: u64) -> Pages {
        let first = self.pages.range(..=from).next_back().filter(|(_, page)| page.upto >= from);
        let first = first.map_or(from, |(first, _)| *first);
        let out = cut_out(&mut self.pages, first, upto);
        self.bytes -= out.values().map(Page::bytes).sum::<usize>();
        out
    }

    /// Takes all out.
    pub fn take(&mut self) -> Pages {
        std::mem::take(self).pages
    }

    /// Takes all out if nothing was denied since this was called last.
    pub fn take_unused(&mut self) -> Pages {
        if self.used.replace(false) { Pages::new() } else { self.take() }
    }

    /// True if the hashes of no range are known.
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
    fn what_is_denied_is_not_there() {
        let mut hashes = Hashes::default();
        // What the table has: some at first, and all whose entries were made and have left memory.
        let mut there: [bool; 64] = std::array::from_fn(|hash| hash % 3 == 0);
        let mut random = loligo_types::Random::new(12345);
        for step in 0..20_000 {
            let state = random.bits();
            let (a, b) = ((state >> 20) % 64, (state >> 40) % 64);
            let (from, upto) = (a.min(b), a.max(b));
            match state >> 61 {
                0 => {
                    hashes.keep(a);
                    there[a as usize] = true;
                }
                1..=5 => {
                    let known = hashes.known_until(from).is_some();
                    let end = (from..=upto).take_while(|at| known || hashes.known_until(*at).is_none()).last();
                    hashes.add(from, upto, (from..=upto).filter(|hash| there[*hash as usize]).collect());
                    let mut new = from..=if known { from } else { end.expect("it is not known") };
                    assert!(new.all(|at| known || hashes.deny(at) != there[at as usize]));
                }
                _ => {
                    hashes.cut(from, upto);
                    assert!((from..=upto).all(|at| hashes.known_until(at).is_none()));
                }
            }
            for at in 0..64 {
                assert!(!hashes.deny(at) || (!there[at as usize] && hashes.known_until(at).is_some()), "{at}");
            }
            let ends: Vec<u64> = hashes.pages.iter().flat_map(|(first, page)| [*first, page.upto]).collect();
            assert!(ends.chunks(2).all(|page| page[0] <= page[1]) && ends.windows(2).all(|two| two[0] <= two[1]));
            let bytes: usize = hashes.pages.values().map(Page::bytes).sum();
            assert_eq!(hashes.heap_bytes(), bytes);
            if step % 1000 == 999 {
                hashes.cut(0, u64::MAX);
                there = std::array::from_fn(|hash| hash % 3 == 0);
            }
        }
    }

    #[test]
    fn a_page_that_becomes_too_large_is_cut_in_two() {
        let mut hashes = Hashes::default();
        hashes.add(0, 99, Vec::new());
        (0..40).for_each(|at| hashes.keep(at * 2));
        assert!(hashes.pages.values().all(|page| page.hashes.len() <= PAGE_MAX));
        assert!((0..80).all(|at| hashes.deny(at) == (at % 2 == 1)) && (80..100).all(|at| hashes.deny(at)));
        assert!(hashes.known_until(100).is_none());
    }

    #[test]
    fn what_is_of_no_use_goes_in_the_second_round() {
        let mut hashes = Hashes::default();
        hashes.add(0, 9, vec![5]);
        assert!(hashes.deny(4));
        assert!(hashes.take_unused().is_empty());
        assert!(!hashes.deny(5), "a name that may be there is no use of it");
        assert_eq!(hashes.take_unused().len(), 1);
        assert_eq!((hashes.deny(4), hashes.heap_bytes()), (false, 0));
    }
}
