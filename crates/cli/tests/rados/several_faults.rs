//! Three servers share a file system, each on a host of its own, and the links between them and to the store are cut, or servers die while
//! ranks go from one to another. As `faults.rs`, only on a cluster that may be hurt, by `scripts/rados-suite.sh --faults`. Faults at random
//! are `thrash.rs`'s.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::faults::Hosts;
use crate::history::{Programs, Told, check};
use crate::servers::{LOLIGO, PATIENCE, Place, Server};
use crate::several::{all_there, until};

/// Operations between two faults.
const SOME: u64 = 200;
/// The hosts of the servers. The store is on host 1, the test on host 3.
const HOSTS: [&str; 3] = ["2", "4", "5"];
/// The host of the store.
const STORE: &str = "1";

/// The servers, each on its host.
pub struct Trio {
    pub hosts: Hosts,
    // Before what they write their logs into.
    pub servers: Vec<Server>,
    pub place: Place,
}

impl Trio {
    /// Three servers, each with a rank.
    pub fn new() -> Option<Trio> {
        let (hosts, place) = (Hosts::new()?, Place::formatted()?);
        hosts.run("heal", &[]);
        let mut trio = Trio { hosts, place, servers: Vec::new() };
        let first = trio.start(0, &["--ranks", "3"]);
        trio.servers.push(first);
        trio.servers[0].until_serves();
        for number in [1, 2] {
            let server = trio.start(number, &[]);
            trio.servers.push(server);
        }
        trio.until_shared();
        Some(trio)
    }

