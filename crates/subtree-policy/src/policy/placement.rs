//! The placement that a document names: where directories live that are made below (docs/placement.md). It is kept in the directory itself, not in
//! the text, and can be set without it; so a text is shown with what the directory has. Not here: what a placement does.

use std::borrow::Cow;
use std::ops::Range;

use loligo_types::Placement;
use toml::de::DeTable;

/// The key.
pub(super) const KEY: &str = "placement";

/// A text in which one placement stands for another is at most so long: longer than any of their names in quotes.
pub(super) const VALUE_LEN_MAX: usize = 16;

/// Where key and value stand.
fn spans(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let document = DeTable::parse(text).ok()?;
    let (key, value) = document.get_ref().iter().find(|(name, _)| name.get_ref() == KEY)?;
    Some((key.span(), value.span()))
}

/// True if a document names a placement.
pub fn names_placement(document: &[u8]) -> bool {
    std::str::from_utf8(document).is_ok_and(|text| spans(text).is_some())
}

/// A document as it is shown of a directory with this placement of its own: if it names one, then that, and without the line if the directory has
/// none by now. What a user wrote besides stays, comments too.
pub fn with_placement(document: &[u8], own: Placement) -> Cow<'_, [u8]> {
    let found = std::str::from_utf8(document).ok().and_then(spans);
    let Some((key, value)) = found else { return Cow::Borrowed(document) };
    let (cut, put) = match own {
        Placement::Inherited => (key.start..value.end, String::new()),
        named => (value, format!("\"{}\"", named.name())),
    };
    match (document.get(..cut.start), document.get(cut.end..)) {
        (Some(before), Some(after)) => Cow::Owned([before, put.as_bytes(), after].concat()),
        _ => Cow::Borrowed(document),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SubtreePolicy;

    fn shown(text: &str, own: Placement) -> String {
        String::from_utf8(with_placement(text.as_bytes(), own).into_owned()).expect("it was text")
    }

    #[test]
    fn a_document_shows_what_the_directory_has_and_keeps_what_the_user_wrote_besides() {
        let text = "# mine\nplacement = 'giga' # many\nallocated_inodes = 5\n\n[floor]\ndurability = 'local'\n";
        assert!(names_placement(text.as_bytes()));
        let other =
            "# mine\nplacement = \"table-inherit\" # many\nallocated_inodes = 5\n\n[floor]\ndurability = 'local'\n";
        assert_eq!(shown(text, Placement::TableInherit), other);
        let none = "# mine\n # many\nallocated_inodes = 5\n\n[floor]\ndurability = 'local'\n";
        assert_eq!(shown(text, Placement::Inherited), none);
        for (text, own) in [(text, Some(Placement::Giga)), (other, Some(Placement::TableInherit)), (none, None)] {
            assert_eq!(SubtreePolicy::parse(text).map(|policy| policy.placement()), Ok(own), "{text}");
        }
        assert_eq!(shown("\"placement\"='''giga'''", Placement::Subtree), "\"placement\"=\"subtree\"");
    }

    #[test]
    fn a_document_that_does_not_name_one_or_is_none_is_shown_as_it_is() {
        for text in
            ["", "blind = true\n", "# placement = 'giga'", "[floor]\nplacement = 'giga'", "placement = ", "placement"]
        {
            assert!(!names_placement(text.as_bytes()), "{text}");
            assert_eq!(shown(text, Placement::Table), text);
        }
        assert_eq!(with_placement(b"placement = 'giga'\n\xff", Placement::Table).as_ref(), b"placement = 'giga'\n\xff");
    }

    #[test]
    fn no_name_is_longer_than_what_a_text_has_room_for() {
        assert!(Placement::ALL.iter().all(|one| one.name().len() + 2 <= VALUE_LEN_MAX));
    }
}
