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
