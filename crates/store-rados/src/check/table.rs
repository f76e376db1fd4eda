//! The table: that its index names each range once, that each range's object is there and of that generation, and has only keys that are
//! its own; and that what was put down of batches can still be finished.

use std::collections::{BTreeMap, BTreeSet};

use loligo_rados::{Error, ReadOp};
use loligo_store::{CheckProgress, Finding, Result, look};

use super::{FROM_A_COPY, Found, Head, PAGE, RadosCheck, SlotRecords, Tell, detail, heads, pairs_of, shown};
use crate::bytes::unescape;
use crate::error::{corrupt, store};
use crate::names;
use crate::table::{BEGIN, GENERATION, Index, NEXT, Range, State, decode_batch};

/// Keys in a range from which on it is noted as too large: twice what it is cut at.
const LARGE: u64 = 200_000;
/// Without what was lost no server starts.
const LOST: &str = "the rows that were in it are lost: leave the pool as it is, and go back to a copy (loligo copy) or a dump (loligo load)";

/// The range that an object is, by its name.
pub(super) fn parse(name: &str) -> Option<u64> {
    let id = u64::from_str_radix(name.strip_prefix("table.")?, 16).ok()?;
    (names::range(id) == name).then_some(id)
}

/// The index, as far as it can be read.
#[derive(Default)]
struct Read {
    index: Index,
    findings: Vec<Finding>,
    /// All records could be read: what they do not name is named by none.
    is_whole: bool,
}

/// Content of an object.
struct Content {
    head: Head,
    keys: u64,
    bytes: u64,
    findings: Vec<Finding>,
}

/// Findings about a range, its object, and the content of that.
type RangeSeen = (Vec<Finding>, Option<(String, Content)>);

impl RadosCheck {
    pub(super) fn table(&self, all: &[String], found: &mut Found, tell: Tell<'_>) -> Result<()> {
        found.add(look(|| Ok(self.index()?.findings))?);
        let (mut seen, mut empty) = (BTreeSet::new(), 0);
        loop {
            // Cuts add ranges while it looks.
            let read = self.index()?;
            let new: Vec<Vec<u8>> = read.index.ranges.keys().filter(|begin| !seen.contains(*begin)).cloned().collect();
            if new.is_empty() {
                self.unnamed(all, &read, found)?;
                break;
            }
            for begin in new {
                tell(CheckProgress {
                    stage: "checking the table",
                    bytes: false,
                    done: seen.len() as u64,
                    total: read.index.ranges.len() as u64,
                });
                let mut last = None;
                let mut index = Some(&read.index);
                let findings = look(|| {
                    let again;
                    let index = match index.take() {
                        Some(index) => index,
                        None => {
                            again = self.index()?.index;
                            &again
                        }
                    };
                    let (findings, content) = self.range(index, &begin)?;
                    last = content;
                    Ok(findings)
                })?;
                found.add(findings);
                if let Some((object, content)) = last {
                    found.epochs_of(&object, &content.head);
                    found.checked.count("rows", content.keys);
                    found.checked.count("row_bytes", content.bytes);
                    empty += u64::from(content.keys == 0);
                }
                found.checked.count("ranges", 1);
                seen.insert(begin);
            }
        }
        if empty > 0 && seen.len() > 1 {
            found.add(vec![Finding::note(format!("{empty} of {} ranges of the table are empty", seen.len()), "")]);
        }
        Ok(())
    }

