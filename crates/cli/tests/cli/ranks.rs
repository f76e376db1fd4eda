//! Several ranks: started, shown, and what is refused of them.

use std::sync::Arc;

use loligo_driver::client::{Client, Options};
use loligo_types::Cred;

use super::run::{Place, Service, can_mount, loligo, sh};

/// A server of three ranks, on a file system that had one.
fn served(place: &Place) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    Service::start("serve --data {} --ranks 3 --set balancer=none", &[&place.data()])
}

#[test]
fn ranks_are_listed_with_where_they_listen_and_counted_apart() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let ranks = loligo("rank list --data {} --json", &[&data]).ok().json();
    for (at, name) in ["loligo.sock", "loligo-1.sock", "loligo-2.sock"].into_iter().enumerate() {
        assert_eq!((&ranks[at]["rank"], &ranks[at]["state"]), (&at.into(), &"serving".into()));
        assert!(ranks[at]["addresses"][0].as_str().expect("an address").ends_with(name), "{ranks}");
        assert!(ranks[at]["requests_per_s"].is_u64() && ranks[at]["cache_inodes"].is_u64(), "{ranks}");
    }
    assert_eq!(ranks.as_array().map(Vec::len), Some(3));
    for words in ["rank list --data {}", "status --data {}", "top --data {} --count 1 --interval 0.1"] {
        let text = loligo(words, &[&data]).ok().out;
        for word in ["requests/s", "inodes", "journal", "queue"] {
            assert!(text.contains(word), "no {word} in {text}");
        }
        let lines = text.lines().filter(|line| line.contains(" serving ")).count();
        assert!(lines >= 3, "three ranks are three lines: {text}");
    }
    let list = loligo("rank list --data {}", &[&data]).ok().out;
    assert!(list.contains("loligo-2.sock"), "{list}");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_file_system_of_three_ranks_starts_with_three_unless_told_otherwise_and_never_with_two() {
    let place = Place::new();
    let data = place.data();
    assert_eq!(served(&place).stop().0, 0);
    loligo("serve --data {} --ranks 2", &[&data]).fails(2, &["3 ranks", "--ranks 3"]);
    let server = Service::start("serve --data {}", &[&data]);
    assert_eq!(loligo("rank list --data {} --json", &[&data]).ok().json().as_array().map(Vec::len), Some(3));
    assert_eq!(server.stop().0, 0);
}

#[test]
fn the_root_is_rank_0s_until_a_line_says_otherwise() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    assert_eq!((&lines[0]["path"], &lines[0]["rank"], &lines[0]["frag"]), (&"/".into(), &0.into(), &"*".into()));
    assert!(loligo("subtree list --data {}", &[&data]).ok().out.contains("fragment"));
    assert_eq!(server.stop().0, 0);
}

#[test]
fn what_cannot_be_moved_or_pinned_is_refused_with_a_remedy() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    for words in ["subtree migrate --data {} / 3", "subtree pin --data {} / 3"] {
        loligo(words, &[&data]).fails(1, &["no rank 3", "0, 1, 2", "--ranks 4"]);
    }
    loligo("subtree migrate --data {} /none 1", &[&data]).fails(1, &["/none", "no such file"]);
    loligo("subtree pin --data {} none 1", &[&data]).fails(2, &["none", "slash", "/none"]);
    loligo("subtree unpin {}", &[place.dir.path()]).fails(1, &["not inside a Loligo mount", "--data"]);
    loligo("subtree migrate --data {} / many", &[&data]).fails(2, &["many"]);
    let state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data.join("server.json")).expect("a file")).expect("JSON");
    // Orders over the address, where anybody may connect, are not taken.
    let mut stream = std::net::TcpStream::connect(state["admin"].as_str().expect("an address")).expect("a connection");
    std::io::Write::write_all(&mut stream, b"POST /api/v1/migrate/1/1/0 HTTP/1.0\r\n\r\n").expect("a request");
    let answer = std::io::read_to_string(stream).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 401"), "{answer}");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn directories_move_to_and_fro_and_so_do_those_below_them() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    for dir in ["/a", "/a/b", "/a/b/c"] {
        fs.mkdir(dir, 0o755).expect("made");
    }
    fs.write("/a/b/c/file", *b"content").expect("written");
    let moved = |dir: &str, to: u16| {
        let done = loligo(&format!("subtree migrate --data {{}} {dir} {to} --json"), &[&data]).ok().json();
        (done["from"].clone(), done["to"].clone(), done["state"].clone())
    };
    assert_eq!(moved("/a", 2), (0.into(), 2.into(), "done".into()));
    assert_eq!(moved("/a/b/c", 1), (2.into(), 1.into(), "done".into()));
    loligo("subtree migrate --data {} /a/b/c 1", &[&data]).fails(1, &["at rank 1 already"]);
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    for (path, rank) in [("/", 0), ("/a", 2), ("/a/b/c", 1)] {
        let line = lines.as_array().and_then(|all| all.iter().find(|line| line["path"] == path));
        assert_eq!(line.map(|line| &line["rank"]), Some(&rank.into()), "{path} in {lines}");
    }
    assert_eq!(fs.read("/a/b/c/file").expect("read"), b"content");
    client.stop(std::time::Duration::from_secs(20)).expect("it stops");
    assert_eq!(server.stop().0, 0);
}

/// Page of the admin socket at a path.
fn page(data: &std::path::Path, path: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(data.join("admin.sock")).expect("a connection");
    std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("a request");
    std::io::read_to_string(stream).expect("an answer")
}

