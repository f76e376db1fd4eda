//! Any server answers for all ranks, and hands on orders that another one is to carry out; one that hangs is named, and waited for by nobody.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::servers::{PATIENCE, Place, Server, connect};
use crate::several::{begin, until};

/// A server that hangs is there for longer than a test has it hang.
const UNHURRIED: [&str; 2] = ["--set", "lease_ms=60000"];
/// So long a command may take that waits a second for a server, on a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(6);

/// Commands at one server.
struct At<'a> {
    place: &'a Place,
    data: String,
}

impl At<'_> {
    fn say(&self, words: &str, code: i32) -> String {
        let mut args: Vec<&str> = words.split(' ').collect();
        args.extend(["--data", &self.data]);
        self.place.say(&args, code)
    }

    fn json(&self, words: &str) -> Value {
        let said = self.say(&format!("{words} --json"), 0);
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words}: {error}: {said}"))
    }

    /// The ranks that it tells of, with their states.
    fn ranks(&self) -> Vec<(u64, String)> {
        let all = self.json("rank list");
        let line =
            |one: &Value| (one["rank"].as_u64().expect("a number"), one["state"].as_str().expect("a word").into());
        all.as_array().expect("a list").iter().map(line).collect()
    }

    /// The ranks that have `/a` or a part of it; where nothing says which, it is where the root is.
    fn has_a(&self) -> Vec<u64> {
        let lines = self.json("subtree list");
        let of_a = |line: &&Value| line["path"] == "/a";
        let ranks = lines.as_array().expect("a list").iter().filter(of_a).filter_map(|line| line["rank"].as_u64());
        let all: std::collections::BTreeSet<u64> = ranks.collect();
        if all.is_empty() { vec![0] } else { all.into_iter().collect() }
    }

    /// Gives an order as programs do; the whole answer.
    fn post(&self, page: &str) -> String {
        let mut socket = UnixStream::connect(format!("{}/admin.sock", self.data)).expect("it listens");
        write!(socket, "POST {page} HTTP/1.0\r\nContent-Length: 0\r\n\r\n").expect("it is taken");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

fn at<'a>(place: &'a Place, server: &Server) -> At<'a> {
    At { place, data: place.data(server.number).display().to_string() }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn serving(ranks: &[u64]) -> Vec<(u64, String)> {
    ranks.iter().map(|rank| (*rank, "serving".to_string())).collect()
}

/// Three servers with a rank each, in the order: one that leads, one to be asked, one that does neither; and the ranks that they run.
fn three(place: &Place) -> (Vec<Server>, Vec<u64>) {
    let mut servers = begin(place, &UNHURRIED);
    servers.sort_by_key(|server| !server.runs().1);
    let ranks = servers.iter().map(|server| server.runs().0[0]).collect();
    for server in &servers {
        wait_until("all know all ranks", || at(place, server).ranks() == serving(&[0, 1, 2]));
    }
    (servers, ranks)
}

