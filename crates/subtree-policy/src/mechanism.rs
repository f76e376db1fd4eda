//! The seven mechanisms (Cudele, thesis chapter 6; table 6.1), and how their names are written. Not here: how they are put together
//! (`composition`), which go together (`pipeline`).

use std::fmt;

use crate::nearest;

/// One part of how a change comes about, becomes durable, or becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// Each operation is done by the rank, and seen by all when it returns.
    Rpcs,
    /// Each operation is appended to a journal in the client's memory; nobody else knows of it.
    AppendClientJournal,
    /// A client's journal is carried out on the rank's tree in memory.
    VolatileApply,
    /// A client's journal is carried out on the table in the store, record by record.
    NonvolatileApply,
    /// The rank's journal goes to the store as operations come.
    Stream,
    /// To the local disk: the client's journal, or with `rpcs` the rank's own log.
    LocalPersist,
    /// The client's journal goes to the store.
    GlobalPersist,
}

use Mechanism::{AppendClientJournal, GlobalPersist, LocalPersist, NonvolatileApply, Rpcs, Stream, VolatileApply};

/// Purpose of a mechanism: the key of a policy under which it may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It says who sees a change when.
    Consistency,
    /// It says what survives.
    Durability,
}

impl Mechanism {
    /// All, in the order of the thesis.
    pub const ALL: [Mechanism; 7] =
        [Rpcs, AppendClientJournal, VolatileApply, NonvolatileApply, Stream, LocalPersist, GlobalPersist];

    /// Its name, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Rpcs => "rpcs",
            AppendClientJournal => "append_client_journal",
            VolatileApply => "volatile_apply",
            NonvolatileApply => "nonvolatile_apply",
            Stream => "stream",
            LocalPersist => "local_persist",
            GlobalPersist => "global_persist",
        }
    }

    /// The one that a name means, in any case and with spaces, dashes or underscores between its words, as in the thesis'
    /// `Append Client Journal`.
    pub fn of(name: &str) -> Option<Mechanism> {
        let plain = plain(name);
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == plain)
    }

    /// The one whose name is nearest to a wrong one, if any is near.
    pub fn nearest(name: &str) -> Option<Mechanism> {
        let name = nearest::of(&plain(name), Mechanism::ALL.map(Mechanism::name))?;
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// The mechanism's purpose. `nonvolatile_apply` also makes changes durable, but its purpose is to show them to others.
    pub fn purpose(self) -> Purpose {
        match self {
            Rpcs | AppendClientJournal | VolatileApply | NonvolatileApply => Purpose::Consistency,
            Stream | LocalPersist | GlobalPersist => Purpose::Durability,
        }
    }

    /// True if operations are done by it; every composition has one such mechanism.
    pub fn does_operations(self) -> bool {
        matches!(self, Rpcs | AppendClientJournal)
    }

    /// True if it applies a client's journal.
    pub fn applies(self) -> bool {
        matches!(self, VolatileApply | NonvolatileApply)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Lower case, with one underscore between words.
fn plain(name: &str) -> String {
    let words: Vec<&str> = name.split(|c: char| c.is_whitespace() || c == '-' || c == '_').collect();
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_thesis_writes_them() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::of(mechanism.name()), Some(mechanism));
            assert_eq!(mechanism.to_string(), mechanism.name());
        }
        assert_eq!(Mechanism::of("RPCs"), Some(Rpcs));
        assert_eq!(Mechanism::of("Append Client Journal"), Some(AppendClientJournal));
        assert_eq!(Mechanism::of("append-client-journal"), Some(AppendClientJournal));
        assert_eq!(Mechanism::of(" VOLATILE  apply "), Some(VolatileApply));
        assert_eq!(Mechanism::of("persist"), None);
        assert_eq!(Mechanism::of(""), None);
    }

    #[test]
    fn a_wrong_name_is_near_to_one_or_to_none() {
        assert_eq!(Mechanism::nearest("Local Persit"), Some(LocalPersist));
        assert_eq!(Mechanism::nearest("rpc"), Some(Rpcs));
        assert_eq!(Mechanism::nearest("non-volatile apply"), Some(NonvolatileApply));
        assert_eq!(Mechanism::nearest("something else"), None);
    }
}
