//! Sessions of others, numbers of requests that were said before, and words about what the server never lent or asked.

use loligo_e2e::raw::bytes::{Fields, Message};
use loligo_e2e::raw::{Fault, Hello, Said, Wire, error, refusal};

use super::requests::HANDLE;
use super::site::Site;

fn message() -> Message {
    Message::new()
}

fn mkdir(dir: u64, name: &str) -> Message {
    message().message(25, &message().int(1, dir).bytes(2, name).int(3, 0o755))
}

fn lookup(dir: u64, name: &str) -> Message {
    message().message(16, &message().int(1, dir).bytes(2, name))
}

fn open(ino: u64, handle: u64) -> Message {
    message().message(20, &message().int(1, ino).int(2, handle).message(3, &message().int(1, 1).int(2, 1)))
}

/// The inode of which a reply tells attributes.
fn entry(answer: &Result<(Fields, Vec<u8>), Fault>) -> u64 {
    match answer {
        Ok((fields, _)) => fields.message(17).int(1),
        Err(fault) => panic!("{fault:?}"),
    }
}

#[test]
fn nobody_goes_on_with_the_session_of_another_whatever_is_said_to_be_known_of_it() {
    let Some(site) = Site::new("adversary-sessions") else { return };
    let other = site.identity("other", &[]);
    let before = site.outside();
    let (mut victim, session) = site.bound(11);
    let (_owner, owners) = {
        let mut wire = Wire::unix(&site.socket());
        let session = wire.hello(&Hello::of(12)).expect("the owner is let in");
        (wire, session)
    };
    let mut wire = Wire::tls(site.tcp, &other);
    let own = wire.hello(&Hello::of(13)).expect("it is let in");
    let rank = session.number & !0xffff_ffff_ffff;
    let claims = [
        ("a guess", (session.number, 1), 13),
        ("no secret", (session.number, 0), 13),
        ("its own secret", (session.number, own.secret), 13),
        ("the secret that it was told", (session.number, session.secret), 13),
        ("and the number of the client", (session.number, session.secret), 11),
        ("the owner's", (owners.number, owners.secret), 12),
        ("its own by another number", (own.number, own.secret), 14),
        ("one that is not there", (rank | 1 << 40, own.secret), 13),
        ("none", (0, 0), 13),
    ];
    for (what, resume, client) in claims {
        let mut wire = Wire::tls(site.tcp, &other);
        match wire.hello(&Hello { resume: Some(resume), ..Hello::of(client) }) {
            Err(Said::Refused { why: refusal::NOT_AUTHORIZED, .. }) => assert_eq!(wire.hear(), Said::Closed, "{what}"),
            refused => panic!("{what}: {refused:?}"),
        }
    }
    // A first hello with the number of another client has a session of its own.
    let mut twin = Wire::tls(site.tcp, &other);
    let twins = twin.hello(&Hello::of(11)).expect("numbers of clients are no secret");
    assert!(twins.number != session.number && !twins.kept && !twins.resumed, "{twins:?}");
    // The one that it belongs to goes on, over its connection and over a new one.
    assert_eq!(entry(&victim.call(&lookup(site.mine.ino, "f"), &[])), site.mine.file);
    let mut again = Wire::tls(site.tcp, &loligo_e2e::raw::Credentials::read(&site.file_of("bound")));
    let resumed = again.hello(&Hello { resume: Some((session.number, session.secret)), ..Hello::of(11) });
    let resumed = resumed.expect("it is its own");
    assert!(resumed.kept && resumed.number == session.number, "{resumed:?}");
    assert_eq!(victim.hear(), Said::Closed, "the newer connection is the session's");
    site.ends_unharmed(&before);
}

