//! Bytes that must never change within a protocol version.

use loligo_types::msg::{Hello, Request, ToClient, ToServer, Welcome};
use loligo_types::{
    Answer, Attr, ClusterMap, Control, Cred, DataError, DirEntry, Frag, FsError, Ino, Kind, Layout, Lease, Name, Op,
    OpenFlags, Rank, RankInfo, RankState, Replicas, Route, Seq, SessionId, SetAttr, SetTime, Time,
};

use super::{at_client, at_server, client_bytes, server_bytes};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn to_server(msg: ToServer, golden: &str) {
    let bytes = server_bytes(&msg);
    assert_eq!(hex(&bytes), golden);
    let mut decoder = at_server();
    decoder.feed(&bytes);
    assert_eq!(decoder.next_message(), Ok(Some(msg)));
}

pub(super) fn to_client(msg: ToClient, golden: &str) {
    let bytes = client_bytes(&msg);
    assert_eq!(hex(&bytes), golden);
    let mut decoder = at_client();
    decoder.feed(&bytes);
    assert_eq!(decoder.next_message(), Ok(Some(msg)));
}

fn route() -> Route {
    Route { dir: Ino(0x100), frag: Frag { bits: 2, value: 3 }, rank: Rank(1), version: 4 }
}

fn map() -> ClusterMap {
    let info = |rank, state| RankInfo { rank: Rank(rank), address: format!("tcp:h:{rank}"), state };
    ClusterMap { epoch: 5, ranks: vec![info(0, RankState::Up), info(1, RankState::Draining)], ..Default::default() }
}

#[test]
fn a_ping() {
    to_server(ToServer::Ping, "4c6f0101020000000000000098d059113a00");
}

#[test]
fn goodbyes() {
    to_server(ToServer::Goodbye { gone: false }, "4c6f01010200000000000000a7c714334200");
    to_server(ToServer::Goodbye { gone: true }, "4c6f01010400000000000000413c379f42020801");
}

#[test]
fn a_hello_that_resumes() {
    to_server(
        ToServer::Hello(Hello {
            versions: (1, 2),
            resume: Some((SessionId(7), 0x0102_0304_0506_0708)),
            name: "c".into(),
            client: 0x1112_1314_1516_1718,
            fs_id: Some([9; 16]),
        }),
        "4c6f01012f00000000000000666279f10a2d0801100218072108070605040302012a01633210090909090909\
         09090909090909090909391817161514131211",
    );
}

#[test]
fn a_welcome_after_a_restart() {
    to_client(
        ToClient::Welcome(Welcome {
            version: 1,
            session: SessionId(7),
            secret: 0x0102_0304_0506_0708,
            resumed: true,
            kept: false,
            fs_id: [9; 16],
            inline_max: 4096,
            session_ms: 30_000,
            data_epoch: 300,
            rank: Rank(1),
            hash_key: (5, 6),
            map: map(),
            routes: vec![route()],
            direct: String::new(),
            recovered: loligo_types::Lsn(0),
            journal_max: 0,
        }),
        "4c6f01026e00000000000000924359890a6c0801100719080706050403020120013210090909090909090909\
         0909090909090938802040b0ea0148ac0250015a1e0805120b12077463703a683a301801120d080112077463\
         703a683a311802620b0880021002180320012804690500000000000000710600000000000000",
    );
}

#[test]
fn a_create() {
    to_server(
        ToServer::Request(Request {
            seq: Seq(3),
            answered: Seq(2),
            want: Lease::ATTR | Lease::NAMES,
            cred: Cred { uid: 1000, gid: 100, groups: vec![4, 100] },
            op: Op::Create {
                dir: Ino(1),
                name: Name::new(b"file").expect("a name"),
                mode: 0o644,
                umask: 0o22,
                flags: OpenFlags { read: true, write: true, ..OpenFlags::default() },
                exclusive: true,
                handle: 5,
            },
            ino: None,
            ways: None,
        }),
        "4c6f01012b000000000000003642b0b71a2908031002180320e807286432020464aa01170801120466696c65\
         18a40320122a040801100130013805",
    );
}

