//! Messages about decoupled subtrees: bytes that must never change within a protocol version, and refused messages. Roundtrips are tested
//! with all messages, in `roundtrip.rs`.

use std::sync::Arc;

use loligo_types::limits::{CONFLICTS_TOLD_MAX, FETCH_MAX, MERGE_PART_MAX, SUBTREE_GRANTS_MAX};
use loligo_types::msg::{Request, ToClient, ToServer};
use loligo_types::{
    Answer, Conflict, ConflictKind, Control, Cred, DecoupledRecord, Ino, Inode, Interfere, Kind, Lease, Loaded,
    MergeInto, Name, Need, Op, Promise, RefusedBy, Seq, SessionId, SplitRule, StoredJournal, SubtreeAnswer, SubtreeOp,
    Target, Time,
};

use super::golden::{to_client, to_server};
use super::{at_client, at_server, client_bytes, server_bytes};
use crate::DecodeError;

fn asks(what: SubtreeOp) -> ToServer {
    let op = Op::Control(Control::Subtree { dir: Ino(300), what: Box::new(what) });
    ToServer::Request(Request {
        seq: Seq(3),
        answered: Seq(2),
        want: Lease::NONE,
        cred: Cred::root(),
        op,
        ino: None,
        ways: None,
    })
}

fn answers(answer: SubtreeAnswer) -> ToClient {
    let result = Ok(Answer::Subtree(Box::new(answer)));
    ToClient::reply(3, result)
}

fn record() -> DecoupledRecord {
    DecoupledRecord {
        dir: Ino(300),
        epoch: 400,
        owner: 0x0102_0304_0506_0708,
        session: SessionId(7),
        uid: 1000,
        name: b"job"[..].into(),
        lease_ms: 5000,
        grants: vec![(Ino(400), 16), (Ino(500), 2)],
        used: Ino(401),
        merges: 3,
        interfere: Interfere::Allow,
        journal: Some(StoredJournal { ino: Ino(401), bytes: 300 }),
        objects: vec![(Ino(400), 2)],
        promise: Promise::NONE,
        overwritten: Vec::new(),
    }
}

fn root() -> Inode {
    Inode::new(Ino(300), Kind::Dir, 0o755, 1000, 100, Ino(1), Time(5))
}

#[test]
fn what_is_asked() {
    to_server(
        asks(SubtreeOp::Decouple {
            owner: 77,
            resume: 400,
            inos: 16,
            lease_ms: 5000,
            interfere: Interfere::Allow,
            promise: loligo_types::Promise::NONE,
        }),
        "4c6f010116000000000000000d498eb11a140803100292030d08ac021208014d900310882701",
    );
    to_server(
        asks(SubtreeOp::Decouple {
            owner: 77,
            resume: 400,
            inos: 16,
            lease_ms: 5000,
            interfere: Interfere::Allow,
            promise: Promise { consistency: 1, durability: 1 },
        }),
        "4c6f01011600000000000000e5ae2f971a140803100292030d08ac021208014d900310882707",
    );
    to_server(
        asks(SubtreeOp::TakeOver { owner: 77, now: false }),
        "4c6f01011000000000000000436d8be71a0e0803100292030708ac021202094d",
    );
    to_server(
        asks(SubtreeOp::TakeOver { owner: 77, now: true }),
        "4c6f01011000000000000000e894a3ba1a0e0803100292030708ac0212020c4d",
    );
    to_server(
        asks(SubtreeOp::Grant { epoch: 400, inos: 2 }),
        "4c6f010112000000000000005d3f7e7a1a100803100292030908ac02120402900302",
    );
    let needs = vec![Need::Inode(Ino(300)), Need::Entry { dir: Ino(300), name: Name::new(b"f").expect("a name") }];
    to_server(
        asks(SubtreeOp::Fetch { epoch: 400, needs }),
        "4c6f01011c000000000000009dab54461a1a0803100292031308ac02120e0390030201ac020002ac02016600",
    );
    to_server(
        asks(SubtreeOp::Part { epoch: 400, merge: 4, part: 1, blind: false, body: b"abc"[..].into() }),
        "4c6f01011300000003000000df8da42b1a110803100292030a08ac0212050490030401616263",
    );
    to_server(
        asks(SubtreeOp::Merge { epoch: 400, merge: 4, parts: 2, used: Ino(402), into: MergeInto::Memory }),
        "4c6f010115000000000000007447a7751a130803100292030c08ac02120705900304029203",
    );
    to_server(
        asks(SubtreeOp::Part { epoch: 400, merge: 4, part: 1, blind: true, body: b"abc"[..].into() }),
        "4c6f01011300000003000000a6e7a47e1a110803100292030a08ac0212050a90030401616263",
    );
    to_server(
        asks(SubtreeOp::Merge { epoch: 400, merge: 4, parts: 2, used: Ino(402), into: MergeInto::Table }),
        "4c6f0101150000000000000066266c4e1a130803100292030c08ac0212070b900304029203",
    );
    to_server(
        asks(SubtreeOp::Data { epoch: 400, inos: vec![Ino(300), Ino(401)] }),
        "4c6f010116000000000000007a19e96c1a140803100292030d08ac02120807900302ac029103",
    );
    to_server(
        asks(SubtreeOp::Overwrite { epoch: 400, inos: vec![Ino(300), Ino(401)] }),
        "4c6f01011600000000000000eee7aabc1a140803100292030d08ac0212080d900302ac029103",
    );
    to_server(
        asks(SubtreeOp::HoldOpen { epoch: 400, first: false, inos: vec![Ino(300), Ino(401)] }),
        "4c6f010116000000000000008760ee671a140803100292030d08ac0212080e900302ac029103",
    );
    to_server(
        asks(SubtreeOp::HoldOpen { epoch: 400, first: true, inos: vec![Ino(300)] }),
        "4c6f01011400000000000000a18549f91a120803100292030b08ac0212060f900301ac02",
    );
    to_server(
        asks(SubtreeOp::Keep { epoch: 400, journal: StoredJournal { ino: Ino(401), bytes: 300 } }),
        "4c6f01011500000000000000032175081a130803100292030c08ac0212070890039103ac02",
    );
    to_server(
        asks(SubtreeOp::End { epoch: 400 }),
        "4c6f01011100000000000000153803da1a0f0803100292030808ac021203069003",
    );
}

