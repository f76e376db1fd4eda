//! Messages between processes: they come back as they were, their bytes are fixed (and drawn in docs/formats/link.md), and
//! no bytes do harm.

use std::sync::Arc;

use loligo_types::limits::{QUESTION_PATH_MAX, QUESTION_TEXT_MAX, REPLY_TEXT_MAX};
use loligo_types::link::{Greet, Join, Joined, LinkMsg, Member, Method, NotJoined, Question, Reply};
use loligo_types::peer::{Apart, Lent, PeerMsg, TxId, Want};
use loligo_types::{
    Beat, ClusterMap, Frag, FragHeat, FsError, Ino, Inode, Kind, Lease, Letter, Load, LoadVec, Loaded, Name, Need,
    PolicyId, Rank, RankInfo, RankState, Route, Target, Time, Weighed,
};
use proptest::prelude::*;

use super::any_link;
use crate::{DecodeError, HEADER_LEN, JOIN_MAX, LINK_MAX, LinkHeader, encode_link};

fn bytes(msg: &LinkMsg) -> Vec<u8> {
    let mut out = Vec::new();
    encode_link(msg, &mut out);
    out
}

fn read(frame: &[u8], max: usize) -> Result<LinkMsg, DecodeError> {
    let (header, body) = frame.split_first_chunk::<HEADER_LEN>().expect("a whole header");
    let header = LinkHeader::decode(header, max)?;
    header.message(&body[..header.body_len().min(body.len())])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn messages_between_processes_come_back(msg in any_link::link()) {
        let frame = bytes(&msg);
        prop_assert_eq!(read(&frame, LINK_MAX).map_err(|e| TestCaseError::fail(e.to_string()))?, msg);
    }

    #[test]
    fn a_message_cut_short_or_with_a_flipped_bit_is_refused(
        msg in any_link::link(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut frame = bytes(&msg);
        let cut = HEADER_LEN + at.index(frame.len() - HEADER_LEN);
        prop_assert!(read(&frame[..cut], LINK_MAX).is_err());
        let flipped = at.index(frame.len());
        frame[flipped] ^= 1 << bit;
        prop_assert!(read(&frame, LINK_MAX).is_err());
    }

    #[test]
    fn any_body_is_refused_or_read_and_written_the_same(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut frame = vec![0; HEADER_LEN];
        frame.extend_from_slice(&body);
        crate::frame::seal(&mut frame, 0, crate::frame::BETWEEN_PROCESSES, 0);
        if let Ok(msg) = read(&frame, LINK_MAX) {
            prop_assert_eq!(bytes(&msg), frame);
        }
    }
}

#[test]
fn a_first_message_may_not_be_long_and_others_not_endless() {
    let ranks = vec![Rank(3); JOIN_MAX];
    let frame = bytes(&LinkMsg::Join(Join { ranks, ..Join::default() }));
    assert!(matches!(read(&frame, JOIN_MAX), Err(DecodeError::TooLong { .. })));
    assert!(matches!(read(&frame, LINK_MAX), Err(DecodeError::Link(_))), "ranks ascend");
    let mut endless = frame;
    endless[4..8].fill(0xff);
    assert!(matches!(read(&endless, LINK_MAX), Err(DecodeError::TooLong { .. })));
    let mut client = Vec::new();
    crate::encode_to_server(&loligo_types::msg::ToServer::Ping, &mut client);
    assert_eq!(read(&client, LINK_MAX), Err(DecodeError::Direction { found: 1 }));
}

/// Bytes of a block of docs/formats/link.md or examples/link.txt: the part before the semicolons.
fn drawn(name: &str) -> String {
    let doc = concat!(
        include_str!("../../../../docs/formats/link.md"),
        include_str!("../../../../docs/formats/examples/link.txt")
    );
    let start = format!("```hex {name}\n");
    let block = doc.split_once(&start).and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    let block = block.unwrap_or_else(|| panic!("docs/formats/{{link.md,examples/link.txt}} have no block {name}"));
    let bytes = block.lines().map(|line| line.split(';').next().unwrap_or_default());
    bytes.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn golden(name: &str, msg: LinkMsg) {
    let frame = bytes(&msg);
    let hex: String = frame[HEADER_LEN..].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, drawn(name), "{name}");
    assert_eq!(read(&frame, LINK_MAX), Ok(msg), "{name}");
}

fn between(msg: PeerMsg) -> LinkMsg {
    LinkMsg::Peer { from: Rank(0), to: Rank(2), process: 1, msg: Box::new(msg) }
}

fn map() -> ClusterMap {
    let info = |rank, state| RankInfo { rank: Rank(rank), address: format!("tcp:h:{rank}"), state };
    ClusterMap { epoch: 5, ranks: vec![info(0, RankState::Up), info(2, RankState::Draining)], policy: PolicyId(300) }
}

fn route() -> Route {
    Route { dir: Ino(256), frag: Frag { bits: 3, value: 5 }, rank: Rank(2), version: 300 }
}

const TX: TxId = TxId { number: 300, rank: Rank(2) };

#[test]
fn the_bytes_of_the_handshake_are_fixed() {
    let join = Join { versions: (1, 1), fs_id: Some([9; 16]), ranks: vec![Rank(2), Rank(3)], pid: 300 };
    golden("join", LinkMsg::Join(join));
    let joined =
        Joined { version: 1, fs_id: [9; 16], process: 1, ticket: 300, store: "/d/s".into(), data_epoch: 7, map: map() };
    golden("joined", LinkMsg::Joined(joined));
    golden("refused", LinkMsg::Refused { why: NotJoined::InUse, text: "no".into() });
    golden("ready", LinkMsg::Ready { addresses: vec![(Rank(2), "tcp:h:2".into())] });
}

#[test]
fn the_bytes_of_ways_and_membership_are_fixed() {
    golden("up", LinkMsg::Up { rank: Rank(1), process: 300 });
    golden("down", LinkMsg::Down { rank: Rank(1) });
    golden("map", LinkMsg::Map(map()));
    golden("member", LinkMsg::Member { rank: Rank(2), member: Member::Refused("no".into()) });
    golden("no-policy", LinkMsg::Member { rank: Rank(2), member: Member::NoPolicy { name: "a".into() } });
    golden("leave", LinkMsg::Leave { rank: Rank(2) });
    golden("left", LinkMsg::Left { rank: Rank(2) });
    golden("stop", LinkMsg::Stop);
    golden("stopped", LinkMsg::Stopped);
    golden("all-stopped", LinkMsg::AllStopped);
    let greet = Greet { versions: (4, 4), fs_id: [9; 16], from: 300, to: 1, nonce: [8; 32] };
    golden("greet", LinkMsg::Greet(greet));
    golden("prove", LinkMsg::Prove { version: 4, nonce: [8; 32], proof: [7; 32] });
    golden("proof", LinkMsg::Proof { proof: [7; 32] });
    golden("here", LinkMsg::Here { ranks: vec![(Rank(0), 3), (Rank(2), 300)] });
    golden("beat-of-server", LinkMsg::Beat);
}

fn question(method: Method, path: &str, text: &str) -> LinkMsg {
    let question = Question { method, path: path.into(), text: text.into() };
    LinkMsg::Question { number: 300, question: Box::new(question) }
}

fn reply(status: u16, text: String) -> LinkMsg {
    LinkMsg::Reply { number: 300, reply: Box::new(Reply { status, text }) }
}

#[test]
fn the_bytes_of_questions_and_replies_between_servers_are_fixed() {
    golden("question", question(Method::Post, "/a/1", "s1"));
    golden("reply", reply(409, "no".into()));
}

#[test]
fn questions_and_replies_that_are_too_long_or_make_no_sense_are_refused() {
    let is_read = |msg: &LinkMsg| read(&bytes(msg), LINK_MAX).is_ok();
    let path = |len: usize| format!("/{}", "p".repeat(len - 1));
    assert!(is_read(&question(Method::Get, &path(QUESTION_PATH_MAX), &"t".repeat(QUESTION_TEXT_MAX))));
    assert!(is_read(&reply(200, "t".repeat(REPLY_TEXT_MAX))));
    assert!(!is_read(&question(Method::Get, &path(QUESTION_PATH_MAX + 1), "")));
    assert!(!is_read(&question(Method::Get, "/", &"t".repeat(QUESTION_TEXT_MAX + 1))));
    assert!(!is_read(&reply(200, "t".repeat(REPLY_TEXT_MAX + 1))));
    for path in ["", "a", "http://h/a"] {
        assert!(!is_read(&question(Method::Get, path, "")), "{path}");
    }
    for status in [0, 99, 1000] {
        assert!(!is_read(&reply(status, String::new())), "{status}");
    }
    // A method that is none.
    let mut frame = bytes(&question(Method::Post, "/", ""));
    frame[HEADER_LEN + 3] = 3;
    crate::frame::seal(&mut frame, 0, crate::frame::BETWEEN_PROCESSES, 0);
    assert!(matches!(read(&frame, LINK_MAX), Err(DecodeError::Link(_))));
}

#[test]
fn the_bytes_of_what_ranks_say_are_fixed() {
    let hello = PeerMsg::Hello { life: 300, received: 1, sent: 2, map: map(), routes: vec![route()] };
    golden("hello", between(hello));
    let letter = Letter::Sum { dir: Ino(256), entries: 64, bytes: -65 };
    golden("letter", between(PeerMsg::Letter { seq: 2, letter: Arc::new(letter) }));
    golden("received", between(PeerMsg::Received { upto: 300 }));
    golden("acked", between(PeerMsg::Acked { upto: 300 }));
    golden("routes", between(PeerMsg::Routes(vec![route()])));
    golden("gone", between(PeerMsg::Gone(Ino(256))));
    golden("denied", between(PeerMsg::Denied { tx: TX, round: 1, error: FsError::Busy }));
    golden("tx-ready", between(PeerMsg::Ready { tx: TX }));
    golden("return", between(PeerMsg::Return { tx: TX, again: true }));
    golden("offer", between(PeerMsg::Offer { moving: 5, dir: Ino(256) }));
    golden("give-back", between(PeerMsg::GiveBack { dir: Ino(256), to: Rank(3) }));
    golden("accept", between(PeerMsg::Accept { moving: 5, refused: Some(FsError::Busy) }));
    golden("summon", between(PeerMsg::Summon { dir: Ino(256) }));
    golden("stays", between(PeerMsg::Stays { dir: Ino(256) }));
    golden("empty", between(PeerMsg::Empty));
    golden("farewell", between(PeerMsg::Farewell));
    golden("client-gone", between(PeerMsg::ClientGone { client: 300 }));
    golden("ask-born", between(PeerMsg::AskBorn { ino: Ino(300) }));
    golden("born", between(PeerMsg::Born { ino: Ino(300) }));
    let name = || Name::new(b"d").expect("a good name");
    golden("ask-name", between(PeerMsg::AskName { dir: Ino(256), name: name() }));
    golden("name-is", between(PeerMsg::NameIs { dir: Ino(256), name: name(), ino: Some(Ino(300)) }));
    golden("ask-replica", between(PeerMsg::AskReplica { ino: Ino(300), sent_ms: 5 }));
    let inode = Box::new(Inode::new(Ino(300), Kind::Dir, 0o755, 7, 8, Ino(256), Time(0)));
    golden("replica", between(PeerMsg::Replica { sent_ms: 5, inode }));
    golden("no-replica", between(PeerMsg::NoReplica { ino: Ino(300) }));
    golden("drop-replica", between(PeerMsg::DropReplica { ino: Ino(300) }));
    golden("replica-dropped", between(PeerMsg::ReplicaDropped { ino: Ino(300), promised_ms: 250 }));
    golden("keep-replicas", between(PeerMsg::KeepReplicas { sent_ms: 300 }));
    golden("replicas-kept", between(PeerMsg::ReplicasKept { sent_ms: 300 }));
    golden("ask-way", between(PeerMsg::AskWay { number: 5, ino: Ino(300) }));
    golden(
        "way",
        between(PeerMsg::Way { number: 5, ino: Ino(300), up: vec![7, 300], at: Ino::ROOT, bounds: Vec::new() }),
    );
    let bounds = vec![(Ino(300), b"[floor]"[..].into())];
    golden("way-bounds", between(PeerMsg::Way { number: 5, ino: Ino(300), up: vec![7], at: Ino(2), bounds }));
}

#[test]
fn the_bytes_of_a_beat_are_fixed() {
    let load = Load {
        own: LoadVec { ird: 7.0, iwr: 8.0, readdir: 9.0, fetch: 10.0, store: 11.0 },
        besides: LoadVec { ird: 12.0, ..LoadVec::default() },
        auth: 1.0,
        all: 2.0,
        requests_per_s: 3.0,
        queue: 300,
        memory_percent: 50.0,
        cpu_percent: 100.0,
        busy_percent: 75.0,
        capacity_per_s: 4.0,
    };
    let weighed = Weighed { policy: PolicyId(300), auth: 5.0, all: 6.0 };
    golden("beat", between(PeerMsg::Beat(vec![Beat { rank: Rank(2), seq: 300, age_ms: 20, load, weighed }])));
}

#[test]
fn the_bytes_of_heat_are_fixed() {
    let load = LoadVec { ird: 1.0, iwr: 2.0, readdir: 3.0, fetch: 50.0, store: 100.0 };
    golden("heat", between(PeerMsg::Heat(vec![FragHeat { dir: Ino(256), frag: Frag { bits: 3, value: 5 }, load }])));
}

#[test]
fn the_bytes_of_records_are_fixed() {
    let name = || Name::new(b"f").expect("a name");
    let needs = [
        Need::Inode(Ino(256)),
        Need::Entry { dir: Ino(1), name: name() },
        Need::Range { dir: Ino(1), from_hash: 300 },
        Need::Xattrs(Ino(256)),
        Need::Inline(Ino(256)),
        Need::Parts(Ino(1)),
    ];
    let wants = needs.into_iter().map(|need| Want { need, recall: Lease(3), shown: false });
    let shown = Want { need: Need::Parts(Ino(2)), recall: Lease::NONE, shown: true };
    let wants = wants.chain([shown]).collect();
    golden("borrow", between(PeerMsg::Borrow { tx: TX, round: 1, client: 300, wants }));
    let inode = Inode::new(Ino(256), Kind::File, 0o644, 1000, 100, Ino(1), Time(0x0102_0304_0506_0708));
    let target = Target { ino: Ino(256), kind: Kind::File, remote: true };
    let items = vec![
        Loaded::Inode(Ino(256), Some(Box::new(inode))),
        Loaded::Inode(Ino(257), None),
        Loaded::Entry { dir: Ino(1), name: name(), found: Some(target) },
        Loaded::Range { dir: Ino(1), from_hash: 0, upto_hash: 300, entries: vec![(name(), target)] },
        Loaded::Xattrs(Ino(256), vec![(Arc::from(&b"user.a"[..]), Arc::from(&b"v"[..]))]),
        Loaded::Inline(Ino(256), Some(Arc::from(&b"data"[..]))),
        Loaded::Part { dir: Ino(1), part: None, frags: vec![Frag { bits: 3, value: 5 }] },
    ];
    golden("cached", between(PeerMsg::Cached(vec![items[2].clone()])));
    let apart = vec![Apart { ino: Ino(256), root: Ino(1), allows: true }];
    let lent = Lent { items, opens: vec![(Ino(256), 2)], elsewhere: vec![(Ino(258), Rank(3))], apart };
    golden("lent", between(PeerMsg::Lent { tx: TX, round: 1, lent }));
}
