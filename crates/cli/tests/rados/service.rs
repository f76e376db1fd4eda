//! The commands on a store in a cluster: made, served, refused, found again.

use crate::servers::{Place, connect};

#[test]
fn a_file_system_is_made_served_and_found_again_by_its_directory_alone() {
    let Some(place) = Place::new() else { return };
    let said = place.run(&["serve"], 1);
    assert!(said.contains("loligo format --store"), "{said}");
    place.run(&["format"], 0);
    let said = place.run(&["format"], 1);
    assert!(said.contains("already holds the file system"), "{said}");
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let fs = connect(&place.address(1));
    fs.write("/file", b"content".as_slice()).expect("there is space");
    fs.sync_all().expect("there is space");
    server.end();
    // What else is needed stands in the directory.
    let fsck = std::process::Command::new(crate::servers::LOLIGO).args(["fsck", "--data"]).arg(place.data(0)).output();
    let fsck = fsck.expect("it runs");
    let said = String::from_utf8_lossy(&fsck.stdout);
    assert!(fsck.status.success(), "{said}{}", String::from_utf8_lossy(&fsck.stderr));
    let mut server = place.serve(0, &[]);
    server.until_serves();
    assert_eq!(connect(&place.address(1)).read("/file").as_deref(), Ok(b"content".as_slice()));
}

#[test]
fn a_second_server_is_told_of_the_first_one_and_of_what_it_may_do() {
    let Some(place) = Place::formatted() else { return };
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let other = Place { store: place.store.clone(), ..Place::new().expect("there is a cluster") };
    let said = other.run(&["up", "--mount", &other.path().join("m").display().to_string()], 1);
    assert!(said.contains("in use by another server: s0") && said.contains("loligo serve"), "{said}");
    let said = other.run(&["format"], 1);
    assert!(said.contains("in use by another server (s0)"), "{said}");
    let said = place.run(&["serve"], 1);
    assert!(said.contains("another server on this machine has"), "{said}");
    let mut second = other.serve(1, &[]);
    second.until_says("standing by for");
    let said = other.say(&["fsck", "--data", &other.data(1).display().to_string()], 1);
    assert!(said.contains("in use by"), "{said}");
}

#[test]
fn a_store_that_cannot_be_is_refused_with_what_to_do() {
    let Some(place) = Place::new() else { return };
    let bad = Place { store: "rados:no such pool".into(), ..Place::new().expect("there is a cluster") };
    let said = bad.run(&["format"], 1);
    assert!(said.contains("no such pool") && said.contains("does not exist"), "{said}");
    let bad = Place { store: "ceph:pool".into(), ..Place::new().expect("there is a cluster") };
    assert!(bad.run(&["format"], 2).contains("rados:POOL"));
    let bad = Place { conf: place.path().join("none").display().to_string(), ..Place::new().expect("a cluster") };
    let said = bad.run(&["format"], 2);
    assert!(said.contains("Ceph's settings") && said.contains("No such file"), "{said}");
}

#[test]
fn a_manager_of_services_is_told_that_a_server_stands_by_and_that_it_has_taken_over() {
    let Some(place) = Place::formatted() else { return };
    let path = place.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("a new path");
    manager.set_read_timeout(Some(crate::servers::PATIENCE)).expect("a socket");
    let hears = || {
        let mut buffer = [0; 500];
        let len = manager.recv(&mut buffer).expect("it is told");
        String::from_utf8_lossy(&buffer[..len]).trim_end().to_string()
    };
    let mut first = place.serve(0, &[]);
    first.until_serves();
    let mut program = std::process::Command::new(crate::servers::LOLIGO);
    program.env("NOTIFY_SOCKET", &path);
    let second = place.serve_by(program, 1, &[]);
    assert!(hears().starts_with("READY=1\nSTATUS=standing by for "));
    first.end();
    assert_eq!(hears(), "STATUS=running rank 0");
    second.end();
}
