//! File data: an object for each piece. What a call has done is durable when it returns, and what is read was checked by the cluster.
//!
//! The cluster cannot say which objects begin with an inode's number. So a file with more than its first piece has an object that says below
//! which index all of its pieces are; it is raised, to powers of two, before a piece beyond is made.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use loligo_rados::{Error, Pool, ReadOp, WriteOp};
use loligo_store::{BLOCK_SIZE, Blobs, Extent, ObjectId, Result, StoreError};

use crate::error::{corrupt, store};
use crate::names;
use crate::slots::Slots;

/// The largest piece, bytes: the cluster takes objects up to 128 MiB (`osd_max_object_size`).
pub(crate) const PIECE_MAX: u64 = 64 << 20;
/// The xattr with the index below which all pieces are.
pub(crate) const UPTO: &str = "upto";
/// Files of which that is remembered.
const KNOWN_MAX: usize = 1 << 16;
/// Operations under way at a time when many objects are looked at.
const AT_ONCE: u64 = 64;
/// Indexes that are looked at one by one; beyond that all objects of the pool are listed.
const LOOK_MAX: u64 = 1 << 20;
/// Bytes read at a time when holes are looked for.
const LOOK_BYTES: u64 = 4 << 20;

pub(crate) struct RadosBlobs {
    pool: Arc<Pool>,
    /// By inode, the index below which all pieces are.
    upto: Mutex<HashMap<u64, u64>>,
    /// Of a server: what it owns is owned as long as this is open.
    _slots: Option<Arc<Slots>>,
}

/// Nothing where there is no object.
fn absent<T>(done: loligo_rados::Result<T>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store(error)),
    }
}

fn check_range(id: ObjectId, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= PIECE_MAX => Ok(()),
        _ => Err(StoreError::Io {
            what: format!("{id}, range of {len} bytes at {offset}"),
            cause: format!("an object holds at most {PIECE_MAX} bytes"),
        }),
    }
}

impl RadosBlobs {
    /// `pool`: nothing but file data is in it.
    pub(crate) fn new(pool: Arc<Pool>, slots: Option<Arc<Slots>>) -> RadosBlobs {
        RadosBlobs { pool, upto: Mutex::default(), _slots: slots }
    }

    fn run(&self, id: ObjectId, fill: impl FnOnce(&mut WriteOp)) -> Result<()> {
        let mut op = WriteOp::new().map_err(store)?;
        fill(&mut op);
        op.run(&self.pool, &names::object(id)).map(drop).map_err(store)
    }

    fn remember(&self, ino: u64, upto: u64) {
        let mut known = self.upto.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(ino, upto);
    }

    /// The index below which all pieces are, and whether an object says so.
    fn read_upto(&self, ino: u64) -> Result<(u64, bool)> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.xattrs();
        let xattrs = absent(op.run(&self.pool, &names::pieces(ino)).and_then(|brought| brought.xattrs(step)))?;
        let value = xattrs.into_iter().flatten().find(|(name, _)| name == UPTO).map(|(_, value)| value);
        let Some(value) = value else { return Ok((1, false)) };
        let bytes = value.as_slice().try_into();
        let bytes = bytes.map_err(|_| corrupt(format!("object {}", names::pieces(ino)), "a number has not 8 bytes"))?;
        Ok((u64::from_le_bytes(bytes), true))
    }

    /// Sees to it that the piece is found when all are looked for.
    fn announce(&self, id: ObjectId) -> Result<()> {
        let is_known = || {
            self.upto.lock().unwrap_or_else(PoisonError::into_inner).get(&id.ino).is_some_and(|upto| id.index < *upto)
        };
        if id.index == 0 || is_known() {
            return Ok(());
        }
        loop {
            let (mut upto, is_there) = self.read_upto(id.ino)?;
            if upto <= id.index {
                let before = upto.to_le_bytes();
                upto = id.index.checked_add(1).and_then(u64::checked_next_power_of_two).unwrap_or(u64::MAX);
                let mut op = WriteOp::new().map_err(store)?;
                if is_there {
                    op.assert_xattr(UPTO, &before).map_err(store)?;
                } else {
                    op.create_exclusive();
                }
                op.set_xattr(UPTO, &upto.to_le_bytes()).map_err(store)?;
                match op.run(&self.pool, &names::pieces(id.ino)) {
                    Ok(_) => {}
                    Err(Error::Changed { .. } | Error::Exists { .. } | Error::NotFound { .. }) => continue,
                    Err(error) => return Err(store(error)),
                }
            }
            self.remember(id.ino, upto);
            return Ok(());
        }
    }

    /// Those of these pieces that are there, with their lengths.
    fn stat_all(&self, ids: impl Iterator<Item = ObjectId>) -> Result<Vec<(ObjectId, u64)>> {
        let mut begun = Vec::new();
        for id in ids {
            let mut op = ReadOp::new().map_err(store)?;
            op.stat();
            begun.push((id, op.begin(&self.pool, &names::object(id)).map_err(store)?));
        }
        let mut found = Vec::new();
        for (id, reading) in begun {
            if let Some(stat) = absent(reading.wait().and_then(|brought| brought.stat(0)))? {
                found.push((id, stat.len));
            }
        }
        Ok(found)
    }

    fn list_names(&self, visit: &mut dyn FnMut(ObjectId) -> ControlFlow<()>) -> Result<()> {
        let each = &mut |name: &str| names::parse_object(name).map_or(ControlFlow::Continue(()), &mut *visit);
        self.pool.list(each).map_err(store)
    }
}