#[test]
fn what_is_answered() {
    let split = SplitRule { split: 10_000, merge: 50, bits: 3 };
    to_client(
        answers(SubtreeAnswer::Decoupled { record: record(), root: Box::new(root()), inline_max: 4096, split }),
        "4c6f01025100000000000000e6b9399d1a4f0803d2014a01ac029003080706050403020107e807036a6f62882791\
         030302900310f40302019103ac0201900302ed2100000500000000000000e807640200010000000000000000018020904e3203",
    );
    let found = Some(Target { ino: Ino(301), kind: Kind::File, remote: false });
    let name = Name::new(b"f").expect("a name");
    let items = vec![Loaded::Inode(Ino(302), None), Loaded::Entry { dir: Ino(300), name, found }];
    to_client(
        answers(SubtreeAnswer::Records(items)),
        "4c6f01021600000000000000247f796b1a140803d2010f020201ae020002ac02016601ad0201",
    );
    to_client(
        answers(SubtreeAnswer::Forked { record: record(), files: vec![root()] }),
        "4c6f01024e00000000000000d831e2cc1a4c0803d2014706ac029003080706050403020107e807036a6f62882791\
         030302900310f40302019103ac020190030201ac02ed2100000500000000000000e80764020001000000000000000001",
    );
    let merged = SubtreeAnswer::Merged { merges: 4, conflicts: 0, told: Vec::new() };
    to_client(answers(merged), "4c6f01020900000000000000557411971a070803d201020304");
    to_client(
        answers(SubtreeAnswer::Refused { by: RefusedBy::Floor, dir: Ino(300) }),
        "4c6f01020b0000000000000017538a681a090803d201040502ac02",
    );
    to_client(
        answers(over(300, told(1))),
        "4c6f01021700000000000000f8bde64e1a150803d201100404ac020101ae02016605667e342d31",
    );
}

/// A merge with conflicts.
fn over(conflicts: u64, told: Vec<Conflict>) -> SubtreeAnswer {
    SubtreeAnswer::Merged { merges: 4, conflicts, told }
}

fn told(count: usize) -> Vec<Conflict> {
    let one = Conflict { kind: ConflictKind::Name, ino: Ino(302), name: b"f"[..].into(), kept: b"f~4-1"[..].into() };
    vec![one; count]
}

#[test]
fn not_more_conflicts_are_told_of_than_a_rank_tells_and_none_without_a_number() {
    let decoded = |answer: SubtreeAnswer| {
        let mut decoder = at_client();
        decoder.feed(&client_bytes(&answers(answer)));
        decoder.next_message()
    };
    let most = over(1000, told(CONFLICTS_TOLD_MAX));
    assert_eq!(decoded(most.clone()), Ok(Some(answers(most))));
    assert!(decoded(over(1000, told(CONFLICTS_TOLD_MAX + 1))).is_err());
    let long = Conflict { kept: vec![b'x'; 256].into(), ..told(1).remove(0) };
    assert!(decoded(over(1, vec![long])).is_err(), "no name is so long");
    let bytes = crate::subtree::encode_answer(&over(1, Vec::new()));
    let decode = crate::subtree::decode_answer;
    assert!(decode(&bytes).is_ok() && decode(&[4, 4, 0, 0]).is_err(), "without conflicts it is said otherwise");
    assert!(decode(&[4, 4, 1, 1, 99, 1, 0, 0]).is_err(), "no such kind");
}

