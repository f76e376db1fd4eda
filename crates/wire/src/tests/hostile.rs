//! Bytes of a peer that is broken, of another release, or hostile.

use std::sync::Arc;

use loligo_types::limits::{ADDRESS_MAX, DATA_OP_MAX, FRAME_MAX, GROUPS_MAX, RANKS_MAX, ROUTES_MAX};
use loligo_types::msg::{DataRequest, Hello, Refusal, Request, ToClient, ToServer, Welcome};
use loligo_types::{ClusterMap, Cred, DataOp, Frag, Ino, Lease, Op, Rank, RankInfo, RankState, Route, Seq, SessionId};
use proptest::prelude::*;
use prost::Message;

use super::{at_client, at_server, client_bytes, server_bytes};
use crate::frame::{HEADER_LEN, TO_CLIENT, TO_SERVER, seal};
use crate::{DecodeError, Decoder, FromClient, FromServer, HANDSHAKE_MAX, HEAD_MAX, proto};

fn frame(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    out.extend_from_slice(head);
    seal(&mut out, 0, TO_SERVER, payload.len());
    out.extend_from_slice(payload);
    out
}

fn refused(bytes: &[u8]) -> DecodeError {
    let mut decoder = at_server();
    decoder.feed(bytes);
    let error = decoder.next_message().expect_err("must be refused");
    assert_eq!(decoder.next_message(), Err(error.clone()), "and stays refused");
    error
}

pub(super) fn request(op: Option<proto::request::Op>, groups: Vec<u32>) -> Vec<u8> {
    let request = proto::Request { seq: 1, groups, op, ..Default::default() };
    frame(&proto::ToServer { msg: Some(proto::to_server::Msg::Request(request)) }.encode_to_vec(), &[])
}

#[test]
fn another_service_is_recognised() {
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), DecodeError::Magic { found: *b"GE" });
    assert!(refused(b"GET / HTTP/1.1\r\n\r\n").to_string().contains("another service"));
}

#[test]
fn another_layout_and_the_wrong_direction_are_refused() {
    let mut bytes = server_bytes(&ToServer::Ping);
    bytes[2] = 9;
    assert_eq!(refused(&bytes), DecodeError::Version { found: 9, known: 1 });
    assert_eq!(refused(&client_bytes(&ToClient::Pong { at_ms: 0 })), DecodeError::Direction { found: 2 });
    let mut decoder = at_client();
    decoder.feed(&server_bytes(&ToServer::Ping));
    assert_eq!(decoder.next_message(), Err(DecodeError::Direction { found: 1 }));
}

#[test]
fn an_oversized_frame_is_refused_by_its_header_alone() {
    let mut header = server_bytes(&ToServer::Ping)[..HEADER_LEN].to_vec();
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(refused(&header), DecodeError::TooLong { len: u64::from(u32::MAX), max: HEAD_MAX as u64 });
    header[4..8].copy_from_slice(&16u32.to_le_bytes());
    header[8..12].copy_from_slice(&(DATA_OP_MAX as u32 + 1).to_le_bytes());
    assert_eq!(refused(&header), DecodeError::TooLong { len: DATA_OP_MAX as u64 + 1, max: DATA_OP_MAX as u64 });
    const { assert!(HEAD_MAX + DATA_OP_MAX <= FRAME_MAX) }
}

#[test]
fn before_the_handshake_only_small_frames_are_taken() {
    let big = ToServer::Data(DataRequest {
        id: 1,
        ino: Ino(9),
        object_size: 1 << 22,
        op: DataOp::Write { offset: 0, data: Arc::from(vec![1; HANDSHAKE_MAX]) },
    });
    let mut decoder = Decoder::<FromClient>::new();
    decoder.feed(&server_bytes(&ToServer::Hello(Hello::default())));
    decoder.feed(&server_bytes(&big));
    assert_eq!(decoder.next_message(), Ok(Some(ToServer::Hello(Hello::default()))));
    assert!(matches!(decoder.next_message(), Err(DecodeError::TooLong { .. })));
    let mut decoder = at_server();
    decoder.feed(&server_bytes(&big));
    assert_eq!(decoder.next_message(), Ok(Some(big)));
}

