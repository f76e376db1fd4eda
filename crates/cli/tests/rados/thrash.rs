//! Three servers on hosts of their own, and faults at random, from a seed: for `LOLIGO_THRASH_S` seconds (60) servers are killed, stopped,
//! cut from each other and from the store, ranks handed over, and OSDs killed, while programs work; then all must be there, and sound.
//! `LOLIGO_THRASH_SEED` repeats the choices, not the moments. By `scripts/rados-suite.sh --faults`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use loligo_types::Random;

use crate::faults::Ceph;
use crate::several_faults::{Trio, ends};

struct Dice(Random);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    fn wait(&mut self, most_ms: usize) {
        std::thread::sleep(Duration::from_millis(self.below(most_ms) as u64));
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// One fault, for a while; servers that it ended are missing after it. What it was.
fn hurt(trio: &mut Trio, ceph: &Ceph, dice: &mut Dice) -> &'static str {
    let numbers: Vec<usize> = trio.servers.iter().map(|server| server.number).collect();
    let first = numbers[dice.below(numbers.len())];
    let second = (first + 1 + dice.below(2)) % 3;
    let one_way: &[&str] = if dice.below(2) == 0 { &["--one-way"] } else { &[] };
    let what = dice.below(9);
    let words = [
        "killed",
        "stopped",
        "hangs",
        "cut from another",
        "cut from the store",
        "cut from all",
        "a rank handed over",
        "an OSD killed",
        "all killed",
    ];
    eprintln!("s{first} (s{second}): {} {one_way:?}", words[what]);
    match what {
        0 => trio.take(first).kill(),
        1 => {
            let mut server = trio.take(first);
            server.term();
            if dice.below(2) == 0 && numbers.contains(&second) {
                dice.wait(300);
                trio.take(second).kill();
            }
            server.until_ended();
        }
        2 => {
            let server = trio.take(first);
            server.stop();
            dice.wait(6000);
            server.wake();
            trio.servers.push(server);
        }
        3 => {
            trio.cut(first, second, one_way);
            dice.wait(7000);
        }
        4 => {
            trio.cut_from_store(first);
            dice.wait(7000);
        }
        5 => {
            trio.cut_from_store(first);
            (0..3).filter(|other| *other != first).for_each(|other| trio.cut(first, other, one_way));
            dice.wait(7000);
        }
        6 => {
            let leader = trio.leader();
            let order = trio.order(leader, dice.below(3) as u64, second);
            if dice.below(2) == 0 {
                dice.wait(100);
                trio.take(if dice.below(2) == 0 { leader } else { first }).kill();
            }
            ends(order, "a handover");
        }
        7 => {
            let osd = format!("osd.{}", dice.below(3));
            ceph.signal("KILL", &osd);
            dice.wait(3000);
            ceph.run("start", &[&osd]);
            if dice.below(2) == 0 && trio.servers.len() > 1 {
                trio.take(first).kill();
            }
            ceph.run("wait", &[]);
        }
        _ => std::mem::take(&mut trio.servers).into_iter().for_each(crate::servers::Server::kill),
    }
    words[what]
}

/// Those that are missing, or have ended, are started again.
fn mend(trio: &mut Trio) {
    trio.servers.retain_mut(|server| !server.is_over());
    for number in 0..3 {
        if trio.servers.iter().all(|server| server.number != number) {
            trio.again(number);
        }
    }
}

#[test]
fn random_faults_of_servers_links_and_osds_lose_nothing() {
    let (Some(ceph), Some(mut trio)) = (Ceph::new(), Trio::new()) else { return };
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let (seed, seconds) = (number("LOLIGO_THRASH_SEED", time | 1), number("LOLIGO_THRASH_S", 60));
    eprintln!("faults from seed {seed}, for {seconds} s");
    let mut dice = Dice(Random::new(seed));
    let programs = trio.programs();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut faults = 0;
    // The longest turn of a program by what had happened, of faults that came alone.
    let mut turns: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let mut alone = true;
    while Instant::now() < end {
        let what = hurt(&mut trio, &ceph, &mut dice);
        let mut single = alone;
        faults += 1;
        // Sometimes the next fault comes before this one is over.
        if dice.below(3) == 0 && !trio.servers.is_empty() {
            hurt(&mut trio, &ceph, &mut dice);
            (single, faults) = (false, faults + 1);
        }
        trio.heal();
        mend(&mut trio);
        alone = dice.below(3) > 0;
        if alone {
            settle(&mut trio);
            programs.until_more(100);
            let longest = programs.longest_turn();
            eprintln!(
                "  the longest turn of a program took {longest:?}{}",
                if single { "" } else { ", of several faults" }
            );
            turns.entry(if single { what } else { "several" }).or_default().push(longest);
        }
    }
    for (what, mut turns) in turns {
        turns.sort_unstable();
        let (p50, worst) = (turns[turns.len() / 2], turns[turns.len() - 1]);
        eprintln!("{what}: {} times, the longest turn p50 {p50:?}, worst {worst:?}", turns.len());
    }
    trio.heal();
    settle(&mut trio);
    programs.until_more(300);
    trio.check(&programs.end(), &format!("{faults} faults from seed {seed} in {seconds} s"));
}

/// Waits until all ranks are run. A server may learn only now that it was replaced.
fn settle(trio: &mut Trio) {
    let end = Instant::now() + crate::servers::PATIENCE;
    loop {
        mend(trio);
        let mut all: Vec<u64> = trio.servers.iter().flat_map(|server| server.runs().0).collect();
        all.sort_unstable();
        if all == [0, 1, 2] {
            return;
        }
        let said = || trio.servers.iter().map(|one| format!("-- {}\n{}", one.number, one.said())).collect::<String>();
        assert!(Instant::now() < end, "the ranks are run so: {all:?}\n{}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}
