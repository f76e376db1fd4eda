//! Programs as generators: the calls that a program answers, and checks of each answer (Tintenfisch: the code generator). The numbers of entries are the
//! program's own; a directory has a lower number than its entries, so that no tree goes round in a circle. Not here: running a program; that is the
//! crate `generator`.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Name, Time, limits};
use thiserror::Error;

use crate::entry::{Attributes, Body, Entry};
use crate::limits::ENTRIES_MAX;

/// Most entries of one page of a listing.
pub const PAGE_MAX: usize = 4096;
/// Longest `contents` of a file that a program gives, bytes.
pub const CONTENTS_MAX: usize = 255;
/// Entries of which the answer is kept, to be compared with the next one.
const KEPT_MAX: usize = 4096;

/// Budget of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Steps: calls, returns and rounds of loops. The only limit of time, so that every machine ends a call at the same place.
    pub steps: u64,
    /// Bytes that may be allocated.
    pub memory_bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { steps: 200_000, memory_bytes: 4 << 20 }
    }
}

/// Answer of a program about an entry, as it gives it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Answer {
    /// Number of its directory.
    pub dir: f64,
    /// Its name.
    pub name: Vec<u8>,
    /// A directory: numbers of its entries and of the directories among them.
    pub counts: Option<(f64, f64)>,
    /// Bytes of a file of zeros.
    pub size: Option<f64>,
    /// Bytes of a file.
    pub contents: Option<Vec<u8>>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Permission bits.
    pub mode: Option<f64>,
    /// Owner.
    pub uid: Option<f64>,
    /// Group.
    pub gid: Option<f64>,
    /// Time of the last change, seconds since 1970.
    pub mtime: Option<f64>,
}

/// A program that computes entries. The answers are not trusted; [`Checked`] looks at them.
pub trait Program {
    /// The numbers of the entries of a directory from a place of its listing on, as many as the program likes; none: the end.
    ///
    /// # Errors
    ///
    /// Those of the program, a spent budget among them, as a line for the log.
    fn list(&mut self, dir: u64, from: u64) -> Result<Vec<f64>, String>;

    /// The number of the entry of a directory with a name.
    ///
    /// # Errors
    ///
    /// As [`Program::list`].
    fn lookup(&mut self, dir: u64, name: &[u8]) -> Result<Option<f64>, String>;

    /// Entries by number; the number 0 is the directory with the document, of which only the counts are looked at.
    ///
    /// # Errors
    ///
    /// As [`Program::list`].
    fn entries(&mut self, numbers: &[u64]) -> Result<Vec<Option<Answer>>, String>;
}

/// Failure of a program. A caller gets EIO, the log this text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// It raised an error or spent its budget.
    #[error("{0}")]
    Program(String),
    /// A number that is none, or beyond the number of entries that the document says.
    #[error("{call}: the number of an entry is a whole number from 1 to `entries` = {max}, not {found}")]
    Number {
        /// The call.
        call: &'static str,
        /// The answer.
        found: String,
        /// The most.
        max: u64,
    },
    /// It gave the number of an entry, and has no entry of this number.
    #[error("entry({0}) answers nothing, and {1} gave this number")]
    Missing(u64, &'static str),
    /// An entry that is none.
    #[error("entry({index}): {cause}")]
    Entry {
        /// Its number.
        index: u64,
        /// Cause.
        cause: String,
    },
    /// Two answers about one entry that differ.
    #[error("entry({0}) answers otherwise than before; a program depends on its arguments alone")]
    Differs(u64),
    /// A lookup that finds another entry than it was asked for.
    #[error("lookup({dir}, \"{name}\") answers {index}, and entry({index}) is `{found}` in {in_dir}")]
    Elsewhere {
        /// The directory asked for.
        dir: u64,
        /// The name asked for.
        name: String,
        /// The answer.
        index: u64,
        /// Name of the answer.
        found: String,
        /// Directory of the answer.
        in_dir: u64,
    },
    /// A listing and a lookup that contradict each other.
    #[error("list({dir}, {from}) gives `{name}` the number {index}, and lookup({dir}, \"{name}\") answers {found}")]
    Denied {
        /// The directory.
        dir: u64,
        /// The place in the listing.
        from: u64,
        /// The name.
        name: String,
        /// The number in the listing.
        index: u64,
        /// The answer of the lookup.
        found: String,
    },
    /// A listing that is longer or shorter than the directory's counts.
    #[error("list({dir}, {from}) answers {found} entries, and entry({dir}) says that there are {entries} in all")]
    Counts {
        /// The directory.
        dir: u64,
        /// The place in the listing.
        from: u64,
        /// Entries of the page.
        found: u64,
        /// Entries of the directory.
        entries: u64,
    },
}

