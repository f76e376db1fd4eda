//! Every request of the protocol, with numbers of what is outside of the identity's path. The table is held against `loligo.proto`, so a new
//! operation fails here until it stands in the table.

use std::collections::BTreeSet;

use loligo_e2e::raw::bytes::{Message, put_varint};
use loligo_e2e::raw::{Fault, Hello, Wire, error};

use super::site::Site;

const PROTO: &str = include_str!("../../../wire/proto/loligo.proto");

/// A request: its number in the protocol, the inode numbers that an honest client says in it, and how it is made of such numbers.
pub struct Case {
    pub op: u32,
    pub what: &'static str,
    pub honest: Vec<u64>,
    pub make: Make<(Message, Vec<u8>)>,
}

/// Makes something of inode numbers.
type Make<T> = Box<dyn Fn(&[u64]) -> T>;

/// Handle of `/mine/f`, which the adversary has open.
pub const HANDLE: u64 = 7;

fn message() -> Message {
    Message::new()
}

fn flags(bits: &[u32]) -> Message {
    bits.iter().fold(message(), |flags, bit| flags.int(*bit, 1))
}

fn lock(exclusive: bool) -> Message {
    message().int(1, 1).fixed(2, 5).int(3, 9).int(4, u64::from(exclusive)).int(6, 99)
}

/// A name in a directory.
fn at(name: &'static str) -> impl Fn(&[u64]) -> Message {
    move |numbers| message().int(1, numbers[0]).bytes(2, name)
}

/// Request to a decoupled subtree: a code and numbers.
pub fn subtree(code: u8, numbers: &[u64]) -> Vec<u8> {
    let mut what = vec![code];
    numbers.iter().for_each(|number| put_varint(&mut what, *number));
    what
}

