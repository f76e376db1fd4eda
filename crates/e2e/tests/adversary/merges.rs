//! A limited client that has a directory of its path decoupled, and says in fetches and merges what is elsewhere. More of what a merge could
//! say stands in `crates/mds/src/tests/decouple/escape.rs`, drawn ones in `fuzz/fuzz_targets/merge_part.rs`.

use loligo_driver::client::Call;
use loligo_e2e::raw::bytes::{Message, put_varint, take_varint};
use loligo_e2e::raw::{Fault, Wire, error};
use loligo_types::{
    DecoupledRecord, Event, Frag, Ino, Inode, Interfere, Kind, Letter, Name, Op, PeerRecord, Rank, Route, SessionId,
    SessionRecord, Time, XattrMode,
};

use super::requests::subtree;
use super::site::Site;

const POLICY: &[u8] = b"loligo.policy.subtree";

/// A connection that has `/mine/job` decoupled.
struct Owner {
    wire: Wire,
    job: u64,
    epoch: u64,
    /// The first number that it may make something with.
    own: u64,
}

impl Owner {
    fn new(site: &Site, client: u64) -> Owner {
        Owner::on_terms(site, client, 0)
    }

    /// `terms`: its promise and what others meet, as on the wire (docs/formats/event.md, "Decoupled subtree").
    fn on_terms(site: &Site, client: u64, terms: u8) -> Owner {
        let mut owner = Owner { wire: site.bound(client).0, job: site.job, epoch: 0, own: 0 };
        let told =
            owner.ask(&[&subtree(1, &[client, 0, 50, 60_000])[..], &[terms]].concat(), &[]).expect("it is in its path");
        // The code of the answer, the number of the root, and the record (docs/formats/event.md, "Decoupled subtree").
        let mut from = &told[1..];
        let mut next = |skip: usize| {
            from = &from[skip..];
            take_varint(&mut from).expect("a number")
        };
        assert_eq!((told[0], next(0)), (1, site.job));
        owner.epoch = next(0);
        let (_session, _uid, name) = (next(8), next(0), next(0) as usize);
        let _lease = next(name);
        owner.own = next(0);
        assert!(owner.own > owner.epoch, "the first numbers are for journals: {told:?}");
        owner
    }

    /// Asks for something about the subtree.
    fn ask(&mut self, what: &[u8], payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let op = Message::new().message(50, &Message::new().int(1, self.job).bytes(2, what));
        self.wire.call(&op, payload).map(|(fields, _)| fields.bytes(26).to_vec())
    }

