//! Options and outcome of a run.

/// A fault built into the simulated driver on purpose: the checks must find each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Answers are released before the journal is written.
    EarlyDurable,
    /// A sync of the journal reports success and does nothing.
    JournalSyncDoesNothing,
    /// A sync of file data reports success and does nothing.
    DataSyncDoesNothing,
    /// Replay leaves a record out.
    ReplaySkips,
    /// Recalls are not sent; the network answers them itself.
    RecallsDropped,
    /// A client that comes back gets a new session that pretends to be the old one, so that nothing is recognised.
    SessionForgotten,
    /// A letter between ranks comes a second time, under the number of the next one.
    LettersDoubled,
    /// A migration arrives without the changes that the table does not have.
    ImportsEmptied,
    /// Settling makes no rows of the table durable: they may be lost in the next crash.
    SettleDoesNothing,
    /// A rank takes the wall clock for the one by which sessions live.
    SessionsByTheWallClock,
    /// A rank is told that the store refuses a client, and it does not.
    ShutOutDoesNothing,
    /// Replay forgets the last part of what was to be merged into a decoupled directory.
    PartsForgotten,
    /// Replay forgets the data of files that is in the journal.
    DataForgotten,
    /// A lookup in a decoupled directory, or below it, is answered with what the table says, and not refused.
    LookupsLetIn,
    /// A change there is refused only if its user may not make it, as elsewhere, and not because somebody has the directory for himself.
    ChangesLetIn,
    /// A rank does not say of what it lends to another one that it is in a decoupled directory.
    ApartNotSaid,
    /// The rank takes a journal that is kept in the store for longer than its owner said, or for shorter.
    KeptLonger,
    /// Shorter.
    KeptShorter,
    /// A client that takes a directory over merges the journal in the store, also if that was merged.
    KeptMergedTwice,
    /// Of what a merge puts into the table in bulk one row is left out.
    RowDropped,
    /// The state in which an owner says that it found an inode is replaced by the state in the table: as if the owner knew what others did
    /// meanwhile.
    BasesAnew,
    /// The record of a merge into the table is not replayed once the rows were said to be there, also if they are not durable.
    RowsTrimmedEarly,
    /// A rank is not told that what it holds a replica of changes; the network says that it has dropped it.
    ReplicasStay,
    /// A client is not told that somebody wants names back of a directory in fragments of several ranks; the network says that it has dropped them.
    PartNamesStay,
    /// A client takes what it was promised of directories for three times as long.
    LeasesLast,
    /// A rank that gives a replica back does not say what it has promised by it.
    PromisesNotSaid,
    /// The heat of what moves comes twice.
    HeatDoubled,
    /// Readers of a file are told that it reaches over the room that is only reserved at its end.
    RoomShown,
    /// A client that asks to be told when all answered changes are durable is told at once that they are.
    PersistAnsweredEarly,
    /// A rank does not say which records a crash took back: as if it had been none.
    LossNotTold,
    /// A rename that leads in or out of a relaxed directory is answered before it is durable.
    EdgeAnsweredEarly,
    /// A rank takes each lag that a policy says for an hour.
    LagIgnored,
}

impl Canary {
    /// All of them; those on letters, imports and settling need several ranks, that on wall clocks ones that jump, that on the store clients
    /// that reach file data by themselves, those from parts on decoupled directories: what is lent several ranks besides, what is kept
    /// journals in the store, how an owner found something one in which others work; that on replicas paths over several ranks, the one after it several
    /// ranks, the two after it lookup leases, the second of them and the one after that several ranks. The last four need relaxed directories.
    pub const ALL: [Canary; 32] = [
        Canary::EarlyDurable,
        Canary::JournalSyncDoesNothing,
        Canary::DataSyncDoesNothing,
        Canary::ReplaySkips,
        Canary::RecallsDropped,
        Canary::SessionForgotten,
        Canary::LettersDoubled,
        Canary::ImportsEmptied,
        Canary::SettleDoesNothing,
        Canary::SessionsByTheWallClock,
        Canary::ShutOutDoesNothing,
        Canary::PartsForgotten,
        Canary::DataForgotten,
        Canary::LookupsLetIn,
        Canary::ChangesLetIn,
        Canary::ApartNotSaid,
        Canary::KeptLonger,
        Canary::KeptShorter,
        Canary::KeptMergedTwice,
        Canary::RowDropped,
        Canary::BasesAnew,
        Canary::RowsTrimmedEarly,
        Canary::ReplicasStay,
        Canary::PartNamesStay,
        Canary::LeasesLast,
        Canary::PromisesNotSaid,
        Canary::HeatDoubled,
        Canary::RoomShown,
        Canary::PersistAnsweredEarly,
        Canary::LossNotTold,
        Canary::EdgeAnsweredEarly,
        Canary::LagIgnored,
    ];
}

