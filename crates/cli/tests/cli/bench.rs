//! That the benchmark measures all that it says, with any speed.

use std::path::Path;

use super::run::{LOLIGO, Place, Service, can_mount, loligo, loligo_in};

const PHASES: [&str; 9] =
    ["create", "stat", "readdir", "rename", "unlink", "mkdir", "rmdir", "smallwrite", "smallread"];
const FIELDS: [&str; 11] = [
    "phase",
    "clients",
    "ops",
    "ops_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "server_cpu_us_per_op",
    "client_cpu_us_per_op",
    "errors",
];

/// One object a phase, with every field, and everything done.
#[track_caller]
fn check(text: &str, ops: u64) {
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let phases: Vec<_> = lines.iter().map(|line| line["phase"].as_str().expect("a phase")).collect();
    assert_eq!(phases, PHASES);
    for line in &lines {
        for field in FIELDS {
            let value = &line[field];
            assert!(value.is_number() || field == "phase", "{field} is {value} in {line}");
        }
        assert_eq!((&line["errors"], &line["ops"]), (&0.into(), &ops.into()), "{line}");
        let order = [&line["p50_us"], &line["p99_us"], &line["p999_us"], &line["max_us"]]
            .map(|n| n.as_f64().expect("a number"));
        assert!(order.is_sorted(), "{line}");
    }
}

#[test]
fn a_server_is_started_for_a_run_and_taken_away() {
    let place = Place::new();
    let ran = loligo_in("bench md --clients 2 --files 50 --json", &[], |command| {
        command.current_dir(place.dir.path());
    });
    check(&ran.ok().out, 100);
    assert!(std::fs::read_dir(place.dir.path()).expect("a directory").next().is_none(), "it left something");
}

#[test]
fn a_running_server_is_measured_in_one_shared_directory_and_left_as_it_was() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let text = loligo("bench md --data {} --clients 2 --files 50 --shared --json", &[&data]).ok().out;
    let readdir_sees_both = text.replace("\"ops\":200", "\"ops\":100");
    check(&readdir_sees_both, 100);
    let table = loligo("bench md --data {} --files 20 --phases create,unlink", &[&data]).ok().out;
    assert!(table.starts_with("phase") && table.lines().count() == 3, "{table}");
    assert_eq!(server.stop().0, 0);
    let dump = loligo("dump --data {}", &[&data]).ok().out;
    assert!(dump.contains("inodes=1 entries=0"), "{dump}");
}

#[test]
fn a_mount_is_measured_with_the_cpu_of_its_server() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mount = place.mount();
    let up = Service::start("up --data {} --mount {}", &[&place.data(), &mount]);
    let text = loligo("bench md --mount {} --clients 2 --files 50 --json", &[&mount]).ok().out;
    check(&text, 100);
    assert_eq!(up.stop().0, 0);
    assert!(Path::new(LOLIGO).is_file());
}

/// Sizes that take no time.
const COMPILE: &str = "compile:clients=2,dirs=3,units=2,headers=30,includes=6,jobs=2,one-tree=1";

/// List of everything below a directory: names, types, sizes and modes.
fn listed(dir: &Path) -> String {
    let script = r"cd $D && find . -mindepth 1 -type d -printf '%p %y %m\n' -o -printf '%p %y %m %s\n' | sort";
    super::run::sh(script, dir).ok().out
}

