//! Messages to a rank's thread, from other threads and from the server's owner. Not here: their handling (`rank.rs`).

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use loligo_mds::IdentityKey;
use loligo_mds::admin::Told;
use loligo_mds::peer::PeerMsg;
use loligo_namespace::{Loaded, MergedRows};
use loligo_store::{LogFile, StoreError};
use loligo_types::{Ino, Lsn};

use super::super::data::DataDone;
use super::super::link::Link;
use super::super::listen::Listeners;
use super::super::queue::Inbox;
use super::super::resident::Ask;
use super::super::{RankStatus, journal};

/// Results from other threads.
pub(crate) enum Done {
    Durable(Lsn),
    JournalFailed(String),
    /// Syncs are so cheap that the rank thread should do them.
    JournalHere(Box<journal::Journal>),
    /// A write of the journal, and all before it, has landed.
    Landed {
        lsn: Lsn,
        begun: Instant,
        done: Result<(), StoreError>,
    },
    /// A segment of the journal was made.
    SegmentHere {
        id: u64,
        made: Result<Box<dyn LogFile>, StoreError>,
    },
    Loaded {
        ticket: u64,
        items: Vec<Loaded>,
        rows: u64,
    },
    LoadGoesOn {
        ticket: u64,
        dir: Ino,
        from_hash: u64,
    },
    LoadFailed {
        ticket: u64,
    },
    /// Inodes that may have objects of which they do not tell; `done` hears when those are dropped.
    Strays {
        inos: Arc<[Ino]>,
        done: Sender<bool>,
    },
    /// The store has said that it is another server's by now, which is not an answer to anybody.
    Replaced(String),
    /// `full`: it failed; for want of space if true.
    Checkpoint {
        id: u64,
        full: Option<bool>,
    },
    /// [`loligo_mds::Output::MergeRows`] is done; `None`: not all of it.
    MergeRows {
        id: u64,
        merged: Option<Box<MergedRows>>,
    },
    /// [`loligo_mds::Output::Settle`] is done.
    Settled {
        table_upto: Lsn,
    },
    Data(DataDone),
    StatFs(loligo_store::StatFs),
    /// Another rank says something.
    Peer {
        from: loligo_types::Rank,
        msg: Box<PeerMsg>,
    },
    /// Result of [`loligo_mds::Output::Scan`].
    Scanned {
        ticket: u64,
        page: Option<loligo_mds::Page>,
    },
    /// The cluster map has changed.
    Map(loligo_types::ClusterMap),
    /// There is another rank, which can be reached there.
    Joined {
        map: loligo_types::ClusterMap,
        rank: loligo_types::Rank,
        inbox: Arc<Inbox<Done>>,
    },
    /// Clients are to begin at another rank, which this is the inbox of.
    GiveDoor {
        to: Arc<Inbox<Done>>,
    },
    /// Clients begin here.
    TakeDoor(Box<Listeners>),
    /// A rank was removed.
    Parted {
        map: loligo_types::ClusterMap,
        rank: loligo_types::Rank,
    },
    /// There is a way to a rank of another process.
    LinkUp {
        rank: loligo_types::Rank,
        process: u64,
        link: Arc<Link>,
    },
    /// There is none any more; of a certain life of it, if one is named.
    LinkDown {
        rank: loligo_types::Rank,
        process: Option<u64>,
    },
    /// Another rank of this process has ended, and goes on in another one.
    Away {
        rank: loligo_types::Rank,
    },
    /// Decision of the balancer's policy.
    Decided(loligo_types::Decision),
    /// Something for the keeper of the cluster map.
    Say(loligo_mds::Member),
    /// The store refuses the client of a session that ends.
    ShutOut(loligo_types::SessionId),
    /// These identities are left.
    Identities(Arc<BTreeSet<IdentityKey>>),
    /// The last rank of the process has come to a clean stop.
    AllStopped,
    /// Another rank has failed.
    OtherFailed(String),
    Command(Command),
    Resident(Ask),
}

/// Orders of the server's owner.
pub(crate) enum Command {
    Stop,
    /// Stop this rank alone.
    Leave,
    /// Stop the ranks of this process alone.
    Depart,
    /// Stop this rank, with all it has in the table: it goes on elsewhere.
    HandOver,
    Abandon,
    Adopt(OwnedFd),
    Status(Sender<RankStatus>),
    Admin(loligo_mds::admin::Ask, Sender<Told>),
}
