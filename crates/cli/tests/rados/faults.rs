//! The cluster itself fails under the servers. Only on a cluster with three OSDs or more whose directory `LOLIGO_CEPH_DIR` names
//! (`scripts/rados-suite.sh --faults` starts one); else nothing is tested, and each test says so.

use std::process::Command;

use crate::history::{Programs, check};
use crate::servers::Place;

/// Operations between two faults.
const SOME: u64 = 200;

/// The cluster's daemons.
struct Ceph(String);

impl Ceph {
    fn new() -> Option<Ceph> {
        let dir = std::env::var("LOLIGO_CEPH_DIR").ok();
        if dir.is_none() {
            eprintln!("not tested: LOLIGO_CEPH_DIR names no cluster that may be hurt");
        }
        dir.map(Ceph)
    }

    fn run(&self, what: &str, args: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/ceph.sh");
        let ran = Command::new(script).arg(what).arg(&self.0).args(args).status().expect("bash");
        assert!(ran.success(), "ceph.sh {what} {args:?}");
    }

    fn signal(&self, signal: &str, name: &str) {
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
