//! The journals: that the lists of segments can be read, that a segment's objects are a row without a gap, of epochs that do not decrease,
//! and that no object is there that no list names. Not their records: [`Look`] gives the bytes to who knows these.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_rados::{Error, Pool, ReadOp};
use loligo_store::{CheckProgress, Finding, Result, Segment, Segments, StoreError, look};

use super::{EPOCH, FROM_A_COPY, Found, Head, RadosCheck, Tell, heads, pairs_of, shown};
use crate::error::store;
use crate::log::{AT_ONCE, GOING, PIECE, THERE};
use crate::{names, slots};

/// Remedy of missing pieces of a journal.
const LOST: &str =
    "what the table does not have of its records is lost: leave the pool as it is, and go back to a copy (loligo copy)";

/// Parses the name of an object of a journal: the rank, and of a piece the segment and its place there.
pub(super) fn parse(name: &str) -> Option<(u32, Option<(u64, u64)>)> {
    let mut parts = name.strip_prefix("journal.")?.split('.');
    let rank: u32 = parts.next()?.parse().ok()?;
    let Some(segment) = parts.next() else { return (names::log(rank) == name).then_some((rank, None)) };
    let (segment, piece) = (u64::from_str_radix(segment, 16).ok()?, u64::from_str_radix(parts.next()?, 16).ok()?);
    (names::segment(rank, segment, piece) == name).then_some((rank, Some((segment, piece))))
}

/// A list of segments: those that could be read, with their states, and what could not.
#[derive(Default)]
struct List {
    segments: BTreeMap<u64, u8>,
    findings: Vec<Finding>,
}

impl RadosCheck {
    pub(super) fn journals(&self, all: &[String], found: &mut Found, tell: Tell<'_>) -> Result<()> {
        // By rank and segment, the pieces that were listed.
        let mut listed: BTreeMap<u32, BTreeMap<u64, BTreeSet<u64>>> = BTreeMap::new();
        for (rank, piece) in all.iter().filter_map(|name| parse(name)) {
            let segments = listed.entry(rank).or_default();
            if let Some((segment, piece)) = piece {
                segments.entry(segment).or_default().insert(piece);
            }
        }
        // Behind the names of objects: a rank is in this list before it has any.
        found.add(look(|| Ok(self.ranks_listed()?.1))?);
        let (ranks, _) = self.ranks_listed()?;
        for rank in listed.keys().filter(|rank| !ranks.contains(rank)) {
            let text = format!(
                "rank {rank} has a journal, and object {} does not name it: fsck and copies leave it out",
                names::LOGS
            );
            found.add(vec![Finding::wrong(
                text,
                "a server that has this rank puts it down again: start one, and check again",
            )]);
        }
        for rank in ranks.union(&listed.keys().copied().collect()) {
            found.checked.count("journals", 1);
            let pieces = listed.remove(rank).unwrap_or_default();
            self.journal(*rank, &pieces, found, tell)?;
        }
        Ok(())
    }

    fn ranks_listed(&self) -> Result<(BTreeSet<u32>, Vec<Finding>)> {
        let (mut ranks, mut findings) = (BTreeSet::new(), Vec::new());
        for (key, value) in pairs_of(&self.pool, names::LOGS)?.unwrap_or_default() {
            let rank = std::str::from_utf8(&key).ok().filter(|key| key.len() == 8);
            match (rank.and_then(|key| u32::from_str_radix(key, 16).ok()), value.as_slice()) {
                (Some(rank), [THERE]) => _ = ranks.insert(rank),
                _ => {
                    let text = format!("object {}: {} was not written by this program", names::LOGS, shown(&key));
                    findings.push(Finding::wrong(text, FROM_A_COPY));
                }
            }
        }
        Ok((ranks, findings))
    }

