//! Journal segments as files `DIR/journal/RANK/ID.seg` (id in 16 hexadecimal digits). Not records.
//!
//! Ahead of the tail a file has zeros, up to 1 MiB: a write over bytes that are there needs no change of the file's metadata, and its sync
//! takes about half the time on ext4. Space behind them is reserved with `fallocate` and
//! FALLOC_FL_KEEP_SIZE. The length of a segment is that of its file once it is closed; until then [`Gate`] has it. After a crash the zeros
//! stay, and a reader of records takes them for the end.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use loligo_store::{LogDir, LogFile, LogReader, Result, Segment, StoreError};
use rustix::fs::FallocateFlags;

use crate::files::{self, named};
use crate::marks::Marks;
use crate::room::{For, Room};
use crate::snapshot::Gate;
use crate::spare::opened;
use crate::store::{Owner, read_only};

/// Parts that one system call takes (IOV_MAX is 1024 on Linux).
const PARTS_AT_ONCE: usize = 1024;
/// Zeros written at a time ahead of the tail, bytes.
const ZEROS: u64 = 1 << 20;
/// Appends of more bytes than this make the file longer by themselves: the metadata costs little beside them, and zeros would be as many bytes
/// again.
const ZEROS_FOR_MAX: u64 = 64 << 10;

pub(crate) struct LocalLogDir {
    path: PathBuf,
    reserve: u64,
    /// Where it is put down how far the journal is durable, and whose it is.
    marks: (Arc<Marks>, u32),
    room: Arc<Room>,
    gate: Arc<Gate>,
    owner: Arc<Owner>,
}

impl LocalLogDir {
    pub(crate) fn open(
        path: PathBuf,
        reserve: u64,
        marks: (Arc<Marks>, u32),
        room: Arc<Room>,
        gate: Arc<Gate>,
        owner: Arc<Owner>,
    ) -> Result<Self> {
        if !owner.only_reads() && room.find(For::Journal, || files::make_dir(&path))? {
            files::sync_dir(path.parent().expect("a rank's directory lies in the journal directory"))?;
        }
        Ok(Self { path, reserve, marks, room, gate, owner })
    }

    /// Refuses a change of what is only read.
    fn may_change(&self) -> Result<()> {
        if self.owner.only_reads() { Err(read_only(&self.path)) } else { Ok(()) }
    }

    fn path_of(&self, id: u64) -> PathBuf {
        self.path.join(format!("{id:016x}.seg"))
    }

    fn file(&self, id: u64, path: PathBuf, file: File, len: u64) -> Box<dyn LogFile> {
        Box::new(LocalLogFile {
            id,
            path,
            file,
            len,
            reserved: len,
            zeroed: len,
            reserve: (self.reserve > 0).then_some(self.reserve),
            failed: false,
            marks: self.marks.clone(),
            room: self.room.clone(),
            gate: self.gate.clone(),
            _owner: self.owner.clone(),
        })
    }
}

pub(crate) fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

