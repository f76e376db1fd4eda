//! The keeper of the cluster map puts a policy in force, takes it back, or gives it up because it fails: all ranks change
//! together, with the next epoch of the map. Which version directories mean that name a policy is decided here, too; ranks
//! read that at each tick.

use loligo_store::{Batch, Durability};
use loligo_types::{PolicyId, Rank};

use super::super::error::{Result, ServerError};
use super::super::membership::MembershipThread;
use super::adviser::now_ms;
use super::default::resolve;
use super::{InForce, Named, Notes, Version, is_name, policy_before};

impl MembershipThread {
    fn notes(&self) -> Notes {
        Notes::new(self.config.backend.table())
    }

    /// Puts a new version of a policy down and in force.
    pub(crate) fn set_policy(&mut self, name: &str, text: &str) -> Result<Version> {
        let version = self.notes().add(name, text, now_ms())?;
        let mut batch = Batch::new();
        self.mean(&mut batch, name, version.id)?;
        Notes::put_choice(&mut batch, true);
        self.put_in_force(batch, version.id, version_of(&version), false)?;
        Ok(version)
    }

    /// Puts a new version of a policy down, for directories that name it.
    pub(crate) fn add_policy(&mut self, name: &str, text: &str) -> Result<Version> {
        let version = self.notes().add(name, text, now_ms())?;
        let mut batch = Batch::new();
        self.mean(&mut batch, name, version.id)?;
        self.put_named(batch, name, version.id, version_of(&version), false)?;
        Ok(version)
    }

    /// Puts a version that is there in force, or none.
    pub(crate) fn use_policy(&mut self, policy: PolicyId, why: &str) -> Result<()> {
        if policy != PolicyId::NONE && self.notes().version(policy)?.is_none() {
            let text = format!("there is no policy {}: see loligo balancer history", policy.0);
            return Err(ServerError::Refused(text));
        }
        let mut batch = Batch::new();
        Notes::put_choice(&mut batch, true);
        self.put_in_force(batch, policy, why.into(), false)
    }

    /// Takes back what was chosen: the default is in force.
    pub(crate) fn unset_policy(&mut self) -> Result<()> {
        let to = match self.members.is_single() {
            // It has nobody to balance with, and the default comes with the next rank.
            true => resolve(&self.notes(), &None)?,
            false => resolve(&self.notes(), &self.config.default_policy)?,
        };
        let mut batch = Batch::new();
        Notes::put_choice(&mut batch, false);
        self.put_in_force(batch, to.policy, to.why, false)
    }

    /// Puts the one in force again that was before, of those that have not failed; which one.
    pub(crate) fn roll_back(&mut self, why: &str, failed: bool) -> Result<PolicyId> {
        let to = match policy_before(&self.notes().history()?, self.members.policy) {
            Some(to) => to,
            None if failed => PolicyId::NONE,
            None => {
                let text = "there is nothing to go back to: see loligo balancer history".into();
                return Err(ServerError::Refused(text));
            }
        };
        let mut batch = Batch::new();
        if !failed {
            Notes::put_choice(&mut batch, true);
        }
        self.put_in_force(batch, to, why.into(), failed)?;
        Ok(to)
    }

    /// A rank says that a policy fails there again and again. It is given up for the file system, if it is in force there, and
    /// for directories that name it.
    pub(crate) fn policy_failed(&mut self, rank: Rank, policy: PolicyId, why: &str) -> Result<()> {
        if policy == PolicyId::NONE {
            return Ok(());
        }
        let why = format!("policy {} failed at rank {rank}: {why}", policy.0);
        self.give_up_named(policy, &why)?;
        if policy == self.members.policy {
            let to = self.roll_back(&why, true)?;
            tracing::error!("{why}; back to policy {}", to.0);
        }
        Ok(())
    }

    /// Directories that name a policy are balanced by the last version of it that has not failed.
    fn give_up_named(&mut self, policy: PolicyId, why: &str) -> Result<()> {
        let notes = self.notes();
        let Some(Version { name, number, .. }) = notes.version(policy)? else { return Ok(()) };
        let Some(mut named) = notes.named(&name)?.filter(|named| named.now == policy) else { return Ok(()) };
        named.failed.push(policy);
        named.failed.sort();
        named.failed.dedup();
        let all = notes.versions()?;
        let good = |one: &&Version| one.name == name && one.number < number && !named.failed.contains(&one.id);
        named.now = all.iter().filter(good).max_by_key(|one| one.number).map_or(PolicyId::NONE, |one| one.id);
        let mut batch = Batch::new();
        Notes::put_named(&mut batch, &name, &named);
        tracing::error!("{why}; directories that name {name} are back to policy {}", named.now.0);
        self.put_named(batch, &name, named.now, why.into(), true)
    }

    /// A directory names a policy of which no version is known. It may be one that comes with Loligo: then that is put down, so
    /// that all ranks run the same text, whatever they were built from.
    pub(crate) fn no_policy(&mut self, name: &str) -> Result<()> {
        let notes = self.notes();
        if !is_name(name) || notes.named(name)?.is_some() {
            return Ok(());
        }
        let newest = notes.versions()?.into_iter().filter(|one| one.name == name).max_by_key(|one| one.number);
        let version = match (newest, loligo_balancer::shipped(name)) {
            (Some(newest), _) => newest,
            (None, Some((_, text))) => notes.add(name, text, now_ms())?,
            (None, None) => return Ok(()),
        };
        let mut batch = Batch::new();
        self.mean(&mut batch, name, version.id)?;
        self.put_named(batch, name, version.id, version_of(&version), false)
    }

    /// From now on a name means this version, for who puts the batch down.
    fn mean(&self, batch: &mut Batch, name: &str, policy: PolicyId) -> Result<()> {
        let mut named = self.notes().named(name)?.unwrap_or_default();
        named.failed.retain(|failed| *failed != policy);
        Notes::put_named(batch, name, &Named { now: policy, ..named });
        Ok(())
    }

    fn put_named(&mut self, batch: Batch, name: &str, policy: PolicyId, why: String, failed: bool) -> Result<()> {
        let one = InForce { at_ms: now_ms(), policy, name: Some(name.into()), why, failed };
        self.put_down(batch, &one)?;
        self.log_in_force(&one, &format!("policy {} is for directories that name {name}: {}", policy.0, one.why));
        Ok(())
    }

    fn put_in_force(&mut self, mut batch: Batch, policy: PolicyId, why: String, failed: bool) -> Result<()> {
        let before = self.members.clone();
        self.members.policy = policy;
        self.members.epoch += 1;
        self.members.put(&mut batch, None);
        let one = InForce { at_ms: now_ms(), policy, name: None, why, failed };
        if let Err(error) = self.put_down(batch, &one) {
            self.members = before;
            return Err(error);
        }
        self.log_in_force(&one, &format!("policy {} is in force: {}", policy.0, one.why));
        let map = self.map();
        self.tell_map(&map);
        Ok(())
    }

    /// Writes a batch with what the history says of it.
    fn put_down(&self, mut batch: Batch, one: &InForce) -> Result<()> {
        self.notes().put_history(&mut batch, one)?;
        Ok(self.config.backend.table().write(&batch, Durability::Sync)?)
    }

    fn log_in_force(&mut self, one: &InForce, line: &str) {
        self.log_lines += 1;
        if let Err(error) = self.notes().log(None, one.at_ms, &mut self.log_lines, line) {
            tracing::warn!("the log of balancers could not be written: {error}");
        }
        tracing::info!("{line}");
    }
}

fn version_of(version: &Version) -> String {
    format!("{}, version {}", version.name, version.number)
}
