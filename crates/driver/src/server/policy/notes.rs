//! Notes of policies in the table: each version of each policy for good, the times when each was in force, their memory at each rank, and
//! the central log. The bytes are drawn in docs/formats/policy.md. Every note has a checksum. Notes of other kinds are read and written
//! with it, too.

use std::sync::Arc;

use loligo_balancer::Value;
use loligo_journal::table::{Row, decode_row, key_note, note_range};
use loligo_store::{Batch, Durability, Table};
use loligo_types::{PolicyId, Rank};

use super::super::error::{Result, ServerError, bad_row};

/// Lines that the log keeps; the oldest go first.
const LOG_MAX: usize = 10_000;
/// As many more may be there before they go.
const LOG_SLACK: usize = 500;
/// Rows read at a time.
const ROWS: usize = 1000;

const VERSION: &str = "policy/version/";
const NAMED: &str = "policy/name/";
const CHOICE: &str = "policy/choice";
const HISTORY: &str = "policy/history/";
const STATE: &str = "policy/state/";
const LOG: &str = "policy/log/";
/// First line of a version's note.
const HEAD: &str = "loligo policy 1";

/// A version of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its number among all versions of all policies.
    pub id: PolicyId,
    /// The policy's name.
    pub name: String,
    /// Its number among those of this policy, from 1.
    pub number: u32,
    /// When it was put down, milliseconds since 1970.
    pub at_ms: u64,
    /// The policy.
    pub text: String,
}

/// A policy that was put in force, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// 0: none.
    pub policy: PolicyId,
    /// For directories that name this policy; none: for the file system.
    pub name: Option<String>,
    /// Why: who asked for it, or what failed.
    pub why: String,
    /// The one before it was given up because it failed.
    pub failed: bool,
}

/// The version by which directories are balanced that name a policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Named {
    /// 0: none, all of them have failed.
    pub now: PolicyId,
    /// Those that were given up because they failed, ascending.
    pub failed: Vec<PolicyId>,
}

/// A line of the central log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The rank that wrote it; none: the membership thread.
    pub rank: Option<Rank>,
    /// The text.
    pub text: String,
}

/// Them.
#[derive(Clone)]
pub(crate) struct Notes {
    table: Arc<dyn Table>,
}

fn odd(name: &str) -> ServerError {
    ServerError::Refused(format!("the note {name} of the table makes no sense: run loligo fsck"))
}

impl Notes {
    pub(crate) fn new(table: Arc<dyn Table>) -> Notes {
        Notes { table }
    }

