//! The file `marks`: of each rank's journal the newest segment and how many of its bytes are durable, and of the table the change up to
//! which it is durable. A journal or a table that ends before its mark has lost acknowledged changes. Not a sync: a mark is written after
//! the sync of what it speaks of has returned, so it is always true. That of a journal gets to the disk with a later flush, that of the table
//! has a sync of its own. The file lies outside of the journals' and the table's directories, so it does not go with them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use loligo_store::{Result, Segment, StoreError};

use crate::files::{self, named};

const MAGIC: [u8; 4] = *b"LOMK";
const VERSION: u32 = 1;
/// The meaning of a file that is not there, though each opening to write makes it.
pub(crate) const MISSING: &str = "the file is missing: whether journals and the table have lost their ends since they were last written cannot be told";
/// Unit of an atomic disk write.
const SECTOR: u64 = 512;
/// Bytes of the file at first: the marks of three ranks.
const LEN_MIN: u64 = 4096;
/// Bytes of a slot.
const SLOT: usize = 32;
/// Stands in the slots of the table in place of a rank. No rank has this number.
const TABLE: u32 = u32::MAX;
/// Where the slots of the table begin in the sectors of rank 0.
const TABLE_AT: u64 = 256;
/// Time for which a mark may wait before the kernel is asked to write it. Each such write is one more for the disk.
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// The marks of an open data directory.
pub(crate) struct Marks {
    path: PathBuf,
    /// `None`: they cannot be written here, so there are none.
    file: Option<File>,
    ranks: Mutex<BTreeMap<u32, Rank>>,
}

struct Rank {
    last: Slot,
    written: Instant,
    /// A write failed: what is there stays true, and no more is written.
    failed: bool,
}

/// A mark as it is on the disk. The newer of a rank's two counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Slot {
    seq: u64,
    /// Segment and length; segment 0 with length 0: nothing is known.
    segment: u64,
    len: u64,
}

