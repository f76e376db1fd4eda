//! Deliberate faults about decoupled directories that need more than a line in the driver: what [`crate::Canary`] says of each. Those of
//! journals and disks are where these are driven.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use loligo_journal::{Record, decode_record, encode_record};
use loligo_namespace::{Loaded, MergedRows, Need, SUBTREE};
use loligo_subtree_policy::SubtreePolicy;
use loligo_types::msg::{Request, ToClient, ToServer};
use loligo_types::{Answer, Control, Event, FsError, FsResult, Ino, Lsn, Name, NamesLease, Op, Seq, SubtreeOp};

use super::Server;
use crate::options::Canary;
use crate::recovery;
use crate::rows;

/// Bytes by which a journal in the store is counted too long: so many that what another one left behind it is met. And too short.
const LONGER: u64 = 400;
const SHORTER: u64 = 5;

/// State of the deliberate faults.
#[derive(Default)]
pub struct Lies {
    /// Requests that were not answered yet.
    asked: BTreeMap<(u64, Seq), Op>,
    /// Ends of room that was reserved and not told of.
    rooms: BTreeMap<Ino, u64>,
    /// Inodes of which the merge that comes has said how they were found.
    based: BTreeSet<Ino>,
    /// The last record of a merge of each directory.
    merges: BTreeMap<Ino, Lsn>,
    /// Rows of merges up to this one were said to be there: of all lives of the rank.
    rows_upto: Rc<Cell<Lsn>>,
    /// Directories with policies, and whether those are relaxed.
    relaxed: BTreeMap<Ino, bool>,
    /// A rename over the edge of one that is about to be carried out, and whether its record was made.
    edge: Option<(u64, Seq, Op, bool)>,
}

/// True if the operation makes or removes one name, and needs nothing but the right to write to its directory.
fn is_change(op: &Op) -> bool {
    let (props, [_, second]) = (op.props(), op.subjects());
    props.changes && props.opens.is_none() && props.names_lease == NamesLease::First && second.ino().is_none()
}

impl Lies {
    /// Those of a new life.
    pub fn after(rows_upto: Rc<Cell<Lsn>>) -> Lies {
        Lies { rows_upto, ..Lies::default() }
    }

    /// Learns policies.
    pub fn learn(&mut self, event: &Event) {
        if let Event::Xattr { ino, name, value } = event
            && **name == *SUBTREE
        {
            let policy = SubtreePolicy::parse_bytes(value).ok();
            self.relaxed.insert(*ino, policy.is_some_and(|policy| policy.lag().is_some()));
        }
    }
}

impl Server {
    /// A message comes.
    pub(super) fn hear_wrongly(&mut self, conn: u64, msg: &mut ToServer) {
        let (Some(canary), ToServer::Request(Request { seq, op, .. })) = (self.canary, msg) else { return };
        match (canary, &mut *op) {
            (Canary::LookupsLetIn, Op::Lookup { .. }) => drop(self.lies.asked.insert((conn, *seq), op.clone())),
            (Canary::ChangesLetIn, op) if is_change(op) => drop(self.lies.asked.insert((conn, *seq), op.clone())),
            (Canary::RoomShown, Op::Extend { .. }) => drop(self.lies.asked.insert((conn, *seq), op.clone())),
            (Canary::RoomShown, Op::SetData { ino, .. }) => drop(self.lies.rooms.remove(ino)),
            // Something that is relaxed is answered at once.
            (Canary::PersistAnsweredEarly, op @ Op::Control(Control::Persist)) => {
                if let Some((dir, _)) = self.lies.relaxed.iter().find(|(_, relaxed)| **relaxed) {
                    *op = Op::GetAttr { ino: *dir };
                    self.lies.asked.insert((conn, *seq), Op::Control(Control::Persist));
                }
            }
            (Canary::EdgeAnsweredEarly, op @ Op::Rename { .. }) => {
                self.lies.edge = Some((conn, *seq, op.clone(), false))
            }
            (Canary::LagIgnored, Op::SetXattr { name, value, .. }) if **name == *SUBTREE => {
                let text = String::from_utf8_lossy(value);
                let lines = text.lines().map(|line| if line.starts_with("lag") { "lag = '1h'" } else { line });
                let text: Vec<&str> = lines.collect();
                *value = text.join("\n").as_bytes().into();
            }
            (Canary::BasesAnew, Op::Control(Control::Subtree { what, .. })) => {
                if let SubtreeOp::Part { part, body, .. } = &mut **what {
                    self.renew_bases(*part, body);
                }
            }
            (Canary::KeptLonger | Canary::KeptShorter, Op::Control(Control::Subtree { what, .. })) => {
                if let SubtreeOp::Keep { journal, .. } = &mut **what
                    && journal.bytes > 0
                {
                    let longer = canary == Canary::KeptLonger;
                    journal.bytes = if longer { journal.bytes + LONGER } else { journal.bytes.saturating_sub(SHORTER) };
                }
            }
            _ => {}
        }
    }

