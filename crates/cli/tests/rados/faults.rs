//! The cluster itself fails under the servers, or the links to it do. Only on a cluster with three OSDs or more whose directory
//! `LOLIGO_CEPH_DIR` names, on the first of some hosts that `LOLIGO_HOSTS_DIR` names (`scripts/rados-suite.sh --faults` starts both, and the
//! tests on host 3); else nothing is tested, and each test says so.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::history::{Programs, check};
use crate::servers::Place;

/// Operations between two faults.
const SOME: u64 = 200;

/// The cluster's daemons.
pub struct Ceph(String);

impl Ceph {
    pub fn new() -> Option<Ceph> {
        let dir = std::env::var("LOLIGO_CEPH_DIR").ok();
        if dir.is_none() {
            eprintln!("not tested: LOLIGO_CEPH_DIR names no cluster that may be hurt");
        }
        dir.map(Ceph)
    }

    /// On its own host, where a daemon that is started has to be.
    pub fn run(&self, what: &str, args: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/ceph.sh");
        let mut command = match Hosts::new() {
            Some(hosts) => hosts.command("run", &["1", script]),
            None => Command::new(script),
        };
        let ran = command.arg(what).arg(&self.0).args(args).status().expect("bash");
        assert!(ran.success(), "ceph.sh {what} {args:?}");
    }

    pub fn signal(&self, signal: &str, name: &str) {
        self.run("signal", &[signal, name]);
    }
}

#[test]
fn osds_are_killed_one_after_the_other_and_nothing_acknowledged_is_lost() {
    let (Some(ceph), Some(place)) = (Ceph::new(), Place::formatted()) else { return };
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let other = place.serve(1, &[]);
    let programs = Programs::start(&place.address(2), 3);
    for osd in ["osd.0", "osd.1", "osd.2"] {
        programs.until_more(SOME);
        ceph.signal("KILL", osd);
        programs.until_more(SOME);
        ceph.run("start", &[osd]);
        // The copies that it missed are made before the next one goes.
        ceph.run("wait", &[]);
    }
    programs.until_more(SOME);
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("3 OSDs killed, one at a time: the longest turn of a program took {longest:?}");
    drop((server, other));
}

#[test]
fn an_osd_that_hangs_and_goes_on_costs_time_and_nothing_else() {
    let (Some(ceph), Some(place)) = (Ceph::new(), Place::formatted()) else { return };
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let other = place.serve(1, &[]);
    let programs = Programs::start(&place.address(2), 3);
    for osd in ["osd.0", "osd.1", "osd.2"] {
        programs.until_more(SOME);
        ceph.signal("STOP", osd);
        // Longer than a lease, shorter than others need to agree that it is down.
        std::thread::sleep(std::time::Duration::from_secs(4));
        ceph.signal("CONT", osd);
        programs.until_more(SOME);
        ceph.run("wait", &[]);
    }
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("3 OSDs stopped for 4 s, one at a time: the longest turn of a program took {longest:?}");
    drop((server, other));
}

/// Each of the OSDs in turn does nothing for three quarters of the time.
#[test]
fn an_osd_that_is_slow_costs_time_and_nobody_is_replaced() {
    const SLOW: Duration = Duration::from_secs(20);
    let (Some(ceph), Some(place)) = (Ceph::new(), Place::formatted()) else { return };
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let other = place.serve(1, &[]);
    let programs = Programs::start(&place.address(2), 3);
    for osd in ["osd.0", "osd.1", "osd.2"] {
        programs.until_more(SOME);
        let begun = Instant::now();
        while begun.elapsed() < SLOW {
            ceph.signal("STOP", osd);
            std::thread::sleep(Duration::from_millis(150));
            ceph.signal("CONT", osd);
            std::thread::sleep(Duration::from_millis(50));
        }
        programs.until_more(SOME);
        assert!(!server.is_over() && !other.serves(), "the same server serves all the while");
    }
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("3 OSDs slow for {SLOW:?}, one at a time: the longest turn of a program took {longest:?}");
    drop((server, other));
}

/// Hosts of `scripts/hosts.sh`.
pub struct Hosts(String);

impl Hosts {
    pub fn new() -> Option<Hosts> {
        let dir = std::env::var("LOLIGO_HOSTS_DIR").ok();
        if dir.is_none() {
            eprintln!("not tested: LOLIGO_HOSTS_DIR names no hosts");
        }
        dir.map(Hosts)
    }

    pub fn command(&self, what: &str, args: &[&str]) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/hosts.sh"));
        command.arg(what).arg(&self.0).args(args);
        command
    }

    /// Heals all when the line comes for which it waits: a process that is started while a mount is cut off would, as it begins, close what
    /// it inherits of it, and wait for that.
    pub fn healer(&self) -> Child {
        let heal = self.command("heal", &[]);
        let mut command = Command::new("bash");
        command.args(["-c", "read -r && exec \"$@\"", "bash"]).arg(heal.get_program()).args(heal.get_args());
        command.stdin(Stdio::piped()).spawn().expect("bash")
    }

    pub fn run(&self, what: &str, args: &[&str]) {
        assert!(self.command(what, args).status().expect("bash").success(), "hosts.sh {what} {args:?}");
    }
}

/// A server on host 2 is cut off from the store, in one of three ways; the one on host 3 goes on; then it is heard again.
fn cut_off(cuts: &[&str]) {
    let (Some(hosts), Some(place)) = (Hosts::new(), Place::formatted()) else { return };
    let mut server = place.serve_by(hosts.command("run", &["2", crate::servers::LOLIGO]), 0, &[]);
    server.until_serves();
    let mut other = place.serve(1, &[]);
    // What programs say to servers goes over sockets that no host has for itself: only the store is cut off.
    let programs = Programs::start(&place.address(2), 3);
    programs.until_more(SOME);
    hosts.run("cut", cuts);
    other.until_serves();
    programs.until_more(SOME);
    hosts.run("heal", &[]);
    let said = server.until_ended();
    assert!(said.contains("another server has taken over") || said.contains("not this server's any more"), "{said}");
    programs.until_more(SOME);
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("cut off from the store ({cuts:?}): the longest turn of a program took {longest:?}");
    other.end();
}

#[test]
fn a_server_that_is_cut_off_from_the_store_answers_nothing_more_and_is_replaced() {
    cut_off(&["2", "1"]);
}

#[test]
fn a_server_whom_the_store_does_not_hear_is_replaced() {
    cut_off(&["2", "1", "--one-way"]);
}

#[test]
fn a_server_that_does_not_hear_the_store_is_replaced() {
    cut_off(&["1", "2", "--one-way"]);
}
