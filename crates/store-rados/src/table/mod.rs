//! The table: its keys lie in ranges, each of them the omap of an object. Here: reads and writes, over as many ranges as they concern.
//!
//! Every operation names the generation of the range that it believes in, so one that was cut meanwhile answers "changed", and the index is
//! read again. Every write names the epoch of its slot.

mod batch;
mod cut;
mod index;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use loligo_rados::{Error, Pool, ReadOp, Reading, WriteOp};
use loligo_store::{Batch, Durability, KeyValue, Result, StoreError, Table, TableSize};

use crate::bytes::{escape, unescape};
use crate::error::{fenced, store};
use crate::names;
use crate::slots::{Slot, Slots};
pub(crate) use batch::decode as decode_batch;
pub(crate) use index::{BEGIN, GENERATION, Index, NEXT, Range, State};

/// Keys that are asked for at a time; the cluster gives 1,024 at most.
const PAGE: usize = 1024;
/// Bytes of one operation, about: larger ones are cut, if they may be.
const OP_BYTES: usize = 4 << 20;
/// Time for which a stable set of ranges is sought: others cut them in a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Changes by key, with the keys as they are in an omap: put, or removed.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// One of them.
type Change<'a> = (&'a Vec<u8>, &'a Option<Vec<u8>>);

/// State that all handles of the table share.
pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    /// Keys after which a range is cut.
    keys_max: u64,
    index: RwLock<Arc<Index>>,
    /// Rows that were written to each range since it was last counted: keys, bytes.
    written: Mutex<HashMap<u64, (u64, u64)>>,
    _slots: Arc<Slots>,
}

/// The table as one slot writes it.
pub(crate) struct RadosTable {
    pub(crate) shared: Arc<Shared>,
    /// None of the leader's table at a server that does not lead: there it is read only.
    slot: OnceLock<Arc<Slot>>,
    /// The ranges whose objects know the slot's epoch, by number.
    claimed: Mutex<std::collections::HashSet<u64>>,
    /// One batch over several ranges at a time.
    batching: Mutex<()>,
}

/// Result of an attempt.
enum Attempt<T> {
    Done(T),
    /// Ranges are not what was believed.
    Old,
}

impl Shared {
    pub(crate) fn open(pool: &Arc<Pool>, keys_max: u64, slots: &Arc<Slots>) -> Result<Shared> {
        let index = RwLock::new(Arc::new(Index::load(pool)?));
        Ok(Shared { pool: pool.clone(), keys_max, index, written: Mutex::default(), _slots: slots.clone() })
    }

    pub(crate) fn format(pool: &Pool) -> Result<()> {
        Index::format(pool)
    }

    fn index(&self) -> Arc<Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reload(&self) -> Result<Arc<Index>> {
        let index = Arc::new(Index::load(&self.pool)?);
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index.clone();
        Ok(index)
    }

    /// Tries until ranges are what the index says.
    fn until_true<T>(&self, mut attempt: impl FnMut(&Index) -> Result<Attempt<T>>) -> Result<T> {
        let mut index = self.index();
        let until = Instant::now() + PATIENCE;
        for tries in 0.. {
            if let Attempt::Done(value) = attempt(&index)? {
                return Ok(value);
            }
            if Instant::now() > until {
                return Err(StoreError::Io {
                    what: format!("the table in pool {}", self.pool.name()),
                    cause: "its ranges are not what its index says".into(),
                });
            }
            index = self.reload()?;
            if tries > 0 {
                // Whoever was cutting one may be gone.
                for (begin, _) in index.ranges.iter().filter(|(_, range)| range.state != State::Whole) {
                    cut::finish(self, begin)?;
                }
                index = self.reload()?;
            }
        }
        unreachable!("there are enough numbers")
    }

    fn read_op(&self, range: &Range) -> Result<ReadOp> {
        let mut op = ReadOp::new().map_err(store)?;
        op.assert_xattr(GENERATION, &range.generation.to_le_bytes()).map_err(store)?;
        Ok(op)
    }

