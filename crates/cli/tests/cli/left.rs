//! Journals that mounts and programs which are gone have left on this machine: when they are offered for merging, and when not. Not here: what is
//! merged.

use super::run::{Place, Service, can_mount, loligo, sh};

/// Files that a mount has made in a decoupled directory and kept, before it was killed.
fn killed_with_a_kept_journal(place: &Place) -> std::path::PathBuf {
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    let words = format!("mount --data {{}} {{}} --set keep_dir={}", keep.display());
    let mounted = Service::start(&words, &[&data, &mount]);
    sh("mkdir -p $D/a", &mount).ok();
    let dir = mount.join("a");
    loligo("decouple {} --policy deltafs --lease 3600", &[&dir]).ok();
    sh("for i in $(seq 20); do mkdir $D/a/d$i; done", &mount).ok();
    loligo("sync {}", &[&dir]).ok();
    mounted.kill();
    sh("umount -l $D", &mount).ok();
    let mut files = std::fs::read_dir(&keep).expect("a directory").flatten().map(|entry| entry.path());
    files.next().expect("a journal")
}

#[test]
fn a_kept_journal_is_offered_as_long_as_it_can_be_merged_and_then_to_be_removed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    let set = format!("--set keep_dir={}", keep.display());
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let file = killed_with_a_kept_journal(&place);
    let merge = format!("loligo merge {} --data {}", file.display(), data.display());
    let status = || loligo(&format!("status --data {{}} {set}"), &[&data]).ok().out;
    assert!(status().contains(&merge), "{}", status());
    let told = loligo(&format!("down --data {{}} {set}"), &[&data]).ok().err;
    assert!(told.contains(&merge) && !told.contains("cannot be merged"), "{told}");
    assert_eq!(server.ended().0, 0);
    // It can be merged after a restart, too.
    let up = Service::start(&format!("up --data {{}} --mount {{}} {set}"), &[&data, &mount]);
    assert!(status().contains(&merge), "{}", status());
    let json = loligo(&format!("status --json --data {{}} {set}"), &[&data]).ok().json();
    let kept = &json["ranks"][0]["decoupled"][0]["kept_file"];
    assert_eq!(kept.as_str(), file.to_str(), "{json:#}");
    let explained = loligo(&format!("policy explain {{}} {set}"), &[&mount.join("a")]).ok().out;
    assert!(explained.contains(&format!("loligo merge {}", file.display())), "{explained}");
    // Not after its directory was given up.
    loligo("abandon --force /a --data {}", &[&data]).ok();
    assert!(!status().contains("loligo merge"), "{}", status());
    let told = loligo(&format!("down --data {{}} {set}"), &[&data]).ok().err;
    let remove = format!("loligo abandon --remove {} --data {}", file.display(), data.display());
    assert!(told.contains("cannot be merged") && told.contains(&remove) && !told.contains(&merge), "{told}");
    assert_eq!(up.ended().0, 0);
    let up = Service::start(&format!("up --data {{}} --mount {{}} {set}"), &[&data, &mount]);
    super::run::until("it says so at the start, too", || up.log().contains(&remove));
    loligo("abandon --remove {} --data {}", &[&file, &data]).ok();
    assert_eq!(up.stop().0, 0);
}