/// The operations, in an order in which an honest client can carry all of them out in its directory and on its file.
pub fn cases(dir: u64, file: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |op: u32, what, honest: &[u64], make: Make<Message>| {
        let make = Box::new(move |numbers: &[u64]| (message().message(op, &make(numbers)), Vec::new()));
        cases.push(Case { op, what, honest: honest.to_vec(), make });
    };
    let inode = || Box::new(|numbers: &[u64]| message().int(1, numbers[0]));
    case(16, "lookup", &[dir], Box::new(at("f")));
    case(17, "lookup_parent", &[dir], inode());
    case(18, "get_attr", &[file], inode());
    case(19, "set_attr of a mode", &[file], Box::new(|n| message().int(1, n[0]).int(3, 0o666)));
    case(19, "set_attr of an owner", &[file], Box::new(|n| message().int(1, n[0]).int(4, 5).int(5, 5)));
    case(19, "set_attr of a time", &[file], Box::new(|n| message().int(1, n[0]).message(8, &message())));
    case(19, "set_attr of a size", &[file], Box::new(|n| message().int(1, n[0]).int(6, 0)));
    case(19, "set_attr of a size by a handle", &[file], Box::new(|n| message().int(1, n[0]).int(2, HANDLE).int(6, 3)));
    case(20, "open", &[file], Box::new(|n| message().int(1, n[0]).int(2, 8).message(3, &flags(&[1]))));
    case(20, "open to write", &[file], Box::new(|n| message().int(1, n[0]).int(2, 9).message(3, &flags(&[1, 2]))));
    case(20, "open to cut", &[file], Box::new(|n| message().int(1, n[0]).int(2, 10).message(3, &flags(&[2, 3]))));
    let create = |n: &[u64]| at("made")(n).int(3, 0o644).message(5, &flags(&[1, 2])).int(7, 11);
    case(21, "create", &[dir], Box::new(create));
    let create = |n: &[u64]| at("f")(n).int(3, 0o644).message(5, &flags(&[1, 2, 3])).int(7, 12);
    case(21, "create of what is there", &[dir], Box::new(create));
    let tmpfile = |n: &[u64]| message().int(1, n[0]).int(2, 0o644).message(4, &flags(&[1, 2])).int(5, 1).int(6, 13);
    case(22, "tmpfile", &[dir], Box::new(tmpfile));
    case(24, "mknod", &[dir], Box::new(|n| at("node")(n).int(3, 4).int(4, 0o644)));
    case(25, "mkdir", &[dir], Box::new(|n| at("new")(n).int(3, 0o755)));
    case(26, "symlink", &[dir], Box::new(|n| at("new-link")(n).bytes(3, "f")));
    case(27, "link", &[file, dir], Box::new(|n| message().int(1, n[0]).int(2, n[1]).bytes(3, "third")));
    case(28, "unlink", &[dir], Box::new(at("second")));
    case(29, "rmdir", &[dir], Box::new(at("empty")));
    for (mode, name, new) in [(0, "link", "moved"), (1, "moved", "moved-2"), (2, "moved-2", "f"), (2, "moved-2", "f")] {
        let rename = move |n: &[u64]| at(name)(n).int(3, n[1]).bytes(4, new).int(5, mode);
        case(30, "rename", &[dir, dir], Box::new(rename));
    }
    case(31, "readlink", &[file], inode());
    case(32, "readdir", &[dir], Box::new(|n| message().int(1, n[0]).int(3, 99).int(4, 1)));
    case(32, "readdir by a handle", &[dir], Box::new(|n| message().int(1, n[0]).int(3, 99).int(5, HANDLE)));
    case(33, "get_xattr", &[file], Box::new(at("user.a")));
    case(34, "list_xattr", &[file], inode());
    case(35, "set_xattr", &[file], Box::new(|n| at("user.b")(n).bytes(3, "1")));
    case(35, "set_xattr of an ACL", &[file], Box::new(|n| at("system.posix_acl_access")(n).bytes(3, "")));
    // A policy of a directory is an xattr, too.
    case(35, "set_xattr of a policy", &[dir], Box::new(|n| at("loligo.policy.pin")(n).bytes(3, "0")));
    case(36, "remove_xattr", &[file], Box::new(at("user.a")));
    case(37, "access", &[file], Box::new(|n| message().int(1, n[0]).int(2, 1)));
    case(39, "read_inline", &[file], Box::new(|n| message().int(1, n[0]).int(2, HANDLE)));
    let set_data = |n: &[u64]| message().int(1, n[0]).int(2, HANDLE).int(4, 9).message(5, &message());
    case(41, "set_data", &[file], Box::new(set_data));
    case(42, "extend", &[file], Box::new(|n| message().int(1, n[0]).int(2, HANDLE).int(3, 1)));
    let on = |n: &[u64]| message().int(1, n[0]).int(2, HANDLE).message(3, &lock(true));
    case(43, "set_lock", &[file], Box::new(on));
    case(45, "get_lock", &[file], Box::new(on));
    case(44, "unlock", &[file], Box::new(on));
    case(46, "cancel_lock", &[file], Box::new(|n| message().int(1, n[0]).fixed(2, 5)));
    case(51, "walk", &[dir], Box::new(at("f")));
    case(51, "walk by replicas", &[dir], Box::new(|n| at("f")(n).int(3, 2)));
    let mut via = |what, number: u32, name: &'static str, done: Message| {
        case(52, what, &[dir], Box::new(move |n| at(name)(n).message(number, &done)));
    };
    via("mknod at the end of a way", 4, "d", message().bytes(2, "node").int(3, 4).int(4, 0o644));
    via("mkdir at the end of a way", 5, "d", message().bytes(2, "new").int(3, 0o755));
    via("symlink at the end of a way", 6, "d", message().bytes(2, "new-link").bytes(3, "f"));
    via("unlink at the end of a way", 7, "d", message().bytes(2, "deep"));
    via("rmdir at the end of a way", 8, "d", message().bytes(2, "new"));
    via("open at the end of a way", 9, "f", message().int(2, 20).message(3, &flags(&[1, 2])));
    via("create at the end of a way", 10, "d", message().bytes(2, "x").message(5, &flags(&[2])).int(7, 21));
    via("set_attr at the end of a way", 11, "f", message().int(3, 0o666));
    via("readlink at the end of a way", 12, "link", message());
    via("readdir at the end of a way", 13, "d", message().int(3, 99));
    let decouple = |n: &[u64]| message().int(1, n[0]).bytes(2, [&subtree(1, &[77, 0, 9, 60_000])[..], &[0]].concat());
    case(50, "decouple", &[dir], Box::new(decouple));
    for (what, code, numbers) in [
        ("grant of numbers of a subtree", 2, &[1, 9][..]),
        ("merge", 5, &[1, 1, 0, 0]),
        ("end of a subtree", 6, &[1]),
        ("take over", 9, &[77]),
        ("merge into the table", 11, &[1, 1, 0, 0]),
        ("take over now", 12, &[77]),
    ] {
        case(50, what, &[dir], Box::new(move |n| message().int(1, n[0]).bytes(2, subtree(code, numbers))));
    }
    let bytes = Case {
        op: 40,
        what: "write_inline",
        honest: vec![file],
        make: Box::new(|n| {
            let write = message().int(1, n[0]).int(2, HANDLE).int(3, 0).message(4, &message());
            (message().message(40, &write), b"mine".to_vec())
        }),
    };
    cases.push(bytes);
    cases
}

