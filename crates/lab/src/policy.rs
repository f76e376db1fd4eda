//! A policy's text as what decides in the lab: each rank has the policy for itself, with a state of its own, as a server has.
//! There is no limit of time, so that runs are the same each time. One that fails is not given up, it is only counted.

use std::collections::BTreeMap;

use loligo_balancer::balance::Policy;
use loligo_balancer::{Limits, Value, shipped};
use loligo_types::{Decision, Rank, Snapshot};

use crate::lab::Decider;

/// Hears what is told.
pub type Listener = Box<dyn FnMut(&str)>;

/// Decides by the text of a policy.
pub struct PolicyDecider {
    name: String,
    text: String,
    ranks: BTreeMap<Rank, (Policy, Option<Value>)>,
    faults: u64,
    first_fault: Option<String>,
    /// Log of decisions that move something or fail, line by line; none: no log.
    pub log: Option<Listener>,
}

impl PolicyDecider {
    /// `text`: of either form. What cannot be read says why.
    pub fn new(name: &str, text: &str) -> Result<PolicyDecider, String> {
        // That it can be read shows with the first one; each rank reads it again when it first decides.
        load(name, text)?;
        Ok(PolicyDecider {
            name: name.to_owned(),
            text: text.to_owned(),
            ranks: BTreeMap::new(),
            faults: 0,
            first_fault: None,
            log: None,
        })
    }

    /// One that comes with Loligo.
    pub fn shipped(name: &str) -> Option<Result<PolicyDecider, String>> {
        shipped(name).map(|(name, text)| PolicyDecider::new(name, text))
    }
}

fn load(name: &str, text: &str) -> Result<Policy, String> {
    Policy::load(name, text, &Limits::deterministic()).map_err(|fault| format!("policy {name}: {fault}"))
}

impl Decider for PolicyDecider {
    fn decide(&mut self, rank: Rank, snapshot: &Snapshot) -> Decision {
        if !self.ranks.contains_key(&rank) {
            let policy = load(&self.name, &self.text).expect("the same text could be read before");
            self.ranks.insert(rank, (policy, None));
        }
        let (policy, state) = self.ranks.get_mut(&rank).expect("it was put there");
        let outcome = policy.decide(snapshot, state);
        if let Some(fault) = &outcome.fault {
            self.faults += 1;
            self.first_fault.get_or_insert_with(|| format!("rank {rank}, tick {}: {fault}", snapshot.tick));
        }
        if let Some(log) = &mut self.log
            && (outcome.fault.is_some() || !outcome.explain.targets.is_empty())
        {
            outcome.explain.lines().iter().for_each(|line| log(line));
            outcome.fault.iter().for_each(|fault| log(&format!("failed: {fault}")));
        }
        outcome.decision
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn faults(&self) -> (u64, Option<String>) {
        (self.faults, self.first_fault.clone())
    }
}
