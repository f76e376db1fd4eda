//! Arbitrary bytes as the document of a directory whose entries are computed: reading them never panics; a fault is at a place in the text;
//! and in a tree that is sound, the number, the name and the place in the listing of any entry agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_schema::{Document, Generator};
use loligo_types::{Kind, Name};

fuzz_target!(|bytes: &[u8]| {
    let document = match Document::parse_bytes(bytes) {
        Ok(document) => document,
        Err(fault) => {
            assert!(fault.offset <= bytes.len() && !fault.to_string().is_empty());
            assert_eq!(fault.caret().lines().count(), 2);
            return;
        }
    };
    let Generator::Formula(formula) = &document.generator else { return };
    let tree = &formula.tree;
    let totals = tree.totals();
    assert!((1..=loligo_schema::limits::ENTRIES_MAX).contains(&totals.entries) && totals.files <= totals.entries);
    assert_eq!(tree.locate(totals.entries + 1), None);
    let seed = u64::from(crc32c::crc32c(bytes));
    for n in 0..16 {
        let index = match n {
            0 => 1,
            1 => totals.entries,
            _ => 1 + loligo_types::hash::mix(seed + n) % totals.entries,
        };
        let place = tree.locate(index).expect("there are so many");
        let entry = formula.entry(&place, &document.defaults);
        Name::check(&entry.name).expect("only names appear");
        assert_eq!((entry.index, entry.body.kind()), (index, tree.kind(&place)));
        let dir = tree.locate(entry.parent).expect("it has a directory");
        assert!(dir.index < index && tree.kind(&dir) == Kind::Dir);
        assert_eq!(tree.child(&dir, &entry.name).as_ref(), Some(&place), "{:?}", entry.name);
        let ordinal = tree.ordinal(&place).expect("it has a directory");
        assert!(ordinal < tree.len(&dir));
        assert_eq!(tree.nth(&dir, ordinal).as_ref(), Some(&place));
    }
});
