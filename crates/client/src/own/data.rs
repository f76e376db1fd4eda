//! Files in subtrees that are decoupled for this client whose bytes others may change: when the owner needs a version of its own, and what is
//! new to caches when records come. Not here: the way of the bytes (`serve.rs`).

use std::sync::Arc;

use loligo_types::{Cred, DataAnswer, DataError, FsError, Ino, Kind, Loaded};

use super::Owned;
use crate::calls::{Calls, Waiter};
use crate::core::Core;
use crate::file::Files;
use crate::own::Own;
use crate::task::data_error;
use crate::{Call, Fh, Invalidation};

impl Own {
    /// The root of a subtree in which others work, and the file of which the owner must have a version of its own before this call is decided: what is
    /// known here of the file is of when it was fetched. Data that are held in the inode are fetched, with the inode.
    pub(crate) fn must_fork(&self, files: &Files, call: &Call) -> Option<(Ino, Ino)> {
        if !self.trees.values().any(Owned::is_shared) {
            return None;
        }
        let of_handle = |fh: &Fh| files.opened.get(fh).map(|opened| opened.ino);
        let ino = match call {
            Call::SetAttr { ino, set, .. } if set.size.is_some() => Some(*ino),
            Call::Write { fh, .. } | Call::Fallocate { fh, .. } | Call::Copy { to: fh, .. } => of_handle(fh),
            _ => None,
        }?;
        let root = self.root_of(ino)?;
        let owned = self.trees.get(&root).filter(|owned| owned.is_shared())?;
        if owned.is_cutting() {
            // The state on which a call would be decided now is over with the merge.
            return Some((root, ino));
        }
        if owned.ending || owned.forked.contains(&ino) || owned.machine.record().is_new(ino) {
            return None;
        }
        let inode = owned.machine.inode(ino)?;
        let is_fetched = inode.inline && !owned.machine.lacks_data(ino);
        (inode.kind == Kind::File && !is_fetched && inode.nlink > 0).then_some((root, ino))
    }

    /// Records have come.
    pub(super) fn learn(&mut self, core: &mut Core, files: &mut Files, root: Ino, items: Vec<Loaded>) {
        let Some(owned) = self.trees.get_mut(&root) else { return };
        let changed = owned.machine.learn(items);
        self.changed(core, files, root, &changed);
    }

    /// Files are not as caches here and above know them: others have changed them since.
    pub(super) fn changed(&self, core: &mut Core, files: &mut Files, root: Ino, inos: &[Ino]) {
        let Some(owned) = self.trees.get(&root) else { return };
        let attrs: Vec<_> =
            inos.iter().filter_map(|ino| owned.machine.inode(*ino)).map(loligo_types::Inode::attr).collect();
        for attr in attrs {
            files.own_becomes(core, &attr);
            core.invalidate(Invalidation::Attr(attr.ino), false);
        }
    }

    /// There is no version of these, or (none named) of any.
    pub(super) fn fail_unforked(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        root: Ino,
        inos: &[Ino],
        error: FsError,
    ) {
        let Some(owned) = self.trees.get_mut(&root) else { return };
        let of_them = |(ino, ..): &mut (Ino, Waiter, Arc<Cred>, Call)| inos.is_empty() || inos.contains(ino);
        let failed: Vec<_> = owned.unforked.extract_if(.., of_them).collect();
        for (_, waiter, ..) in failed {
            calls.fail(core, waiter, error);
        }
    }

    /// Bytes are dropped, or cannot be.
    pub(crate) fn dropped(&mut self, calls: &mut Calls, token: u64, result: Result<DataAnswer, DataError>) {
        self.change_ended(calls);
        let Some((left, reply)) = self.drops.get_mut(&token) else { return };
        *left -= 1;
        if let Err(error) = result {
            reply.result = Err(data_error(error));
        }
        if *left == 0
            && let Some((_, reply)) = self.drops.remove(&token)
        {
            self.replies.push_back(reply);
        }
    }
}

impl Files {
    /// A rank that has such a subtree was restarted, or its session with this client is gone: what its disk may not have of files there
    /// is written again. Which files.
    pub(crate) fn own_files(&self) -> Vec<Ino> {
        self.map.iter().filter(|(_, file)| file.rank == super::OWN).map(|(ino, _)| *ino).collect()
    }
}
