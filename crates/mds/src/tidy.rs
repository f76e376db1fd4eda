//! Bytes beyond the end of a file, left by a writer that died (or failed) between writing them and telling the size.
//!
//! Who alone has a file open drops them before it leaves a gap. Of several writers none can: it might drop what another
//! one just wrote. So the server does it before the first growth that they tell, and counts that as a cut: what one of
//! them has written beyond the end and not told of is refused as stale, and written again. From then on nothing lies
//! there but what they write, until one of them dies.

use std::collections::BTreeSet;

use loligo_types::{Event, Ino, Kind, Lease, Op};

use crate::machine::Mds;
use crate::open::Handle;
use crate::park::{Job, Why};

/// What is known of the bytes beyond the ends of files.
#[derive(Default)]
pub(crate) struct Tidy {
    /// Open files of which nothing lies there but what their writers write now.
    known: BTreeSet<Ino>,
}

impl Tidy {
    /// Something may be left there now.
    pub(crate) fn forget(&mut self, ino: Ino) {
        if !self.known.is_empty() {
            self.known.remove(&ino);
        }
    }
}

impl Mds {
    /// If the request lets a file of several writers grow over what may be left there: drops that first, and says what
    /// to wait for.
    pub(crate) fn tidy_first(&mut self, job: &Job, held: Option<Handle>) -> Option<Why> {
        let ino = match job.op {
            Op::Extend { ino, .. } => ino,
            // Who holds CACHE and writes is alone.
            Op::SetData { ino, grow_to: Some(to), cuts, .. } if !self.opens.rights(ino, job.slot).has(Lease::CACHE) => {
                self.tree.inode(ino).filter(|inode| to > inode.size && cuts == inode.cuts)?.ino
            }
            _ => return None,
        };
        if self.tidy.known.contains(&ino) || !held.is_some_and(|handle| handle.write) {
            return None;
        }
        let mut inode = self.tree.inode(ino).filter(|inode| inode.kind == Kind::File && !inode.inline)?.clone();
        inode.cuts = inode.cuts.wrapping_add(1);
        let discard = Event::Discard { ino, from: inode.size, object_size: inode.layout().object_size };
        self.commit(None, &[Event::Inode(Box::new(inode)), discard]);
        self.tidy.known.insert(ino);
        Some(Why::Data(ino))
    }

    /// What lies beyond the end of a file is being dropped.
    pub(crate) fn dropped(&mut self, ino: Ino) {
        let alone = self.opens.all_rights(ino).any(|(_, rights)| rights.has(Lease::CACHE));
        if !alone && self.opens.any_writer(ino) {
            self.tidy.known.insert(ino);
        }
    }
}
