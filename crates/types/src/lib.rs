//! The words every other crate speaks: ids, attributes, operations, answers, events, errors, limits.
//!
//! Plain data only. No IO, no clock, no encoding: the wire and the journal own their bytes.

pub mod acl;
pub mod answer;
pub mod attr;
pub mod balance;
pub mod beat;
pub mod control;
pub mod cred;
pub mod data;
pub mod error;
pub mod event;
pub mod grant;
pub mod hash;
pub mod heat;
pub mod ids;
pub mod inline_patch;
pub mod journal_mode;
pub mod lease;
pub mod limits;
pub mod link;
pub mod lock;
pub mod lookup_lease;
pub mod msg;
pub mod name;
pub mod op;
pub mod peer;
pub mod random;
pub mod rank;
pub mod record;
pub mod subtree;
pub mod table_meta;
pub mod time;

pub use acl::{Acl, AclEntry, AclTag};
pub use answer::{Answer, DirEntry, StatFs};
pub use attr::{Attr, Extra, Inode, Kind, Layout, Placement, RStat, Spread};
pub use balance::{Decision, Move, NO_POLICY, Piece, PieceHeat, PolicyId, RankView, Snapshot, Weighed, is_policy_name};
pub use beat::{Beat, Load, LoadField, LoadNumber, ThreadLoad};
pub use control::Control;
pub use cred::Cred;
pub use data::{DataAnswer, DataError, DataOp, Patches};
pub use error::{FsError, FsResult};
pub use event::{Event, EventView, Letter, MovedClient, Origin, PeerRecord, SessionRecord};
pub use grant::{Granted, InoGrant, InoGrants};
pub use heat::{FragHeat, Hit, LoadVec};
pub use ids::{Ino, Lsn, Seq, SessionId};
pub use inline_patch::InlinePatch;
pub use journal_mode::{JournalMode, Journaling};
pub use lease::Lease;
pub use lock::{FileLock, LockKind, LockOwner};
pub use lookup_lease::{LOOKUP_LEASE_MS_MAX, LeaseTime, LookupLease};
pub use name::Name;
pub use op::{
    About, Access, Adds, Again, ByOwner, Claims, DirEffect, NamesLease, OnTheWay, Op, OpKind, OpenFlags, Props,
    Reaches, RenameMode, Replicas, SetAttr, SetTime, Shows, Stamp, Subject, XattrMode, Xattrs, is_looked_at,
};
pub use random::Random;
pub use rank::{ClusterMap, Frag, Place, Rank, RankInfo, RankState, Route, Target};
pub use record::{Loaded, Need, XattrPair};
pub use subtree::{
    Conflict, ConflictKind, DecoupledRecord, Interfere, MergeInto, Overwritten, Promise, RefusedBy, SplitRule,
    StoredJournal, SubtreeAnswer, SubtreeOp,
};
pub use table_meta::TableMeta;
pub use time::Time;
