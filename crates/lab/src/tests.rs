//! Runs that show what the lab must give, each small enough for a test.

use loligo_types::{Decision, LoadVec, Move, PieceHeat, Rank, Snapshot, Weighed};
use loligo_workload::Spec;

use crate::{Decider, Lab, Plan, Report, Spread, run};

/// Gives half of what is hot to the next rank, if that has nothing to do.
#[derive(Default)]
struct Greedy {
    asked: usize,
}

impl Decider for Greedy {
    fn decide(&mut self, rank: Rank, snapshot: &Snapshot) -> Decision {
        self.asked += 1;
        assert_eq!(rank, snapshot.whoami);
        let load = |of: &LoadVec| of.metaload();
        let own: f64 = snapshot.pieces.iter().map(|piece| load(&piece.load)).sum();
        let weighed = Some(Weighed { policy: snapshot.policy, auth: own, all: own });
        let next = snapshot.ranks.iter().find(|view| view.rank.0 == rank.0 + 1);
        let idle = next.filter(|view| view.takes_more && view.load.auth < own / 100.0 && !view.is_busy_importing);
        let mut moves = Vec::new();
        if let (Some(to), true) = (idle, own > 1000.0) {
            let mut given = 0.0;
            // Directories as a whole, if they are small enough; those above first, so that what is in them comes along.
            for (number, piece) in snapshot.pieces.iter().enumerate().filter(|(_, piece)| !piece.fixed) {
                let with = |(at, other): &(usize, &PieceHeat)| *at == number || other.above == Some(number as u32);
                let all: f64 = snapshot.pieces.iter().enumerate().filter(with).map(|(_, p)| load(&p.load)).sum();
                let is_given =
                    |above| moves.iter().any(|one: &Move| one.piece == snapshot.pieces[above as usize].piece);
                if all == 0.0 || given + all > own * 0.51 || piece.above.is_some_and(is_given) {
                    continue;
                }
                given += all;
                moves.push(Move { piece: piece.piece, to: to.rank, load: all });
            }
        }
        Decision { tick: snapshot.tick, weighed, moves }
    }
}

fn plan(ranks: usize, spec: &str, spread: Spread) -> Plan {
    let workload: Spec = spec.parse().expect("a workload");
    Plan { spread, balance_ms: 500, ..Plan::new(ranks, workload).expect("costs") }
}

fn done(plan: &Plan) -> Report {
    let report = run(plan, None, &mut |_| {}).expect("it runs");
    assert!(report.is_complete, "it ends before its time is up");
    assert_eq!((report.failed, &report.first_failure), (0, &None));
    report
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let plan = plan(3, "compile:clients=2,dirs=6,units=3", Spread::Hashed);
    assert_eq!(done(&plan), done(&plan));
    assert_ne!(done(&plan).seconds, done(&Plan { seed: 2, ..plan }).seconds);
    let moving = self::plan(3, "create-own:clients=6,files=4000,lanes=4,think=500", Spread::One);
    let greedy = || run(&moving, Some(&mut Greedy::default()), &mut |_| {}).expect("it runs");
    let first = greedy();
    assert!(!first.moves.is_empty());
    assert_eq!(first, greedy());
}

#[test]
fn every_call_is_answered_once_and_every_file_is_there() {
    for (ranks, spread) in [(1, Spread::One), (4, Spread::Hashed)] {
        let plan = plan(ranks, "create-shared:clients=5,files=301,lanes=3", spread);
        let mut lab = Lab::new(&plan, &mut |_| Err("no file".into())).expect("it is set up");
        let report = lab.run(None, &mut |_| {}).expect("it runs");
        assert_eq!((report.calls, report.failed, lab.unanswered()), (5 * 301, 0, 0));
        assert_eq!(report.clients.iter().map(|client| client.calls).collect::<Vec<_>>(), [301; 5]);
        assert_eq!(report.seconds.iter().map(|second| second.calls).sum::<u64>(), report.calls);
        assert_eq!(lab.count("/shared"), Ok(5 * 301));
        assert_eq!(lab.count("/"), Ok(1));
    }
}

