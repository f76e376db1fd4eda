//! Report of migrations from this rank: those under way, those that wait, and the last ones that ended. It does not run them.

use super::exports::{Export, Stage};
use crate::admin::Migration;
use crate::cluster::Exports;
use crate::core::Core;

impl Exports {
    /// The migrations under way, and the last ones that ended.
    pub(crate) fn migrations(&self, core: &Core) -> Vec<Migration> {
        let mut all: Vec<Migration> = self.ended.iter().cloned().collect();
        all.extend(self.now.as_deref().map(|export| export.describe(core)));
        all.extend(self.waiting.iter().map(|wanted| Migration {
            id: wanted.id,
            dir: wanted.dir,
            frag: wanted.frag,
            from: core.me(),
            to: wanted.to,
            state: "waiting".into(),
            ..Migration::default()
        }));
        all
    }
}

impl Export {
    pub(super) fn describe(&self, core: &Core) -> Migration {
        let (inodes, dirs) = core.tree.places();
        let state = match self.stage {
            Stage::Offered | Stage::Settling(_) | Stage::Surveying => "preparing",
            Stage::Freezing => "freezing",
            Stage::Moving(_) => "moving",
            Stage::Cleaning => "cleaning",
        };
        Migration {
            id: self.id,
            dir: self.dir,
            frag: self.frag,
            from: core.me(),
            to: self.to,
            state: state.into(),
            inodes: self.inodes.max(self.survey.found),
            seen: self.survey.seen(),
            of: (inodes + dirs) as u64,
            frozen_us: self.frozen_for_ms * 1000,
            took_ms: core.now.mono_ms.saturating_sub(self.begun_ms),
        }
    }
}
