//! Promises of [`crate::Blobs`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Make, Scenario, random};
use crate::{Blobs, Extent, ObjectId};

pub(super) const SCENARIOS: [Scenario; 8] = [
    ("bytes written are read, holes are zeros, the end is short", write_and_read),
    ("truncation cuts, lengthens and leaves no old bytes behind", truncate_leaves_nothing),
    ("punched bytes are zero and the length stays", punch_makes_zero),
    ("extents tell data from holes", extents_tell_holes),
    ("extents begin and end anywhere, also behind the end", extents_of_any_range),
    ("objects are found by inode and by listing, until deleted", find_and_delete),
    ("ranges beyond the largest object are refused", refuse_absurd_ranges),
    ("objects equal plain byte arrays under random operations", random::equals_arrays),
];

const ID: ObjectId = ObjectId { ino: 0x1234, index: 5 };

pub(super) fn read(blobs: &dyn Blobs, id: ObjectId, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let n = blobs.read_at(id, offset, &mut buf).expect("read_at");
    buf.truncate(n);
    buf
}

fn write_and_read(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    assert_eq!(blobs.len(ID).expect("len"), None);
    assert_eq!(read(&*blobs, ID, 0, 10), b"");
    blobs.write_at(ID, 3, b"").expect("writing nothing is no error");
    assert_eq!(blobs.len(ID).expect("len"), None, "writing nothing makes no object");
    blobs.write_at(ID, 10_000, b"hello").expect("write_at");
    assert_eq!(blobs.len(ID).expect("len"), Some(10_005));
    assert_eq!(read(&*blobs, ID, 9_998, 100), b"\0\0hello");
    assert_eq!(read(&*blobs, ID, 0, 5), [0; 5]);
    assert_eq!(read(&*blobs, ID, 10_005, 5), b"");
    blobs.write_at(ID, 9_999, b"JJ").expect("write_at over a part of a block");
    assert_eq!(read(&*blobs, ID, 9_998, 100), b"\0JJello");
    blobs.sync(ID).expect("sync");
    blobs.sync(ObjectId::new(77, 77)).expect("syncing an absent object is no error");
    blobs.sync_many(ID.ino, &[0, ID.index, 99]).expect("sync_many");
    blobs.sync_all().expect("sync_all");
}

fn truncate_leaves_nothing(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    blobs.truncate(ID, 0).expect("truncate");
    assert_eq!(blobs.len(ID).expect("len"), None, "an absent object stays absent at length 0");
    blobs.write_at(ID, 0, &[9; 9_000]).expect("write_at");
    blobs.truncate(ID, 5_000).expect("truncate");
    assert_eq!(read(&*blobs, ID, 4_999, 10), [9]);
    blobs.truncate(ID, 20_000).expect("truncate");
    assert_eq!(blobs.len(ID).expect("len"), Some(20_000));
    let bytes = read(&*blobs, ID, 4_990, 20_000);
    assert_eq!(bytes[..10], [9; 10]);
    assert!(bytes[10..].iter().all(|b| *b == 0), "old bytes came back");
    assert_eq!(bytes.len(), 20_000 - 4_990);
    blobs.truncate(ID, 0).expect("truncate");
    assert_eq!(blobs.len(ID).expect("len"), Some(0));
    blobs.truncate(ObjectId::new(1, 0), 100).expect("truncate");
    assert_eq!(read(&*blobs, ObjectId::new(1, 0), 0, 200), [0; 100]);
}

fn punch_makes_zero(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    blobs.punch(ID, 0, 100).expect("punching an absent object is no error");
    assert_eq!(blobs.len(ID).expect("len"), None);
    blobs.write_at(ID, 0, &[5; 5 * 4096 + 100]).expect("write_at");
    blobs.punch(ID, 4_000, 4_192 + 50).expect("punch");
    let mut expected = vec![5; 5 * 4096 + 100];
    expected[4_000..8_242].fill(0);
    assert_eq!(read(&*blobs, ID, 0, 30_000), expected);
    blobs.punch(ID, 5 * 4096, 1 << 20).expect("punch over the end");
    expected[5 * 4096..].fill(0);
    assert_eq!(read(&*blobs, ID, 0, 30_000), expected);
    let data = blobs.extents(ID, 0, 1 << 20).expect("extents");
    assert_eq!(data, [Extent { offset: 0, len: 4096 }, Extent { offset: 8192, len: 3 * 4096 }]);
}