#[test]
fn an_append_reserves_room_and_tells_of_it() {
    let (ino, handle, kill_priv) = (Ino(0x100), 5, false);
    to_server(
        ToServer::Request(Request {
            seq: Seq(3),
            answered: Seq(2),
            want: Lease::NONE,
            cred: Cred { uid: 1000, gid: 100, groups: Vec::new() },
            op: Op::Extend { ino, handle, len: 10 },
            ino: None,
            ways: None,
        }),
        "4c6f01011500000000000000d88826da1a130803100220e8072864d202070880021005180a",
    );
    let (cuts, grow_to, behind, mtime) = (1, Some(110), Some(100), SetTime::Now);
    to_server(
        ToServer::Request(Request {
            seq: Seq(3),
            answered: Seq(2),
            want: Lease::NONE,
            cred: Cred { uid: 1000, gid: 100, groups: Vec::new() },
            op: Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled: false, kill_priv, patches: None },
            ino: None,
            ways: None,
        }),
        "4c6f01011b000000000000009b3c9abb1a190803100220e8072864ca020d08800210051801206e2a004064",
    );
    let patches = loligo_types::Patches::new(vec![(0, 1), (100, 2)], [7, 8, 9].into()).map(std::sync::Arc::new);
    to_server(
        ToServer::Request(Request {
            seq: Seq(3),
            answered: Seq(2),
            want: Lease::NONE,
            cred: Cred { uid: 1000, gid: 100, groups: Vec::new() },
            op: Op::SetData { ino, handle, cuts, grow_to, behind: None, mtime, spilled: true, kill_priv, patches },
            ino: None,
            ways: None,
        }),
        "4c6f010123000000030000003ec4dffc1a210803100220e8072864ca021508800210051801206e2a0030014a02006452020102070809",
    );
}

#[test]
fn a_request_for_inode_numbers_that_names_one() {
    to_server(
        ToServer::Request(Request {
            seq: Seq(3),
            answered: Seq(2),
            want: Lease::NONE,
            cred: Cred { uid: 0, gid: 0, groups: Vec::new() },
            op: Op::Control(Control::GrantInos { count: 300 }),
            ino: Some(Ino(300)),
            ways: None,
        }),
        "4c6f01010d000000000000004b74cb0a1a0b0803100238ac028003ac02",
    );
}

#[test]
fn an_address_in_the_store() {
    let op = Op::Control(Control::DataAddress { address: b"10.0.0.7:0/12"[..].into() });
    let request =
        Request { seq: Seq(3), answered: Seq(2), want: Lease::NONE, cred: Cred::root(), op, ino: None, ways: None };
    to_server(
        ToServer::Request(request),
        "4c6f0101160000000000000029d972e31a14080310028a030d31302e302e302e373a302f3132",
    );
}

#[test]
fn an_answer_with_inode_numbers() {
    let result = Ok(Answer::Inos { first: Ino(300), count: 2 });
    to_client(ToClient::reply(3, result), "4c6f01020c00000000000000c037c6571a0a0803ca010508ac021002");
}

#[test]
fn an_answer_with_data() {
    to_client(
        ToClient::Reply {
            seq: Seq(3),
            result: Ok(Answer::Opened {
                attr: Attr {
                    ino: Ino(0x100),
                    kind: Kind::File,
                    mode: 0o644,
                    uid: 1000,
                    gid: 100,
                    nlink: 1,
                    size: 3,
                    rdev: 0,
                    atime: Time(1),
                    mtime: Time(2),
                    ctime: Time(3),
                    btime: Time(-4),
                    change: 5,
                    cuts: 0,
                    inline: true,
                    has_xattrs: false,
                    layout: Layout::default(),
                },
                created: true,
                rights: Lease::CACHE | Lease::BUFFER,
                data: Some(b"abc"[..].into()),
            }),
            granted: vec![(Ino(1), Lease::NAMES)],
            ways: vec![],
            volatile: None,
            journal: None,
        },
        "4c6f010254000000030000008bce2c5b1a5208031204080110029201470a3f088002100118a40320e8072864\
         3001380349010000000000000051020000000000000059030000000000000061fcffffffffffffff68057801\
         8801808080021001180c2001616263",
    );
}

