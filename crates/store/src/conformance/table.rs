//! Promises of [`crate::Table`].

use std::collections::BTreeMap;

use loligo_types::Random;

use super::{Make, Scenario};
use crate::{Batch, Durability, KeyValue, Table, TableSize};

pub(super) const SCENARIOS: [Scenario; 9] = [
    ("a batch is seen whole by every kind of read", batch_is_seen),
    ("a key both deleted and put in one batch is put", put_wins_over_delete),
    ("a scan keeps its bounds and its limit", scan_bounds),
    ("a table equals a sorted map under random batches", equals_a_map),
    ("rows written one by one are there, too", rows_are_there),
    ("very many rows at once are there, over those before and below those after", very_many_rows_are_there),
    ("keys of all bytes keep their order", all_bytes_in_keys),
    ("what was written is there after opening again", survives_reopening),
    ("the size of a table grows with it", size_grows),
];

fn batch_is_seen(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut batch = Batch::new();
    batch.put(b"a".as_slice(), b"1".as_slice()).put(b"b".as_slice(), b"".as_slice());
    table.write(&batch, Durability::Buffered).expect("write");
    assert_eq!(table.get(b"a").expect("get"), Some(b"1".to_vec()));
    assert_eq!(table.get(b"b").expect("get"), Some(Vec::new()), "an empty value is a value");
    let many = table.multi_get(&[b"b", b"nothing", b"a", b"a"]).expect("multi_get");
    assert_eq!(many, [Some(vec![]), None, Some(b"1".to_vec()), Some(b"1".to_vec())]);
    assert_eq!(table.multi_get(&[]).expect("multi_get"), Vec::<Option<Vec<u8>>>::new());
    let mut batch = Batch::new();
    batch.delete(b"a".as_slice()).delete(b"never there".as_slice());
    table.write(&batch, Durability::Sync).expect("write");
    assert_eq!(table.get(b"a").expect("get"), None);
    table.write(&Batch::new(), Durability::Sync).expect("an empty batch is no error");
}

fn put_wins_over_delete(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut batch = Batch::new();
    batch.put(b"k".as_slice(), b"old".as_slice()).put(b"k".as_slice(), b"new".as_slice()).delete(b"k".as_slice());
    table.write(&batch, Durability::Buffered).expect("write");
    assert_eq!(table.get(b"k").expect("get"), Some(b"new".to_vec()));
}

fn scan_bounds(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut batch = Batch::new();
    for key in [&[1u8][..], &[1, 0], &[1, 255], &[2], &[255, 255], &[255, 255, 0]] {
        batch.put(key, key);
    }
    table.write(&batch, Durability::Buffered).expect("write");
    let keys = |start: &[u8], end: &[u8], limit| -> Vec<Vec<u8>> {
        table.scan(start, end, limit).expect("scan").into_iter().map(|(k, _)| k).collect()
    };
    assert_eq!(keys(&[1], &[2], 10), [vec![1], vec![1, 0], vec![1, 255]], "the end is excluded");
    assert_eq!(keys(&[1, 0], &[2, 0], 2), [vec![1, 0], vec![1, 255]], "the start is included");
    assert_eq!(keys(&[2], &[], 10), [vec![2], vec![255, 255], vec![255, 255, 0]], "an empty end is no bound");
    assert_eq!(keys(&[], &[], 0), Vec::<Vec<u8>>::new());
    assert_eq!(keys(&[2], &[1], 10), Vec::<Vec<u8>>::new(), "a range turned round is empty");
}

fn equals_a_map(make: Make<'_>) {
    let mut fixture = make();
    let mut model = BTreeMap::new();
    let mut rng = Random::new(7);
    for round in 0..3 {
        let store = fixture.open();
        let table = store.table();
        for step in 0..200 {
            random_batch(&mut rng, &mut model, table.as_ref());
            if step % 50 == 0 {
                compare(table.as_ref(), &model, round * 1000 + step);
            }
        }
        table.flush().expect("flush");
        compare(table.as_ref(), &model, round);
    }
}

fn random_batch(rng: &mut Random, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, table: &dyn Table) {
    let mut batch = Batch::new();
    for _ in 0..rng.below(6) {
        let key = format!("key{}", rng.below(300)).into_bytes();
        if rng.below(3) == 0 {
            batch.delete(key);
        } else {
            batch.put(key, rng.bits().to_le_bytes());
        }
    }
    let durability = if rng.below(20) == 0 { Durability::Sync } else { Durability::Buffered };
    table.write(&batch, durability).expect("write");
    for key in &batch.deletes {
        model.remove(key);
    }
    model.extend(batch.puts);
}