#[test]
fn ranks_are_added_drained_and_gone_and_kill_does_not_bring_them_back() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    assert_eq!(loligo("rank add 2 --data {} --json", &[&data]).ok().json()["ranks"], serde_json::json!([1, 2]));
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/a", 0o755).expect("made");
    loligo("subtree migrate --data {} /a 1", &[&data]).ok();
    fs.write("/a/file", *b"content").expect("written");
    loligo("subtree pin --data {} /a 1", &[&data]).ok();
    loligo("rank drain 1 --data {}", &[&data]).fails(1, &["rank 1 cannot be drained", "subtree unpin"]);
    loligo("rank drain 9 --data {}", &[&data]).fails(1, &["no rank 9", "0, 1, 2"]);
    loligo("rank undrain 1 --data {}", &[&data]).fails(1, &["not being drained"]);
    loligo("subtree unpin --data {} /a", &[&data]).ok();
    let text = loligo("rank drain 1 --wait --data {}", &[&data]).ok().out;
    assert!(text.contains("removed"), "{text}");
    let numbers = |data: &std::path::PathBuf| {
        let ranks = loligo("rank list --data {} --json", &[data]).ok().json();
        let all = ranks.as_array().expect("a list").iter();
        all.map(|rank| rank["rank"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&data), [0, 2]);
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    // The server is killed while the next one is drained.
    // It may be there already.
    let _ = loligo("subtree migrate --data {} /a 2", &[&data]);
    loligo("rank drain 2 --data {}", &[&data]).ok();
    server.kill();
    let server = Service::start("serve --data {}", &[&data]);
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while numbers(&data) != [0] {
        assert!(std::time::Instant::now() < until, "rank 2 does not go: {}", page(&data, "/api/v1/rank/drain/2"));
    }
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    client.stop(std::time::Duration::from_secs(20)).expect("it stops");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn the_first_rank_is_drained_through_kills_and_clients_find_the_others_at_the_same_address() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --set balancer=none", &[&data]);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/a", 0o755).expect("made");
    fs.write("/a/file", *b"content").expect("written");
    loligo("rank drain 0 --data {}", &[&data]).ok();
    server.kill();
    // Somebody changes their mind, and then not.
    let server = Service::start("serve --data {}", &[&data]);
    if loligo("rank undrain 0 --data {}", &[&data]).code == 0 {
        assert_eq!(fs.read("/a/file").expect("read"), b"content");
        loligo("rank drain 0 --data {}", &[&data]).ok();
    }
    server.kill();
    let server = Service::start("serve --data {}", &[&data]);
    wait_for_ranks(&data, &[1]);
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    server.kill();
    let server = Service::start("serve --data {}", &[&data]);
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    // Whoever begins now begins at rank 1, at the address that was rank 0's.
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    assert_eq!(lines[0]["path"], "/");
    assert_eq!(lines[0]["rank"], 1);
    assert_eq!(loligo("rank add --data {} --json", &[&data]).ok().json()["ranks"], serde_json::json!([2]));
    loligo("subtree migrate --data {} /a 2", &[&data]).ok();
    assert_eq!(fs.read("/a/file").expect("read"), b"content");
    client.stop(std::time::Duration::from_secs(20)).expect("it stops");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

/// Waits until these are the ranks.
fn wait_for_ranks(data: &std::path::Path, wanted: &[u64]) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let ranks = loligo("rank list --data {} --json", &[data]).ok().json();
        let all = ranks.as_array().expect("a list").iter();
        let there: Vec<u64> = all.map(|rank| rank["rank"].as_u64().expect("a number")).collect();
        if there == wanted {
            return;
        }
        let state = page(data, &format!("/api/v1/rank/drain/{}", there[0]));
        assert!(std::time::Instant::now() < until, "there are {there:?}: {state}");
    }
}

#[test]
fn a_mount_that_began_with_one_rank_grows_while_it_is_used() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let server = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("mkdir $D/a && echo before > $D/a/file && exec 9>$D/a/open && echo one >&9 && mkdir $D/a/b", &mount).ok();
    assert_eq!(loligo("rank add 2 --data {} --json", &[&data]).ok().json()["ranks"], serde_json::json!([1, 2]));
    loligo("subtree migrate --data {} /a 1", &[&data]).ok();
    sh("cat $D/a/file && echo after >> $D/a/file && cp -a $D/a $D/c && ls -lR $D", &mount).ok();
    loligo("subtree migrate --data {} /c 2", &[&data]).ok();
    sh("mv $D/a/file $D/c/moved && [ \"$(cat $D/c/moved)\" = \"$(printf 'before\\nafter')\" ]", &mount).ok();
    loligo("rank drain 0 --data {}", &[&data]).fails(1, &["rank 0 cannot be drained", "loligo up"]);
    loligo("rank drain 1 --wait --data {}", &[&data]).ok();
    sh("cat $D/c/moved $D/a/open && touch $D/a/x", &mount).ok();
    server.kill();
    let server = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("cat $D/c/moved $D/a/open $D/a/x", &mount).ok();
    loligo("rank drain 0 --wait --data {}", &[&data]).ok();
    sh("cat $D/c/moved $D/a/open $D/a/x && touch $D/y", &mount).ok();
    assert_eq!(server.stop().0, 0);
    // With one rank left the mount lives on its thread again.
    let server = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("cat $D/c/moved $D/a/x $D/y && rm -r $D/a", &mount).ok();
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