/// The same of the one run that a server keeps.
fn listed_natively(data: &Path) -> String {
    use loligo_driver::client::{Client, Options};
    let client = Client::connect(&loligo_driver::socket_in(data), Options::default()).expect("a connection");
    let fs = client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    let top = fs.readdir("/").expect("listed").first().expect("a run was kept").name.to_string();
    let (mut dirs, mut lines) = (vec![String::new()], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs.readdir(format!("/{top}{dir}")).expect("listed") {
            let path = format!("{dir}/{}", entry.name);
            let attr = fs.stat(format!("/{top}{path}")).expect("it is there");
            if entry.kind == loligo_types::Kind::Dir {
                lines.push(format!(".{path} d {:o}\n", attr.mode));
                dirs.push(path);
            } else {
                lines.push(format!(".{path} f {:o} {}\n", attr.mode, attr.size));
            }
        }
    }
    client.stop(super::run::PATIENCE).expect("it stops");
    lines.sort();
    lines.concat()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn check_workload(ran: super::run::Ran) -> serde_json::Value {
    let result = ran.ok().json();
    assert_eq!((&result["errors"], &result["complete"]), (&0.into(), &true.into()), "{result}");
    assert!(result["calls"].as_u64().expect("a number") > 0, "{result}");
    for kind in result["kinds"].as_array().expect("kinds") {
        let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|field| kind[field].as_f64().expect("a number"));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{kind}");
    }
    result
}

#[test]
fn the_same_seed_makes_the_same_tree_natively_on_a_mount_and_in_a_plain_directory() {
    let place = Place::new();
    let (data, plain, mount) = (place.data(), place.path("plain"), place.mount());
    std::fs::create_dir(&plain).expect("a directory");
    let words = |to: &str| format!("bench workload {COMPILE} --seed 7 --keep --json {to} {{}}");
    let result = check_workload(loligo(&words("--dir"), &[&plain]));
    assert!(result["misses"].as_u64().expect("a number") > 0, "headers are looked for where they are not: {result}");
    let phases = result["phases"].as_array().expect("phases");
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().expect("a name")).collect();
    assert_eq!((&result["through"], &names[..]), (&"mounted".into(), &["", "link"][..]));
    let calls: u64 = phases.iter().map(|phase| phase["calls"].as_u64().expect("a number")).sum();
    assert_eq!(calls, result["calls"], "each call is of a phase");
    let kept = std::fs::read_dir(&plain).expect("listed").next().expect("it was kept").expect("an entry").path();
    let expected = listed(&kept);
    assert!(expected.contains("/kernel/u0.o f 644 "), "{expected}");

    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --set balancer=none", &[&data]);
    let result = check_workload(loligo(&words("--data"), &[&data]));
    assert!(result["server_cpu_s"].is_number() && result["sessions"].is_u64(), "{result}");
    assert!(result["redirects"].is_u64(), "{result}");
    assert_eq!(result["clients"].as_array().map(Vec::len), Some(2));
    assert_eq!(sorted(&listed_natively(&data)), sorted(&expected));
    assert_eq!(server.stop().0, 0);

    if can_mount() {
        let data = place.path("data2");
        let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
        let result = check_workload(loligo(&words("--dir"), &[&mount]));
        assert!(result["server_cpu_s"].is_number(), "{result}");
        let kept = std::fs::read_dir(&mount).expect("listed").next().expect("it was kept").expect("an entry").path();
        assert_eq!(listed(&kept), expected);
        check_workload(loligo("bench workload untar:dirs=2,files=5 --dir {} --json", &[&mount]));
        assert_eq!(std::fs::read_dir(&mount).expect("listed").count(), 1, "what is not kept is removed");
        assert_eq!(up.stop().0, 0);
    }
}

#[test]
fn of_a_server_that_is_started_for_it_each_phase_of_a_workload_tells_what_it_cost_its_ranks() {
    let place = Place::new();
    let words = "bench workload tree-zipf:clients=2,fan=3,height=2,files=90,stats=200 --ranks 2 --json";
    let result = check_workload(loligo_in(words, &[], |command| {
        command.current_dir(place.dir.path());
    }));
    let phases = result["phases"].as_array().expect("phases");
    let told: Vec<_> = phases.iter().map(|phase| (phase["name"].as_str().expect("a name"), &phase["calls"])).collect();
    assert_eq!(told[1..], [("populate", &90.into()), ("stat", &200.into())]);
    for (phase, op) in [(&phases[0], "mkdir"), (&phases[1], "mknod")] {
        assert_eq!(phase["served"]["ops"][op], phase["calls"], "{phase}");
        assert_eq!(phase["served"]["ranks"].as_object().map(|ranks| ranks.len()), Some(2), "{phase}");
        assert!(phase["server_cpu_s"].is_number() && phase["length_s"].as_f64() > Some(0.0), "{phase}");
    }
    let all: u64 = phases.iter().map(|phase| phase["served"]["requests"].as_u64().expect("a number")).sum();
    assert_eq!(all, result["served"]["requests"]);
    assert!(std::fs::read_dir(place.dir.path()).expect("a directory").next().is_none(), "it left something");
}