/// A program whose answers are checked: names, numbers, counts, that listing and lookup agree, and that it never changes its mind.
#[derive(Debug)]
pub struct Checked<P> {
    program: P,
    max: u64,
    file: Attributes,
    dir: Attributes,
    /// Checksums of answers, of the entries that were asked for last.
    kept: BTreeMap<u64, u32>,
}

impl<P: Program> Checked<P> {
    /// `max`: the number of entries that the document says; `file`, `dir`: attributes that the program does not give.
    pub fn new(program: P, max: u64, file: Attributes, dir: Attributes) -> Checked<P> {
        Checked { program, max: max.min(ENTRIES_MAX), file, dir, kept: BTreeMap::new() }
    }

    /// The entry with a number. None: there is none.
    ///
    /// # Errors
    ///
    /// The program's, and an answer that is none.
    pub fn entry(&mut self, index: u64) -> Result<Option<Entry>, Fault> {
        if index == 0 || index > self.max {
            return Ok(None);
        }
        Ok(self.entries(&[index])?.remove(0))
    }

    /// Numbers of entries, and of directories among them, of the root (0) or another directory. None: it is no directory.
    ///
    /// # Errors
    ///
    /// As [`Checked::entry`].
    pub fn counts(&mut self, dir: u64) -> Result<Option<(u64, u64)>, Fault> {
        if dir > 0 {
            let entry = self.entry(dir)?;
            return Ok(entry.and_then(|entry| match entry.body {
                Body::Dir { entries, dirs } => Some((entries, dirs)),
                _ => None,
            }));
        }
        let root = self.program.entries(&[0]).map_err(Fault::Program)?.pop().flatten();
        let counts = root.and_then(|root| root.counts).ok_or(Fault::Missing(0, "the document"))?;
        self.counts_of(0, counts).map(Some)
    }

    /// The entry of a directory with a name. None: there is none.
    ///
    /// # Errors
    ///
    /// As [`Checked::entry`]; a lookup that finds another entry.
    pub fn child(&mut self, dir: u64, name: &[u8]) -> Result<Option<Entry>, Fault> {
        let found = self.program.lookup(dir, name).map_err(Fault::Program)?;
        let Some(index) = found.map(|found| self.number("lookup", found)).transpose()? else { return Ok(None) };
        let entry = self.entry(index)?.ok_or(Fault::Missing(index, "lookup"))?;
        if entry.parent != dir || *entry.name != *name {
            let (name, found) = (crate::fault::shown(&String::from_utf8_lossy(name)), text(&entry.name));
            return Err(Fault::Elsewhere { dir, name, index, found, in_dir: entry.parent });
        }
        Ok(Some(entry))
    }