fn refused(msg: &ToServer) -> DecodeError {
    let mut decoder = at_server();
    decoder.feed(&server_bytes(msg));
    decoder.next_message().expect_err("must be refused")
}

#[test]
fn a_part_is_not_longer_than_a_rank_takes() {
    let part = |len: usize| {
        let body: Arc<[u8]> = vec![7; len].into();
        asks(SubtreeOp::Part { epoch: 400, merge: 4, part: 1, blind: false, body })
    };
    let mut decoder = at_server();
    decoder.feed(&server_bytes(&part(MERGE_PART_MAX)));
    assert_eq!(decoder.next_message(), Ok(Some(part(MERGE_PART_MAX))));
    assert!(matches!(
        refused(&part(MERGE_PART_MAX + 1)),
        DecodeError::Limit { what: "bytes of a part of a merge", .. }
    ));
}

#[test]
fn not_more_records_are_asked_for_than_are_answered_at_once() {
    let fetch = |count| asks(SubtreeOp::Fetch { epoch: 400, needs: vec![Need::Inode(Ino(1)); count] });
    let mut decoder = at_server();
    decoder.feed(&server_bytes(&fetch(FETCH_MAX)));
    assert_eq!(decoder.next_message(), Ok(Some(fetch(FETCH_MAX))));
    assert!(matches!(refused(&fetch(FETCH_MAX + 1)), DecodeError::Limit { what: "records of a subtree", .. }));
}

#[test]
fn a_subtree_has_not_more_ranges_of_numbers_than_a_rank_grants() {
    let told = |count: usize| {
        let grants = (0..count as u64).map(|n| (Ino(1000 + 10 * n), 1)).collect();
        let record = DecoupledRecord { grants, ..record() };
        let split = SplitRule::default();
        answers(SubtreeAnswer::Decoupled { record, root: Box::new(root()), inline_max: 4096, split })
    };
    let decoded = |msg: &ToClient| {
        let mut decoder = at_client();
        decoder.feed(&client_bytes(msg));
        decoder.next_message()
    };
    assert_eq!(decoded(&told(SUBTREE_GRANTS_MAX)), Ok(Some(told(SUBTREE_GRANTS_MAX))));
    assert!(decoded(&told(SUBTREE_GRANTS_MAX + 1)).is_err());
}

#[test]
fn what_is_cut_off_or_unknown_or_has_more_behind_it_is_refused() {
    let all = [
        SubtreeOp::Decouple {
            owner: 77,
            resume: 400,
            inos: 16,
            lease_ms: 5000,
            interfere: Interfere::Allow,
            promise: loligo_types::Promise::NONE,
        },
        SubtreeOp::Fetch { epoch: 400, needs: vec![Need::Inode(Ino(300))] },
        SubtreeOp::Merge { epoch: 400, merge: 4, parts: 2, used: Ino(402), into: MergeInto::Memory },
        SubtreeOp::HoldOpen { epoch: 400, first: true, inos: vec![Ino(300), Ino(301)] },
        SubtreeOp::End { epoch: 400 },
    ];
    let decode = |bytes: &[u8]| {
        let mut decoder = at_server();
        let what = crate::proto::Subtree { dir: 300, what: bytes.to_vec() };
        let op = Some(crate::proto::request::Op::Subtree(what));
        decoder.feed(&super::hostile::request(op, Vec::new()));
        decoder.next_message()
    };
    for what in all {
        let whole = crate::subtree::encode(&what);
        assert_eq!(decode(&whole), Ok(Some(answered_nothing(what.clone()))));
        for len in 0..whole.len() {
            assert!(decode(&whole[..len]).is_err(), "{what:?} cut off at {len}");
        }
        assert!(decode(&[&whole[..], &[0]].concat()).is_err(), "{what:?} with more behind it");
    }
    assert!(decode(&[0]).is_err() && decode(&[7, 0]).is_err());
}

/// As `hostile::request` makes it.
fn answered_nothing(what: SubtreeOp) -> ToServer {
    let op = Op::Control(Control::Subtree { dir: Ino(300), what: Box::new(what) });
    ToServer::Request(Request {
        seq: Seq(1),
        answered: Seq(0),
        want: Lease::NONE,
        cred: Cred::root(),
        op,
        ino: None,
        ways: None,
    })
}
