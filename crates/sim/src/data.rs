//! Check of the bytes that were read. Files are made of blocks that are written whole, each time with a new tag in every four bytes; so
//! each four bytes tell which write they came from. A write that a later one has certainly replaced must not be seen; one that may be lost
//! in a crash, because nobody waited for the disk, replaces nothing for certain.

use std::collections::{BTreeMap, BTreeSet};

/// A block of a data file, bytes.
pub const BLOCK: u64 = 64;
/// Blocks of a data file: the first ones from offset 0, the others around the border of the first two objects.
pub const BLOCKS: usize = 12;
/// Number of tagged bytes at the start.
pub const HEAD: usize = 8;
/// Where the others begin: two blocks before the border.
pub const TAIL: u64 = OBJECT - 2 * BLOCK;
/// Size of the objects of data files.
pub const OBJECT: u64 = 64 << 10;
/// A record of an appended file, bytes.
pub const RECORD: usize = 32;

/// Offset of a block.
pub fn offset_of(block: usize) -> u64 {
    if block < HEAD { block as u64 * BLOCK } else { TAIL + (block - HEAD) as u64 * BLOCK }
}

/// A tag, over and over.
pub fn filled(tag: u32, len: usize) -> Vec<u8> {
    tag.to_le_bytes().iter().copied().cycle().take(len).collect()
}

/// A client from one loss of what it held to the next.
pub type Epoch = u64;

#[derive(Default, Debug)]
struct Write {
    tag: u32,
    epoch: Epoch,
    /// Handle that it was written through.
    fh: u64,
    begun: u64,
    /// When it was answered, or became impossible.
    ended: Option<u64>,
    /// The disk has it.
    synced: bool,
    /// It may be gone.
    lossy: bool,
    /// The server's disk may have lost its bytes, and not that the file reaches over them.
    hollow: bool,
    /// It failed, or its client was told of a loss since: no sync of later is about it.
    told: bool,
}

impl Write {
    fn is_sure(&self) -> bool {
        self.ended.is_some() && (self.synced || !self.lossy)
    }
}

#[derive(Default, Debug)]
struct File {
    /// All writes; a cut or hole is one of tag 0.
    writes: Vec<Write>,
    /// Which of them each block had.
    blocks: Vec<Vec<usize>>,
}

/// All files, by any number.
#[derive(Default, Debug)]
pub struct Data {
    files: BTreeMap<u64, File>,
    /// Those that lost what they held.
    lost: BTreeSet<Epoch>,
    pub findings: Vec<String>,
}

/// A client that writes or syncs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    pub epoch: Epoch,
    pub fh: u64,
}

/// A write under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteId {
    file: u64,
    at: usize,
}

impl Data {
    /// A new empty file, of blocks or only appended to.
    pub fn create(&mut self, file: u64) {
        let first = Write { tag: 0, ended: Some(0), synced: true, ..Write::default() };
        let blocks = vec![vec![0]; BLOCKS];
        self.files.insert(file, File { writes: vec![first], blocks });
    }

    /// A write (or, with tag 0, a cut or a hole) of some blocks begins; of a log, an append.
    pub fn begin(&mut self, file: u64, blocks: std::ops::Range<usize>, tag: u32, by: Writer, now: u64) -> WriteId {
        let Writer { epoch, fh } = by;
        let lossy = self.lost.contains(&epoch);
        let file_state = self.files.get_mut(&file).expect("files are created first");
        let at = file_state.writes.len();
        file_state.writes.push(Write { tag, epoch, fh, begun: now, lossy, ..Write::default() });
        blocks.for_each(|block| file_state.blocks[block].push(at));
        WriteId { file, at }
    }

    /// It was answered well. `durable`: its kind is durable when it is answered.
    pub fn end(&mut self, id: WriteId, durable: bool, now: u64) {
        let write = self.write(id);
        write.ended.get_or_insert(now);
        write.synced |= durable;
    }

    /// It failed, or nobody knows; it can happen until now at the latest.
    pub fn close(&mut self, id: WriteId, now: u64) {
        let write = self.write(id);
        if write.ended.is_none() {
            write.ended = Some(now);
            (write.lossy, write.told) = (true, true);
        }
    }

    fn write(&mut self, id: WriteId) -> &mut Write {
        &mut self.files.get_mut(&id.file).expect("files stay").writes[id.at]
    }

