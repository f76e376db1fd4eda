//! Three servers share a file system with three ranks: ranks go from one to another by order, and from servers that end, die or hang to those
//! that are left. Programs work all the while, each in directories of two ranks.

use std::time::{Duration, Instant};

use loligo_driver::client::path::OpenHow;

use crate::history::{Programs, check};
use crate::servers::{PATIENCE, Place, Server};

/// Operations between two faults.
const SOME: u64 = 300;
/// On a machine that is busy with other things a server may be silent for longer than the default lease, and would be replaced.
const PATIENT: [&str; 2] = ["--set", "lease_ms=3000"];

/// Three that share, each with a rank.
pub fn begin(place: &Place, args: &[&str]) -> Vec<Server> {
    let first = place.share(0, &[args, &["--ranks", "3"]].concat());
    let mut servers = vec![first];
    servers[0].until_serves();
    for number in [1, 2] {
        servers.push(place.share(number, args));
        servers[number].until_serves();
    }
    until(&servers, |runs| runs.iter().all(|ranks| ranks.len() == 1));
    servers
}

/// Waits until the servers run what is wanted.
pub fn until(servers: &[Server], is_so: impl Fn(&[Vec<u64>]) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let runs: Vec<Vec<u64>> = servers.iter().map(|server| server.runs().0).collect();
        if is_so(&runs) {
            return;
        }
        let said =
            || servers.iter().map(|server| format!("-- {}\n{}", server.number, server.said())).collect::<String>();
        assert!(Instant::now() < end, "the ranks are run so: {runs:?}\n{}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn all_there(runs: &[Vec<u64>]) -> bool {
    let mut all: Vec<u64> = runs.concat();
    all.sort_unstable();
    all == [0, 1, 2]
}

/// Programs whose directories are pinned to the ranks in turn.
pub fn programs(place: &Place) -> Programs {
    let data = place.data(0).display().to_string();
    Programs::start_in(&place.address(3), 3, |dir, number| {
        place.say(&["subtree", "pin", "--data", &data, dir, &(number % 3).to_string()], 0);
    })
}

#[test]
fn ranks_go_from_server_to_server_by_order_while_programs_work() {
    let Some(place) = Place::formatted() else { return };
    let servers = begin(&place, &PATIENT);
    let programs = programs(&place);
    let leader = || servers.iter().find(|server| server.runs().1).expect("one leads").number;
    let data = place.data(leader()).display().to_string();
    for (rank, to) in [(0, "s1"), (1, "s1"), (2, "s1"), (0, "s2"), (1, "s0"), (0, "s0")] {
        programs.until_more(SOME);
        let said = place.say(&["rank", "handover", &rank.to_string(), "--to", to, "--data", &data], 0);
        assert_eq!(said, format!("rank {rank} is run by {to}\n"));
    }
    until(&servers, |runs| runs.concat().len() == 3 && runs[1].contains(&2));
    programs.until_more(SOME);
    let other = servers.iter().find(|server| server.number != leader()).expect("there are three").number;
    let said =
        place.say(&["rank", "handover", "0", "--to", "s0", "--data", &place.data(other).display().to_string()], 0);
    assert_eq!(said, "rank 0 is run by s0\n");
    let said = place.say(&["rank", "handover", "0", "--to", "s9", "--data", &data], 1);
    assert!(said.contains("there is no server s9"), "{said}");
    let said = place.say(&["rank", "handover", "7", "--data", &data], 1);
    assert!(said.contains("there is no rank 7"), "{said}");
    let longest = check(&place.address(3), &programs.end());
    eprintln!("6 ranks handed over: the longest turn of a program took {longest:?}");
}

#[test]
fn what_a_server_knows_of_a_files_pieces_does_not_outlive_its_rank() {
    let Some(place) = Place::formatted() else { return };
    let servers = begin(&place, &PATIENT);
    let fs = connect_anew(&place);
    let file = fs.open("/f", OpenHow::create()).expect("a new file");
    let rank_0_to = |to: &str| {
        let leader = servers.iter().find(|server| server.runs().1).expect("one leads").number;
        let data = place.data(leader).display().to_string();
        place.say(&["rank", "handover", "0", "--to", to, "--data", &data], 0);
    };
    let write = || {
        // Several pieces, one after the other: nothing is dropped before a gap.
        for at in 0..20 {
            file.write_at(at << 20, vec![7; 1 << 20]).expect("there is space");
        }
        file.sync().expect("there is space");
    };
    write();
    rank_0_to("s1");
    file.set_len(0).expect("it is open");
    rank_0_to("s0");
    // The pieces are made anew, and so is what tells of them: or they are not found when the file is cut.
    write();
    file.set_len(0).expect("it is open");
    file.set_len(20 << 20).expect("it is open");
    file.close().expect("it is open");
    let found = connect_anew(&place).read("/f").expect("it is there");
    assert!(found.len() == 20 << 20 && found.iter().all(|byte| *byte == 0), "what was cut off is back");
}

fn connect_anew(place: &Place) -> loligo_driver::client::path::Fs {
    crate::servers::connect(&place.address(3))
}

#[test]
fn servers_are_stopped_and_started_again_one_after_the_other_while_programs_work() {
    let Some(place) = Place::formatted() else { return };
    let mut servers = begin(&place, &PATIENT);
    let programs = programs(&place);
    for number in [0, 1, 2] {
        programs.until_more(SOME);
        let at = servers.iter().position(|server| server.number == number).expect("it is there");
        servers.remove(at).end();
        until(&servers, all_there);
        programs.until_more(SOME);
        servers.push(place.share(number, &PATIENT));
        until(&servers, |runs| all_there(runs) && runs.iter().all(|ranks| ranks.len() == 1));
    }
    programs.until_more(SOME);
    let longest = check(&place.address(3), &programs.end());
    eprintln!("3 servers stopped and started again: the longest turn of a program took {longest:?}");
    for server in servers {
        server.end();
    }
    let said = place.say(&["fsck", "--data", &place.data(0).display().to_string()], 0);
    assert!(said.contains("is sound"), "{said}");
}

#[test]
fn of_servers_that_are_killed_others_run_the_ranks_and_nothing_acknowledged_is_lost() {
    let Some(place) = Place::formatted() else { return };
    let mut servers = begin(&place, &PATIENT);
    let programs = programs(&place);
    // The one that leads among them, and at last two at once.
    for numbers in [&[0][..], &[1], &[2], &[0, 1]] {
        programs.until_more(SOME);
        for number in numbers {
            let at = servers.iter().position(|server| server.number == *number).expect("it is there");
            servers.remove(at).kill();
        }
        until(&servers, all_there);
        programs.until_more(SOME);
        servers.extend(numbers.iter().map(|number| place.share(*number, &PATIENT)));
        until(&servers, |runs| all_there(runs) && runs.iter().all(|ranks| ranks.len() == 1));
    }
    programs.until_more(SOME);
    let longest = check(&place.address(3), &programs.end());
    eprintln!("servers killed 4 times: the longest turn of a program took {longest:?}");
}

#[test]
fn a_server_that_hangs_loses_its_ranks_to_the_others_and_ends_when_it_wakes() {
    let Some(place) = Place::formatted() else { return };
    let mut servers = begin(&place, &PATIENT);
    let programs = programs(&place);
    for number in [1, 0] {
        programs.until_more(SOME);
        let at = servers.iter().position(|server| server.number == number).expect("it is there");
        let mut hung = servers.remove(at);
        hung.stop();
        until(&servers, all_there);
        programs.until_more(SOME);
        hung.wake();
        let said = hung.until_ended();
        assert!(
            said.contains("another server has taken over") || said.contains("not this server's any more"),
            "{said}"
        );
        servers.push(place.share(number, &PATIENT));
        until(&servers, |runs| all_there(runs) && runs.iter().all(|ranks| ranks.len() == 1));
    }
    programs.until_more(SOME);
    let longest = check(&place.address(3), &programs.end());
    eprintln!("servers hung twice: the longest turn of a program took {longest:?}");
}
