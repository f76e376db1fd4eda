//! The policy that is in force as long as nobody has chosen one: one that comes with the program, or none. It is put down as
//! any other version and named by its number, so all ranks run the same text, whatever their processes were built from; a
//! program with another text puts that down as the next version when it starts.

use loligo_store::Batch;
use loligo_types::PolicyId;

use super::super::error::Result;
use super::super::members::Members;
use super::adviser::now_ms;
use super::notes::given_up;
use super::{InForce, Notes};

/// Name and text.
pub type DefaultPolicy = Option<(String, String)>;

/// Puts the default in force if nobody has chosen otherwise. What is to be written of it, if that is something new: with
/// [`put_default`], in the batch that puts the members down.
pub(crate) fn settle(notes: &Notes, default: &DefaultPolicy, members: &mut Members) -> Result<Option<InForce>> {
    // A rank alone has nobody to balance with.
    if members.is_single() || is_chosen(notes, members.policy)? {
        return Ok(None);
    }
    let one = resolve(notes, default)?;
    if one.policy == members.policy {
        return Ok(None);
    }
    members.policy = one.policy;
    Ok(Some(one))
}

/// Puts down the default in the history, marked as such.
pub(crate) fn put_default(notes: &Notes, batch: &mut Batch, one: &InForce) -> Result<()> {
    notes.put_history(batch, one)?;
    Notes::put_choice(batch, false);
    Ok(())
}

/// True if somebody has chosen the policy in force, also if it is none. Tables from before defaults have no mark: any policy that was ever
/// put in force counts as chosen there.
pub(crate) fn is_chosen(notes: &Notes, now: PolicyId) -> Result<bool> {
    Ok(match notes.choice()? {
        Some(chosen) => chosen,
        None => now != PolicyId::NONE || notes.history()?.iter().any(|one| one.name.is_none()),
    })
}

/// The default as a version; none if it has failed, or if there is none.
pub(crate) fn resolve(notes: &Notes, default: &DefaultPolicy) -> Result<InForce> {
    let none = |why: String| InForce { at_ms: now_ms(), policy: PolicyId::NONE, name: None, why, failed: false };
    let Some((name, text)) = default else { return Ok(none("none, the default".into())) };
    let all = notes.versions()?;
    let known = all.into_iter().find(|version| version.name == *name && version.text == *text);
    let version = match known {
        Some(version) => version,
        None => notes.add(name, text, now_ms())?,
    };
    let what = format!("{name}, version {}, the default", version.number);
    if given_up(&notes.history()?).contains(&version.id) {
        return Ok(none(format!("none, as {what}, has failed")));
    }
    Ok(InForce { policy: version.id, ..none(what) })
}

#[cfg(test)]
mod tests {
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Identity};
    use loligo_types::{Rank, RankState};

    use super::*;

    fn notes() -> (MemDisk, Notes) {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let table = disk.open().expect("memory opens").table();
        (disk, Notes::new(table))
    }

    fn of(ranks: u16, policy: u32) -> Members {
        let states = (0..ranks).map(|rank| (Rank(rank), RankState::Up)).collect();
        Members { epoch: 0, numbers: u32::from(ranks), states, policy: PolicyId(policy) }
    }

    fn of_build(text: &str) -> DefaultPolicy {
        Some(("loligo".into(), text.into()))
    }

    /// The policy in force after a start of a program with this default.
    fn start(notes: &Notes, default: &DefaultPolicy, members: &mut Members) -> u32 {
        if let Some(one) = settle(notes, default, members).expect("good notes") {
            let mut batch = Batch::new();
            put_default(notes, &mut batch, &one).expect("good notes");
            notes.put_batch(&batch).expect("there is room");
        }
        members.policy.0
    }

    fn put(notes: &Notes, policy: u32, failed: bool, chosen: Option<bool>) {
        let one = InForce { at_ms: 1, policy: PolicyId(policy), name: None, why: "x".into(), failed };
        let mut batch = Batch::new();
        notes.put_history(&mut batch, &one).expect("good notes");
        chosen.into_iter().for_each(|chosen| Notes::put_choice(&mut batch, chosen));
        notes.put_batch(&batch).expect("there is room");
    }

    #[test]
    fn the_default_is_a_version_of_its_own_for_each_text_and_a_rank_alone_has_none() {
        let (_disk, notes) = notes();
        assert_eq!(start(&notes, &of_build("a"), &mut of(1, 0)), 0);
        assert!(notes.versions().expect("good notes").is_empty(), "nothing is written for a rank alone");
        let mut members = of(2, 0);
        assert_eq!(start(&notes, &of_build("a"), &mut members), 1);
        assert_eq!(start(&notes, &of_build("a"), &mut members), 1);
        assert_eq!(notes.history().expect("good notes").len(), 1, "it is not said again");
        assert_eq!(start(&notes, &of_build("b"), &mut members), 2, "another program has another text");
        assert_eq!(start(&notes, &of_build("a"), &mut members), 1, "and back: the same text is the same version");
        assert_eq!(start(&notes, &None, &mut members), 0, "it may be configured away");
        assert_eq!(start(&notes, &of_build("a"), &mut members), 1);
    }

    #[test]
    fn what_was_chosen_stays_be_it_none_and_also_if_it_was_before_there_was_a_default() {
        let (_disk, chosen) = notes();
        put(&chosen, 0, false, Some(true));
        assert_eq!(start(&chosen, &of_build("a"), &mut of(2, 0)), 0);
        let (_disk, old) = notes();
        assert_eq!(start(&old, &of_build("a"), &mut of(2, 7)), 7);
        let (_disk, unset) = notes();
        put(&unset, 7, false, None);
        put(&unset, 0, false, None);
        assert_eq!(start(&unset, &of_build("a"), &mut of(2, 0)), 0, "somebody wanted none");
    }

    #[test]
    fn a_default_that_has_failed_does_not_come_back_with_a_restart_but_that_of_another_program_may() {
        let (_disk, notes) = notes();
        let mut members = of(2, 0);
        assert_eq!(start(&notes, &of_build("a"), &mut members), 1);
        put(&notes, 0, true, None);
        members.policy = PolicyId::NONE;
        assert_eq!(start(&notes, &of_build("a"), &mut members), 0);
        assert_eq!(start(&notes, &of_build("b"), &mut members), 2);
    }
}