    /// An fsync that began at `begun` was answered well. What was written through the same handle is on the disk, or the
    /// answer was a lie; the same for other handles as long as nothing was lost since.
    pub fn synced(&mut self, file: u64, by: Writer, begun: u64) {
        let Some(file) = self.files.get_mut(&file) else { return };
        for write in &mut file.writes {
            let Some(ended) = write.ended.filter(|_| write.epoch == by.epoch && !write.told) else { continue };
            let own = write.fh == by.fh && ended <= begun;
            if own || !write.lossy && ended < begun {
                write.synced = true;
            }
        }
    }

    /// A call on a file told its client that something written before is lost; of all files, if it was a sync of everything.
    /// That is told once: what was not synced by then is nobody's promise any more.
    pub fn told(&mut self, file: Option<u64>, epoch: Epoch) {
        let of_it = self.files.iter_mut().filter(|(number, _)| file.is_none_or(|file| file == **number));
        for write in of_it.flat_map(|(_, file)| &mut file.writes) {
            if write.epoch == epoch && !write.synced && write.ended.is_some() {
                (write.lossy, write.told) = (true, true);
            }
        }
    }

    /// A sync of everything that began at `begun` was answered well: all that the client wrote before is on the disk, also
    /// through handles that are closed. What was lost before is not brought back by that.
    pub fn all_synced(&mut self, epoch: Epoch, begun: u64) {
        let writes = self.files.values_mut().flat_map(|file| &mut file.writes);
        let before = |write: &&mut Write| write.epoch == epoch && write.ended.is_some_and(|ended| ended < begun);
        writes.filter(before).filter(|write| !write.lossy).for_each(|write| write.synced = true);
    }

    /// The disk under the server lost what was not synced, or failed.
    pub fn server_lost(&mut self) {
        for file in self.files.values_mut() {
            let unsynced = file.writes.iter_mut().filter(|write| !write.synced);
            unsynced.for_each(|write| (write.lossy, write.hollow) = (true, true));
        }
    }

    /// A client lost what it held.
    pub fn client_lost(&mut self, epoch: Epoch) {
        self.lost.insert(epoch);
        for file in self.files.values_mut() {
            let own = file.writes.iter_mut().filter(|write| write.epoch == epoch && !write.synced);
            own.for_each(|write| write.lossy = true);
        }
    }

    /// Blocks from `first` on were read between `begun` and `now`; what is missing at the end was behind the end.
    pub fn read(&mut self, file: u64, first: usize, count: usize, bytes: &[u8], begun: u64, now: u64) {
        let Some(state) = self.files.get(&file) else { return };
        if bytes.len() as u64 > count as u64 * BLOCK {
            return self.findings.push(format!("file {file}: more was read than asked for"));
        }
        let mut whole = bytes.to_vec();
        whole.resize((count as u64 * BLOCK) as usize, 0);
        let mut wrong = Vec::new();
        for (block, bytes) in (first..).zip(whole.chunks(BLOCK as usize)) {
            let mut told = BTreeSet::new();
            for unit in bytes.chunks(4) {
                let tag = u32::from_le_bytes(unit.try_into().expect("blocks are whole units"));
                if told.insert(tag)
                    && let Err(why) = state.may_be(block, tag, begun, now)
                {
                    let short = bytes.len().min(whole.len());
                    wrong.push(format!(
                        "file {file} block {block}: read tag {tag} at {begun}..{now} ({short} bytes): {why}"
                    ));
                }
            }
        }
        self.findings.extend(wrong);
    }

    /// A whole log was read.
    pub fn read_log(&mut self, file: u64, bytes: &[u8], begun: u64, now: u64) {
        let Some(state) = self.files.get(&file) else { return };
        let found = state.check_log(bytes, begun, now);
        self.findings.extend(found.into_iter().map(|text| format!("log {file} read at {begun}..{now}: {text}")));
    }
}

impl File {
    /// Checks that a read may find this tag in a block.
    fn may_be(&self, block: usize, tag: u32, begun: u64, now: u64) -> Result<(), String> {
        let writes = || self.blocks[block].iter().map(|at| &self.writes[*at]);
        let mut why = String::from("it was never written there");
        for write in writes().filter(|write| write.tag == tag && write.begun <= now) {
            let replaced = writes().find(|later| {
                later.is_sure()
                    && write.ended.is_some_and(|ended| ended < later.begun)
                    && later.ended.is_some_and(|ended| ended < begun)
            });
            match replaced {
                None => return Ok(()),
                Some(later) => why = format!("{write:?} was replaced by {later:?}"),
            }
        }
        Err(why)
    }

