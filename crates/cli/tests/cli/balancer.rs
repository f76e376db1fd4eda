//! Policies of the balancer as a user sets, watches and loses them.

use std::path::Path;
use std::sync::Arc;

use loligo_client::Call;
use loligo_driver::client::{Client, Options};
use loligo_types::{Cred, Ino, Kind, Name, Op, XattrMode};

use super::run::{Place, Service, loligo, loligo_in, until};

/// Fast ticks, and nothing in force but what a test puts there.
const SERVE: &str = "serve --data {} --ranks 2 --set balance_ms=1000 --set balancer=none";

fn write(place: &Place, name: &str, text: &str) -> std::path::PathBuf {
    let path = place.path(name);
    std::fs::write(&path, text).expect("there is room");
    path
}

fn in_force(data: &Path) -> serde_json::Value {
    loligo("balancer show --data {} --json", &[data]).ok().json()["in_force"].clone()
}

/// Half of what rank 0 has goes to rank 1, once.
const HALF: &str = "
when = 'whoami == 1 and #MDSs == 2 and MDSs[2].open and MDSs[1].load > 0.01 and MDSs[2].load < 0.01'
where = 'targets[2] = allmetaload / 2'
howmuch = ['half', 'big_first', 'small_first']
metaload = 'IWR'
mdsload = 'MDSs[i].all'
";

#[test]
fn a_policy_is_tried_put_in_force_and_moves_what_is_hot_and_every_step_is_told() {
    let place = Place::new();
    let data = place.data();
    let policy = write(&place, "half.toml", HALF);
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    assert!(in_force(&data).is_null());
    let tried = loligo("balancer set half {} --dry-run --data {}", &[&policy, &data]).ok().out;
    assert!(tried.contains("nothing was changed") && in_force(&data).is_null(), "{tried}");
    loligo("balancer set half {} --data {}", &[&policy, &data]).ok();
    assert_eq!((&in_force(&data)["name"], &in_force(&data)["version"]), (&"half".into(), &1.into()));
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("it serves");
    let cred = Arc::new(Cred::root());
    let call = |op: Op| client.call(&cred, Call::Op(op)).expect("it can be done").attr().expect("attributes").ino;
    let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
    let mkdir = |text| call(Op::Mkdir { dir: Ino::ROOT, name: name(text), mode: 0o755, umask: 0 });
    let dirs = ["a", "b", "c", "d"].map(mkdir);
    let dirs_named = ["/a", "/b", "/c", "/d"];
    let mut files = 0;
    until("a move", || {
        for dir in dirs {
            files += 1;
            let name = name(&files.to_string());
            call(Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 });
        }
        let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
        lines.as_array().is_some_and(|lines| lines.iter().any(|line| line["rank"] == 1))
    });
    let log = loligo("balancer log --data {}", &[&data]).ok().out;
    assert!(log.contains("to rank 1, load") && log.contains("policy 1 is in force: half, version 1"), "{log}");
    assert!(dirs_named.iter().any(|dir| log.contains(&format!("policy 1: directory {dir} to rank 1"))), "{log}");
    let explained = loligo("balancer explain --data {} --rank 0 -n 64", &[&data]).ok().out;
    assert!(explained.contains("when") && explained.contains("tick 1"), "{explained}");
    let metrics = loligo("balancer show --data {}", &[&data]).ok().out;
    assert!(metrics.contains("half, version 1 (policy 1)"), "{metrics}");
    drop(client);
    assert_eq!(server.stop().0, 0);
    // It is all remembered.
    let server = Service::start(SERVE, &[&data]);
    assert_eq!(in_force(&data)["name"], "half");
    assert!(loligo("balancer log --data {}", &[&data]).ok().out.contains("to rank 1, load"));
    loligo("balancer set greedy_spill --data {}", &[&data]).ok();
    let dry = loligo("balancer rollback --dry-run --data {}", &[&data]).ok().out;
    assert!(dry.contains("greedy_spill, version 1 -> half, version 1\nnothing was changed"), "{dry}");
    assert_eq!(in_force(&data)["name"], "greedy_spill");
    loligo("balancer rollback --data {}", &[&data]).ok();
    assert_eq!(in_force(&data)["name"], "half");
    loligo("balancer unset --data {}", &[&data]).ok();
    assert!(in_force(&data).is_null());
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_policy_that_fails_again_and_again_is_given_up_for_the_one_before_and_the_server_serves() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    loligo("balancer set loligo --data {}", &[&data]).ok();
    let endless = write(&place, "endless.toml", "when = 'while true do end'\nwhere = 'targets[2] = 1'\n");
    // What is tried first says so.
    loligo("balancer lint {}", &[&endless]).fails(3, &["endless cannot be used"]);
    loligo("balancer set endless {} --data {}", &[&endless, &data]).fails(3, &["cannot be used"]);
    // One that fails only on real clusters.
    let later = "when = 'if MDSs[whoami].age ~= nil and MDSs[1].req >= 0 and #MDSs == 2 and tick_ms == 1000 then while true do end end return false'\nwhere = ''\n";
    let later = write(&place, "later.toml", later);
    loligo("balancer set later {} --data {}", &[&later, &data]).ok();
    until("the policy before", || in_force(&data)["name"] == "loligo");
    let history = loligo("balancer history --data {} --json", &[&data]).ok().json();
    let last = history.as_array().and_then(|all| all.last()).expect("it has a history").clone();
    assert_eq!(last["failed"], true, "{history}");
    assert!(last["why"].as_str().is_some_and(|why| why.contains("policy 2 failed at rank")), "{history}");
    // What failed is not gone back to.
    loligo("balancer rollback --dry-run --data {}", &[&data]).fails(1, &["nothing to go back to", "balancer history"]);
    loligo("balancer rollback --data {}", &[&data]).fails(1, &["nothing to go back to"]);
    assert_eq!(server.stop().0, 0);
}