    /// A page of a listing: at most `most` entries of a directory from a place on, from 0; none: the end. One entry of each page is looked up by its name, too.
    ///
    /// # Errors
    ///
    /// As [`Checked::child`]; a page that does not fit the directory's counts, and a name that a lookup denies.
    pub fn list(&mut self, dir: u64, from: u64, most: usize) -> Result<Vec<Entry>, Fault> {
        let Some((entries, _)) = self.counts(dir)? else { return Ok(Vec::new()) };
        if from >= entries {
            return Ok(Vec::new());
        }
        let mut numbers = self.program.list(dir, from).map_err(Fault::Program)?;
        let found = numbers.len() as u64;
        if found == 0 || found > entries - from {
            return Err(Fault::Counts { dir, from, found, entries });
        }
        numbers.truncate(most.min(PAGE_MAX));
        let numbers: Vec<u64> =
            numbers.into_iter().map(|number| self.number("list", number)).collect::<Result<_, Fault>>()?;
        let mut page = Vec::with_capacity(numbers.len());
        for (index, entry) in numbers.iter().zip(self.entries(&numbers)?) {
            let entry = entry.ok_or(Fault::Missing(*index, "list"))?;
            if entry.parent != dir {
                let cause = format!("it is in {}, and list({dir}, {from}) has it", entry.parent);
                return Err(Fault::Entry { index: *index, cause });
            }
            page.push(entry);
        }
        // Another one of each page, always the same of the same page.
        if let Some(sample) = page.get(loligo_types::hash::mix(dir ^ from) as usize % page.len().max(1)) {
            let found = self.program.lookup(dir, &sample.name).map_err(Fault::Program)?;
            if found != Some(sample.index as f64) {
                let found = found.map_or_else(|| "nothing".to_string(), |found| found.to_string());
                return Err(Fault::Denied { dir, from, name: text(&sample.name), index: sample.index, found });
            }
        }
        Ok(page)
    }

    fn number(&self, call: &'static str, number: f64) -> Result<u64, Fault> {
        whole(number, self.max).filter(|number| *number > 0).ok_or_else(|| Fault::Number {
            call,
            found: number.to_string(),
            max: self.max,
        })
    }

    fn entries(&mut self, numbers: &[u64]) -> Result<Vec<Option<Entry>>, Fault> {
        let answers = self.program.entries(numbers).map_err(Fault::Program)?;
        let mut entries = Vec::with_capacity(numbers.len());
        let mut answers = answers.iter().map(Option::as_ref);
        for index in numbers {
            let answer = answers.next().flatten();
            self.keep(*index, answer)?;
            entries.push(answer.map(|answer| self.checked(*index, answer)).transpose()?);
        }
        Ok(entries)
    }

    /// Compares an answer with the one before it.
    fn keep(&mut self, index: u64, answer: Option<&Answer>) -> Result<(), Fault> {
        let checksum = crc32c::crc32c(format!("{answer:?}").as_bytes());
        if self.kept.len() >= KEPT_MAX && !self.kept.contains_key(&index) {
            self.kept.clear();
        }
        match self.kept.insert(index, checksum) {
            Some(before) if before != checksum => Err(Fault::Differs(index)),
            _ => Ok(()),
        }
    }

