//! ACLs as one word, as `getfacl -c` has them: `u::rwx,u:1000:r--,g::r-x,m::r-x,o::r--`.

use loligo_types::{Acl, AclEntry, AclTag};

const TAGS: [(AclTag, &str, bool); 6] = [
    (AclTag::UserObj, "u", false),
    (AclTag::User, "u", true),
    (AclTag::GroupObj, "g", false),
    (AclTag::Group, "g", true),
    (AclTag::Mask, "m", false),
    (AclTag::Other, "o", false),
];

pub fn render(acl: &Acl) -> String {
    let entry = |entry: &AclEntry| {
        let (_, letter, named) = TAGS.iter().find(|(tag, ..)| *tag == entry.tag).copied().unwrap_or(TAGS[5]);
        let id = if named { entry.id.to_string() } else { String::new() };
        let bit = |bit: u8, c: char| if entry.perm & bit != 0 { c } else { '-' };
        format!("{letter}:{id}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))
    };
    acl.0.iter().map(entry).collect::<Vec<_>>().join(",")
}

pub fn parse(word: &str) -> Option<Acl> {
    word.split(',').map(entry).collect::<Option<Vec<_>>>().map(Acl)
}

fn entry(text: &str) -> Option<AclEntry> {
    let mut parts = text.split(':');
    let (letter, id, perm) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || perm.len() != 3 {
        return None;
    }
    let (tag, ..) = *TAGS.iter().find(|(_, known, named)| *known == letter && *named != id.is_empty())?;
    let id = if id.is_empty() { u32::MAX } else { id.parse().ok()? };
    let mut bits = 0;
    for ((c, letter), bit) in perm.chars().zip(['r', 'w', 'x']).zip([4, 2, 1]) {
        match c {
            '-' => {}
            c if c == letter => bits |= bit,
            _ => return None,
        }
    }
    Some(AclEntry { tag, id, perm: bits })
}
