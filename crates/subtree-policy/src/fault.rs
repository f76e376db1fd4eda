//! Faults of a policy's text: the causes, the place in the text, and the report of both. Not here: finding them.

use std::fmt;

use thiserror::Error;

use crate::mechanism::{Mechanism, Purpose};

/// Longest word that an error repeats, characters.
const SHOWN_MAX: usize = 40;

/// Cause of a fault; its text says what is wrong, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// A name that no mechanism has.
    #[error("`{}` is no mechanism{}", shown(.name), hint(.nearest))]
    UnknownMechanism {
        /// As it was written.
        name: String,
        /// One that was likely to be meant.
        nearest: Option<Mechanism>,
    },
    /// Something else stands where a mechanism has to.
    #[error("a mechanism or `(` has to stand here, not {0}")]
    NoUnit(String),
    /// Something stands behind a whole composition.
    #[error("here only `+`, `||`{} or the end can stand, not {found}", if *.open { ", `)`" } else { "" })]
    NoOperator {
        /// The text that stands there.
        found: String,
        /// True if a parenthesis is open.
        open: bool,
    },
    /// A parenthesis that is never closed.
    #[error("this parenthesis is not closed; put a `)` where it ends")]
    NotClosed,
    /// Parentheses in parentheses in parentheses.
    #[error("more than {} parentheses are open here; a composition needs few", crate::composition::NESTING_MAX)]
    TooDeep,
    /// A text that is too long.
    #[error("{what} is longer than {max} bytes; shorten it")]
    TooLong {
        /// Kind of text.
        what: &'static str,
        /// Greatest length, bytes.
        max: usize,
    },
    /// The same mechanism twice.
    #[error("`{0}` stands here a second time; once is enough")]
    Twice(Mechanism),
    /// Nothing does operations, and so nothing can follow.
    #[error("`{0}` works on a client's journal, and there is none; begin with `append_client_journal +`")]
    NoClientJournal(Mechanism),
    /// The rank's journal without the rank.
    #[error("`stream` is the rank's journal, and no operation comes to the rank; begin with `rpcs +`")]
    NoRpcs,
    /// With rpcs, something that needs a client's journal.
    #[error("`{mechanism}` works on a client's journal, and with `rpcs` there is none; {}", instead(.mechanism))]
    NotWithRpcs {
        /// The one that does.
        mechanism: Mechanism,
    },
    /// Two ways of doing an operation.
    #[error(
        "`{second}` does the same work as `{first}`: an operation goes to the rank or into the client's journal; keep one"
    )]
    TwoWays {
        /// The one that stands first.
        first: Mechanism,
        /// The one that is pointed at.
        second: Mechanism,
    },
    /// The rank's journal beside a client's.
    #[error(
        "`stream` is the rank's journal, through which a client's does not pass; for global durability say `global_persist`"
    )]
    StreamOfClient,
    /// Applied in memory and in the table.
    #[error("`{0}` carries the client's journal out a second time; keep one of the two applies")]
    TwoApplies(Mechanism),
    /// For each operation, after what is done once at the end.
    #[error(
        "`{late}` is done with each operation, `{early}` once when the work is done; put `{late}` before it with a `+`"
    )]
    OnlineTooLate {
        /// The one that is pointed at.
        late: Mechanism,
        /// The mechanism before it, or beside it.
        early: Mechanism,
    },
    /// Made durable after it was applied, or meanwhile.
    #[error(
        "`{persist}` has to be over before `{apply}` begins: a crash in the apply would leave nothing durable; put it first"
    )]
    PersistAfterApply {
        /// The one that is pointed at.
        persist: Mechanism,
        /// The apply.
        apply: Mechanism,
    },
    /// Under the wrong one of the two keys.
    #[error("`{mechanism}` says something of {}, not of {}; put it there", purpose(.mechanism.purpose()), other(.mechanism.purpose()))]
    WrongKey {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// No TOML.
    #[error("{0}")]
    Toml(String),
    /// A key that there is not.
    #[error("there is no key `{}`{}", shown(.key), hint(.nearest))]
    UnknownKey {
        /// As it was written.
        key: String,
        /// One that was likely to be meant.
        nearest: Option<&'static str>,
    },
    /// A value that makes no sense.
    #[error("{key}: {expected} has to stand here, not {found}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The values that are allowed.
        expected: String,
        /// The value in the text.
        found: String,
    },
    /// Two keys that exclude each other.
    #[error("`pipeline` says everything, and so excludes `{0}`; keep one of them")]
    PipelineAnd(&'static str),
    /// Partial merges where nothing is merged.
    #[error("`sync_interval` sends on what is in a client's journal, and this policy has none; remove it")]
    SyncWithoutJournal,
    /// Others are to be kept from a decoupled subtree, and nothing is decoupled.
    #[error(
        "`interfere = \"{interfere}\"` keeps others from a decoupled subtree, and with this policy nothing is decoupled: it is {cell}; leave it out, or say \
         consistency `weak`"
    )]
    InterfereWithoutJournal {
        /// The value in the text.
        interfere: &'static str,
        /// The cell of the policy.
        cell: String,
    },
    /// Others are to read what was merged, and nothing is.
    #[error(
        "`interfere = \"read\"` shows others the state of the last merge, and this policy merges nothing; leave it out, or say consistency `weak`"
    )]
    ReadWithoutMerge,
    /// A lag where answers wait.
    #[error(
        "`lag` says how long a change may be not durable, and with {0} an answered change is; remove it, or say preset `relaxed`"
    )]
    LagWithoutRelaxed(String),
    /// Data in the journal where answers do not wait for the journal.
    #[error(
        "journal: in mode `{0}` data is read from the journal's record on, which must be durable before the answer, and in a relaxed directory \
         answers come before; say `ordered` or `writeback`, or durability \"global\""
    )]
    JournalOfRelaxed(&'static str),
    /// A threshold for another mode of the data journal.
    #[error(
        "`journal_threshold` is the largest synced write in the journal of mode `selective`, and {}; say `journal = \"selective\"`, or remove it",
        .0.map_or("no `journal` is said".to_string(), |mode| format!("mode `{mode}` has none"))
    )]
    ThresholdWithoutSelective(Option<&'static str>),
    /// Directories at ranks of their own, in one that may be given to one client.
    #[error(
        "placement: under `{0}` directories get ranks of their own, and a directory with `append_client_journal` can be given to one client \
         with all that is in it, which is at one rank then; say `subtree`, or leave the journal to the rank (preset `posix`)"
    )]
    ScatteredWithJournal(&'static str),
    /// A ceiling that the policy itself is above.
    #[error(
        "allocated_inodes: directories below take over this policy, which asks for {own}, more than {most}; ask for less, or raise the ceiling"
    )]
    AboveOwnCeiling {
        /// Inode numbers that the policy asks for.
        own: u64,
        /// The most.
        most: u64,
    },
    /// A floor that the policy itself is below.
    #[error("{key}: directories below take over this policy, whose {key} is {own}, less than {floor}; lower the floor")]
    BelowOwnFloor {
        /// consistency or durability.
        key: &'static str,
        /// The level of the policy.
        own: String,
        /// The level of the floor.
        floor: String,
    },
    /// Bytes that are no text.
    #[error("this is no UTF-8 text; a policy is a TOML document")]
    NoText,
}