#[test]
fn a_server_that_neither_leads_nor_runs_the_rank_answers_for_all_and_hands_orders_on() {
    let Some(place) = Place::formatted() else { return };
    let (servers, runs) = three(&place);
    let (leader, asked) = (&servers[0], at(&place, &servers[1]));
    let other = runs[2];
    let fs = connect(&place.address(3));
    fs.mkdir("/a", 0o755).expect("made");

    // What there is.
    let status = asked.json("status");
    assert_eq!(status["unreached"], serde_json::json!([]));
    assert_eq!(status["health"], "serving", "{status}");
    assert!(status["sessions"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "test")), "{status}");
    for words in ["status", "rank list", "top --count 1 --interval 0.05"] {
        let said = asked.say(words, 0);
        let lines = [0, 1, 2].map(|rank| format!("\n   {rank} serving"));
        assert!(lines.iter().all(|line| said.contains(line)) && !said.contains("not reached"), "{words}: {said}");
    }
    // The directory was made at one rank; the operations are those of all.
    assert!(asked.say("status", 0).contains("mkdir"));

    // Orders of the leader.
    assert!(asked.say("rank add", 0).contains("rank 3 was added"));
    for server in &servers {
        wait_until("the new rank serves", || at(&place, server).ranks() == serving(&[0, 1, 2, 3]));
    }
    assert!(asked.say("rank drain 3 --wait", 0).contains("was removed"));
    wait_until("it is gone", || asked.ranks() == serving(&[0, 1, 2]));
    let said = asked.say("rank undrain 1", 1);
    assert!(said.contains("is not being drained"), "{said}");
    let said = asked.say("rank drain 9", 1);
    assert!(said.contains("there is no rank 9: the ranks are 0, 1, 2"), "{said}");
    let own = format!("s{}", servers[1].number);
    let said = asked.say(&format!("rank handover {other} --to {own}"), 0);
    assert!(said.contains(&format!("rank {other} is run by {own}")), "{said}");
    let said = asked.say(&format!("rank handover {other} --to s{}", servers[2].number), 0);
    assert!(said.contains(&format!("rank {other} is run by s{}", servers[2].number)), "{said}");
    let said = asked.say("rank handover 0 --to s9", 1);
    assert!(said.contains("there is no server s9"), "{said}");
    wait_until("all serve", || asked.ranks() == serving(&[0, 1, 2]));

    // Orders to ranks, from each to each.
    assert!(asked.say("balancer set none", 0).contains("no policy is in force"));
    for to in [other, runs[0], runs[1], other, runs[1], runs[0]] {
        let done = asked.json(&format!("subtree migrate /a {to}"));
        assert_eq!((&done["to"], &done["state"]), (&to.into(), &"done".into()), "{done}");
    }
    wait_until("all servers know where it is", || servers.iter().all(|server| at(&place, server).has_a() == [runs[0]]));
    // A rank that does not have it, and whose server is not to hand it on: who was asked goes on to the one that has it.
    let ino = fs.stat("/a").expect("it is there").ino.0;
    let said = asked.post(&format!("/api/v1/migrate/{ino}/{other}/{other}"));
    assert!(said.contains(&format!("\"from\":{}", runs[0])), "{said}");
    wait_until("it has moved", || asked.has_a() == [other]);
    let said = asked.say("subtree migrate /a 7", 1);
    assert!(said.contains("there is no rank 7"), "{said}");
    assert!(asked.say("subtree split /a 1", 0).contains("1 fragment -> 2"));
    let done = asked.json(&format!("subtree migrate /a {} --frag 1/1", runs[1]));
    assert_eq!(done["state"], "done", "{done}");
    wait_until("it is at two ranks", || asked.has_a().len() == 2);
    assert!(asked.say("subtree gather /a", 0).contains("the ranks give the fragments"));
    wait_until("the fragments are gathered", || asked.has_a() == [other]);
    assert!(asked.say("subtree unsplit /a", 0).contains("2 fragments -> 1"));

    // The balancer.
    assert!(asked.say("balancer set greedy_spill", 0).contains("is in force"));
    let get = asked.json("balancer show");
    assert_eq!(get["in_force"]["name"], "greedy_spill", "{get}");
    assert_eq!(get["ranks"].as_array().map(Vec::len), Some(3), "{get}");
    assert!(asked.say("balancer rollback", 0).contains("in force"));
    assert!(asked.say("balancer unset", 0).contains("the default"));
    let explained = asked.json(&format!("balancer explain --rank {other}"));
    assert!(explained[other.to_string()].is_array(), "{explained}");

    // Identities: a key never comes over the connection of servers.
    let said = asked.say("auth add backup", 1);
    assert!(said.contains(&format!("s{} leads", leader.number)) && said.contains("private key"), "{said}");
    at(&place, leader).say("auth add backup", 0);
    wait_until("it is listed", || asked.say("auth list", 0).contains("backup"));
    assert!(asked.say("auth revoke backup", 0).contains("is revoked"));
    assert!(!at(&place, leader).say("auth list", 0).contains("backup"));
    let said = asked.say("auth revoke backup", 1);
    assert!(said.contains("there is no identity backup"), "{said}");
}

#[test]
fn a_server_without_a_rank_answers_for_the_one_that_runs_the_only_one() {
    let Some(place) = Place::formatted() else { return };
    let mut first = place.share(0, &UNHURRIED);
    first.until_serves();
    let second = place.serve(1, &UNHURRIED);
    let asked = at(&place, &second);
    let fs = connect(&place.address(1));
    fs.mkdir("/a", 0o755).expect("made");
    wait_until("it runs", || place.data(1).join("server.json").exists());
    wait_until("it knows the rank", || asked.ranks() == serving(&[0]));
    let status = asked.json("status");
    assert_eq!((&status["health"], &status["unreached"]), (&"serving".into(), &serde_json::json!([])), "{status}");
    let list = asked.say("subtree list", 0);
    assert!(list.contains("/"), "{list}");
    assert!(asked.say("rank add", 0).contains("rank 1 was added"));
    wait_until("it serves", || asked.ranks() == serving(&[0, 1]));
    let done = asked.json("subtree migrate /a 1");
    assert_eq!((&done["from"], &done["state"]), (&0.into(), &"done".into()), "{done}");
}

