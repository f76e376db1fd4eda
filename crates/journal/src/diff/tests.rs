//! Differences reported of two records of one number.

use loligo_types::{Ino, Origin, Seq, SessionId};

use super::*;

fn record(session: u64, events: &[Event]) -> Entry {
    let origin = Origin { session: SessionId(session), seq: Seq(1), answered: Seq(1), ino: Ino(0), value: 0 };
    Entry { segment: session, offset: 0, lsn: Lsn(5), size: 50, origin: Some(origin), events: events.to_vec() }
}

#[test]
fn records_stand_beside_each_other_by_their_numbers() {
    let at = |first: Option<u64>, second: Option<u64>| side(first.map(Lsn), second.map(Lsn));
    assert_eq!(at(Some(1), Some(2)), Some(Side::First));
    assert_eq!(at(Some(2), Some(1)), Some(Side::Second));
    assert_eq!(at(Some(2), Some(2)), Some(Side::Both));
    assert_eq!((at(Some(2), None), at(None, Some(2)), at(None, None)), (Some(Side::First), Some(Side::Second), None));
}

#[test]
fn events_that_only_one_has_are_told_and_each_as_often_as_it_is_there() {
    let (one, two) = (Event::Orphan(Ino(1)), Event::Orphan(Ino(2)));
    let all = [one.clone(), one.clone(), two.clone()];
    let elsewhere = Entry { segment: 9, offset: 77, ..record(3, &all) };
    assert_eq!(compare(&record(3, &all), &elsewhere), None, "where they lie does not count");
    let (a, b) = (record(3, &all), record(3, &[two.clone(), one.clone()]));
    let found = compare(&a, &b).expect("one is missing");
    assert_eq!(found, Difference { only_first: vec![&one], ..Difference::default() });
    let found = compare(&b, &a).expect("one is missing");
    assert_eq!(found, Difference { only_second: vec![&one], ..Difference::default() });
}

#[test]
fn the_request_and_the_order_count() {
    let (one, two) = (Event::Orphan(Ino(1)), Event::Orphan(Ino(2)));
    let (a, b) = (record(3, &[one.clone(), two.clone()]), record(3, &[two, one]));
    assert_eq!(compare(&a, &b), Some(Difference { order: true, ..Difference::default() }));
    assert_eq!(compare(&a, &record(4, &a.events)), Some(Difference { origin: true, ..Difference::default() }));
}