    /// Programs, each of which works in directories of two ranks, when those are where they are pinned.
    pub fn programs(&self) -> Programs {
        let programs = crate::several::programs(&self.place);
        let end = Instant::now() + PATIENCE;
        let data = self.place.data(0).display().to_string();
        loop {
            let said = self.place.say(&["subtree", "list", "--data", &data], 0);
            if ["/p0", "/q0", "/q1", "/p2"].iter().all(|dir| said.contains(dir)) {
                return programs;
            }
            assert!(Instant::now() < end, "directories are not where they are pinned: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start(&self, number: usize, args: &[&str]) -> Server {
        let peers = format!("peer_listen=10.77.0.1{}:0", HOSTS[number]);
        // On a machine that is busy with other things a server may be silent for longer than the default lease.
        let all = [&["--set", "lease_ms=3000", "--set", &peers], args].concat();
        self.place.serve_by(self.hosts.command("run", &[HOSTS[number], LOLIGO]), number, &all)
    }

    pub fn again(&mut self, number: usize) {
        let server = self.start(number, &[]);
        self.servers.push(server);
    }

    pub fn take(&mut self, number: usize) -> Server {
        let at = self.servers.iter().position(|server| server.number == number).expect("it is there");
        self.servers.remove(at)
    }

    /// Waits until those that are there run all ranks.
    pub fn until_all(&self) {
        until(&self.servers, all_there);
    }

    /// Waits until each runs one.
    pub fn until_shared(&self) {
        until(&self.servers, |runs| all_there(runs) && runs.iter().all(|ranks| ranks.len() == 1));
    }

    pub fn leader(&self) -> usize {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(server) = self.servers.iter().find(|server| server.runs().1) {
                return server.number;
            }
            assert!(Instant::now() < end, "nobody leads");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn other_than(&self, number: usize) -> usize {
        self.servers.iter().map(|server| server.number).find(|other| *other != number).expect("there are others")
    }

    /// Between two servers.
    pub fn cut(&self, from: usize, to: usize, one_way: &[&str]) {
        self.hosts.run("cut", &[&[HOSTS[from], HOSTS[to]], one_way].concat());
    }

    pub fn cut_from_store(&self, number: usize) {
        self.hosts.run("cut", &[HOSTS[number], STORE]);
    }

    pub fn heal(&self) {
        self.hosts.run("heal", &[]);
    }

    /// Orders the leader to have a rank run by another server, without waiting.
    pub fn order(&self, leader: usize, rank: u64, to: usize) -> Child {
        let mut command = std::process::Command::new(LOLIGO);
        command.args(["rank", "handover", &rank.to_string(), "--to", &format!("s{to}"), "--data"]);
        command.arg(self.place.data(leader)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it starts")
    }

    /// The rank that a server runs.
    pub fn rank_of(&self, number: usize) -> u64 {
        let server = self.servers.iter().find(|server| server.number == number).expect("it is there");
        server.runs().0.first().copied().expect("it runs one")
    }

    /// The programs' work is all there, and all is sound.
    pub fn check(self, told: &[Told], what: &str) {
        let longest = check(&self.place.address(3), told);
        eprintln!("{what}: the longest turn of a program took {longest:?}");
        self.servers.into_iter().for_each(Server::end);
        let data = self.place.data(0).display().to_string();
        let said = self.place.say(&["fsck", "--data", &data], 0);
        assert!(said.contains("is sound"), "{said}");
        self.place.run(&["store", "check"], 0);
    }
}

/// Waits for the end of a command that a fault may have made fail, but not wait for ever.
pub fn ends(mut child: Child, what: &str) {
    let end = Instant::now() + PATIENCE;
    while child.try_wait().expect("its state").is_none() {
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} waits for ever");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Time for which links between servers are cut: longer than they are silent before they give a connection up.
const CUT: Duration = Duration::from_secs(6);

/// Two servers are cut from each other while both reach the store.
fn parted(from: usize, to: usize, one_way: &[&str]) {
    let Some(trio) = Trio::new() else { return };
    let programs = trio.programs();
    programs.until_more(SOME);
    trio.cut(from, to, one_way);
    std::thread::sleep(CUT);
    trio.heal();
    programs.until_more(3 * SOME);
    trio.until_shared();
    trio.check(&programs.end(), &format!("s{from} and s{to} parted {one_way:?}"));
}

#[test]
fn two_servers_that_are_cut_from_each_other_go_on_when_they_are_healed() {
    parted(0, 1, &[]);
}

#[test]
fn a_server_whom_another_one_does_not_hear_goes_on_when_it_is_healed() {
    parted(0, 1, &["--one-way"]);
}

#[test]
fn a_server_that_does_not_hear_another_one_goes_on_when_it_is_healed() {
    parted(1, 0, &["--one-way"]);
}

/// A server is cut from the store, or from everything, until others run its ranks; then it ends, and gets its share when it comes back.
fn lost(of: impl Fn(&Trio) -> usize, from_all: bool, what: &str) {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    programs.until_more(SOME);
    let number = of(&trio);
    let mut server = trio.take(number);
    trio.cut_from_store(number);
    if from_all {
        (0..3).filter(|other| *other != number).for_each(|other| trio.cut(number, other, &[]));
    }
    trio.until_all();
    programs.until_more(SOME);
    trio.heal();
    let said = server.until_ended();
    assert!(said.contains("another server has taken over") || said.contains("not this server's any more"), "{said}");
    trio.again(number);
    trio.until_shared();
    programs.until_more(SOME);
    trio.check(&programs.end(), what);
}

#[test]
fn of_a_server_that_leads_and_is_cut_from_the_store_others_take_the_ranks_and_the_lead() {
    lost(Trio::leader, false, "who leads cut from the store");
}

#[test]
fn of_a_server_that_does_not_lead_and_is_cut_from_the_store_others_take_the_ranks() {
    lost(|trio| trio.other_than(trio.leader()), false, "who does not lead cut from the store");
}

#[test]
fn a_server_that_is_cut_from_everything_ends_when_it_is_healed_and_gets_its_share_when_it_comes_back() {
    lost(|trio| trio.other_than(trio.leader()), true, "cut from everything");
}

#[test]
fn a_server_that_is_told_to_stop_and_does_not_reach_the_store_ends_all_the_same() {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    programs.until_more(SOME);
    let leader = trio.leader();
    let mut server = trio.take(leader);
    trio.cut_from_store(leader);
    server.term();
    let said = server.until_ended();
    assert!(said.contains("the store does not answer: ended at once"), "{said}");
    until(&trio.servers, all_there);
    programs.until_more(SOME);
    trio.heal();
    trio.again(leader);
    until(&trio.servers, |runs| all_there(runs) && runs.iter().all(|ranks| ranks.len() == 1));
    trio.check(&programs.end(), "a server cut from the store and told to stop");
}

#[test]
fn a_rank_that_is_handed_to_a_server_which_others_do_not_reach_serves_when_they_do() {
    let Some(trio) = Trio::new() else { return };
    let programs = trio.programs();
    programs.until_more(SOME);
    let leader = trio.leader();
    let target = trio.other_than(leader);
    let rank = trio.rank_of(leader);
    (0..3).filter(|other| *other != target).for_each(|other| trio.cut(target, other, &[]));
    let order = trio.order(leader, rank, target);
    // Ranks come and go by the store alone.
    until(&trio.servers, |runs| all_there(runs) && runs.iter().any(|ranks| ranks.len() == 2));
    ends(order, "a handover");
    std::thread::sleep(CUT);
    trio.heal();
    programs.until_more(2 * SOME);
    trio.check(&programs.end(), "a rank handed to a server that others did not reach");
}

#[test]
fn a_rank_that_is_handed_to_a_server_which_dies_is_run_by_one_that_is_left() {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    for pause in [0, 10, 50, 200] {
        programs.until_more(SOME);
        let leader = trio.leader();
        let target = trio.other_than(leader);
        let (rank, server) = (trio.rank_of(leader), trio.take(target));
        let order = trio.order(leader, rank, target);
        // At different points of what follows from the order.
        std::thread::sleep(Duration::from_millis(pause));
        server.kill();
        trio.until_all();
        ends(order, "the handover to a server that died");
        trio.again(target);
        trio.until_shared();
    }
    programs.until_more(SOME);
    trio.check(&programs.end(), "4 ranks handed to servers that died");
}

#[test]
fn a_handover_to_a_server_that_hangs_is_refused_when_another_one_is_to_have_the_rank() {
    let Some(mut trio) = Trio::new() else { return };
    let leader = trio.leader();
    let target = trio.other_than(leader);
    let (rank, hung) = (trio.rank_of(leader).to_string(), trio.take(target));
    hung.stop();
    let data = trio.place.data(leader).display().to_string();
    let said = trio.place.say(&["rank", "handover", &rank, "--to", &format!("s{target}"), "--data", &data], 1);
    assert!(said.contains("was not handed over"), "{said}");
    trio.until_all();
}

#[test]
fn when_the_leader_stops_and_another_one_dies_at_once_the_third_runs_everything() {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    for _ in 0..3 {
        programs.until_more(SOME);
        let leader = trio.leader();
        let (first, second) = (trio.take(leader), trio.other_than(leader));
        let second = trio.take(second);
        first.term();
        second.kill();
        let mut first = first;
        first.until_ended();
        trio.until_all();
        programs.until_more(SOME);
        for number in 0..3 {
            if trio.servers.iter().all(|server| server.number != number) {
                trio.again(number);
            }
        }
        trio.until_shared();
    }
    programs.until_more(SOME);
    trio.check(&programs.end(), "the leader stopped and another one killed, 3 times");
}

#[test]
fn all_servers_that_are_killed_at_once_and_started_again_share_the_ranks() {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    for _ in 0..4 {
        programs.until_more(SOME);
        std::mem::take(&mut trio.servers).into_iter().for_each(Server::kill);
        (0..3).for_each(|number| trio.again(number));
        trio.until_shared();
    }
    programs.until_more(SOME);
    trio.check(&programs.end(), "all servers killed, 4 times");
}

#[test]
fn a_leader_that_dies_just_after_it_was_told_to_hand_over_leaves_each_rank_with_one_server() {
    let Some(mut trio) = Trio::new() else { return };
    let programs = trio.programs();
    for pause in [0, 10, 20, 30, 40, 50] {
        programs.until_more(SOME / 2);
        let leader = trio.leader();
        let (rank, target) = (trio.rank_of(trio.other_than(leader)), leader);
        let (from, server) = (trio.rank_of(leader), trio.take(leader));
        let third = trio.other_than(leader);
        let orders = [trio.order(leader, rank, target), trio.order(leader, from, third)];
        std::thread::sleep(Duration::from_millis(pause));
        server.kill();
        orders.into_iter().for_each(|order| ends(order, "a handover of a leader that died"));
        trio.until_all();
        programs.until_more(SOME / 2);
        trio.again(leader);
        // By the orders two may be at one server.
        trio.even_out();
    }
    programs.until_more(SOME);
    trio.check(&programs.end(), "6 leaders killed just after they were told to hand over");
}

impl Trio {
    /// Has each server run one rank again.
    fn even_out(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let runs: Vec<(usize, Vec<u64>)> = self.servers.iter().map(|one| (one.number, one.runs().0)).collect();
            let idle = runs.iter().find(|(_, ranks)| ranks.is_empty());
            let most = runs.iter().find(|(_, ranks)| ranks.len() > 1);
            match (all_there(&runs.iter().map(|(_, ranks)| ranks.clone()).collect::<Vec<_>>()), most, idle) {
                (true, None, None) => return,
                (true, Some((_, ranks)), Some((to, _))) => ends(self.order(self.leader(), ranks[0], *to), "a handover"),
                // Some are on their way.
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(Instant::now() < end, "the ranks are not shared: {runs:?}");
        }
    }
}