#[test]
fn the_largest_write_arrives_whole_and_in_pieces() {
    let data: Arc<[u8]> = (0..DATA_OP_MAX).map(|n| n as u8).collect();
    let msg =
        ToServer::Data(DataRequest { id: 1, ino: Ino(9), object_size: 1 << 22, op: DataOp::Write { offset: 5, data } });
    let bytes = server_bytes(&msg);
    let mut decoder = at_server();
    for part in bytes.chunks(100_000) {
        assert_eq!(decoder.next_message(), Ok(None));
        decoder.feed(part);
    }
    decoder.feed(&server_bytes(&ToServer::Ping));
    assert_eq!(decoder.next_message(), Ok(Some(msg)));
    assert_eq!(decoder.next_message(), Ok(Some(ToServer::Ping)));
    assert_eq!(decoder.next_message(), Ok(None));
}

#[test]
fn names_and_codes_that_no_type_can_hold_are_refused() {
    use proto::request::Op as Wire;
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
        let at = proto::At { dir: 1, name: name.to_vec() };
        assert_eq!(refused(&request(Some(Wire::Lookup(at)), vec![])), DecodeError::Invalid("name"));
    }
    let mkdir = |mode| Wire::Mkdir(proto::Mkdir { dir: 1, name: b"a".to_vec(), mode, umask: 0 });
    assert_eq!(refused(&request(Some(mkdir(0o10000)), vec![])), DecodeError::Invalid("mode"));
    let mknod = proto::Mknod { dir: 1, name: b"a".to_vec(), kind: 8, ..Default::default() };
    assert_eq!(refused(&request(Some(Wire::Mknod(mknod)), vec![])), DecodeError::Invalid("file type"));
    let set = proto::SetAttr { ino: 1, object_size: Some(65_537), ..Default::default() };
    assert_eq!(refused(&request(Some(Wire::SetAttr(set)), vec![])), DecodeError::Invalid("object size"));
    let lock = proto::FileLock { start: 2, end: 1, ..Default::default() };
    let lock = Wire::GetLock(proto::LockOn { lock: Some(lock), ..Default::default() });
    assert_eq!(refused(&request(Some(lock), vec![])), DecodeError::Invalid("lock range"));
    assert_eq!(refused(&request(None, vec![])), DecodeError::Missing("the operation"));
}

#[test]
fn lists_are_limited_and_ordered() {
    use proto::request::Op as Wire;
    let statfs = || Some(Wire::Statfs(proto::Empty {}));
    let too_many = (0..=GROUPS_MAX as u32).collect();
    assert!(matches!(refused(&request(statfs(), too_many)), DecodeError::Limit { what: "groups", .. }));
    assert_eq!(refused(&request(statfs(), vec![2, 1])), DecodeError::Invalid("order of groups"));
    let close = Wire::Close(proto::Close { handles: vec![1; 65_537], lost: false });
    assert!(matches!(refused(&request(Some(close), vec![])), DecodeError::Limit { what: "handles", .. }));
}

fn refused_by_client(msg: proto::to_client::Msg) -> DecodeError {
    let mut out = vec![0; HEADER_LEN];
    out.extend_from_slice(&proto::ToClient { msg: Some(msg) }.encode_to_vec());
    seal(&mut out, 0, TO_CLIENT, 0);
    let mut decoder = at_client();
    decoder.feed(&out);
    decoder.next_message().expect_err("must be refused")
}

#[test]
fn maps_are_limited_and_hold_only_what_there_can_be() {
    use proto::to_client::Msg;
    let route = proto::Route { dir: 1, rank: 1, version: 1, ..Default::default() };
    let routes = |routes| refused_by_client(Msg::Routes(proto::Routes { routes, ..proto::Routes::default() }));
    assert!(matches!(routes(vec![route; ROUTES_MAX + 1]), DecodeError::Limit { what: "routes", .. }));
    assert_eq!(routes(vec![proto::Route { frag_bits: 25, ..route }]), DecodeError::Invalid("fragment"));
    assert_eq!(routes(vec![proto::Route { frag_bits: 256, ..route }]), DecodeError::Invalid("fragment"));
    assert_eq!(routes(vec![proto::Route { frag_bits: 2, frag_value: 4, ..route }]), DecodeError::Invalid("fragment"));
    assert_eq!(routes(vec![proto::Route { rank: 65_536, ..route }]), DecodeError::Invalid("rank"));
    let info = |rank, address: &str, state| proto::RankInfo { rank, address: address.to_owned(), state };
    let map = |ranks| refused_by_client(Msg::Map(proto::ClusterMap { epoch: 1, ranks }));
    assert!(matches!(map(vec![info(0, "", 1); RANKS_MAX + 1]), DecodeError::Limit { what: "ranks", .. }));
    assert!(matches!(map(vec![info(0, &"x".repeat(256), 1)]), DecodeError::Limit { .. }));
    assert_eq!(map(vec![info(1, "", 1), info(1, "", 1)]), DecodeError::Invalid("order of ranks"));
    assert_eq!(map(vec![info(1, "", 4)]), DecodeError::Invalid("state of a rank"));
    let redirect = proto::Redirect { seq: 1, rank: 1 << 16, ..Default::default() };
    assert_eq!(refused_by_client(Msg::Redirect(redirect)), DecodeError::Invalid("rank"));
}

