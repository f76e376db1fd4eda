//! The other ranks as this one talks to them: the links, and whether all have said hello. Not what is said.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use loligo_types::{Letter, Loaded, Lsn, Rank};

use crate::peer::PeerMsg;

/// The state.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) links: BTreeMap<Rank, Link>,
    /// Changes with each start.
    pub(crate) life: u64,
    /// All others have said hello, and what they had promised by then is done.
    pub(crate) ready: bool,
    /// Requests wait for what is on its way between other ranks, until the next tick.
    pub(super) again: bool,
    /// Clients that have ended lately, as other ranks say, the newest last.
    pub(super) gone: VecDeque<u64>,
}

/// State of the link to another rank.
#[derive(Default)]
pub(crate) struct Link {
    /// There is a connection.
    pub(crate) up: bool,
    /// It has said hello on this connection.
    pub(crate) greeted: bool,
    /// Messages that came over this connection while this rank could not say hello yet; none once it has.
    pub(crate) early: Option<Vec<PeerMsg>>,
    /// Its life, when it last said hello.
    pub(crate) life: u64,
    /// It has promised letters up to this one before it said hello; its requests of before are void when they are here.
    pub(crate) promised: u64,
    /// It has said hello since this rank started, and its letters of before have come.
    pub(crate) settled: bool,
    /// Letters to it that it has not said to have: number, record, letter.
    pub(crate) outbox: VecDeque<(u64, Lsn, Arc<Letter>)>,
    /// Letters up to here were sent over this connection.
    pub(crate) sent: u64,
    /// It has letters up to here.
    pub(crate) received: u64,
    /// It needs none up to here again.
    pub(crate) acked: u64,
    /// Letters from it that were not applied yet.
    pub(crate) inbox: VecDeque<(u64, Arc<Letter>)>,
    /// Imports from it that the table does not have yet: number, record.
    pub(crate) landing: VecDeque<(u64, Lsn)>,
    /// Records of what its next migration brings.
    pub(crate) cached: Vec<Loaded>,
    /// A directory is being read for the letter at the head of the inbox.
    pub(crate) reading: bool,
    /// It has said that it has nothing any more, and waits to hear that nothing will come to it.
    pub(crate) empty: bool,
    /// It has said that nothing will come from it.
    pub(crate) farewell: bool,
}
