//! Frames that break the rules: lengths, order, versions, garbage. Each ends its own connection at most, and what is no frame is refused by
//! the name of what is wrong with it.

use loligo_e2e::raw::bytes::{Message, TO_CLIENT, TO_SERVER, frame, header};
use loligo_e2e::raw::{Credentials, Fault, Hello, Said, VERSION, Wire, refusal};
use loligo_types::Random;

use super::requests::cases;
use super::site::Site;

fn message() -> Message {
    Message::new()
}

/// Connections of each kind, before the hello, and whose they are.
fn ways_in(site: &Site) -> [(&'static str, Wire); 3] {
    let bound = Credentials::read(&site.file_of("bound"));
    [
        ("over the Unix socket", Wire::unix(&site.socket())),
        ("over TLS", Wire::tls(site.tcp, &bound)),
        ("over bare TCP", Wire::tcp(site.tcp)),
    ]
}

/// The words with which a frame is refused, if it is; the end of the connection comes in any case.
fn refused(wire: &mut Wire) -> Option<String> {
    let mut told = None;
    loop {
        match wire.hear() {
            Said::Refused { why, text } => {
                assert_eq!(why, refusal::MALFORMED, "{text}");
                told = Some(text);
            }
            Said::Closed => return told,
            other => panic!("instead of the end: {other:?}"),
        }
    }
}

/// Bytes that are no frames, with a word of the refusal.
fn bad_frames() -> Vec<(&'static str, Vec<u8>)> {
    let ping = message().message(7, &message());
    let with = |direction, lengths, bytes: &[u8]| [&header(direction, lengths, bytes)[..], bytes].concat();
    let changed = |at: usize, to: u8| {
        let mut bytes = frame(&ping, &[]);
        bytes[at] = to;
        bytes
    };
    let max = 4 << 20;
    vec![
        ("a message of no bytes", with(TO_SERVER, (0, 0), &[])),
        ("a message that is too long", with(TO_SERVER, (max + 1, 0), &[])),
        ("the longest length", with(TO_SERVER, (u32::MAX, 0), &[])),
        ("a payload that is too long", with(TO_SERVER, (2, max + 1), &[])),
        ("the longest of both", with(TO_SERVER, (u32::MAX, u32::MAX), &[])),
        ("the direction of a server", with(TO_CLIENT, (2, 0), &ping.0)),
        ("the direction of processes", with(3, (2, 0), &ping.0)),
        ("no direction", with(0, (2, 0), &ping.0)),
        ("another magic", changed(0, b'X')),
        ("another layout", changed(2, 2)),
        ("another checksum", changed(12, 0)),
        ("another message under the checksum", changed(16, 0x42)),
        ("a payload where none belongs", frame(&ping, b"payload")),
        ("no protobuf", with(TO_SERVER, (4, 0), &[0xff; 4])),
        ("a message in a message without an end", with(TO_SERVER, (3, 0), &[0x1a, 0x7f, 0x08])),
        ("a message that is none of ours", frame(&message().message(99, &message()), &[])),
        ("a request without an operation", frame(&message().message(3, &message().int(1, 1)), &[])),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("zeros", vec![0; 64]),
        ("ones", vec![0xff; 4096]),
    ]
}

#[test]
fn a_frame_that_breaks_the_rules_is_refused_and_ends_its_own_connection_alone() {
    let Some(site) = Site::new("adversary-frames") else { return };
    let before = site.outside();
    let mut bystander = site.owner(51);
    for (what, bytes) in bad_frames() {
        // Before the hello and after it.
        for (way, mut wire) in ways_in(&site) {
            let _ = wire.send(&bytes);
            let told = refused(&mut wire);
            assert!(told.as_ref().is_none_or(|text| !text.is_empty()), "{what}, {way}");
        }
        for (way, mut wire) in ways_in(&site) {
            let Ok(_) = wire.hello(&Hello::of(52)) else {
                assert_eq!(way, "over bare TCP");
                continue;
            };
            let _ = wire.send(&bytes);
            let told = refused(&mut wire).unwrap_or_else(|| panic!("{what}, {way}: nothing is said"));
            assert!(told.len() > 5, "{what}, {way}: {told}");
        }
        bystander.ping().unwrap_or_else(|fault| panic!("{what}: {fault:?}"));
    }
    site.ends_unharmed(&before);
}

#[test]
fn before_the_hello_a_peer_may_send_a_short_message_and_afterwards_a_long_one() {
    let Some(site) = Site::new("adversary-short") else { return };
    let before = site.outside();
    let long = frame(&Hello { name: vec![b'n'; 16 << 10], ..Hello::of(53) }.message(), &[]);
    for (way, mut wire) in ways_in(&site) {
        let _ = wire.send(&long);
        let told = refused(&mut wire);
        assert!(told.as_ref().is_none_or(|text| text.contains("16384")), "{way}: {told:?}");
    }
    for (way, mut wire) in ways_in(&site) {
        match wire.hello(&Hello { name: vec![b'n'; 256], ..Hello::of(54) }) {
            Err(Said::Refused { why, .. }) => {
                assert!(why == refusal::MALFORMED || why == refusal::NOT_AUTHORIZED && way == "over bare TCP", "{way}");
            }
            other => panic!("{way}: {other:?}"),
        }
    }
    // A request with a name that no file can have, of the longest message.
    let (mut wire, _) = site.bound(55);
    let lookup = message().int(1, site.mine.ino).bytes(2, vec![b'n'; 4 << 20]);
    let _ = wire.say(&wire.request(1, &message().message(16, &lookup)), &[]);
    // The connection ends before all was read, so the words may be lost.
    let _ = refused(&mut wire);
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'n'; 256]] {
        let (mut wire, _) = site.bound(56);
        let lookup = message().int(1, site.mine.ino).bytes(2, name);
        let _ = wire.say(&wire.request(1, &message().message(16, &lookup)), &[]);
        assert!(refused(&mut wire).is_some_and(|text| text.contains("name")), "{name:?}");
    }
    site.ends_unharmed(&before);
}

