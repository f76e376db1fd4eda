//! Commands about decoupled directories and ranks say in plain words what they did, and what is to be done. Not here: what they promise.

use super::run::{Place, Service, can_mount, loligo, sh};

#[test]
fn a_command_is_run_in_a_decoupled_directory_with_and_without_dashes_before_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let _up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let dir = mount.join("a");
    sh("mkdir $D/a", &mount).ok();
    for words in ["run --policy batchfs {} -- mkdir -m 700 {}", "run {} --policy batchfs mkdir -m 700 {}"] {
        loligo(words, &[&dir, &dir.join("made")]).ok();
        assert_eq!(sh("stat -c %a $D/made; rmdir $D/made", &dir).ok().out, "700\n", "{words}");
    }
    loligo("run {} -- ls", &[&dir])
        .fails(1, &["cannot be decoupled with its policy", "strong/global", "--policy batchfs"]);
    loligo("run --policy posix {} ls", &[&dir]).fails(1, &["with the policy that was named", "--policy batchfs"]);
    loligo("run --policy batchfs {}", &[&dir]).fails(2, &["COMMAND"]);
}

#[test]
fn what_goes_on_in_a_decoupled_directory_is_said_where_its_policy_is_taken_away_and_above_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    let words = format!("up --data {{}} --mount {{}} --set keep_dir={}", keep.display());
    let _up = Service::start(&words, &[&data, &mount]);
    let dir = mount.join("a");
    sh("mkdir -p $D/a $D/b", &mount).ok();
    let explained = |path: &std::path::Path| loligo("policy explain {}", &[path]).ok().out;
    assert!(explained(&mount).contains("outstanding   nothing; bytes"), "{}", explained(&mount));
    loligo("decouple {} --policy batchfs", &[&dir]).ok();
    let above = explained(&mount);
    assert!(above.contains("/a by mount ") && above.contains("directories below, which are decoupled"), "{above}");
    let json = loligo("policy explain {} --json", &[&mount]).ok().json();
    assert_eq!(json["decoupled_below"][0]["path"], "/a", "{json:#}");
    assert!(explained(&mount.join("b")).contains("outstanding   nothing; bytes"), "it is not below");
    assert!(explained(&dir).contains("this client   nothing\n"), "{}", explained(&dir));
    sh("mkdir $D/a/x", &mount).ok();
    assert!(explained(&dir).contains("outstanding   1 change, in "), "{}", explained(&dir));
    loligo("policy unset {}", &[&dir]).fails(1, &["has no policy of its own", "loligo recouple"]);
    loligo("policy set {} batchfs", &[&dir]).ok();
    let told = loligo("policy unset {}", &[&dir]).ok().out;
    assert!(told.contains("is decoupled by this mount, and stays so as it is, weak/local"), "{told}");
    assert!(told.contains("once it is given back (loligo recouple) the default, posix counts there"), "{told}");
    loligo("recouple {}", &[&dir]).ok();
}

#[test]
fn moving_a_directory_where_there_is_one_rank_says_how_to_add_another() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let _up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("mkdir $D/a", &mount).ok();
    let refused = loligo("subtree migrate {} 1", &[&mount.join("a")]);
    let refused = refused.fails(1, &["there is no rank 1: there is only rank 0"]);
    let how = refused
        .err
        .split("add one: loligo ")
        .nth(1)
        .and_then(|how| how.split(';').next())
        .expect("how one is added")
        .to_string();
    loligo(&how, &[]).ok();
    loligo("subtree migrate {} 1", &[&mount.join("a")]).ok();
    loligo("subtree migrate {} 5", &[&mount.join("a")]).fails(1, &["the ranks are 0, 1", "add 4: loligo rank add 4"]);
}

#[test]
fn a_stage_of_a_pipeline_that_failed_is_named_by_the_command_by_status_and_by_explain_until_it_succeeds() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("kept"));
    let server =
        Service::start(&format!("up --data {{}} --mount {{}} --set keep_dir={}", keep.display()), &[&data, &mount]);
    let job = mount.join("job");
    std::fs::create_dir(&job).expect("a directory");
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "pipeline = 'append_client_journal + global_persist + local_persist + volatile_apply'\n")
        .expect("a file");
    loligo("decouple {} --policy {}", &[&job, &policy]).ok();
    sh("echo data > $D/job/f", &mount).ok();
    // Nothing can be kept there.
    let _ = std::fs::remove_dir_all(&keep);
    std::fs::write(&keep, "a file in the place of the directory").expect("a file");
    loligo("sync {}", &[&job]).fails(1, &["the stage local_persist of the pipeline failed", "keep_dir", "loligo sync"]);
    let line = "the stage local_persist of ";
    let status = loligo("status {}", &[&mount]).ok().out;
    assert!(status.contains(line) && status.contains("loligo policy explain"), "{status}");
    let explained = loligo("policy explain {} --json", &[&job]).ok().json();
    assert_eq!(explained["failed_stage"]["stage"], "local_persist", "{explained}");
    let (there, stored) = (&explained["outstanding"]["changes"], &explained["outstanding"]["in_store"]);
    assert_eq!(there, stored, "what was done before counts");
    assert!(loligo("policy explain {}", &[&job]).ok().out.contains(line));
    std::fs::remove_file(&keep).expect("it is there");
    loligo("sync {}", &[&job]).ok();
    assert!(!loligo("status {}", &[&mount]).ok().out.contains(line));
    assert!(loligo("policy explain {} --json", &[&job]).ok().json()["failed_stage"].is_null());
    loligo("recouple {}", &[&job]).ok();
    assert_eq!(server.stop().0, 0);
}
