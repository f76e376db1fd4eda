//! The name that was likely to be meant by another one. Not here: the names that there are.

/// A longer word is no slip of the hand for any of our names.
const LEN_MAX: usize = 64;

/// The nearest of the names, if no more than a third of its letters are wrong, missing or too many.
pub(crate) fn of<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LEN_MAX {
        return None;
    }
    let measured = names.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    let near = measured.filter(|(distance, name)| distance * 3 <= name.len());
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}