#[test]
fn a_client_of_the_network_that_says_no_number_or_shows_no_identity_is_refused_in_words() {
    let Some(site) = Site::new("adversary-nobody") else { return };
    let before = site.outside();
    let refused = |mut wire: Wire, hello: Hello| match wire.hello(&hello) {
        Err(Said::Refused { why, text }) => (why, text),
        other => panic!("instead of a refusal: {other:?}"),
    };
    let bound = || Wire::tls(site.tcp, &loligo_e2e::raw::Credentials::read(&site.file_of("bound")));
    let (why, text) = refused(bound(), Hello::of(0));
    assert!(why == refusal::NOT_AUTHORIZED && text.contains("no number"), "{text}");
    let (why, text) = refused(Wire::tcp(site.tcp), Hello::of(5));
    assert!(why == refusal::NOT_AUTHORIZED && text.contains("loligo auth add"), "{text}");
    // Without a certificate, and with that of another file system, there is not even an answer.
    let Some(elsewhere) = Site::new("adversary-elsewhere") else { return };
    let foreign = elsewhere.identity("bound-2", &[]);
    for credentials in [&loligo_e2e::raw::Credentials::none(), &foreign] {
        assert_eq!(Wire::tls(site.tcp, credentials).hello(&Hello::of(6)), Err(Said::Closed));
    }
    // One that was revoked is told so.
    let gone = site.identity("gone", &[]);
    site.scratch.run(&["auth", "revoke", "gone"]);
    let (why, text) = refused(Wire::tls(site.tcp, &gone), Hello::of(7));
    assert!(why == refusal::NOT_AUTHORIZED && text.contains("revoked"), "{text}");
    site.ends_unharmed(&before);
}

#[test]
fn a_number_that_was_carried_out_is_not_carried_out_again_with_the_same_or_other_contents() {
    let Some(site) = Site::new("adversary-numbers-again") else { return };
    let before = site.outside();
    let (mut wire, _) = site.bound(21);
    let one = wire.request(1, &mkdir(site.mine.ino, "one"));
    // Twice in one piece, as a network that doubles would have it.
    let doubled = [loligo_e2e::raw::bytes::frame(&one, &[]), loligo_e2e::raw::bytes::frame(&one, &[])].concat();
    wire.send(&doubled).expect("sent");
    let made = entry(&wire.reply(1));
    let say = |wire: &mut Wire, seq: u64, op: &Message| {
        let request = wire.request(seq, op);
        wire.say(&request, &[]).expect("sent");
    };
    // Another request with its number: it is told of the first one, or nothing.
    for op in [mkdir(site.mine.ino, "two"), mkdir(site.theirs.ino, "two"), open(site.theirs.file, 9)] {
        say(&mut wire, 1, &op);
        let answer = wire.reply(1);
        let told = answer.as_ref().map(|(fields, _)| fields.message(17).int(1));
        assert!(told == Ok(made) || matches!(told, Err(Fault::Error(_))), "{answer:?}");
    }
    // In the wrong order, and far ahead: each has its answer.
    say(&mut wire, 9, &mkdir(site.mine.ino, "nine"));
    say(&mut wire, 8, &mkdir(site.mine.ino, "eight"));
    entry(&wire.reply(9));
    say(&mut wire, 8, &lookup(site.mine.ino, "eight"));
    entry(&wire.reply(8));
    for far in [1 << 20, 1 << 40, u64::MAX] {
        say(&mut wire, far, &mkdir(site.mine.ino, "far"));
        assert_eq!(wire.reply(far).map(drop), Err(Fault::Error(error::BUSY)));
    }
    // Numbers that are said to be answered, and 0, are answered by nothing.
    wire.answered = 100;
    say(&mut wire, 100, &lookup(site.mine.ino, "f"));
    entry(&wire.reply(100));
    for old in [0, 1, 99] {
        say(&mut wire, old, &mkdir(site.mine.ino, "old"));
    }
    // All that was ever sent is said to be answered, and more.
    wire.answered = u64::MAX;
    say(&mut wire, 101, &lookup(site.mine.ino, "f"));
    entry(&wire.reply(101));
    wire.ping().expect("it is served still");
    let names: Vec<String> =
        site.fs().readdir("/mine").expect("it is listed").iter().map(|entry| entry.name.to_string()).collect();
    for (name, is_there) in
        [("one", true), ("eight", true), ("nine", true), ("two", false), ("far", false), ("old", false)]
    {
        assert_eq!(names.contains(&name.to_string()), is_there, "{name} in {names:?}");
    }
    site.ends_unharmed(&before);
}

