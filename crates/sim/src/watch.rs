//! Looks at what goes in and out of the metadata server: a change leaves only when no other session holds a lease on it.

use std::collections::BTreeMap;

use loligo_journal::frame::BODY_MAX;
use loligo_journal::{Record, decode_record};
use loligo_mds::{ConnId, Output};
use loligo_types::msg::{ToClient, ToServer};
use loligo_types::{Answer, Event, Ino, Kind, Lease, Letter, Lsn, Name, SessionId};

const SHARED: Lease = Lease(Lease::ATTR.0 | Lease::NAMES.0);

/// Leases as the messages alone show them.
#[derive(Default)]
pub struct Watch {
    sessions: BTreeMap<ConnId, SessionId>,
    held: BTreeMap<(Ino, SessionId), Lease>,
    recalls: BTreeMap<(SessionId, u64), (Ino, Lease)>,
    changes: BTreeMap<Ino, u64>,
    /// Names, as far as they are known: that their inode lives elsewhere is nothing that clients see.
    names: BTreeMap<(Ino, Name), Ino>,
    /// Files that have objects, as the record says.
    pub spilled: Vec<(Lsn, u64)>,
    /// Sessions that are gone, and with which record.
    pub gone: Vec<(SessionId, Lsn)>,
    /// Sessions that were begun, and the client's number.
    pub begun: Vec<(SessionId, u64)>,
    /// Faults.
    pub findings: Vec<String>,
}

impl Watch {
    /// Learns the inodes there are, at a start.
    pub fn learn(&mut self, event: &Event) {
        match event {
            Event::Inode(inode) => drop(self.changes.insert(inode.ino, inode.change)),
            Event::Entry { dir, name, ino, .. } => drop(self.names.insert((*dir, name.clone()), *ino)),
            Event::EntryGone { dir, name } => drop(self.names.remove(&(*dir, name.clone()))),
            _ => {}
        }
    }

    /// A message came.
    pub fn input(&mut self, conn: ConnId, msg: &ToServer) {
        let Some(session) = self.sessions.get(&conn).copied() else { return };
        match msg {
            ToServer::RecallDone { id, .. } => {
                if let Some((ino, bits)) = self.recalls.remove(&(session, *id)) {
                    self.take(ino, session, bits);
                }
            }
            ToServer::Release(leases) => leases.iter().for_each(|(ino, bits)| self.take(*ino, session, *bits)),
            ToServer::Reclaim(claim) => {
                // This is all: what it said before, over a connection that was lost, the rank has not heeded.
                self.held.retain(|(_, of), _| *of != session);
                claim.leases.iter().for_each(|(ino, bits)| self.give(*ino, session, *bits));
            }
            _ => {}
        }
    }

    /// The machine does something.
    pub fn output(&mut self, output: &Output) {
        match output {
            Output::Bound { conn, session } => drop(self.sessions.insert(*conn, *session)),
            Output::Send { conn, msg } => self.sent(*conn, msg),
            Output::Append { record, .. } if record.len() > BODY_MAX => {
                self.findings.push(format!("the journal takes no record of {} bytes", record.len()));
            }
            Output::Append { lsn, record } => match decode_record(record) {
                Ok(record) => self.changed(*lsn, &record),
                Err(error) => self.findings.push(format!("a record that was just made cannot be read: {error}")),
            },
            _ => {}
        }
    }

    fn sent(&mut self, conn: ConnId, msg: &ToClient) {
        let Some(session) = self.sessions.get(&conn).copied() else { return };
        match msg {
            ToClient::Reply { granted, result, .. } => {
                granted.iter().for_each(|(ino, bits)| self.give(*ino, session, *bits));
                if let Ok(Answer::Entries { entries, .. }) = result {
                    entries.iter().for_each(|entry| self.give(entry.ino, session, entry.lease));
                }
            }
            ToClient::Recall { ino, id, bits } => drop(self.recalls.insert((session, *id), (*ino, *bits))),
            _ => {}
        }
    }

    fn changed(&mut self, lsn: Lsn, record: &Record) {
        let by = record.origin.map(|origin| origin.session);
        for event in &record.events {
            match event {
                Event::Session(session) => self.begun.push((session.id, session.client)),
                // Until then it has what it had, also when it was decided long before that it ends.
                Event::SessionGone(session) => {
                    self.gone.push((*session, lsn));
                    self.held.retain(|(_, of), _| of != session);
                    self.recalls.retain(|(of, _), _| of != session);
                }
                // What moves away is no more this rank's to give or to ask back, and what comes was changed elsewhere.
                Event::Route(_) => self.forget(),
                // What all it is that moves does not stand here.
                Event::Letter { letter, .. } if matches!(**letter, Letter::Import { .. } | Letter::Fragment { .. }) => {
                    self.held.clear()
                }
                _ => {}
            }
            let (ino, bits) = match event {
                Event::Inode(inode) => {
                    if inode.kind == Kind::File && !inode.inline {
                        self.spilled.push((lsn, inode.ino.0));
                    }
                    let before = self.changes.insert(inode.ino, inode.change);
                    if before.is_none_or(|before| before == inode.change) {
                        continue;
                    }
                    (inode.ino, Lease::ATTR)
                }
                Event::InodeGone(ino) => (*ino, Lease::ATTR),
                Event::Entry { dir, name, ino, remote, .. } => {
                    let before = self.names.insert((*dir, name.clone()), *ino);
                    if before.map_or(*remote, |before| before == *ino) {
                        continue;
                    }
                    (*dir, Lease::NAMES)
                }
                Event::EntryGone { dir, name } => {
                    self.names.remove(&(*dir, name.clone()));
                    (*dir, Lease::NAMES)
                }
                _ => continue,
            };
            let Some(by) = by else { continue };
            let others = self.held.range((ino, SessionId(0))..=(ino, SessionId(u64::MAX)));
            for ((_, other), held) in others {
                if *other != by && held.any(bits) {
                    let text = format!(
                        "session {by} changed inode {ino} while session {other} held {bits:?} of it: {event:?}"
                    );
                    self.findings.push(text);
                }
            }
        }
    }

    fn forget(&mut self) {
        self.changes.clear();
        self.names.clear();
    }

    fn give(&mut self, ino: Ino, session: SessionId, bits: Lease) {
        if bits.any(SHARED) {
            let held = self.held.entry((ino, session)).or_default();
            *held = *held | (bits & SHARED);
        }
    }

    fn take(&mut self, ino: Ino, session: SessionId, bits: Lease) {
        if let Some(held) = self.held.get_mut(&(ino, session)) {
            *held = held.without(bits);
        }
    }

    /// Number of leases that are out.
    pub fn outstanding(&self) -> usize {
        self.held.values().filter(|bits| !bits.is_none()).count()
    }
}
