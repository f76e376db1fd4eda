//! Tables of ACL bytes and of the mode bits.

use loligo_types::{Acl, AclEntry, AclTag, FsError};

use super::{mode, xattr};

fn acl(entries: &[(AclTag, u32, u8)]) -> Acl {
    Acl(entries.iter().map(|(tag, id, perm)| AclEntry { tag: *tag, id: *id, perm: *perm }).collect())
}

const NONE: u32 = u32::MAX;

fn named() -> Acl {
    use AclTag::*;
    acl(&[(UserObj, NONE, 7), (User, 5, 6), (GroupObj, NONE, 5), (Group, 9, 7), (Mask, NONE, 6), (Other, NONE, 4)])
}

#[test]
fn bytes_go_round_and_are_those_of_linux() {
    let small = acl(&[(AclTag::UserObj, NONE, 6), (AclTag::GroupObj, NONE, 4), (AclTag::Other, NONE, 0)]);
    let bytes = xattr::print(&small);
    assert_eq!(bytes, b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff");
    assert_eq!(xattr::parse(&bytes), Ok(Some(small)));
    assert_eq!(xattr::parse(&xattr::print(&named())), Ok(Some(named())));
    assert_eq!(xattr::parse(b"\x02\0\0\0"), Ok(None));
    assert_eq!(xattr::parse(b""), Ok(None));
}

#[test]
fn what_is_no_acl_is_invalid() {
    let good = xattr::print(&named());
    let mut cases = vec![good[..good.len() - 1].to_vec(), b"\x01\0\0\0".to_vec(), b"\x02\0".to_vec()];
    // Version, tag, permission, a missing entry, a doubled one, wrong order, no mask.
    for (at, byte) in [(0, 3), (4, 3), (6, 8), (7, 1)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        cases.push(bytes);
    }
    for skip in [0, 2, 4, 5] {
        let mut entries = named().0;
        entries.remove(skip);
        cases.push(xattr::print(&Acl(entries)));
    }
    let mut doubled = named().0;
    doubled.insert(1, doubled[0]);
    cases.push(xattr::print(&Acl(doubled)));
    let mut swapped = named().0;
    swapped.swap(1, 2);
    cases.push(xattr::print(&Acl(swapped)));
    for bytes in cases {
        assert_eq!(xattr::parse(&bytes), Err(FsError::Invalid), "{bytes:?}");
    }
    let many = Acl(vec![AclEntry { tag: AclTag::User, id: 1, perm: 0 }; 1025]);
    assert_eq!(xattr::parse(&xattr::print(&many)), Err(FsError::TooBig));
}

#[test]
fn the_mode_shows_the_mask_as_the_group() {
    assert_eq!(mode::of(&named()), (0o764, false));
    let mut changed = named();
    mode::chmod(&mut changed, 0o510);
    assert_eq!(mode::of(&changed), (0o510, false));
    assert_eq!(changed.0[2].perm, 5, "the owning group's entry stays where there is a mask");
}

#[test]
fn a_new_file_gets_the_default_acl_cut_to_its_mode() {
    let (bits, got) = mode::inherit(&named(), 0o640);
    assert_eq!(bits, 0o640);
    assert_eq!(mode::of(&got.expect("it says more than the mode")), (0o640, false));
    let plain = acl(&[(AclTag::UserObj, NONE, 7), (AclTag::GroupObj, NONE, 5), (AclTag::Other, NONE, 0)]);
    assert_eq!(mode::inherit(&plain, 0o666), (0o640, None));
}
