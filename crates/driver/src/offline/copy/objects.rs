//! The objects with file data: several at a time, in bounded memory. What a copy that was cut off has put there is kept if it is right.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use loligo_store::{BLOCK_SIZE, Backend, Blobs, Extent, MAX_OBJECT_LEN, ObjectId, StoreError};

use super::{CopyError, CopyProgress, CopyResult, CopyStage, Sizes, Sum, Told, of_source, of_target};

/// Bytes read and written at a time.
const WINDOW: usize = 4 << 20;
/// Objects that are worked on at a time, and the threads that do it.
const AT_ONCE: usize = 4;
/// Objects that are listed ahead of that.
const AHEAD: usize = 256;
/// Objects whose checksums are remembered until they are compared; those of others are made from the source once more.
const SUMS_MAX: usize = 1 << 20;
/// Objects of no file of the source that are removed at a time.
const STALE_MAX: usize = 1 << 16;

/// All objects.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) objects: u64,
    /// Holes counted.
    pub(super) bytes: u64,
    /// Those that were there already.
    pub(super) kept: u64,
    /// Checksums of the first of them.
    sums: HashMap<ObjectId, Sum>,
}

/// Counts them. Fails if one is lost: a copy would have a hole there.
pub(super) fn count(blobs: &dyn Blobs, sizes: &mut Sizes, told: Told<'_>) -> CopyResult<()> {
    let listed = blobs.list(&mut |id, len| {
        sizes.objects += 1;
        sizes.object_bytes += len;
        if sizes.longest.is_none_or(|(_, longest)| len > longest) {
            sizes.longest = Some((id, len));
        }
        told(CopyProgress { stage: CopyStage::Looking, done: sizes.objects, total: 0 });
        ControlFlow::Continue(())
    });
    listed.map_err(of_source)?;
    let mut lost = None;
    let looked = blobs.lost(&mut |id, why| {
        let place = id.map_or_else(|| "file data".to_owned(), |id| id.to_string());
        lost.get_or_insert_with(|| StoreError::Corrupt { place, detail: why.to_owned() });
    });
    looked.map_err(of_source)?;
    lost.map_or(Ok(()), |error| Err(of_source(error)))
}

