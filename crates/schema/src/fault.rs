//! Faults of a document: the causes, the place in the text, and the report of both. Not here: finding them.

use std::fmt;

use thiserror::Error;

use crate::limits;

/// Longest word that an error repeats, characters.
const SHOWN_MAX: usize = 40;

/// Cause of a fault; its text names the key, the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The document is too long.
    #[error(
        "the document has {found} bytes, more than {}; shorten it, or write a manifest and use `kind = \"pointer\"`",
        limits::DOCUMENT_MAX
    )]
    TooLong {
        /// Bytes of the document.
        found: usize,
    },
    /// Bytes that are no text.
    #[error("this is no UTF-8 text; a schema is a TOML document")]
    NoText,
    /// The text is no TOML.
    #[error("this is no TOML: {0}")]
    Toml(String),
    /// A version that this program does not know.
    #[error(
        "version: {found} is not known here, only {} is; update this program, or write the document for version {}",
        crate::document::VERSION,
        crate::document::VERSION
    )]
    Version {
        /// The version in the text.
        found: String,
    },
    /// A key that the document does not have.
    #[error("`{}` is no key {place}{}", shown(.key), hint(.nearest))]
    UnknownKey {
        /// The key in the text.
        key: String,
        /// The table that it stands in.
        place: &'static str,
        /// A key that was likely to be meant.
        nearest: Option<String>,
    },
    /// A key that has to be there.
    #[error("the key `{key}` {place} is missing; {remedy}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The table, with a preposition.
        place: &'static str,
        /// The line to add.
        remedy: &'static str,
    },
    /// A value of another type or outside of its bounds.
    #[error("{key}: {expected} has to stand here, not {found}")]
    BadValue {
        /// The key.
        key: String,
        /// The values that are allowed.
        expected: String,
        /// The value in the text.
        found: String,
    },
    /// A key that another kind of schema has.
    #[error("`{key}` is for `kind = \"{of}\"`; remove it, or change the kind")]
    OtherKind {
        /// The key.
        key: &'static str,
        /// The kind that has it.
        of: &'static str,
    },
    /// Two keys that exclude each other.
    #[error("`{0}` and `{1}` exclude each other; keep one of them")]
    Both(&'static str, &'static str),
    /// Too many of something.
    #[error("{what}: there are {found}, at most {max} are allowed; {remedy}")]
    TooMany {
        /// The things.
        what: &'static str,
        /// Their number.
        found: u64,
        /// The most.
        max: u64,
        /// Remedy.
        remedy: &'static str,
    },
    /// The name of an argument is none.
    #[error("args.{}: a name consists of letters, digits and `_` and does not begin with a digit; rename it", shown(.0))]
    ArgumentName(String),
    /// An argument that no path uses.
    #[error("args.{0}: no path contains `{{{0}}}`; remove the argument, or use it")]
    Unused(String),
    /// A range or list without values.
    #[error("args.{name}: it has no values ({why}); give it at least one")]
    NoValues {
        /// The argument.
        name: String,
        /// Cause.
        why: &'static str,
    },
    /// A value that cannot be in a name.
    #[error("args.{name}: the value `{}` {why}; replace it", shown(.value))]
    ValueInName {
        /// The argument.
        name: String,
        /// The value.
        value: String,
        /// Cause.
        why: &'static str,
    },
    /// The same value twice in a list.
    #[error("args.{name}: `{}` stands twice in the list, and two entries would have one name; remove one", shown(.value))]
    ValueTwice {
        /// The argument.
        name: String,
        /// The value.
        value: String,
    },
    /// A range that ends beyond the largest number.
    #[error("args.{name}: the range goes beyond {}; make it shorter", limits::NUMBER_MAX)]
    RangeOverflow {
        /// The argument.
        name: String,
    },
    /// A range that is dealt out over what does not allow it.
    #[error("args.{name}.split: {why}; {remedy}")]
    Split {
        /// The argument that is split.
        name: String,
        /// Cause.
        why: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// An argument that is defined by itself.
    #[error(
        "args.{0}.split: `{0}` is split over itself, directly or by way of others; split it over an argument that is not split"
    )]
    Recursion(String),
    /// A path that is none.
    #[error("path `{}`: {why}; {remedy}", shown(.path))]
    Path {
        /// The path.
        path: String,
        /// Cause.
        why: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// Names longer than names may be.
    #[error("path `{}`: names up to {bytes} bytes long would appear, and a name has at most {}; shorten the component", shown(.path), loligo_types::limits::NAME_MAX)]
    NameTooLong {
        /// The path.
        path: String,
        /// Bytes of the longest name.
        bytes: u64,
    },
    /// A component whose values run into each other.
    #[error("path `{}`: no reader can tell where the value of `{{{argument}}}` ends; put a literal character that is in none of its values behind it, or give it a width", shown(.path))]
    Ambiguous {
        /// The path.
        path: String,
        /// The argument.
        argument: String,
    },
    /// Two paths that give one name.
    #[error("paths `{}` and `{}` both give the name `{}` in one directory; let a literal part differ", shown(.first), shown(.second), shown(.name))]
    Collision {
        /// The earlier path.
        first: String,
        /// The later one.
        second: String,
        /// The name.
        name: String,
    },
    /// A path that is a file and a directory.
    #[error("path `{}` is a file, and `{}` makes it a directory; let a literal part differ, or end the first with `/`", shown(.file), shown(.dir))]
    FileAndDir {
        /// The path that ends there.
        file: String,
        /// The path that goes on.
        dir: String,
    },
    /// Patterns that cannot be compared with a bounded amount of work.
    #[error("paths `{}` and `{}`: it cannot be told with little work that they never give the same name; let the literal beginnings of the components differ", shown(.first), shown(.second))]
    TooInvolved {
        /// The earlier path.
        first: String,
        /// The later one.
        second: String,
    },
    /// More entries than a tree may have.
    #[error("the paths give more than {} entries; shorten the ranges", limits::ENTRIES_MAX)]
    TooManyEntries,
    /// More bytes than files may have.
    #[error("the files would have more than {} bytes together; lower `size`", limits::BYTES_MAX)]
    TooManyBytes,
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"))
}

