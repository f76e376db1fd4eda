//! The history of a directory's policy: its versions, which never change, and which was in force when. It is kept with the directory as an extended
//! attribute (docs/formats/policy.md); here its form and its bounds. Not here: who may change a policy, and when it is written
//! (`loligo_namespace`).

use std::fmt;

/// Versions that are kept; those go first that were in force longest ago.
pub const VERSIONS_MAX: usize = 16;
/// Changes that are kept.
pub const CHANGES_MAX: usize = 64;
/// Longest form, bytes: fewer versions are kept if they are long.
pub const BYTES_MAX: usize = 48 << 10;
/// The version of the form.
const FORM: u8 = 1;
/// Bytes of a version without its text, and of a change.
const VERSION_LEN: usize = 4 + 8 + 4 + 2;
const CHANGE_LEN: usize = 8 + 4 + 4;
const HEAD_LEN: usize = 1 + 4 + 2 + 2;

/// A document that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number among those of this directory, from 1. It is given once.
    pub number: u32,
    /// When it was set first, milliseconds since 1970; 0: before there was a history.
    pub at_ms: u64,
    /// By which user.
    pub uid: u32,
    /// The document, as it was set.
    pub text: Vec<u8>,
}

/// A change of what is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Milliseconds since 1970; 0: before there was a history.
    pub at_ms: u64,
    /// By which user.
    pub uid: u32,
    /// The version that was in force from then on; 0: none.
    pub version: u32,
}

/// All of it, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    last: u32,
    versions: Vec<Version>,
    changes: Vec<Changed>,
}

/// Bytes that are no history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A newer program wrote it.
    Form(u8),
    /// They are damaged.
    Damaged,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Form(form) => {
                write!(f, "a history of form {form}, which this program does not know (it knows {FORM})")
            }
            Unreadable::Damaged => f.write_str("no history of a policy: it is damaged"),
        }
    }
}

impl std::error::Error for Unreadable {}

impl History {
    /// Its versions, the oldest first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The versions in force over time, the oldest first.
    pub fn changes(&self) -> &[Changed] {
        &self.changes
    }

