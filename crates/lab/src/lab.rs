//! A run from its set-up to its report. Not the machines (`world.rs`, `clients.rs`).

use std::collections::BTreeMap;

use loligo_mds::{Config, Input};
use loligo_namespace::{LOOKUP_LEASE, PLACEMENT};
use loligo_types::{Decision, Ino, LookupLease, Placement, PolicyId, Rank, Snapshot};
use loligo_workload::{Call, Item, Lane, Path, Rng, Spec, Workload};

use crate::clients::Clients;
use crate::costs::Costs;
use crate::report::{self, Moving, Phase, Report, Second};
use crate::shell::Did;
use crate::spread::{Dealer, Spread};
use crate::tally::Tally;
use crate::world::{Counts, Next, World};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Before anything is set up, so that ranks know each other.
const SETTLE_NS: u64 = 3 * SECOND;
/// Before clients begin: what was counted of the set-up is nearly forgotten.
const FORGET_NS: u64 = 30 * SECOND;
/// Longest that a set-up may take.
const SETUP_NS: u64 = 3600 * SECOND;
/// Time of a policy's decision.
const DECIDE_NS: u64 = 1_000_000;
/// Clients do not all begin at the same moment, but within this time.
const BEGIN_NS: u64 = 1_000_000;

/// Decides for all ranks what is to move: the policy.
pub trait Decider {
    /// The moves away from a rank, decided from its snapshot. The answer must have the tick and the policy of the snapshot.
    fn decide(&mut self, rank: Rank, snapshot: &Snapshot) -> Decision;

    /// Its name in a report.
    fn name(&self) -> String {
        "other".to_owned()
    }

    /// Decisions that came to nothing because something is wrong with it, and what was with the first of them.
    fn faults(&self) -> (u64, Option<String>) {
        (0, None)
    }
}

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ranks, from 1 on.
    pub ranks: usize,
    /// Workload of the clients.
    pub workload: Spec,
    /// Seed of randomness.
    pub seed: u64,
    /// Virtual seconds after which it ends, if the clients have not.
    pub seconds: u64,
    /// Costs of each kind of work.
    pub costs: Costs,
    /// Distribution of directories at the beginning.
    pub spread: Spread,
    /// Placement of directories that are made in the root, and in those; `Inherited`: none is set.
    pub placement: Placement,
    /// For how long clients that ask by path may go by what they were told of the root, and of directories that are made in it.
    pub lookup_lease: LookupLease,
    /// Programs ask by path, and nothing is cached.
    pub by_path: bool,
    /// Time for which all lanes rest at a mark of the workload, virtual milliseconds: memories of ranks about the phase before (that
    /// several worked in a directory) are then forgotten.
    pub rest_ms: u64,
    /// Entries with which a directory is cut into fragments; none: as ranks do by default.
    pub split_entries: Option<u64>,
    /// Inodes that the kernel of a client remembers, and so keeps leases on, directories left out.
    pub cache_inodes: usize,
    /// Work of ranks' threads and syncs of their journals take so many percent more or less than given, by chance: without it
    /// clients that begin together keep in step.
    pub jitter_percent: u64,
    /// Between two decisions of a rank, if there is a [`Decider`], milliseconds.
    pub balance_ms: u64,
}

impl Plan {
    /// A workload on so many ranks, with the costs that were measured last.
    pub fn new(ranks: usize, workload: Spec) -> Result<Plan, String> {
        let (costs, spread) = (Costs::measured()?, Spread::One);
        Ok(Plan {
            ranks,
            workload,
            seed: 1,
            seconds: 3600,
            costs,
            spread,
            placement: Placement::Inherited,
            lookup_lease: LookupLease::NONE,
            by_path: false,
            rest_ms: 0,
            split_entries: None,
            cache_inodes: 16_384,
            jitter_percent: 20,
            balance_ms: 10_000,
        })
    }
}

/// Does what a plan says. `decider`: without it nothing moves. `progress` is told every virtual second.
pub fn run(
    plan: &Plan,
    decider: Option<&mut dyn Decider>,
    progress: &mut dyn FnMut(&Second),
) -> Result<Report, String> {
    let mut lab = Lab::new(plan, &mut |path| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}")))?;
    lab.run(decider, progress)
}

