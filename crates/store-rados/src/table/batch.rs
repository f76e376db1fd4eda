//! Batches over several ranges: the cluster changes one object at a time, so such a batch is put down in an object of its own first, and
//! taken away when all is done. Who owns the slot next does what is put down there again: rows are absolute, so that does no harm.

use std::sync::PoisonError;
use std::time::Duration;

use loligo_rados::{Error, Pool, ReadOp, WriteOp};
use loligo_store::{Result, StoreError};

use super::index::State;
use super::{Attempt, Changes, RadosTable, claim, cut, parts};
use crate::bytes::{Get, Put};
use crate::error::{corrupt, fenced, store};
use crate::names;
use crate::slots::Slot;

/// Version of what is put down.
const VERSION: u8 = 1;
/// Between attempts while the pool is full.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// Does all changes or none.
pub(super) fn write(table: &RadosTable, changes: &Changes) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let at_once = table.shared.until_true(|index| {
        let parts = parts(index, changes.iter());
        let [part] = &parts[..] else { return Ok(Attempt::Done(false)) };
        if part.range.state != State::Whole {
            cut::finish(&table.shared, part.begin)?;
            return Ok(Attempt::Old);
        }
        if !table.is_claimed(part.range.id) && !table.claim(part.range)? {
            return Ok(Attempt::Old);
        }
        let op = table.write_op(part.range, changes.iter())?;
        match op.run(&table.shared.pool, &names::range(part.range.id)) {
            Ok(_) => {
                table.shared.wrote(part.range.id, changes.iter());
                Ok(Attempt::Done(true))
            }
            Err(Error::Changed { .. } | Error::NotFound { .. }) => {
                table.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(&part.range.id);
                Ok(Attempt::Old)
            }
            Err(error) => Err(store(error)),
        }
    })?;
    if at_once {
        return cut::where_due(&table.shared, table.shared.keys_max);
    }
    let _one = table.batching.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = table.slot()?;
    put_down(&table.shared.pool, slot, &encode(changes))?;
    // From here on it is decided that all of it becomes true.
    let mut told = false;
    loop {
        match table.apply(changes).and_then(|()| put_down(&table.shared.pool, slot, &[])) {
            Ok(()) => return Ok(()),
            Err(StoreError::Full { .. }) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "the pool is full, and a change of the table is half done: it waits until there is space"
                    );
                }
                std::thread::sleep(FULL_PAUSE);
            }
            Err(error @ StoreError::Fenced { .. }) => return Err(error),
            Err(error) => return Err(StoreError::Lost { what: "the table".into(), cause: error.to_string() }),
        }
    }
}

/// Does what the owner before has put down and not taken away.
pub(super) fn redo(table: &RadosTable) -> Result<()> {
    let (pool, slot) = (&table.shared.pool, table.slot()?);
    let object = names::batch(&slot.name);
    claim(pool, &object, slot, None)?;
    let mut op = ReadOp::new().map_err(store)?;
    let stat = op.stat();
    let len = op.run(pool, &object).and_then(|brought| brought.stat(stat)).map_err(store)?.len;
    if len == 0 {
        return Ok(());
    }
    let mut op = ReadOp::new().map_err(store)?;
    let step = op.read(0, len as usize);
    let brought = op.run(pool, &object).map_err(store)?;
    let changes = decode(brought.data(step).map_err(store)?)?;
    tracing::info!(
        "a change of {} rows of the table, which the owner of {} had begun, is finished",
        changes.len(),
        slot.name
    );
    table.apply(&changes)?;
    put_down(pool, slot, &[])
}

fn put_down(pool: &Pool, slot: &Slot, bytes: &[u8]) -> Result<()> {
    let mut op = WriteOp::new().map_err(store)?;
    op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?.write_full(bytes);
    match op.run(pool, &names::batch(&slot.name)) {
        Ok(_) => Ok(()),
        Err(Error::Changed { .. }) => Err(fenced(&slot.name)),
        Err(error) => Err(store(error)),
    }
}

fn encode(changes: &Changes) -> Vec<u8> {
    let mut put = Put::new(VERSION).u32(u32::try_from(changes.len()).expect("a batch fits in memory"));
    for (key, value) in changes {
        put = put.bytes(key);
        put = match value {
            Some(value) => put.u8(1).bytes(value),
            None => put.u8(0),
        };
    }
    let sum = crc32c::crc32c(&put.0);
    put.u32(sum).0
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Changes> {
    let place = "a batch of the table";
    let (body, sum) = bytes.split_at(bytes.len().saturating_sub(4));
    if sum != crc32c::crc32c(body).to_le_bytes() {
        return Err(corrupt(place, "its checksum is another"));
    }
    let mut get = Get::new(place, body, VERSION)?;
    let mut changes = Changes::new();
    for _ in 0..get.u32()? {
        let key = get.bytes()?.to_vec();
        let value = if get.u8()? == 1 { Some(get.bytes()?.to_vec()) } else { None };
        changes.insert(key, value);
    }
    get.end()?;
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_batch_are_fixed_and_damage_is_seen() {
        let changes = Changes::from([(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)]);
        let bytes = encode(&changes);
        let hex: String = bytes[..bytes.len() - 4].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "01020000000100000061010100000031010000006200");
        assert_eq!(decode(&bytes), Ok(changes));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
        assert!(decode(&bytes[..3]).is_err());
    }
}
