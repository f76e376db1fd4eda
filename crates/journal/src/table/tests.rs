//! Keys sort as they must, ranges hold what they say, values come back, and rows are told apart.

use loligo_types::{Frag, Ino, Name, Rank};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::arbitrary;
use crate::codec::DecodeError;

fn row() -> impl Strategy<Value = Row> {
    let bytes = || vec(any::<u8>(), 1..40).prop_map(std::sync::Arc::<[u8]>::from);
    let n = || any::<u64>();
    prop_oneof![
        arbitrary::inode().prop_map(|inode| Row::Inode(Box::new(inode))),
        (n(), n(), arbitrary::name(), arbitrary::target()).prop_map(|(dir, hash, name, target)| Row::Entry {
            dir: Ino(dir),
            hash,
            name,
            target
        }),
        (n(), bytes(), bytes()).prop_map(|(ino, name, value)| Row::Xattr { ino: Ino(ino), name, value }),
        (n(), bytes()).prop_map(|(ino, data)| Row::Inline { ino: Ino(ino), data }),
        (n(), arbitrary::rank()).prop_map(|(ino, rank)| Row::Orphan { ino: Ino(ino), rank }),
        (n(), arbitrary::rank(), n(), 0u32..31).prop_map(|(ino, rank, from, bits)| {
            let ino = Ino(ino);
            Row::Discard { ino, rank, from, object_size: 1 << bits }
        }),
        (arbitrary::rank(), arbitrary::route()).prop_map(|(of, route)| Row::Route { of, route }),
        (arbitrary::rank(), arbitrary::peer()).prop_map(|(of, peer)| Row::Peer { of, peer }),
        arbitrary::session().prop_map(Row::Session),
        ("[a-z/0-9]{1,40}", bytes()).prop_map(|(name, data)| Row::Note { name, data }),
        (0usize..Meta::ALL.len(), arbitrary::rank(), n()).prop_map(|(at, rank, value)| Row::Meta {
            meta: Meta::ALL[at],
            rank,
            value
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_row_comes_back_as_it_was(row in row()) {
        let (key, value) = row.encode();
        prop_assert!(PREFIXES.contains(&key[0]));
        prop_assert_eq!(decode_row(&key, &value), Ok(row));
    }

    #[test]
    fn a_row_whose_value_has_another_version_is_refused(row in row()) {
        let (key, mut value) = row.encode();
        for version in [1, 3] {
            value[0] = version;
            let error = decode_row(&key, &value).expect_err("it is no value of this version");
            let refused = matches!(error, DecodeError::UnknownVersion { found, known: 2, .. } if found == version);
            prop_assert!(refused, "{}", error);
        }
    }

    #[test]
    fn random_rows_never_panic(key in vec(any::<u8>(), 0..30), value in vec(any::<u8>(), 0..60), at in 0..PREFIXES.len()) {
        let _ = decode_row(&key, &value);
        let _ = decode_row(&[&[PREFIXES[at]], &key[..]].concat(), &[&[VALUE_VERSION], &value[..]].concat());
    }

    #[test]
    fn entries_sort_by_directory_hash_and_name(
        a in (any::<u64>(), any::<u64>(), arbitrary::name()), b in (any::<u64>(), any::<u64>(), arbitrary::name()),
    ) {
        let key = |(dir, hash, name): &(u64, u64, Name)| key_entry(Ino(*dir), *hash, name);
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        prop_assert_eq!(split_entry_key(&key(&a)), Some((Ino(a.0), a.1, a.2.clone())));
        prop_assert_eq!(entry_hash(&key(&a)), Some(a.1));
    }

    #[test]
    fn the_range_of_a_directory_holds_its_entries_from_the_hash_on_and_nothing_else(
        dir in any::<u64>(), other in any::<u64>(), hash in any::<u64>(), from in any::<u64>(), name in arbitrary::name(),
    ) {
        let range = dir_range_from(Ino(dir), from);
        prop_assert_eq!(range.contains(&key_entry(Ino(dir), hash, &name)), hash >= from);
        prop_assert_eq!(range.contains(&key_entry(Ino(other), hash, &name)), other == dir && hash >= from);
        prop_assert!(dir_range(Ino(dir)).contains(&key_entry(Ino(dir), hash, &name)));
        prop_assert!(!range.contains(&key_inode(Ino(dir))));
    }
}

#[test]
fn the_ends_of_all_numbers_have_ranges() {
    let name = Name::new(&[0xff; 255]).expect("255 bytes of 0xff are a name");
    for number in [0, 1, 0xff, u64::MAX] {
        let entry = key_entry(Ino(number), u64::MAX, &name);
        assert!(dir_range(Ino(number)).contains(&entry));
        assert!(dir_range_from(Ino(number), u64::MAX).contains(&entry));
        assert!(xattr_range(Ino(number)).contains(&key_xattr(Ino(number), &[0xff; 255])));
        assert!(!xattr_range(Ino(number)).contains(&key_xattr(Ino(number.wrapping_add(1)), b"user.a")));
    }
    assert_eq!(prefix_range(&[0x44, 0xff]).end, [0x45]);
}

#[test]
fn keys_that_nobody_makes_are_refused() {
    let long = [&key_inode(Ino(5))[..], b"x"].concat();
    let short = key_inode(Ino(5))[..8].to_vec();
    let unknown = [&b"Z"[..], &[0; 8]].concat();
    let no_name = key_xattr(Ino(5), b"");
    // A single value of no rank, as in version 1; an unknown one; a rank and a half.
    let meta = [&b"M\x01"[..], b"M\x63\0\0", b"M\x01\0\0\0", b"M"].map(<[u8]>::to_vec);
    let route = key_route(Rank(1), Ino(5), Frag::WHOLE);
    let (mut fine, cut) = (route.clone(), route[..route.len() - 1].to_vec());
    fine[11] = Frag::BITS_MAX + 1;
    let peer = key_peer(Rank(1), Rank(2))[..4].to_vec();
    for key in meta.into_iter().chain([long, short, unknown, no_name, fine, cut, peer, Vec::new()]) {
        let refused = decode_row(&key, &[VALUE_VERSION, 0]);
        assert!(matches!(refused, Err(DecodeError::Invalid { what: "table key", .. })), "{key:02x?}");
    }
}

#[test]
fn what_a_rank_has_put_down_lies_together() {
    let frag = Frag::new(3, 5).expect("5 has three bits");
    for rank in [0, 1, 0xff, 0x100, u16::MAX].map(Rank) {
        for other in [0, 1, 0xff, 0x100, u16::MAX].map(Rank) {
            assert_eq!(route_range(rank).contains(&key_route(other, Ino(u64::MAX), frag)), rank == other);
            assert_eq!(peer_range(rank).contains(&key_peer(other, rank)), rank == other);
        }
        assert!(!route_range(rank).contains(&key_inode(Ino(1))) && !peer_range(rank).contains(&key_orphan(Ino(1))));
    }
}

#[test]
fn prefixes_are_sorted_and_unique() {
    assert!(PREFIXES.is_sorted_by(|a, b| a < b));
}