    /// Those of these keys, which ascend, that are there, with their values, ascending.
    fn look_up(&self, keys: &[&[u8]]) -> Result<Vec<KeyValue>> {
        self.until_true(|index| {
            let mut begun: Vec<(Reading, usize)> = Vec::new();
            let mut rest = keys;
            while let Some(first) = rest.first() {
                let (begin, range) = index.of(first);
                let end = index.end_of(begin);
                let here =
                    rest.iter().take(PAGE).take_while(|key| end.is_none_or(|end| **key < end.as_slice())).count();
                let (now, later) = rest.split_at(here);
                let mut op = self.read_op(range)?;
                let step = op.omap_keys(now);
                begun.push((op.begin(&self.pool, &names::range(range.id)).map_err(store)?, step));
                rest = later;
            }
            let mut found = Vec::with_capacity(keys.len());
            for (reading, step) in begun {
                match reading.wait().and_then(|brought| brought.omap(step)) {
                    Ok(omap) => found.extend(omap.pairs),
                    Err(Error::Changed { .. } | Error::NotFound { .. }) => return Ok(Attempt::Old),
                    Err(error) => return Err(store(error)),
                }
            }
            Ok(Attempt::Done(found))
        })
    }

    /// A page of keys from `start` on, of one range; where to go on.
    fn page(&self, start: &[u8], limit: usize) -> Result<Page> {
        self.until_true(|index| {
            let (begin, range) = index.of(start);
            let mut op = self.read_op(range)?;
            // A listing begins behind a key, so that key itself is asked for by name.
            let (at, behind) = (op.omap_keys(&[start]), op.omap_after(start, limit as u64).map_err(store)?);
            let brought = match op.run(&self.pool, &names::range(range.id)) {
                Ok(brought) => brought,
                Err(Error::Changed { .. } | Error::NotFound { .. }) => return Ok(Attempt::Old),
                Err(error) => return Err(store(error)),
            };
            let mut pairs = brought.omap(at).map_err(store)?.pairs;
            let behind = brought.omap(behind).map_err(store)?;
            pairs.extend(behind.pairs);
            let next = match (behind.more, pairs.last()) {
                // The smallest key behind that one.
                (true, Some((last, _))) => Some([last.as_slice(), &[1]].concat()),
                _ => index.end_of(begin).cloned(),
            };
            Ok(Attempt::Done(Page { pairs, next }))
        })
    }

    /// Puts down how large the ranges are by now, so that the next one to open it knows.
    pub(crate) fn note_sizes(&self) -> Result<()> {
        let written = std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        let index = self.reload()?;
        for (begin, range) in index.ranges.iter().filter(|(_, range)| range.state == State::Whole) {
            if let Some((keys, bytes)) = written.get(&range.id) {
                let noted = Range { keys: range.keys + keys, bytes: range.bytes + bytes, ..range.clone() };
                index::replace(&self.pool, &[(begin, Some(range), Some(&noted))], None)?;
            }
        }
        self.reload().map(drop)
    }

    fn wrote<'a>(&self, range: u64, changes: impl Iterator<Item = Change<'a>>) {
        let puts = changes.filter_map(|(key, value)| Some((key.len() + value.as_ref()?.len()) as u64));
        let (keys, bytes) = puts.fold((0, 0), |(keys, bytes), put| (keys + 1, bytes + put));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = written.entry(range).or_default();
        *entry = (entry.0 + keys, entry.1 + bytes);
    }
}

/// Keys as in the omap, and where the next ones begin.
struct Page {
    pairs: Vec<KeyValue>,
    next: Option<Vec<u8>>,
}

impl RadosTable {
    /// To be read only, until it is owned.
    pub(crate) fn new(shared: Arc<Shared>) -> RadosTable {
        RadosTable { shared, slot: OnceLock::new(), claimed: Mutex::default(), batching: Mutex::default() }
    }

    /// Writes as this slot from now on; first finishes what the slot's owner before had begun.
    pub(crate) fn own(&self, slot: Arc<Slot>) -> Result<()> {
        let _ = self.slot.set(slot);
        batch::redo(self)
    }

    fn slot(&self) -> Result<&Arc<Slot>> {
        let slot = self.slot.get().ok_or_else(|| StoreError::Fenced {
            what: "the table".into(),
            cause: "another server leads, and writes what belongs to the whole file system".into(),
        })?;
        slot.check().map(|()| slot)
    }

