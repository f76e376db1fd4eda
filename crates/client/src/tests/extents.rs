//! Extents against a plain map of bytes.

use std::sync::Arc;

use proptest::prelude::*;

use crate::extents::{Extents, PIECE_MAX, split};

/// Bytes of the file that the test uses.
const SPAN: usize = 300_000;

#[derive(Clone, Debug)]
enum Act {
    Insert { offset: u64, len: usize },
    FillUnder { offset: u64, len: usize },
    Remove { start: u64, len: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let offset = prop_oneof![0u64..100, 0u64..200_000];
    let len = prop_oneof![3 => 1usize..50, 1 => 60_000usize..80_000];
    prop_oneof![
        4 => (offset.clone(), len.clone()).prop_map(|(offset, len)| Act::Insert { offset, len }),
        1 => (offset.clone(), len).prop_map(|(offset, len)| Act::FillUnder { offset, len }),
        1 => (offset, 0u64..90_000).prop_map(|(start, len)| Act::Remove { start, len }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extents_are_a_map_of_bytes(acts in prop::collection::vec(act(), 1..30)) {
        let (mut extents, mut model) = (Extents::default(), vec![None; SPAN]);
        for (n, act) in acts.iter().enumerate() {
            let byte = n as u8 + 1;
            match *act {
                Act::Insert { offset, len } => {
                    extents.insert(offset, &Arc::from(vec![byte; len]));
                    model[offset as usize..][..len].fill(Some(byte));
                }
                Act::FillUnder { offset, len } => {
                    extents.fill_under(offset, &vec![byte; len]);
                    model[offset as usize..][..len].iter_mut().for_each(|cell| *cell = cell.or(Some(byte)));
                }
                Act::Remove { start, len } => {
                    extents.remove(start, start + len);
                    model[start as usize..][..len as usize].fill(None);
                }
            }
            prop_assert_eq!(extents.bytes(), model.iter().flatten().count() as u64);
        }
        prop_assert_eq!(extents.end(), model.iter().rposition(Option::is_some).map_or(0, |at| at as u64 + 1));
        let mut seen = vec![None; SPAN];
        for (at, bytes) in extents.pieces() {
            prop_assert!(bytes.len() <= PIECE_MAX);
            seen[at as usize..][..bytes.len()].iter_mut().zip(&*bytes).for_each(|(cell, byte)| *cell = Some(*byte));
        }
        prop_assert!(seen == model);
        let part = &model[50..150_050];
        let mut buf = vec![0; part.len()];
        extents.copy_to(50, &mut buf);
        prop_assert!(buf.iter().zip(part).all(|(byte, cell)| *byte == cell.unwrap_or(0)));
        let missing: u64 = extents.gaps(50, 150_050).iter().map(|(start, end)| end - start).sum();
        prop_assert_eq!(missing, part.iter().filter(|cell| cell.is_none()).count() as u64);
    }
}

#[test]
fn small_appends_become_one_piece_and_long_writes_stay_as_they_came() {
    let mut extents = Extents::default();
    for n in 0..1000u64 {
        extents.insert(n * 100, &Arc::from([n as u8; 100]));
    }
    assert_eq!(extents.pieces().len(), 1);
    let long: Arc<[u8]> = Arc::from(vec![1; 128 << 10]);
    extents.insert(100_000, &long);
    let pieces = extents.pieces();
    assert_eq!(pieces.len(), 2);
    assert!(Arc::ptr_eq(&pieces[1].1, &long));
    let mut parts = Vec::new();
    split(7, &Arc::from(vec![0; PIECE_MAX * 2 + 1]), &mut parts);
    assert_eq!(
        parts.iter().map(|(at, part)| (*at, part.len())).collect::<Vec<_>>(),
        [(7, PIECE_MAX), (7 + PIECE_MAX as u64, PIECE_MAX), (7 + 2 * PIECE_MAX as u64, 1),]
    );
}
