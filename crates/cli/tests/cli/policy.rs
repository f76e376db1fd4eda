//! Policies of directories: checked, set, shown and taken away, at a server and over a mount.

use std::path::{Path, PathBuf};

use super::run::{Place, Service, can_mount, loligo, loligo_in, sh};

fn write(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.path(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn served(place: &Place) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Service::start("serve --data {}", &[&place.data()]);
    let client = loligo_driver::client::Client::connect(
        &loligo_driver::socket_in(&place.data()),
        loligo_driver::client::Options::default(),
    );
    let client = client.expect("a connection");
    let fs = client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    for dir in ["/a", "/a/b", "/a/b/c"] {
        fs.mkdir(dir, 0o755).expect("a directory");
    }
    server
}

/// Output of `loligo policy show` for a path in the file system.
fn shown(data: &Path, path: &str) -> serde_json::Value {
    loligo(&format!("policy show --data {{}} {path} --json"), &[data]).ok().json()
}

#[test]
fn presets_are_listed_with_cell_pipeline_and_purpose() {
    let table = loligo("policy presets", &[]).ok().out;
    for words in [
        "posix    strong/global   rpcs + stream",
        "relaxed  strong/none     rpcs ",
        "batchfs  weak/local",
        "deltafs",
        "hdfs",
        "ramdisk",
    ] {
        assert!(table.contains(words), "no {words} in {table}");
    }
    let all = loligo("policy presets --json", &[]).ok().json();
    assert_eq!(all.as_array().map(Vec::len), Some(6));
    assert_eq!((&all[5]["name"], &all[5]["cell"]), (&"ramdisk".into(), &"invisible/none".into()));
    assert_eq!(all[5]["pipeline"], "append_client_journal");
}

#[test]
fn a_file_is_checked_without_a_server_and_what_is_wrong_is_pointed_at() {
    let place = Place::new();
    let good = write(&place, "good.toml", "consistency = 'weak'\ndurability = 'local persist'\n");
    let said = loligo("policy check {}", &[&good]).ok().out;
    assert!(said.contains("weak/local, append_client_journal + local_persist + volatile_apply"), "{said}");
    let warned = write(&place, "warned.toml", "pipeline = 'rpcs + stream + local_persist'");
    assert!(loligo("policy check {}", &[&warned]).ok().err.contains("warning: `local_persist` adds nothing"));
    let bad = write(&place, "bad.toml", "# mine\ndurability = 'local persit'\n");
    let caret = format!("\n  durability = 'local persit'\n  {}^\n", " ".repeat(14));
    let words = "bad.toml:2:15: `local persit` is no mechanism; did you mean `local_persist`?";
    loligo("policy check {}", &[&bad]).fails(3, &[words, &caret]);
    let binary = place.path("binary");
    std::fs::write(&binary, b"\xff\xfe").expect("a file");
    loligo("policy check {}", &[&binary]).fails(3, &["UTF-8"]);
    loligo("policy check {}", &[&place.path("none")]).fails(1, &["none", "o such file"]);
    loligo("policy check /dev/zero", &[]).fails(3, &["longer than 4096 bytes"]);
    let piped = loligo_in("policy check -", &[], |command| {
        command.stdin(std::fs::File::open(&bad).expect("a file"));
    });
    piped.fails(3, &["stdin:2:15"]);
}

#[test]
fn the_nearest_directory_with_a_policy_counts_and_without_any_the_default() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let root = shown(&data, "/a/b");
    assert_eq!((&root["from"], &root["cell"], &root["to_root"]), (&().into(), &"strong/global".into(), &true.into()));
    let set = loligo("policy set --data {} /a batchfs", &[&data]).ok().out;
    for words in ["against the default, posix", "strong -> weak (weaker)", "global -> local (weaker)", "by policy"] {
        assert!(set.contains(words), "no {words} in {set}");
    }
    let file = write(&place, "mine.toml", "# mine\npreset = 'hdfs'\nallocated_inodes = 5000\nsync_interval = '10s'\n");
    let dry = loligo("policy set --data {} /a/b {} --dry-run", &[&data, &file]).ok().out;
    assert!(dry.contains("against the policy of /a") && dry.contains("local -> global (stronger)"), "{dry}");
    assert!(dry.contains("nothing was changed") && shown(&data, "/a/b")["from"] == "/a", "{dry}");
    loligo("policy set --data {} /a/b {}", &[&data, &file]).ok();
    let below = shown(&data, "/a/b/c");
    assert_eq!((&below["from"], &below["cell"]), (&"/a/b".into(), &"weak/global".into()));
    assert_eq!((&below["allocated_inodes"], &below["sync_interval_ms"]), (&5000.into(), &10_000.into()));
    // It is all remembered.
    assert_eq!(server.stop().0, 0);
    let server = Service::start("serve --data {}", &[&data]);
    assert_eq!(shown(&data, "/a")["from"], "/a");
    let unset = loligo("policy unset --data {} /a/b", &[&data]).ok().out;
    assert!(unset.contains("at /a/b the policy of /a is in force: weak/local"), "{unset}");
    loligo("policy unset --data {} /a/b", &[&data]).fails(1, &["/a/b has no policy of its own", "policy show"]);
    loligo("policy unset --data {} /a", &[&data]).ok();
    assert!(shown(&data, "/a/b/c")["from"].is_null());
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_placement_is_a_field_of_a_policy_set_and_shown_by_either_and_told_where_it_is_inherited() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let placement = |path: &str| {
        let said = shown(&data, path);
        ["placement", "placement_from", "placement_why"].map(|key| said[key].as_str().unwrap_or("-").to_string())
    };
    assert_eq!(placement("/a"), ["subtree", "-", "the default"]);
    let many = write(&place, "many.toml", "# many\nplacement = 'giga'\n");
    let dry = loligo("policy set --data {} /a {} --dry-run", &[&data, &many]).ok().out;
    assert!(
        dry.contains("placement: subtree -> giga: directories that are made there from now on each get a rank"),
        "{dry}"
    );
    assert_eq!(placement("/a")[0], "subtree");
    loligo("policy set --data {} /a {}", &[&data, &many]).ok();
    assert_eq!(placement("/a"), ["giga", "/a", "/a says so"]);
    assert_eq!(placement("/a/b"), ["subtree", "-", "the default; /a says giga, and /a/b was not made by that"]);
    let client = loligo_driver::client::Client::connect(
        &loligo_driver::socket_in(&data),
        loligo_driver::client::Options::default(),
    );
    let fs = client.expect("a connection").fs(std::sync::Arc::new(loligo_types::Cred::root()));
    let made = fs.mkdir("/a/made", 0o755).expect("a directory");
    assert_eq!(made.ino.zeroth_rank(), Some(loligo_types::Rank(0)));
    fs.mkdir("/a/made/below", 0o755).expect("a directory");
    assert_eq!(placement("/a/made/below"), ["giga", "/a", "/a says so, and /a/made/below was made below it"]);
    // One truth: what the one command sets, the other shows.
    loligo("subtree place --data {} /a table", &[&data]).ok();
    assert_eq!(placement("/a"), ["table", "/a", "/a says so"]);
    assert!(loligo("policy show --data {} /a", &[&data]).ok().out.contains("placement         table (/a says so)"));

    // What does not go together is refused whichever is said first, and nothing of it holds.
    let both = write(&place, "both.toml", "preset = 'batchfs'\nplacement = 'giga'\n");
    let words = ["both.toml:2:13", "ranks of their own", "at one rank", "say `subtree`", "^"];
    loligo("policy set --data {} /a {}", &[&data, &both]).fails(3, &words);
    loligo("subtree place --data {} /a/made giga", &[&data]).ok();
    for path in ["/a/made", "/a/made/below"] {
        let refused = loligo(&format!("policy set --data {{}} {path} batchfs"), &[&data]);
        refused.fails(3, &[path, "placement giga", "placement = \"subtree\"", "loligo subtree place"]);
    }
    loligo("policy set --data {} /a/b batchfs", &[&data]).ok();
    loligo("subtree place --data {} /a/b giga", &[&data])
        .fails(3, &["/a/b: its policy permits", "loligo policy unset"]);
    assert_eq!(placement("/a"), ["table", "/a", "/a says so"]);

    // With the policy ends what it named.
    let unset = loligo("policy unset --data {} /a", &[&data]).ok().out;
    assert!(unset.contains("placement: table -> subtree: "), "{unset}");
    assert_eq!(placement("/a"), ["subtree", "-", "the default"]);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_policy_below_the_floor_of_a_directory_above_is_refused_with_the_levels() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let floor = write(&place, "floor.toml", "[floor]\nconsistency = 'weak'\ndurability = 'global'\n");
    loligo("policy set --data {} / {}", &[&data, &floor]).ok();
    loligo("policy set --data {} /a posix", &[&data]).ok();
    for dry in ["", "--dry-run"] {
        let refused = loligo(&format!("policy set --data {{}} /a/b ramdisk {dry}"), &[&data]);
        refused.fails(3, &["invisible is below weak", "none is below global", "(/)", "lower the floor of /"]);
    }
    assert_eq!(shown(&data, "/a/b")["from"], "/a");
    loligo("policy set --data {} /a/b hdfs", &[&data]).ok();
    assert_eq!(server.stop().0, 0);
}

