//! The name that somebody is likely to have meant who wrote another one. Not here: which names there are.

/// A longer word is no slip of the hand for any of our names.
const LEN_MAX: usize = 64;

/// The nearest of the names, if it is near: no more than a third of its letters are wrong, missing or too many; two that changed places count once.
pub(crate) fn of(word: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    if word.len() > LEN_MAX {
        return None;
    }
    let measured = names.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    measured
        .filter(|(distance, name)| distance * 3 <= name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_told_from_another_word() {
        let names = ["durability", "interfere", "blind"];
        assert_eq!(of("durabilty", names), Some("durability"));
        assert_eq!(of("interfer", names), Some("interfere"));
        assert_eq!(of("bilnd", names), Some("blind"), "two that changed places");
        assert_eq!(of("blkmd", names), None, "two letters of five");
        assert_eq!(of("size", names), None);
        assert_eq!(of(&"x".repeat(10_000), names), None);
    }
}
