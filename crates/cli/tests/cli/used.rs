//! That commands tell of the server that runs, and say what is missing before they make anything.

use super::run::{Place, Service, can_mount, loligo};

#[test]
fn the_settings_that_are_shown_are_those_that_the_running_server_was_started_with() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --set cache_bytes=32MiB --admin off", &[&data]);
    let shown = loligo("config --data {}", &[&data]).ok().out;
    assert!(
        shown.starts_with(&format!("# as the server that runs (process {}) was started\n", server.pid())),
        "{shown}"
    );
    assert!(shown.contains("cache_bytes = \"32MiB\"") && shown.contains("#   at the next start \"1GiB\""), "{shown}");
    assert!(shown.contains("admin = \"off\""), "{shown}");
    let json = loligo("config --data {} --json", &[&data]).ok().json();
    assert_eq!((&json["cache_bytes"]["value"], &json["cache_bytes"]["default"]), (&"32MiB".into(), &"1GiB".into()));
    std::fs::write(data.join("loligo.toml"), "look_us = 7\n").expect("written");
    let shown = loligo("config --data {}", &[&data]).ok().out;
    assert!(shown.contains("look_us = \"100\"") && shown.contains("at the next start \"7\""), "{shown}");
    // What is printed is a file of settings all the same.
    let file = place.path("printed.toml");
    std::fs::write(&file, &shown).expect("written");
    loligo("config --config {}", &[&file]).ok();
    assert_eq!(server.stop().0, 0);
    let shown = loligo("config --data {}", &[&data]).ok().out;
    assert!(shown.contains("look_us = \"7\"") && !shown.contains("server that runs"), "{shown}");
}

#[test]
fn the_number_of_rows_is_the_same_after_a_restart() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let rows = || {
        loligo("status --data {} --json", &[&data]).ok().json()["table"]["estimated_keys"].as_u64().expect("a number")
    };
    let server = Service::start("serve --data {} --admin off", &[&data]);
    loligo("bench md --data {} --phases create --files 2000 --keep", &[&data]);
    assert_eq!(server.stop().0, 0);
    for _ in 0..2 {
        let server = Service::start("serve --data {} --admin off", &[&data]);
        let rows = rows();
        assert!((2000..20_000).contains(&rows), "{rows}");
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn what_stands_in_the_way_of_a_mount_is_said_before_a_file_system_is_made() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, at) = (place.data(), place.path("file"));
    std::fs::write(&at, "in the way").expect("written");
    for daemon in ["", "--daemon"] {
        loligo(&format!("up --data {{}} --mount {{}} {daemon}"), &[&data, &at]).fails(1, &["cannot mount at"]);
        loligo(&format!("up --data {{}} --mount {{}} {daemon}"), &[&data, &at.join("below")])
            .fails(1, &["cannot mount at"]);
        loligo(&format!("up --data {{}} --mount {{}} {daemon}"), &[&data, place.dir.path()]).fails(1, &["not empty"]);
        let above = format!("up --data {{}} --mount {{}} --nonempty {daemon}");
        loligo(&above, &[&data, place.dir.path()]).fails(2, &["would cover its own data directory"]);
        loligo(&format!("up --data {{}} --mount /proc {daemon}"), &[&data]).fails(1, &["is in use"]);
        assert!(!data.exists(), "nothing was made");
    }
}

#[test]
fn hints_name_the_command_that_helps() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let serve = format!("loligo serve --data {}", data.display());
    loligo("mount --server {} {}", &[&data, &place.mount()]).fails(1, &["no server runs on", &serve]);
    Service::start("serve --data {} --admin off", &[&data]).kill();
    for words in ["mount --server {} {}", "mount --data {} {}"] {
        loligo(words, &[&data, &place.mount()])
            .fails(1, &["ended without stopping", &format!("try: bring it back: {serve}")]);
    }
    for words in ["down --data {}", "status --data {}"] {
        loligo(words, &[&data]).fails(1, &["ended without stopping", &format!("try: bring it back: {serve}")]);
    }
    // A directory by its name alone.
    let ran =
        super::run::loligo_in("mount --server data mnt", &[], |command| _ = command.current_dir(place.dir.path()));
    ran.fails(1, &["ended without stopping"]);
    let server = Service::start("serve --data {} --admin off", &[&data]);
    loligo("fsck --data {}", &[&data])
        .fails(1, &[&format!("try: stop it first: loligo down --data {}", data.display())]);
    loligo("down --data {}", &[&data]).ok();
    assert_eq!(server.ended().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