    /// The note of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Option<String>> {
        let key = key_note(name);
        let Some(value) = self.table.get(&key)? else { return Ok(None) };
        match decode_row(&key, &value).map_err(|e| bad_row(&key, &e))? {
            Row::Note { data, .. } => String::from_utf8(data.to_vec()).map(Some).map_err(|_| odd(name)),
            _ => Err(odd(name)),
        }
    }

    /// The last notes whose names begin so, ascending, with the rest of the name.
    pub(crate) fn last(&self, begin: &str, most: usize) -> Result<Vec<(String, String)>> {
        let range = note_range(begin);
        let (mut from, mut found) = (range.start.clone(), std::collections::VecDeque::new());
        loop {
            let rows = self.table.scan(&from, &range.end, ROWS)?;
            for (key, value) in &rows {
                if let Row::Note { name, data } = decode_row(key, value).map_err(|e| bad_row(key, &e))? {
                    let text = String::from_utf8(data.to_vec()).map_err(|_| odd(&name))?;
                    found.push_back((name[begin.len()..].to_string(), text));
                    if found.len() > most {
                        found.pop_front();
                    }
                }
            }
            let Some((last, _)) = rows.last().filter(|_| rows.len() == ROWS) else { return Ok(found.into()) };
            from = [&last[..], &[0]].concat();
        }
    }

    /// Removes a note, durably.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        Ok(self.table.write(Batch::new().delete(key_note(name)), Durability::Sync)?)
    }

    /// Puts a note down.
    pub(crate) fn put(&self, name: String, text: String, durability: Durability) -> Result<()> {
        let (key, value) = Row::Note { name, data: text.into_bytes().into() }.encode();
        Ok(self.table.write(Batch::new().put(key, value), durability)?)
    }

    #[cfg(test)]
    pub(crate) fn put_batch(&self, batch: &Batch) -> Result<()> {
        Ok(self.table.write(batch, Durability::Sync)?)
    }

    // Versions.

    /// A version; it never changes.
    pub(crate) fn version(&self, id: PolicyId) -> Result<Option<Version>> {
        let name = format!("{VERSION}{:010}", id.0);
        self.get(&name)?.map(|note| parse_version(id, &note).ok_or_else(|| odd(&name))).transpose()
    }

    /// All versions.
    pub(crate) fn versions(&self) -> Result<Vec<Version>> {
        let parse = |(number, note): &(String, String)| parse_version(PolicyId(number.parse().ok()?), note);
        let all = self.last(VERSION, usize::MAX)?;
        all.iter().map(|note| parse(note).ok_or_else(|| odd(&format!("{VERSION}{}", note.0)))).collect()
    }

    /// Puts a new version down, durably. One whose text is that of the newest one of this name is the same.
    pub(crate) fn add(&self, name: &str, text: &str, at_ms: u64) -> Result<Version> {
        let all = self.versions()?;
        let newest = all.iter().filter(|version| version.name == name).max_by_key(|version| version.number);
        if let Some(same) = newest.filter(|newest| newest.text == text) {
            return Ok(same.clone());
        }
        let id = PolicyId(all.iter().map(|version| version.id.0).max().unwrap_or(0) + 1);
        let number = newest.map_or(0, |newest| newest.number) + 1;
        let note = format!("{HEAD}\nname {name}\nversion {number}\nat {at_ms}\n\n{text}");
        self.put(format!("{VERSION}{:010}", id.0), note, Durability::Sync)?;
        Ok(Version { id, name: name.into(), number, at_ms, text: text.into() })
    }

    // Which version directories mean that name a policy.

    /// By which version directories are balanced that name this policy; none: nobody has asked yet.
    pub(crate) fn named(&self, policy: &str) -> Result<Option<Named>> {
        let name = format!("{NAMED}{policy}");
        self.get(&name)?.map(|note| parse_named(&note).ok_or_else(|| odd(&name))).transpose()
    }

    /// The same of all that were ever asked for, by name.
    pub(crate) fn all_named(&self) -> Result<Vec<(String, Named)>> {
        let all = self.last(NAMED, usize::MAX)?;
        let parse = |(name, note): (String, String)| match parse_named(&note) {
            Some(named) => Ok((name, named)),
            None => Err(odd(&format!("{NAMED}{name}"))),
        };
        all.into_iter().map(parse).collect()
    }

    /// The row that says so, for the batch that tells of it in the history, too.
    pub(crate) fn put_named(batch: &mut Batch, policy: &str, named: &Named) {
        let failed: String = named.failed.iter().map(|id| format!(" {}", id.0)).collect();
        let text = format!("now {}\nfailed{failed}\n", named.now.0);
        let (key, value) = Row::Note { name: format!("{NAMED}{policy}"), data: text.into_bytes().into() }.encode();
        batch.put(key, value);
    }

    // Who said what is in force.

    /// True if the file system's policy was chosen, false if it is the default; none: nothing was put down.
    pub(crate) fn choice(&self) -> Result<Option<bool>> {
        match self.get(CHOICE)?.as_deref() {
            None => Ok(None),
            Some("chosen") => Ok(Some(true)),
            Some("default") => Ok(Some(false)),
            Some(_) => Err(odd(CHOICE)),
        }
    }

    /// The row that says so, for the batch that puts it in force.
    pub(crate) fn put_choice(batch: &mut Batch, chosen: bool) {
        let text = if chosen { "chosen" } else { "default" };
        let (key, value) = Row::Note { name: CHOICE.into(), data: text.as_bytes().into() }.encode();
        batch.put(key, value);
    }

    // What was in force.

    /// Policies that were put in force, the last one last.
    pub(crate) fn history(&self) -> Result<Vec<InForce>> {
        let parse = |(at, note): &(String, String)| {
            let (policy, rest) = note.split_once(' ')?;
            let (what, rest) = rest.split_once(' ')?;
            let (name, why) = match what {
                "named" | "named-failed" => rest.split_once(' ').map(|(name, why)| (Some(name.to_string()), why))?,
                _ => (None, rest),
            };
            let at_ms = u64::from_str_radix(at.get(..16)?, 16).ok()?;
            let failed = matches!(what, "failed" | "named-failed");
            Some(InForce { at_ms, policy: PolicyId(policy.parse().ok()?), name, why: why.into(), failed })
        };
        self.last(HISTORY, LOG_MAX)?.iter().map(|note| parse(note).ok_or_else(|| odd(HISTORY))).collect()
    }

    /// The row that says that a policy is in force from now on, for the batch that puts it in force.
    pub(crate) fn put_history(&self, batch: &mut Batch, one: &InForce) -> Result<()> {
        // Two in one millisecond must not be one.
        let last = self.last(HISTORY, 1)?.pop().and_then(|(at, _)| u64::from_str_radix(&at, 16).ok()).unwrap_or(0);
        let name = format!("{HISTORY}{:016x}", one.at_ms.max(last + 1));
        let what = match (&one.name, one.failed) {
            (None, false) => "set".to_string(),
            (None, true) => "failed".to_string(),
            (Some(name), false) => format!("named {name}"),
            (Some(name), true) => format!("named-failed {name}"),
        };
        let text = format!("{} {what} {}", one.policy.0, one.why);
        let (key, value) = Row::Note { name, data: text.into_bytes().into() }.encode();
        batch.put(key, value);
        Ok(())
    }

    // What policies remember.

    /// State that a policy put down last at a rank.
    pub(crate) fn state(&self, policy: PolicyId, rank: Rank) -> Result<Option<Value>> {
        let name = state_name(policy, rank);
        let parse = |text: &str| match text.split_once(' ')? {
            ("number", bits) => Some(Value::Number(f64::from_bits(u64::from_str_radix(bits, 16).ok()?))),
            ("bool", "true") => Some(Value::Bool(true)),
            ("bool", "false") => Some(Value::Bool(false)),
            _ => None,
        };
        self.get(&name)?.map(|text| parse(&text).ok_or_else(|| odd(&name))).transpose()
    }

    /// Puts it down; the next sync of the table makes it durable.
    pub(crate) fn set_state(&self, policy: PolicyId, rank: Rank, value: Value) -> Result<()> {
        let text = match value {
            Value::Number(number) => format!("number {:016x}", number.to_bits()),
            Value::Bool(is) => format!("bool {is}"),
        };
        self.put(state_name(policy, rank), text, Durability::Buffered)
    }

    // The log.

    /// Adds lines; the next sync of the table makes them durable. `count`: of all that this rank added in this life, so that
    /// no line takes the place of another one, and old ones go from time to time.
    pub(crate) fn log(&self, rank: Option<Rank>, at_ms: u64, count: &mut u32, text: &str) -> Result<()> {
        *count = count.wrapping_add(1);
        let who = rank.map_or("-----".to_string(), |rank| format!("{:05}", rank.0));
        self.put(format!("{LOG}{at_ms:016x}/{who}/{count:08x}"), text.into(), Durability::Buffered)?;
        if (*count as usize).is_multiple_of(LOG_SLACK) { self.cut_log() } else { Ok(()) }
    }

    fn cut_log(&self) -> Result<()> {
        let range = note_range(LOG);
        let rows = self.table.scan(&range.start, &range.end, LOG_MAX + 2 * LOG_SLACK)?;
        let mut batch = Batch::new();
        for (key, _) in rows.iter().take(rows.len().saturating_sub(LOG_MAX)) {
            batch.delete(&key[..]);
        }
        Ok(self.table.write(&batch, Durability::Buffered)?)
    }

    /// The last lines, the newest last.
    pub(crate) fn log_lines(&self, most: usize) -> Result<Vec<LogLine>> {
        let parse = |(name, text): (String, String)| {
            let mut parts = name.split('/');
            let at_ms = u64::from_str_radix(parts.next()?, 16).ok()?;
            let rank = parts.next()?.parse().ok().map(Rank);
            Some(LogLine { at_ms, rank, text })
        };
        self.last(LOG, most)?.into_iter().map(|note| parse(note).ok_or_else(|| odd(LOG))).collect()
    }
}

