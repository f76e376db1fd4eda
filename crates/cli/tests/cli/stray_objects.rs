//! The search for stray objects after a kill, beside data that is valuable although no inode tells of it yet. Not here: which objects are
//! stray, which the metadata server's tests decide (`crates/mds/src/tests/stray_objects.rs`).

use super::run::{Place, Service, can_mount, loligo, sh, until};

/// The rank holds the file in its inode; its owner has written objects, synced, and not merged.
#[test]
fn a_small_file_that_was_made_large_in_a_decoupled_directory_is_whole_after_a_kill_and_the_merge() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    std::fs::create_dir(&keep).expect("a directory");
    let words = format!("up --data {{}} --mount {{}} --set keep_dir={}", keep.display());
    let up = Service::start(&words, &[&data, &mount]);
    sh("mkdir $D/job; echo small > $D/job/log; sync $D/job/log", &mount).ok();
    loligo("decouple {} --policy batchfs", &[&mount.join("job")]).ok();
    sh("yes large | head -c 1000000 > $D/job/log; sync $D/job/log", &mount).ok();
    up.kill();
    sh("umount -l $D", &mount).ok();
    let up = Service::start(&words, &[&data, &mount]);
    until("the search has ended", || up.log().contains("objects that no file tells of were searched"));
    let kept = std::fs::read_dir(&keep).expect("kept").next().expect("a journal").expect("an entry").path();
    loligo("merge {} --data {}", &[&kept, &data]).ok();
    let same = sh("yes large | head -c 1000000 | cmp - $D/job/log && echo same", &mount).ok().out;
    assert_eq!(same, "same\n");
    assert_eq!(up.stop().0, 0);
    let up = Service::start(&words, &[&data, &mount]);
    assert_eq!(sh("yes large | head -c 1000000 | cmp - $D/job/log && echo same", &mount).ok().out, "same\n");
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

/// The journal of the owner says nothing of files that came and went before the merge.
#[test]
fn objects_of_files_that_a_dead_owner_removed_are_dropped_by_the_next_start() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, keep) = (place.data(), place.mount(), place.path("keep"));
    std::fs::create_dir(&keep).expect("a directory");
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let owner = Service::start(&format!("mount --data {{}} {{}} --set keep_dir={}", keep.display()), &[&data, &mount]);
    sh("mkdir $D/job", &mount).ok();
    loligo("decouple {} --policy batchfs", &[&mount.join("job")]).ok();
    sh("cd $D/job; for n in 1 2 3; do head -c 70000 /dev/zero > f$n; sync f$n; done; rm f1; mv f2 f3; sync .", &mount)
        .ok();
    owner.kill();
    sh("umount -l $D", &mount).ok();
    let kept = std::fs::read_dir(&keep).expect("kept").next().expect("a journal").expect("an entry").path();
    loligo("merge {} --data {}", &[&kept, &data]).ok();
    assert_eq!(server.stop().0, 0);
    let server = Service::start("serve --data {}", &[&data]);
    until("the search has ended", || server.log().contains("objects that no file tells of were searched"));
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}