#[test]
fn what_is_no_policy_or_no_directory_is_refused_with_a_remedy() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    loligo("policy set --data {} /a bachfs", &[&data]).fails(2, &["bachfs", "did you mean batchfs?", "ramdisk"]);
    let bad = write(&place, "bad.toml", "pipeline = 'append_client_journal + volatile_apply + local_persist'");
    loligo("policy set --data {} /a {}", &[&data, &bad]).fails(3, &["bad.toml:1:", "crash in the apply", "^"]);
    loligo("policy set --data {} /none posix", &[&data]).fails(1, &["/none", "no such file"]);
    loligo("policy set --data {} a posix", &[&data]).fails(2, &["slash"]);
    loligo("policy set {} posix", &[place.dir.path()]).fails(1, &["not inside a Loligo mount", "--data"]);
    loligo("policy show {}", &[place.dir.path()]).fails(1, &["not inside a Loligo mount"]);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn what_is_in_force_today_is_said_where_the_policy_says_something_else() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let said = || loligo("policy show --data {} /a", &[&data]).ok().out;
    let posix =
        "All clients see a change as soon as the call that made it returns. A change survives the crash of any client";
    assert!(said().contains(posix) && !said().contains("decoupled.") && !said().contains("given more"), "{}", said());
    loligo("policy set --data {} /a batchfs", &[&data]).ok();
    let weak = "all others when it has been merged. A change survives crashes of the machine that made it durable";
    let today = "Not decoupled now: behaves as posix. When decoupled: ";
    assert!(said().contains(weak) && said().contains(today), "{}", said());
    assert_eq!(shown(&data, "/a")["now"]["cell"], "strong/global");
    for durability in ["none", "local"] {
        let file = write(&place, "strong.toml", &format!("durability = '{durability}'"));
        loligo("policy set --data {} /a {}", &[&data, &file]).ok();
        assert!(
            said().contains("as it was at one moment, and takes back at most what was answered in 5s"),
            "{}",
            said()
        );
        assert!(said().contains("With several ranks that holds for what lies at the rank"), "{}", said());
        let json = shown(&data, "/a");
        let cell = format!("strong/{durability}");
        assert_eq!((&json["cell"], &json["now"]["cell"]), (&cell.as_str().into(), &cell.as_str().into()));
        assert_eq!(json["lag_ms"], 5000);
    }
    assert_eq!(server.stop().0, 0);
}

