//! Result of a check of a store itself: faults, notes, and how much was looked at. Below the namespace, which has a check of its own.
//! Not here: the checks; each backend has its own, because each makes other promises.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Result, Segment};

/// Pauses between looks at something that seems wrong: a server may just be changing it.
const PAUSES: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(500)];

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// It is not as it has to be. Otherwise it is worth knowing, and nothing more.
    pub is_wrong: bool,
    /// The thing, and what it is.
    pub text: String,
    /// The remedy; empty: none.
    pub remedy: String,
}

impl Finding {
    /// Something that is not as it has to be.
    pub fn wrong(text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { is_wrong: true, text: text.into(), remedy: remedy.into() }
    }

    /// Something to know.
    pub fn note(text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { is_wrong: false, text: text.into(), remedy: remedy.into() }
    }
}

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// All that was found, in the order in which it was looked at.
    pub findings: Vec<Finding>,
    /// Number of things that were checked, by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// The server that has the store and is there, for people.
    pub server: Option<String>,
}

impl Checked {
    /// Counts so many more of something.
    pub fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_default() += more;
    }
}

/// Progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// The things that are being checked.
    pub stage: &'static str,
    /// True if bytes are counted, and not things.
    pub bytes: bool,
    /// Done of it.
    pub done: u64,
    /// In all; 0: not known.
    pub total: u64,
}

/// The segments of a journal, for one who only looks and keeps nobody from writing.
pub trait Segments {
    /// Those that are there, with what can be read of them.
    fn list(&mut self) -> Result<Vec<Segment>>;

    /// Reads at `offset` of one that was listed, no further than it was then. [`crate::StoreError::NotFound`] if it was removed since.
    fn read_at(&mut self, id: u64, offset: u64, buf: &mut [u8]) -> Result<usize>;
}

/// Looks at one thing. What seems wrong is looked at again, as only that is wrong which is so each time: what a server changes while it
/// is looked at is another thing each time.
pub fn look(mut once: impl FnMut() -> Result<Vec<Finding>>) -> Result<Vec<Finding>> {
    let mut found = once()?;
    for pause in PAUSES {
        if found.iter().all(|finding| !finding.is_wrong) {
            break;
        }
        std::thread::sleep(pause);
        let again = once()?;
        found = again.into_iter().filter(|finding| !finding.is_wrong || found.contains(finding)).collect();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_at_each_look_is_wrong() {
        let mut looks = 0;
        let found = look(|| {
            looks += 1;
            let passing = Finding::wrong(format!("something that changes: {looks}"), "");
            Ok(vec![Finding::wrong("something that stays", "mend it"), passing, Finding::note("a note", "")])
        });
        let texts: Vec<String> = found.expect("it can be looked at").into_iter().map(|found| found.text).collect();
        assert_eq!(texts, ["something that stays", "a note"]);
        assert_eq!(looks, 1 + PAUSES.len());
    }

    #[test]
    fn what_is_sound_is_looked_at_once() {
        let mut looks = 0;
        let found = look(|| {
            looks += 1;
            Ok(vec![Finding::note("a note", "")])
        });
        assert_eq!((found.map(|found| found.len()), looks), (Ok(1), 1));
    }
}
