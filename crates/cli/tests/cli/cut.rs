//! Merges of many thousand files that are cut short by SIGKILL while they are on their way, into memory and into the table: the server, the
//! client, or both. What was merged is there once and whole, or not at all; what the policy had persisted finishes it. Real servers and mounts.
//! Not here: boundaries between stages (`cells.rs`), nor every place in a merge at which a rank may die: those are the metadata server's and
//! the simulator's tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::between::{Between, Hold};
use super::run::{Place, Ran, Service, can_mount, fuse_mounts, loligo, until};

const DIRS: usize = 20;
const FILES: usize = 1000;
/// One that is sent when others have come: a client has four on their way.
const LATER: u32 = 6;

/// Processes that die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dies {
    Client,
    Server,
    Both,
}

struct Scene {
    place: Place,
    between: Between,
    server: Option<Service>,
    mount: Option<Service>,
    job: PathBuf,
    epoch: u64,
}

fn serve(place: &Place) -> Service {
    Service::start("serve --data {} --set session_ms=1000 --set grace_ms=500", &[&place.data()])
}

fn mounted(place: &Place, at: &str, server: &Path) -> Service {
    let at = place.path(at);
    std::fs::create_dir_all(&at).expect("a directory");
    let keep = format!("keep_dir={}", place.path("kept").display());
    Service::start("mount --server {} {} --set {}", &[server, &at, Path::new(&keep)])
}

/// Progress of the rank with the only subtree that is decoupled: merges, parts that have come, whether it is bringing one up to date.
fn progress(place: &Place) -> Option<(u64, u64, bool)> {
    let status = loligo("status --data {} --json", &[&place.data()]).ok().json();
    let one = status["ranks"][0]["decoupled"].get(0)?.clone();
    Some((one["merges"].as_u64()?, one["parts"].as_u64()?, one["merging"].as_bool()?))
}

fn file(dir: usize, n: usize) -> String {
    format!("d{dir}/f{n}")
}

fn content(dir: usize, n: usize) -> String {
    format!("{dir} and {n}")
}

/// Names in a directory when all is there: one of its files has gone, another has a new name.
fn names_in(dir: usize) -> BTreeSet<String> {
    let files = (0..FILES).filter(|n| *n != dir).map(|n| format!("f{n}"));
    files.chain(["moved".to_string(), "linked".to_string()]).filter(|name| *name != format!("f{}", dir + 1)).collect()
}

impl Scene {
    fn new(apply: &str) -> Scene {
        let place = Place::new();
        loligo("format --data {}", &[&place.data()]).ok();
        let server = serve(&place);
        let between = Between::listen(&place.path("between"), &place.data().join("loligo.sock"));
        let mount = mounted(&place, "mnt", &between.socket);
        let (job, policy) = (place.path("mnt/job"), place.path("policy.toml"));
        std::fs::create_dir(&job).expect("made");
        let text = format!(
            "pipeline = 'append_client_journal + local_persist + {apply}'\nallocated_inodes = 100000\ninterfere = 'block'\n"
        );
        std::fs::write(&policy, text).expect("written");
        loligo("policy set {} {}", &[&job, &policy]).ok();
        std::fs::write(job.join("before"), "it was there").expect("written");
        loligo("decouple {}", &[&job]).ok();
        let mut value = vec![0; 16 << 10];
        let len = rustix::fs::getxattr(&job, "loligo.subtree", &mut value).expect("it is decoupled");
        let said = String::from_utf8_lossy(&value[..len]).into_owned();
        let epoch = said.lines().find_map(|line| line.strip_prefix("epoch ")?.parse().ok()).expect("it has one");
        Scene { place, between, server: Some(server), mount: Some(mount), job, epoch }
    }

    /// Far more than a merge sends at once.
    fn work(&self) {
        for dir in 0..DIRS {
            std::fs::create_dir(self.job.join(format!("d{dir}"))).expect("made");
            for n in 0..FILES {
                std::fs::write(self.job.join(file(dir, n)), content(dir, n)).expect("written");
            }
            let in_it = |name: &str| self.job.join(format!("d{dir}/{name}"));
            std::fs::remove_file(self.job.join(file(dir, dir))).expect("there");
            std::fs::rename(self.job.join(file(dir, dir + 1)), in_it("moved")).expect("there");
            std::fs::hard_link(self.job.join(file(dir, dir + 2)), in_it("linked")).expect("there");
        }
        std::fs::write(self.job.join("before"), "it was changed").expect("written");
    }

    fn kept(&self) -> PathBuf {
        let end = format!("-{}.journal", self.epoch);
        let files = std::fs::read_dir(self.place.path("kept")).expect("it is there").flatten();
        let found = files.map(|file| file.path()).find(|path| path.display().to_string().ends_with(&end));
        found.expect("it was persisted before it was merged")
    }

    fn kill_client(&mut self) {
        self.mount.take().expect("it runs").kill();
        let at = self.place.path("mnt");
        until("the dead mount is gone", || {
            let _ = Command::new("umount").arg("-l").arg(&at).output();
            fuse_mounts(&at).is_empty()
        });
    }

