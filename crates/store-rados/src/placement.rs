//! Which placement group an object is in, as the cluster computes it: only to name an object in each of them.

/// The separator of name space and name in what is hashed.
const SEPARATOR: u8 = 0x1f;

/// Names of which at least one is in each of so many placement groups of a pool.
///
/// A group has the objects whose hashes end in the same bits: as many bits as make a power of two that is not below the number of
/// groups, or one bit less. So one name for each end of that many bits is enough.
pub(crate) fn one_in_each(namespace: &str, groups: u32) -> Vec<String> {
    let ends = groups.max(1).next_power_of_two();
    let mut names: Vec<Option<String>> = vec![None; ends as usize];
    let mut left = ends;
    for number in 0u64.. {
        let name = format!("look.{number:x}");
        let at = &mut names[(hash_in(namespace, &name) & (ends - 1)) as usize];
        if at.is_none() {
            *at = Some(name);
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    names.into_iter().flatten().collect()
}

/// The hash of an object's name in a name space.
fn hash_in(namespace: &str, name: &str) -> u32 {
    if namespace.is_empty() {
        return hash(name.as_bytes());
    }
    let mut bytes = namespace.as_bytes().to_vec();
    bytes.push(SEPARATOR);
    bytes.extend_from_slice(name.as_bytes());
    hash(&bytes)
}

/// Robert Jenkins' hash of 1996, with which pools place objects (`object_hash` rjenkins, the only one in use).
fn hash(bytes: &[u8]) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let (mut a, mut b, mut c) = (0x9e37_79b9u32, 0x9e37_79b9u32, 0u32);
    let mut rest = bytes;
    while rest.len() >= 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        (a, b, c) = mix(a, b, c);
        rest = &rest[12..];
    }
    c = c.wrapping_add(bytes.len() as u32);
    let part = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    a = a.wrapping_add(part(0, 4));
    b = b.wrapping_add(part(4, 8));
    // The lowest byte has the length.
    c = c.wrapping_add(part(8, 11) << 8);
    mix(a, b, c).2
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (first, second, third) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    (a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ceph osd map` says it.
    #[test]
    fn objects_are_where_the_cluster_has_them() {
        assert_eq!(hash_in("loligo.data", "look.0"), 0x6d39_6864);
        assert_eq!(hash_in("x.data", "look.1f3"), 0x6046_bd66);
        assert_eq!(hash_in("", "look.2"), 0x6fd8_5e35);
        assert_eq!(hash_in("loligo.data", "look.abcdef12345"), 0x6148_0036);
    }

    #[test]
    fn there_is_a_name_for_each_end_of_a_hash() {
        for groups in [1, 2, 3, 8, 12, 100] {
            let names = one_in_each("loligo.data", groups);
            let ends = groups.next_power_of_two();
            let mut found: Vec<u32> = names.iter().map(|name| hash_in("loligo.data", name) & (ends - 1)).collect();
            found.sort_unstable();
            assert_eq!(found, (0..ends).collect::<Vec<_>>());
        }
    }
}
