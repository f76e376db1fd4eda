//! `loligo doctor`: what it finds on this machine, and what it says where something is missing.

use super::run::{Place, can_mount, loligo, sh};

fn state<'a>(found: &'a serde_json::Value, what: &str) -> Option<&'a str> {
    found["checks"].as_array()?.iter().find(|check| check["what"] == what)?["state"].as_str()
}

#[test]
fn a_machine_that_can_mount_is_found_able_and_nothing_is_left_on_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.path("not/yet");
    let found = loligo("doctor {} --json", &[&data]).ok().json();
    assert_eq!(found["ok"], true, "{found}");
    for what in ["kernel", "fuse", "names", "files", "memory", "cpu", "ceph", "disk", "sync"] {
        assert!(matches!(state(&found, what), Some("ok" | "note")), "{what}: {found}");
    }
    assert!(!data.exists() && std::fs::read_dir(place.dir.path()).expect("there").next().is_none());
    let text = loligo("doctor", &[]).ok().out;
    assert!(text.starts_with("ok       kernel   Linux ") && text.contains(" fuse     protocol 7."), "{text}");
}

#[test]
fn too_few_open_files_and_a_directory_that_cannot_be_written_are_problems() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_loligo");
    let limited = sh(&format!("ulimit -n 100; {program} doctor --json"), place.dir.path());
    limited.fails(3, &["problem"]);
    let text = loligo("doctor /proc", &[]).fails(3, &["problem"]).out;
    assert!(text.contains("PROBLEM  sync     /proc: "), "{text}");
}