#[test]
fn files_made_while_their_directory_moves_in_pieces_are_all_there() {
    let plan = plan(4, "create-shared:clients=6,files=3000,lanes=2,think=1000", Spread::One);
    let mut lab = Lab::new(&plan, &mut |_| Err("no file".into())).expect("it is set up");
    let mut greedy = Greedy::default();
    let report = lab.run(Some(&mut greedy), &mut |_| {}).expect("it runs");
    assert!(report.moves.iter().any(|moved| moved.frag != "*"), "{:?}", report.moves);
    assert!(greedy.asked > 4 && report.redirects > 0 && report.by_rank[1] > 0);
    assert_eq!((report.calls, report.failed, lab.unanswered()), (6 * 3000, 0, 0));
    assert_eq!(lab.count("/shared"), Ok(6 * 3000));
}

#[test]
fn a_busy_rank_does_as_much_as_its_thread_can() {
    let plan = plan(1, "create-own:clients=4,files=8000,lanes=24", Spread::One);
    let report = done(&plan);
    let most = 1e9 / plan.costs.create as f64;
    assert!(report.busy[0] > 0.98, "{:?}", report.busy);
    assert!((0.97..1.0).contains(&(report.calls_per_s() / most)), "{} of {most}", report.calls_per_s());
}

#[test]
fn a_shared_directory_over_four_ranks_is_more_than_three_times_as_fast() {
    let spec = "create-shared:clients=16,files=2500,lanes=48";
    let one = done(&plan(1, spec, Spread::Hashed));
    let four = done(&plan(4, spec, Spread::Hashed));
    let times = four.calls_per_s() / one.calls_per_s();
    assert!(times > 3.0, "{times:.2} times, {:?} busy", four.busy);
}

#[test]
fn who_does_not_know_of_other_ranks_is_not_sent_on() {
    let spec = "compile:clients=1,dirs=8,units=4";
    let one = done(&plan(1, spec, Spread::One));
    assert_eq!((one.redirects, one.sessions, one.peer_messages), (0, 1, 0));
    let spread = done(&plan(4, spec, Spread::Hashed));
    assert!(spread.sessions > 1 && spread.requests > one.requests, "{} {}", spread.requests, one.requests);
    assert!(spread.length_s > one.length_s, "what is at several ranks takes longer when none is busy");
}

#[test]
fn after_something_has_moved_clients_learn_where_it_is_and_are_not_sent_on_again() {
    let plan = plan(2, "create-own:clients=8,files=20000,lanes=4,think=1000", Spread::One);
    let report = run(&plan, Some(&mut Greedy::default()), &mut |_| {}).expect("it runs");
    assert_eq!((report.failed, report.late_moves()), (0, 0), "{:?} {}", report.moves, report.length_s);
    assert!(!report.moves.is_empty() && report.redirects > 0);
    let last_move = report.moves.iter().map(|moved| moved.at_s).fold(0.0, f64::max);
    let settled = last_move.ceil() as usize + 1;
    assert!(report.seconds.len() > settled + 1, "{} seconds, the last move at {last_move}", report.seconds.len());
    let later: u64 = report.seconds[settled..].iter().map(|second| second.redirects).sum();
    assert_eq!(later, 0, "{:?}", report.seconds.iter().map(|second| second.redirects).collect::<Vec<_>>());
    // Half of the clients are there now.
    assert!(report.balance() < 1.7, "{}", report.balance());
}

#[test]
fn a_trace_of_a_workload_does_the_same_as_the_workload() {
    let spec: Spec = "compile:clients=2,dirs=5,units=2,jobs=1".parse().expect("a workload");
    let none = &mut |_: &str| Err("no file".to_owned());
    let text = loligo_workload::trace::record(spec.workload(1, none).expect("it is made"));
    let replay = plan(2, "replay:file=trace.txt", Spread::Even);
    let mut lab = Lab::new(&replay, &mut |_| Ok(text.clone())).expect("it is set up");
    let replayed = lab.run(None, &mut |_| {}).expect("it runs");
    let direct = done(&Plan { workload: spec, ..replay });
    assert_eq!((replayed.failed, replayed.calls, replayed.misses), (0, direct.calls, direct.misses));
    assert_eq!(replayed.requests, direct.requests);
    assert_eq!(replayed.phases.len(), 1);
}

#[test]
fn a_report_can_be_shown_in_all_ways() {
    let report = done(&plan(2, "untar:dirs=4,files=5", Spread::Even));
    assert_eq!(report.csv().lines().count(), report.seconds.len());
    let columns = |text: &str| text.matches('|').count();
    let head: Vec<&str> = Report::table_head().lines().collect();
    assert_eq!((columns(head[0]), columns(head[1])), (columns(&report.row()), columns(&report.row())));
    assert!(report.svg().ends_with("</svg>\n"));
    assert_eq!(report.json()["calls"], report.calls);
}
