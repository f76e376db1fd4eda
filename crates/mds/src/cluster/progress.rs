//! Report of migrations from this rank: those under way, those that wait, and the last ones that ended. It does not run them.

use super::exports::{Export, Stage};
use crate::admin::Migration;
use crate::cluster::Exports;
use crate::core::Core;

impl Exports {
    /// The migrations under way, and the last ones that ended.
    pub(crate) fn migrations(&self, core: &Core) -> Vec<Migration> {
        let mut all: Vec<Migration> = self.ended.iter().cloned().collect();
        all.extend(self.now.as_deref().map(|export| core.describe(export)));
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

impl Core {
    pub(super) fn describe(&self, export: &Export) -> Migration {
        let (inodes, dirs) = self.tree.places();
        let state = match export.stage {
            Stage::Offered | Stage::Settling(_) | Stage::Surveying => "preparing",
            Stage::Freezing => "freezing",
            Stage::Moving(_) => "moving",
            Stage::Cleaning => "cleaning",
        };
        Migration {
            id: export.id,
            dir: export.dir,
            frag: export.frag,
            from: self.me(),
            to: export.to,
            state: state.into(),
            inodes: export.inodes.max(export.survey.found),
            seen: export.survey.seen(),
            of: (inodes + dirs) as u64,
            frozen_us: export.frozen_for_ms * 1000,
            took_ms: self.now.mono_ms.saturating_sub(export.begun_ms),
        }
    }
}