#[test]
fn an_error() {
    to_client(ToClient::reply(300, Err(FsError::NotFound)), "4c6f010207000000000000000371292a1a0508ac021801");
}

#[test]
fn the_answer_to_a_ping() {
    to_client(ToClient::Pong { at_ms: 300 }, "4c6f01020500000000000000f07af8f6320308ac02");
}

#[test]
fn a_redirect_of_something_done() {
    to_client(
        ToClient::Redirect { seq: Seq(3), rank: Rank(1), routes: vec![route()], done: Some((Ino(0x101), 1)) },
        "4c6f01021a00000000000000c136d9614218080310011a0b088002100218032001280422050881021001",
    );
}

#[test]
fn new_maps() {
    to_client(
        ToClient::Routes { routes: vec![route()], moved: Vec::new(), to: None, frozen_ms: 0 },
        "4c6f01020f00000000000000a445e5704a0d0a0b0880021002180320012804",
    );
    to_client(
        ToClient::Routes { routes: Vec::new(), moved: vec![Ino(0x101)], to: Some(Rank(1)), frozen_ms: 5 },
        "4c6f01020a00000000000000122b458d4a081202810218012005",
    );
    to_client(
        ToClient::Map(map()),
        "4c6f01022000000000000000990592fa521e0805120b12077463703a683a301801120d080112077463703a68\
         3a311802",
    );
}

#[test]
fn a_walk_over_several_names() {
    let name = |text: &str| Name::new(text.as_bytes()).expect("a good name");
    let op = Op::Walk { dir: Ino::ROOT, names: [name("a"), name("b")].into(), by: Replicas::OnTheWay };
    let request =
        Request { seq: Seq(3), answered: Seq(3), want: Lease::NONE, cred: Cred::root(), op, ino: None, ways: None };
    to_server(ToServer::Request(request), "4c6f010113000000000000003d2d85331a11080310039a030a08011201611201621801");
    let last = Box::new(Answer::Remote { ino: Ino(0x100), kind: Kind::Dir, rank: Rank(1) });
    let result = Ok(Answer::Walked { done: 2, dir: Ino(0x101), last, by_path: 1 });
    to_client(
        ToClient::reply(3, result),
        "4c6f01021700000000000000c5f97a0c1a150803da011008021081022207088002100218012801",
    );
}

#[test]
fn a_name_that_is_made_at_the_end_of_a_way() {
    let name = |text: &str| Name::new(text.as_bytes()).expect("a good name");
    let what = Box::new(Op::Mkdir { dir: Ino(0), name: name("c"), mode: 0o755, umask: 0o22 });
    let op = Op::Via { dir: Ino::ROOT, names: [name("a"), name("b")].into(), by: Replicas::ToTheEnd, what };
    let request =
        Request { seq: Seq(3), answered: Seq(3), want: Lease::NONE, cred: Cred::root(), op, ino: None, ways: None };
    to_server(
        ToServer::Request(request),
        "4c6f01011d00000000000000363fd9ef1a1b08031003a20314080112016112016218022a0812016318ed032012",
    );
}

