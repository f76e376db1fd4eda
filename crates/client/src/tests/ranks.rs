//! Two ranks, played by hand: who is asked what, and what moves with the map.

mod away;
mod cut;
mod direct;
mod ends;
mod forgotten;
mod guessed;
mod late;
mod locks;
mod lost;
mod members;
mod numbers;
mod outgrown;
mod raw;
mod stayed;
mod suspended;
mod unsynced;
mod volatile;
mod ways;

use std::sync::Arc;

use loligo_types::msg::{Hello, Refusal, Request, ToClient, ToServer, Welcome};
use loligo_types::{
    Answer, Attr, ClusterMap, Control, Cred, DataAnswer, DataError, DataOp, DirEntry, Frag, FsError, Ino, Inode, Kind,
    Lease, Name, Op, OpenFlags, Rank, RankInfo, RankState, Route, Seq, SessionId, Time,
};

use super::net::rw;
use crate::{Call, CallId, CallResult, Client, Config, Fh, Input, Invalidation, Now, Output};

const R0: Rank = Rank(0);
const R1: Rank = Rank(1);
const R2: Rank = Rank(2);
const DIR: Ino = Ino(0x100);
const FILE: Ino = Ino(0x101);

/// An output of the client on its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wire {
    Connect(Rank, Option<String>),
    Disconnect(Rank),
    Hello(Rank, Hello),
    Ask(Rank, u64, Op),
    Data(Rank, u64, DataOp),
    Other(Rank, ToServer),
}

/// A client and its ranks.
struct Ranks {
    client: Client,
    ms: u64,
    next: u64,
    wire: Vec<Wire>,
    done: Vec<(u64, CallResult)>,
    dropped: Vec<(crate::Token, Invalidation)>,
    /// Of each creation: to whom, its number, and the inode number that it names.
    named: Vec<(Rank, u64, Option<Ino>)>,
    refused: bool,
    /// Clocks that run apart from the client's.
    clocks: Vec<(Rank, crate::Runs)>,
    /// Requests for the store.
    direct: Vec<loligo_types::msg::DataRequest>,
}

fn map(ranks: u16) -> ClusterMap {
    let info = |rank| RankInfo { rank: Rank(rank), address: format!("at {rank}"), state: RankState::Up };
    ClusterMap { epoch: u64::from(ranks), ranks: (0..ranks).map(info).collect(), ..Default::default() }
}

fn route(dir: Ino, rank: Rank, version: u64) -> Route {
    Route { dir, frag: Frag::WHOLE, rank, version }
}

fn welcome(rank: Rank, ranks: u16) -> Welcome {
    Welcome {
        version: 2,
        session: SessionId(u64::from(rank.0) + 1),
        secret: 1,
        resumed: false,
        kept: false,
        fs_id: [7; 16],
        inline_max: 64,
        session_ms: 10_000,
        data_epoch: 1,
        rank,
        hash_key: (5, 6),
        map: map(ranks),
        routes: vec![route(Ino::ROOT, R0, 1)],
        direct: String::new(),
        recovered: loligo_types::Lsn(0),
        journal_max: 0,
    }
}

fn attr(ino: Ino, kind: Kind) -> Attr {
    Inode::new(ino, kind, 0o755, 0, 0, Ino::ROOT, Time(1)).attr()
}

fn entry(ino: Ino, kind: Kind) -> Answer {
    Answer::Entry(attr(ino, kind))
}