#[test]
fn the_largest_maps_fit_into_a_welcome() {
    let frag = Frag { bits: Frag::BITS_MAX, value: (1 << Frag::BITS_MAX) - 1 };
    let route = Route { dir: Ino(u64::MAX), frag, rank: Rank(u16::MAX), version: u64::MAX };
    let info = |rank| RankInfo { rank: Rank(rank), address: "x".repeat(ADDRESS_MAX), state: RankState::Up };
    let msg = ToClient::Welcome(Welcome {
        version: 2,
        session: SessionId(1),
        secret: 1,
        resumed: false,
        kept: false,
        fs_id: [1; 16],
        inline_max: 1,
        session_ms: 1,
        data_epoch: 1,
        rank: Rank(0),
        hash_key: (5, 6),
        map: ClusterMap { epoch: u64::MAX, ranks: (0..RANKS_MAX as u16).map(info).collect(), ..Default::default() },
        routes: vec![route; ROUTES_MAX],
        direct: "x".repeat(ADDRESS_MAX),
        recovered: loligo_types::Lsn(u64::MAX),
        journal_max: u32::MAX,
    });
    let mut decoder = Decoder::<FromServer>::new();
    decoder.feed(&client_bytes(&msg));
    assert_eq!(decoder.next_message(), Ok(Some(msg)));
}

#[test]
fn an_absurd_readdir_limit_counts_as_the_largest() {
    let op = |limit| Op::Readdir { dir: Ino(1), cookie: 0, limit, plus: false, handle: None };
    let request = |limit| {
        ToServer::Request(Request {
            seq: Seq(1),
            answered: Seq(1),
            want: Lease::NONE,
            cred: Cred::root(),
            op: op(limit),
            ino: None,
            ways: None,
        })
    };
    let mut decoder = at_server();
    decoder.feed(&server_bytes(&request(u32::MAX)));
    assert_eq!(decoder.next_message(), Ok(Some(request(4096))));
}

#[test]
fn a_payload_where_none_belongs_is_refused() {
    let head = proto::ToServer { msg: Some(proto::to_server::Msg::Ping(proto::Empty {})) }.encode_to_vec();
    assert_eq!(refused(&frame(&head, b"abc")), DecodeError::Payload(3));
}

#[test]
fn a_newer_client_s_unknown_fields_are_skipped() {
    let mut head = proto::ToServer { msg: Some(proto::to_server::Msg::Ping(proto::Empty {})) }.encode_to_vec();
    head.extend_from_slice(&[0xf8, 0x7f, 5]);
    let mut decoder = at_server();
    decoder.feed(&frame(&head, &[]));
    assert_eq!(decoder.next_message(), Ok(Some(ToServer::Ping)));
}

#[test]
fn a_hello_of_any_version_is_understood_so_that_it_can_be_refused_with_a_reason() {
    let hello = ToServer::Hello(Hello { versions: (7, 9), ..Hello::default() });
    let mut decoder = Decoder::<FromClient>::new();
    decoder.feed(&server_bytes(&hello));
    assert_eq!(decoder.next_message(), Ok(Some(hello)));
    let refusal = ToClient::Refused { why: Refusal::Version, text: "ä".repeat(4000) };
    let mut decoder = at_client();
    decoder.feed(&client_bytes(&refusal));
    let got = decoder.next_message().expect("a long text is cut and not refused");
    assert!(matches!(got, Some(ToClient::Refused { why: Refusal::Version, text }) if text.len() == 4096));
}

proptest! {
    #[test]
    fn no_bytes_do_harm(head in prop::collection::vec(any::<u8>(), 0..300), payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let mut decoder = at_server();
        decoder.feed(&head);
        let _ = decoder.next_message();
        let mut decoder = at_server();
        decoder.feed(&frame(&head, &payload));
        let _ = decoder.next_message();
    }
}