/// Numbers of the operations of a request, as the protocol's file has them.
fn operations() -> BTreeSet<u32> {
    let (_, request) = PROTO.split_once("\nmessage Request {").expect("there are requests");
    let (_, oneof) = request.split_once("oneof op {").expect("they have operations");
    let lines = oneof.split_once('}').expect("it ends").0.lines();
    let number = |line: &str| line.split_once('=')?.1.split(';').next()?.trim().parse().ok();
    lines.filter_map(number).collect()
}

#[test]
fn every_operation_of_the_protocol_stands_in_the_table_or_says_no_number() {
    // close, statfs, sync, grant_inos, data_address and persist.
    let without_numbers = [23, 38, 47, 48, 49, 53];
    let covered = cases(1, 2).iter().map(|case| case.op).chain(without_numbers).collect::<BTreeSet<u32>>();
    assert_eq!(covered, operations());
}

/// Asks, over a new connection if the server closed the one before.
fn ask(site: &Site, wire: &mut Wire, case: &Case, numbers: &[u64]) -> Result<(), Fault> {
    let (op, payload) = (case.make)(numbers);
    let result = wire.call(&op, &payload).map(drop);
    if matches!(result, Err(Fault::Refused { .. } | Fault::Closed)) {
        *wire = opened(site, 900);
    }
    result
}

/// A connection of the limited identity that has its file open.
fn opened(site: &Site, client: u64) -> Wire {
    let (mut wire, _) = site.bound(client);
    let open = message().int(1, site.mine.file).int(2, HANDLE).message(3, &flags(&[1, 2]));
    wire.call(&message().message(20, &open), &[]).expect("it is its file");
    wire
}

/// Of the root of the file system a limited client sees the next name on its way, and attributes.
fn may_be_asked_of_the_root(case: &Case) -> bool {
    matches!(case.op, 17 | 18 | 34 | 37)
}

#[test]
fn no_number_of_what_is_outside_of_the_path_is_taken_in_any_place_of_any_request() {
    let Some(site) = Site::new("adversary-requests") else { return };
    let before = site.outside();
    let mut wire = opened(&site, 900);
    for case in cases(site.mine.ino, site.mine.file) {
        for place in 0..case.honest.len() {
            for outside in [site.theirs.ino, site.theirs.file, 1, 0, 1 << 40, u64::MAX] {
                let mut numbers = case.honest.clone();
                numbers[place] = outside;
                let result = ask(&site, &mut wire, &case, &numbers);
                let what = format!("{} with {outside} at {place}: {result:?}", case.what);
                match result {
                    // That nobody waits for a lock of an inode that is not there is so.
                    Ok(()) if case.op == 46 => assert!(outside >= 1 << 40, "{what}"),
                    Ok(()) => assert!(outside == 1 && may_be_asked_of_the_root(&case), "{what}"),
                    Err(Fault::Error(error::ACCESS | error::BAD_HANDLE)) => {}
                    // What is no inode of the identity's may be named as it is.
                    Err(Fault::Error(_)) => assert!(![site.theirs.ino, site.theirs.file].contains(&outside), "{what}"),
                    Err(_) => assert!(outside == 0, "the frame is good, and its numbers can be: {what}"),
                }
            }
        }
    }
    // Both of them in one request, so that nothing of it is the identity's own.
    for case in cases(site.theirs.ino, site.theirs.file) {
        let result = ask(&site, &mut wire, &case, &case.honest);
        assert!(matches!(result, Err(Fault::Error(error::ACCESS | error::BAD_HANDLE))), "{}: {result:?}", case.what);
    }
    site.ends_unharmed(&before);
}

#[test]
fn the_same_requests_with_the_clients_own_numbers_are_carried_out() {
    let Some(site) = Site::new("adversary-own") else { return };
    let before = site.outside();
    let mut wire = opened(&site, 901);
    for case in cases(site.mine.ino, site.mine.file) {
        let result = ask(&site, &mut wire, &case, &case.honest);
        let refused = matches!(result, Err(Fault::Error(error::ACCESS | error::NOT_AUTHORIZED)));
        assert!(!refused && !matches!(result, Err(Fault::Refused { .. } | Fault::Closed)), "{}: {result:?}", case.what);
        // These are not what such a file, or a directory that is not decoupled, can be asked.
        let fails = ["readlink", "readdir by", "set_xattr of", "set_data", "extend", "read_inline", "write_inline"];
        if !fails.iter().any(|words| case.what.starts_with(words)) && case.op != 50 {
            assert!(result.is_ok() || case.what.contains("end of a way"), "{}: {result:?}", case.what);
        }
    }
    site.ends_unharmed(&before);
}