/// Policies that were given up because they failed: an entry that says so means the one before it.
pub(super) fn given_up(history: &[InForce]) -> Vec<PolicyId> {
    let of_all: Vec<&InForce> = history.iter().filter(|one| one.name.is_none()).collect();
    of_all.windows(2).filter(|pair| pair[1].failed).map(|pair| pair[0].policy).collect()
}

/// The policy of the file system that was in force before `now`, of those that have not failed: a rollback puts it in force. None: there is none.
pub fn policy_before(history: &[InForce], now: PolicyId) -> Option<PolicyId> {
    let bad = given_up(history);
    let good = |one: &&InForce| one.name.is_none() && one.policy != now && !bad.contains(&one.policy);
    history.iter().rev().find(good).map(|one| one.policy)
}

fn state_name(policy: PolicyId, rank: Rank) -> String {
    format!("{STATE}{:010}/{:05}", policy.0, rank.0)
}

fn parse_named(note: &str) -> Option<Named> {
    let mut lines = note.lines();
    let now = PolicyId(lines.next()?.strip_prefix("now ")?.parse().ok()?);
    let failed = lines.next()?.strip_prefix("failed")?.split_whitespace();
    Some(Named { now, failed: failed.map(|id| Some(PolicyId(id.parse().ok()?))).collect::<Option<_>>()? })
}

fn parse_version(id: PolicyId, note: &str) -> Option<Version> {
    let (head, text) = note.split_once("\n\n")?;
    let mut lines = head.lines();
    (lines.next()? == HEAD).then_some(())?;
    let name = lines.next()?.strip_prefix("name ")?;
    let number = lines.next()?.strip_prefix("version ")?.parse().ok()?;
    let at_ms = lines.next()?.strip_prefix("at ")?.parse().ok()?;
    Some(Version { id, name: name.into(), number, at_ms, text: text.into() })
}