/// A foreign word as an error shows it: short, and without characters that a terminal would obey.
pub(crate) fn shown(word: &str) -> String {
    let mut out: String = word.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if word.chars().nth(SHOWN_MAX).is_some() {
        out.push_str("...");
    }
    out
}

/// A cause at a byte of a text that the reader knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub cause: Cause,
    pub offset: usize,
}

impl Flaw {
    pub fn new(cause: Cause, offset: usize) -> Flaw {
        Flaw { cause, offset }
    }

    pub fn in_text(self, text: &str) -> Fault {
        Fault::new(self.cause, text, self.offset)
    }
}

/// A cause and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The cause.
    pub cause: Cause,
    /// Bytes before it.
    pub offset: usize,
    /// Its line, from 1.
    pub line: u32,
    /// Its place in the line in characters, from 1.
    pub column: u32,
    text: Box<str>,
}

impl Fault {
    /// A cause at a byte of a text; a byte beyond the end or within a character is moved back.
    pub(crate) fn new(cause: Cause, text: &str, offset: usize) -> Fault {
        let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = text.split_at(offset);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = offset + after.find('\n').unwrap_or(after.len());
        let line = before.matches('\n').count() as u32 + 1;
        let column = text[start..offset].chars().count() as u32 + 1;
        let text: String = text[start..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Fault { cause, offset, line, column, text: text.trim_end().into() }
    }

    /// The line and, below it, a caret at the place.
    pub fn caret(&self) -> String {
        format!("{}\n{}^", self.text, " ".repeat(self.column as usize - 1))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.cause)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_shown_with_its_line_and_a_caret_below_the_place() {
        let text = "a = 1\n\tb = \u{e9}x\r\nc";
        let at = text.find('x').expect("it is there");
        let fault = Fault::new(Cause::NoText, text, at);
        assert_eq!((fault.offset, fault.line, fault.column), (at, 2, 7));
        assert_eq!(fault.caret(), " b = \u{e9}x\n      ^");
        assert!(fault.to_string().starts_with("line 2, column 7: this is no UTF-8"));
    }

    #[test]
    fn a_place_beyond_the_end_or_within_a_character_is_moved_to_one_that_exists() {
        assert_eq!(Fault::new(Cause::NoText, "", 9).caret(), "\n^");
        assert_eq!(Fault::new(Cause::NoText, "\u{e9}", 1).offset, 0);
    }

    #[test]
    fn foreign_words_are_shown_short_and_without_control_characters() {
        let cause = Cause::ArgumentName(format!("\u{1b}[2J{}", "x".repeat(100)));
        let shown = cause.to_string();
        assert!(!shown.contains('\u{1b}') && shown.contains("...") && !shown.contains(&"x".repeat(50)), "{shown}");
    }
}
