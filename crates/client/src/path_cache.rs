//! Where directories on paths are, as long as ranks have promised that they stay there (lookup leases; `IndexFS`, digest §2.3). Unlike what `hints.rs` knows
//! these are no guesses: a path whose directories are all known here begins at the last of them. Nothing comes to say that one is not true any more:
//! it ends by itself. For one identity: whether a directory may be searched is promised to who asked.

use std::collections::HashMap;
use std::hash::BuildHasher;

use loligo_types::{Ino, Name};

/// Most directories that are known; beyond, all are forgotten.
const MOST: usize = 65_536;
/// As deep below the root is taken to be what nothing is known of.
const DEEP: u16 = 16;
/// Deeper directories are counted with these.
pub const DEPTHS: usize = 16;

/// One directory.
#[derive(Clone, Copy, Debug)]
struct Led {
    /// It counts until then, milliseconds.
    until_ms: u64,
    /// Depth below the root.
    depth: u16,
    /// By which name it was found; 0: by none.
    by: u64,
}

/// All that are known.
#[derive(Debug, Default)]
pub struct PathCache<S> {
    hasher: S,
    /// Which directory a name leads to, in which one. It counts with what is known of that directory, if that was found by this name.
    names: HashMap<u64, (Ino, Name, Ino)>,
    dirs: HashMap<Ino, Led>,
    /// By depth, how many directories of paths were found here.
    pub hits: [u64; DEPTHS],
    /// And how many leases came, for the first time or anew.
    pub leased: [u64; DEPTHS],
}

/// Part of a path that the cache resolves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// To this directory.
    pub dir: Ino,
    /// Over so many names.
    pub names: usize,
    /// So deep below the root.
    pub depth: u16,
}

impl<S: BuildHasher> PathCache<S> {
    /// Goes from a directory as far as is known, at a time in milliseconds.
    pub fn lead(&mut self, dir: Ino, names: &[Name], now_ms: u64) -> Lead {
        let mut lead = Lead { dir, names: 0, depth: if dir == Ino::ROOT { 0 } else { DEEP } };
        let counts = |led: &&Led| now_ms < led.until_ms;
        let Some(from) = self.dirs.get(&dir).filter(counts) else { return lead };
        lead.depth = from.depth;
        for name in names {
            let key = self.key(lead.dir, name);
            let is_it = |(above, known, _): &&(Ino, Name, Ino)| *above == lead.dir && known == name;
            let Some((_, _, to)) = self.names.get(&key).filter(is_it) else { break };
            let Some(led) = self.dirs.get(to).filter(counts).filter(|led| led.by == key) else { break };
            self.hits[usize::from(led.depth).min(DEPTHS - 1)] += 1;
            lead = Lead { dir: *to, names: lead.names + 1, depth: led.depth };
        }
        lead
    }

    /// Takes the leases of an answer: of the directory in which a walk over `names` began, `depth` below the root, and of the targets of
    /// the names. `sent_ms`: time of the request; `now_ms`: time of the answer.
    pub fn learn(&mut self, names: &[Name], ways: &[(Ino, u16)], depth: u16, sent_ms: u64, now_ms: u64) {
        if self.dirs.len() + ways.len() > MOST || self.names.len() + ways.len() > 2 * MOST {
            self.dirs.clear();
            self.names.clear();
        }
        let mut above = None;
        for (at, (ino, ms)) in ways.iter().enumerate() {
            let until_ms = sent_ms + u64::from(*ms);
            let depth = depth.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
            let name = above.zip(at.checked_sub(1).and_then(|before| names.get(before)));
            above = Some(*ino);
            if *ms == 0 || until_ms <= now_ms {
                continue;
            }
            self.leased[usize::from(depth).min(DEPTHS - 1)] += 1;
            match name {
                Some((dir, name)) => {
                    let by = self.key(dir, name);
                    self.names.insert(by, (dir, name.clone(), *ino));
                    let until_ms = match self.dirs.get(ino) {
                        Some(led) if led.by == by => until_ms.max(led.until_ms),
                        _ => until_ms,
                    };
                    self.dirs.insert(*ino, Led { until_ms, depth, by });
                }
                // It was not said by which name it is found. What is known of that goes on to count only if it did all the time.
                None => match self.dirs.get_mut(ino).filter(|led| now_ms < led.until_ms) {
                    Some(led) => led.until_ms = led.until_ms.max(until_ms),
                    None => _ = self.dirs.insert(*ino, Led { until_ms, depth, by: 0 }),
                },
            }
        }
    }