#[test]
fn an_unmount_that_leaves_changes_unmerged_fails_and_names_them_and_the_next_mount_names_them_again() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let words = format!("mount --data {{}} {{}} --set keep_dir={}", keep.display());
    let at = |at: &std::path::Path| Service::start(&words, &[&data, at]);
    let (owner, other) = (at(&mount), at(&place.path("other")));
    // With nothing left it is silent.
    sh("mkdir $D/clean $D/other $D/job $D/lost; chmod 777 $D/job", &mount).ok();
    for (name, policy) in [("clean", "batchfs"), ("lost", "ramdisk")] {
        loligo("decouple {} --policy {}", &[&mount.join(name), policy.as_ref()]).ok();
    }
    sh("touch $D/clean/f; mkdir $D/lost/d", &mount).ok();
    // The directory is another user's when it is to be merged.
    std::fs::copy(super::run::LOLIGO, place.path("loligo")).expect("copied");
    sh(
        "chmod 755 $D; chown 1000 $D/mnt/job; as='setpriv --reuid 1000 --regid 1000 --clear-groups'; \
         $as $D/loligo decouple $D/mnt/job --policy batchfs >&2; $as sh -c 'mkdir $D/mnt/job/a $D/mnt/job/b'; \
         chown 2000 $D/other/job",
        place.dir.path(),
    )
    .ok();
    let ran = loligo("umount {}", &[&mount]);
    let files: Vec<_> = std::fs::read_dir(&keep).expect("a directory").flatten().map(|entry| entry.path()).collect();
    let [file] = &files[..] else { panic!("{files:?}: {ran:?}") };
    let merge = format!("loligo merge {} --data {}", file.display(), data.display());
    let kept = format!("  /job: 2 changes not merged, kept in {}; the stage volatile_apply ", file.display());
    let ran = ran.fails(1, &["is unmounted", &kept, &format!("try: {merge}")]);
    assert!(
        ran.err.contains("  /lost: 1 change not merged and not kept: lost") && !ran.err.contains("/clean"),
        "{ran:?}"
    );
    let (code, log) = owner.ended();
    assert!(code == 0 && log.contains(&merge), "{log}");
    // The next mount tells of it, and the command that is named helps.
    let again = at(&mount);
    super::run::until("it is said", || again.log().contains(&merge));
    sh("chown 1000 $D/job", &mount).ok();
    loligo(merge.strip_prefix("loligo ").expect("a command"), &[]).ok();
    assert_eq!(sh("ls $D/job $D/clean", &mount).ok().out.split_whitespace().filter(|word| word.len() == 1).count(), 3);
    let told = loligo("umount {}", &[&mount]).ok().err;
    assert_eq!((told.as_str(), again.ended().0), ("", 0));
    assert_eq!((other.stop().0, server.stop().0), (0, 0));
}

#[test]
fn an_unmount_of_a_mount_of_up_names_what_was_not_merged_too() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    let up =
        Service::start(&format!("up --data {{}} --mount {{}} --set keep_dir={}", keep.display()), &[&data, &mount]);
    sh("mkdir $D/job", &mount).ok();
    loligo("decouple {} --policy deltafs", &[&mount.join("job")]).ok();
    sh("mkdir $D/job/a", &mount).ok();
    let ran = loligo("umount {}", &[&mount]);
    let words = ["  /job: 1 change not merged, kept in ", "loligo merge ", &format!("--data {}", data.display())];
    ran.fails(1, &words);
    assert_eq!(up.ended().0, 0);
}

#[test]
fn of_many_journals_each_is_told_of_and_a_bad_one_keeps_no_other_from_being_merged() {
    use loligo_driver::client::{Client, Options, Subtree, SubtreeOptions};
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let _server = Service::start("serve --data {}", &[&data]);
    let connect = || Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let options = SubtreeOptions { lease: std::time::Duration::from_secs(600), ..SubtreeOptions::default() };
    let client = connect();
    let fs = client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    let kept = |name: &str| {
        fs.mkdir(format!("/{name}"), 0o755).expect("made");
        let (owner, file) = (connect(), place.path(name));
        let fs = owner.fs(std::sync::Arc::new(loligo_types::Cred::root()));
        let mut subtree = Subtree::decouple(&fs, format!("/{name}"), &options).expect("free");
        subtree.write("f", b"x".to_vec()).expect("made");
        subtree.persist(&file).expect("written");
        file
    };
    let bad = place.path("bad");
    std::fs::write(&bad, "no journal").expect("a file");
    let (one, two) = (kept("one"), kept("two"));
    let ran = loligo("merge {} {} {} --data {}", &[&one, &bad, &two, &data]);
    let ran = ran.fails(1, &["2 of 3 were merged, 1 could not be", &format!("loligo: {}", bad.display())]);
    for file in [&one, &two] {
        let of = |line: &&str| {
            line.starts_with(&format!("{}: ", file.display()))
                && line.contains(" merged; the directory is one like others again")
        };
        assert_eq!(ran.out.lines().filter(of).count(), 1, "{}", ran.out);
    }
    let all = [kept("three"), kept("four")];
    let ran = loligo("merge {} {} --data {}", &[&all[0], &all[1], &data]).ok();
    assert!(ran.out.ends_with("2 of 2 were merged\n"), "{}", ran.out);
    let ran = loligo("merge {} {} --json --data {}", &[&bad, &kept("five"), &data]);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert!(lines[0]["error"].is_string() && lines[1]["records"].is_u64(), "{lines:?}");
    assert_eq!(ran.code, 1);
}
