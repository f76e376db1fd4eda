//! Which records are taken.

use std::sync::Arc;

use loligo_types::{Inode, Kind, Rank, Seq, Time};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn entry(dir: u64, text: &str, ino: u64) -> Event {
    Event::Entry { dir: Ino(dir), name: name(text), ino: Ino(ino), kind: Kind::File, remote: false }
}

fn inode(ino: u64) -> Event {
    Event::Inode(Box::new(Inode::new(Ino(ino), Kind::File, 0o644, 0, 0, Ino::ROOT, Time(0))))
}

fn kinds(names: &[&str]) -> BTreeSet<EventKind> {
    names.iter().map(|name| name.parse().expect("a kind")).collect()
}

fn takes(filter: &Filter, events: &[Event]) -> bool {
    filter.takes(Lsn(5), None, events)
}

#[test]
fn a_filter_without_questions_takes_all() {
    let filter = Filter::default();
    assert!(filter.is_all() && filter.is_of_lsns() && takes(&filter, &[]) && takes(&filter, &[inode(1)]));
}

#[test]
fn a_range_has_both_its_ends() {
    for (text, has, has_not) in [
        ("3..5", &[3, 4, 5][..], &[2, 6][..]),
        ("3..", &[3, u64::MAX], &[2]),
        ("..5", &[0, 5], &[6]),
        ("5", &[5], &[4, 6]),
    ] {
        let lsns: LsnRange = text.parse().expect("a range");
        assert!(has.iter().all(|lsn| lsns.has(Lsn(*lsn))), "{text}");
        assert!(!has_not.iter().any(|lsn| lsns.has(Lsn(*lsn))), "{text}");
        let filter = Filter { lsns, ..Filter::default() };
        assert!(filter.is_of_lsns() && !filter.is_all());
        assert_eq!(filter.takes(Lsn(7), None, &[]), lsns.has(Lsn(7)));
    }
    for bad in ["", "..", "5..3", "a..b", "1..2..3", "-1"] {
        let told = bad.parse::<LsnRange>().expect_err(bad).to_string();
        assert!(told.contains("A..B") && told.contains(&format!("{bad:?}")), "{told}");
    }
}

#[test]
fn what_is_asked_of_an_event_must_hold_for_one_and_the_same() {
    let filter = Filter { kinds: kinds(&["entry", "entry_gone"]), ino: Some(Ino(1)), ..Filter::default() };
    assert!(takes(&filter, &[inode(9), entry(1, "a", 9)]), "an entry in it");
    assert!(takes(&filter, &[entry(8, "a", 1)]), "an entry that leads to it");
    assert!(!takes(&filter, &[inode(1), entry(8, "a", 9)]), "one is of the kind, another of the inode");
    let filter = Filter { name: Some(name("a")), ino: Some(Ino(1)), ..Filter::default() };
    assert!(takes(&filter, &[Event::EntryGone { dir: Ino(1), name: name("a") }]));
    assert!(!takes(&filter, &[entry(1, "b", 9), entry(2, "a", 9)]));
    assert!(!takes(&filter, &[Event::Xattr { ino: Ino(1), name: b"a"[..].into(), value: b""[..].into() }]));
}

#[test]
fn records_of_a_session_are_those_that_it_made() {
    let filter = Filter { session: Some(SessionId(3)), ..Filter::default() };
    let by = |session| Origin { session: SessionId(session), seq: Seq(1), answered: Seq(1), ino: Ino(0), value: 0 };
    assert!(filter.takes(Lsn(1), Some(&by(3)), &[]));
    assert!(!filter.takes(Lsn(1), Some(&by(4)), &[]) && !filter.takes(Lsn(1), None, &[]));
    assert!(!filter.takes(Lsn(1), None, &[Event::SessionGone(SessionId(3))]), "it is about the session");
}

#[test]
fn a_letter_is_looked_into() {
    let letter = |letter| Event::Letter { to: Rank(1), seq: 1, letter: Arc::new(letter) };
    let commit = letter(Letter::Commit { tx: 1, events: vec![inode(7), entry(1, "a", 7)] });
    let asks = |filter: Filter| takes(&filter, std::slice::from_ref(&commit));
    assert!(asks(Filter { ino: Some(Ino(7)), ..Filter::default() }));
    assert!(asks(Filter { name: Some(name("a")), kinds: kinds(&["entry"]), ..Filter::default() }));
    assert!(asks(Filter { kinds: kinds(&["letter"]), ..Filter::default() }));
    assert!(
        !asks(Filter { ino: Some(Ino(7)), kinds: kinds(&["letter"]), ..Filter::default() }),
        "not the letter itself"
    );
    let sum = letter(Letter::Sum { dir: Ino(8), entries: 1, bytes: 1 });
    assert!(takes(&Filter { ino: Some(Ino(8)), ..Filter::default() }, &[sum]));
}

#[test]
fn an_unknown_kind_is_told_with_those_that_there_are() {
    let told = "file".parse::<EventKind>().expect_err("none").to_string();
    assert!(told.contains("\"file\"") && told.contains("inode_gone, entry,") && told.contains("part_gone"), "{told}");
}

proptest! {
    #[test]
    fn every_event_can_be_asked_for_by_its_kind(event in crate::arbitrary::event()) {
        let kind = EventKind::of(&event).name().parse().expect("each name is listed");
        let filter = Filter { kinds: BTreeSet::from([kind]), ..Filter::default() };
        prop_assert!(takes(&filter, &[event]));
    }
}