fn opened(ino: Ino, inline: bool, rights: Lease) -> Answer {
    let attr = Attr { inline, size: 0, ..attr(ino, Kind::File) };
    Answer::Opened { attr, created: false, rights, data: None }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn lookup(dir: Ino, text: &str) -> Call {
    Call::Op(Op::Lookup { dir, name: name(text) })
}

fn create(dir: Ino, text: &str) -> Call {
    Call::Create { dir, name: name(text), mode: 0o644, umask: 0, flags: rw(), exclusive: false }
}

fn write(fh: Fh, data: &[u8]) -> Call {
    Call::Write { fh, offset: 0, data: Arc::from(data), append: false, kill_priv: false }
}

/// The request of the first rank's with whose answer it has taken back what was held there before it restarted.
fn reclaims(wire: &[Wire]) -> u64 {
    let reclaims = |wire: &Wire| match wire {
        Wire::Ask(R0, seq, Op::Control(Control::Close { handles, .. })) if handles.is_empty() => Some(*seq),
        _ => None,
    };
    wire.iter().find_map(reclaims).unwrap_or_else(|| panic!("{wire:?}"))
}

/// Closes a file: which ranks are told.
fn closes(world: &mut Ranks, fh: Fh) -> Vec<Rank> {
    let id = world.call(Call::Release { fh, flock_owner: None });
    world.result(id).unwrap();
    world.feed(Input::Tick);
    let wire = world.take();
    let closed = |wire: &Wire| match wire {
        Wire::Ask(rank, _, Op::Control(Control::Close { handles, .. })) if *handles == [1] => Some(*rank),
        _ => None,
    };
    wire.iter().filter_map(closed).collect()
}

impl Ranks {
    /// Connected to rank 0, of so many.
    fn of(ranks: u16) -> Ranks {
        let mut world = Ranks::unconnected(Config { client: 77, close_delay_ms: 0, ..Config::default() });
        world.connect(R0, welcome(R0, ranks));
        world
    }

    fn unconnected(config: Config) -> Ranks {
        let (wire, done, dropped, named, direct) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let client = Client::new(config);
        Ranks { client, ms: 1, next: 1, wire, done, dropped, named, refused: false, clocks: Vec::new(), direct }
    }

    fn feed(&mut self, input: Input) {
        self.client.handle(Now { ms: self.ms, wall: Time(5) }, input);
        while let Some(output) = self.client.poll() {
            match output {
                Output::Send { rank, message } => self.wire.push(match message {
                    ToServer::Hello(hello) => Wire::Hello(rank, hello),
                    ToServer::Request(Request { seq, op, ino, .. }) => {
                        if op.makes_inode() {
                            self.named.push((rank, seq.0, ino));
                        }
                        Wire::Ask(rank, seq.0, op)
                    }
                    ToServer::Data(request) => Wire::Data(rank, request.id, request.op),
                    message => Wire::Other(rank, message),
                }),
                Output::Connect { rank, address } => self.wire.push(Wire::Connect(rank, address)),
                Output::Disconnect { rank } => self.wire.push(Wire::Disconnect(rank)),
                Output::Direct { request, .. } => self.direct.push(request),
                Output::Complete { id, result } => self.done.push((id.0, result)),
                Output::Invalidate { token, what } => self.dropped.push((token, what)),
                Output::Refused { .. } => self.refused = true,
                Output::Keep { .. }
                | Output::KeptMerged { .. }
                | Output::KeptLost { .. }
                | Output::StageFailed { .. } => panic!("not decoupled"),
                Output::ClockRuns { rank, runs } => self.clocks.push((rank, runs)),
                Output::Ready { .. } | Output::Doubt { .. } | Output::Stopped => {}
            }
        }
    }

    fn says(&mut self, rank: Rank, message: ToClient) {
        self.feed(Input::Message { rank, message });
    }

    /// A connection is made, and the rank says welcome; what it was told first.
    fn connect(&mut self, rank: Rank, welcome: Welcome) -> Hello {
        self.feed(Input::Connected { rank });
        let hello = match self.take().pop() {
            Some(Wire::Hello(to, hello)) if to == rank => hello,
            other => panic!("no hello to {rank}: {other:?}"),
        };
        self.says(rank, ToClient::Welcome(welcome));
        hello
    }

    /// The second rank, after the client asked for it.
    fn connect_second(&mut self) {
        assert_eq!(self.take(), [Wire::Connect(R1, Some("at 1".into()))]);
        assert_eq!(self.connect(R1, welcome(R1, 2)).client, 77);
    }

    /// A session with the second rank, which a lookup found that has nothing to do with the test.
    fn meet_second(&mut self) {
        let id = self.call(lookup(Ino(0x180), "x"));
        self.redirects(R0, R1, &[], None);
        self.connect_second();
        self.answers(R1, entry(Ino(0x1ff), Kind::File));
        self.result(id).unwrap();
    }

    /// The first rank is asked, before anything is written, whether it knows the first handle, and does.
    fn knows_handle(&mut self) {
        let op = self.answers(R0, Answer::Lock(None));
        assert!(matches!(op, Op::Control(Control::GetLock { handle: 1, .. })), "{op:?}");
    }

    fn call(&mut self, call: Call) -> u64 {
        let id = self.next;
        self.next += 1;
        self.feed(Input::Call { id: CallId(id), cred: Arc::new(Cred::root()), call });
        id
    }

    fn take(&mut self) -> Vec<Wire> {
        std::mem::take(&mut self.wire)
    }

    /// The only request since the last look: to whom, its number, what.
    fn asked(&mut self) -> (Rank, u64, Op) {
        let wire = self.take();
        match &wire[..] {
            [Wire::Ask(rank, seq, op)] => (*rank, *seq, op.clone()),
            other => panic!("not one request: {other:?}"),
        }
    }

    fn answer(&mut self, rank: Rank, seq: u64, answer: Answer, granted: &[(Ino, Lease)]) {
        let granted = granted.to_vec();
        self.says(rank, ToClient::reply_with(seq, Ok(answer), granted));
    }

    /// Answers the only request, which must be for this rank.
    fn answers(&mut self, rank: Rank, answer: Answer) -> Op {
        let (at, seq, op) = self.asked();
        assert_eq!(at, rank, "{op:?}");
        self.answer(rank, seq, answer, &[]);
        op
    }

    fn redirects(&mut self, rank: Rank, to: Rank, routes: &[Route], done: Option<(Ino, u64)>) -> Op {
        let (at, seq, op) = self.asked();
        assert_eq!(at, rank, "{op:?}");
        self.says(rank, ToClient::Redirect { seq: Seq(seq), rank: to, routes: routes.to_vec(), done });
        op
    }

    fn result(&mut self, id: u64) -> CallResult {
        let at = self.done.iter().position(|(done, _)| *done == id).unwrap_or_else(|| panic!("no answer to {id}"));
        self.done.remove(at).1
    }

    /// Both ranks connected, and a directory known which is the second's.
    fn with_second() -> Ranks {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        let id = world.call(lookup(DIR, "a"));
        world.redirects(R0, R1, &[route(DIR, R1, 1)], None);
        world.connect_second();
        world.answers(R1, entry(Ino(0x1ff), Kind::File));
        world.result(id).unwrap();
        world
    }

    fn look_up_dir(&mut self) {
        let id = self.call(lookup(Ino::ROOT, "d"));
        self.answers(R0, entry(DIR, Kind::Dir));
        self.result(id).unwrap();
    }

    /// Looks a name up in a directory of the first rank, which lends the names of that, and the attributes of the file.
    fn look_up_lent(&mut self, file: Ino) {
        let id = self.call(lookup(DIR, "x"));
        let (_, seq, _) = self.asked();
        self.answer(R0, seq, entry(file, Kind::File), &[(DIR, Lease::NAMES), (file, Lease::ATTR)]);
        assert!(self.result(id).unwrap().names_cached);
    }

    /// A new file, open at a rank.
    fn create(&mut self, rank: Rank, dir: Ino, ino: Ino, inline: bool, rights: Lease) -> Fh {
        let id = self.call(create(dir, &ino.to_string()));
        self.answers(rank, opened(ino, inline, rights));
        self.result(id).unwrap().fh.unwrap()
    }

    fn write(&mut self, fh: Fh, data: &[u8]) {
        let id = self.call(write(fh, data));
        self.result(id).unwrap();
        assert_eq!(self.take(), []);
    }

    /// A rank does not know the handles that it is asked for. What else was sent since the last look.
    fn knows_no_handle(&mut self, rank: Rank) -> Vec<Wire> {
        let (asks, rest): (Vec<_>, Vec<_>) = self
            .take()
            .into_iter()
            .partition(|wire| matches!(wire, Wire::Ask(_, _, Op::Control(Control::GetLock { .. }))));
        for ask in asks {
            let Wire::Ask(at, seq, _) = ask else { continue };
            assert_eq!(at, rank);
            self.says(rank, ToClient::reply(seq, Err(FsError::BadHandle)));
        }
        rest
    }

    fn moves(&mut self, kept: bool) {
        self.says(
            R0,
            ToClient::Routes {
                routes: vec![route(DIR, R1, 1)],
                moved: vec![DIR, FILE, Ino(0x102)],
                to: Some(R1),
                frozen_ms: 0,
            },
        );
        assert_eq!(self.take(), [Wire::Connect(R1, Some("at 1".into()))]);
        self.connect(R1, Welcome { kept, ..welcome(R1, 2) });
    }
}

#[test]
fn with_one_rank_the_same_messages_are_sent_as_ever() {
    let mut world = Ranks::of(1);
    assert_eq!(world.take(), []);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"abc");
    let flush = world.call(Call::Flush { fh, owner: None });
    let op = world.answers(R0, entry(FILE, Kind::File));
    assert!(matches!(op, Op::WriteInline { offset: Some(0), .. }));
    world.result(flush).unwrap();
    let release = world.call(Call::Release { fh, flock_owner: None });
    world.result(release).unwrap();
    world.feed(Input::Tick);
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Close { handles: vec![1], lost: false }));
    let statfs = world.call(Call::Op(Op::StatFs));
    assert_eq!(world.asked(), (R0, 5, Op::StatFs));
    assert!(!world.done.iter().any(|(id, _)| *id == statfs));
    world.ms += 4000;
    world.feed(Input::Tick);
    assert_eq!(world.take(), [Wire::Other(R0, ToServer::Ping)]);
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(world.take(), [Wire::Connect(R0, None)]);
    let hello = world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 1) });
    assert_eq!(hello.resume, Some((SessionId(1), 1)));
    assert_eq!(world.asked(), (R0, 5, Op::StatFs));
}

