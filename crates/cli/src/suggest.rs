//! "Did you mean": the name that somebody is likely to have meant who wrote another one. Not here: which names there are; and those of commands, options and
//! values that the command line lists, which clap compares.

/// A longer word is no slip of the hand for any of our names.
const LEN_MAX: usize = 64;

/// The nearest of the names, if it is near: at most a third of its letters are wrong, missing or too many; two that changed places count once.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LEN_MAX {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let far = |name: &str| strsim::osa_distance(&word, &name.to_lowercase().replace('-', "_"));
    let measured = names.into_iter().map(|name| (far(name), name));
    let near = measured.filter(|(far, name)| far * 3 <= name.len());
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// End of a message about an unknown name: `; did you mean X?`, or nothing.
pub fn hint<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map_or(String::new(), |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_told_from_another_word() {
        let names = ["cache_bytes", "table_cache_bytes", "greedy_spill"];
        assert_eq!(nearest("cahce_bytes", names), Some("cache_bytes"));
        assert_eq!(nearest("Cache-Bytes", names), Some("cache_bytes"));
        assert_eq!(nearest("greedyspill", names), Some("greedy_spill"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(hint(&"x".repeat(10_000), names), "");
    }
}