    /// Reads the index record by record: one that cannot be read does not hide the others.
    fn index(&self) -> Result<Read> {
        let mut read = Read { is_whole: true, ..Read::default() };
        let wrong = |text: String| Finding::wrong(text, LOST);
        let Some(pairs) = pairs_of(&self.pool, names::INDEX)? else {
            let text = format!("object {}, the index of the table, is missing", names::INDEX);
            return Ok(Read { findings: vec![wrong(text)], ..Read::default() });
        };
        let mut next = None;
        for (key, value) in pairs {
            match key.split_first() {
                Some((&BEGIN, begin)) => match Range::decode(&value) {
                    Ok(range) => _ = read.index.ranges.insert(begin.to_vec(), range),
                    Err(error) => {
                        read.is_whole = false;
                        read.findings.push(wrong(format!(
                            "the range of the table that begins with {}: {}",
                            shown(begin),
                            detail(&error)
                        )));
                    }
                },
                _ if key == NEXT => next = value.as_slice().try_into().ok().map(u64::from_le_bytes),
                _ => read.findings.push(wrong(format!(
                    "the index of the table has {}, which was not written by this program",
                    shown(&key)
                ))),
            }
        }
        if read.index.ranges.first_key_value().is_none_or(|(begin, _)| !begin.is_empty()) {
            read.findings.push(wrong("the index of the table: no range begins with the first key".into()));
        }
        let mut named: BTreeMap<u64, &[u8]> = BTreeMap::new();
        for (begin, range) in &read.index.ranges {
            let mut ids = vec![range.id];
            if let State::Cutting { to, at } = &range.state {
                ids.push(*to);
                let end = read.index.end_of(begin);
                if at <= begin || end.is_some_and(|end| at >= end) {
                    read.findings.push(wrong(format!(
                        "range {:x} of the table is being cut at {}, which is none of its own",
                        range.id,
                        shown(at)
                    )));
                }
            }
            for id in ids {
                if let Some(other) = named.insert(id, begin) {
                    let places = format!("at {} and at {}", shown(other), shown(begin));
                    read.findings.push(wrong(format!("range {id:x} of the table stands twice in its index, {places}")));
                }
                if next.is_none_or(|next| id >= next) {
                    let next = next.map_or("none".to_string(), |next| format!("{next:x}"));
                    read.findings.push(wrong(format!(
                        "range {id:x} of the table is beyond the number of the next one, which is {next}"
                    )));
                }
            }
        }
        read.index.next = next.unwrap_or_default();
        Ok(read)
    }

    /// One range, as an index has it.
    fn range(&self, index: &Index, begin: &[u8]) -> Result<RangeSeen> {
        let Some(range) = index.ranges.get(begin) else { return Ok((Vec::new(), None)) };
        let object = names::range(range.id);
        let end = index.end_of(begin).map(Vec::as_slice);
        let Some(mut content) = self.content(&object, begin, end)? else {
            let text = format!("object {object}, the range of the table from {} on, is missing", shown(begin));
            return Ok((vec![Finding::wrong(text, LOST)], None));
        };
        let mut findings = std::mem::take(&mut content.findings);
        let is = content.head.xattr(GENERATION);
        let says = range.generation;
        match (&range.state, is) {
            (State::Whole, Some(is)) if is == says => {}
            (State::Cutting { to, at }, Some(is)) if says.saturating_sub(1) <= is && is <= says.saturating_add(1) => {
                let (to, is_cut) = (names::range(*to), is > says);
                findings.push(Finding::note(
                    format!("range {:x} of the table is being cut in two, into {to}", range.id),
                    "a server does that now, or the next one that writes there finishes it",
                ));
                findings.extend(self.right_half(&to, at, end, is >= says, is_cut)?);
            }
            (_, is) => {
                let is = is.map_or("none".into(), |is| is.to_string());
                findings.push(Finding::wrong(format!("object {object} has generation {is}, and the index of the table says {says}: no row of it can be read"), FROM_A_COPY));
            }
        }
        if content.keys > LARGE {
            findings.push(Finding::note(
                format!("range {:x} of the table has {} keys (noted: {})", range.id, content.keys, range.keys),
                "servers cut it when they have written more to it",
            ));
        }
        Ok((findings, Some((object, content))))
    }

    /// The new half of a range that is being cut.
    fn right_half(
        &self,
        object: &str,
        at: &[u8],
        end: Option<&[u8]>,
        may_be: bool,
        is_cut: bool,
    ) -> Result<Vec<Finding>> {
        let Some(half) = self.content(object, at, end)? else {
            let text = format!("object {object}, into which a range of the table was cut, is missing");
            return Ok(if is_cut { vec![Finding::wrong(text, LOST)] } else { Vec::new() });
        };
        let mut findings = half.findings;
        match half.head.xattr(GENERATION) {
            Some(1) if may_be => {}
            Some(0) if may_be && !is_cut => {}
            other => {
                let other = other.map_or("none".into(), |other| other.to_string());
                findings.push(Finding::wrong(
                    format!("object {object} has generation {other} in the midst of a cut"),
                    FROM_A_COPY,
                ));
            }
        }
        Ok(findings)
    }