#[test]
fn a_wrong_guess_is_redirected_once_and_what_is_beside_goes_straight() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let id = world.call(lookup(DIR, "a"));
    assert_eq!(world.redirects(R0, R1, &[route(DIR, R1, 4)], None), Op::Lookup { dir: DIR, name: name("a") });
    world.connect_second();
    let (rank, seq, op) = world.asked();
    assert_eq!((rank, seq, op), (R1, 1, Op::Lookup { dir: DIR, name: name("a") }));
    world.answer(R1, 1, entry(FILE, Kind::File), &[(DIR, Lease::NAMES), (FILE, Lease::ATTR)]);
    let done = world.result(id).unwrap();
    assert!(done.attr_cached && done.names_cached);
    for (call, rank) in [
        (lookup(DIR, "b"), R1),
        (Call::GetAttr { ino: FILE }, R1),
        (create(DIR, "c"), R1),
        (lookup(Ino::ROOT, "e"), R0),
        (Call::Op(Op::StatFs), R0),
        (Call::Op(Op::LookupParent { dir: DIR }), R1),
    ] {
        world.call(call);
        assert_eq!(world.asked().0, rank);
    }
}

#[test]
fn a_name_whose_inode_is_elsewhere_is_looked_up_at_both() {
    let mut world = Ranks::of(2);
    let id = world.call(lookup(Ino::ROOT, "r"));
    let (_, seq, _) = world.asked();
    let remote = Answer::Remote { ino: FILE, kind: Kind::File, rank: R1 };
    world.answer(R0, seq, remote.clone(), &[(Ino::ROOT, Lease::NAMES)]);
    world.connect_second();
    let (rank, seq, op) = world.asked();
    assert_eq!((rank, op), (R1, Op::GetAttr { ino: FILE }));
    world.answer(R1, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
    let done = world.result(id).unwrap();
    assert!(done.attr_cached && done.names_cached);
    assert_eq!(done.attr().unwrap().ino, FILE);
    // The second name of a file says nothing about where the file is.
    world.call(Call::GetAttr { ino: FILE });
    assert_eq!(world.asked().0, R1);
    // Gone meanwhile: that is not the absence of the name.
    let id = world.call(lookup(Ino::ROOT, "s"));
    world.answers(R0, remote);
    let (_, seq, _) = world.asked();
    world.says(R1, ToClient::reply(seq, Err(FsError::NotFound)));
    let failed = world.result(id).unwrap_err();
    assert_eq!((failed.error, failed.names_cached), (FsError::Stale, false));
}

#[test]
fn a_create_that_finds_a_file_elsewhere_opens_it_there() {
    let mut world = Ranks::of(2);
    let id = world.call(create(Ino::ROOT, "f"));
    world.answers(R0, Answer::Remote { ino: FILE, kind: Kind::File, rank: R1 });
    world.connect_second();
    let op = world.answers(R1, opened(FILE, true, Lease::NONE));
    assert_eq!(op, Op::Open { ino: FILE, flags: rw(), handle: 1 });
    let done = world.result(id).unwrap();
    assert!(matches!(done.answer, Answer::Opened { created: false, .. }));
    world.call(Call::Release { fh: done.fh.unwrap(), flock_owner: None });
    world.feed(Input::Tick);
    assert_eq!(world.answers(R1, Answer::Done), Op::Control(Control::Close { handles: vec![1], lost: false }));
}

#[test]
fn what_was_done_before_it_moved_is_not_done_again() {
    let mut world = Ranks::with_second();
    world.says(R1, ToClient::Routes { routes: vec![route(DIR, R0, 2)], moved: Vec::new(), to: None, frozen_ms: 0 });
    let id = world.call(create(DIR, "f"));
    world.redirects(R0, R1, &[route(DIR, R1, 3)], Some((FILE, 1)));
    let op = world.answers(R1, opened(FILE, true, Lease::NONE));
    assert_eq!(op, Op::Open { ino: FILE, flags: OpenFlags { truncate: false, ..rw() }, handle: 1 });
    assert!(matches!(world.result(id).unwrap().answer, Answer::Opened { created: true, .. }));

    let id = world.call(Call::Op(Op::Mkdir { dir: DIR, name: name("m"), mode: 0o755, umask: 0 }));
    world.redirects(R1, R0, &[route(DIR, R0, 4)], Some((Ino(0x150), 0)));
    assert_eq!(world.answers(R0, entry(Ino(0x150), Kind::Dir)), Op::GetAttr { ino: Ino(0x150) });
    assert_eq!(world.result(id).unwrap().attr().unwrap().ino, Ino(0x150));

    let id = world.call(Call::Op(Op::Unlink { dir: DIR, name: name("m") }));
    world.redirects(R0, R1, &[route(DIR, R1, 5)], Some((Ino(0), 0)));
    assert_eq!(world.take(), []);
    assert_eq!(world.result(id).unwrap().answer, Answer::Done);
}

#[test]
fn what_is_held_back_is_written_where_the_file_has_moved() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    let other = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"moved");
    world.write(other, b"stays");
    world.moves(true);
    assert_eq!(world.take(), []);
    for (fh, rank, ino) in [(fh, R1, FILE), (other, R0, Ino(0x200))] {
        let id = world.call(Call::Flush { fh, owner: None });
        let op = world.answers(rank, entry(ino, Kind::File));
        assert!(matches!(op, Op::WriteInline { ino: of, .. } if of == ino));
        world.result(id).unwrap();
    }
}