#[test]
fn a_number_that_is_said_without_end_takes_no_memory_of_the_server() {
    let Some(site) = Site::new("adversary-again-and-again") else { return };
    let before = site.outside();
    let (mut wire, _) = site.bound(22);
    entry(&wire.call(&lookup(site.mine.ino, "f"), &[]));
    wire.answered = 2;
    entry(&wire.call(&lookup(site.mine.ino, "f"), &[]));
    // Answered long ago, so there is no answer.
    let old = loligo_e2e::raw::bytes::frame(&wire.request(1, &lookup(site.mine.ino, "f")), &[]);
    let many = old.repeat(1000);
    let flood = |wire: &mut Wire, times| {
        (0..times).for_each(|_| wire.send(&many).expect("sent"));
        wire.ping().expect("it is served still");
    };
    flood(&mut wire, 10);
    let start = site.memory();
    flood(&mut wire, 1000);
    let grown = site.memory().saturating_sub(start);
    assert!(grown < 16 << 20, "a million requests that are not answered have taken {grown} bytes");
    site.ends_unharmed(&before);
}

#[test]
fn words_about_leases_recalls_opens_and_locks_that_never_were_change_nothing() {
    let Some(site) = Site::new("adversary-never-lent") else { return };
    let before = site.outside();
    let (mut wire, _) = site.bound(31);
    let numbers = [site.mine.file, site.theirs.file, site.theirs.ino, 1, 0, 1 << 40, u64::MAX];
    for ino in numbers {
        for id in [0, 1, u64::MAX] {
            wire.say(&message().message(5, &message().int(1, ino).int(2, id)), &[]).expect("sent");
        }
        let lease = message().int(1, ino).int(2, 31);
        wire.say(&message().message(6, &message().message(1, &lease)), &[]).expect("sent");
        wire.ping().expect("it is served still");
    }
    // What it would have had open before a restart that never was.
    let lock = message().int(1, 1).fixed(2, 5).int(4, 1).int(6, u64::MAX);
    let mut reclaim = message();
    for ino in numbers {
        let held = message().int(1, 40 + ino % 7).int(2, ino).message(3, &message().int(1, 1).int(2, 1)).int(4, 31);
        let locked = message().int(1, ino).int(2, 40 + ino % 7).message(3, &lock);
        reclaim = reclaim.message(1, &held).message(2, &message().int(1, ino).int(2, 31)).message(3, &locked);
    }
    wire.say(&message().message(2, &reclaim), &[]).expect("sent");
    wire.ping().expect("it is served still");
    for handle in 40..47 {
        let read = message().message(39, &message().int(1, site.theirs.file).int(2, handle));
        let result = wire.call(&read, &[]).map(drop);
        assert!(matches!(result, Err(Fault::Error(error::ACCESS | error::BAD_HANDLE))), "{result:?}");
        let (error, _) = wire.data(site.theirs.file, &message().int(17, 0), b"mine").expect("it is answered");
        assert_ne!(error, 0);
    }
    let close = message().message(23, &message().bytes(1, [40, 41, 0x7f]).int(2, 1));
    let _ = wire.call(&close, &[]);
    // Others' locks are not taken by the owner's number alone, and theirs are not given back.
    let mut holder = site.owner(32);
    entry(&holder.call(&lookup(site.mine.ino, "f"), &[]));
    holder.call(&open(site.mine.file, HANDLE), &[]).expect("root may");
    let on = |kind: u32, owner: u64| {
        let lock = message().int(1, 1).fixed(2, owner).int(4, 1).int(6, 99);
        message().message(kind, &message().int(1, site.mine.file).int(2, HANDLE).message(3, &lock))
    };
    holder.call(&on(43, 5), &[]).expect("nobody has it");
    // Nobody else may hold writes back any more: the holder is told so first.
    let seq = wire.ask(&open(site.mine.file, HANDLE), &[]);
    holder.obey();
    wire.reply(seq).expect("it may");
    let _ = wire.call(&on(44, 5), &[]);
    let _ = wire.call(&message().message(46, &message().int(1, site.mine.file).fixed(2, 5)), &[]);
    let (conflict, _) = wire.call(&on(45, 6), &[]).expect("it may ask");
    assert!(conflict.message(22).has(1), "the lock of another session is gone");
    site.ends_unharmed(&before);
}