    fn check_log(&self, bytes: &[u8], begun: u64, now: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut order: Vec<&Write> = Vec::new();
        let (mut empty, mut seen) = (0, BTreeSet::new());
        for (at, record) in bytes.chunks(RECORD).enumerate() {
            let units = record.chunks(4).map(|u| u.try_into().map_or(u32::MAX, u32::from_le_bytes));
            let tags: BTreeSet<u32> = units.filter(|tag| *tag != 0).collect();
            let Some(tag) = tags.first().copied() else {
                empty += 1;
                continue;
            };
            let write = self.writes.iter().find(|write| write.tag == tag && write.begun <= now);
            match write {
                _ if tags.len() > 1 => wrong.push(format!("record {at} is a mixture of {tags:?}")),
                None => wrong.push(format!("record {at} has tag {tag}, which nobody appended")),
                Some(_) if !seen.insert(tag) => wrong.push(format!("record {at}: {tag} is there twice")),
                Some(write) => order.push(write),
            }
            let whole = record.len() == RECORD && !record.chunks(4).any(|u| u == [0; 4]);
            if let Some(write) = write.filter(|write| !whole && !write.hollow) {
                wrong.push(format!("record {at} is not whole: {write:?}"));
            }
        }
        for write in self.writes.iter().filter(|write| write.tag != 0) {
            if write.is_sure() && write.ended < Some(begun) && !seen.contains(&write.tag) {
                wrong.push(format!("{write:?} is missing"));
            }
        }
        for (at, earlier) in order.iter().enumerate() {
            let before = |later: &&&Write| later.is_sure() && later.ended.is_some_and(|ended| ended < earlier.begun);
            if let Some(later) = order[at + 1..].iter().find(before) {
                wrong.push(format!("{earlier:?} stands before {later:?}"));
            }
        }
        // Nobody sees an append before its bytes are there, and one that failed never.
        let hollow = self.writes.iter().filter(|write| write.tag != 0 && write.hollow && !write.is_sure());
        if empty > hollow.count() {
            wrong.push(format!("{empty} records are empty"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(data: &mut Data, tag: u32, fh: u64, now: u64) -> WriteId {
        let id = data.begin(1, 0..1, tag, Writer { epoch: 7, fh }, now);
        data.end(id, false, now + 1);
        id
    }

    /// True if the first write may still be seen after another one and a sync of it.
    fn may_be_seen(before_sync: impl FnOnce(&mut Data, WriteId)) -> bool {
        let mut data = Data::default();
        data.create(1);
        written(&mut data, 1, 3, 10);
        let second = data.begin(1, 0..1, 2, Writer { epoch: 7, fh: 3 }, 20);
        before_sync(&mut data, second);
        data.synced(1, Writer { epoch: 7, fh: 3 }, 30);
        data.server_lost();
        data.read(1, 0, 1, &filled(1, BLOCK as usize), 40, 41);
        data.findings.is_empty()
    }

    #[test]
    fn a_sync_makes_what_was_written_before_it_sure() {
        assert!(!may_be_seen(|data, second| data.end(second, false, 21)));
    }

    /// True if a reader may find these bytes of an append that is under way, or was ended by a loss.
    fn log_may_be(bytes: &[u8], lost: impl FnOnce(&mut Data, WriteId)) -> bool {
        let mut data = Data::default();
        data.create(1);
        let id = data.begin(1, 0..0, 1, Writer { epoch: 7, fh: 3 }, 10);
        lost(&mut data, id);
        data.read_log(1, bytes, 20, 21);
        data.findings.is_empty()
    }

    #[test]
    fn nobody_sees_room_that_is_not_written() {
        let part = [filled(1, RECORD / 2), vec![0; RECORD / 2]].concat();
        for bytes in [&[0; RECORD][..], &part] {
            assert!(!log_may_be(bytes, |_, _| {}), "under way");
            assert!(!log_may_be(bytes, |data, id| data.close(id, 11)), "failed");
            assert!(!log_may_be(bytes, |data, _| data.client_lost(7)), "its client died");
            assert!(log_may_be(bytes, |data, _| data.server_lost()), "the disk lost it");
        }
        assert!(log_may_be(&[], |_, _| {}) && log_may_be(&filled(1, RECORD), |_, _| {}));
    }

    #[test]
    fn what_failed_is_not_made_sure_by_a_sync_of_later() {
        assert!(may_be_seen(|data, second| data.close(second, 21)));
    }

    #[test]
    fn a_loss_that_was_told_is_told_once() {
        let told = |data: &mut Data, second| {
            data.end(second, false, 21);
            data.told(Some(1), 7);
        };
        assert!(may_be_seen(told));
        let of_another_file = |data: &mut Data, second| {
            data.end(second, false, 21);
            data.told(Some(2), 7);
        };
        assert!(!may_be_seen(of_another_file));
    }
}
