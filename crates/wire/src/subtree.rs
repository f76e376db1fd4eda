//! Codec of the messages between clients and ranks about decoupled subtrees, with every check. The bytes stand in one field of a message;
//! records in them have the journal's codec, as between ranks. Drawn in `docs/formats/wire.md`.

use std::sync::Arc;

use loligo_journal::codec::DecodeError as Bad;
use loligo_journal::codec::parts::{Cursor, put_bytes, put_decoupled, put_inode, put_list, put_terms, put_u64};
use loligo_journal::codec::parts::{take_decoupled, take_inode, take_list, take_terms};
use loligo_types::limits::{CONFLICTS_TOLD_MAX, FETCH_MAX, MERGE_PART_MAX, NAME_MAX, SUBTREE_GRANTS_MAX};
use loligo_types::peer::Want;
use loligo_types::{Conflict, ConflictKind, Ino, Lease, MergeInto, RefusedBy, SplitRule};
use loligo_types::{StoredJournal, SubtreeAnswer, SubtreeOp};

use crate::DecodeError;
use crate::common::limit;
use crate::decoder::Payload;
use crate::link::record::{put_items, put_want, take_items, take_want};

/// The codes of what is asked. On the wire: keep stable, never reuse.
mod ask {
    pub const DECOUPLE: u8 = 1;
    pub const GRANT: u8 = 2;
    pub const FETCH: u8 = 3;
    pub const PART: u8 = 4;
    pub const MERGE: u8 = 5;
    pub const END: u8 = 6;
    pub const DATA: u8 = 7;
    pub const KEEP: u8 = 8;
    pub const TAKE_OVER: u8 = 9;
    pub const PART_BLIND: u8 = 10;
    pub const MERGE_INTO_TABLE: u8 = 11;
    pub const TAKE_OVER_NOW: u8 = 12;
    pub const OVERWRITE: u8 = 13;
    pub const HOLD_OPEN: u8 = 14;
    pub const HOLD_OPEN_FIRST: u8 = 15;
}

/// The codes of answers. On the wire: keep stable, never reuse.
mod answer {
    pub const DECOUPLED: u8 = 1;
    pub const RECORDS: u8 = 2;
    pub const MERGED: u8 = 3;
    pub const MERGED_OVER: u8 = 4;
    pub const REFUSED: u8 = 5;
    pub const FORKED: u8 = 6;
}

/// The payload behind the frame: the bytes of a part of a merge.
pub(crate) fn payload(what: &SubtreeOp) -> Option<&Arc<[u8]>> {
    match what {
        SubtreeOp::Part { body, .. } => Some(body),
        _ => None,
    }
}

pub(crate) fn encode(what: &SubtreeOp) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    let mut put = |code: u8, numbers: &[u64]| {
        out.push(code);
        numbers.iter().for_each(|number| put_u64(&mut out, *number));
    };
    match what {
        SubtreeOp::Decouple { owner, resume, inos, lease_ms, interfere, promise } => {
            put(ask::DECOUPLE, &[*owner, *resume, *inos, u64::from(*lease_ms)]);
            out.push(put_terms(*interfere, *promise));
        }
        SubtreeOp::TakeOver { owner, now } => put(if *now { ask::TAKE_OVER_NOW } else { ask::TAKE_OVER }, &[*owner]),
        SubtreeOp::Grant { epoch, inos } => put(ask::GRANT, &[*epoch, *inos]),
        SubtreeOp::Fetch { epoch, needs } => {
            put(ask::FETCH, &[*epoch]);
            put_list(&mut out, needs, |out, need| {
                put_want(out, &Want { need: need.clone(), recall: Lease::NONE, shown: false });
            });
        }
        SubtreeOp::Part { epoch, merge, part, blind, body: _ } => {
            put(if *blind { ask::PART_BLIND } else { ask::PART }, &[*epoch, *merge, u64::from(*part)]);
        }
        SubtreeOp::Merge { epoch, merge, parts, used, into } => {
            let code = match into {
                MergeInto::Memory => ask::MERGE,
                MergeInto::Table => ask::MERGE_INTO_TABLE,
            };
            put(code, &[*epoch, *merge, u64::from(*parts), used.0]);
        }
        SubtreeOp::Data { epoch, inos } | SubtreeOp::Overwrite { epoch, inos } => {
            let changes = matches!(what, SubtreeOp::Overwrite { .. });
            put(if changes { ask::OVERWRITE } else { ask::DATA }, &[*epoch]);
            put_list(&mut out, inos, |out, ino| put_u64(out, ino.0));
        }
        SubtreeOp::HoldOpen { epoch, first, inos } => {
            put(if *first { ask::HOLD_OPEN_FIRST } else { ask::HOLD_OPEN }, &[*epoch]);
            put_list(&mut out, inos, |out, ino| put_u64(out, ino.0));
        }
        SubtreeOp::Keep { epoch, journal } => put(ask::KEEP, &[*epoch, journal.ino.0, journal.bytes]),
        SubtreeOp::End { epoch } => put(ask::END, &[*epoch]),
    }
    out
}

