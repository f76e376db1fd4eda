//! Owners of directories that a mount has decoupled: that the name stays while a job works in it, what becomes of the journal that is kept
//! of it on this machine, and how root ends the decoupling of a dead or living owner. Real servers and mounts; a rank's decisions are
//! tested there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Place, Service, can_mount, fuse_mounts, loligo, loligo_in, sh, until};

fn serve(place: &Place) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    Service::start("serve --data {} --set session_ms=1000 --set grace_ms=500", &[&place.data()])
}

fn mounted(place: &Place, at: &str) -> Service {
    let at = place.path(at);
    std::fs::create_dir_all(&at).expect("a directory");
    let keep = format!("keep_dir={}", place.path("kept").display());
    Service::start("mount --server {} {} --set {}", &[&place.data(), &at, Path::new(&keep)])
}

fn kill(mount: Service, place: &Place, at: &str) {
    mount.kill();
    let at = place.path(at);
    until("the dead mount is gone", || {
        let _ = Command::new("umount").arg("-l").arg(&at).output();
        fuse_mounts(&at).is_empty()
    });
}

/// Journals that are kept on this machine.
fn kept(place: &Place) -> Vec<PathBuf> {
    let files = std::fs::read_dir(place.path("kept")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    files
}

/// A directory of the mount, with one file of which only the mount and the disk of this machine know.
fn invisible(place: &Place, dir: &str) {
    let dir = place.path(dir);
    std::fs::create_dir(&dir).expect("made");
    loligo("decouple {} --policy deltafs --lease 3600", &[&dir]).ok();
    std::fs::write(dir.join("f"), "made").expect("written");
    loligo("sync {}", &[&dir]).ok();
}

#[test]
fn what_is_kept_of_a_directory_goes_when_it_is_given_up_and_all_that_is_kept_is_merged_by_one_command() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let server = serve(&place);
    let mount = mounted(&place, "mnt");
    for dir in ["mnt/a", "mnt/b", "mnt/c"] {
        invisible(&place, dir);
    }
    let before = kept(&place);
    assert_eq!(before.len(), 3);
    loligo("abandon {}", &[&place.path("mnt/a")]).ok();
    until("its journal is gone", || kept(&place).len() == 2);
    // The mount is at work: nobody takes from it what it has, however it is asked for.
    let files = kept(&place);
    let paths = [&*files[0], &*files[1], &*data];
    loligo("merge {} {} --data {}", &paths).fails(1, &["is in use", "loligo merge DIRECTORY", "0 of 2 were merged, 2"]);
    loligo("abandon {} --data {}", &[&files[0], &data]).fails(1, &["is in use"]);
    // Nor with a copy, on which there is no lock; another name of the file has it.
    let (copy, link) = (place.path("copy"), place.path("link"));
    std::fs::copy(&files[0], &copy).expect("copied");
    std::fs::hard_link(&files[0], &link).expect("linked");
    loligo("merge {} --data {}", &[&link, &data]).fails(1, &["is in use"]);
    for words in ["merge {} --data {}", "abandon {} --data {}", "abandon --remove {} --data {}"] {
        loligo(words, &[&copy, &data]).fails(1, &["is connected to the server", "loligo merge DIRECTORY", "--force"]);
    }
    [copy, link].iter().for_each(|path| std::fs::remove_file(path).expect("it stays"));
    std::fs::write(place.path("mnt/b/g"), "made").expect("it is the mount's still");
    loligo("sync {}", &[&place.path("mnt/b")]).ok();
    kill(mount, &place, "mnt");
    let none = place.path("none");
    std::fs::write(&none, "no journal").expect("written");
    let ran = loligo("merge {} {} {} --data {} --json", &[&none, &files[0], &files[1], &data]);
    let ran = ran.fails(1, &["none", "2 of 3 were merged, 1 could not be"]);
    let said: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let named: Vec<&str> = said.iter().filter_map(|one| one["file"].as_str()).collect();
    assert_eq!(named, [&none, &files[0], &files[1]].map(|file| file.display().to_string()));
    assert!(said[0]["error"].is_string() && said[1]["error"].is_null() && said[2]["error"].is_null(), "{said:?}");
    assert_eq!(kept(&place), Vec::<PathBuf>::new());
    let mount = mounted(&place, "mnt");
    let ran = sh("cd $D/mnt && echo a/* b/* c/*", place.dir.path()).ok();
    assert_eq!(ran.out.trim(), "a/* b/f b/g c/f");
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn root_ends_what_a_dead_or_living_mount_has_without_waiting_for_its_lease() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let server = serve(&place);
    let (dead, other) = (mounted(&place, "dead"), mounted(&place, "other"));
    invisible(&place, "dead/a");
    std::fs::create_dir(place.path("other/b")).expect("made");
    loligo("decouple {} --policy hdfs --lease 3600", &[&place.path("dead/b")]).ok();
    std::fs::write(place.path("dead/b/f"), "made").expect("written");
    std::fs::File::open(place.path("dead/b/f")).expect("there").sync_all().expect("kept in the store");
    kill(dead, &place, "dead");
    let status = || loligo("status --data {}", &[&data]).ok().out;
    let hint = format!("loligo abandon --force /a --data {}", data.display());
    until("it is told how", || status().contains(&hint));
    loligo("merge --stored /b --data {}", &[&data]).fails(1, &["has an owner", "--force"]);
    loligo("merge --stored --force /b --data {}", &[&data]).ok();
    assert_eq!(std::fs::read_to_string(place.path("other/b/f")).expect("merged"), "made");
    loligo(hint.strip_prefix("loligo ").expect("a command"), &[]).ok();
    std::fs::write(place.path("other/a/g"), "free").expect("it is a directory like others");
    assert!(!place.path("other/a/f").exists(), "that was not merged");
    // Its journal stays, to be looked into.
    let files = kept(&place);
    assert_eq!(files.len(), 1);
    loligo("merge {} --data {}", &[&files[0], &data]).fails(1, &["not decoupled for it any more"]);
    loligo("abandon {} --data {}", &[&files[0], &data]).fails(1, &["loligo abandon --remove"]);
    loligo("abandon --remove {} --data {}", &[&files[0], &data]).ok();
    assert_eq!(kept(&place), Vec::<PathBuf>::new());
    loligo("abandon --force /a --data {}", &[&data]).fails(1, &["/a is not decoupled"]);
    // One that lives has lost it, and hears that.
    let living = mounted(&place, "living");
    std::fs::create_dir(place.path("living/c")).expect("made");
    loligo("decouple {} --policy batchfs --lease 3600", &[&place.path("living/c")]).ok();
    std::fs::write(place.path("living/c/f"), "made").expect("written");
    let mut open = std::fs::File::options().append(true).open(place.path("living/c/f")).expect("there");
    open.sync_all().expect("kept on this machine");
    let said = loligo("abandon --force /c --data {}", &[&data]).ok().err;
    assert!(said.contains("ESTALE") && said.contains("keep_dir"), "{said}");
    let is_stale = |error: std::io::Error| error.raw_os_error() == Some(rustix::io::Errno::STALE.raw_os_error());
    assert!(std::io::Write::write_all(&mut open, b"more").is_err_and(is_stale), "from that moment on");
    assert!(open.sync_all().is_err_and(is_stale));
    drop(open);
    std::fs::write(place.path("other/c/g"), "free").expect("it is a directory like others");
    loligo("sync {}", &[&place.path("living/c")]).fails(1, &["taken from this mount"]);
    until("it sees what all see", || sh("ls $D/living/c", place.dir.path()).out.trim() == "g");
    // With a copy of its journal, too.
    let before = kept(&place);
    invisible(&place, "living/d");
    let file = kept(&place).into_iter().find(|file| !before.contains(file)).expect("it is kept");
    let copy = place.path("copy");
    std::fs::copy(&file, &copy).expect("copied");
    loligo("merge {} --data {}", &[&copy, &data]).fails(1, &["is connected to the server"]);
    loligo("merge --force {} --data {}", &[&copy, &data]).ok();
    assert!(place.path("other/d/f").exists() && !copy.exists(), "what was kept is merged");
    loligo("sync {}", &[&place.path("living/d")]).fails(1, &["taken from this mount"]);
    loligo("merge --force {}", &[&place.path("living/d")]).fails(2, &["--force"]);
    assert_eq!((living.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn what_was_kept_is_merged_and_given_up_from_elsewhere_with_an_identity() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let settings = "--set session_ms=1000 --set grace_ms=500";
    let server = Service::start(&format!("serve --data {{}} --listen 0.0.0.0:0 {settings}"), &[&data]);
    let at = super::auth::tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let identity = place.path("one.pem");
    loligo("auth add one --data {} --out {}", &[&data, &identity]).ok();
    let keep = format!("keep_dir={}", place.path("kept").display());
    let mnt = place.path("mnt");
    std::fs::create_dir(&mnt).expect("made");
    let words = format!("mount --server {at} --identity {{}} {{}} --set {{}}");
    let mount = Service::start(&words, &[&identity, &mnt, Path::new(&keep)]);
    ["mnt/a", "mnt/b"].iter().for_each(|dir| invisible(&place, dir));
    ["mnt/c", "mnt/d"].iter().for_each(|dir| {
        let dir = place.path(dir);
        std::fs::create_dir(&dir).expect("made");
        loligo("decouple {} --policy hdfs --lease 3600", &[&dir]).ok();
        std::fs::write(dir.join("f"), "made").expect("written");
        std::fs::File::open(dir.join("f")).expect("there").sync_all().expect("kept in the store");
    });
    kill(mount, &place, "mnt");
    let files = kept(&place);
    let from = |words: &str, paths: &[&Path]| {
        loligo(&format!("{words} --server {at}"), paths).fails(1, &["without an identity"]);
        loligo_in(&format!("{words} --server {at}"), paths, |command| _ = command.env("LOLIGO_IDENTITY", &identity))
    };
    // The server hears of the end of a connection by itself, or when the session is over.
    until("it is merged", || from("merge {}", &[&files[0]]).code == 0);
    from("abandon --remove {}", &[&files[1]]).ok();
    from("merge --force --stored /c", &[]).ok();
    from("abandon --force /d", &[]).ok();
    let mount = mounted(&place, "mnt");
    assert_eq!(sh("cd $D/mnt && echo a/* b/* c/* d/*", place.dir.path()).ok().out.trim(), "a/f b/* c/f d/*");
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn what_was_cut_off_an_old_file_reads_as_zeros_when_it_is_abandoned_and_what_was_removed_comes_back() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place);
    let mount = mounted(&place, "mnt");
    let dir = place.path("mnt/a");
    std::fs::create_dir(&dir).expect("made");
    let old = vec![7; 300_000];
    for name in ["cut", "truncated", "gone", "replaced"] {
        std::fs::write(dir.join(name), &old).expect("written");
    }
    std::fs::write(dir.join("small"), "held in the inode").expect("written");
    loligo("decouple {} --policy batchfs", &[&dir]).ok();
    std::fs::File::options().write(true).open(dir.join("cut")).and_then(|file| file.set_len(100_000)).expect("cut");
    for name in ["truncated", "small"] {
        std::fs::write(dir.join(name), "new").expect("written");
    }
    std::fs::remove_file(dir.join("gone")).expect("removed");
    std::fs::write(dir.join("other"), "other").expect("written");
    std::fs::rename(dir.join("other"), dir.join("replaced")).expect("renamed");
    loligo("abandon {}", &[&dir]).ok();
    let read = |name: &str| std::fs::read(dir.join(name)).expect("it is back");
    let (cut, truncated) = (read("cut"), read("truncated"));
    assert_eq!((cut.len(), truncated.len()), (300_000, 300_000));
    assert!(cut[..100_000].iter().all(|byte| *byte == 7) && cut[100_000..].iter().all(|byte| *byte == 0));
    assert!(truncated[3..].iter().all(|byte| *byte == 0));
    assert_eq!(
        (read("gone") == old, read("replaced") == old, &*read("small")),
        (true, true, &b"held in the inode"[..])
    );
    assert!(!dir.join("other").exists());
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn what_users_make_who_did_not_decouple_a_directory_is_refused_at_once_and_all_else_is_merged() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --listen 0.0.0.0:0", &[&data]);
    let at = super::auth::tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let identity = place.path("one.pem");
    loligo("auth add one --squash root --data {} --out {}", &[&data, &identity]).ok();
    let (here, far) = (mounted(&place, "here"), place.path("far"));
    std::fs::create_dir(&far).expect("made");
    let mount = Service::start(&format!("mount --server {at} --identity {{}} {{}}"), &[&identity, &far]);
    // Where other users reach it, too.
    std::fs::copy(super::run::LOLIGO, place.path("loligo")).expect("copied");
    let run = |script: &str| sh(&script.replace("loligo", "$D/loligo"), place.dir.path()).ok();
    run(
        "chmod 755 $D && cd $D/here && mkdir user nobody && chmod 777 user && chown 1000 user && chown 65534:65534 nobody",
    );
    // One that a user has decoupled: his, and others write to what is there.
    for mount in ["here", "far"] {
        let script = "cd $D/MNT && as='setpriv --regid 1000 --clear-groups --reuid' && $as 1000 loligo decouple user --policy deltafs && \
                      $as 1000 sh -c 'echo one > user/MNT && chmod 666 user/MNT && mkdir user/dir-MNT' && \
                      for who in 0 1001; do for what in 'touch user/x' 'mkdir user/x' 'ln -s x user/x' 'mkfifo user/x'; do \
                      ! $as $who $what 2> $D/said || exit 1; grep 'not permitted' $D/said || exit 1; done; $as $who sh -c 'echo two >> user/MNT' || exit 1; done; \
                      ! chown 1001 user/MNT 2> $D/said || exit 1; \
                      $as 1000 loligo merge user && $as 1000 loligo recouple user";
        run(&script.replace("MNT", mount));
    }
    // One that root has decoupled where it counts as nobody.
    run(
        "cd $D/far && loligo decouple nobody --policy deltafs && echo one > nobody/f && mkdir nobody/d && loligo merge nobody && loligo recouple nobody",
    );
    let said = run("cd $D/here && cat user/here user/far && stat -c '%n %u' user/* nobody/*").out;
    assert_eq!(
        said.split_whitespace().collect::<Vec<_>>().join(" "),
        "one two two one two two user/dir-far 1000 user/dir-here 1000 user/far 1000 user/here 1000 nobody/d 65534 nobody/f 65534"
    );
    assert_eq!((mount.stop().0, here.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_directory_keeps_its_name_while_a_job_runs_in_it_and_is_completed_wherever_what_is_above_it_went() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    std::fs::create_dir_all(place.path("mnt/above/job")).expect("made");
    let script = place.path("job.sh");
    let job = "cd $D && echo made > mnt/above/job/f\n\
               if mv -T other/above/job other/above/moved 2> refused; then exit 9; fi\n\
               grep -q -i busy refused && mv -T other/above other/went && test -e mnt/went/job/f\n";
    std::fs::write(&script, job).expect("written");
    let sh = format!("D={}", place.dir.path().display());
    let dir = place.path("mnt/above/job");
    loligo("run --policy batchfs {} -- env {} sh -eu {}", &[&dir, Path::new(&sh), &script]).ok();
    assert_eq!(std::fs::read_to_string(place.path("other/went/job/f")).expect("merged"), "made\n");
    std::fs::rename(place.path("other/went/job"), place.path("other/job")).expect("it is a directory like others");
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {}", &[&place.data()]).ok();
}

#[test]
fn small_files_that_were_made_longer_without_writing_are_given_back_with_their_directory() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let server = serve(&place);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    for policy in ["batchfs", "deltafs"] {
        let dir = place.path("mnt").join(policy);
        std::fs::create_dir(&dir).expect("made");
        sh("printf before >$D/old; printf before >$D/there", &dir).ok();
        loligo(&format!("decouple {{}} --policy {policy}"), &[&dir]).ok();
        let make = "cd $D; printf small >new; truncate -s 300000 new old; printf small >taken; \
                    fallocate -l 300000 taken; fallocate -l 300000 there";
        sh(make, &dir).ok();
        loligo("merge {}", &[&dir]).ok();
        loligo("recouple {}", &[&dir]).ok();
        let look = "cd $D; stat -c '%n %s' *; for f in *; do tr -d '\\0' <$f; echo; done";
        let said = sh(look, &place.path("other").join(policy)).ok().out;
        let sizes = "new 300000\nold 300000\ntaken 300000\nthere 300000\n";
        assert_eq!(said, format!("{sizes}small\nbefore\nsmall\nbefore\n"), "{policy}");
    }
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn a_stop_and_a_start_name_what_is_kept_on_this_machine_alone_with_the_command_that_merges_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.path("mnt"));
    let keep = format!("keep_dir={}", place.path("kept").display());
    let up = || loligo("up --data {} --mount {} --set {} --daemon", &[&data, &mount, Path::new(&keep)]).ok();
    let down = || loligo("down --data {} --set {}", &[&data, Path::new(&keep)]).ok();
    assert!(!up().err.contains("loligo merge"), "nothing is kept");
    loligo("decouple {} --policy deltafs", &[&mount]).fails(1, &["name a directory below the root"]);
    invisible(&place, "mnt/a");
    loligo("decouple {} --policy deltafs", &[&mount.join("a")]).fails(1, &["by this mount already", "loligo recouple"]);
    let [file] = &kept(&place)[..] else { panic!("one file is kept") };
    let command = format!("loligo merge {} --data {}", file.display(), data.display());
    let said = down();
    assert!(said.err.contains(&command) && said.err.contains("are not merged"), "{}", said.err);
    let said = up();
    assert!(said.err.contains(&command), "{}", said.err);
    loligo("merge {} --data {}", &[file, &data]).ok();
    assert_eq!(std::fs::read(mount.join("a/f")).expect("everybody's now"), b"made");
    assert!(!down().err.contains("loligo merge"), "nothing is kept any more");
}

#[test]
fn commands_go_by_the_policy_that_a_directory_was_decoupled_with() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    let dir = place.path("mnt/job");
    std::fs::create_dir(&dir).expect("made");
    loligo("policy set {} hdfs", &[&dir]).ok();
    let said = loligo("decouple {} --policy batchfs", &[&dir]).ok();
    assert!(!said.err.contains("interfere"), "nobody asked for it: {}", said.err);
    std::fs::write(dir.join("f"), "made").expect("written");
    std::fs::File::open(dir.join("f")).expect("there").sync_all().expect("kept");
    let said = loligo("policy explain {}", &[&dir]).ok().out;
    assert!(said.contains("weak/local, by the policy that it is decoupled with"), "{said}");
    let merge = format!("loligo merge {} --data {}", kept(&place)[0].display(), place.data().display());
    assert!(said.contains(&merge), "{said}");
    assert_eq!(loligo("policy explain {} --json", &[&dir]).ok().json()["cell"], "weak/local");
    // A command that is run there leaves it as it was.
    let said = loligo("run {} -- touch {}", &[&dir, &dir.join("g")]).ok().err;
    assert!(said.contains("weak/local") && said.contains("stays so"), "{said}");
    loligo("run --policy ramdisk {} -- true", &[&dir]).fails(1, &["already", "without --policy"]);
    loligo("policy set {} deltafs", &[&place.path("other/job")]).fails(1, &["is decoupled", "through that mount"]);
    let said = loligo("policy set {} deltafs", &[&dir]).ok().out;
    assert!(said.contains("counts from now on"), "{said}");
    let said = loligo("policy explain {}", &[&dir]).ok().out;
    assert!(said.contains("invisible/local, by the policy of"), "{said}");
    let said = loligo("policy set {} posix", &[&dir]).ok().out;
    assert!(said.contains("is merged, and it is given back"), "{said}");
    assert!(place.path("other/job/f").exists() && place.path("other/job/g").exists());
    let document = place.path("allow.toml");
    std::fs::write(&document, "preset = 'batchfs'\ninterfere = 'allow'\n").expect("written");
    let there = place.path("other/job/there");
    loligo("run --policy {} --lease 5 {} -- touch {}", &[&document, &dir, &there]).ok();
    assert!(there.exists() && dir.join("there").exists());
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
}

#[test]
fn what_is_taken_back_at_the_end_of_a_lease_is_no_warning_of_the_server() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    loligo("serve --daemon --data {} --set session_ms=1000 --set grace_ms=500", &[&place.data()]).ok();
    let (dead, other) = (mounted(&place, "dead"), mounted(&place, "other"));
    std::fs::create_dir(place.path("dead/a")).expect("made");
    loligo("run --policy batchfs --lease 1 {} -- true", &[&place.path("dead/a")]).ok();
    loligo("decouple {} --policy batchfs --lease 1", &[&place.path("dead/a")]).ok();
    kill(dead, &place, "dead");
    until("it is taken back", || std::fs::read_dir(place.path("other/a")).is_ok());
    let log = || std::fs::read_to_string(place.data().join("loligo.log")).expect("a log");
    until("it is said", || log().contains("/a is taken back from"));
    assert!(!log().contains("WARN"), "{}", log());
    assert_eq!(other.stop().0, 0);
    loligo("down --data {}", &[&place.data()]).ok();
}