#[test]
fn bytes_of_files_that_are_not_open_are_neither_read_nor_changed() {
    let Some(site) = Site::new("adversary-data") else { return };
    let before = site.outside();
    let mut wire = opened(&site, 902);
    let deep = site.fs().stat("/theirs/d/deep").expect("it is there").ino.0;
    let range = message().int(1, 0).int(2, 4096);
    let ops = [
        (message().message(16, &range), Vec::new()),
        (message().int(17, 0), b"mine".to_vec()),
        (message().message(18, &message()), Vec::new()),
        (message().message(19, &range), Vec::new()),
        (message().int(20, 0), Vec::new()),
        (message().message(21, &message().int(2, 99).int(3, 1)), Vec::new()),
    ];
    for ino in [deep, site.theirs.file, site.theirs.ino, 1, 2, 1 << 40, u64::MAX] {
        for (op, payload) in &ops {
            let (error, bytes) = wire.data(ino, op, payload).expect("it is answered");
            assert!(error != 0 && bytes.is_empty(), "{ino} {op:?}: {error}");
        }
    }
    // Nor by a number that it was granted for something to be made.
    let (granted, _) = wire.call(&message().int(48, 9), &[]).expect("it may make files");
    let first = granted.message(25).int(1);
    for number in [first, first + 100, site.theirs.file, 1] {
        let (error, _) = wire.data(number, &message().int(17, 0), b"mine").expect("it is answered");
        assert_ne!(error, 0, "{number}");
    }
    site.ends_unharmed(&before);
}

#[test]
fn what_is_made_gets_no_number_that_was_not_granted() {
    let Some(site) = Site::new("adversary-numbers") else { return };
    let before = site.outside();
    let mut wire = opened(&site, 903);
    let (granted, _) = wire.call(&message().int(48, 4), &[]).expect("it may make files");
    let first = granted.message(25).int(1);
    let mut make = |name: &str, number: u64| {
        wire.seq += 1;
        let mkdir = message().int(1, site.mine.ino).bytes(2, name).int(3, 0o755);
        let request = wire.request(wire.seq, &message().int(7, number).message(25, &mkdir));
        let _ = wire.say(&request, &[]);
        wire.reply(wire.seq).map(drop)
    };
    for number in [site.theirs.file, site.theirs.ino, site.mine.file, 1, first - 1, first + 4, 1 << 40, u64::MAX] {
        assert_eq!(make("numbered", number), Err(Fault::Error(error::NOT_GRANTED)), "{number}");
    }
    make("numbered", first).expect("it was granted");
    assert!(matches!(make("again", first), Err(Fault::Error(_))), "it has made something");
    // A grant is its session's.
    let (mut other, _) = site.bound(904);
    let mkdir = message().int(1, site.mine.ino).bytes(2, "others").int(3, 0o755);
    let request = other.request(7, &message().int(7, first + 1).message(25, &mkdir));
    let _ = other.say(&request, &[]);
    assert_eq!(other.reply(7).map(drop), Err(Fault::Error(error::NOT_GRANTED)));
    site.ends_unharmed(&before);
}

#[test]
fn a_limited_client_gives_no_address_for_the_store_and_a_read_only_one_changes_nothing() {
    let Some(site) = Site::new("adversary-read-only") else { return };
    let reader = site.identity("reader", &["--read-only"]);
    let (before, mine) = (site.outside(), site.fs().stat("/mine").expect("it is there"));
    let (mut wire, _) = site.bound(905);
    let address = message().bytes(49, "1.2.3.4:0/5");
    assert_eq!(wire.call(&address, &[]).map(drop), Err(Fault::Error(error::NOT_SUPPORTED)));
    let mut wire = Wire::tls(site.tcp, &reader);
    wire.hello(&Hello::of(906)).expect("it is let in");
    let open = message().int(1, site.mine.file).int(2, HANDLE).message(3, &flags(&[1]));
    wire.call(&message().message(20, &open), &[]).expect("it may read");
    let changes = [19, 21, 22, 24, 25, 26, 27, 28, 29, 30, 35, 36, 40, 41, 42, 50].iter().collect::<BTreeSet<&u32>>();
    for case in cases(site.mine.ino, site.mine.file).iter().filter(|case| changes.contains(&case.op)) {
        let (op, payload) = (case.make)(&case.honest);
        let result = wire.call(&op, &payload).map(drop);
        assert_eq!(result, Err(Fault::Error(error::READ_ONLY)), "{}", case.what);
    }
    let (stale, _) = wire.data(site.mine.file, &message().int(17, 0), b"mine").expect("it is answered");
    assert_ne!(stale, 0);
    assert_eq!(site.fs().stat("/mine").expect("it is there").mtime, mine.mtime);
    site.ends_unharmed(&before);
}