/// A run that is set up; who does not want to look into it afterwards uses [`run`].
pub struct Lab {
    plan: Plan,
    /// The ranks.
    pub world: World,
    clients: Clients,
    /// Number of the first client of the workload.
    first: usize,
    count: usize,
    /// When they began.
    began: u64,
    lanes: Vec<Vec<Lane>>,
    think_us: u64,
    tally: Tally,
    /// Counts of the ranks when the clients began.
    before: Vec<Counts>,
}

impl Lab {
    /// Ranks, what is to exist, and who has it. `read`: the text of a file (a trace).
    pub fn new(plan: &Plan, read: &mut dyn FnMut(&str) -> Result<String, String>) -> Result<Lab, String> {
        if !(1..=512).contains(&plan.ranks) {
            return Err(format!("{} ranks: there can be 1 to 512", plan.ranks));
        }
        if plan.placement.scatters() && plan.spread != Spread::One {
            return Err(format!(
                "placement {} and spread {}: only one of them can deal directories out",
                plan.placement.name(),
                plan.spread
            ));
        }
        let workload = plan.workload.workload(plan.seed, read)?;
        let mut config = Config { balance_ms: plan.balance_ms, ..Config::default() };
        config.frag.split_entries = plan.split_entries.unwrap_or(config.frag.split_entries);
        let mut world = World::new(plan.ranks, plan.costs.clone(), &config)?;
        let settled = world.now + SETTLE_NS;
        while world.run(settled).is_some() {}
        let mut clients = Clients::new(plan.cache_inodes);
        let inos = set_up(&mut world, &mut clients, plan, &workload)?;
        clients.by_path = plan.by_path;
        clients.rest_ns = plan.rest_ms * 1_000_000;
        let mut dealer = Dealer { world: &mut world, clients: &mut clients, inos: &inos, holders: BTreeMap::new() };
        dealer.deal(plan.spread, &workload.spread, &workload.shared)?;
        let count = workload.clients.len();
        let mut lab = Lab {
            plan: plan.clone(),
            world,
            clients,
            first: 1,
            count,
            began: 0,
            lanes: workload.clients,
            think_us: workload.think_us,
            tally: Tally::new(count),
            before: Vec::new(),
        };
        let rested = lab.world.now + FORGET_NS;
        lab.go(rested, &mut None);
        Ok(lab)
    }

    /// Lets the clients work, until they have ended or time is up.
    pub fn run(
        &mut self,
        mut decider: Option<&mut dyn Decider>,
        progress: &mut dyn FnMut(&Second),
    ) -> Result<Report, String> {
        self.world.free = false;
        self.world.jitter = Some((Rng::new(self.plan.seed, 0x7177E5), self.plan.jitter_percent));
        self.world.moved.clear();
        if decider.is_some() && self.world.ranks() > 1 {
            self.world.set_policy(PolicyId(1));
        }
        self.begin();
        let end = self.began + self.plan.seconds * SECOND;
        let mut last = self.before.clone();
        while self.world.now < end && self.clients.going() > 0 {
            let (from, until) = (self.world.now, (self.world.now + SECOND).min(end));
            self.go(until, &mut decider);
            if let Some(wrong) = self.clients.wrong.take() {
                return Err(wrong);
            }
            let counts = self.world.counts();
            let second = self.second(from, &last, &counts);
            last = counts;
            progress(&second);
            self.tally.seconds.push(second);
        }
        let mut report = self.report();
        if let Some(decider) = decider {
            report.policy = decider.name();
            (report.faults, report.first_fault) = decider.faults();
        }
        Ok(report)
    }

    /// Number of a directory's entries, asked of the ranks by a client of its own.
    pub fn count(&mut self, path: &str) -> Result<u64, String> {
        let at = self.clients.add(&mut self.world);
        let lane: Lane = Box::new(std::iter::once(Item::Call(Call::Readdir(path.into()))));
        let did = alone(&mut self.world, &mut self.clients, at, lane)?;
        did.first().ok_or(format!("{path} was not listed"))?.result.map_err(|e| format!("{path}: {e:?}"))
    }

