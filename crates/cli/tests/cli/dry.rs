//! Orders with `--dry-run` and commands with `--json`: a dry run changes nothing, a document is one JSON object. Not here: orders about
//! policies, directories, ranks and balancers (`policy.rs`, `placement.rs`, `ranks.rs`, `balancer.rs`).

use super::run::{Place, Service, can_mount, loligo, not_tested};

#[test]
fn what_starts_and_stops_a_service_prints_one_document() {
    if !can_mount() {
        return not_tested("documents of up, mount, umount and down");
    }
    let place = Place::new();
    let (data, mount, more) = (place.data(), place.path("m"), place.path("more"));
    let up = loligo("up --data {} --mount {} --daemon --json", &[&data, &mount]).ok().json();
    assert_eq!((up["made"].as_bool(), up["mount"].as_str()), (Some(true), mount.to_str()), "{up}");
    assert!(up["addresses"]["listening"][0].as_str().is_some_and(|at| at.starts_with("unix:")), "{up}");
    assert!(up["process"].as_u64().is_some_and(|pid| pid > 1), "{up}");
    let mounted = loligo("mount --data {} {} --daemon --json", &[&data, &more]).ok().json();
    assert_eq!(mounted["mount"].as_str(), more.to_str(), "{mounted}");
    let gone = loligo("umount {} --json", &[&more]).ok().json();
    assert_eq!((gone["mount"].as_str(), gone["lazy"].as_bool()), (more.to_str(), Some(false)), "{gone}");
    let down = loligo("down --data {} --json", &[&data]).ok().json();
    assert_eq!(down["process"], up["process"]);
    let again = loligo("up --data {} --mount {} --daemon --json", &[&data, &mount]).ok().json();
    assert_eq!(again["made"].as_bool(), Some(false), "{again}");
    loligo("down --data {}", &[&data]).ok();
    let served = loligo("serve --data {} --daemon --json", &[&data]).ok().json();
    assert_eq!(served["ranks"].as_array().map(Vec::len), Some(1), "{served}");
    loligo("down --data {}", &[&data]).ok();
}

#[test]
fn a_dry_run_of_load_reads_all_of_the_text_and_makes_nothing() {
    let place = Place::new();
    let (data, dump, new) = (place.data(), place.path("dump"), place.path("new"));
    let made = loligo("format --data {} --json", &[&data]).ok().json();
    assert_eq!(made["fs_id"].as_str().map(str::len), Some(32), "{made}");
    let counts = loligo("dump --data {} -o {} --json", &[&data, &dump]).ok().json();
    assert_eq!(counts["inodes"].as_u64(), Some(1), "{counts}");
    let said = loligo("load --data {} {} --dry-run", &[&new, &dump]).ok().out;
    assert!(said.contains("would load 1 inode and 0 entries") && said.contains("nothing was changed"), "{said}");
    assert!(!new.exists());
    let text = std::fs::read_to_string(&dump).expect("a dump");
    let cut = place.path("cut");
    std::fs::write(&cut, &text[..text.len() - 3]).expect("a file");
    loligo("load --data {} {} --dry-run", &[&new, &cut]).fails(1, &["cut off"]);
    loligo("load --data {} {} --dry-run", &[&data, &dump]).fails(1, &["holds a file system already"]);
    std::fs::create_dir(&new).expect("a directory");
    std::fs::write(new.join("mine"), "x").expect("a file");
    loligo("load --data {} {} --dry-run", &[&new, &dump]).fails(1, &["is not empty"]);
    std::fs::remove_file(new.join("mine")).expect("it is there");
    let loaded = loligo("load --data {} {} --json", &[&new, &dump]).ok().json();
    assert_eq!((loaded["loaded"].as_bool(), loaded["inodes"].as_u64()), (Some(true), Some(1)), "{loaded}");
}

#[test]
fn a_dry_run_of_a_decoupled_directory_says_what_is_outstanding_and_merges_nothing() {
    if !can_mount() {
        return not_tested("dry runs of decoupled directories");
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.path("m"));
    let _service = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let job = mount.join("job");
    std::fs::create_dir(&job).expect("a directory");
    loligo("sync {} --dry-run", &[&job]).fails(1, &["is not decoupled by this mount"]);
    loligo("decouple {} --policy batchfs", &[&job]).ok();
    std::fs::write(job.join("a"), "x").expect("a file");
    for (order, then) in
        [("sync", "completed"), ("merge", "merged"), ("recouple", "given back"), ("abandon", "dropped")]
    {
        let said = loligo(&format!("{order} {{}} --dry-run"), &[&job]).ok().out;
        assert!(said.contains(then) && said.contains("nothing was changed"), "{order}: {said}");
        let document = loligo(&format!("{order} {{}} --dry-run --json"), &[&job]).ok().json();
        assert!(document["outstanding"].as_u64().is_some_and(|n| n > 0), "{order}: {document}");
    }
    loligo("abandon {} --force --dry-run", &[&job]).fails(2, &["--dry-run cannot look"]);
    loligo("abandon {}", &[&job]).ok();
    assert!(!job.join("a").exists());
}

#[test]
fn identities_and_balancers_print_documents() {
    let place = Place::new();
    let (data, file) = (place.data(), place.path("id"));
    loligo("format --data {}", &[&data]).ok();
    let _server = Service::start("serve --data {}", &[&data]);
    let added = loligo("auth add one --out {} --data {} --json", &[&file, &data]).ok().json();
    assert_eq!(added["identity"]["name"].as_str(), Some("one"), "{added}");
    let dry = loligo("auth revoke one --data {} --dry-run --json", &[&data]).ok().json();
    assert_eq!(dry["revoked"].as_bool(), Some(false), "{dry}");
    let revoked = loligo("auth revoke one --data {} --json", &[&data]).ok().json();
    assert_eq!(revoked["revoked"].as_bool(), Some(true), "{revoked}");
    let policy = place.path("mine.lua");
    std::fs::write(&policy, "return 1 +").expect("a file");
    let lint = loligo("balancer lint {} --json", &[&policy]);
    assert_eq!((lint.code, lint.json()["usable"].as_bool()), (3, Some(false)));
}