/// Options of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Simulated time of the random part, milliseconds.
    pub duration_ms: u64,
    /// Number of ranks, from and to: chosen from the seed between these.
    pub ranks: (u64, u64),
    /// Ranks are added and drained at random, if there are several.
    pub members: bool,
    /// A balancer moves whatever it likes, by the worst policy, if there are several ranks.
    pub balance: bool,
    /// Programs fill directories, and empty and remove them, besides what they do else.
    pub removers: bool,
    /// At the end it is looked whether ranks have handles open that no client has. Not of itself: a rank remembers only so many handles
    /// that have moved, of some limits very few, and so one of some ten thousand seeds ends with some.
    pub handles: bool,
    /// The wall clocks of ranks and clients jump, each by itself, by up to an hour forward and back.
    pub clocks: bool,
    /// The store is a cluster's, and clients read and write file data there by themselves.
    pub direct: bool,
    /// Clients decouple directories now and then.
    pub subtrees: bool,
    /// Their owners keep journals in the store, and others take over what they have left.
    pub stored: bool,
    /// Others read the last merge of what is decoupled (`interfere = "read"`).
    pub readers: bool,
    /// Directories are made at ranks of their own (placement `giga`) below some of those that programs work in.
    pub scattered: bool,
    /// Programs find several names with one request, also of ranks that have nothing of it; and if directories are scattered, in half of the worlds their
    /// paths say where they are.
    pub paths: bool,
    /// Clients may go by what they were told of the directories that programs work in, for a time. With `paths` only: nobody asks for it else.
    pub leases: bool,
    /// Disks become full now and then, and have room again.
    pub full: bool,
    /// Nothing goes wrong by itself.
    pub calm: bool,
    /// Clients decouple a directory in which others work meanwhile.
    pub allow: bool,
    /// Some directories are relaxed: what is answered there may be lost in a crash, as far as their policy says.
    pub relaxed: bool,
    /// Keep what happened as lines; without it only numbers are hashed.
    pub trace: bool,
    /// Print the lines as they come.
    pub print: bool,
    /// A deliberate fault.
    pub canary: Option<Canary>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            duration_ms: 5_000,
            ranks: (1, 1),
            members: false,
            balance: false,
            removers: false,
            handles: false,
            clocks: false,
            direct: false,
            subtrees: false,
            stored: false,
            readers: false,
            allow: false,
            relaxed: false,
            scattered: false,
            paths: false,
            leases: false,
            full: false,
            calm: false,
            trace: false,
            print: false,
            canary: None,
        }
    }
}

/// Outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Names that were found by what clients had been promised of directories.
    pub led: u64,
    /// A number that follows from everything that happened.
    pub trace_hash: u64,
    /// Events.
    pub events: u64,
    /// Calls that clients made.
    pub calls: u64,
    /// Migrations that began.
    pub migrations: u64,
    /// Questions of balancers.
    pub decisions: u64,
    /// Migrations that balancers began, in the lives of all ranks.
    pub balanced: u64,
    /// Directories that were split and merged, in the last life of each rank.
    pub recuts: (u64, u64),
    /// Ranks that began to be drained, and those that were removed.
    pub drains: u64,
    /// Removed.
    pub removed: u64,
    /// Restarts of the server, crashes of clients, connections lost, sessions ended by the server.
    pub faults: [u64; 4],
    /// Operations that clients began in the store by themselves, and pieces of them that it refused.
    pub direct: u64,
    /// Pieces.
    pub refused: u64,
    /// Counts of the calls in decoupled directories.
    pub subtrees: crate::subtrees::Counts,
    /// And in one in which others worked meanwhile.
    pub shared: crate::shared::Counts,
    /// And in relaxed ones.
    pub relaxed: crate::relaxed::Counts,
    /// The history of names was too wide to be followed to the end.
    pub unchecked: bool,
    /// Violations that were found; empty for a clean run.
    pub findings: Vec<String>,
    /// The last lines, if a trace was asked for.
    pub trace: Vec<String>,
}
