//! The journals of all ranks, segment by segment and byte by byte. Not here: records; a torn tail is copied as it is.

use std::collections::BTreeMap;

use loligo_store::{Backend, LogReader, StoreError};

use super::{CopyError, CopyProgress, CopyResult, CopyStage, Sizes, Sum, Told, of_source, of_target};

/// Bytes read and written at a time.
const CHUNK: usize = 4 << 20;

/// Checksum of each segment, by rank and number.
pub(super) type Segments = BTreeMap<(u32, u64), Sum>;

fn name(rank: u32, id: u64) -> String {
    format!("segment {id} of the journal of rank {rank}")
}

/// Counts them.
pub(super) fn count(source: &dyn Backend, sizes: &mut Sizes) -> CopyResult<()> {
    for rank in source.ranks().map_err(of_source)? {
        for segment in source.log_dir(rank).and_then(|log| log.list()).map_err(of_source)? {
            sizes.segments += 1;
            sizes.segment_bytes += segment.len;
        }
    }
    Ok(())
}

/// Removes what there is.
pub(super) fn clear(target: &dyn Backend) -> CopyResult<()> {
    let clear = |rank| {
        let log = target.log_dir(rank)?;
        log.list()?.into_iter().try_for_each(|segment| log.delete(segment.id))
    };
    target.ranks().and_then(|ranks| ranks.into_iter().try_for_each(clear)).map_err(of_target)
}

/// Calls `see` with all bytes of a segment, in order.
fn read(
    reader: &dyn LogReader,
    buffer: &mut [u8],
    of: fn(StoreError) -> CopyError,
    mut see: impl FnMut(&[u8]) -> CopyResult<()>,
) -> CopyResult<()> {
    let mut offset = 0;
    loop {
        let got = reader.read_at(offset, buffer).map_err(of)?;
        see(&buffer[..got])?;
        offset += got as u64;
        if got < buffer.len() {
            return Ok(());
        }
    }
}

/// Copies all of them, durably.
pub(super) fn copy(source: &dyn Backend, target: &dyn Backend, total: u64, told: Told<'_>) -> CopyResult<Segments> {
    let mut segments = Segments::new();
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    for rank in source.ranks().map_err(of_source)? {
        let from = source.log_dir(rank).map_err(of_source)?;
        let to = target.log_dir(rank).map_err(of_target)?;
        // From here on the list of segments is this one's, also where there are none.
        target.own(rank).map_err(of_target)?;
        for segment in from.list().map_err(of_source)? {
            let reader = from.open(segment.id).map_err(of_source)?;
            let mut file = to.create(segment.id).map_err(of_target)?;
            let mut sum = Sum::default();
            read(&*reader, &mut buffer, of_source, |bytes| {
                sum.add(bytes);
                // Synced each time, so that not all of it waits in memory.
                file.append(bytes).and_then(|()| file.sync()).map_err(of_target)?;
                done += bytes.len() as u64;
                told(CopyProgress { stage: CopyStage::Journals, done, total });
                Ok(())
            })?;
            segments.insert((rank, segment.id), sum);
        }
        // All of it was synced there just now, also a tail that the source never synced: that is no loss if it turns out to be torn.
        to.set_synced(from.synced().map_err(of_source)?).map_err(of_target)?;
    }
    Ok(segments)
}

/// Reads them back.
pub(super) fn compare(target: &dyn Backend, copied: &Segments, told: Told<'_>) -> CopyResult<()> {
    let total = copied.values().map(|sum| sum.len).sum();
    let mut missing = copied.clone();
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    for rank in target.ranks().map_err(of_target)? {
        let log = target.log_dir(rank).map_err(of_target)?;
        for segment in log.list().map_err(of_target)? {
            let what = || name(rank, segment.id);
            let want = missing.remove(&(rank, segment.id));
            let want =
                want.ok_or_else(|| CopyError::Differs { what: what(), detail: "the source has none".to_string() })?;
            let mut have = Sum::default();
            read(&*log.open(segment.id).map_err(of_target)?, &mut buffer, of_target, |bytes| {
                have.add(bytes);
                done += bytes.len() as u64;
                told(CopyProgress { stage: CopyStage::JournalsBack, done, total });
                Ok(())
            })?;
            have.same(want, what)?;
        }
    }
    match missing.first_key_value() {
        Some(((rank, id), _)) => {
            Err(CopyError::Differs { what: name(*rank, *id), detail: "there is none".to_string() })
        }
        None => Ok(()),
    }
}