pub(crate) fn decode(bytes: &[u8], payload: &mut Payload) -> Result<SubtreeOp, DecodeError> {
    let mut from = Cursor::new(bytes);
    let what = take(&mut from, payload)?;
    from.finish()?;
    match &what {
        SubtreeOp::Part { body, .. } => limit(body.len(), MERGE_PART_MAX, "bytes of a part of a merge")?,
        SubtreeOp::Data { inos, .. } | SubtreeOp::Overwrite { inos, .. } | SubtreeOp::HoldOpen { inos, .. } => {
            limit(inos.len(), FETCH_MAX, "files of a subtree")?
        }
        SubtreeOp::Fetch { needs, .. } => limit(needs.len(), FETCH_MAX, "records of a subtree")?,
        _ => {}
    }
    Ok(what)
}

fn take(from: &mut Cursor<'_>, payload: &mut Payload) -> Result<SubtreeOp, Bad> {
    Ok(match from.u8()? {
        ask::DECOUPLE => {
            let (owner, resume, inos, lease_ms) = (from.u64()?, from.u64()?, from.u64()?, from.u32()?);
            let (interfere, promise) = take_terms(from)?;
            SubtreeOp::Decouple { owner, resume, inos, lease_ms, interfere, promise }
        }
        code @ (ask::TAKE_OVER | ask::TAKE_OVER_NOW) => {
            SubtreeOp::TakeOver { owner: from.u64()?, now: code == ask::TAKE_OVER_NOW }
        }
        ask::GRANT => SubtreeOp::Grant { epoch: from.u64()?, inos: from.u64()? },
        ask::FETCH => {
            let epoch = from.u64()?;
            let wants = take_list(from, 3, "number of records", take_want)?;
            SubtreeOp::Fetch { epoch, needs: wants.into_iter().map(|want| want.need).collect() }
        }
        code @ (ask::PART | ask::PART_BLIND) => SubtreeOp::Part {
            epoch: from.u64()?,
            merge: from.u64()?,
            part: from.u32()?,
            blind: code == ask::PART_BLIND,
            body: payload.take(),
        },
        code @ (ask::MERGE | ask::MERGE_INTO_TABLE) => SubtreeOp::Merge {
            epoch: from.u64()?,
            merge: from.u64()?,
            parts: from.u32()?,
            used: Ino(from.u64()?),
            into: if code == ask::MERGE { MergeInto::Memory } else { MergeInto::Table },
        },
        code @ (ask::DATA | ask::OVERWRITE) => {
            let epoch = from.u64()?;
            let inos = take_list(from, 1, "numbers of files", |from| from.u64().map(Ino))?;
            if code == ask::DATA { SubtreeOp::Data { epoch, inos } } else { SubtreeOp::Overwrite { epoch, inos } }
        }
        code @ (ask::HOLD_OPEN | ask::HOLD_OPEN_FIRST) => SubtreeOp::HoldOpen {
            epoch: from.u64()?,
            first: code == ask::HOLD_OPEN_FIRST,
            inos: take_list(from, 1, "numbers of files", |from| from.u64().map(Ino))?,
        },
        ask::KEEP => {
            let epoch = from.u64()?;
            SubtreeOp::Keep { epoch, journal: StoredJournal { ino: Ino(from.u64()?), bytes: from.u64()? } }
        }
        ask::END => SubtreeOp::End { epoch: from.u64()? },
        _ => return Err(from.invalid("what is asked about a subtree")),
    })
}