#[test]
fn over_a_mount_owners_set_policies_files_stand_under_them_and_a_part_of_the_tree_says_what_it_does_not_see() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let server = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("mkdir -p $D/a/b; touch $D/a/b/f; ln -s a/b $D/s; chown 1000 $D/a/b", &mount).ok();
    let (a, b) = (mount.join("a"), mount.join("a/b"));
    loligo("policy set {} deltafs", &[&a]).ok();
    let shown = |path: &Path| loligo("policy show {} --json", &[path]).ok().json();
    let from = |path: &Path| shown(path)["from"].as_str().expect("a directory").to_string();
    let real = |path: &Path| path.canonicalize().expect("it is there").display().to_string();
    assert_eq!(from(&b.join("f")), real(&a));
    assert_eq!(from(&mount.join("s")), real(&a));
    loligo("policy set {} posix", &[&b.join("f")]).fails(1, &["is no directory"]);
    // As any other attribute, by the owner; no tool takes it along.
    sh("setpriv --reuid 1000 --clear-groups setfattr -n loligo.policy.subtree -v 'preset=\"hdfs\"' $D/a/b", &mount)
        .ok();
    assert_eq!((from(&b), shown(&b)["cell"].clone()), (real(&b), "weak/global".into()));
    let refused =
        sh("setpriv --reuid 1000 --clear-groups setfattr -n loligo.policy.subtree -v 'blind=true' $D/a", &mount);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_ne!(sh("setfattr -n loligo.policy.subtree -v nonsense $D/a", &mount).code, 0);
    sh("cp -a $D/a/b $D/copy; ! getfattr -n loligo.policy.subtree $D/copy; mv $D/a/b $D/moved", &mount).ok();
    assert_eq!(from(&mount.join("moved/f")), real(&mount.join("moved")), "a policy goes along with its directory");
    let part = place.path("part");
    let other = Service::start("mount --data {} --path /a {}", &[&data, &part]);
    assert!(!shown(&part)["to_root"].as_bool().expect("told"));
    assert!(loligo("policy show {}", &[&part]).ok().out.contains("not the root of the file system"));
    loligo("policy unset {}", &[&part]).ok();
    assert!(shown(&a)["from"].is_null());
    assert_eq!(other.stop().0, 0);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn what_a_program_kept_before_it_died_is_merged_once_by_command_and_not_after_it_was_given_up() {
    use loligo_driver::client::{Client, Options, Subtree, SubtreeOptions};
    let place = Place::new();
    let data = place.data();
    let _server = served(&place);
    let connect = || Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs_of = |client: &Client| client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    let options = SubtreeOptions { lease: std::time::Duration::from_secs(600), ..SubtreeOptions::default() };
    let kept = |dir: &str, name: &str| {
        let (client, file) = (connect(), place.path(name));
        let mut subtree = Subtree::decouple(&fs_of(&client), dir, &options).expect("free");
        for n in 0..50 {
            subtree.write(format!("f{n}"), b"x".to_vec()).expect("made");
        }
        subtree.persist(&file).expect("written");
        file
    };
    let file = kept("/a/b", "first");
    let client = connect();
    let fs = fs_of(&client);
    assert_eq!(fs.stat("/a/b/f0"), Err(loligo_types::FsError::Busy));
    let none = write(&place, "none", "no journal");
    loligo("merge {} --data {}", &[&none, &data]).fails(1, &["none", "journal"]);
    let said = loligo("merge {} --data {}", &[&file, &data]).ok().out;
    assert!(
        said.contains("of the journal (") && said.contains(" was merged; ") && said.contains("was removed"),
        "{said}"
    );
    assert!(!file.exists());
    assert_eq!(fs.stat("/a/b").expect("there").size, 51);
    // A copy of it comes too late.
    let file = kept("/a/b", "second");
    let copy = place.path("copy");
    std::fs::copy(&file, &copy).expect("copied");
    loligo("merge {} --data {} --json", &[&file, &data]).ok();
    loligo("merge {} --data {}", &[&copy, &data])
        .fails(1, &["not decoupled for it any more", "loligo journal inspect"]);
    assert!(loligo("journal inspect {} --summary", &[&copy]).ok().out.contains("inode"));
    let file = kept("/a/b/c", "third");
    loligo("abandon {} --data {}", &[&file, &data]).ok();
    assert!(file.exists());
    assert_eq!(fs.stat("/a/b/c").expect("there").size, 0);
    loligo("merge {} --data {}", &[&file, &data]).fails(1, &["not decoupled for it any more"]);
}