    /// The version of a number, if it is kept.
    pub fn version(&self, number: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// The number of the version that is in force; 0: none.
    pub fn now(&self) -> u32 {
        self.changes.last().map_or(0, |last| last.version)
    }

    /// The number of the version in force before: the last one that is not in force now and is still kept; 0 for no policy.
    pub fn before(&self) -> Option<u32> {
        let now = self.now();
        let is_there = |number: &u32| *number != now && (*number == 0 || self.version(*number).is_some());
        // Before the first change there was none.
        let first = self.changes.first().filter(|first| first.at_ms > 0 && first.version == 1).map(|_| 0);
        let changes = self.changes.iter().rev().map(|change| change.version);
        changes.chain(first).find(is_there)
    }

    /// Puts down that a document is in force from now on, or none. A document that is a version already is that one again. Whether anything changes.
    pub fn change(&mut self, at_ms: u64, uid: u32, text: Option<&[u8]>) -> bool {
        let version = match text {
            None => 0,
            Some(text) => match self.versions.iter().find(|version| version.text == text) {
                Some(version) => version.number,
                None => {
                    self.last = self.last.saturating_add(1);
                    self.versions.push(Version { number: self.last, at_ms, uid, text: text.to_vec() });
                    self.last
                }
            },
        };
        if version == self.now() {
            return false;
        }
        self.changes.push(Changed { at_ms, uid, version });
        self.trim(BYTES_MAX);
        true
    }

    /// Drops what is oldest until the form has at most so many bytes. The version that is in force stays, if there is room for it.
    pub fn trim(&mut self, most: usize) {
        let extra = self.changes.len().saturating_sub(CHANGES_MAX);
        self.changes.drain(..extra);
        let now = self.now();
        while self.versions.len() > VERSIONS_MAX || self.len() > most {
            let used = |number: u32| self.changes.iter().rposition(|change| change.version == number);
            let others = self.versions.iter().enumerate().filter(|(_, version)| version.number != now);
            let oldest = others.min_by_key(|(_, version)| used(version.number)).map(|(at, _)| at);
            match oldest {
                Some(at) => _ = self.versions.remove(at),
                None if self.changes.len() > 1 => _ = self.changes.remove(0),
                None => break,
            }
        }
    }

    /// Bytes of its form.
    pub fn len(&self) -> usize {
        let texts: usize = self.versions.iter().map(|version| VERSION_LEN + version.text.len()).sum();
        HEAD_LEN + texts + CHANGE_LEN * self.changes.len()
    }

    /// True if no policy was ever set.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Its form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        out.push(FORM);
        out.extend(self.last.to_le_bytes());
        // Both are few: `trim`.
        out.extend((self.versions.len() as u16).to_le_bytes());
        out.extend((self.changes.len() as u16).to_le_bytes());
        for version in &self.versions {
            out.extend(version.number.to_le_bytes());
            out.extend(version.at_ms.to_le_bytes());
            out.extend(version.uid.to_le_bytes());
            out.extend((version.text.len() as u16).to_le_bytes());
            out.extend(&version.text);
        }
        for change in &self.changes {
            out.extend(change.at_ms.to_le_bytes());
            out.extend(change.uid.to_le_bytes());
            out.extend(change.version.to_le_bytes());
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// The bytes are none: of another form, or damaged.
    pub fn read(bytes: &[u8]) -> Result<History, Unreadable> {
        match bytes.first() {
            Some(&FORM) => {}
            Some(form) => return Err(Unreadable::Form(*form)),
            None => return Err(Unreadable::Damaged),
        }
        let mut rest = &bytes[1..];
        Self::read_body(&mut rest).filter(|_| rest.is_empty()).ok_or(Unreadable::Damaged)
    }

    fn read_body(rest: &mut &[u8]) -> Option<History> {
        let last = u32::from_le_bytes(take(rest)?);
        let versions = u16::from_le_bytes(take(rest)?);
        let changes = u16::from_le_bytes(take(rest)?);
        let mut history = History { last, ..History::default() };
        for _ in 0..versions {
            let number = u32::from_le_bytes(take(rest)?);
            let (at_ms, uid) = (u64::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
            let len = usize::from(u16::from_le_bytes(take(rest)?));
            let (text, behind) = rest.split_at_checked(len)?;
            *rest = behind;
            let in_order = history.versions.last().map_or(0, |before| before.number) < number && number <= last;
            in_order.then(|| history.versions.push(Version { number, at_ms, uid, text: text.to_vec() }))?;
        }
        for _ in 0..changes {
            let (at_ms, uid) = (u64::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
            let version = u32::from_le_bytes(take(rest)?);
            (version <= last).then(|| history.changes.push(Changed { at_ms, uid, version }))?;
        }
        Some(history)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(history: &mut History, at_ms: u64, text: &str) -> bool {
        history.change(at_ms, 7, Some(text.as_bytes()))
    }

    #[test]
    fn versions_are_numbered_never_change_and_one_that_is_set_again_is_that_one() {
        let mut history = History::default();
        assert!(set(&mut history, 10, "a") && set(&mut history, 20, "b"));
        assert!(!set(&mut history, 25, "b"), "it is in force");
        assert!(set(&mut history, 30, "a") && history.change(40, 0, None) && !history.change(41, 0, None));
        let numbers: Vec<(u64, u32)> = history.changes().iter().map(|change| (change.at_ms, change.version)).collect();
        assert_eq!(numbers, [(10, 1), (20, 2), (30, 1), (40, 0)]);
        assert_eq!((history.versions().len(), history.now()), (2, 0));
        assert_eq!(history.version(1).map(|version| (version.at_ms, &version.text[..])), Some((10, &b"a"[..])));
        assert_eq!(history.version(3), None);
    }

    #[test]
    fn what_was_before_is_the_last_that_is_not_in_force_and_may_be_none() {
        let mut history = History::default();
        assert_eq!(history.before(), None);
        set(&mut history, 10, "a");
        assert_eq!(history.before(), Some(0), "nothing was set before");
        set(&mut history, 20, "b");
        assert_eq!(history.before(), Some(1));
        set(&mut history, 30, "a");
        assert_eq!(history.before(), Some(2), "back and forth");
        history.change(40, 0, None);
        assert_eq!(history.before(), Some(1));
        let mut older = History::default();
        set(&mut older, 0, "set before there was a history");
        assert_eq!(older.before(), None, "of what was before that nothing is known");
    }

    #[test]
    fn it_is_bounded_in_versions_changes_and_bytes_and_what_is_in_force_stays() {
        let mut history = History::default();
        for n in 0..200u64 {
            assert!(set(&mut history, n + 1, &format!("version {n}")));
        }
        assert_eq!((history.versions().len(), history.changes().len()), (VERSIONS_MAX, CHANGES_MAX));
        assert_eq!((history.now(), history.versions()[0].number), (200, 185));
        let oldest = history.versions()[0].clone();
        history.change(500, 0, Some(&oldest.text));
        for n in 0..VERSIONS_MAX as u64 {
            history.change(501 + 2 * n, 0, Some(format!("other {n}").as_bytes()));
            history.change(502 + 2 * n, 0, Some(&oldest.text));
        }
        assert_eq!(history.version(oldest.number), Some(&oldest), "it was in force again and again");
        for n in 0..40 {
            let long = format!("{n}{}", "#".repeat(4000));
            history.change(1000 + n, 0, Some(long.as_bytes()));
            assert!(history.len() <= BYTES_MAX);
        }
        assert!(history.versions().len() >= 10);
        history.trim(5000);
        assert!(history.len() <= 5000 && history.version(history.now()).is_some());
        history.trim(0);
        assert_eq!((history.versions().len(), history.changes().len()), (1, 1), "what is in force");
        assert_eq!(history.before(), None);
    }

    /// The form as docs/formats/policy.md draws it.
    #[test]
    fn the_bytes_of_a_history_are_these() {
        let mut history = History::default();
        history.change(0x0102, 1000, Some(b"blind = true"));
        history.change(0x0103, 0, None);
        let golden = "01 01000000 0100 0200 \
                      01000000 0201000000000000 e8030000 0c00 626c696e64203d2074727565 \
                      0201000000000000 e8030000 01000000 0301000000000000 00000000 00000000";
        let hex: String = history.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.replace(char::is_whitespace, ""));
        assert_eq!(history.to_bytes().len(), history.len());
        assert_eq!(History::read(&history.to_bytes()), Ok(history.clone()));
        let mut newer = history.to_bytes();
        newer[0] = 2;
        assert_eq!(History::read(&newer), Err(Unreadable::Form(2)));
        let bytes = history.to_bytes();
        for cut in 1..bytes.len() {
            assert_eq!(History::read(&bytes[..cut]), Err(Unreadable::Damaged), "{cut}");
        }
        assert_eq!(History::read(&[]), Err(Unreadable::Damaged));
    }

    proptest! {
        #[test]
        fn whatever_is_set_reads_back_and_stays_within_its_bounds(
            steps in prop::collection::vec((0u64..1 << 50, 0u32..5, prop::option::of(prop::collection::vec(0u8..4, 0..3))), 0..120)
        ) {
            let mut history = History::default();
            for (at_ms, uid, text) in steps {
                history.change(at_ms, uid, text.as_deref());
                prop_assert!(history.versions().len() <= VERSIONS_MAX && history.changes().len() <= CHANGES_MAX);
                let now = history.now();
                prop_assert_eq!(history.version(now).map(|version| &version.text), text.as_ref());
            }
            prop_assert_eq!(History::read(&history.to_bytes()), Ok(history));
        }

        #[test]
        fn no_bytes_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(history) = History::read(&bytes) {
                prop_assert_eq!(history.to_bytes(), bytes);
            }
        }
    }
}