    fn checked(&self, index: u64, answer: &Answer) -> Result<Entry, Fault> {
        let wrong = |cause: &str| Fault::Entry { index, cause: cause.to_string() };
        let parent = whole(answer.dir, index - 1);
        let parent =
            parent.ok_or_else(|| wrong("`dir` is the number of its directory, which is lower than its own"))?;
        Name::check(&answer.name)
            .map_err(|_| wrong("`name` has 1 to 255 bytes without `/` and NUL, and is neither `.` nor `..`"))?;
        let size = |size: f64| whole(size, limits::FILE_SIZE_MAX).ok_or_else(|| wrong("`size` is a number of bytes"));
        let body = match (answer.counts, answer.size, &answer.contents, &answer.target) {
            (Some(counts), None, None, None) => {
                let (entries, dirs) = self.counts_of(index, counts)?;
                Body::Dir { entries, dirs }
            }
            (None, of, None, None) => Body::Zeros(of.map_or(Ok(0), size)?),
            (None, None, Some(contents), None) if contents.len() <= CONTENTS_MAX => {
                Body::Bytes(Arc::from(contents.as_slice()))
            }
            (None, None, None, Some(target)) if !target.is_empty() && !target.contains(&0) => {
                Body::Link(Arc::from(target.as_slice()))
            }
            _ => {
                let cause =
                    "one of `entries` with `dirs`, `size`, `contents` (at most 255 bytes) and `target` says what it is";
                return Err(wrong(cause));
            }
        };
        let default = if matches!(body, Body::Dir { .. }) { self.dir } else { self.file };
        let number = |of: Option<f64>, name: &str, max: u64| match of {
            None => Ok(None),
            Some(of) => whole(of, max).map(Some).ok_or_else(|| wrong(&format!("`{name}` is a number up to {max}"))),
        };
        let mode = number(answer.mode, "mode", 0o7777)?.map_or(default.mode, |mode| mode as u16);
        let id = |of, name| number(of, name, u64::from(u32::MAX - 1)).map(|id| id.map(|id| id as u32));
        let (uid, gid) = (id(answer.uid, "uid")?.or(default.uid), id(answer.gid, "gid")?.or(default.gid));
        let mtime = match answer.mtime {
            None => default.mtime,
            Some(seconds) if seconds.abs() <= 9.2e9 => Some(Time::new(seconds.floor() as i64, 0)),
            Some(_) => return Err(wrong("`mtime` is a number of seconds since 1970")),
        };
        let attributes = Attributes { mode, uid, gid, mtime };
        Ok(Entry { index, parent, name: answer.name.as_slice().into(), attributes, body })
    }

    fn counts_of(&self, index: u64, (entries, dirs): (f64, f64)) -> Result<(u64, u64), Fault> {
        let counts = whole(entries, self.max).and_then(|entries| Some((entries, whole(dirs, entries)?)));
        let cause = "`entries` is a number up to that of the document, and `dirs` one up to that";
        counts.ok_or_else(|| Fault::Entry { index, cause: cause.to_string() })
    }
}

/// A whole number from 0 to `max`; not a fraction, not NaN.
fn whole(number: f64, max: u64) -> Option<u64> {
    let is_whole = number >= 0.0 && number.fract() == 0.0 && number <= max as f64;
    // Numbers from 2^63 on are no file sizes and no entries.
    (is_whole && number < 9.3e18).then_some(number as u64).filter(|number| *number <= max)
}