#[test]
fn an_open_directory_is_listed_and_closed_where_it_has_moved() {
    let mut world = Ranks::of(2);
    let fhs = [DIR, Ino(0x120)].map(|ino| {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let id = world.call(Call::Open { ino, flags });
        let attr = attr(ino, Kind::Dir);
        world.answers(R0, Answer::Opened { attr, created: false, rights: Lease::NONE, data: None });
        world.result(id).unwrap().fh.unwrap()
    });
    // Of one it is told by the map, of the other when it is listed.
    world.moves(true);
    let listing = |fh| Call::Readdir { fh, cookie: 0, limit: 9, plus: false };
    let end = Answer::Entries { entries: Vec::new(), next: 0, end: true };
    world.call(listing(fhs[0]));
    world.answers(R1, end.clone());
    world.call(listing(fhs[1]));
    world.redirects(R0, R1, &[], None);
    assert!(matches!(world.answers(R1, end), Op::Readdir { handle: Some(2), .. }));
    for fh in fhs {
        world.call(Call::Release { fh, flock_owner: None });
    }
    world.feed(Input::Tick);
    // Of the other one it may be that the rank had the name alone that it was asked for.
    assert_eq!(world.closes(), [(R0, vec![2]), (R1, vec![1, 2])]);
}

#[test]
fn data_follows_a_file_that_moved_unheard() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"to objects");
    let flush = world.call(Call::Flush { fh, owner: None });
    let wire = world.take();
    let [Wire::Data(R0, id, DataOp::Write { .. })] = wire[..] else { panic!("{wire:?}") };
    world.says(R0, ToClient::Data { id, result: Err(DataError::Moved) });
    world.redirects(R0, R1, &[], None);
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    world.connect(R1, Welcome { kept: true, ..welcome(R1, 2) });
    // What it held may have been lost on the way.
    let wire = world.take();
    let [
        Wire::Ask(R1, 1, Op::Control(Control::GetLock { handle: 1, .. })),
        Wire::Ask(R1, 2, Op::GetAttr { ino: FILE }),
    ] = wire[..]
    else {
        panic!("{wire:?}")
    };
    world.answer(R1, 2, Answer::Entry(Attr { inline: false, ..attr(FILE, Kind::File) }), &[]);
    assert_eq!(world.take(), []);
    world.answer(R1, 1, Answer::Lock(None), &[]);
    let wire = world.take();
    let [Wire::Data(R1, id, DataOp::Write { .. })] = wire[..] else { panic!("{wire:?}") };
    world.says(R1, ToClient::Data { id, result: Ok(DataAnswer::Done) });
    let op = world.answers(R1, entry(FILE, Kind::File));
    assert!(matches!(op, Op::SetData { ino: FILE, .. }));
    world.result(flush).unwrap();
}

