//! Files whose data could not be read or written, as far as a rank has met them since it was started: what its health and its status say. Not
//! here: what a client is told, which is an error each time; and a full store, which is no fault of a file.

use std::collections::BTreeMap;

use loligo_osd::Effect;
use loligo_store::StoreError;
use loligo_types::Ino;

/// Files that are remembered one by one.
const FILES_MAX: usize = 64;

/// A file whose data could not be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataFault {
    /// The file.
    pub ino: Ino,
    /// Its path, if all names of it are in memory.
    pub path: Option<String>,
    /// The last error of the store.
    pub text: String,
    /// Number of errors.
    pub times: u64,
}

/// The file that an effect concerns.
pub(crate) struct About {
    ino: Ino,
    /// Set if nothing of the file's earlier data is left once the effect has gone well.
    empties: bool,
}

impl About {
    pub(crate) fn of(effect: &Effect) -> Option<About> {
        let (ino, empties) = match effect {
            Effect::Read { ino, .. }
            | Effect::Write { ino, .. }
            | Effect::Punch { ino, .. }
            | Effect::Seek { ino, .. }
            | Effect::Sync { ino, .. } => (*ino, false),
            Effect::Discard { ino, from, .. } => (*ino, *from == 0),
            Effect::Copying { effect, .. } | Effect::AsItWas { effect, .. } => return About::of(effect),
            Effect::Theirs { effect, .. } => return About::of(effect).map(|about| About { empties: false, ..about }),
            Effect::Restore { ino, .. } | Effect::KeepTheirs { ino, .. } => (*ino, false),
            Effect::Spill { ino, .. } => (*ino, true),
            Effect::Patch { ino, .. } => (*ino, false),
            Effect::SyncDiscards { .. } | Effect::SyncFiles { .. } | Effect::SyncAll | Effect::LookAtFork { .. } => {
                return None;
            }
        };
        Some(About { ino, empties })
    }
}

/// All of a rank.
#[derive(Default)]
pub(crate) struct Faults {
    total: u64,
    files: BTreeMap<Ino, (String, u64)>,
}

impl Faults {
    /// Takes in what came of an effect. Of an error: the file, and whether it is the first one of this file.
    pub(crate) fn note<T>(&mut self, about: &About, result: &Result<T, StoreError>) -> Option<(Ino, bool)> {
        match result {
            Err(error) if !error.is_full() => {
                self.total += 1;
                let is_new = !self.files.contains_key(&about.ino);
                if !is_new || self.files.len() < FILES_MAX {
                    let (text, times) = self.files.entry(about.ino).or_default();
                    *text = error.to_string();
                    *times += 1;
                }
                Some((about.ino, is_new))
            }
            Ok(_) if about.empties => {
                self.files.remove(&about.ino);
                None
            }
            _ => None,
        }
    }

    /// Errors so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The files, without their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = DataFault> + '_ {
        self.files.iter().map(|(ino, (text, times))| DataFault {
            ino: *ino,
            path: None,
            text: text.clone(),
            times: *times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_until_nothing_of_its_data_is_left_and_a_full_store_is_no_fault() {
        let read = About::of(&Effect::Read { ino: Ino(5), object_size: 4096, offset: 0, len: 1 }).expect("of a file");
        let damage = || StoreError::Corrupt { place: "object 5.0".into(), detail: "checksum".into() };
        let mut faults = Faults::default();
        assert_eq!(faults.note::<()>(&read, &Err(damage())), Some((Ino(5), true)));
        assert_eq!(faults.note::<()>(&read, &Err(damage())), Some((Ino(5), false)));
        assert_eq!(faults.note(&read, &Ok(())), None);
        let one = faults.files().next().expect("it is remembered");
        assert_eq!((one.ino, one.times, faults.total()), (Ino(5), 2, 2));
        assert!(one.text.contains("object 5.0"), "{}", one.text);
        let cut = Effect::Discard { ino: Ino(5), object_size: 4096, from: 1, durable: loligo_osd::Durable::Later };
        assert_eq!(faults.note(&About::of(&cut).expect("of a file"), &Ok(())), None);
        assert_eq!(faults.files().count(), 1);
        let gone = Effect::Discard { ino: Ino(5), object_size: 4096, from: 0, durable: loligo_osd::Durable::Later };
        assert_eq!(faults.note(&About::of(&gone).expect("of a file"), &Ok(())), None);
        assert_eq!((faults.files().count(), faults.total()), (0, 2));
    }
}
