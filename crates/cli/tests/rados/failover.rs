//! A server dies or hangs, and another one takes its place: programs notice a pause and nothing else.

use std::time::Duration;

use crate::history::{Programs, check};
use crate::servers::{Place, Server};

/// Operations between two faults.
const SOME: u64 = 400;

/// On a machine that is busy with other things a server may be silent for longer than the default lease, and would be replaced.
const PATIENT: [&str; 2] = ["--set", "lease_ms=3000"];
/// Nobody waits for this one: that a process is dead is known on its own machine.
const DEAF: [&str; 2] = ["--set", "lease_ms=30000"];

/// Which of the two serves, and the other one.
fn active(mut servers: Vec<Server>) -> (Server, Server) {
    loop {
        if let Some(at) = servers.iter().position(Server::serves) {
            let active = servers.remove(at);
            return (active, servers.pop().expect("there are two"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn begin(place: &Place, args: &[&str]) -> (Server, Server) {
    let mut first = place.serve(0, args);
    first.until_serves();
    (first, place.serve(1, args))
}

#[test]
fn servers_that_are_killed_are_replaced_and_nothing_acknowledged_is_lost() {
    let Some(place) = Place::formatted() else { return };
    let (mut server, mut other) = begin(&place, &DEAF);
    let programs = Programs::start(&place.address(2), 3);
    for _ in 0..4 {
        programs.until_more(SOME);
        let number = server.number;
        server.kill();
        other.until_serves();
        server = other;
        other = place.serve(number, &DEAF);
    }
    programs.until_more(SOME);
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("killed 4 times: the longest turn of a program took {longest:?}");
    server.end();
}

#[test]
fn a_server_that_hangs_is_replaced_and_ends_when_it_wakes() {
    let Some(place) = Place::formatted() else { return };
    let two_ranks = [&PATIENT[..], &["--ranks", "2"]].concat();
    let (mut server, mut other) = begin(&place, &two_ranks);
    let programs = Programs::start(&place.address(2), 3);
    for _ in 0..3 {
        programs.until_more(SOME);
        server.stop();
        other.until_serves();
        programs.until_more(SOME);
        server.wake();
        let said = server.until_ended();
        assert!(
            said.contains("another server has taken over") || said.contains("not this server's any more"),
            "{said}"
        );
        let number = server.number;
        server = other;
        other = place.serve(number, &two_ranks);
    }
    let told = programs.end();
    let longest = check(&place.address(2), &told);
    eprintln!("stopped 3 times: the longest turn of a program took {longest:?}");
}

#[test]
fn of_two_that_stand_by_one_takes_over() {
    let Some(place) = Place::formatted() else { return };
    let mut first = place.serve(0, &PATIENT);
    first.until_serves();
    let (second, third) = (place.serve(1, &PATIENT), place.serve(2, &PATIENT));
    let programs = Programs::start(&place.address(3), 2);
    programs.until_more(SOME);
    first.stop();
    let (server, mut other) = active(vec![second, third]);
    programs.until_more(SOME);
    assert!(!other.serves(), "two have taken over");
    server.kill();
    other.until_serves();
    programs.until_more(SOME);
    let told = programs.end();
    check(&place.address(3), &told);
    other.end();
}

#[test]
fn a_server_that_stops_cleanly_is_replaced_at_once_and_its_place_taken_again() {
    let Some(place) = Place::formatted() else { return };
    let (mut server, mut other) = begin(&place, &DEAF);
    let programs = Programs::start(&place.address(2), 2);
    for _ in 0..3 {
        programs.until_more(SOME);
        let number = server.number;
        server.end();
        other.until_serves();
        server = other;
        other = place.serve(number, &DEAF);
    }
    programs.until_more(SOME);
    let told = programs.end();
    check(&place.address(2), &told);
}