    /// Reads all keys of a range's object, which have to be in these bounds.
    fn content(&self, object: &str, begin: &[u8], end: Option<&[u8]>) -> Result<Option<Content>> {
        let mut content: Option<Content> = None;
        let (mut after, mut strays, mut stray) = (Vec::new(), 0u64, None);
        loop {
            let mut op = ReadOp::new().map_err(store)?;
            let Ok(step) = op.omap_after(&after, PAGE) else {
                return Err(corrupt(format!("object {object}"), "a key has a NUL"));
            };
            let steps = (op.stat(), op.xattrs());
            let brought = match op.run(&self.pool, object) {
                Ok(brought) => brought,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(store(error)),
            };
            let head = Head {
                len: brought.stat(steps.0).map_err(store)?.len,
                xattrs: brought.xattrs(steps.1).map_err(store)?,
            };
            let page = brought.omap(step).map_err(store)?;
            let content = content.get_or_insert_with(|| Content { head, keys: 0, bytes: 0, findings: Vec::new() });
            for (key, value) in page.pairs {
                content.keys += 1;
                content.bytes += (key.len() + value.len()) as u64;
                let is_here = key.as_slice() >= begin && end.is_none_or(|end| key.as_slice() < end);
                if !is_here || unescape(object, &key).is_err() {
                    strays += 1;
                    stray.get_or_insert_with(|| shown(&key));
                }
                after = key;
            }
            if !page.more {
                break;
            }
        }
        if let (Some(content), Some(stray)) = (&mut content, stray) {
            content.findings.push(Finding::wrong(
                format!("object {object}: {strays} of its keys are not in the range of the table that it is, as {stray}: nobody finds them"),
                "if they are the namespace's, loligo fsck says what is missing; a copy (loligo copy) has what was there",
            ));
        }
        Ok(content)
    }

    /// Objects of ranges that the index does not name. The names were listed before: a range is in the index before it has an object.
    fn unnamed(&self, all: &[String], read: &Read, found: &mut Found) -> Result<()> {
        let mut named: BTreeSet<u64> = BTreeSet::new();
        for range in read.index.ranges.values() {
            named.insert(range.id);
            if let State::Cutting { to, .. } = range.state {
                named.insert(to);
            }
        }
        for (name, _) in all.iter().filter_map(|name| Some((name, parse(name)?))).filter(|(_, id)| !named.contains(id))
        {
            // That a record cannot be read was said.
            if read.is_whole {
                found.add(vec![Finding::wrong(
                    format!("object {name} is a range of the table that its index does not name: rows in it are found by nobody"),
                    LOST,
                )]);
            }
        }
        Ok(())
    }

    /// Changes over several ranges that were put down and not taken away.
    pub(super) fn batches(&self, all: &[String], slots: &SlotRecords, found: &mut Found) -> Result<()> {
        for name in all.iter().filter(|name| name.starts_with("batch.")) {
            if let Some(Some(head)) = heads(&self.pool, [name.as_str()].into_iter())?.pop() {
                found.epochs_of(name, &head);
                found.checked.count("batches", u64::from(head.len > 0));
            }
            let slot = &name["batch.".len()..];
            let is_held = matches!(slots.get(slot), Some(Ok(record)) if record.is_held);
            found.add(look(|| self.batch(name, is_held))?);
        }
        Ok(())
    }

    fn batch(&self, name: &str, is_held: bool) -> Result<Vec<Finding>> {
        loop {
            let mut op = ReadOp::new().map_err(store)?;
            let stat = op.stat();
            let done = op.run(&self.pool, name).and_then(|brought| Ok((brought.stat(stat)?.len, brought.version)));
            let (len, version) = match done {
                Ok((0, _)) | Err(Error::NotFound { .. }) => return Ok(Vec::new()),
                Ok(there) => there,
                Err(error) => return Err(store(error)),
            };
            let mut op = ReadOp::new().map_err(store)?;
            op.assert_version(version);
            let step = op.read(0, len as usize);
            let brought = match op.run(&self.pool, name) {
                Ok(brought) => brought,
                // It was changed meanwhile.
                Err(Error::Changed { .. } | Error::NotFound { .. }) => continue,
                Err(error) => return Err(store(error)),
            };
            return Ok(vec![match decode_batch(brought.data(step).map_err(store)?) {
                Err(error) => Finding::wrong(
                    format!(
                        "object {name}: {}: the change of the table that was put down there cannot be finished, and its owner cannot start",
                        detail(&error)
                    ),
                    FROM_A_COPY,
                ),
                Ok(rows) => {
                    let rows = rows.len();
                    let who = if is_held {
                        "its owner does that now, or, if that one is gone, the next one"
                    } else {
                        "the next owner finishes it"
                    };
                    Finding::note(format!("object {name}: a change of {rows} rows of the table is under way"), who)
                }
            }]);
        }
    }
}