    fn journal(
        &self,
        rank: u32,
        pieces: &BTreeMap<u64, BTreeSet<u64>>,
        found: &mut Found,
        tell: Tell<'_>,
    ) -> Result<()> {
        if let Some(Some(head)) = heads(&self.pool, [names::log(rank).as_str()].into_iter())?.pop() {
            found.epochs_of(&names::log(rank), &head);
        }
        found.add(look(|| Ok(list(&self.pool, rank)?.findings))?);
        // Behind the names of objects: a segment is in the list before it has any.
        let List { segments, .. } = list(&self.pool, rank)?;
        for (done, (id, state)) in segments.iter().enumerate() {
            tell(CheckProgress {
                stage: "checking journals",
                bytes: false,
                done: done as u64,
                total: segments.len() as u64,
            });
            let here = pieces.get(id).cloned().unwrap_or_default();
            if *state == GOING {
                let text = format!("segment {id} of the journal of rank {rank} is being removed");
                found.add(vec![Finding::note(
                    text,
                    "a server does that now, or the next one that owns the rank finishes it",
                )]);
                continue;
            }
            let mut last = Vec::new();
            found.add(look(|| {
                let (findings, heads) = self.segment(rank, *id, &here)?;
                last = heads;
                Ok(findings)
            })?);
            for (piece, head) in last.iter().enumerate() {
                found.epochs_of(&names::segment(rank, *id, piece as u64), head);
            }
            found.checked.count("segments", 1);
            found.checked.count("segment_objects", last.len() as u64);
            found.checked.count("segment_bytes", last.iter().map(|head| head.len).sum());
        }
        let oldest = segments.keys().next().copied();
        for (id, pieces) in pieces.iter().filter(|(id, _)| !segments.contains_key(id)) {
            found.add(look(|| self.unlisted(rank, *id, pieces, oldest))?);
        }
        Ok(())
    }

    /// One segment, of which these pieces were listed.
    fn segment(&self, rank: u32, id: u64, listed: &BTreeSet<u64>) -> Result<(Vec<Finding>, Vec<Head>)> {
        let what = format!("segment {id} of the journal of rank {rank}");
        let wrong = |text: String| Finding::wrong(format!("{what}: {text}"), LOST);
        if list(&self.pool, rank)?.segments.get(&id).is_none_or(|state| *state != THERE) {
            return Ok((Vec::new(), Vec::new()));
        }
        let row = row_of(&self.pool, rank, id)?;
        let mut findings = Vec::new();
        let mut beyond: Vec<u64> = listed.range(row.len() as u64..).copied().collect();
        if !beyond.is_empty() {
            // They may have been removed since.
            let names: Vec<String> = beyond.iter().map(|piece| names::segment(rank, id, *piece)).collect();
            let there = heads(&self.pool, names.iter().map(String::as_str))?;
            beyond = beyond.into_iter().zip(there).filter(|(_, head)| head.is_some()).map(|(piece, _)| piece).collect();
        }
        if let Some(last) = beyond.last() {
            let missing = names::segment(rank, id, row.len() as u64);
            findings
                .push(wrong(format!("object {missing} is missing, and {} is there", names::segment(rank, id, *last))));
        } else if row.is_empty() {
            // Its first object is made right behind its line in the list: one may be killed between.
            findings
                .push(Finding::note(format!("{what} has no object"), "its making was cut off: the next owner goes on"));
        }
        let xattr = format!("{EPOCH}{}", slots::of_rank(rank));
        let mut epoch = 0;
        for (piece, head) in row.iter().enumerate() {
            let name = names::segment(rank, id, piece as u64);
            if head.len > PIECE {
                findings.push(wrong(format!("object {name} has {} bytes, more than its {PIECE}", head.len)));
            }
            if head.len < PIECE && row[piece + 1..].iter().any(|next| next.len > 0) {
                findings.push(wrong(format!(
                    "object {name} has {} of {PIECE} bytes, and there are more behind it",
                    head.len
                )));
            }
            match head.xattr(&xattr) {
                None => findings.push(wrong(format!("object {name} does not know whose it is: it has no {xattr}"))),
                Some(its) if its < epoch => {
                    findings.push(wrong(format!("object {name} is of epoch {its}, and the one before it of {epoch}: who had the rank before could still write there")));
                }
                Some(its) => epoch = its,
            }
        }
        Ok((findings, row))
    }