#[test]
fn what_a_program_kept_in_the_store_before_it_died_is_merged_by_command_or_given_up() {
    use loligo_driver::client::{Client, Options, Subtree, SubtreeOptions};
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let connect = || Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs_of = |client: &Client| client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    let kept = |dir: &str, lease_ms: u64| {
        let client = connect();
        let options = SubtreeOptions { lease: std::time::Duration::from_millis(lease_ms), ..SubtreeOptions::default() };
        let mut subtree = Subtree::decouple(&fs_of(&client), dir, &options).expect("free");
        for n in 0..50 {
            subtree.write(format!("f{n}"), b"x".to_vec()).expect("made");
        }
        subtree.persist_global().expect("kept");
        client
    };
    let gone = |client: Client| client.stop(std::time::Duration::from_secs(10)).expect("it stops");
    let status = || loligo("status --data {}", &[&data]).ok().out;
    let until_it_waits = |dir: &str| {
        let begun = std::time::Instant::now();
        while !status().contains(&format!(": waits for loligo merge --stored {dir} --data")) {
            assert!(begun.elapsed().as_secs() < 20, "{}", status());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    loligo("merge", &[]).fails(2, &["<DIRECTORY|FILE>..."]);
    loligo("merge --stored /a/b --data {}", &[&data]).fails(1, &["/a/b", "not decoupled"]);
    loligo("merge --stored a/b --data {}", &[&data]).fails(2, &["begin it with a slash"]);
    let owner = kept("/a/b", 100);
    assert!(status().contains("of its journal are in the store\n"), "{}", status());
    loligo("merge --stored /a/b --data {}", &[&data]).fails(1, &["/a/b has an owner", "loligo status"]);
    gone(owner);
    until_it_waits("/a/b");
    let said = loligo("merge --stored /a/b --data {}", &[&data]).ok().out;
    assert!(
        said.contains("of the journal (")
            && said.contains(" was merged; ")
            && said.contains("/a/b is a directory like others again"),
        "{said}"
    );
    let client = connect();
    let fs = fs_of(&client);
    assert_eq!(fs.stat("/a/b").expect("there").size, 51);
    loligo("merge --stored /a/b --data {} --json", &[&data]).fails(1, &["not decoupled"]);
    gone(kept("/a/b/c", 100));
    until_it_waits("/a/b/c");
    let said = loligo("abandon --stored /a/b/c --data {}", &[&data]).ok().out;
    assert!(said.contains("are gone") && !status().contains("decoupled:"), "{said}");
    assert_eq!(fs.stat("/a/b/c").expect("there").size, 0);
    // Its owner may come back for an hour; that is told, too.
    gone(kept("/a/b/c", 3_600_000));
    loligo("abandon --stored /a/b/c --data {}", &[&data]).fails(1, &["has an owner"]);
    assert!(status().contains(", for others to merge in "), "{}", status());
    let rank = loligo("status --data {} --json", &[&data]).ok().json()["ranks"][0].take();
    let one = &rank["decoupled"][0];
    assert!(one["stored_bytes"].as_u64() > Some(0) && one["taken_back_in_ms"].is_null(), "{one}");
    assert!(one["waits_in_ms"].as_u64() > Some(3_000_000), "{one}");
    drop(server);
}
