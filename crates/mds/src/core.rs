//! The core: the part that all stages use. It has the settings, the moment, the tree, the journal's ends, the reads and the
//! requests that wait, and what is to be done outside. It is not the machine: it knows nothing of sessions, leases or other ranks' state.

use std::collections::VecDeque;

use loligo_journal::Shortener;
use loligo_namespace::Tree;
use loligo_types::{Lsn, Rank};

use crate::config::{Config, Now};
use crate::counters::Counters;
use crate::data::Data;
use crate::io::Output;
use crate::load::Loads;
use crate::log::Log;
use crate::park::Parked;
use crate::peer::PeerMsg;

/// The part that all stages use.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) now: Now,
    pub(crate) out: VecDeque<Output>,
    pub(crate) tree: Tree,
    pub(crate) log: Log,
    pub(crate) data: Data,
    pub(crate) shortener: Shortener,
    /// Messages to other ranks that tell of what is not durable yet.
    pub(crate) mail: VecDeque<(Lsn, Rank, PeerMsg)>,
    pub(crate) loads: Loads,
    pub(crate) parked: Parked,
    pub(crate) counters: Counters,
    pub(crate) stopping: bool,
    pub(crate) stopped: bool,
}

impl Core {
    /// Nothing is known yet.
    pub(crate) fn new(config: Config, now: Now) -> Core {
        let settings = loligo_namespace::Config { inline_max: config.inline_max, rank: config.rank, frag: config.frag };
        let tree = Tree::new(config.hash_key, settings);
        let shortener = Shortener::new(config.short_from);
        Core {
            config,
            now,
            out: VecDeque::new(),
            tree,
            log: Log::default(),
            data: Data::default(),
            shortener,
            mail: VecDeque::new(),
            loads: Loads::default(),
            parked: Parked::default(),
            counters: Counters::default(),
            stopping: false,
            stopped: false,
        }
    }

    /// This rank.
    #[inline]
    pub(crate) fn me(&self) -> Rank {
        self.config.rank
    }

    /// Sends a message to another rank at once.
    pub(crate) fn tell(&mut self, to: Rank, msg: PeerMsg) {
        self.out.push_back(Output::Peer { to, msg });
    }

    /// Sends a message to another rank when all that was applied before is durable.
    pub(crate) fn tell_durably(&mut self, to: Rank, msg: PeerMsg) {
        if self.log.last <= self.log.durable {
            return self.tell(to, msg);
        }
        self.mail.push_back((self.log.last, to, msg));
    }
}