    fn renew_bases(&mut self, part: u32, body: &mut Arc<[u8]>) {
        if part == 0 {
            self.lies.based.clear();
        }
        let Ok(mut record) = decode_record(body) else { return };
        for event in &mut record.events {
            if let Event::Inode(base) = event
                && self.lies.based.insert(base.ino)
                && let Ok(items) = rows::load(&*self.table, self.key, &[Need::Inode(base.ino)])
                && let Some(Loaded::Inode(_, Some(now))) = items.into_iter().next()
            {
                *base = now;
            }
        }
        let mut bytes = Vec::new();
        encode_record(&mut bytes, record.origin.as_ref(), &record.events);
        *body = bytes.into();
    }

    /// A message goes.
    pub(super) fn tell_wrongly(&mut self, conn: u64, msg: &mut ToClient) {
        if let (Some(Canary::LossNotTold), ToClient::Welcome(welcome)) = (self.canary, &mut *msg) {
            welcome.recovered = Lsn(u64::MAX);
        }
        let ToClient::Reply { seq, result, granted, volatile, .. } = msg else { return };
        if let Some(Op::Control(Control::Persist)) = self.lies.asked.get(&(conn, *seq)) {
            self.lies.asked.remove(&(conn, *seq));
            granted.clear();
            (*result, *volatile) = (Ok(Answer::Done), None);
            return;
        }
        if let Ok(Answer::Entry(attr) | Answer::Opened { attr, .. }) = result
            && let Some(end) = self.lies.rooms.get(&attr.ino)
        {
            attr.size = attr.size.max(*end);
        }
        let Some(op) = self.lies.asked.remove(&(conn, *seq)) else { return };
        if let (Op::Extend { ino, len, .. }, Ok(Answer::Offset(at))) = (&op, &*result) {
            self.lies.rooms.insert(*ino, at + len);
        }
        if *result == Err(FsError::Busy) {
            *result = match op {
                Op::Lookup { dir, name } => self.found_in_table(dir, name),
                _ => Err(FsError::Access),
            };
        }
    }

    fn found_in_table(&self, dir: Ino, name: Name) -> FsResult<Answer> {
        let load = |need| rows::load(&*self.table, self.key, &[need]).ok().and_then(|items| items.into_iter().next());
        let Some(Loaded::Entry { found: Some(target), .. }) = load(Need::Entry { dir, name }) else {
            return Err(FsError::NotFound);
        };
        match load(Need::Inode(target.ino)) {
            Some(Loaded::Inode(_, Some(inode))) => Ok(Answer::Entry(inode.attr())),
            _ => Err(FsError::NotFound),
        }
    }

    /// A record goes into the journal.
    pub(super) fn note_merges(&mut self, lsn: Lsn, record: &[u8]) {
        if self.canary != Some(Canary::RowsTrimmedEarly) {
            return;
        }
        let events = decode_record(record).map(|record| record.events).unwrap_or_default();
        for event in events {
            if let Event::Merge { dir } = event {
                self.lies.merges.insert(dir, lsn);
            }
        }
    }

    /// A record goes into the journal, where there are relaxed directories.
    pub(super) fn note_edge(&mut self, _: Lsn, record: &Record) {
        if self.canary.is_none() {
            return;
        }
        for event in &record.events {
            self.lies.learn(event);
            if let Event::Entry { dir, name, .. } = event
                && let Some((.., Op::Rename { dir: from, new_dir, new_name, .. }, made)) = &mut self.lies.edge
            {
                let is_relaxed = |dir: &Ino| self.lies.relaxed.get(dir) == Some(&true);
                *made |= is_relaxed(from) != is_relaxed(new_dir) && new_dir == dir && new_name == name;
            }
        }
    }

    /// Answers the rename over the edge of a relaxed directory as soon as its record is made.
    pub(super) fn answer_edge(&mut self) {
        if let Some((conn, seq, _, true)) = self.lies.edge.take() {
            let (granted, ways) = (Vec::new(), Vec::new());
            let msg = ToClient::Reply { seq, result: Ok(Answer::Done), granted, ways, volatile: None, journal: None };
            self.out.push_back(super::Act::Send { conn, msg });
        }
    }

    /// Rows of a merge are about to be written.
    pub(super) fn write_wrongly(&self, merged: &mut MergedRows) {
        let middle = merged.records.len() / 2;
        if self.canary == Some(Canary::RowDropped) && middle < merged.records.len() {
            merged.records.remove(middle);
        }
    }

    /// Those of a merge into a directory were written.
    pub(super) fn trim_wrongly(&self, dir: Ino) {
        if let Some(upto) = self.lies.merges.get(&dir) {
            self.lies.rows_upto.set(self.lies.rows_upto.get().max(*upto));
        }
    }
}

/// The records of merges up to this one are gone from the journal.
pub(super) fn trim_merges(records: &mut [(Lsn, loligo_journal::Record)], upto: Lsn) {
    let upto = records.partition_point(|(lsn, _)| *lsn <= upto);
    recovery::forget_merges(&mut records[..upto]);
}