impl Blobs for RadosBlobs {
    fn max_len(&self) -> u64 {
        PIECE_MAX
    }

    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.read(offset, buf.len());
        let Some(brought) = absent(op.run(&self.pool, &names::object(id)))? else { return Ok(0) };
        let data = brought.data(step).map_err(store)?;
        buf[..data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        self.announce(id)?;
        self.run(id, |op| _ = op.write(offset, data))
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<()> {
        check_range(id, len, 0)?;
        if len == 0 && self.len(id)?.is_none() {
            return Ok(());
        }
        self.announce(id)?;
        self.run(id, |op| _ = op.create().truncate(len))
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        let end = offset.checked_add(len);
        let end = end.ok_or_else(|| check_range(id, offset, len).expect_err("it is beyond any object"))?;
        match self.len(id)? {
            Some(size) if offset >= size || len == 0 => Ok(()),
            // Zeros up to the end would make the object shorter.
            Some(size) if end >= size => self.run(id, |op| _ = op.truncate(offset).truncate(size)),
            Some(_) => self.run(id, |op| _ = op.zero(offset, len)),
            None => Ok(()),
        }
    }

    fn sync(&self, _id: ObjectId) -> Result<()> {
        Ok(())
    }

    fn sync_many(&self, _ino: u64, _indexes: &[u64]) -> Result<()> {
        Ok(())
    }

    fn sync_removals(&self, _ino: u64) -> Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn delete(&self, id: ObjectId) -> Result<()> {
        let mut op = WriteOp::new().map_err(store)?;
        op.remove();
        absent(op.run(&self.pool, &names::object(id))).map(drop)
    }

    fn delete_all(&self, ino: u64) -> Result<bool> {
        let indexes = self.objects_of(ino)?;
        for some in indexes.chunks(AT_ONCE as usize) {
            let remove = |index: &u64| {
                let mut op = WriteOp::new().map_err(store)?;
                op.remove();
                op.begin(&self.pool, &names::object(ObjectId::new(ino, *index))).map_err(store)
            };
            let begun: Vec<_> = some.iter().map(remove).collect::<Result<_>>()?;
            begun.into_iter().try_for_each(|pending| absent(pending.wait()).map(drop))?;
        }
        self.upto.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino);
        if self.read_upto(ino)?.1 {
            let mut op = WriteOp::new().map_err(store)?;
            op.remove();
            absent(op.run(&self.pool, &names::pieces(ino)))?;
        }
        Ok(!indexes.is_empty())
    }

    fn forget(&self, ino: u64) {
        self.upto.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino);
    }

    fn len(&self, id: ObjectId) -> Result<Option<u64>> {
        Ok(self.stat_all([id].into_iter())?.first().map(|(_, len)| *len))
    }

    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>> {
        let Some(size) = self.len(id)? else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(size);
        let mut out: Vec<Extent> = Vec::new();
        // Blocks are read and judged as wholes, or the answer for a byte would depend on where the range begins and ends.
        let mut at = offset - offset % BLOCK_SIZE;
        while at < end && offset < end {
            let upto = (at + LOOK_BYTES).min(end.next_multiple_of(BLOCK_SIZE)).min(size);
            let mut bytes = vec![0; (upto - at) as usize];
            let got = self.read_at(id, at, &mut bytes)?;
            if got == 0 {
                break;
            }
            for block in bytes[..got].chunks(BLOCK_SIZE as usize) {
                let (from, to) = (at.max(offset), (at + block.len() as u64).min(end));
                at += block.len() as u64;
                // It may have become shorter meanwhile.
                if from >= to || block.iter().all(|byte| *byte == 0) {
                    continue;
                }
                match out.last_mut() {
                    Some(last) if last.end() == from => last.len += to - from,
                    _ => out.push(Extent { offset: from, len: to - from }),
                }
            }
        }
        Ok(out)
    }

    fn objects_of(&self, ino: u64) -> Result<Vec<u64>> {
        let (upto, _) = self.read_upto(ino)?;
        let mut indexes = Vec::new();
        if upto > LOOK_MAX {
            let mut each = |id: ObjectId| {
                indexes.extend((id.ino == ino).then_some(id.index));
                ControlFlow::Continue(())
            };
            self.list_names(&mut each)?;
            indexes.sort_unstable();
            return Ok(indexes);
        }
        for first in (0..upto).step_by(AT_ONCE as usize) {
            let some = (first..upto.min(first + AT_ONCE)).map(|index| ObjectId::new(ino, index));
            indexes.extend(self.stat_all(some)?.into_iter().map(|(id, _)| id.index));
        }
        Ok(indexes)
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()> {
        let mut some = Vec::new();
        let mut end = Ok(ControlFlow::Continue(()));
        let mut tell = |some: &mut Vec<ObjectId>| -> Result<ControlFlow<()>> {
            for (id, len) in self.stat_all(some.drain(..))? {
                if visit(id, len).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        let mut each = |id: ObjectId| {
            some.push(id);
            if (some.len() as u64) < AT_ONCE {
                return ControlFlow::Continue(());
            }
            end = tell(&mut some);
            if matches!(end, Ok(ControlFlow::Continue(()))) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        self.list_names(&mut each)?;
        match end? {
            ControlFlow::Continue(()) => tell(&mut some).map(drop),
            ControlFlow::Break(()) => Ok(()),
        }
    }
}
