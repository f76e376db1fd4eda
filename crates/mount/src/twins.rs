//! Copies of pages as the kernel was given them, of files that several mounts write.
//!
//! The kernel reports a page that a mapping has changed only as a whole, without the bytes that other mounts have written to the rest of
//! it since. So the page is compared with its copy, and only the difference is written. A copy (a twin, as systems of distributed shared
//! memory have it) is kept of each page that the kernel fills of a file that this mount may not cache, the newest up to a limit.
//!
//! A copy equals the page that the kernel holds, or does not exist: any other change of a page changes its copy, or drops it. Without a
//! copy all of the page is written.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_types::Ino;

use crate::table::guard;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Pages of which copies are kept: 64 MiB.
const PAGES_MAX: usize = 16_384;
/// With more parts than this in a page it is compared in words.
const PARTS_MAX: usize = 64;
/// Bytes of a word.
const WORD: usize = 8;

#[derive(Default)]
struct Copies {
    files: HashMap<u64, BTreeMap<u64, Box<[u8]>>>,
    count: usize,
    /// In the order in which they came; may hold some that are gone, or came again.
    order: VecDeque<(u64, u64)>,
}

impl Copies {
    fn insert(&mut self, key: (u64, u64), copy: Box<[u8]>) {
        let before = self.files.entry(key.0).or_default().insert(key.1, copy);
        self.count += usize::from(before.is_none());
        self.order.push_back(key);
    }

    fn get_mut(&mut self, ino: Ino, page: u64) -> Option<&mut [u8]> {
        self.files.get_mut(&ino.0)?.get_mut(&page).map(|copy| &mut **copy)
    }

    fn remove(&mut self, ino: u64, pages: Range<u64>) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let gone: Vec<u64> = file.range(pages).map(|(page, _)| *page).collect();
        self.count -= gone.len();
        gone.into_iter().for_each(|page| _ = file.remove(&page));
        if file.is_empty() {
            self.files.remove(&ino);
        }
    }
}

/// Copies of pages.
#[derive(Default)]
pub(crate) struct Twins {
    copies: Mutex<Copies>,
    /// Their number, to skip the search.
    count: AtomicUsize,
}

impl Twins {
    /// The kernel is given pages of a file that others may write: the bytes from `offset` on of `len` that it asked for. It fills the rest with zeros.
    pub(crate) fn fill(&self, ino: Ino, offset: u64, len: u32, bytes: &[u8]) {
        let mut copies = guard(&self.copies);
        let first = offset / PAGE as u64;
        let pages = (u64::from(len) / PAGE as u64).min(PAGES_MAX as u64);
        for page in 0..pages {
            let mut copy = vec![0; PAGE].into_boxed_slice();
            let from = (page as usize * PAGE).min(bytes.len());
            let part = &bytes[from..(from + PAGE).min(bytes.len())];
            copy[..part.len()].copy_from_slice(part);
            copies.insert((ino.0, first + page), copy);
        }
        while copies.count > PAGES_MAX || copies.order.len() > 2 * PAGES_MAX {
            let Some((ino, page)) = copies.order.pop_front() else { break };
            copies.remove(ino, page..page + 1);
        }
        self.count.store(copies.count, Ordering::Relaxed);
    }

    /// The kernel has other pages of a range, or none: from `offset` on, `len` bytes (0: to the end).
    pub(crate) fn drop_range(&self, ino: Ino, offset: u64, len: u64) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let first = offset / PAGE as u64;
        let end = if len == 0 { u64::MAX } else { (offset + len).div_ceil(PAGE as u64) };
        let mut copies = guard(&self.copies);
        copies.remove(ino.0, first..end);
        self.count.store(copies.count, Ordering::Relaxed);
    }

    /// A caller has written into the kernel's pages.
    pub(crate) fn patch(&self, ino: Ino, offset: u64, data: &[u8]) {
        if self.count.load(Ordering::Relaxed) != 0 {
            self.each(ino, offset, data, |copy, part| copy.copy_from_slice(part));
        }
    }

    /// The file ends here now, and the kernel's pages with it.
    pub(crate) fn cut(&self, ino: Ino, size: u64) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (last, inside) = (size / PAGE as u64, (size % PAGE as u64) as usize);
        let mut copies = guard(&self.copies);
        if let Some(copy) = copies.get_mut(ino, last) {
            copy[inside..].fill(0);
        }
        copies.remove(ino.0, last + 1..u64::MAX);
        self.count.store(copies.count, Ordering::Relaxed);
    }

    /// The kernel writes pages back: which of the bytes differ from what it was given. From now on it is these that it holds.
    pub(crate) fn changed(&self, ino: Ino, offset: u64, data: &[u8]) -> Vec<Range<usize>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return std::iter::once(0..data.len()).collect();
        }
        let mut changed: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        let mut add = |range: Range<usize>| match changed.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => changed.push(range),
        };
        let mut next = |part: &[u8], copy: Option<&mut [u8]>| {
            match copy {
                Some(copy) => {
                    differences(copy, part).into_iter().for_each(|range| add(at + range.start..at + range.end));
                    copy.copy_from_slice(part);
                }
                None => add(at..at + part.len()),
            }
            at += part.len();
        };
        let mut copies = guard(&self.copies);
        for (page, from, part) in parts(offset, data) {
            let copy = copies.get_mut(ino, page);
            next(part, copy.map(|copy| &mut copy[from..from + part.len()]));
        }
        changed
    }

    fn each(&self, ino: Ino, offset: u64, data: &[u8], change: impl Fn(&mut [u8], &[u8])) {
        let mut copies = guard(&self.copies);
        for (page, from, part) in parts(offset, data) {
            if let Some(copy) = copies.get_mut(ino, page) {
                change(&mut copy[from..from + part.len()], part);
            }
        }
    }
}