    /// Sends these events as a merge of one part.
    fn merge(&mut self, events: &[Event], blind: bool, into_table: bool) -> Result<(), Fault> {
        let mut body = Vec::new();
        loligo_journal::encode_record(&mut body, None, events);
        self.ask(&subtree(if blind { 10 } else { 4 }, &[self.epoch, 1, 0]), &body)?;
        self.ask(&subtree(if into_table { 11 } else { 5 }, &[self.epoch, 1, 1, self.own + 20]), &[]).map(drop)
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn made(ino: u64, kind: Kind, parent: u64) -> Event {
    Event::Inode(Box::new(Inode::new(Ino(ino), kind, 0o666, 0, 0, Ino(parent), Time(5))))
}

fn entry(dir: u64, text: &str, ino: u64, kind: Kind) -> Event {
    Event::Entry { dir: Ino(dir), name: name(text), ino: Ino(ino), kind, remote: false }
}

/// Merges that say something of what is elsewhere; the first of each is enough to refuse it.
fn bad_merges(site: &Site, own: u64) -> Vec<(&'static str, Vec<Event>)> {
    let (job, theirs, file) = (site.job, site.theirs.ino, site.theirs.file);
    let mut all = vec![
        ("the name of a directory outside", vec![entry(job, "x", theirs, Kind::Dir)]),
        ("the name of the root", vec![entry(job, "x", 1, Kind::Dir)]),
        ("a name in a directory outside", vec![made(own, Kind::File, theirs), entry(theirs, "x", own, Kind::File)]),
        ("a name in the root", vec![made(own, Kind::File, 1), entry(1, "x", own, Kind::File)]),
        ("the root as a file", vec![made(1, Kind::File, 0)]),
        ("the directory above", vec![made(site.mine.ino, Kind::Dir, 1)]),
        ("a directory outside", vec![made(theirs, Kind::Dir, job)]),
        ("the end of a name outside", vec![Event::EntryGone { dir: Ino(theirs), name: name("f") }]),
        ("an xattr of a directory outside", {
            vec![Event::Xattr { ino: Ino(theirs), name: b"user.a"[..].into(), value: b"1"[..].into() }]
        }),
        ("a number that nobody has", vec![made(1 << 40, Kind::File, job), entry(job, "x", 1 << 40, Kind::File)]),
        ("the end of a session", vec![Event::SessionGone(SessionId(1))]),
        ("a session", {
            let record = SessionRecord {
                id: SessionId(9),
                name: b"x"[..].into(),
                local: true,
                uid: 0,
                client: 9,
                answered: loligo_types::Seq(1),
                done: Vec::new(),
                grants: Default::default(),
                addresses: Vec::new(),
            };
            vec![Event::Session(record)]
        }),
        ("a next number", vec![Event::NextIno(Ino(1 << 39))]),
        ("a route", {
            vec![Event::Route(Route { dir: Ino(theirs), frag: Frag { bits: 0, value: 0 }, rank: Rank(3), version: 9 })]
        }),
        ("the end of a route", vec![Event::RouteGone(Ino(theirs))]),
        ("a letter to another rank", {
            let letter = Letter::Sum { dir: Ino(1), entries: 1 << 40, bytes: 1 << 40 };
            vec![Event::Letter { to: Rank(1), seq: 1, letter: letter.into() }]
        }),
        ("letters", vec![Event::Peer(PeerRecord { rank: Rank(1), sent: 9, acked: 9, received: 9 })]),
        ("a directory that is another rank's", vec![Event::Departed([Ino(theirs)].into())]),
        ("a fragment that is another rank's", {
            vec![Event::DepartedFrag { dir: Ino(theirs), frag: Frag { bits: 0, value: 0 } }]
        }),
        ("the end of a part", vec![Event::PartGone { dir: Ino(theirs), rank: Rank(0) }]),
        ("a subtree", {
            let record = DecoupledRecord {
                dir: Ino(theirs),
                epoch: own,
                owner: 1,
                session: SessionId(1),
                uid: 0,
                name: b"x"[..].into(),
                lease_ms: 60_000,
                grants: vec![(Ino(own), 9)],
                used: Ino(own),
                merges: 0,
                interfere: Interfere::Allow,
                journal: None,
                objects: Vec::new(),
                promise: loligo_types::Promise::NONE,
                overwritten: Vec::new(),
            };
            vec![Event::Decoupled(Box::new(record))]
        }),
        ("the end of a subtree", vec![Event::DecoupledGone(Ino(job))]),
        ("a merge in a merge", vec![Event::Merge { dir: Ino(job) }]),
        ("a part in a part", vec![Event::MergePart { dir: Ino(job), part: 0, body: [2, 0, 0].into() }]),
    ];
    for ino in [file, 1, site.mine.file, 1 << 40].map(Ino) {
        all.extend([
            ("the name of a file outside", vec![entry(job, "x", ino.0, Kind::File)]),
            ("a file outside", vec![made(ino.0, Kind::File, job)]),
            ("the end of a file outside", vec![Event::InodeGone(ino)]),
            ("an xattr outside", vec![Event::Xattr { ino, name: b"user.a"[..].into(), value: b"1"[..].into() }]),
            ("no xattr outside", vec![Event::XattrGone { ino, name: b"user.a"[..].into() }]),
            ("data of a file outside", vec![Event::Inline { ino, data: b"mine"[..].into() }]),
            ("no data of a file outside", vec![Event::InlineGone(ino)]),
            ("bytes of a file outside", vec![Event::Discard { ino, from: 0, object_size: 4 << 20 }]),
            ("bytes of a file outside that are gone", vec![Event::DiscardGone(ino)]),
            ("a file outside without a name", vec![Event::Orphan(ino)]),
            ("a file outside that is named again", vec![Event::OrphanGone(ino)]),
        ]);
    }
    all
}

#[test]
fn a_merge_with_numbers_of_what_is_elsewhere_and_events_that_are_the_ranks_own_is_refused() {
    let Some(site) = Site::new("adversary-merges") else { return };
    let before = site.outside();
    let mut owner = Owner::new(&site, 111);
    for (what, events) in bad_merges(&site, owner.own) {
        for (blind, into_table) in [(false, false), (false, true), (true, false), (true, true)] {
            let result = owner.merge(&events, blind, into_table);
            match result {
                Err(Fault::Error(error::PERM)) => assert!(blind, "{what}"),
                Err(Fault::Error(error::INVALID | error::NOT_SUPPORTED)) => assert!(!blind, "{what}"),
                result => panic!("{what}, blind {blind}, into the table {into_table}: {result:?}"),
            }
        }
    }
    // Parts that are no records, that leave one out, of another merge, of another epoch.
    let good = [2, 0, 0];
    for (what, body) in [("nothing", &[][..]), ("another version", &[9, 0, 0]), ("more than a record", &[2, 0, 0, 0])] {
        let result = owner.ask(&subtree(4, &[owner.epoch, 1, 0]), body);
        assert!(matches!(result, Err(Fault::Error(_))), "{what}: {result:?}");
    }
    for numbers in [[owner.epoch, 1, 7], [owner.epoch, 9, 0], [owner.epoch + 1, 1, 0], [0, 1, 0], [u64::MAX, 1, 0]] {
        let result = owner.ask(&subtree(4, &numbers), &good);
        assert!(matches!(result, Err(Fault::Error(_))), "{numbers:?}: {result:?}");
    }
    // What is honest is merged after it, and the directory is everybody's again.
    owner.merge(&[], false, false).expect("it says nothing");
    owner.ask(&subtree(6, &[owner.epoch]), &[]).expect("it has it");
    site.fs().write("/mine/job/x", *b"x").expect("it is root's again");
    site.ends_unharmed(&before);
}

#[test]
fn a_fetch_reads_nothing_that_is_not_below_the_root_of_the_subtree_and_no_epoch_is_good_elsewhere() {
    let Some(site) = Site::new("adversary-fetches") else { return };
    let before = site.outside();
    let mut owner = Owner::new(&site, 112);
    let epoch = owner.epoch;
    for ino in [site.theirs.ino, site.theirs.file, site.mine.ino, site.mine.file, 1, 0, 1 << 40, u64::MAX] {
        for code in 0..16u8 {
            // One want: a code, the number, and what some kinds have besides (docs/formats/link.md); the last byte asks nothing back.
            for more in [&[][..], b"\x01f", &[0], &[0; 8]] {
                let mut what = subtree(3, &[epoch]);
                put_varint(&mut what, 1);
                what.push(code);
                put_varint(&mut what, ino);
                what.extend_from_slice(more);
                what.push(0);
                match owner.ask(&what, &[]) {
                    Err(Fault::Error(_)) => {}
                    // No such want: the connection ends, and the session, with its subtree, goes on over a new one.
                    Err(Fault::Refused { .. } | Fault::Closed) => {
                        owner = Owner { wire: site.bound(200 + u64::from(code)).0, ..owner };
                    }
                    Ok(told) => assert!(told.len() < 4, "{ino} {code} {more:?}: {told:?}"),
                }
            }
        }
    }
    site.ends_unharmed(&before);
}

#[test]
fn the_owner_of_one_subtree_says_nothing_of_another_by_its_epoch_and_owners_number() {
    let Some(site) = Site::new("adversary-epochs") else { return };
    let before = site.outside();
    // Others are refused, or read the state of the last merge.
    for (client, terms) in [(113, 0), (115, 16)] {
        nothing_of_another(&site, client, terms);
    }
    site.ends_unharmed(&before);
}

fn nothing_of_another(site: &Site, client: u64, terms: u8) {
    let mut owner = Owner::on_terms(site, client, terms);
    let (epoch, own) = (owner.epoch, owner.own);
    let requests = [
        ("decouple", [&subtree(1, &[client, epoch, 9, 60_000])[..], &[terms]].concat()),
        ("grant", subtree(2, &[epoch, 9])),
        ("part", subtree(4, &[epoch, 1, 0])),
        ("merge", subtree(5, &[epoch, 1, 0, own])),
        ("end", subtree(6, &[epoch])),
        ("data", subtree(7, &[epoch, 1, site.theirs.file])),
        ("overwrite", subtree(13, &[epoch, 1, site.theirs.file])),
        ("keep", subtree(8, &[epoch, epoch, 9])),
        ("take over", subtree(9, &[client])),
        ("take over now", subtree(12, &[client])),
    ];
    for dir in [site.theirs.ino, site.theirs.file, site.mine.file, 1, 1 << 40] {
        for (what, request) in &requests {
            owner.job = dir;
            let result = owner.ask(request, if *what == "part" { &[2, 0, 0] } else { &[] });
            assert!(matches!(result, Err(Fault::Error(_))), "{what} of {dir}: {result:?}");
        }
    }
    owner.job = site.job;
    // Files, numbers and journals that are not the subtree's.
    for ino in [site.theirs.file, site.mine.file, site.theirs.ino, 1, 0, 1 << 40, u64::MAX] {
        for request in [
            subtree(7, &[epoch, 1, ino]),
            subtree(13, &[epoch, 1, ino]),
            subtree(8, &[epoch, ino, 9]),
            subtree(5, &[epoch, 1, 1, ino]),
        ] {
            let result = owner.ask(&request, &[]);
            assert!(matches!(result, Err(Fault::Error(_))), "{request:?}: {result:?}");
        }
        let (stale, _) = owner.wire.data(ino, &Message::new().int(17, 0), b"mine").expect("it is answered");
        assert_ne!(stale, 0, "{ino}");
    }
    // Another session of the same identity is not the owner, whatever it knows but for the owner's number. (As root of its host it could take the
    // subtree over.)
    let (mut other, _) = site.bound(114);
    other.user = (1000, 1000);
    let op = |what: Vec<u8>| Message::new().message(50, &Message::new().int(1, site.job).bytes(2, what));
    for request in [subtree(2, &[epoch, 9]), subtree(6, &[epoch]), subtree(12, &[114])] {
        let result = other.call(&op(request.clone()), &[]).map(drop);
        assert!(matches!(result, Err(Fault::Error(_))), "{request:?}: {result:?}");
    }
    owner.ask(&subtree(6, &[epoch]), &[]).expect("it has it still");
}

#[test]
fn a_limited_client_does_not_come_below_a_floor_by_options_of_its_own_and_sets_and_ends_no_bounds() {
    let Some(site) = Site::new("adversary-floors") else { return };
    let before = site.outside();
    let (fs, mine) = (site.fs(), Ino(site.mine.ino));
    let text = b"floor.consistency = 'weak'\nfloor.durability = 'global'\nceiling.allocated_inodes = 50";
    let floor = Op::SetXattr { ino: mine, name: POLICY.into(), value: text[..].into(), mode: XattrMode::Set };
    assert!(fs.client().call(fs.cred(), Call::Op(floor)).is_ok(), "root sets a floor");
    let (mut wire, _) = site.bound(115);
    let decouple = |wire: &mut Wire, inos: u64, terms: u8| {
        let what = [&subtree(1, &[115, 0, inos, 60_000])[..], &[terms]].concat();
        let op = Message::new().message(50, &Message::new().int(1, site.job).bytes(2, &what));
        wire.call(&op, &[]).map(|(fields, _)| fields.bytes(26).to_vec())
    };
    // What others meet is the lowest bit; above it stands what the owner gives.
    for promise in 0..5 {
        for interfere in 0..2 {
            let told = decouple(&mut wire, 50, promise << 1 | interfere).expect("it is answered");
            assert_eq!(told[..2], [5, 2], "{promise}: refused, because of a floor");
        }
    }
    assert_eq!(decouple(&mut wire, 51, 5 << 1).expect("it is answered")[..2], [5, 4], "more than the ceiling");
    assert_eq!(decouple(&mut wire, 50, 5 << 1).expect("it is answered")[0], 1, "within them");
    // No user of its host, root included, ends a bound or sets one, and no policy is below.
    let xattr = |ino: u64| Message::new().int(1, ino).bytes(2, POLICY);
    let (mut other, _) = site.bound(116);
    for user in [(0, 0), (1000, 1000)] {
        other.user = user;
        for (ino, text) in [
            (site.mine.ino, ""),
            (site.mine.ino, "floor.durability = 'none'"),
            (site.job, "ceiling.decouple = false"),
            (site.job, "preset = 'ramdisk'"),
        ] {
            let set = Message::new().message(35, &xattr(ino).bytes(3, text));
            let result = other.call(&set, &[]).map(drop);
            assert!(matches!(result, Err(Fault::Error(_))), "{user:?} {text}: {result:?}");
        }
        let result = other.call(&Message::new().message(36, &xattr(site.mine.ino)), &[]).map(drop);
        assert!(matches!(result, Err(Fault::Error(_))), "{user:?}: {result:?}");
    }
    site.ends_unharmed(&before);
}