#[test]
fn a_recorded_workload_is_replayed_without_errors_on_two_ranks_and_nothing_is_left() {
    let place = Place::new();
    let (data, trace) = (place.data(), place.path("trace"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --set balancer=none", &[&data]);
    let record = format!("bench workload {COMPILE},think=50 --data {{}} --json --record {{}}");
    let first = check_workload(loligo(&record, &[&data, &trace]));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(text.starts_with("# compile:") && text.contains(" - mark link\n"), "{text}");
    let again = check_workload(loligo("bench workload replay:{} --data {} --json", &[&trace, &data]));
    assert_eq!((&again["calls"], &again["misses"]), (&first["calls"], &first["misses"]));
    let timed = "bench workload replay:file={},timed=1 --dir {} --json";
    let there = check_workload(loligo(timed, &[&trace, place.dir.path()]));
    assert_eq!(there["calls"], first["calls"]);
    for spec in ["create-shared:clients=2,files=50,lanes=2,look=1", "create-own:clients=2,files=50"] {
        let text = loligo(&format!("bench workload {spec} --data {{}}"), &[&data]).ok().out;
        assert!(text.contains("create ") && text.contains("standard deviation"), "{text}");
    }
    assert_eq!(server.stop().0, 0);
    let dump = loligo("dump --data {}", &[&data]).ok().out;
    assert!(dump.contains("inodes=1 entries=0"), "{dump}");
}

#[test]
fn a_workload_ends_when_time_is_up_and_calls_that_fail_are_told() {
    let place = Place::new();
    let long = "bench workload create-own:clients=2,files=1000,think=60000000 --seconds 1 --dir {} --json";
    let result = loligo(long, &[place.dir.path()]).ok().json();
    assert_eq!((&result["complete"], &result["calls"]), (&false.into(), &2.into()), "{result}");
    let trace = place.path("trace");
    std::fs::write(&trace, "0 - mkdir /a\n0 0 rmdir /none\n0 0 stat /none\n0 1 rmdir /\n").expect("a file");
    let words = "bench workload replay:{} --dir {}";
    loligo(words, &[&trace, place.dir.path()]).fails(3, &["2 calls failed", "the first: rmdir /none: "]);
    assert_eq!(std::fs::read_dir(place.dir.path()).expect("listed").count(), 1, "only the trace is left");
}

#[test]
fn workloads_that_there_are_not_are_refused_by_name() {
    let place = Place::new();
    let trace = place.path("trace");
    std::fs::write(&trace, "0 0 stat /a/../../b\n").expect("a file");
    for (words, said) in [
        ("creat", "there is no workload `creat`"),
        ("untar:file=3", "no parameter `file`"),
        ("compile:clients=0", "clients=0"),
        ("create-own:clients=100,lanes=100", "10000 lanes"),
        ("replay:/no/such/trace", "/no/such/trace"),
        ("replay", "file=FILE"),
    ] {
        loligo(&format!("bench workload {words} --dir {{}}"), &[place.dir.path()]).fails(2, &[said]);
    }
    loligo("bench workload replay:{} --dir {}", &[&trace, place.dir.path()]).fails(2, &["line 1", "`..`"]);
    loligo("bench workload untar --dir {}", &[&place.path("none")]).fails(2, &["none is no directory"]);
    assert_eq!(std::fs::read_dir(place.dir.path()).expect("listed").count(), 1);
}
