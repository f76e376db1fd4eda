//! Length of the one record of a migration, in bytes: it has all recent changes, and all that clients hold, so its length is
//! computed before anything is put down. The journal takes no record above its bound, and a rank whose journal refuses one stops.
//! The contents of the record are `depart.rs`'s.
//!
//! The length told here is never less than what is written. The bound of the messages between ranks is far above.

use std::collections::BTreeSet;

use loligo_journal::encode_record;
use loligo_journal::frame::BODY_MAX;
use loligo_types::{Event, Ino, limits};

use crate::cluster::exports::Export;
use crate::cluster::holdings::Clients;
use crate::cluster::survey::Survey;
use crate::cluster::tail::{Changes, RESIDUE_BYTES, inode_len};
use crate::cluster::{Atlas, Exports};
use crate::core::Core;

/// Bytes of what is counted here. Beside it there is room for what is not, at the other rank too: the directory itself, what
/// both have counted of it, how far letters have come.
const MOVE_MAX: usize = BODY_MAX - (1 << 20);

// What is left after a round, and the largest change, fit.
const _: () = assert!(RESIDUE_BYTES + 8 * (limits::INLINE_MAX + limits::XATTR_TOTAL_MAX) < MOVE_MAX);

// Bytes at most, of which 10 each for numbers that may be anything.
/// A client, beside its name and what it holds.
const CLIENT: usize = 64;
/// Number, inode, flags, rights.
const OPEN: usize = 22;
/// Inode, bits.
const LEASE: usize = 11;
/// Inode, handle, flags, owner, process, range.
const LOCK: usize = 56;
/// An inode's number.
const INO: usize = 10;
/// A line of the subtree map, in the record and in the letter, and the fragment that departs.
const LINE: usize = 96;

fn event_len(event: &Event, scratch: &mut Vec<u8>) -> usize {
    scratch.clear();
    encode_record(scratch, None, std::slice::from_ref(event));
    scratch.len()
}

impl Clients<'_> {
    /// Why what moves does not fit into one record, if it does not.
    pub(super) fn too_long(
        &self,
        core: &mut Core,
        (atlas, exports): (&mut Atlas, &mut Exports),
        export: &Export,
        survey: &mut Survey,
        changes: &Changes,
    ) -> Option<&'static str> {
        let mut scratch = Vec::new();
        let files = core.moved_files(&export.files, export.to);
        let events = changes.events.iter().chain(&files).map(|event| event_len(event, &mut scratch));
        let lines = atlas.cut_lines(core, export).0.len() + export.moves.len();
        let changed = events.sum::<usize>() + changes.departed.len() * INO + lines * LINE;
        let held = self.held_len(core, (atlas, exports), survey, export.held.inos(), &changes.departed);
        if changed + held <= MOVE_MAX {
            return None;
        }
        Some(if held > changed {
            "failed: too many files are open or locked below it: close some, or move parts of it"
        } else {
            "failed: too much is changed below it: try again when less is, or move parts of it"
        })
    }

    /// Length of the holdings of clients, and of the open inodes besides those that departed anyway, bytes.
    fn held_len(
        &self,
        core: &mut Core,
        (atlas, exports): (&mut Atlas, &mut Exports),
        survey: &mut Survey,
        inos: &BTreeSet<Ino>,
        departed: &BTreeSet<Ino>,
    ) -> usize {
        let mut scratch = Vec::new();
        let mut len: usize =
            self.sessions.iter().map(|(_, session)| CLIENT + session.name.len() + addresses_len(session)).sum();
        for ino in inos.iter().copied() {
            if matches!(survey.moves_in_step(core, exports, atlas, ino).0, super::survey::Moves::No) {
                continue;
            }
            let opens = self.opens.count(ino) as usize;
            len += opens * OPEN + self.leases.holders(ino).count() * LEASE + self.locks.held_on(ino) * LOCK;
            if opens > 0
                && !departed.contains(&ino)
                && let Some(inode) = core.tree.inode(ino)
            {
                len += INO + inode_len(inode, &mut scratch);
            }
        }
        len
    }
}

/// Length of the addresses by which the store knows a session's client, bytes.
fn addresses_len(session: &crate::session::Session) -> usize {
    session.addresses.iter().map(|address| 2 + address.len()).sum::<usize>() + 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loligo_types::msg::Reclaim;
    use loligo_types::{FileLock, Frag, Lease, Letter, LockKind, LockOwner, MovedClient, OpenFlags, Rank, Route};

    use super::*;

    #[test]
    fn nothing_is_longer_in_a_record_than_is_said_here() {
        let (n, name, ino) = (100, 200, |at: usize| Ino(u64::MAX / (1 + at as u64 % 2)));
        let (owner, pid, start, end) = (LockOwner(u64::MAX), u32::MAX, u64::MAX - 1, u64::MAX - 1);
        let lock = FileLock { kind: LockKind::Posix, owner, pid, exclusive: true, start, end };
        let client = MovedClient {
            client: u64::MAX,
            name: vec![b'x'; name].into(),
            uid: u32::MAX,
            addresses: Vec::new(),
            held: Reclaim {
                opens: (0..n).map(|at| (u64::MAX, ino(at), OpenFlags::default(), Lease::CACHE)).collect(),
                leases: (0..n).map(|at| (ino(at), Lease::ATTR)).collect(),
                locks: (0..n).map(|at| (ino(at), u64::MAX, lock)).collect(),
            },
        };
        let frag = Frag { bits: Frag::BITS_MAX, value: (1 << Frag::BITS_MAX) - 1 };
        let routes: Vec<Route> =
            (0..n).map(|at| Route { dir: ino(at), frag, rank: Rank(u16::MAX), version: u64::MAX }).collect();
        let mut events: Vec<Event> = routes.iter().map(|route| Event::Route(*route)).collect();
        events.extend((0..n).map(|at| Event::DepartedFrag { dir: ino(at), frag }));
        events.push(Event::Departed((0..n).map(ino).collect()));
        let letter = Letter::Import { routes, events: Vec::new(), clients: vec![client; n] };
        events.push(Event::Letter { to: Rank(1), seq: u64::MAX, letter: Arc::new(letter) });
        let mut record = Vec::new();
        encode_record(&mut record, None, &events);
        let most = n * (CLIENT + name + n * (OPEN + LEASE + LOCK)) + n * (INO + LINE);
        assert!(record.len() <= most + 64 && record.len() > most * 9 / 10, "{} of {most}", record.len());
    }
}
