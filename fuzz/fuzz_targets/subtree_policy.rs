//! Arbitrary bytes as the policy of a subtree, and as the history of one: reading them never panics; what is wrong is at a place in the text, and what is
//! right reads back from its canonical text as the same policy, and shows any placement that the directory has by then.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_subtree_policy::policy::History;
use loligo_subtree_policy::{Composition, SubtreePolicy};
use loligo_types::Placement;

fuzz_target!(|bytes: &[u8]| {
    let _ = Composition::parse(&String::from_utf8_lossy(bytes));
    if let Ok(mut history) = History::read(bytes) {
        assert_eq!(history.to_bytes(), bytes);
        // Behind the highest number there is no other.
        if history.versions().last().is_some_and(|last| last.number == u32::MAX) {
            return;
        }
        history.change(1, 0, Some(b"preset = 'hdfs'"));
        assert!(history.len() <= loligo_subtree_policy::policy::history::BYTES_MAX.max(bytes.len()));
        assert_eq!(History::read(&history.to_bytes()), Ok(history));
    }
    match SubtreePolicy::parse_bytes(bytes) {
        Ok(policy) => {
            let text = policy.to_text();
            assert!(text.len() <= loligo_subtree_policy::policy::LEN_MAX);
            assert_eq!(SubtreePolicy::parse(&text).expect("it is canonical"), policy);
            let named = policy.placement().is_some();
            assert_eq!(loligo_subtree_policy::policy::names_placement(bytes), named);
            for own in Placement::ALL.into_iter().chain([Placement::Inherited]).filter(|own| !policy.excludes(*own)) {
                let shown = loligo_subtree_policy::policy::with_placement(bytes, own);
                let again = SubtreePolicy::parse_bytes(&shown).expect("it is shown as a policy");
                assert_eq!(again.placement(), Some(own).filter(|own| named && *own != Placement::Inherited));
            }
        }
        Err(fault) => {
            assert!(fault.offset <= bytes.len());
            assert_eq!(fault.caret().lines().count(), 2);
        }
    }
});