impl Slot {
    fn encode(self, rank: u32) -> [u8; SLOT] {
        let mut out = [0; SLOT];
        out[..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..16].copy_from_slice(&self.segment.to_le_bytes());
        out[16..24].copy_from_slice(&self.len.to_le_bytes());
        out[24..28].copy_from_slice(&rank.to_le_bytes());
        let crc = crc32c::crc32c(&out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `Ok(None)`: it was never written. `Err(())`: its bytes are not what was written.
    fn decode(bytes: &[u8; SLOT], rank: u32) -> std::result::Result<Option<Slot>, ()> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if word(24) != rank || word(28) != crc32c::crc32c(&bytes[..28]) {
            return Err(());
        }
        Ok(Some(Slot { seq: number(0), segment: number(8), len: number(16) }))
    }

    fn told(self) -> Option<Segment> {
        (self.segment != 0 || self.len != 0).then_some(Segment { id: self.segment, len: self.len })
    }
}

/// Where the slot of a rank, or of the table, lies that the mark of this number goes to.
fn at(rank: u32, seq: u64) -> u64 {
    if rank == TABLE {
        return (1 + seq % 2) * SECTOR + TABLE_AT;
    }
    (1 + 2 * u64::from(rank) + seq % 2) * SECTOR
}

fn head(fs: &[u8; 16]) -> [u8; 28] {
    let mut out = [0; 28];
    out[..4].copy_from_slice(&MAGIC);
    out[4..8].copy_from_slice(&VERSION.to_le_bytes());
    out[8..24].copy_from_slice(fs);
    let crc = crc32c::crc32c(&out[..24]);
    out[24..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Opens the file and looks whose it is. `None`: there is none.
fn open(path: &Path, fs: &[u8; 16], write: bool) -> Result<Option<File>> {
    let file = match File::options().read(true).write(write).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(named(path, &e)),
    };
    let mut bytes = [0; 28];
    read_full(&file, 0, &mut bytes).map_err(|e| named(path, &e))?;
    let found = u32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes"));
    if bytes[..4] == MAGIC && found > VERSION {
        return Err(StoreError::NewerVersion { what: path.display().to_string(), found, known: VERSION });
    }
    if bytes != head(fs) {
        let detail = "its head is not that of the marks of this file system".to_string();
        return Err(StoreError::Corrupt { place: path.display().to_string(), detail });
    }
    Ok(Some(file))
}

/// Reads as much as there is; the rest is zeros.
fn read_full(file: &File, at: u64, buf: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], at + done as u64) {
            Ok(0) => break,
            Ok(some) => done += some,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn load(file: &File, path: &Path, rank: u32) -> Result<Slot> {
    let mut newest: Option<Slot> = None;
    let mut broken = false;
    for seq in 0..2 {
        let mut bytes = [0; SLOT];
        read_full(file, at(rank, seq), &mut bytes).map_err(|e| named(path, &e))?;
        match Slot::decode(&bytes, rank) {
            Ok(slot) => newest = newest.max_by_seq(slot),
            Err(()) => broken = true,
        }
    }
    match newest {
        Some(slot) => Ok(slot),
        None if broken => {
            let detail = format!("the mark of {} has a wrong checksum", name(rank));
            Err(StoreError::Corrupt { place: path.display().to_string(), detail })
        }
        None => Ok(Slot::default()),
    }
}

/// The thing that a mark is of, for people.
fn name(rank: u32) -> String {
    if rank == TABLE { "the table".to_string() } else { format!("rank {rank}") }
}

trait Newest {
    fn max_by_seq(self, other: Option<Slot>) -> Option<Slot>;
}

impl Newest for Option<Slot> {
    fn max_by_seq(self, other: Option<Slot>) -> Option<Slot> {
        self.into_iter().chain(other).max_by_key(|slot| slot.seq)
    }
}

/// The mark of a rank, for one who does not own the directory. `Ok(None)`: there is no file, or it says nothing of the rank.
pub(crate) fn look(path: &Path, fs: &[u8; 16], rank: u32) -> Result<Option<Segment>> {
    match open(path, fs, false)? {
        Some(file) => Ok(load(&file, path, rank)?.told()),
        None => Ok(None),
    }
}

/// The change up to which the table is durable, for one who does not own the directory. `Ok(None)`: nothing is known.
pub(crate) fn look_at_table(path: &Path, fs: &[u8; 16]) -> Result<Option<u64>> {
    Ok(look(path, fs, TABLE)?.map(|mark| mark.id))
}

/// The ranks of which the file says something, ascending.
pub(crate) fn ranks(path: &Path, fs: &[u8; 16]) -> Vec<u32> {
    let Ok(Some(file)) = open(path, fs, false) else { return Vec::new() };
    let slots = file.metadata().map_or(0, |meta| meta.len() / SECTOR).saturating_sub(1) / 2;
    let ranks = 0..u32::try_from(slots).unwrap_or(u32::MAX).min(u32::from(u16::MAX) + 1);
    ranks.filter(|rank| load(&file, path, *rank).is_ok_and(|slot| slot.told().is_some())).collect()
}

impl Marks {
    /// Those of a data directory; makes the file if there is none. A directory without marks, or with marks that cannot be read, is opened all
    /// the same: only a loss of the newest segment cannot be seen then.
    pub(crate) fn open(path: &Path, fs: &[u8; 16]) -> Marks {
        let file = match open(path, fs, true) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => make(path, fs),
            Err(StoreError::Corrupt { detail, .. }) => {
                tracing::warn!("{}: {detail}; it is made anew", path.display());
                make(path, fs)
            }
            Err(error) => Err(error),
        };
        let file = match file {
            Ok(file) => Some(file),
            Err(error) => {
                tracing::warn!("the marks of how far the journals are durable cannot be kept: {error}");
                open(path, fs, false).ok().flatten()
            }
        };
        Marks { path: path.to_path_buf(), file, ranks: Mutex::default() }
    }

    /// The same where nothing is to be written.
    pub(crate) fn open_read_only(path: &Path, fs: &[u8; 16]) -> Marks {
        let file = open(path, fs, false).unwrap_or_else(|error| {
            tracing::warn!("how far the journals are durable is not known: {error}");
            None
        });
        Marks { path: path.to_path_buf(), file, ranks: Mutex::default() }
    }

    /// The mark of a rank's journal.
    pub(crate) fn of(&self, rank: u32) -> Option<Segment> {
        self.with(rank, |_, known| known.last.told()).flatten()
    }

    /// Notes that a segment is durable up to this length. Marks go forward only.
    pub(crate) fn synced(&self, rank: u32, segment: u64, len: u64) {
        self.with(rank, |file, known| {
            if (segment, len) <= (known.last.segment, known.last.len) || known.failed {
                return;
            }
            let slot = Slot { seq: known.last.seq + 1, segment, len };
            if let Err(error) = file.write_all_at(&slot.encode(rank), at(rank, slot.seq)) {
                tracing::warn!("{}: {error}; the mark of rank {rank} stays where it is", self.path.display());
                known.failed = true;
                return;
            }
            let is_new = segment != known.last.segment;
            known.last = slot;
            let now = Instant::now();
            if is_new || now.duration_since(known.written) >= WRITE_EVERY {
                known.written = now;
                files::start_writing(file);
            }
        });
    }

    /// The change up to which the table is durable. `None`: nothing is known.
    pub(crate) fn table(&self) -> Option<u64> {
        self.of(TABLE).map(|mark| mark.id)
    }

    /// Notes, durably, that the table is durable up to this change. Marks go forward only. One that cannot be written leaves the one before:
    /// what it speaks of is durable all the same, so that is told to the log once.
    pub(crate) fn table_synced(&self, change: u64) {
        let written = self.with(TABLE, |file, known| -> io::Result<bool> {
            if change <= known.last.segment {
                return Ok(false);
            }
            let slot = Slot { seq: known.last.seq + 1, segment: change, len: 0 };
            file.write_all_at(&slot.encode(TABLE), at(TABLE, slot.seq))?;
            known.last = slot;
            Ok(true)
        });
        let (Some(file), Some(written)) = (&self.file, written) else { return };
        // The marks of journals do not wait for the sync.
        let done = written.and_then(|is_new| if is_new { file.sync_data() } else { Ok(()) });
        self.with(TABLE, |_, known| {
            if let Err(error) = &done
                && !known.failed
            {
                tracing::warn!("{}: {error}; the mark of the table stays behind", self.path.display());
            }
            known.failed = done.is_err();
        });
    }

    /// Makes the mark of the table this one, durably, whatever it was.
    pub(crate) fn set_table(&self, change: Option<u64>) -> Result<()> {
        self.set(TABLE, change.map(|change| Segment { id: change, len: 0 }))
    }

    /// Before a segment is cut to this length, or removed (`None`): no mark says more any longer, durably.
    pub(crate) fn step_back(&self, rank: u32, segment: u64, len: Option<u64>) -> Result<()> {
        let done = self.with(rank, |file, known| {
            if known.last.segment != segment || len.is_some_and(|len| known.last.len <= len) {
                return Ok(());
            }
            let seq = known.last.seq + 1;
            let slot = len.map_or(Slot { seq, ..Slot::default() }, |len| Slot { seq, segment, len });
            file.write_all_at(&slot.encode(rank), at(rank, seq))?;
            file.sync_data()?;
            known.last = slot;
            Ok(())
        });
        done.unwrap_or(Ok(())).map_err(|e: io::Error| named(&self.path, &e))
    }

    /// Makes the mark of a rank this one, durably, whatever it was.
    pub(crate) fn set(&self, rank: u32, mark: Option<Segment>) -> Result<()> {
        let done = self.with(rank, |file, known| {
            let seq = known.last.seq + 1;
            let slot =
                mark.map_or(Slot { seq, ..Slot::default() }, |mark| Slot { seq, segment: mark.id, len: mark.len });
            file.write_all_at(&slot.encode(rank), at(rank, seq))?;
            file.sync_data()?;
            known.last = slot;
            Ok(())
        });
        done.unwrap_or(Ok(())).map_err(|e: io::Error| named(&self.path, &e))
    }

    /// Runs `f` on the mark of a rank, if there is a file.
    fn with<R>(&self, rank: u32, f: impl FnOnce(&File, &mut Rank) -> R) -> Option<R> {
        let file = self.file.as_ref()?;
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ranks.entry(rank).or_insert_with(|| {
            let last = load(file, &self.path, rank).unwrap_or_else(|error| {
                tracing::warn!("up to where {} was durable is not known: {error}", name(rank));
                Slot::default()
            });
            // Its blocks are there before a mark needs them: a full disk then takes it, too.
            let end = at(rank, 1) + SECTOR;
            let grown = file.metadata().and_then(|meta| match meta.len() < end {
                true => file.write_all_at(&vec![0; (end - meta.len()) as usize], meta.len()),
                false => Ok(()),
            });
            Rank { last, written: Instant::now(), failed: grown.is_err() }
        });
        Some(f(file, known))
    }
}

fn make(path: &Path, fs: &[u8; 16]) -> Result<File> {
    let mut bytes = vec![0; LEN_MIN as usize];
    bytes[..28].copy_from_slice(&head(fs));
    files::replace(path, &bytes)?;
    File::options().read(true).write(true).open(path).map_err(|e| named(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FS: [u8; 16] = [7; 16];

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("marks");
        (dir, path)
    }

    #[test]
    fn the_bytes_of_a_mark_are_fixed() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let slot = Slot { seq: 3, segment: 5, len: 0x1_0040 };
        assert_eq!(
            hex(&slot.encode(2)),
            format!("03000000000000000500000000000000400001000000000002000000{}", hex(&crc(&slot.encode(2)[..28])))
        );
        assert_eq!(hex(&head(&FS)[..24]), "4c4f4d4b0100000007070707070707070707070707070707");
        assert_eq!(Slot::decode(&slot.encode(2), 2), Ok(Some(slot)));
        assert_eq!(Slot::decode(&slot.encode(2), 1), Err(()), "of another rank");
    }

    fn crc(bytes: &[u8]) -> [u8; 4] {
        crc32c::crc32c(bytes).to_le_bytes()
    }

    #[test]
    fn the_mark_of_the_table_lies_beside_those_of_rank_0_and_its_bytes_are_fixed() {
        let (_dir, path) = place();
        let marks = Marks::open(&path, &FS);
        assert_eq!((marks.table(), look_at_table(&path, &FS)), (None, Ok(None)), "as in a file of an earlier release");
        marks.synced(0, 1, 100);
        marks.table_synced(0x1234);
        marks.table_synced(0x1233);
        let bytes = std::fs::read(&path).expect("it is there");
        let hex = |at: usize| bytes[at..at + SLOT].iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(1280), "010000000000000034120000000000000000000000000000ffffffff000a2e74");
        assert_eq!(hex(768), "0".repeat(2 * SLOT));
        marks.synced(0, 1, 200);
        marks.table_synced(0x1235);
        drop(marks);
        let marks = Marks::open(&path, &FS);
        assert_eq!((marks.table(), marks.of(0)), (Some(0x1235), Some(Segment { id: 1, len: 200 })));
        assert_eq!(ranks(&path, &FS), [0]);
        marks.set_table(Some(7)).expect("it can be written");
        assert_eq!(look_at_table(&path, &FS), Ok(Some(7)));
        // Of two marks the torn one does not count; of none that is right nothing is known.
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes[1280 + 9] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert_eq!(look_at_table(&path, &FS), Ok(Some(0x1235)));
        bytes[768 + 9] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert!(matches!(look_at_table(&path, &FS), Err(StoreError::Corrupt { .. })));
        assert_eq!(Marks::open(&path, &FS).table(), None);
        assert_eq!(look(&path, &FS, 0), Ok(Some(Segment { id: 1, len: 200 })));
    }