    fn key(&self, dir: Ino, name: &Name) -> u64 {
        self.hasher.hash_one((dir, name)) | 1
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    type Known = PathCache<BuildHasherDefault<DefaultHasher>>;

    const A: Ino = Ino(0x10a);
    const B: Ino = Ino(0x10b);

    fn names(path: &str) -> Vec<Name> {
        path.split('/').map(|part| Name::new(part.as_bytes()).expect("a name")).collect()
    }

    fn lead(known: &mut Known, path: &str, now_ms: u64) -> (Ino, usize) {
        let lead = known.lead(Ino::ROOT, &names(path), now_ms);
        (lead.dir, lead.names)
    }

    #[test]
    fn a_path_leads_as_far_as_all_on_it_is_promised() {
        let mut known = Known::default();
        assert_eq!(lead(&mut known, "a/b/f", 0), (Ino::ROOT, 0));
        known.learn(&names("a/b/f"), &[(Ino::ROOT, 900), (A, 500), (B, 700)], 0, 100, 101);
        assert_eq!(lead(&mut known, "a/b/f", 599), (B, 2));
        assert_eq!(lead(&mut known, "a/c/f", 599), (A, 1));
        assert_eq!(lead(&mut known, "a/b/f", 600), (Ino::ROOT, 0), "what is behind it may be elsewhere now");
        assert_eq!(known.lead(A, &names("b"), 599).depth, 2);
        assert_eq!(known.hits[..3], [0, 2, 2]);
    }

    #[test]
    fn what_was_promised_too_long_ago_when_it_came_counts_for_nothing() {
        let mut known = Known::default();
        known.learn(&names("a"), &[(Ino::ROOT, 50), (A, 0)], 0, 100, 150);
        assert_eq!(known.leased, [0; DEPTHS]);
        assert_eq!(lead(&mut known, "a", 150), (Ino::ROOT, 0));
    }

    #[test]
    fn a_directory_that_got_another_name_is_not_found_by_the_old_one() {
        let mut known = Known::default();
        known.learn(&names("a"), &[(Ino::ROOT, 1000), (A, 100)], 0, 0, 1);
        known.learn(&names("z"), &[(Ino::ROOT, 1000), (A, 500)], 0, 200, 201);
        assert_eq!((lead(&mut known, "z", 300), lead(&mut known, "a", 300)), ((A, 1), (Ino::ROOT, 0)));
    }

    #[test]
    fn it_is_longer_where_a_name_leads_only_if_that_was_known_without_a_break() {
        let mut known = Known::default();
        known.learn(&names("a"), &[(Ino::ROOT, 1000), (A, 100)], 0, 0, 1);
        // Asked for in time, and answered in time.
        known.learn(&names("f"), &[(A, 100)], 1, 50, 60);
        assert_eq!(lead(&mut known, "a", 149), (A, 1));
        // Asked for in time, but answered when it could have been renamed.
        known.learn(&names("f"), &[(A, 100)], 1, 140, 150);
        assert_eq!(lead(&mut known, "a", 160), (Ino::ROOT, 0));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut known = Known::default();
        for n in 0..3 * MOST as u64 {
            known.learn(&names(&format!("{n}")), &[(Ino::ROOT, 1000), (Ino(n + 2), 1000)], 0, 0, 1);
        }
        assert!(known.dirs.len() <= MOST && known.names.len() <= 2 * MOST);
    }
}