#[test]
fn data_that_is_asked_for_where_a_file_was_before_a_restart_follows_it() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"to objects");
    let flush = world.call(Call::Flush { fh, owner: None });
    let wire = world.take();
    let [Wire::Data(R0, id, DataOp::Write { .. })] = wire[..] else { panic!("{wire:?}") };
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.feed(Input::Disconnected { rank: R0 });
    world.connect(R0, Welcome { resumed: true, kept: false, routes: vec![route(DIR, R1, 1)], ..welcome(R0, 2) });
    // The rank that had it has forgotten that, and where it went.
    world.says(R0, ToClient::Data { id, result: Err(DataError::Stale) });
    world.connect(R1, Welcome { kept: true, ..welcome(R1, 2) });
    let there = |wire: &Wire| matches!(wire, Wire::Data(R1, again, DataOp::Write { .. }) if *again == id);
    let wire = world.take();
    assert!(wire.iter().any(there), "{wire:?}");
    world.says(R1, ToClient::Data { id, result: Ok(DataAnswer::Done) });
    let wire = world.take();
    let seq = wire.iter().find_map(|wire| match wire {
        Wire::Ask(R1, seq, Op::SetData { ino: FILE, .. }) => Some(*seq),
        _ => None,
    });
    world.answer(R1, seq.expect("it is told of it"), entry(FILE, Kind::File), &[]);
    world.result(flush).unwrap();
}