/// Ten thousand files or so, a few virtual seconds.
const TINY: &str = "--ranks 2 --seconds 6 --tick-ms 500 --workload create-own:clients=4,files=600,think=5000";

#[test]
fn a_policy_is_simulated_beside_another_one_without_a_server_and_the_same_comes_out_again() {
    let place = Place::new();
    let policy = write(&place, "half.toml", HALF);
    let (svg, words) = (place.path("both.svg"), format!("balancer simulate {{}} {TINY} --svg {{}}"));
    let first = loligo(&words, &[&policy, &svg]).ok().out;
    for word in ["half", "none", "moves", "requests sent on", "leases asked back", "calls a second over", "█"] {
        assert!(first.contains(word), "{word} is not in\n{first}");
    }
    let last = first.trim_end().lines().last().expect("a last line");
    assert!(last.contains("better by") || last.contains("equally fast"), "{last}");
    assert_eq!(first, loligo(&words, &[&policy, &svg]).ok().out);
    let picture = std::fs::read_to_string(&svg).expect("it was written");
    assert!(picture.ends_with("</svg>\n") && picture.matches("<svg").count() == 3);
    let json = loligo(&format!("balancer simulate {{}} {TINY} --against loligo --json"), &[&policy]).ok().json();
    assert_eq!((&json["runs"][0]["policy"], &json["runs"][1]["policy"]), (&"half".into(), &"loligo".into()));
    assert!(json["runs"][0]["moves"].as_array().is_some_and(|moves| !moves.is_empty()), "{json}");
}

