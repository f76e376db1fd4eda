//! Objects of files, as far as tests of the metadata server need them: each file as one object, with a copy where it is frozen. What the
//! object server does piece by piece (`loligo_osd`) is done to the whole here, at once.

use std::collections::BTreeMap;

use loligo_types::{Ino, SessionId};

#[derive(Default)]
pub struct Objects {
    /// Files and copies, which survive everything.
    files: BTreeMap<Ino, Vec<u8>>,
    /// Copies that count, and whether others have changed them.
    marks: BTreeMap<Ino, bool>,
    /// The length of the file of a copy, before the first change.
    lengths: BTreeMap<Ino, usize>,
    /// Frozen files, in this life: the copy, the length, who changes it, and whether others change it, too.
    frozen: BTreeMap<Ino, (Ino, u64, SessionId, bool)>,
}

impl Objects {
    pub fn freeze(&mut self, ino: Ino, copy: Ino, size: u64, owner: SessionId, shared: bool) {
        let before = self.frozen.get(&ino).filter(|before| before.0 == copy && size == u64::MAX);
        let size = before.map_or(size, |before| before.1);
        self.frozen.insert(ino, (copy, size, owner, shared));
    }

    pub fn thaw(&mut self, ino: Ino) {
        self.frozen.remove(&ino);
    }

    pub fn crash(&mut self) {
        self.frozen.clear();
    }

    /// The others' version of a file.
    fn theirs(&self, ino: Ino, copy: Ino) -> Vec<u8> {
        if self.marks.contains_key(&copy) {
            return self.files.get(&copy).cloned().unwrap_or_default();
        }
        let mut own = self.files.get(&ino).cloned().unwrap_or_default();
        own.truncate(self.lengths.get(&copy).copied().unwrap_or(usize::MAX));
        own
    }

    fn begin(&mut self, copy: Ino, size: u64) {
        if size < u64::MAX {
            self.lengths.entry(copy).or_insert(size as usize);
        }
    }

    /// A session sees a file so.
    pub fn read(&self, session: SessionId, ino: Ino) -> Vec<u8> {
        match self.frozen.get(&ino) {
            Some((copy, _, owner, _)) if *owner != session => self.theirs(ino, *copy),
            _ => self.files.get(&ino).cloned().unwrap_or_default(),
        }
    }

    /// A session gives a file other bytes.
    pub fn write(&mut self, session: SessionId, ino: Ino, bytes: &[u8]) {
        let Some((copy, size, owner, shared)) = self.frozen.get(&ino).copied() else {
            self.files.insert(ino, bytes.to_vec());
            return;
        };
        assert!(shared || owner == session, "others only read it");
        self.begin(copy, size);
        if !self.marks.contains_key(&copy) {
            let was = self.theirs(ino, copy);
            self.files.insert(copy, was);
        }
        if owner == session {
            self.marks.entry(copy).or_insert(false);
            self.files.insert(ino, bytes.to_vec());
        } else {
            self.marks.insert(copy, true);
            self.files.insert(copy, bytes.to_vec());
        }
    }

    /// The metadata server drops what others have cut off, or all of what is gone.
    pub fn discard(&mut self, ino: Ino, from: u64) {
        if let Some((copy, size, _, true)) = self.frozen.get(&ino).copied() {
            self.begin(copy, size);
            let mut theirs = self.theirs(ino, copy);
            theirs.truncate(from as usize);
            self.files.insert(copy, theirs);
            self.marks.insert(copy, true);
            return;
        }
        if from == 0 {
            self.files.remove(&ino);
            self.marks.remove(&ino);
            self.lengths.remove(&ino);
        } else if let Some(file) = self.files.get_mut(&ino) {
            file.truncate(from as usize);
        }
    }

    pub fn restore(&mut self, ino: Ino, copy: Ino) {
        let theirs = self.theirs(ino, copy);
        self.files.insert(ino, theirs);
    }

    pub fn keep(&mut self, (ino, copy): (Ino, Ino), to: Ino, len: u64) {
        let mut theirs = self.theirs(ino, copy);
        theirs.truncate(len as usize);
        self.files.insert(to, theirs);
    }

    pub fn look(&self, copy: Ino) -> Option<u64> {
        let unchanged = self.marks.get(&copy).is_none_or(|changed| !changed);
        unchanged.then(|| self.lengths.get(&copy).map_or(u64::MAX, |len| *len as u64))
    }

    /// All numbers that have objects.
    pub fn all(&self) -> Vec<Ino> {
        self.files.keys().chain(self.lengths.keys()).copied().collect()
    }
}