    /// Pieces of a segment that is in no list.
    fn unlisted(&self, rank: u32, id: u64, pieces: &BTreeSet<u64>, oldest: Option<u64>) -> Result<Vec<Finding>> {
        if list(&self.pool, rank)?.segments.contains_key(&id) {
            return Ok(Vec::new());
        }
        let names: Vec<String> = pieces.iter().map(|piece| names::segment(rank, id, *piece)).collect();
        let there = heads(&self.pool, names.iter().map(String::as_str))?;
        let (count, bytes) = there.iter().flatten().fold((0, 0), |(count, bytes), head| (count + 1, bytes + head.len));
        if count == 0 {
            return Ok(Vec::new());
        }
        let text = format!(
            "{count} objects ({bytes} bytes), as {}, are of a segment that the journal of rank {rank} does not list",
            names[0]
        );
        Ok(vec![if oldest.is_some_and(|oldest| id < oldest) {
            Finding::wrong(
                format!("{text}: they are left of one that was removed"),
                "they only take room: stop the server, remove them with Ceph's rados rm, and check again",
            )
        } else {
            Finding::wrong(format!("{text}: its records are read by nobody"), LOST)
        }])
    }
}

/// The list of a rank's segments.
fn list(pool: &Pool, rank: u32) -> Result<List> {
    let mut out = List::default();
    for (key, value) in pairs_of(pool, &names::log(rank))?.unwrap_or_default() {
        let id = std::str::from_utf8(&key).ok().filter(|key| key.len() == 16);
        match (id.and_then(|key| u64::from_str_radix(key, 16).ok()), value.as_slice()) {
            (Some(id), [state @ (THERE | GOING)]) => _ = out.segments.insert(id, *state),
            _ => {
                let text = format!(
                    "object {}, the list of segments of rank {rank}: {} was not written by this program",
                    names::log(rank),
                    shown(&key)
                );
                out.findings.push(Finding::wrong(text, FROM_A_COPY));
            }
        }
    }
    Ok(out)
}

/// The pieces of a segment up to the first that is missing.
fn row_of(pool: &Pool, rank: u32, id: u64) -> Result<Vec<Head>> {
    let mut row = Vec::new();
    loop {
        let first = row.len() as u64;
        let names: Vec<String> = (first..first + AT_ONCE).map(|piece| names::segment(rank, id, piece)).collect();
        for head in heads(pool, names.iter().map(String::as_str))? {
            let Some(head) = head else { return Ok(row) };
            row.push(head);
        }
    }
}

/// A rank's journal for who only reads it: no further than it was when it was listed, so that what is being written is not seen half.
pub(super) struct Look {
    pool: Arc<Pool>,
    rank: u32,
    lens: BTreeMap<u64, u64>,
}

impl Look {
    pub(super) fn new(pool: Arc<Pool>, rank: u32) -> Look {
        Look { pool, rank, lens: BTreeMap::new() }
    }
}

impl Segments for Look {
    fn list(&mut self) -> Result<Vec<Segment>> {
        self.lens.clear();
        let there = list(&self.pool, self.rank)?.segments.into_iter().filter(|(_, state)| *state == THERE);
        // The newest one first: so of those before it at least what was there when it was begun is seen.
        for (id, _) in there.collect::<Vec<_>>().into_iter().rev() {
            let mut len = 0;
            for head in row_of(&self.pool, self.rank, id)? {
                len += head.len.min(PIECE);
                if head.len < PIECE {
                    break;
                }
            }
            self.lens.insert(id, len);
        }
        Ok(self.lens.iter().map(|(id, len)| Segment { id: *id, len: *len }).collect())
    }

    fn read_at(&mut self, id: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let end = self.lens.get(&id).copied().unwrap_or_default();
        let want = buf.len().min(end.saturating_sub(offset) as usize);
        let mut read = 0;
        while read < want {
            let at = offset + read as u64;
            let some = (want - read).min((PIECE - at % PIECE) as usize);
            let mut op = ReadOp::new().map_err(store)?;
            let step = op.read(at % PIECE, some);
            let name = names::segment(self.rank, id, at / PIECE);
            let brought = match op.run(&self.pool, &name) {
                Err(Error::NotFound { what }) => return Err(StoreError::NotFound { what }),
                brought => brought.map_err(store)?,
            };
            let data = brought.data(step).map_err(store)?;
            buf[read..read + data.len()].copy_from_slice(data);
            read += data.len();
            if data.len() < some {
                return Err(StoreError::NotFound { what: format!("the end of object {name}") });
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_journals_and_their_pieces_are_told_from_others() {
        assert_eq!(parse("journal.3"), Some((3, None)));
        assert_eq!(parse(&names::segment(3, 0x1f, 10)), Some((3, Some((0x1f, 10)))));
        for other in
            ["journals", "journal.", "journal.x", "journal.3.1", "journal.3.1.2", "journal.3.000000000000001f.0a"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