    fn is_claimed(&self, range: u64) -> bool {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).contains(&range)
    }

    /// Makes the range's object know the epoch of the slot, so that no owner before can write there. `false`: the range is not what was
    /// believed.
    fn claim(&self, range: &Range) -> Result<bool> {
        if claim(&self.shared.pool, &names::range(range.id), self.slot()?, Some(range.generation))? {
            self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(range.id);
            return Ok(true);
        }
        Ok(false)
    }

    /// Does changes that may become true one by one. What is done when it fails is not known, and may be done again.
    fn apply(&self, changes: &Changes) -> Result<()> {
        // What is done, once something else has to be tried again.
        let mut done: BTreeSet<&[u8]> = BTreeSet::new();
        self.shared.until_true(|index| {
            let mut begun = Vec::new();
            let mut is_old = false;
            for part in parts(index, changes.iter().filter(|(key, _)| !done.contains(key.as_slice()))) {
                if part.range.state != State::Whole {
                    cut::finish(&self.shared, part.begin)?;
                    is_old = true;
                    continue;
                }
                if !self.is_claimed(part.range.id) && !self.claim(part.range)? {
                    is_old = true;
                    continue;
                }
                let op = self.write_op(part.range, part.changes.iter().copied())?;
                let pending = op.begin(&self.shared.pool, &names::range(part.range.id)).map_err(store)?;
                begun.push((part.range.id, part.changes, pending));
            }
            let (mut landed, mut failed) = (Vec::new(), None);
            for (range, changes, pending) in begun {
                match pending.wait() {
                    Ok(_) => {
                        self.shared.wrote(range, changes.iter().copied());
                        landed.push(changes);
                    }
                    Err(Error::Changed { .. } | Error::NotFound { .. }) => {
                        // Either of the two conditions; to claim it again tells which.
                        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(&range);
                        is_old = true;
                    }
                    Err(error) => failed = Some(store(error)),
                }
            }
            match failed {
                Some(error) => Err(error),
                None if is_old => {
                    done.extend(landed.iter().flatten().map(|(key, _)| key.as_slice()));
                    Ok(Attempt::Old)
                }
                None => Ok(Attempt::Done(())),
            }
        })?;
        cut::where_due(&self.shared, self.shared.keys_max)
    }

    fn write_op<'a>(&self, range: &Range, changes: impl Iterator<Item = Change<'a>> + Clone) -> Result<WriteOp> {
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_xattr(GENERATION, &range.generation.to_le_bytes()).map_err(store)?;
        let slot = self.slot()?;
        op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?;
        op.omap_set(changes.clone().filter_map(|(key, value)| Some((key.as_slice(), value.as_deref()?))));
        op.omap_remove(changes.filter(|(_, value)| value.is_none()).map(|(key, _)| key.as_slice()));
        Ok(op)
    }
}

/// A part of changes that is one operation.
struct Part<'i, 'a> {
    begin: &'i [u8],
    range: &'i Range,
    changes: Vec<Change<'a>>,
}

/// Cuts changes into operations: by range, and by size.
fn parts<'i, 'a>(index: &'i Index, changes: impl Iterator<Item = Change<'a>>) -> Vec<Part<'i, 'a>> {
    let mut parts: Vec<Part<'i, 'a>> = Vec::new();
    let mut end: Option<&Vec<u8>> = None;
    let mut bytes = 0;
    for (key, value) in changes {
        let is_here = !parts.is_empty() && end.is_none_or(|end| key < end);
        if !is_here || bytes > OP_BYTES {
            let (begin, range) = index.of(key);
            end = index.end_of(begin);
            bytes = 0;
            parts.push(Part { begin, range, changes: Vec::new() });
        }
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        parts.last_mut().expect("one was just made").changes.push((key, value));
    }
    parts
}