    /// The merge is under way and goes no further; then they die, and what was alive goes on.
    fn cut(&mut self, at: Hold, who: Dies) -> Ran {
        self.between.hold(at);
        let job = self.job.clone();
        let merging = std::thread::spawn(move || loligo("sync {}", &[&job]));
        self.between.wait();
        match at {
            Hold::Part(_) => {
                let (merges, parts, merging) = progress(&self.place).expect("it is decoupled");
                assert!(merges == 0 && parts > 0 && !merging, "{merges} merges, {parts} parts, {merging}");
            }
            Hold::Answer => until("it is decided", || {
                progress(&self.place).is_some_and(|(merges, _, merging)| merges == 1 || merging)
            }),
        }
        assert!(!merging.is_finished(), "it is not answered");
        if who != Dies::Server {
            self.kill_client();
        }
        if who != Dies::Client {
            self.server.take().expect("it runs").kill();
        }
        self.between.lose();
        if who != Dies::Client {
            self.server = Some(serve(&self.place));
        }
        merging.join().expect("no panic")
    }

    /// Everything is there, once.
    fn is_whole(&self, job: &Path) {
        let names = |dir: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
            entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
        };
        let dirs: BTreeSet<String> = (0..DIRS).map(|dir| format!("d{dir}")).chain(["before".to_string()]).collect();
        let found = names(job);
        assert_eq!((found.len(), found.into_iter().collect()), (dirs.len(), dirs));
        for dir in 0..DIRS {
            let (found, all) = (names(&job.join(format!("d{dir}"))), names_in(dir));
            assert_eq!((found.len(), found.into_iter().collect()), (all.len(), all), "d{dir}");
            let read = |name: &str| std::fs::read_to_string(job.join(format!("d{dir}/{name}"))).expect("read");
            assert_eq!(read("moved"), content(dir, dir + 1));
            assert_eq!(read("linked"), content(dir, dir + 2));
            assert_eq!(read(&format!("f{}", FILES - 1)), content(dir, FILES - 1));
        }
        assert_eq!(std::fs::read_to_string(job.join("before")).expect("there"), "it was changed");
    }

    /// Others see all of it, or nothing.
    fn end(mut self, all: bool) {
        let other = mounted(&self.place, "other", &self.place.data());
        let job = self.place.path("other/job");
        if all {
            self.is_whole(&job);
        } else {
            let names: Vec<_> =
                std::fs::read_dir(&job).expect("it is all's").map(|entry| entry.expect("read").file_name()).collect();
            assert_eq!(names, ["before"]);
            assert_eq!(std::fs::read_to_string(job.join("before")).expect("there"), "it was there");
        }
        for mount in [self.mount.take(), Some(other)].into_iter().flatten() {
            assert_eq!(mount.stop().0, 0);
        }
        assert_eq!(self.server.take().expect("it runs").stop().0, 0);
        loligo("fsck --data {} --data-checksums", &[&self.place.data()]).ok();
    }
}

fn cut(apply: &str, at: Hold, who: Dies) {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new(apply);
    scene.work();
    let ran = scene.cut(at, who);
    if who == Dies::Server {
        ran.ok();
        scene.is_whole(&scene.job);
        loligo("recouple {}", &[&scene.job]).ok();
    } else {
        assert_ne!(ran.code, 0, "nobody could tell that it was done: {}", ran.out);
        let file = scene.kept();
        loligo("merge {} --data {}", &[&file, &scene.place.data()]).ok();
        assert!(!file.exists(), "it is merged");
    }
    scene.end(true);
}

#[test]
fn a_merge_goes_on_when_the_server_was_killed_with_half_of_it() {
    cut("volatile_apply", Hold::Part(LATER), Dies::Server);
}

#[test]
fn a_merge_into_the_table_goes_on_when_the_server_was_killed_with_half_of_it() {
    cut("nonvolatile_apply", Hold::Part(LATER), Dies::Server);
}

#[test]
fn a_merge_that_was_decided_and_not_answered_is_there_once_after_the_server_was_killed() {
    cut("volatile_apply", Hold::Answer, Dies::Server);
}

#[test]
fn a_merge_into_the_table_that_was_decided_and_not_answered_is_there_once_after_the_server_was_killed() {
    cut("nonvolatile_apply", Hold::Answer, Dies::Server);
}

#[test]
fn half_a_merge_of_a_killed_client_is_nothing_and_what_it_had_persisted_is_merged_by_command() {
    cut("volatile_apply", Hold::Part(LATER), Dies::Client);
}

#[test]
fn half_a_merge_of_a_killed_client_leaves_nothing_when_it_is_given_up() {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::new("volatile_apply");
    scene.work();
    let _ = scene.cut(Hold::Part(LATER), Dies::Client);
    loligo("abandon {} --data {}", &[&scene.kept(), &scene.place.data()]).ok();
    scene.end(false);
}

#[test]
fn what_a_killed_client_had_merged_without_hearing_of_it_is_not_merged_again_by_command() {
    cut("nonvolatile_apply", Hold::Answer, Dies::Client);
}

#[test]
fn half_a_merge_into_the_table_of_which_nobody_is_left_is_nothing_and_is_merged_by_command() {
    cut("nonvolatile_apply", Hold::Part(LATER), Dies::Both);
}

#[test]
fn a_merge_that_was_decided_before_client_and_server_were_killed_is_there_once_after_the_command() {
    cut("volatile_apply", Hold::Answer, Dies::Both);
}
