//! The versions of a directory's policy as a user meets them: `loligo policy history`, `set --version` and `--rollback`, at a server and over a mount.
//! Not here: how a history is bounded and put down (crates `semantics` and `namespace`), and crashes (driver).

use std::path::Path;

use super::run::{Place, Service, can_mount, loligo, sh};

fn served(place: &Place) -> Service {
    served_with(place, "")
}

fn served_with(place: &Place, more: &str) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Service::start(&format!("serve --data {{}} {more}"), &[&place.data()]);
    let client = loligo_driver::client::Client::connect(
        &loligo_driver::socket_in(&place.data()),
        loligo_driver::client::Options::default(),
    );
    let fs = client.expect("a connection").fs(std::sync::Arc::new(loligo_types::Cred::root()));
    for dir in ["/a", "/a/b"] {
        fs.mkdir(dir, 0o755).expect("a directory");
    }
    server
}

fn cell(data: &Path, path: &str) -> String {
    let shown = loligo(&format!("policy show --data {{}} {path} --json"), &[data]).ok().json();
    shown["cell"].as_str().expect("it has one").to_string()
}

fn history(data: &Path, path: &str) -> serde_json::Value {
    loligo(&format!("policy history --data {{}} {path} --json"), &[data]).ok().json()
}

/// The numbers of the versions that were in force, the oldest first.
fn changes(history: &serde_json::Value) -> Vec<u64> {
    let all = history["history"].as_array().expect("a list");
    all.iter().map(|one| one["version"].as_u64().expect("a number")).collect()
}

#[test]
fn a_history_of_a_policy_is_shown_rolled_back_and_goes_into_a_dump() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let never = loligo("policy history --data {} /a", &[&data]).ok().out;
    assert!(never.contains("/a never had a policy of its own"), "{never}");
    loligo("policy set --data {} /a --rollback", &[&data])
        .fails(1, &["there is nothing to go back to", "policy history"]);
    let file = place.path("mine.toml");
    std::fs::write(&file, "# mine\npreset = 'hdfs'\n").expect("a file");
    loligo("policy set --data {} /a batchfs", &[&data]).ok();
    loligo("policy set --data {} /a {}", &[&data, &file]).ok();
    let now = history(&data, "/a");
    assert_eq!((now["now"].as_u64(), now["before"].as_u64()), (Some(2), Some(1)));
    assert_eq!(now["versions"][1]["text"], "# mine\npreset = 'hdfs'\n");
    let dry = loligo("policy set --data {} /a --rollback --dry-run", &[&data]).ok().out;
    assert!(dry.contains("version 1 of the policy of /a") && dry.contains("global -> local (weaker)"), "{dry}");
    assert_eq!((cell(&data, "/a"), changes(&history(&data, "/a"))), ("weak/global".into(), vec![1, 2]));
    loligo("policy set --data {} /a --rollback", &[&data]).ok();
    assert_eq!(cell(&data, "/a"), "weak/local");
    loligo("policy set --data {} /a --version 2", &[&data]).ok();
    assert_eq!((cell(&data, "/a"), changes(&history(&data, "/a"))), ("weak/global".into(), vec![1, 2, 1, 2]));
    assert_eq!(loligo("policy history --data {} /a --version 2", &[&data]).ok().out, "# mine\npreset = 'hdfs'\n");
    let unknown = loligo("policy set --data {} /a --version 9", &[&data]);
    unknown.fails(1, &["there is no version 9", "kept are 1, 2", "policy history"]);
    for two in ["batchfs --version 1", "batchfs --rollback", "--version 1 --rollback", ""] {
        loligo(&format!("policy set --data {{}} /a {two}"), &[&data]).fails(2, &[]);
    }
    // None is something to go back to, and from.
    loligo("policy unset --data {} /a", &[&data]).ok();
    loligo("policy set --data {} /a --rollback", &[&data]).ok();
    assert_eq!(cell(&data, "/a"), "weak/global");
    let dry = loligo("policy set --data {} /a --rollback --dry-run", &[&data]).ok().out;
    assert!(dry.contains("weak -> strong") && dry.contains("nothing was changed"), "{dry}");
    loligo("policy set --data {} /a --rollback", &[&data]).ok();
    assert_eq!(cell(&data, "/a"), "strong/global");
    let text = loligo("policy history --data {} /a", &[&data]).ok().out;
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(
        text.lines().last().is_some_and(|line| line.starts_with("* ") && line.contains("none, by user 0")),
        "{text}"
    );
    // It is durable, sound, and in a dump.
    let before = history(&data, "/a");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
    let dump = place.path("dump");
    std::fs::write(&dump, loligo("dump --data {}", &[&data]).ok().out).expect("a file");
    let other = place.path("other");
    loligo("load --data {} {}", &[&other, &dump]).ok();
    let server = Service::start("serve --data {}", &[&other]);
    assert_eq!(history(&other, "/a"), before);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&other]).ok();
}