/// Makes an object know the epoch of a slot; one that is not there is made, unless it has a generation. `false`: it has another generation.
pub(crate) fn claim(pool: &Pool, object: &str, slot: &Slot, generation: Option<u64>) -> Result<bool> {
    let name = slot.xattr();
    loop {
        slot.check()?;
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.xattrs();
        let xattrs = match op.run(pool, object).and_then(|brought| brought.xattrs(step)) {
            Ok(xattrs) => Some(xattrs),
            Err(Error::NotFound { .. }) if generation.is_none() => None,
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(store(error)),
        };
        let value =
            |name: &str| xattrs.iter().flatten().find(|(other, _)| other == name).map(|(_, value)| value.as_slice());
        if let Some(generation) = generation
            && value(GENERATION) != Some(&generation.to_le_bytes()[..])
        {
            return Ok(false);
        }
        let before = value(&name).unwrap_or_default();
        let epoch = <[u8; 8]>::try_from(before).map_or(0, u64::from_le_bytes);
        if epoch > slot.epoch {
            return Err(fenced(object));
        }
        if epoch == slot.epoch {
            return Ok(true);
        }
        let mut op = WriteOp::new().map_err(store)?;
        if let Some(generation) = generation {
            op.assert_xattr(GENERATION, &generation.to_le_bytes()).map_err(store)?;
        }
        match &xattrs {
            Some(_) => op.assert_xattr(&name, before).map_err(store)?,
            // Of an object that is not there nothing can be compared.
            None => op.create_exclusive(),
        };
        op.set_xattr(&name, &slot.epoch.to_le_bytes()).map_err(store)?;
        match op.run(pool, object) {
            Ok(_) => return Ok(true),
            // Whatever it is by now is seen with the next look.
            Err(Error::Changed { .. } | Error::NotFound { .. } | Error::Exists { .. }) => {}
            Err(error) => return Err(store(error)),
        }
    }
}

fn changes_of(batch: &Batch) -> Changes {
    let mut changes: Changes = batch.deletes.iter().map(|key| (escape(key), None)).collect();
    changes.extend(batch.puts.iter().map(|(key, value)| (escape(key), Some(value.clone()))));
    changes
}

impl Table for RadosTable {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.multi_get(&[key])?.pop().flatten())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let escaped: Vec<Vec<u8>> = keys.iter().map(|key| escape(key)).collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|at| &escaped[*at]);
        let mut sorted: Vec<&[u8]> = order.iter().map(|at| escaped[*at].as_slice()).collect();
        sorted.dedup();
        let mut found = self.shared.look_up(&sorted)?.into_iter().peekable();
        let mut values = vec![None; keys.len()];
        let mut before: Option<usize> = None;
        for at in order {
            values[at] = match before {
                Some(same) if escaped[same] == escaped[at] => values[same].clone(),
                _ => found.next_if(|(key, _)| *key == escaped[at]).map(|(_, value)| value),
            };
            before = Some(at);
        }
        Ok(values)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        if limit == 0 || (!end.is_empty() && start >= end) {
            return Ok(Vec::new());
        }
        let (mut at, end) = (escape(start), escape(end));
        let mut out = Vec::new();
        loop {
            let page = self.shared.page(&at, PAGE.min(limit - out.len()))?;
            for (key, value) in page.pairs {
                if out.len() == limit || (!end.is_empty() && key >= end) {
                    return Ok(out);
                }
                out.push((unescape("the table", &key)?, value));
            }
            match page.next {
                Some(next) if out.len() < limit && (end.is_empty() || next < end) => at = next,
                _ => return Ok(out),
            }
        }
    }

    fn write(&self, batch: &Batch, _durability: Durability) -> Result<()> {
        let changes = changes_of(batch);
        self.slot()?;
        batch::write(self, &changes)
    }

    fn write_rows(&self, batch: &Batch) -> Result<()> {
        self.slot()?;
        self.apply(&changes_of(batch))
    }

    fn flush(&self) -> Result<()> {
        // What has returned is on all copies.
        self.slot().map(drop)
    }

    fn approximate_size(&self) -> Result<TableSize> {
        let index = self.shared.index();
        let written = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut size = TableSize::default();
        for range in index.ranges.values() {
            let (keys, bytes) = written.get(&range.id).copied().unwrap_or_default();
            size.keys += range.keys + keys;
            size.bytes += range.bytes + bytes;
        }
        Ok(size)
    }
}
