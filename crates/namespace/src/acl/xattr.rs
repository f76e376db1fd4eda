//! The binary form of ACLs that Linux passes as `system.posix_acl_access` and `system.posix_acl_default`:
//!
//! ```text
//! 0        4      6      8         12
//! | 2: u32 | tag  | perm | id: u32 | tag ...      all little-endian
//! ```

use loligo_types::{Acl, AclEntry, AclTag, FsError, FsResult, limits};

/// Name of the access ACL.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the default ACL.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
const NO_ID: u32 = u32::MAX;

/// Parses and checks an ACL. `None`: there are no entries, which means "remove it". `Invalid` for anything that is no
/// valid ACL, `TooBig` for too many entries.
pub fn parse(bytes: &[u8]) -> FsResult<Option<Acl>> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER>() else {
        return if bytes.is_empty() { Ok(None) } else { Err(FsError::Invalid) };
    };
    if u32::from_le_bytes(*head) != VERSION || body.len() % ENTRY != 0 {
        return Err(FsError::Invalid);
    }
    if body.len() / ENTRY > limits::ACL_ENTRIES_MAX {
        return Err(FsError::TooBig);
    }
    let mut entries = body.chunks_exact(ENTRY).map(parse_entry).collect::<FsResult<Vec<_>>>()?;
    if entries.is_empty() {
        return Ok(None);
    }
    check(&entries)?;
    entries.sort();
    Ok(Some(Acl(entries)))
}

fn parse_entry(bytes: &[u8]) -> FsResult<AclEntry> {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let tag = match half(0) {
        0x01 => AclTag::UserObj,
        0x02 => AclTag::User,
        0x04 => AclTag::GroupObj,
        0x08 => AclTag::Group,
        0x10 => AclTag::Mask,
        0x20 => AclTag::Other,
        _ => return Err(FsError::Invalid),
    };
    let perm = u8::try_from(half(2)).ok().filter(|perm| *perm <= 7).ok_or(FsError::Invalid)?;
    let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    match tag {
        AclTag::User | AclTag::Group if id == NO_ID => Err(FsError::Invalid),
        AclTag::User | AclTag::Group => Ok(AclEntry { tag, id, perm }),
        _ => Ok(AclEntry { tag, id: NO_ID, perm }),
    }
}

/// In the order of the tags; owner, group and others exactly once; a mask at most once, and if anybody is named.
fn check(entries: &[AclEntry]) -> FsResult<()> {
    let count = |tag: AclTag| entries.iter().filter(|e| e.tag == tag).count();
    let once = [AclTag::UserObj, AclTag::GroupObj, AclTag::Other].into_iter().all(|tag| count(tag) == 1);
    let named = count(AclTag::User) + count(AclTag::Group) > 0;
    let masks = count(AclTag::Mask);
    let in_order = entries.windows(2).all(|pair| pair[0].tag <= pair[1].tag);
    if once && in_order && masks <= 1 && (masks == 1 || !named) { Ok(()) } else { Err(FsError::Invalid) }
}

/// The bytes of an ACL.
pub fn print(acl: &Acl) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + ENTRY * acl.0.len());
    bytes.extend(VERSION.to_le_bytes());
    for entry in &acl.0 {
        bytes.extend((entry.tag as u16).to_le_bytes());
        bytes.extend(u16::from(entry.perm).to_le_bytes());
        bytes.extend(entry.id.to_le_bytes());
    }
    bytes
}