#[test]
fn of_a_server_that_hangs_others_say_so_soon_and_show_the_rest() {
    let Some(place) = Place::formatted() else { return };
    let (servers, runs) = three(&place);
    let (asked, hung) = (at(&place, &servers[1]), &servers[2]);
    let fs = connect(&place.address(3));
    fs.mkdir("/a", 0o755).expect("made");
    asked.json(&format!("subtree migrate /a {}", runs[2]));
    // Known at the asked one, too, or it would be sought where it was.
    wait_until("it is known where it is", || asked.has_a() == [runs[2]]);
    let ino = fs.stat("/a").expect("it is there").ino.0;
    hung.stop();
    let name = format!("s{}", hung.number);
    let line = format!("not reached: rank {} of {name}: ", runs[2]);
    // While the connection is there, and later when it was given up.
    for why in ["no answer within 1 s", "there is no connection to it"] {
        wait_until(why, || {
            let began = Instant::now();
            let said = asked.say("rank list", 0);
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
            assert!(said.contains(&line), "{said}");
            assert!(runs[..2].iter().all(|rank| said.contains(&format!("\n   {rank} serving"))), "{said}");
            said.contains(why)
        });
        if why.starts_with("no answer") {
            // The link is given up a moment later: what was sent before may have been done.
            let said = asked.post(&format!("/api/v1/migrate/{ino}/{}/{}", runs[0], runs[2]));
            assert!(said.starts_with("HTTP/1.0 504"), "{said}");
            assert!(said.contains("may have been done") || said.contains("nothing was done"), "{said}");
        }
    }
    let began = Instant::now();
    let status = asked.json("status");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let unreached = &status["unreached"][0];
    assert_eq!((&unreached["name"], &unreached["ranks"]), (&name.as_str().into(), &serde_json::json!([runs[2]])));
    assert_eq!(status["ranks"].as_array().map(Vec::len), Some(2));
    let list = asked.ranks();
    assert_eq!(list[runs[2] as usize], (runs[2], "unreached".to_string()), "{list:?}");
    for words in ["status", "top --count 1 --interval 0.05", "balancer show"] {
        let said = asked.say(words, 0);
        assert!(said.contains(&line), "{words}: {said}");
    }
    let said = asked.post(&format!("/api/v1/migrate/{ino}/{}/{}", runs[0], runs[2]));
    assert!(said.contains(&format!("{name}, which runs rank {}, is not reached", runs[2])), "{said}");
    assert!(said.contains("nothing was done"), "{said}");
    hung.wake();
    wait_until("it is there again", || asked.ranks() == serving(&[0, 1, 2]));
}

#[test]
fn an_order_for_a_leader_that_hangs_says_whether_it_may_have_been_done() {
    let Some(place) = Place::formatted() else { return };
    let (servers, runs) = three(&place);
    let (leader, asked) = (&servers[0], at(&place, &servers[1]));
    leader.stop();
    let said = asked.say("rank add", 1);
    let name = format!("s{}, which leads", leader.number);
    assert!(said.contains(&name) && said.contains("it may have been done, or be done later"), "{said}");
    wait_until("the connection is given up", || {
        let began = Instant::now();
        let said = asked.say(&format!("rank drain {}", runs[2]), 1);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        said.contains(&format!("{name}, is not reached")) && said.contains("nothing was done")
    });
    // What was sent before may be done when it wakes; after that, orders are carried out again.
    leader.wake();
    wait_until("it is reached", || !asked.say("rank list", 0).contains("not reached"));
    let there = asked.ranks().len() as u64;
    wait_until("it carries out orders", || {
        let args = [
            "rank",
            "handover",
            &runs[2].to_string(),
            "--to",
            &format!("s{}", servers[1].number),
            "--data",
            &asked.data,
        ];
        let output = std::process::Command::new(crate::servers::LOLIGO).args(args).output().expect("it runs");
        output.status.success()
    });
    until(&servers[1..2], |runs_now| runs_now[0].contains(&runs[2]));
    assert!([3, 4].contains(&there), "{there}");
}