fn compare(table: &dyn Table, model: &BTreeMap<Vec<u8>, Vec<u8>>, at: i32) {
    let expected: Vec<KeyValue> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(table.scan(b"", b"", usize::MAX).expect("scan"), expected, "at {at}");
}

fn rows_are_there(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut batch = Batch::new();
    batch.put(b"a".as_slice(), b"1".as_slice()).put(b"b".as_slice(), b"2".as_slice());
    table.write_rows(&batch).expect("write_rows");
    let mut batch = Batch::new();
    batch.delete(b"a".as_slice()).put(b"c".as_slice(), b"3".as_slice());
    table.write_rows(&batch).expect("write_rows");
    table.flush().expect("flush");
    let rows = table.scan(b"", b"", 10).expect("scan");
    assert_eq!(rows, [(b"b".to_vec(), b"2".to_vec()), (b"c".to_vec(), b"3".to_vec())]);
}

fn very_many_rows_are_there(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut model = BTreeMap::new();
    let key = |n: u32| [&[(n % 3) as u8][..], &n.wrapping_mul(2_654_435_761).to_be_bytes()].concat();
    for round in 0u32..3 {
        let mut batch = Batch::new();
        for n in 0..20_000 {
            let key = key(n + round * 7_000);
            if n % 11 == round {
                model.remove(&key);
                batch.delete(key);
            } else {
                model.insert(key.clone(), vec![round as u8; 20]);
                batch.put(key, [round as u8; 20]);
            }
        }
        table.ingest(batch).expect("ingest");
        compare(table.as_ref(), &model, round as i32);
    }
    let mut batch = Batch::new();
    batch.put(key(1), b"later".as_slice());
    model.insert(key(1), b"later".to_vec());
    table.write(&batch, Durability::Buffered).expect("write");
    compare(table.as_ref(), &model, 3);
    drop((table, store));
    compare(fixture.open().table().as_ref(), &model, 4);
}

fn all_bytes_in_keys(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    let table = store.table();
    let mut model = BTreeMap::new();
    let mut batch = Batch::new();
    for a in [0u8, 1, 2, 127, 255] {
        for b in [0u8, 1, 2, 127, 255] {
            for key in [vec![a], vec![a, b], vec![a, b, 0], vec![a, 0, b, 1], vec![a, b, 255]] {
                batch.put(key.clone(), key.clone());
                model.insert(key.clone(), key);
            }
        }
    }
    table.write(&batch, Durability::Sync).expect("write");
    compare(table.as_ref(), &model, 0);
    for start in model.keys() {
        let want: Vec<KeyValue> = model.range(start.clone()..).take(7).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(table.scan(start, b"", 7).expect("scan"), want, "from {start:?}");
    }
}

fn survives_reopening(make: Make<'_>) {
    let mut fixture = make();
    for round in 0u8..4 {
        let store = fixture.open();
        let mut batch = Batch::new();
        batch.put([round], [round; 100]);
        store.table().write(&batch, Durability::Buffered).expect("write");
        for before in 0..=round {
            assert_eq!(store.table().get(&[before]).expect("get"), Some(vec![before; 100]));
        }
        if round % 2 == 0 {
            store.close().expect("close");
        }
    }
}

fn size_grows(make: Make<'_>) {
    let mut fixture = make();
    let mut store = fixture.open();
    let table = store.table();
    for i in 0u32..1000 {
        let mut batch = Batch::new();
        batch.put(i.to_be_bytes(), [i as u8; 200]);
        table.write(&batch, Durability::Buffered).expect("write");
    }
    table.flush().expect("flush");
    let is_near = |size: TableSize| (500..=2000).contains(&size.keys) && size.bytes > 0;
    let size = table.approximate_size().expect("size");
    assert!(is_near(size), "{size:?}");
    drop(table);
    // The same for one who opens it anew, after a clean end or not.
    for close in [true, false] {
        let size = store.table().approximate_size().expect("size");
        assert!(is_near(size), "{size:?}");
        if close {
            store.close().expect("close");
        }
        drop(store);
        store = fixture.open();
    }
    let size = store.table().approximate_size().expect("size");
    assert!(is_near(size), "{size:?}");
}