impl LogDir for LocalLogDir {
    fn list(&self) -> Result<Vec<Segment>> {
        let mut all = Vec::new();
        let entries = match opened(|| fs::read_dir(&self.path)) {
            // Nothing was made for this rank.
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.owner.only_reads() => return Ok(all),
            entries => entries.map_err(|e| named(&self.path, &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| named(&self.path, &e))?;
            if let Some(id) = entry.file_name().to_str().and_then(id_of) {
                let of_file = || Ok(entry.metadata().map_err(|e| named(&entry.path(), &e))?.len());
                let len = self.gate.length(&self.path_of(id)).map_or_else(of_file, Ok)?;
                all.push(Segment { id, len });
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        self.may_change()?;
        let path = self.path_of(id);
        let _pass = self.gate.pass();
        let create = || File::options().write(true).create_new(true).open(&path);
        let make = || opened(create).map_err(|e| named(&path, &e));
        let file = self.room.find(For::Journal, make)?;
        if let Err(error) = self.sync_dir() {
            // Nothing is in it: the call may be made again.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let (marks, rank) = &self.marks;
        marks.synced(*rank, id, 0);
        Ok(self.file(id, path, file, 0))
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        let path = self.path_of(id);
        let file = opened(|| File::open(&path)).map_err(|e| named(&path, &e))?;
        Ok(Box::new(LocalLogReader { path, file, gate: self.gate.clone() }))
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        self.may_change()?;
        let path = self.path_of(id);
        let file = opened(|| File::options().write(true).open(&path)).map_err(|e| named(&path, &e))?;
        let len = file.metadata().map_err(|e| named(&path, &e))?.len();
        Ok(self.file(id, path, file, len))
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        self.may_change()?;
        let path = self.path_of(id);
        let _pass = self.gate.pass();
        if let Some(keep) = &*self.gate.kept() {
            keep.before_truncation(&path);
        }
        let (marks, rank) = &self.marks;
        marks.step_back(*rank, id, Some(len))?;
        let cut = opened(|| File::options().write(true).open(&path)).and_then(|file| {
            if len < file.metadata()?.len() {
                file.set_len(len)?;
            }
            file.sync_all()
        });
        cut.map_err(|e| named(&path, &e))
    }

    fn delete(&self, id: u64) -> Result<()> {
        self.may_change()?;
        let path = self.path_of(id);
        let _pass = self.gate.pass();
        let (marks, rank) = &self.marks;
        marks.step_back(*rank, id, None)?;
        match fs::remove_file(&path) {
            Ok(()) => self.sync_dir(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(named(&path, &e)),
        }
    }

    fn sync_dir(&self) -> Result<()> {
        files::sync_dir(&self.path)
    }

    fn set_synced(&self, mark: Option<Segment>) -> Result<()> {
        self.may_change()?;
        let (marks, rank) = &self.marks;
        marks.set(*rank, mark)
    }

    fn synced(&self) -> Result<Option<Segment>> {
        let (marks, rank) = &self.marks;
        Ok(marks.of(*rank))
    }
}

struct LocalLogFile {
    id: u64,
    path: PathBuf,
    file: File,
    len: u64,
    /// End of the space reserved.
    reserved: u64,
    /// End of the file, and of the zeros ahead of the tail.
    zeroed: u64,
    /// Bytes to reserve at a time; `None` once the file system said that it cannot.
    reserve: Option<u64>,
    failed: bool,
    marks: (Arc<Marks>, u32),
    room: Arc<Room>,
    gate: Arc<Gate>,
    _owner: Arc<Owner>,
}

impl LocalLogFile {
    fn check(&self) -> Result<()> {
        if self.failed {
            let cause = "an earlier sync failed, so the disk's content is unknown".to_string();
            return Err(StoreError::Io { what: self.path.display().to_string(), cause });
        }
        Ok(())
    }

    /// Reserves ahead. Only the append itself decides whether there is space, so failures are not
    /// errors.
    fn reserve(&mut self, end: u64) {
        let Some(step) = self.reserve.filter(|_| end > self.reserved) else { return };
        let to = end.next_multiple_of(step);
        let from = self.reserved;
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, to - from) {
            Ok(()) => self.reserved = to,
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::INTR) => {}
            Err(_) => self.reserve = None,
        }
    }

    /// Writes zeros ahead of an append that ends there. Failures are no errors, as above.
    fn zero_ahead(&mut self, total: u64) {
        let end = self.len + total;
        if self.reserve.is_none() || total > ZEROS_FOR_MAX || end <= self.zeroed || self.room.is_full() {
            return;
        }
        let to = end.next_multiple_of(ZEROS);
        let zeros = vec![0; (to - self.zeroed) as usize];
        if self.file.write_all_at(&zeros, self.zeroed).is_ok() {
            self.zeroed = to;
        }
    }

    fn write(&self, parts: &[&[u8]], mut at: u64) -> io::Result<()> {
        for some in parts.chunks(PARTS_AT_ONCE) {
            let slices: Vec<io::IoSlice> = some.iter().map(|part| io::IoSlice::new(part)).collect();
            let total: usize = some.iter().map(|part| part.len()).sum();
            let n = rustix::io::pwritev(&self.file, &slices, at)?;
            if n < total {
                // A short write is rare (the disk is nearly full): the rest goes as one piece, which
                // gives the error if there is one.
                self.file.write_all_at(&some.concat()[n..], at + n as u64)?;
            }
            at += total as u64;
        }
        Ok(())
    }
}

impl LogFile for LocalLogFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append_vectored(&[bytes])
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let gate = self.gate.clone();
        let _pass = gate.pass();
        self.reserve(self.len + total);
        self.zero_ahead(total);
        let room = self.room.clone();
        room.find(For::Journal, || self.write(parts, self.len).map_err(|e| named(&self.path, &e))).inspect_err(
            |_| {
                // What was written of it is cut off so that lengths tell the truth. If this fails too,
                // the next append writes over it, and a reader takes it for a torn tail.
                let _ = self.file.set_len(self.len);
                (self.reserved, self.zeroed) = (self.len, self.len);
            },
        )?;
        self.len += total;
        self.zeroed = self.zeroed.max(self.len);
        self.gate.set_length(&self.path, Some(self.len));
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.file.sync_data().map_err(|e| {
            self.failed = true;
            named(&self.path, &e)
        })?;
        let (marks, rank) = &self.marks;
        marks.synced(*rank, self.id, self.len);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for LocalLogFile {
    /// Gives reserved space and zeros back; a failure only leaves them until the segment is deleted.
    fn drop(&mut self) {
        let gate = self.gate.clone();
        let _pass = gate.pass();
        if self.reserved.max(self.zeroed) > self.len && !self.failed {
            let _ = self.file.set_len(self.len);
        }
        gate.set_length(&self.path, None);
    }
}

struct LocalLogReader {
    path: PathBuf,
    file: File,
    gate: Arc<Gate>,
}

impl LogReader for LocalLogReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // Of a segment that is appended to, the zeros behind its end are not shown.
        let most = self.gate.length(&self.path).map_or(buf.len() as u64, |len| len.saturating_sub(offset));
        let most = buf.len().min(most as usize);
        let buf = &mut buf[..most];
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(named(&self.path, &e)),
            }
        }
        Ok(done)
    }

    fn len(&self) -> Result<u64> {
        match self.gate.length(&self.path) {
            Some(len) => Ok(len),
            None => Ok(self.file.metadata().map_err(|e| named(&self.path, &e))?.len()),
        }
    }
}