#[test]
fn a_session_lost_at_one_rank_leaves_the_files_of_the_other_alone() {
    let mut world = Ranks::with_second();
    let here = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    let there = world.create(R1, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(here, b"kept");
    world.write(there, b"lost");
    let look = world.call(lookup(DIR, "x"));
    let make = world.call(Call::Op(Op::Unlink { dir: DIR, name: name("y") }));
    let other = world.call(lookup(Ino::ROOT, "z"));
    world.take();
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    world.connect(R1, welcome(R1, 2));
    let again = Wire::Ask(R1, 5, Op::Lookup { dir: DIR, name: name("x") });
    let close = Wire::Ask(R0, 5, Op::Control(Control::Close { handles: vec![2], lost: true }));
    assert_eq!(world.take(), [close, again], "it may have moved there; and it is harmless to ask again");
    assert_eq!(world.result(make).unwrap_err().error, FsError::Io);
    assert!(!world.done.iter().any(|(id, _)| *id == look || *id == other));
    let flush = world.call(Call::Flush { fh: there, owner: None });
    assert_eq!(world.result(flush).unwrap_err().error, FsError::Io);
    let flush = world.call(Call::Flush { fh: here, owner: None });
    assert!(matches!(world.answers(R0, entry(Ino(0x200), Kind::File)), Op::WriteInline { .. }));
    world.result(flush).unwrap();
}

#[test]
fn a_restarted_rank_is_told_of_all_files_because_their_move_may_not_have_been_heard() {
    let mut world = Ranks::with_second();
    world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.create(R1, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, ..welcome(R1, 2) });
    let wire = world.take();
    let Some(Wire::Other(R1, ToServer::Reclaim(claim))) = wire.first() else { panic!("{wire:?}") };
    assert_eq!(claim.opens.iter().map(|open| open.1).collect::<Vec<_>>(), [Ino(0x200), FILE]);
}