#[test]
fn frames_that_are_cut_short_or_come_byte_by_byte_are_waited_for_and_disturb_nobody() {
    let Some(site) = Site::new("adversary-pieces") else { return };
    let before = site.outside();
    let hello = frame(&Hello::of(61).message(), &[]);
    let ping = frame(&message().message(7, &message()), &[]);
    // Cut off anywhere, and gone.
    for end in 0..hello.len() {
        for (_, mut wire) in ways_in(&site) {
            let _ = wire.send(&hello[..end]);
        }
    }
    // A write whose payload never comes.
    for _ in 0..20 {
        let (mut wire, _) = site.bound(62);
        let write = frame(&message().message(4, &message().int(1, 1).int(2, 1).int(17, 0)), &[7; 1 << 20]);
        let _ = wire.send(&write[..write.len() / 2]);
    }
    // Byte by byte it is a connection as any.
    for (way, mut wire) in ways_in(&site) {
        for byte in &hello {
            wire.send(&[*byte]).expect("sent");
        }
        match wire.hear() {
            Said::Welcome(_) => {
                ping.iter().for_each(|byte| wire.send(&[*byte]).expect("sent"));
                assert_eq!(wire.hear(), Said::Pong, "{way}");
            }
            Said::Refused { why, .. } => assert!(why == refusal::NOT_AUTHORIZED && way == "over bare TCP", "{way}"),
            other => panic!("{way}: {other:?}"),
        }
    }
    site.ends_unharmed(&before);
}

#[test]
fn a_second_hello_a_missing_one_and_other_versions_are_refused_by_name() {
    let Some(site) = Site::new("adversary-hellos") else { return };
    let before = site.outside();
    for (way, mut wire) in ways_in(&site) {
        if way == "over bare TCP" {
            continue;
        }
        wire.hello(&Hello::of(71)).expect("it is let in");
        match wire.hello(&Hello::of(71)) {
            Err(Said::Refused { why: refusal::MALFORMED, text }) => assert!(text.contains("hello before"), "{text}"),
            other => panic!("{way}: {other:?}"),
        }
        assert_eq!(wire.hear(), Said::Closed, "{way}");
    }
    // Anything else before it.
    for number in [2, 3, 4, 5, 6, 7, 8] {
        let inner = match number {
            3 => message().int(1, 1).message(38, &message()),
            4 => message().int(1, 1).int(2, 1).int(3, 4 << 20).message(18, &message()),
            _ => message(),
        };
        for (way, mut wire) in ways_in(&site) {
            let _ = wire.say(&message().message(number, &inner), &[]);
            match wire.hear() {
                Said::Closed | Said::Refused { .. } => {}
                // Data requests are not of the session's machine: this one is told that it has no right, and may say hello still.
                Said::Data { fields, .. } if number == 4 => assert_ne!(fields.int(2), 0, "{way}"),
                other => panic!("{number}, {way}: {other:?}"),
            }
        }
    }
    for versions in (1..VERSION).map(|old| (old, old)).chain([
        (0, 0),
        (1, VERSION - 1),
        (VERSION + 1, VERSION + 2),
        (VERSION + 1, VERSION),
        (u64::from(u32::MAX), 1),
    ]) {
        for (way, mut wire) in ways_in(&site) {
            match wire.hello(&Hello { versions, ..Hello::of(72) }) {
                Err(Said::Refused { why: refusal::VERSION, text }) => {
                    let said = [VERSION, versions.0, versions.1].map(|number| text.contains(&number.to_string()));
                    assert_eq!(said, [true; 3], "{way}: {text}");
                }
                other => panic!("{versions:?}, {way}: {other:?}"),
            }
        }
    }
    let (mut wire, other) = (Wire::unix(&site.socket()), Some(vec![9; 16]));
    match wire.hello(&Hello { fs_id: other, ..Hello::of(73) }) {
        Err(Said::Refused { text, .. }) => assert!(text.contains("another file system"), "{text}"),
        other => panic!("{other:?}"),
    }
    site.ends_unharmed(&before);
}

/// Messages in good frames whose bytes are drawn, or drawn into those of good requests.
#[test]
fn drawn_messages_and_requests_with_drawn_bytes_in_them_do_not_end_the_server() {
    let Some(site) = Site::new("adversary-garbage") else { return };
    let before = site.outside();
    let mut dice = Random::new(7);
    let (mut wire, mut refusals) = (site.bound(81).0, 0);
    let good = cases(site.mine.ino, site.mine.file);
    for round in 0..600u64 {
        let (mut bytes, payload) = if round % 3 == 0 {
            let len = 1 + dice.below(40) as usize;
            ((0..len).map(|_| dice.below(256) as u8).collect(), Vec::new())
        } else {
            let case = &good[dice.below(good.len() as u64) as usize];
            let (op, payload) = (case.make)(&case.honest);
            wire.seq += 1;
            (wire.request(wire.seq, &op).0, payload)
        };
        for _ in 0..dice.below(4) {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = dice.below(256) as u8;
        }
        let _ = wire.say(&Message(bytes), &payload);
        // It may have said goodbye, or hello.
        match wire.ping() {
            Ok(()) => {}
            Err(Fault::Refused { .. } | Fault::Closed) => {
                refusals += 1;
                wire = site.bound(81).0;
            }
            Err(fault) => panic!("round {round}: {fault:?}"),
        }
    }
    assert!(refusals > 60, "{refusals} of 600 were refused");
    site.ends_unharmed(&before);
}