fn extents_tell_holes(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    assert_eq!(blobs.extents(ID, 0, 100).expect("extents"), []);
    let knows_zeros = fixture.tells_zeros_from_holes();
    blobs.write_at(ID, 2 * 4096, &[if knows_zeros { 0 } else { 1 }; 4096]).expect("zeros written are data");
    blobs.write_at(ID, 3 * 4096 + 5, b"x").expect("write_at");
    blobs.write_at(ID, 10 * 4096, &[1; 10]).expect("write_at");
    let all = [Extent { offset: 8192, len: 8192 }, Extent { offset: 40_960, len: 10 }];
    assert_eq!(blobs.extents(ID, 0, 1 << 20).expect("extents"), all);
    assert_eq!(blobs.extents(ID, 9_000, 1_000).expect("extents"), [Extent { offset: 9_000, len: 1_000 }]);
    assert_eq!(blobs.extents(ID, 20_000, 1_000).expect("extents"), []);
    assert_eq!(blobs.extents(ID, 1 << 21, 1_000).expect("extents"), []);
}

fn extents_of_any_range(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    // The data end inside a block, and so does the object.
    blobs.write_at(ID, 0, &[7; 20_000]).expect("write_at");
    let ask = |offset, len| blobs.extents(ID, offset, len).expect("extents");
    assert_eq!(ask(19_999, 100_000), [Extent { offset: 19_999, len: 1 }]);
    for behind in [20_000, 20_001, 20_479, 20_480, 20_481, 1 << 20] {
        assert_eq!(ask(behind, 100_000), [], "behind the end, at {behind}");
    }
    assert_eq!(ask(10, 0), []);
    assert_eq!(ask(10, 1), [Extent { offset: 10, len: 1 }]);
    // A block is data as a whole, also from where it has zeros only.
    blobs.truncate(ID, 60_000).expect("truncate");
    assert_eq!(ask(0, 60_000), [Extent { offset: 0, len: 20_480 }]);
    assert_eq!(ask(20_001, 60_000 - 20_001), [Extent { offset: 20_001, len: 479 }]);
    assert_eq!(ask(20_001, 100), [Extent { offset: 20_001, len: 100 }]);
    assert_eq!(ask(20_480, 60_000 - 20_480), []);
    assert_eq!(ask(59_999, 1), []);
}

fn find_and_delete(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    let ids: Vec<ObjectId> =
        (0..20).map(|i| ObjectId::new(i % 3, i * 1_000_003)).chain([ObjectId::new(u64::MAX, u64::MAX)]).collect();
    for id in &ids {
        blobs.write_at(*id, 0, &vec![1; id.ino as usize % 5 + 1]).expect("write_at");
    }
    assert_eq!(blobs.objects_of(1).expect("objects_of"), [1, 4, 7, 10, 13, 16, 19].map(|i| i * 1_000_003));
    assert_eq!(blobs.objects_of(99).expect("objects_of"), []);
    blobs.delete(ids[1]).expect("delete");
    blobs.delete(ids[1]).expect("deleting an absent object is no error");
    blobs.sync_removals(1).expect("sync_removals");
    assert_eq!(blobs.objects_of(1).expect("objects_of").len(), 6);
    assert_eq!(blobs.len(ids[1]).expect("len"), None);
    blobs.write_at(ids[1], 4096, b"x").expect("write_at");
    assert_eq!(read(&*blobs, ids[1], 0, 5_000)[..4096], [0; 4096], "a deleted object's bytes came back");
    blobs.delete(ids[1]).expect("delete");
    drop((blobs, store));
    let store = fixture.open();
    let mut expected: BTreeMap<ObjectId, u64> = ids.iter().map(|id| (*id, id.ino % 5 + 1)).collect();
    expected.remove(&ids[1]);
    assert_eq!(listed(&*store.blobs()), expected);
    assert_eq!(store.blobs().delete_all(2), Ok(true));
    assert_eq!(store.blobs().delete_all(2), Ok(false), "there are none any more");
    expected.retain(|id, _| id.ino != 2);
    assert_eq!(listed(&*store.blobs()), expected);
    let mut seen = 0;
    let stop = &mut |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.blobs().list(stop).expect("list");
    assert_eq!(seen, 3, "a listing ends when told");
}

pub(super) fn listed(blobs: &dyn Blobs) -> BTreeMap<ObjectId, u64> {
    let mut all = BTreeMap::new();
    let visit = &mut |id, len| {
        assert_eq!(all.insert(id, len), None, "{id} is listed twice");
        ControlFlow::Continue(())
    };
    blobs.list(visit).expect("list");
    all
}

fn refuse_absurd_ranges(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let blobs = store.blobs();
    assert!(blobs.write_at(ID, u64::MAX, b"x").is_err());
    let max = blobs.max_len();
    assert!(blobs.write_at(ID, max, b"x").is_err());
    assert!(blobs.truncate(ID, max + 1).is_err());
    assert!(blobs.punch(ID, u64::MAX - 1, u64::MAX).is_err());
    assert_eq!(blobs.len(ID).expect("len"), None);
    blobs.write_at(ID, max - 1, b"x").expect("the last byte can be written");
    assert_eq!(read(&*blobs, ID, max - 2, 2), b"\0x");
}