    /// Calls that were never answered.
    pub fn unanswered(&self) -> usize {
        (self.first..self.first + self.count).map(|at| self.clients.unanswered(at)).sum()
    }

    fn begin(&mut self) {
        self.began = self.world.now;
        self.before = self.world.counts();
        self.tally.begin("", &self.world);
        let think_ns = self.think_us * 1000;
        let mut rng = Rng::new(self.plan.seed, 0xC11E);
        for (number, lanes) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            let at = self.clients.add(&mut self.world);
            debug_assert_eq!(at, self.first + number);
            for lane in lanes {
                let start = self.began + rng.below(BEGIN_NS.max(think_ns));
                let own = Rng::new(rng.draw(), number as u64);
                self.clients.begin(&mut self.world, at, lane, start, think_ns, own);
            }
        }
    }

    /// Goes on until this time, or until all clients have ended.
    fn go(&mut self, until: u64, decider: &mut Option<&mut dyn Decider>) {
        let waits = self.clients.going() > 0;
        while let Some(next) = self.world.run(until) {
            match next {
                Next::Message { conn, msg, .. } => self.clients.told(&mut self.world, conn, *msg),
                Next::Timer(number) => self.clients.timer(&mut self.world, number),
                Next::Balance { rank, snapshot } => {
                    if let Some(decider) = decider {
                        let decision = decider.decide(Rank(rank as u16), &snapshot);
                        self.world.arrive(rank, DECIDE_NS, Input::Decided(decision));
                    }
                }
                Next::Told { .. } => {}
            }
            if waits {
                self.tally.look(&self.clients, &self.world);
            }
            for (client, did) in self.clients.take_done() {
                self.tally.note(client - self.first, did, self.world.now);
            }
            if waits && self.clients.going() == 0 {
                return;
            }
        }
    }

    fn second(&self, from: u64, last: &[Counts], counts: &[Counts]) -> Second {
        let sum = |of: &dyn Fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() - last.iter().map(of).sum::<u64>();
        let length = (self.world.now - from) as f64 / SECOND as f64;
        let calls: u64 = self.tally.calls.iter().sum();
        let pairs = || counts.iter().zip(last);
        let share =
            |(now, then): (&Counts, &Counts)| (now.worked - then.worked) as f64 / SECOND as f64 / length.max(1e-9);
        Second {
            length,
            calls: calls - self.tally.seconds.iter().map(|second| second.calls).sum::<u64>(),
            replies: pairs().map(|(now, then)| now.replies - then.replies).collect(),
            busy: pairs().map(share).collect(),
            redirects: sum(&|c| c.redirects),
            moves: sum(&|c| c.moves),
            recalls: sum(&|c| c.recalls),
            peer_messages: sum(&|c| c.peer_messages),
        }
    }

    fn report(&mut self) -> Report {
        self.tally.end(&self.world);
        let of = |at: u64| (at - self.began) as f64 / SECOND as f64;
        let (tally, counts) = (&self.tally, self.world.counts());
        let length_s = of(self.world.now);
        let sum =
            |of: &dyn Fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() - self.before.iter().map(of).sum::<u64>();
        let client = |number: usize| report::Client {
            calls: tally.calls[number],
            ended_s: self.clients.ended(self.first + number).map(of),
            sessions: self.clients.sessions(self.first + number),
        };
        let moving = |moved: &crate::world::Moved| Moving {
            at_s: of(moved.at),
            from: moved.from,
            to: moved.to,
            dir: moved.dir,
            frag: moved.frag.to_string(),
        };
        let worked = |(now, then): (&Counts, &Counts)| (now.worked - then.worked) as f64 / SECOND as f64 / length_s;
        let balance: Vec<_> = (0..self.world.ranks()).map(|rank| self.world.status(rank).balance).collect();
        Report {
            workload: self.plan.workload.to_string(),
            ranks: self.world.ranks(),
            spread: self.plan.spread,
            placement: self.plan.placement,
            lookup_lease: self.plan.lookup_lease,
            by_path: self.plan.by_path,
            policy: "none".to_owned(),
            faults: 0,
            first_fault: None,
            seed: self.plan.seed,
            measured: self.plan.costs.measured.clone(),
            length_s,
            is_complete: self.clients.going() == 0,
            seconds: tally.seconds.clone(),
            clients: (0..self.count).map(client).collect(),
            phases: self
                .clients
                .phases
                .iter()
                .map(|(name, at)| Phase { name: name.to_string(), at_s: of(*at) })
                .collect(),
            parts: tally.parts(self.began),
            moves: self.world.moved.iter().map(moving).collect(),
            calls: tally.calls.iter().sum(),
            misses: tally.misses,
            failed: tally.failed,
            first_failure: tally.first_failure.clone(),
            mean_us: tally.latencies.mean(),
            p50_us: tally.latencies.value_at_quantile(0.5) as f64,
            p99_us: tally.latencies.value_at_quantile(0.99) as f64,
            requests: sum(&|c| c.replies),
            redirects: sum(&|c| c.redirects),
            sessions: sum(&|c| c.sessions),
            recalls: sum(&|c| c.recalls),
            peer_messages: sum(&|c| c.peer_messages),
            decisions: balance.iter().map(|b| b.ticks).sum(),
            refused: balance.iter().map(|b| b.refused).sum(),
            unanswered: balance.iter().map(|b| b.unanswered).sum(),
            busy: counts.iter().zip(&self.before).map(worked).collect(),
            by_rank: counts.iter().zip(&self.before).map(|(now, then)| now.replies - then.replies).collect(),
        }
    }
}