pub(crate) fn encode_answer(answer: &SubtreeAnswer) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    match answer {
        SubtreeAnswer::Decoupled { record, root, inline_max, split } => {
            out.push(answer::DECOUPLED);
            put_u64(&mut out, record.dir.0);
            put_decoupled(&mut out, record);
            put_inode(&mut out, root);
            put_u64(&mut out, u64::from(*inline_max));
            put_u64(&mut out, split.split);
            put_u64(&mut out, split.merge);
            out.push(split.bits);
        }
        SubtreeAnswer::Records(items) => {
            out.push(answer::RECORDS);
            put_items(&mut out, items);
        }
        SubtreeAnswer::Forked { record, files } => {
            out.push(answer::FORKED);
            put_u64(&mut out, record.dir.0);
            put_decoupled(&mut out, record);
            put_list(&mut out, files, |out, inode| {
                put_u64(out, inode.ino.0);
                put_inode(out, inode);
            });
        }
        SubtreeAnswer::Merged { merges, conflicts: 0, .. } => {
            out.push(answer::MERGED);
            put_u64(&mut out, *merges);
        }
        SubtreeAnswer::Merged { merges, conflicts, told } => {
            out.push(answer::MERGED_OVER);
            put_u64(&mut out, *merges);
            put_u64(&mut out, *conflicts);
            put_list(&mut out, told, put_conflict);
        }
        SubtreeAnswer::Refused { by, dir } => {
            out.extend_from_slice(&[answer::REFUSED, *by as u8]);
            put_u64(&mut out, dir.0);
        }
    }
    out
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<SubtreeAnswer, DecodeError> {
    let mut from = Cursor::new(bytes);
    let answer = take_answer(&mut from)?;
    from.finish()?;
    match &answer {
        SubtreeAnswer::Decoupled { record, .. } | SubtreeAnswer::Forked { record, .. } => {
            limit(record.grants.len(), SUBTREE_GRANTS_MAX, "ranges of numbers")?;
        }
        SubtreeAnswer::Merged { told, .. } => limit(told.len(), CONFLICTS_TOLD_MAX, "conflicts of a merge")?,
        SubtreeAnswer::Records(_) | SubtreeAnswer::Refused { .. } => {}
    }
    Ok(answer)
}

fn take_answer(from: &mut Cursor<'_>) -> Result<SubtreeAnswer, Bad> {
    Ok(match from.u8()? {
        answer::DECOUPLED => {
            let dir = Ino(from.u64()?);
            SubtreeAnswer::Decoupled {
                record: take_decoupled(from, dir)?,
                root: Box::new(take_inode(from, dir)?),
                inline_max: from.u32()?,
                split: SplitRule { split: from.u64()?, merge: from.u64()?, bits: from.u8()? },
            }
        }
        answer::RECORDS => SubtreeAnswer::Records(take_items(from)?),
        answer::FORKED => {
            let dir = Ino(from.u64()?);
            let record = take_decoupled(from, dir)?;
            let files = take_list(from, 2, "number of files", |from| {
                let ino = Ino(from.u64()?);
                take_inode(from, ino)
            })?;
            SubtreeAnswer::Forked { record, files }
        }
        answer::MERGED => SubtreeAnswer::Merged { merges: from.u64()?, conflicts: 0, told: Vec::new() },
        answer::MERGED_OVER => {
            let (merges, conflicts) = (from.u64()?, from.u64()?);
            if conflicts == 0 {
                return Err(from.invalid("a number of conflicts"));
            }
            SubtreeAnswer::Merged { merges, conflicts, told: take_list(from, 4, "number of conflicts", take_conflict)? }
        }
        answer::REFUSED => {
            let code = from.u8()?;
            let by = RefusedBy::ALL.into_iter().find(|by| *by as u8 == code);
            SubtreeAnswer::Refused {
                by: by.ok_or_else(|| from.invalid("why a directory is not decoupled"))?,
                dir: Ino(from.u64()?),
            }
        }
        _ => return Err(from.invalid("an answer about a subtree")),
    })
}

fn put_conflict(out: &mut Vec<u8>, conflict: &Conflict) {
    out.push(conflict.kind as u8);
    put_u64(out, conflict.ino.0);
    for text in [&conflict.name, &conflict.kept] {
        put_bytes(out, text);
    }
}

fn take_conflict(from: &mut Cursor<'_>) -> Result<Conflict, Bad> {
    let code = from.u8()?;
    let kind = ConflictKind::ALL.into_iter().find(|kind| *kind as u8 == code);
    let kind = kind.ok_or_else(|| from.invalid("the kind of a conflict"))?;
    let ino = Ino(from.u64()?);
    let mut text = || -> Result<Box<[u8]>, Bad> {
        let bytes = from.bytes()?;
        if bytes.len() > NAME_MAX { Err(from.invalid("a name in a conflict")) } else { Ok(bytes.into()) }
    };
    Ok(Conflict { kind, ino, name: text()?, kept: text()? })
}