#[test]
fn a_policy_is_simulated_beside_the_one_in_force_at_a_server() {
    let place = Place::new();
    let data = place.data();
    let policy = write(&place, "half.toml", HALF);
    let words = format!("balancer simulate loligo {TINY} --json");
    let policies = |words: &str, server: &Path| {
        let runs =
            loligo_in(words, &[], |command| _ = command.env("LOLIGO_SERVER", server)).ok().json()["runs"].clone();
        [0, 1].map(|at| runs[at]["policy"].as_str().map(str::to_string))
    };
    let both = |other: &str| [Some("loligo".to_string()), Some(other.to_string())];
    // An empty variable names no server.
    assert_eq!(policies(&words, Path::new("")), both("none"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    assert_eq!(policies(&words, &data), both("none"), "none is in force");
    loligo("balancer set half {} --data {}", &[&policy, &data]).ok();
    assert_eq!(policies(&words, &data), both("half (in force)"));
    let named = loligo(&format!("{words} --data {{}}"), &[&data]).ok().json();
    assert_eq!(named["runs"][1]["policy"], "half (in force)");
    assert!(named["runs"][1]["moves"].as_array().is_some_and(|moves| !moves.is_empty()), "{named}");
    assert_eq!(policies(&format!("{words} --against greedy_spill"), &data), both("greedy_spill"));
    assert_eq!(server.stop().0, 0);
    loligo(&format!("{words} --data {{}}"), &[&data]).fails(1, &["no server runs on"]);
}

#[test]
fn a_simulation_that_makes_no_sense_is_refused_and_a_policy_that_fails_is_told() {
    let place = Place::new();
    loligo("balancer simulate nothing", &[]).fails(2, &["no policy nothing", "loligo"]);
    loligo("balancer simulate loligo --workload dance", &[]).fails(2, &["no workload `dance`", "create-shared"]);
    let endless = write(&place, "endless.toml", "when = 'while true do end'\nwhere = 'targets[2] = 1'\n");
    loligo(&format!("balancer simulate {{}} {TINY} --seconds 2"), &[&endless]).fails(2, &["--seconds"]);
    let short = TINY.replace("--seconds 6", "--seconds 2");
    loligo(&format!("balancer simulate {{}} {short}"), &[&endless]).fails(3, &["endless failed", "when"]);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    let bad = write(&place, "bad.toml", "when = 'this is no Lua'\nwhere = ''\n");
    loligo("balancer set bad {} --data {}", &[&bad, &data]).fails(3, &["bad cannot be used"]);
    loligo("balancer set nothing --data {}", &[&data]).fails(2, &["no policy nothing", "loligo"]);
    loligo("balancer set ../x {} --data {}", &[&write(&place, "half.toml", HALF), &data])
        .fails(2, &["cannot be called"]);
    loligo("balancer show nothing --data {}", &[&data]).fails(1, &["no policy nothing"]);
    loligo("balancer rollback --data {}", &[&data]).fails(1, &["nothing to go back to"]);
    loligo("balancer explain --rank 7 --data {}", &[&data]).fails(1, &["no rank 7"]);
    assert!(loligo("balancer history --data {}", &[&data]).ok().out.contains("no policy was ever in force"));
    assert!(loligo("balancer log --data {}", &[&data]).ok().out.contains("nothing was decided"));
    assert_eq!(server.stop().0, 0);
}

#[test]
fn ranks_of_another_process_balance_by_the_same_policy_and_tell_of_it() {
    let place = Place::new();
    let data = place.data();
    let fails = write(
        &place,
        "fails.toml",
        "when = 'return #MDSs == 2 and whoami == 2 and tick_ms == 1000 and 1'\nwhere = ''\n",
    );
    loligo("format --data {}", &[&data]).ok();
    let server =
        Service::start("serve --data {} --ranks 2 --elsewhere 1 --set balance_ms=1000 --set balancer=none", &[&data]);
    let joined = Service::start("serve --data {} --join 1 --set balance_ms=1000", &[&data]);
    loligo("balancer set loligo --data {}", &[&data]).ok();
    let decided = |rank: usize| {
        let ranks = loligo("balancer show --data {} --json", &[&data]).ok().json()["ranks"].clone();
        ranks[rank]["policy"] == 1 && ranks[rank]["ticks"].as_u64().is_some_and(|ticks| ticks > 1)
    };
    until("both decide", || decided(0) && decided(1));
    until("it explains", || {
        loligo("balancer explain --rank 1 --data {}", &[&data]).ok().out.contains("loligo (policy 1), tick")
    });
    // One that fails only there is given up by the process that keeps the map.
    loligo("balancer set fails {} --data {}", &[&fails, &data]).ok();
    until("the policy before", || in_force(&data)["name"] == "loligo");
    let history = loligo("balancer history --data {}", &[&data]).ok().out;
    assert!(history.contains("policy 2 failed at rank 1"), "{history}");
    loligo("down --data {}", &[&data]).ok();
    assert_eq!((server.ended().0, joined.ended().0), (0, 0));
}

#[test]
fn a_directory_names_a_policy_of_its_own_and_goes_back_to_the_version_before_if_that_fails() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("it serves");
    let cred = Arc::new(Cred::root());
    let call = |op: Op| client.call(&cred, Call::Op(op)).expect("it can be done");
    let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
    let mkdir = |dir, text| {
        let made = call(Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 });
        made.attr().expect("attributes").ino
    };
    let named_by = |ino, policy: &str| {
        let (name, value) = (b"loligo.policy.balancer"[..].into(), policy.as_bytes().into());
        call(Op::SetXattr { ino, name, value, mode: XattrMode::Set });
    };
    let (named, other) = (mkdir(Ino::ROOT, "named"), mkdir(Ino::ROOT, "other"));
    let dirs = [mkdir(named, "a"), mkdir(named, "b"), other, mkdir(other, "c")];
    let files = std::cell::Cell::new(0);
    let work = || {
        for dir in dirs {
            files.set(files.get() + 1);
            let name = name(&files.get().to_string());
            call(Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 });
        }
    };
    named_by(named, "half");
    // A name of which there is no policy: nothing is done, and it is told what to do.
    let told = || loligo("status --data {}", &[&data]).ok().out;
    until("what is missing", || {
        work();
        told().contains("there is no policy half") && told().contains("loligo balancer add half FILE")
    });
    let policy = write(&place, "half.toml", HALF);
    let tried = loligo("balancer add half {} --dry-run --data {}", &[&policy, &data]).ok().out;
    assert!(tried.contains("nothing was changed"), "{tried}");
    loligo("balancer add half {} --data {}", &[&policy, &data]).ok();
    until("a move", || {
        work();
        let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
        lines.as_array().is_some_and(|lines| lines.iter().any(|line| line["rank"] == 1))
    });
    assert!(in_force(&data).is_null(), "it is nobody's but that directory's");
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    let is_below = |line: &serde_json::Value| [named, dirs[0], dirs[1]].iter().any(|dir| line["dir"] == dir.0);
    assert!(
        lines.as_array().is_some_and(|lines| lines.iter().filter(|line| line["rank"] == 1).all(is_below)),
        "{lines}"
    );
    assert!(loligo("balancer log --data {}", &[&data]).ok().out.contains("policy 1 (half): directory"));
    let shown = loligo("balancer show --data {}", &[&data]).ok().out;
    assert!(shown.contains("for what names half: version 1 (policy 1)"), "{shown}");
    // A version that fails on real clusters only is given up for the one before.
    let later = "when = 'if tick_ms == 1000 then error(\"later\") end return false'\nwhere = ''\n";
    let later = write(&place, "later.toml", later);
    loligo("balancer add half {} --data {}", &[&later, &data]).ok();
    let meant = || loligo("balancer show --data {} --json", &[&data]).ok().json()["named"].clone();
    until("the version before", || {
        work();
        meant()[0]["failed"] == serde_json::json!([2])
    });
    assert_eq!((&meant()[0]["name"], &meant()[0]["policy"]), (&"half".into(), &1.into()));
    let history = loligo("balancer history --data {}", &[&data]).ok().out;
    assert!(history.contains("for what names half: policy 2 failed at rank"), "{history}");
    // One that comes with Loligo need not be put down.
    named_by(other, "greedy_spill");
    until("a policy that comes with Loligo", || {
        work();
        loligo("balancer list --data {}", &[&data]).ok().out.contains("greedy_spill")
    });
    until("its decisions", || {
        work();
        let explained = loligo("balancer explain --data {} -n 64", &[&data]).ok().out;
        explained.contains("what names greedy_spill") && explained.contains("what names half")
    });
    drop(client);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn the_default_is_in_force_with_more_than_one_rank_until_something_else_is_chosen_be_it_none() {
    const BY_DEFAULT: &str = "serve --data {} --set balance_ms=1000";
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let shown = || loligo("balancer show --data {}", &[&data]).ok().out;
    // A rank alone has nothing to balance; with the second one there is.
    let server = Service::start(BY_DEFAULT, &[&data]);
    assert!(shown().contains("there is one rank; with more, loligo is"), "{}", shown());
    assert!(loligo("balancer list --data {}", &[&data]).ok().out.starts_with("come with Loligo"));
    loligo("rank add --data {}", &[&data]).ok();
    assert!(shown().contains("loligo, version 1 (policy 1), the default"), "{}", shown());
    until("both ranks decide by it", || {
        let ranks = loligo("balancer show --data {} --json", &[&data]).ok().json()["ranks"].clone();
        (0..2).all(|at| ranks[at]["policy"] == 1 && ranks[at]["ticks"].as_u64().is_some_and(|ticks| ticks > 1))
    });
    assert!(loligo("balancer list --data {}", &[&data]).ok().out.contains(", the default"));
    assert!(loligo("status --data {}", &[&data]).ok().out.contains("loligo, version 1 (policy 1), the default"));
    // It can be switched off, and stays so.
    let dry = loligo("balancer set none --dry-run --data {}", &[&data]).ok().out;
    assert!(dry.contains("loligo, version 1 -> none") && shown().contains("the default"), "{dry}");
    loligo("balancer set none --data {}", &[&data]).ok();
    assert!(shown().contains("no policy is in force: nothing is balanced"), "{}", shown());
    assert_eq!(server.stop().0, 0);
    let server = Service::start(BY_DEFAULT, &[&data]);
    assert!(in_force(&data).is_null());
    // What is chosen stays, too, until it is unset.
    loligo("balancer set greedy_spill --data {}", &[&data]).ok();
    assert!(!shown().contains("the default"));
    let unset = loligo("balancer unset --data {}", &[&data]).ok().out;
    assert!(unset.contains("loligo, version 1, the default, is in force"), "{unset}");
    assert_eq!(server.stop().0, 0);
    // The configuration may say otherwise.
    let server = Service::start("serve --data {} --set balance_ms=1000 --set balancer=none", &[&data]);
    assert!(in_force(&data).is_null());
    assert_eq!(server.stop().0, 0);
    let server = Service::start("serve --data {} --set balancer=greedy_spill_even", &[&data]);
    assert_eq!(in_force(&data)["name"], "greedy_spill_even");
    assert_eq!(server.stop().0, 0);
    let server = Service::start(BY_DEFAULT, &[&data]);
    assert_eq!((&in_force(&data)["name"], &in_force(&data)["version"]), (&"loligo".into(), &1.into()));
    loligo("balancer set none {} --data {}", &[&write(&place, "half.toml", HALF), &data])
        .fails(2, &["`none` is no policy"]);
    assert_eq!(server.stop().0, 0);
    loligo("serve --data {} --set balancer=nothing", &[&data]).fails(2, &["balancer", "nothing", "greedy_spill"]);
    loligo("fsck --data {}", &[&data]).ok();
}