    #[test]
    fn a_mark_of_the_table_that_cannot_be_written_leaves_the_one_before() {
        let (_dir, path) = place();
        Marks::open(&path, &FS).table_synced(5);
        let marks = Marks::open_read_only(&path, &FS);
        marks.table_synced(6);
        marks.table_synced(7);
        assert_eq!((marks.table(), look_at_table(&path, &FS)), (Some(5), Ok(Some(5))));
        assert!(marks.set_table(Some(1)).is_err(), "who sets it back is told");
        let marks = Marks::open(&path, &FS);
        marks.table_synced(8);
        assert_eq!(look_at_table(&path, &FS), Ok(Some(8)));
    }

    #[test]
    fn marks_go_forward_survive_an_opening_and_step_back_only_when_told() {
        let (_dir, path) = place();
        let marks = Marks::open(&path, &FS);
        assert_eq!(marks.of(0), None);
        marks.synced(0, 1, 100);
        marks.synced(0, 1, 50);
        marks.synced(70, 9, 64);
        assert_eq!(marks.of(0), Some(Segment { id: 1, len: 100 }));
        drop(marks);
        let marks = Marks::open(&path, &FS);
        assert_eq!(look(&path, &FS, 0), Ok(Some(Segment { id: 1, len: 100 })));
        assert_eq!((marks.of(70), marks.of(1)), (Some(Segment { id: 9, len: 64 }), None));
        assert_eq!(ranks(&path, &FS), [0, 70]);
        marks.synced(0, 2, 10);
        marks.step_back(0, 1, None).expect("the mark is of another segment");
        assert_eq!(marks.of(0), Some(Segment { id: 2, len: 10 }));
        marks.step_back(0, 2, Some(4)).expect("it can be written");
        assert_eq!(look(&path, &FS, 0), Ok(Some(Segment { id: 2, len: 4 })));
        marks.step_back(0, 2, None).expect("it can be written");
        assert_eq!((marks.of(0), look(&path, &FS, 0)), (None, Ok(None)));
    }

    #[test]
    fn a_mark_that_was_torn_leaves_the_one_before_and_a_broken_file_is_named() {
        let (_dir, path) = place();
        let marks = Marks::open(&path, &FS);
        marks.synced(0, 1, 100);
        marks.synced(0, 1, 200);
        drop(marks);
        let mut bytes = std::fs::read(&path).expect("it is there");
        // The second one has an even number.
        bytes[at(0, 2) as usize + 17] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert_eq!(look(&path, &FS, 0), Ok(Some(Segment { id: 1, len: 100 })));
        bytes[at(0, 1) as usize + 17] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert!(matches!(look(&path, &FS, 0), Err(StoreError::Corrupt { .. })));
        assert!(matches!(look(&path, &[8; 16], 0), Err(StoreError::Corrupt { .. })), "of another file system");
        assert_eq!(look(&path.with_extension("none"), &FS, 0), Ok(None));
        assert_eq!(Marks::open(&path, &FS).of(0), None);
    }
}
