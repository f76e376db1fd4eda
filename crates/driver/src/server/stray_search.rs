//! The search for stray objects after an unclean stop: the store lists the inodes that got objects since, the ranks of this process drop what
//! no inode tells of, and the store hears when all is done. One list at a time, so that memory stays bounded. Not the decision which objects
//! those are: that is the ranks' (`mds`, `stray_objects.rs`). Ranks of other processes are not asked.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use loligo_store::Backend;
use loligo_types::Ino;

use super::Result;
use super::queue::Inbox;
use super::rank::Done;
use super::start::spawn;

/// Inodes of a list.
const LIST_MAX: usize = 4096;

/// The thread of the search; it ends with this, which waits for it: it may be in the store, which is going to be closed.
pub(crate) struct StraySearch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Search {
    backend: Arc<dyn Backend>,
    ranks: Vec<Arc<Inbox<Done>>>,
    stop: Arc<AtomicBool>,
    list: BTreeSet<Ino>,
    listed: u64,
    /// A rank left open whether some are stray.
    in_doubt: bool,
}

impl StraySearch {
    pub(super) fn start(backend: Arc<dyn Backend>, ranks: Vec<Arc<Inbox<Done>>>) -> Result<StraySearch> {
        let stop = Arc::<AtomicBool>::default();
        let search = Search { backend, ranks, stop: stop.clone(), list: BTreeSet::new(), listed: 0, in_doubt: false };
        let thread = Some(spawn("loligo-strays", move || search.run())?);
        Ok(StraySearch { stop, thread })
    }
}

impl Drop for StraySearch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that searches objects panicked; this is a bug");
        }
    }
}

impl Search {
    fn run(mut self) {
        let backend = self.backend.clone();
        let blobs = backend.blobs();
        let mut cut_off = false;
        let walked = blobs.visit_strays(&mut |ino| {
            self.list.insert(Ino(ino));
            cut_off = self.stop.load(Ordering::Acquire) || (self.list.len() >= LIST_MAX && !self.ask());
            if cut_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let done = match walked {
            _ if cut_off || !self.ask() => return,
            Ok(()) if self.in_doubt => {
                tracing::info!(
                    inodes = self.listed,
                    "objects that no file tells of were searched; the next start searches them again, as a directory is decoupled"
                );
                return;
            }
            Ok(()) => blobs.strays_dropped(),
            Err(error) => Err(error),
        };
        match done {
            Ok(()) if self.listed == 0 => {}
            Ok(()) => tracing::info!(inodes = self.listed, "objects that no file tells of were searched and dropped"),
            Err(error) => {
                tracing::warn!(%error, "objects that no file tells of may be left: the next start searches them again");
            }
        }
    }

    /// Gives the list to all ranks and waits until they have done with it; false: one of them ends.
    fn ask(&mut self) -> bool {
        let inos: Arc<[Ino]> = std::mem::take(&mut self.list).into_iter().collect();
        if inos.is_empty() {
            return true;
        }
        self.listed += inos.len() as u64;
        let (to, done): (Sender<bool>, _) = channel();
        for rank in &self.ranks {
            rank.push(Done::Strays { inos: inos.clone(), done: to.clone() });
        }
        drop(to);
        // A rank that ends drops its end unsaid.
        self.ranks.iter().all(|_| done.recv().map(|all| self.in_doubt |= !all).is_ok())
    }
}