#[cfg(test)]
mod tests {
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Identity};

    use super::*;

    fn notes() -> (MemDisk, Notes) {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let table = disk.open().expect("memory opens").table();
        (disk, Notes::new(table))
    }

    #[test]
    fn versions_are_numbered_and_never_change() {
        let (_disk, notes) = notes();
        let first = notes.add("mine", "a\n\nb", 5).expect("there is room");
        let second = notes.add("mine", "c", 6).expect("there is room");
        let other = notes.add("other", "c", 7).expect("there is room");
        assert_eq!((first.id.0, first.number, second.id.0, second.number, other.number), (1, 1, 2, 2, 1));
        assert_eq!(notes.add("mine", "c", 9).expect("it is there"), second, "the same text is the same version");
        assert_eq!(notes.version(first.id).expect("a good note"), Some(first.clone()));
        assert_eq!(notes.versions().expect("good notes"), [first, second, other]);
        assert_eq!(notes.version(PolicyId(9)).expect("no error"), None);
    }

    #[test]
    fn which_version_a_name_means_and_which_have_failed_is_kept_and_told_in_the_history() {
        let (_disk, notes) = notes();
        assert_eq!(notes.named("mine").expect("no error"), None);
        let named =
            |now, failed: &[u32]| Named { now: PolicyId(now), failed: failed.iter().map(|n| PolicyId(*n)).collect() };
        let told = |policy, name: Option<&str>, why: &str, failed| InForce {
            at_ms: 7 + u64::from(policy),
            policy: PolicyId(policy),
            name: name.map(str::to_string),
            why: why.into(),
            failed,
        };
        let all = [
            told(1, None, "a, version 1", false),
            told(2, Some("mine"), "mine, version 1", false),
            told(3, Some("mine"), "failed at rank 1: x y", true),
            told(4, None, "policy 1 failed", true),
        ];
        for one in &all {
            let mut batch = Batch::new();
            notes.put_history(&mut batch, one).expect("good notes");
            Notes::put_named(&mut batch, "mine", &named(one.policy.0, &[1, 2]));
            notes.table.write(&batch, Durability::Sync).expect("there is room");
        }
        assert_eq!(notes.history().expect("good notes"), all);
        assert_eq!(notes.named("mine").expect("good notes"), Some(named(4, &[1, 2])));
        assert_eq!(notes.named("min").expect("no error"), None);
        assert_eq!(notes.all_named().expect("good notes"), [("mine".to_string(), named(4, &[1, 2]))]);
    }

    #[test]
    fn a_damaged_policy_is_found_by_its_checksum() {
        let (_disk, notes) = notes();
        let one = notes.add("mine", "return 1", 5).expect("there is room");
        let key = key_note("policy/version/0000000001");
        let mut value = notes.table.get(&key).expect("no error").expect("it is there");
        *value.last_mut().expect("it is not empty") ^= 1;
        notes.table.write(Batch::new().put(key, value), Durability::Sync).expect("there is room");
        let error = notes.version(one.id).expect_err("it is damaged").to_string();
        assert!(error.contains("checksum"), "{error}");
    }

    #[test]
    fn what_policies_remember_is_theirs_at_each_rank_and_typed() {
        let (_disk, notes) = notes();
        let values = [Value::Number(2.5), Value::Bool(true), Value::Number(f64::MAX), Value::Bool(false)];
        for (at, value) in values.iter().enumerate() {
            notes.set_state(PolicyId(7), Rank(at as u16), *value).expect("there is room");
        }
        for (at, value) in values.iter().enumerate() {
            assert_eq!(notes.state(PolicyId(7), Rank(at as u16)).expect("good notes"), Some(*value));
        }
        assert_eq!(notes.state(PolicyId(8), Rank(0)).expect("no error"), None);
    }

    #[test]
    fn the_log_keeps_what_is_newest_in_order_and_does_not_grow_without_end() {
        let (_disk, notes) = notes();
        let mut count = 0;
        for at in 0..(LOG_MAX + 3 * LOG_SLACK) as u64 {
            notes.log(Some(Rank((at % 3) as u16)), at / 2, &mut count, &at.to_string()).expect("there is room");
        }
        let all = notes.log_lines(usize::MAX).expect("good notes");
        assert!((LOG_MAX..LOG_MAX + LOG_SLACK).contains(&all.len()), "{}", all.len());
        let last = notes.log_lines(2).expect("good notes");
        assert_eq!(last.iter().map(|line| line.at_ms).max(), Some((LOG_MAX + 3 * LOG_SLACK) as u64 / 2 - 1));
        assert!(all.is_sorted_by_key(|line| line.at_ms));
    }
}
