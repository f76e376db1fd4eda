//! Promises of [`crate::LogDir`].

use super::{Make, Scenario};
use crate::{LogDir, LogReader, Segment, StoreError};

pub(super) const SCENARIOS: [Scenario; 7] = [
    ("what is appended is read back, and lengths never show reserved space", append_and_read),
    ("segments are listed in order, deleted, and not created twice", list_and_delete),
    ("appends that are under way land in order", appends_land_in_order),
    ("a torn tail is cut and appended over", truncate_and_go_on),
    ("ranks do not see each other's segments", ranks_are_apart),
    ("synced bytes are there after opening again", survives_reopening),
    ("how far a journal is durable is never more than what was synced, and outlives an opening", marks_are_true),
];

fn read_all(reader: &dyn LogReader) -> Vec<u8> {
    let mut bytes = vec![0; reader.len().expect("len") as usize + 10];
    let n = reader.read_at(0, &mut bytes).expect("read_at");
    bytes.truncate(n);
    bytes
}

fn append_and_read(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let dir = store.log_dir(0).expect("log_dir");
    let mut file = dir.create(1).expect("create");
    assert!(file.is_empty());
    file.append(b"one ").expect("append");
    file.append_vectored(&[b"two ", b"", b"three"]).expect("append");
    file.append(b"").expect("appending nothing is no error");
    assert_eq!(file.len(), 13);
    file.sync().expect("sync");
    let reader = dir.open(1).expect("open");
    assert_eq!(read_all(reader.as_ref()), b"one two three");
    assert_eq!(reader.len().expect("len"), 13);
    let mut middle = [0; 3];
    assert_eq!(reader.read_at(4, &mut middle).expect("read"), 3);
    assert_eq!(&middle, b"two");
    assert_eq!(reader.read_at(100, &mut middle).expect("read behind the end"), 0);
    let many: Vec<Vec<u8>> = (0..3000u32).map(|i| vec![i as u8; 100]).collect();
    let parts: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    file.append_vectored(&parts).expect("more parts than one system call takes");
    assert_eq!(file.len(), 13 + 300_000);
    assert_eq!(read_all(reader.as_ref())[13..], many.concat());
    assert_eq!(dir.list().expect("list"), [Segment { id: 1, len: 13 + 300_000 }]);
}

fn appends_land_in_order(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let dir = store.log_dir(0).expect("log_dir");
    let mut file = dir.create(1).expect("create");
    let (to, landed) = std::sync::mpsc::channel();
    for number in 0u8..100 {
        let to = to.clone();
        let then = move |done| to.send((number, done)).expect("the test waits");
        file.append_then(&[number; 50], Box::new(then)).expect("append_then");
    }
    drop(to);
    let order: Vec<u8> = landed.iter().map(|(number, done)| done.map(|()| number).expect("it is durable")).collect();
    assert_eq!(order, (0..100).collect::<Vec<u8>>());
    file.sync().expect("sync");
    let want: Vec<u8> = (0..100).flat_map(|number| [number; 50]).collect();
    assert_eq!(read_all(dir.open(1).expect("open").as_ref()), want);
}

fn list_and_delete(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let dir = store.log_dir(3).expect("log_dir");
    assert_eq!(dir.list().expect("list"), []);
    for id in [20, 3, u64::MAX, 0] {
        dir.create(id).expect("create");
    }
    let ids = || dir.list().expect("list").iter().map(|s| s.id).collect::<Vec<_>>();
    assert_eq!(ids(), [0, 3, 20, u64::MAX]);
    assert!(dir.create(3).is_err(), "a segment is not created twice");
    dir.delete(3).expect("delete");
    dir.delete(3).expect("deleting an absent segment is no error");
    assert_eq!(ids(), [0, 20, u64::MAX]);
    assert!(matches!(dir.open(3).err(), Some(StoreError::NotFound { .. })));
    assert!(matches!(dir.open_append(3).err(), Some(StoreError::NotFound { .. })));
    dir.sync_dir().expect("sync_dir");
}

fn truncate_and_go_on(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let dir = store.log_dir(0).expect("log_dir");
    let mut file = dir.create(5).expect("create");
    file.append(&[7; 10_000]).expect("append");
    drop(file);
    dir.truncate(5, 4_000).expect("truncate");
    let mut file = dir.open_append(5).expect("open_append");
    assert_eq!(file.len(), 4_000);
    file.append(b"next").expect("append");
    file.sync().expect("sync");
    let bytes = read_all(dir.open(5).expect("open").as_ref());
    assert_eq!(bytes.len(), 4_004);
    assert_eq!(&bytes[3_998..], b"\x07\x07next");
}

fn ranks_are_apart(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let (a, b) = (store.log_dir(0).expect("log_dir"), store.log_dir(1).expect("log_dir"));
    a.create(1).expect("create").append(b"a").expect("append");
    assert_eq!(b.list().expect("list"), []);
    b.create(1).expect("the same id in another rank").append(b"bb").expect("append");
    a.delete(1).expect("delete");
    assert_eq!(b.list().expect("list"), [Segment { id: 1, len: 2 }]);
}

fn survives_reopening(make: Make<'_>) {
    let mut fixture = make();
    let mut expected = Vec::new();
    for round in 0u8..3 {
        let store = fixture.open();
        let dir = store.log_dir(0).expect("log_dir");
        let mut file = if round == 0 { dir.create(9) } else { dir.open_append(9) }.expect("open the segment");
        assert_eq!(file.len(), expected.len() as u64);
        file.append(&[round; 777]).expect("append");
        file.sync().expect("sync");
        expected.extend([round; 777]);
        assert_eq!(read_all(dir.open(9).expect("open").as_ref()), expected);
    }
}

fn marks_are_true(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let dir = store.log_dir(0).expect("log_dir");
    let synced = |dir: &dyn LogDir| dir.synced().expect("synced");
    let is_kept = {
        let mut file = dir.create(4).expect("create");
        file.append(&[1; 500]).expect("append");
        assert!(synced(&*dir).is_none_or(|mark| mark == Segment { id: 4, len: 0 }), "nothing was synced");
        file.sync().expect("sync");
        synced(&*dir).is_some()
    };
    // A backend keeps marks or it does not.
    let want = |id, len| is_kept.then_some(Segment { id, len });
    assert_eq!(synced(&*dir), want(4, 500));
    let mut file = dir.create(5).expect("create");
    file.append(&[2; 70]).expect("append");
    file.sync().expect("sync");
    dir.delete(4).expect("delete");
    assert_eq!(synced(&*dir), want(5, 70));
    drop((file, dir, store));
    let store = fixture.open();
    let dir = store.log_dir(0).expect("log_dir");
    assert_eq!(synced(&*dir), want(5, 70));
    assert_eq!(synced(&*store.log_dir(1).expect("log_dir")), None, "ranks are apart");
    dir.truncate(5, 20).expect("truncate");
    assert_eq!(synced(&*dir), want(5, 20));
    dir.delete(5).expect("delete");
    assert_eq!(synced(&*dir), None);
}