/// Removes those that the source does not have (any more).
pub(super) fn clear(source: &dyn Backend, target: &dyn Backend, told: Told<'_>) -> CopyResult<()> {
    let (from, to) = (source.blobs(), target.blobs());
    let mut done = 0;
    loop {
        let (mut stale, mut failed) = (Vec::new(), None);
        let listed = to.list(&mut |id, _| {
            match from.len(id) {
                Ok(None) => stale.push(id),
                Ok(Some(_)) => {}
                Err(error) => failed = Some(error),
            }
            let enough = failed.is_some() || stale.len() == STALE_MAX;
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        listed.map_err(of_target)?;
        failed.map_or(Ok(()), Err).map_err(of_source)?;
        if stale.is_empty() {
            return Ok(());
        }
        for id in stale {
            if from.objects_of(id.ino).map_err(of_source)?.is_empty() {
                to.delete_all(id.ino).map_err(of_target)?;
            } else {
                to.delete(id).map_err(of_target)?;
            }
            done += 1;
            told(CopyProgress { stage: CopyStage::Clearing, done, total: 0 });
        }
    }
}

/// Does something with all objects of a store, several at a time. `work` gets a buffer of its own, and tells the bytes that are done.
/// The first error ends it.
fn each(
    blobs: &dyn Blobs,
    of: fn(StoreError) -> CopyError,
    work: impl Fn(ObjectId, &mut [u8], &dyn Fn(usize)) -> CopyResult<()> + Sync,
    mut progress: impl FnMut(u64),
) -> CopyResult<()> {
    let (send, receive) = sync_channel::<ObjectId>(AHEAD);
    let receive = Arc::new(Mutex::new(receive));
    let (tell, told) = channel::<usize>();
    let (is_over, failed) = (AtomicBool::new(false), Mutex::new(None));
    let fail = |error| {
        is_over.store(true, Ordering::Relaxed);
        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    std::thread::scope(|scope| {
        let (is_over, fail, work) = (&is_over, &fail, &work);
        scope.spawn(move || {
            let listed = blobs.list(&mut |id, _| {
                if is_over.load(Ordering::Relaxed) || send.send(id).is_err() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            listed.map_err(of).unwrap_or_else(fail);
        });
        for _ in 0..AT_ONCE {
            let (receive, tell) = (receive.clone(), tell.clone());
            scope.spawn(move || {
                let mut buffer = vec![0; WINDOW];
                let next = || receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(id) = next() {
                    // What is listed already is taken, so that the list comes to its end, too.
                    if !is_over.load(Ordering::Relaxed) {
                        // Nobody hears it only where all is over.
                        work(id, &mut buffer, &|bytes| _ = tell.send(bytes)).unwrap_or_else(fail);
                    }
                }
            });
        }
        // Of the workers alone: where none is left, neither end waits for the other.
        drop((receive, tell));
        let mut done = 0;
        for bytes in told {
            done += bytes as u64;
            progress(done);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Calls `see` with all of an object: where, and the bytes there, holes as zeros.
fn read(
    blobs: &dyn Blobs,
    id: ObjectId,
    buffer: &mut [u8],
    of: fn(StoreError) -> CopyError,
    mut see: impl FnMut(u64, &[u8]) -> CopyResult<()>,
) -> CopyResult<()> {
    let mut offset = 0;
    loop {
        let want = buffer.len().min((MAX_OBJECT_LEN - offset) as usize);
        if want == 0 {
            return Ok(());
        }
        let got = blobs.read_at(id, offset, &mut buffer[..want]).map_err(of)?;
        // An object may end with a window.
        if got > 0 {
            see(offset, &buffer[..got])?;
        }
        offset += got as u64;
        if got < want {
            return Ok(());
        }
    }
}

fn sum(
    blobs: &dyn Blobs,
    id: ObjectId,
    buffer: &mut [u8],
    of: fn(StoreError) -> CopyError,
    tell: &dyn Fn(usize),
) -> CopyResult<Sum> {
    let mut sum = Sum::default();
    read(blobs, id, buffer, of, |_, bytes| {
        sum.add(bytes);
        tell(bytes.len());
        Ok(())
    })?;
    Ok(sum)
}

/// The parts of a window that hold data. Where no block is all zeros there is no hole, and nobody need be asked.
fn data(from: &dyn Blobs, id: ObjectId, offset: u64, bytes: &[u8]) -> Result<Vec<Extent>, StoreError> {
    let may_be_hole = bytes.chunks(BLOCK_SIZE as usize).any(|block| block.iter().all(|byte| *byte == 0));
    if may_be_hole {
        return from.extents(id, offset, bytes.len() as u64);
    }
    Ok(vec![Extent { offset, len: bytes.len() as u64 }])
}

/// Copies one. Holes stay holes.
fn copy_one(
    from: &dyn Blobs,
    to: &dyn Blobs,
    id: ObjectId,
    buffer: &mut [u8],
    tell: &dyn Fn(usize),
) -> CopyResult<Sum> {
    let mut sum = Sum::default();
    let mut end = 0;
    read(from, id, buffer, of_source, |offset, bytes| {
        for part in data(from, id, offset, bytes).map_err(of_source)? {
            let at = (part.offset - offset) as usize;
            to.write_at(id, part.offset, &bytes[at..at + part.len as usize]).map_err(of_target)?;
            end = part.end();
        }
        sum.add(bytes);
        tell(bytes.len());
        Ok(())
    })?;
    if end < sum.len || sum.len == 0 {
        // One without a byte is made as one that has had some.
        to.truncate(id, sum.len.max(1)).map_err(of_target)?;
    }
    if sum.len == 0 {
        to.truncate(id, 0).map_err(of_target)?;
    }
    Ok(sum)
}

/// Copies all of them, durably. `again`: some may be there already.
pub(super) fn copy(
    source: &dyn Backend,
    target: &dyn Backend,
    sizes: &Sizes,
    again: bool,
    told: Told<'_>,
) -> CopyResult<Objects> {
    let (from, to) = (source.blobs(), target.blobs());
    let copied = Mutex::new(Objects::default());
    let work = |id: ObjectId, buffer: &mut [u8], tell: &dyn Fn(usize)| {
        let mut kept = None;
        if again && let Some(len) = to.len(id).map_err(of_target)? {
            if from.len(id).map_err(of_source)? == Some(len) {
                let want = sum(&*from, id, buffer, of_source, &|_| ())?;
                // One that cannot be read is no better than none.
                kept = sum(&*to, id, buffer, of_target, &|_| ()).ok().filter(|have| *have == want);
            }
            if kept.is_none() {
                to.delete(id).map_err(of_target)?;
            }
        }
        let is_kept = kept.is_some();
        let sum = match kept {
            Some(sum) => {
                tell(sum.len as usize);
                sum
            }
            None => copy_one(&*from, &*to, id, buffer, tell)?,
        };
        let mut copied = copied.lock().unwrap_or_else(PoisonError::into_inner);
        copied.objects += 1;
        copied.bytes += sum.len;
        copied.kept += u64::from(is_kept);
        if copied.sums.len() < SUMS_MAX {
            copied.sums.insert(id, sum);
        }
        Ok(())
    };
    let progress = |done| told(CopyProgress { stage: CopyStage::Objects, done, total: sizes.object_bytes });
    each(&*from, of_source, work, progress)?;
    to.sync_all().map_err(of_target)?;
    Ok(copied.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Reads them back.
pub(super) fn compare(source: &dyn Backend, target: &dyn Backend, copied: &Objects, told: Told<'_>) -> CopyResult<()> {
    let (from, to) = (source.blobs(), target.blobs());
    let compared = AtomicU64::new(0);
    let work = |id: ObjectId, buffer: &mut [u8], tell: &dyn Fn(usize)| {
        let want = match copied.sums.get(&id) {
            Some(sum) => *sum,
            None => sum(&*from, id, buffer, of_source, &|_| ())?,
        };
        sum(&*to, id, buffer, of_target, tell)?.same(want, || id.to_string())?;
        compared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    each(&*from, of_source, work, |done| {
        told(CopyProgress { stage: CopyStage::ObjectsBack, done, total: copied.bytes })
    })?;
    let mut there = 0;
    let counted = to.list(&mut |_, _| {
        there += 1;
        ControlFlow::Continue(())
    });
    counted.map_err(of_target)?;
    if [compared.into_inner(), there] == [copied.objects; 2] {
        return Ok(());
    }
    let detail = format!("there are {there} objects instead of {}", copied.objects);
    Err(CopyError::Differs { what: "the file data".to_string(), detail })
}
