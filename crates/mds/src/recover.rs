//! Replay of records into parts. The order of a start is `stages/restart.rs`.

use loligo_journal::Record;
use loligo_types::{Event, Ino, Lsn, PeerRecord, SessionRecord};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::session::{Session, Sessions};

impl Cluster {
    /// A record that was made when a letter came: the other rank is not told that what it brought is in the table before it is.
    pub(crate) fn replay_received(&mut self, core: &Core, peer: &PeerRecord, lsn: Lsn) {
        if lsn >= self.atlas.settled && peer.received > core.tree.peer(peer.rank).received {
            self.peers.links.entry(peer.rank).or_default().landing.push_back((peer.received, lsn));
        }
    }

    /// Replays the departures of a record: inodes that it gave to another rank, which may not have them in the table
    /// yet; and those that it took.
    pub(crate) fn replay_departures(&mut self, lsn: Lsn, record: &Record) {
        let mut gone: &[Ino] = &[];
        for event in &record.events {
            match event {
                Event::Departed(inos) => gone = inos,
                Event::Letter { to, seq, letter } if letter.gives().is_some() => {
                    self.exports.replay_departure(&mut self.atlas, *to, *seq, gone, lsn);
                }
                // Back again.
                Event::Inode(inode) if inode.part_of().is_none() => drop(self.atlas.departed.remove(&inode.ino)),
                _ => {}
            }
        }
    }
}

impl Sessions {
    pub(crate) fn replay_session(&mut self, core: &Core, record: &SessionRecord) {
        let session = Session::restore(record, core.now.mono_ms);
        match self.find(record.id).and_then(|slot| self.get_mut(slot)) {
            Some(known) => *known = session,
            None => drop(self.insert(session)),
        }
    }
}