#[test]
fn what_is_done_at_the_end_of_a_way() {
    let name = |text: &str| Name::new(text.as_bytes()).expect("a good name");
    let via = |what| {
        let op = Op::Via {
            dir: Ino::ROOT,
            names: [name("a"), name("b")].into(),
            by: Replicas::OnTheWay,
            what: Box::new(what),
        };
        let (seq, cred) = (Seq(3), Cred::root());
        ToServer::Request(Request { seq, answered: seq, want: Lease::ATTR, cred, op, ino: None, ways: None })
    };
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    to_server(
        via(Op::Open { ino: Ino(0), flags, handle: 7 }),
        "4c6f01011d00000000000000b71d898c1a1b080310031801a20312080112016112016218014a0610071a020801",
    );
    let (dir, exclusive) = (Ino(0), true);
    to_server(
        via(Op::Create { dir, name: name("c"), mode: 0o644, umask: 0o22, flags, exclusive, handle: 7 }),
        "4c6f0101270000000000000083fe4b6e1a25080310031801a2031c08011201611201621801521012016318a40320122a02080130013807",
    );
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    to_server(
        via(Op::SetAttr { ino: Ino(0), set, handle: None }),
        "4c6f01011a0000000000000000c28abf1a18080310031801a2030f080112016112016218015a03188003",
    );
    to_server(
        via(Op::Readlink { ino: Ino(0) }),
        "4c6f010117000000000000002da4bf971a15080310031801a2030c080112016112016218016200",
    );
    to_server(
        via(Op::Readdir { dir: Ino(0), cookie: 0, limit: 1024, plus: true, handle: None }),
        "4c6f01011c00000000000000a96d49fe1a1a080310031801a20311080112016112016218016a051880082001",
    );
    let entry =
        DirEntry { name: name("x"), ino: Ino(0x102), kind: Kind::File, cookie: 5, attr: None, lease: Lease::NONE };
    let last = Box::new(Answer::Entries { entries: vec![entry], next: 5, end: false });
    let result = Ok(Answer::Walked { done: 2, dir: Ino(0x101), last, by_path: 0 });
    to_client(
        ToClient::reply(3, result),
        "4c6f01022a000000000000008946e9e91a280803da01230802108102321c0a110a01781082021801210500000000000000190500000000000000",
    );
}

#[test]
fn what_is_elsewhere() {
    let result = Ok(Answer::Remote { ino: Ino(0x100), kind: Kind::Dir, rank: Rank(1) });
    to_client(
        ToClient::Reply {
            seq: Seq(3),
            result,
            granted: vec![(Ino(1), Lease::NAMES)],
            ways: vec![],
            volatile: None,
            journal: None,
        },
        "4c6f01021400000000000000f926764f1a120803120408011002c2010708800210021801",
    );
    to_client(ToClient::Data { id: 9, result: Err(DataError::Moved) }, "4c6f01020600000000000000591a20a8220408091007");
}

#[test]
fn a_walk_with_which_lookup_leases_come() {
    let name = |text: &str| Name::new(text.as_bytes()).expect("a good name");
    let op = Op::Walk { dir: Ino::ROOT, names: [name("a"), name("b")].into(), by: Replicas::OnTheWay };
    let ways = Some(0);
    let request = Request { seq: Seq(3), answered: Seq(3), want: Lease::NONE, cred: Cred::root(), op, ino: None, ways };
    to_server(ToServer::Request(request), "4c6f010115000000000000002b5284a31a130803100340019a030a08011201611201621801");
    let result = Err(FsError::NotFound);
    let ways = vec![(Ino::ROOT, 1000), (Ino(0x100), 0), (Ino(0x101), 50)];
    to_client(
        ToClient::Reply { seq: Seq(3), result, granted: Vec::new(), ways, volatile: None, journal: None },
        "4c6f010219000000000000005ec86b511a17080318012205080110e807220308800222050881021032",
    );
}

#[test]
fn the_document_of_the_messages_names_the_version_that_is_spoken() {
    let document = include_str!("../../proto/loligo.proto");
    let told = format!("protocol version {}.", loligo_types::msg::PROTOCOL_VERSION);
    assert!(document.contains(&told), "no `{told}` in loligo.proto");
}