#[test]
fn a_rollback_is_held_against_floors_and_bounds_as_any_policy() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place);
    let floor = place.path("floor.toml");
    std::fs::write(&floor, "preset = 'hdfs'\n[floor]\nconsistency = 'weak'\ndurability = 'global'\n").expect("a file");
    loligo("policy set --data {} /a/b ramdisk", &[&data]).ok();
    loligo("policy set --data {} /a/b hdfs", &[&data]).ok();
    loligo("policy set --data {} /a {}", &[&data, &floor]).ok();
    for how in ["--rollback", "--version 1", "--rollback --dry-run"] {
        let refused = loligo(&format!("policy set --data {{}} /a/b {how}"), &[&data]);
        refused.fails(3, &["invisible is below weak", "lower the floor of /a"]);
    }
    assert_eq!(changes(&history(&data, "/a/b")), [1, 2]);
    // The floor itself is rolled back by root, and then anything may be set.
    loligo("policy set --data {} /a --rollback", &[&data]).ok();
    loligo("policy set --data {} /a/b --rollback", &[&data]).ok();
    assert_eq!(cell(&data, "/a/b"), "invisible/none");
    // From then on it breaks the floor, which cannot come back over it.
    loligo("policy set --data {} /a --version 1", &[&data]).fails(1, &["the policy of /a"]);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_history_goes_with_its_directory_to_another_rank_and_grows_there() {
    let place = Place::new();
    let data = place.data();
    let server = served_with(&place, "--ranks 3 --set balancer=none");
    loligo("policy set --data {} /a/b batchfs", &[&data]).ok();
    loligo("policy set --data {} /a/b hdfs", &[&data]).ok();
    for rank in [2, 1] {
        loligo(&format!("subtree migrate --data {{}} /a/b {rank}"), &[&data]).ok();
        loligo("policy set --data {} /a/b --rollback", &[&data]).ok();
    }
    assert_eq!((cell(&data, "/a/b"), changes(&history(&data, "/a/b"))), ("weak/global".into(), vec![1, 2, 1, 2]));
    // Each rank has its own journal: what is there after a restart was in that of the rank which had the directory.
    let before = history(&data, "/a/b");
    assert_eq!(server.stop().0, 0);
    let server = Service::start("serve --data {} --set balancer=none", &[&data]);
    assert_eq!(history(&data, "/a/b"), before);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn over_a_mount_owners_roll_back_their_policies_and_of_a_decoupled_directory_it_is_completed_first() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let server = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("mkdir -p $D/job $D/mine; chown 1000 $D/mine; chmod 755 $D", &mount).ok();
    let (job, mine) = (mount.join("job"), mount.join("mine"));
    let as_owner = "setpriv --reuid 1000 --clear-groups setfattr -n loligo.policy.subtree -v";
    sh(&format!("{as_owner} 'preset=\"hdfs\"' $D/mine; {as_owner} 'preset=\"batchfs\"' $D/mine"), &mount).ok();
    let text = loligo("policy history {}", &[&mine]).ok().out;
    assert!(text.contains("weak/global, by user 1000") && text.contains("* "), "{text}");
    // Bounds of an older version are root's, whoever owns the directory.
    sh("setfattr -n loligo.policy.subtree -v 'ceiling.decouple=false' $D/mine", &mount).ok();
    let refused = sh(&format!("{as_owner} 'preset=\"batchfs\"' $D/mine"), &mount);
    assert_ne!(refused.code, 0, "{refused:?}");
    loligo("policy set {} --rollback", &[&mine]).ok();
    let refused = sh(&format!("{as_owner} 'ceiling.decouple=false' $D/mine"), &mount);
    assert_ne!(refused.code, 0, "{refused:?}");
    // A decoupled one is completed as the older version says before that counts.
    loligo("policy set {} hdfs", &[&job]).ok();
    loligo("policy set {} ramdisk", &[&job]).ok();
    loligo("decouple {}", &[&job]).ok();
    sh("echo data > $D/job/f", &mount).ok();
    let before = loligo("policy explain {} --json", &[&job]).ok().json();
    assert!(before["outstanding"]["changes"].as_u64() > Some(0), "{before}");
    loligo("policy set {} --rollback", &[&job]).ok();
    let after = loligo("policy explain {} --json", &[&job]).ok().json();
    assert_eq!((&after["cell"], &after["outstanding"]["changes"]), (&"weak/global".into(), &0.into()), "{after}");
    loligo("recouple {}", &[&job]).ok();
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