fn hint(nearest: &Option<impl fmt::Display>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"))
}

fn instead(mechanism: &Mechanism) -> &'static str {
    match mechanism {
        Mechanism::GlobalPersist => "for global durability say `stream`",
        _ => "what the rank has done all see already: remove it",
    }
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Consistency => "consistency",
        Purpose::Durability => "durability",
    }
}

fn other(of: Purpose) -> &'static str {
    purpose(if of == Purpose::Consistency { Purpose::Durability } else { Purpose::Consistency })
}

/// A word of somebody else's, as an error shows it: short, and without what a terminal would obey.
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
    pub line: usize,
    /// Its place in the line in characters, from 1.
    pub column: usize,
    text: String,
}

impl Fault {
    /// At a byte of a text.
    pub(crate) fn new(cause: Cause, text: &str, offset: usize) -> Fault {
        // Between characters, whatever a parser of somebody else's says.
        let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = text.split_at(offset);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = offset + after.find('\n').unwrap_or(after.len());
        let line = before.matches('\n').count() + 1;
        let column = text[start..offset].chars().count() + 1;
        Fault { cause, offset, line, column, text: text[start..end].trim_end_matches('\r').to_string() }
    }

    /// The line and, below it, a caret at the place.
    pub fn caret(&self) -> String {
        // A tab would move the caret, a control character the terminal.
        let line: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{line}\n{}^", " ".repeat(self.column - 1))
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
        let fault = Fault::new(Cause::NotClosed, text, at);
        assert_eq!((fault.offset, fault.line, fault.column), (at, 2, 7));
        assert_eq!(fault.caret(), " b = \u{e9}x\n      ^");
        assert!(fault.to_string().starts_with("line 2, column 7: this parenthesis"));
    }

    #[test]
    fn a_place_beyond_the_end_or_within_a_character_is_one_that_there_is() {
        assert_eq!(Fault::new(Cause::NotClosed, "", 9).caret(), "\n^");
        assert_eq!(Fault::new(Cause::NotClosed, "\u{e9}", 1).offset, 0);
    }

    #[test]
    fn words_of_others_are_shown_short_and_without_control_characters() {
        let cause = Cause::UnknownKey { key: format!("\u{1b}[2J{}", "x".repeat(100)), nearest: None };
        let shown = cause.to_string();
        assert!(shown.len() < 100 && !shown.contains('\u{1b}') && shown.contains("..."), "{shown}");
    }
}