/// Makes what is to exist, by a client that then goes. The numbers of the directories.
fn set_up(
    world: &mut World,
    clients: &mut Clients,
    plan: &Plan,
    workload: &Workload,
) -> Result<BTreeMap<Path, Ino>, String> {
    let at = clients.add(world);
    if plan.placement != Placement::Inherited {
        say(world, clients, at, PLACEMENT, plan.placement.name())?;
    }
    if !plan.lookup_lease.is_none() {
        say(world, clients, at, LOOKUP_LEASE, &plan.lookup_lease.text())?;
    }
    let calls = workload.setup.clone();
    let did = alone(world, clients, at, Box::new(calls.into_iter().map(Item::Call)))?;
    let mut inos = BTreeMap::new();
    for did in did {
        let result = did.result.map_err(|e| format!("set-up: {} {}: {e:?}", did.call.name(), did.call.path()))?;
        if let Call::Mkdir(path) = did.call {
            inos.insert(path, Ino(result));
        }
    }
    Ok(inos)
}

/// A policy of the root, before anything is made in it.
fn say(world: &mut World, clients: &mut Clients, at: usize, policy: &[u8], value: &str) -> Result<(), String> {
    let end = world.now + SETUP_NS;
    clients.say(world, at, policy, value);
    while !clients.is_said() {
        match world.run(end) {
            Some(Next::Message { conn, msg, .. }) => clients.told(world, conn, *msg),
            Some(Next::Timer(number)) => clients.timer(world, number),
            Some(_) => {}
            None => return Err("setting the policy of the root takes longer than an hour".into()),
        }
        if let Some(wrong) = clients.wrong.take() {
            return Err(wrong);
        }
    }
    Ok(())
}

/// Lets one client do a lane and end, while no other one does anything that counts.
fn alone(world: &mut World, clients: &mut Clients, at: usize, lane: Lane) -> Result<Vec<Did>, String> {
    let (going, end) = (clients.going(), world.now + SETUP_NS);
    clients.begin(world, at, lane, world.now + BEGIN_NS, 0, Rng::new(0, 0));
    let (mut done, mut stopping) = (Vec::new(), false);
    while !clients.has_stopped(at) {
        match world.run(end) {
            Some(Next::Message { conn, msg, .. }) => clients.told(world, conn, *msg),
            Some(Next::Timer(number)) => clients.timer(world, number),
            Some(_) => {}
            None => return Err("what a single client does takes longer than an hour".into()),
        }
        done.extend(clients.take_done().into_iter().filter(|(client, _)| *client == at).map(|(_, did)| did));
        if !stopping && clients.going() <= going {
            stopping = true;
            clients.stop(world, at);
        }
        if let Some(wrong) = clients.wrong.take() {
            return Err(wrong);
        }
    }
    Ok(done)
}
