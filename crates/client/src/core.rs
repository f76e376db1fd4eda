//! Configuration, moment and effects: the state that every part of the machine needs. Not here: anything that
//! is known of ranks, files or calls.

use std::collections::VecDeque;

use crate::leases::NamesLost;
use crate::{Config, Invalidation, Now, Output, Token};

/// The configuration, the moment, and the effects.
#[derive(Debug)]
pub(crate) struct Core {
    pub config: Config,
    pub now: Now,
    pub out: VecDeque<Output>,
    /// Losses of directories' names.
    pub names_lost: NamesLost,
    pub next_token: u64,
    /// Number of the last data request.
    pub next_data: u64,
    pub stopping: bool,
    pub stopped: bool,
}

impl Core {
    pub(crate) fn new(config: Config) -> Core {
        Core {
            config,
            now: Now::default(),
            out: VecDeque::new(),
            names_lost: NamesLost::default(),
            next_token: 1,
            next_data: 0,
            stopping: false,
            stopped: false,
        }
    }

    /// Says what must be dropped above; with a token if somebody waits for it.
    pub(crate) fn invalidate(&mut self, what: Invalidation, wait: bool) -> Token {
        let token = if wait {
            self.next_token += 1;
            Token(self.next_token - 1)
        } else {
            Token::NONE
        };
        self.out.push_back(Output::Invalidate { token, what });
        token
    }
}