/// Bytes by page: its number, where they begin in it, and which.
fn parts(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let (mut at, mut rest) = (offset, data);
    std::iter::from_fn(move || {
        let from = (at % PAGE as u64) as usize;
        let (part, more) = rest.split_at((PAGE - from).min(rest.len()));
        let page = at / PAGE as u64;
        (at, rest) = (at + part.len() as u64, more);
        (!part.is_empty()).then_some((page, from, part))
    })
}

/// Where two parts of a page of one length differ.
fn differences(before: &[u8], now: &[u8]) -> Vec<Range<usize>> {
    let exact = runs(before, now, 1);
    if exact.len() > PARTS_MAX { runs(before, now, WORD) } else { exact }
}

/// Runs of units of which a byte differs.
fn runs(before: &[u8], now: &[u8], unit: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let units = before.chunks(unit).zip(now.chunks(unit)).enumerate();
    for (number, (_, now)) in units.filter(|(_, (before, now))| before != now) {
        let start = number * unit;
        match runs.last_mut() {
            Some(last) if last.end == start => last.end += now.len(),
            _ => runs.push(start..start + now.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    fn one(range: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(range).collect()
    }

    fn filled(bytes: &[u8], offset: u64) -> Twins {
        let twins = Twins::default();
        twins.fill(FILE, offset, bytes.len().next_multiple_of(PAGE) as u32, bytes);
        twins
    }

    #[test]
    fn only_what_differs_is_written() {
        let twins = filled(&[1; 2 * PAGE], 4 * PAGE as u64);
        let mut page = vec![1; 2 * PAGE];
        page[10] = 2;
        page[PAGE - 1..PAGE + 3].fill(3);
        assert_eq!(twins.changed(FILE, 4 * PAGE as u64, &page), [10..11, PAGE - 1..PAGE + 3]);
        // These it holds now.
        assert!(twins.changed(FILE, 4 * PAGE as u64, &page).is_empty());
    }

    #[test]
    fn what_is_not_known_is_written_as_a_whole() {
        let twins = filled(&[1; PAGE], 0);
        let mut two = vec![1; 2 * PAGE];
        two[5] = 2;
        assert_eq!(twins.changed(FILE, 0, &two), [5..6, PAGE..2 * PAGE]);
        assert_eq!(twins.changed(Ino(8), 0, &two), one(0..2 * PAGE));
        twins.drop_range(FILE, 0, 0);
        assert_eq!(twins.changed(FILE, 0, &two), one(0..2 * PAGE));
    }

    #[test]
    fn a_page_with_many_small_changes_is_compared_in_words() {
        let twins = filled(&[0; PAGE], 0);
        let numbers: Vec<u8> = (1..=PAGE as u64 / 8).flat_map(u64::to_le_bytes).collect();
        assert_eq!(twins.changed(FILE, 0, &numbers), one(0..PAGE));
    }

    #[test]
    fn a_page_that_the_file_ends_in_is_zeros_behind_the_end() {
        let twins = filled(&[1; 100], 0);
        let mut page = vec![0; PAGE];
        page[..100].fill(1);
        assert!(twins.changed(FILE, 0, &page).is_empty());
        twins.cut(FILE, 50);
        page[50..].fill(0);
        page[0] = 9;
        assert_eq!(twins.changed(FILE, 0, &page), one(0..1));
    }

    #[test]
    fn what_a_caller_wrote_into_the_page_is_not_written_again() {
        let twins = filled(&[1; PAGE], 0);
        twins.patch(FILE, 20, &[2; 10]);
        let mut page = vec![1; PAGE];
        page[20..30].fill(2);
        page[40] = 3;
        assert_eq!(twins.changed(FILE, 0, &page), one(40..41));
    }

    #[test]
    fn the_oldest_copies_go_first() {
        let twins = Twins::default();
        let page = [1; PAGE];
        (0..PAGES_MAX as u64 + 1).for_each(|n| twins.fill(FILE, n * PAGE as u64, PAGE as u32, &page));
        assert_eq!(twins.changed(FILE, 0, &page), one(0..PAGE));
        assert!(twins.changed(FILE, PAGE as u64, &page).is_empty());
    }
}