#[test]
fn a_recall_is_answered_to_the_rank_that_asked() {
    let mut world = Ranks::with_second();
    let id = world.call(lookup(DIR, "f"));
    let (_, seq, _) = world.asked();
    world.answer(R1, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
    assert!(world.result(id).unwrap().attr_cached);
    world.says(R1, ToClient::Recall { ino: FILE, id: 3, bits: Lease::ATTR });
    let (token, what) = world.dropped.pop().unwrap();
    assert_eq!(what, Invalidation::Attr(FILE));
    assert_eq!(world.take(), []);
    world.feed(Input::Invalidated { token });
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::RecallDone { ino: FILE, id: 3 })]);
}

#[test]
fn leases_move_with_the_map_and_are_given_back_where_they_are() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let id = world.call(lookup(DIR, "f"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
    world.result(id).unwrap();
    world.moves(true);
    world.says(R1, ToClient::Recall { ino: FILE, id: 8, bits: Lease::ATTR });
    let (token, what) = world.dropped.pop().unwrap();
    assert_eq!(what, Invalidation::Attr(FILE));
    world.feed(Input::Invalidated { token });
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::RecallDone { ino: FILE, id: 8 })]);
    let id = world.call(lookup(DIR, "f"));
    let (_, seq, _) = world.asked();
    world.answer(R1, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
    world.result(id).unwrap();
    world.call(Call::Forget { inos: vec![FILE] });
    world.feed(Input::Tick);
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::Release(vec![(FILE, Lease::ATTR)]))]);
}

#[test]
fn a_sync_of_everything_is_done_when_all_ranks_have_done_it() {
    let mut world = Ranks::with_second();
    for call in [Call::SyncAll, Call::Op(Op::Control(Control::Sync))] {
        let id = world.call(call);
        let wire = world.take();
        let [Wire::Ask(R0, first, Op::Control(Control::Sync)), Wire::Ask(R1, second, Op::Control(Control::Sync))] =
            wire[..]
        else {
            panic!("{wire:?}")
        };
        world.answer(R1, second, Answer::Done, &[]);
        assert!(world.done.is_empty());
        world.answer(R0, first, Answer::Done, &[]);
        world.result(id).unwrap();
    }
}

#[test]
fn a_listing_tells_which_fragment_its_files_are_in() {
    let mut world = Ranks::with_second();
    let halves = Frag::WHOLE.split(1);
    let line = |frag, rank| Route { dir: DIR, frag, rank, version: 7 };
    world.says(
        R0,
        ToClient::Routes {
            routes: vec![line(halves[0], R0), line(halves[1], R1)],
            moved: Vec::new(),
            to: None,
            frozen_ms: 0,
        },
    );
    let listing = |cookie| Call::Op(Op::Readdir { dir: DIR, cookie, limit: 9, plus: true, handle: None });
    world.call(listing(0));
    let file = |ino, cookie| DirEntry {
        name: name("n"),
        ino,
        kind: Kind::File,
        cookie,
        attr: Some(attr(ino, Kind::File)),
        lease: Lease::NONE,
    };
    let entries = vec![file(Ino(0x300), halves[0].last()), file(Ino(0x301), halves[1].first())];
    world.answers(R0, Answer::Entries { entries, next: halves[1].first(), end: false });
    // What follows is asked of the rank that has it, before the listing is answered.
    let op = world.answers(R1, Answer::Entries { entries: Vec::new(), next: 0, end: true });
    assert!(matches!(op, Op::Readdir { cookie, limit: 7, .. } if cookie == halves[1].first()), "{op:?}");
    for (call, rank) in [
        (Call::GetAttr { ino: Ino(0x300) }, R0),
        (Call::GetAttr { ino: Ino(0x301) }, R1),
        (listing(halves[1].first()), R1),
    ] {
        world.call(call);
        assert_eq!(world.asked().0, rank);
    }
}