fn text(name: &[u8]) -> String {
    crate::fault::shown(&String::from_utf8_lossy(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten files `0` to `9`; `wrong` changes one answer.
    #[derive(Default)]
    struct Ten {
        wrong: &'static str,
        asked: u64,
    }

    impl Program for Ten {
        fn list(&mut self, dir: u64, from: u64) -> Result<Vec<f64>, String> {
            assert_eq!(dir, 0);
            Ok(match self.wrong {
                "nan" => vec![f64::NAN],
                "fraction" => vec![1.5],
                "beyond" => vec![11.0],
                "nothing" => Vec::new(),
                "long" => vec![1.0; 11],
                "loop" => return Err("list: used more than 10 steps".into()),
                _ => (from + 1..=10).take(4).map(|n| n as f64).collect(),
            })
        }

        fn lookup(&mut self, _dir: u64, name: &[u8]) -> Result<Option<f64>, String> {
            Ok(match (self.wrong, name) {
                ("denied", _) => None,
                ("elsewhere", _) => Some(4.0),
                (_, [digit @ b'0'..=b'9']) => Some(f64::from(digit - b'0') + 1.0),
                _ => None,
            })
        }

        fn entries(&mut self, numbers: &[u64]) -> Result<Vec<Option<Answer>>, String> {
            self.asked += 1;
            let one = |index: &u64| {
                if *index == 0 {
                    return Some(Answer { counts: Some((10.0, 0.0)), ..Answer::default() });
                }
                let mut answer = Answer { name: (index - 1).to_string().into_bytes(), ..Answer::default() };
                match self.wrong {
                    "missing" => return None,
                    "name" => answer.name = b"a/b".to_vec(),
                    "dots" => answer.name = b"..".to_vec(),
                    "cycle" => answer.dir = *index as f64,
                    "size" => answer.size = Some(-1.0),
                    "infinite" => answer.size = Some(f64::INFINITY),
                    "mode" => answer.mode = Some(f64::from(0o10000)),
                    "uid" => answer.uid = Some(4_294_967_295.0),
                    "mtime" => answer.mtime = Some(f64::NAN),
                    "both" => (answer.size, answer.target) = (Some(1.0), Some(b"x".to_vec())),
                    "contents" => answer.contents = Some(vec![0; 256]),
                    "dirs" => answer.counts = Some((1.0, 2.0)),
                    "differs" => answer.size = Some(self.asked as f64),
                    _ => {}
                }
                Some(answer)
            };
            Ok(numbers.iter().map(one).collect())
        }
    }

    fn ten(wrong: &'static str) -> Checked<Ten> {
        let file = Attributes { mode: 0o644, ..Attributes::default() };
        Checked::new(Ten { wrong, asked: 0 }, 10, file, file)
    }

    #[test]
    fn a_sound_program_is_listed_in_pages_and_looked_up() {
        let mut program = ten("");
        let mut names = Vec::new();
        while let Some(entry) = program.list(0, names.len() as u64, 3).expect("sound").into_iter().next() {
            names.push(entry.name);
        }
        assert_eq!(names, (0..10).map(|n| n.to_string().into_bytes().into()).collect::<Vec<Box<[u8]>>>());
        let seven = program.child(0, b"7").expect("sound").expect("there");
        assert_eq!((seven.index, seven.attributes.mode, seven.body), (8, 0o644, Body::Zeros(0)));
        assert_eq!((program.child(0, b"x"), program.entry(0), program.entry(11)), (Ok(None), Ok(None), Ok(None)));
        assert_eq!((program.counts(0), program.counts(3)), (Ok(Some((10, 0))), Ok(None)));
    }

    #[test]
    fn answers_that_are_none_are_faults_with_the_call() {
        let cases = [
            ("nan", "list: the number of an entry is a whole number from 1 to `entries` = 10, not NaN"),
            ("fraction", "not 1.5"),
            ("beyond", "not 11"),
            ("nothing", "list(0, 0) answers 0 entries, and entry(0) says that there are 10 in all"),
            ("long", "list(0, 0) answers 11 entries"),
            ("loop", "list: used more than 10 steps"),
            ("missing", "entry(1) answers nothing, and list gave this number"),
            ("denied", "and lookup(0, \""),
            ("name", "entry(1): `name` has 1 to 255 bytes"),
            ("dots", "entry(1): `name` has"),
            ("cycle", "entry(1): `dir` is the number of its directory"),
            ("size", "entry(1): `size` is a number of bytes"),
            ("infinite", "entry(1): `size` is a number of bytes"),
            ("mode", "entry(1): `mode` is a number up to 4095"),
            ("uid", "entry(1): `uid` is a number up to 4294967294"),
            ("mtime", "entry(1): `mtime` is a number of seconds"),
            ("both", "entry(1): one of `entries` with `dirs`"),
            ("contents", "entry(1): one of `entries` with `dirs`"),
            ("dirs", "entry(1): `entries` is a number up to that of the document"),
        ];
        for (wrong, expected) in cases {
            let fault = ten(wrong).list(0, 0, 100).expect_err(wrong).to_string();
            assert!(fault.contains(expected), "{wrong}: {fault}");
        }
        let fault = ten("elsewhere").child(0, b"7").expect_err("another entry").to_string();
        assert_eq!(fault, "lookup(0, \"7\") answers 4, and entry(4) is `3` in 0");
        let mut program = ten("differs");
        assert!(program.entry(1).is_ok());
        assert_eq!(program.entry(1), Err(Fault::Differs(1)));
    }
}
