//! Written data that the server has and its disk may not. It is kept here until a sync, because a server whose machine
//! stopped has forgotten it: then it is written again, so that the sync that comes later says the truth. What cannot be
//! kept (too much, or others may have written since) is at risk: after a restart the next fsync or close reports it lost.

use std::collections::BTreeSet;

use loligo_types::{FsError, Ino, Rank};

use crate::Invalidation;
use crate::core::Core;
use crate::extents::Extents;
use crate::file::{File, Files};

/// Unsynced data beside that of open files.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    /// Number of files that were closed with data that the server's disk may not have, and of those of them, from the first on, that no
    /// longer matter.
    pub closed: u64,
    pub settled: u64,
    /// Number of losses of written data, of those of them that were told, and the last error.
    failures: u64,
    told: u64,
    error: Option<FsError>,
}

impl Unsynced {
    /// Written data was lost.
    pub(crate) fn fail(&mut self, error: FsError) {
        self.failures += 1;
        self.error = Some(error);
    }

    /// A file is forgotten here.
    pub(crate) fn forget(&mut self, file: &File) {
        self.closed += u64::from(file.at_risk || !file.unstable.is_empty());
    }

    /// The server may have lost what it had not synced.
    pub(crate) fn lose(&mut self) {
        if self.closed > self.settled {
            self.settled = self.closed;
            self.fail(FsError::Io);
        }
    }

    /// Number of losses so far.
    pub(crate) fn losses(&self) -> u64 {
        self.failures
    }

    /// A loss that was not told yet, or that came since there had been so many: each sync that waits meanwhile hears of it.
    pub(crate) fn tell(&mut self, before: u64) -> Option<FsError> {
        let news = self.failures > self.told.min(before);
        self.told = self.failures;
        self.error.filter(|_| news)
    }
}

impl File {
    /// Others may write from now on: what is kept cannot be written again.
    pub(crate) fn risk(&mut self) {
        self.at_risk |= !self.unstable.is_empty();
        self.unstable = Extents::default();
    }

    /// A range is about to be dropped at the server: it must not be written again, even if the server restarts before
    /// it answers. If the server does not drop it after all, it is at risk.
    pub(crate) fn drop_unstable(&mut self, start: u64, end: u64) {
        self.unstable.remove(start, end);
    }
}

impl Files {
    /// A run wrote these bytes to objects and did not wait for the disk.
    pub(crate) fn keep_unstable(&mut self, core: &Core, ino: Ino, written: Extents) {
        let Some(file) = self.map.get_mut(&ino) else { return };
        file.unstable.absorb(written);
        if !file.may_buffer() || file.unstable.bytes() > core.config.write_buffer_file {
            return file.risk();
        }
        self.unstable.insert(ino);
        // Files without any are taken out only here, so this is looked at rarely.
        if self.unstable.len() > 1 {
            let files = &self.map;
            self.unstable.retain(|ino| files.get(ino).is_some_and(|file| !file.unstable.is_empty()));
            let total: u64 = self.unstable.iter().filter_map(|ino| files.get(ino)).map(|f| f.unstable.bytes()).sum();
            if total > core.config.write_buffer_total
                && let Some(file) = self.map.get_mut(&ino)
            {
                file.risk();
            }
        }
    }

    /// A rank restarted: what its disk did not have is to be written again, or is lost. Also of files that are only believed to
    /// have moved away: they may be there still. What really moves is durable before.
    pub(crate) fn rewrite_unstable(&mut self, core: &mut Core, rank: Rank) {
        self.unsynced.lose();
        let guessed = self.guessed.iter().filter(|(_, from)| *from == rank);
        let guessed = guessed.filter_map(|(number, _)| self.handles.get(number)).map(|handle| handle.ino);
        let inos: BTreeSet<Ino> = self.files_at(rank).into_iter().chain(guessed).chain(self.own_files()).collect();
        for ino in inos.iter().copied() {
            let now = core.now.ms;
            let Some(file) = self.map.get_mut(&ino) else { continue };
            file.restart_run();
            file.clean_to = file.clean_to.min(file.attr.size);
            if !file.may_buffer() {
                file.risk();
            }
            let kept = std::mem::take(&mut file.unstable);
            if !kept.is_empty() {
                for (offset, bytes) in kept.iter() {
                    for (start, end) in file.flying.gaps(offset, offset + bytes.len() as u64) {
                        file.dirty.fill_under(start, &bytes[(start - offset) as usize..(end - offset) as usize]);
                    }
                }
                file.mtime = file.mtime.or(Some(file.attr.mtime));
                file.dirty_since = now;
                // A recall waits for it as for any write; and who waits for what was written before waits for what is written
                // again, which is older still: a cut must come after it.
                file.written += 1;
                file.wait_for_all();
                self.dirty.insert(ino);
            }
            if std::mem::take(&mut file.at_risk) {
                file.fail(FsError::Io);
                self.unsynced.fail(FsError::Io);
                self.change_blocks(ino, |file| file.blocks.clear());
                if self.is_cached_above(ino) {
                    core.invalidate(Invalidation::Data(ino), false);
                }
            }
        }
        let files = &self.map;
        self.unstable.retain(|ino| files.contains_key(ino) && !inos.contains(ino));
    }
}
