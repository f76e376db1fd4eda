//! The keeper of the cluster map puts a policy in force, takes it back, or gives it up because it fails: all ranks change
//! together, with the next epoch of the map.

use loligo_store::{Batch, Durability};
use loligo_types::PolicyId;

use super::super::error::{Result, ServerError};
use super::super::keeper::Keeper;
use super::adviser::now_ms;
use super::{InForce, Notes, Version};

impl Keeper {
    fn notes(&self) -> Notes {
        Notes::new(self.config.backend.table())
    }

    /// Puts a new version of a policy down and in force.
    pub(crate) fn set_policy(&mut self, name: &str, text: &str) -> Result<Version> {
        let version = self.notes().add(name, text, now_ms())?;
        self.put_in_force(version.id, format!("{name}, version {}", version.number), false)?;
        Ok(version)
    }

    /// Puts a version that is there in force, or none.
    pub(crate) fn use_policy(&mut self, policy: PolicyId, why: &str) -> Result<()> {
        if policy != PolicyId::NONE && self.notes().version(policy)?.is_none() {
            let text = format!("there is no policy {}: see loligo balancer history", policy.0);
            return Err(ServerError::Refused(text));
        }
        self.put_in_force(policy, why.into(), false)
    }

    /// Puts the one in force again that was before, of those that have not failed; which one.
    pub(crate) fn roll_back(&mut self, why: &str, failed: bool) -> Result<PolicyId> {
        let history = self.notes().history()?;
        let now = self.members.policy;
        // An entry that says that something failed means the one before it.
        let bad: Vec<PolicyId> = history.windows(2).filter(|pair| pair[1].failed).map(|pair| pair[0].policy).collect();
        let good = |one: &&InForce| one.policy != now && !bad.contains(&one.policy);
        let last = history.iter().rev().find(good).map(|one| one.policy);
        let to = match last {
            Some(to) => to,
            None if failed => PolicyId::NONE,
            None => {
                let text = "there is nothing to go back to: see loligo balancer history".into();
                return Err(ServerError::Refused(text));
            }
        };
        self.put_in_force(to, why.into(), failed)?;
        Ok(to)
    }

    /// A rank says that a policy fails there again and again.
    pub(crate) fn policy_failed(&mut self, rank: loligo_types::Rank, policy: PolicyId, why: &str) -> Result<()> {
        if policy != self.members.policy || policy == PolicyId::NONE {
            return Ok(());
        }
        let to = self.roll_back(&format!("policy {} failed at rank {rank}: {why}", policy.0), true)?;
        tracing::error!("policy {} of the balancer failed at rank {rank}, back to {}: {why}", policy.0, to.0);
        Ok(())
    }

    fn put_in_force(&mut self, policy: PolicyId, why: String, failed: bool) -> Result<()> {
        let before = self.members.clone();
        self.members.policy = policy;
        self.members.epoch += 1;
        let (notes, at_ms) = (self.notes(), now_ms());
        let mut batch = Batch::new();
        self.members.put(&mut batch, None);
        let one = InForce { at_ms, policy, why, failed };
        let written = notes
            .put_history(&mut batch, &one)
            .and_then(|()| Ok(self.config.backend.table().write(&batch, Durability::Sync)?));
        if let Err(error) = written {
            self.members = before;
            return Err(error);
        }
        self.log_lines += 1;
        let line = format!("policy {} is in force: {}", policy.0, one.why);
        if let Err(error) = notes.log(None, at_ms, &mut self.log_lines, &line) {
            tracing::warn!("the log of balancers could not be written: {error}");
        }
        tracing::info!("{line}");
        let map = self.map();
        self.tell_map(&map);
        Ok(())
    }
}
