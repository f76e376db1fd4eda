//! Every cell of table 6.1 at once in one namespace, and whoever may die, with SIGKILL, at each boundary between the stages of a pipeline: what
//! survived, and who sees what; with one rank and with several. Real servers and mounts, as a user starts them. Not here: merges that are cut
//! short in the middle, which are the simulator's and the metadata server's tests (`crates/mds/src/tests/decouple.rs`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Place, Service, can_mount, loligo, until};

const CONSISTENCIES: [&str; 3] = ["invisible", "weak", "strong"];
const DURABILITIES: [&str; 3] = ["none", "local", "global"];
const BIG: usize = 150_000;

/// A cell, and the directory that has it for a policy.
#[derive(Clone)]
struct Cell {
    consistency: &'static str,
    durability: &'static str,
    dir: PathBuf,
    /// By which what is done there is kept; 0: it is not decoupled.
    epoch: u64,
    /// The cell of the policy that a directory in it has.
    kid: Option<(&'static str, &'static str)>,
}

impl Cell {
    fn is_strong(&self) -> bool {
        self.epoch == 0
    }

    fn name(&self) -> String {
        let own = format!("{}-{}", self.consistency, self.durability);
        self.kid.map_or(own.clone(), |(consistency, durability)| format!("{own}-{consistency}-{durability}"))
    }
}

/// Progress of the owner before the crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Appended,
    Persisted,
    Completed,
}

/// Processes that die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dies {
    Client,
    Rank,
    Both,
}

struct Scene {
    place: Place,
    ranks: usize,
    server: Option<Service>,
    mount: Option<Service>,
    other: Option<Service>,
    cells: Vec<Cell>,
}

fn serve(place: &Place, ranks: usize) -> Service {
    // What moves between ranks is the test's to say.
    let words =
        format!("serve --data {{}} --ranks {ranks} --set balancer=none --set session_ms=1000 --set grace_ms=500");
    Service::start(&words, &[&place.data()])
}

fn mounted(place: &Place, at: &str) -> Service {
    let (at, keep) = (place.path(at), place.path("kept"));
    std::fs::create_dir_all(&at).expect("a directory");
    let keep = format!("keep_dir={}", keep.display());
    Service::start("mount --server {} {} --set {}", &[&place.data(), &at, Path::new(&keep)])
}

fn killed(service: &mut Option<Service>) {
    service.take().expect("it runs").kill();
}

fn unmounted(place: &Place, at: &str) {
    let at = place.path(at);
    until("the dead mount is gone", || {
        let _ = Command::new("umount").arg("-l").arg(&at).output();
        super::run::fuse_mounts(&at).is_empty()
    });
}

fn fact(dir: &Path, key: &str) -> Option<u64> {
    let mut value = vec![0; 16 << 10];
    let len = rustix::fs::getxattr(dir, "loligo.subtree", &mut value).ok()?;
    let text = String::from_utf8_lossy(&value[..len]).into_owned();
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).and_then(|value| value.parse().ok())
}

/// The names in a directory; none if it is somebody else's.
fn names(dir: &Path) -> Option<BTreeSet<String>> {
    let read = || {
        let entries = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        entries.collect::<std::io::Result<BTreeSet<String>>>()
    };
    match read() {
        Ok(names) => Some(names),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => None,
        Err(error) => panic!("{}: {error}", dir.display()),
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

/// The policy of a cell. Others are refused where something is decoupled.
fn document(consistency: &str, durability: &str) -> String {
    let interfere = if consistency == "strong" { "" } else { "interfere = 'block'\n" };
    format!("consistency = '{consistency}'\ndurability = '{durability}'\n{interfere}")
}

fn write(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

impl Scene {
    /// A directory for each cell, at the ranks in turn, those with a journal of the client decoupled.
    fn new(ranks: usize) -> Scene {
        let place = Place::new();
        loligo("format --data {}", &[&place.data()]).ok();
        let server = Some(serve(&place, ranks));
        let (mount, other) = (Some(mounted(&place, "mnt")), Some(mounted(&place, "other")));
        let mut cells = Vec::new();
        for consistency in CONSISTENCIES {
            for durability in DURABILITIES {
                let mut cell = Cell { consistency, durability, dir: PathBuf::new(), epoch: 0, kid: None };
                cell.dir = place.path("mnt").join(cell.name());
                std::fs::create_dir(&cell.dir).expect("made");
                let rank = cells.len() % ranks;
                if rank > 0 {
                    let words = format!("subtree migrate --data {{}} /{} {rank}", cell.name());
                    loligo(&words, &[&place.data()]).ok();
                }
                let policy = place.path(&format!("{}.toml", cell.name()));
                write(&policy, document(consistency, durability).as_bytes());
                loligo("policy set {} {}", &[&cell.dir, &policy]).ok();
                if consistency != "strong" {
                    // What is kept on the machine is merged within the lease, what is in the store after it.
                    let lease = if durability == "local" { 60 } else { 0 };
                    loligo(&format!("decouple {{}} --lease {lease}"), &[&cell.dir]).ok();
                    let epoch = fact(&cell.dir, "epoch").expect("it is decoupled");
                    cell.epoch = epoch;
                }
                cells.push(cell);
            }
        }
        Scene { place, ranks, server, mount, other, cells }
    }

    /// Does the same everywhere, up to a stage; what comes after it is not in that stage.
    fn work(&mut self, stage: Stage) {
        for cell in &self.cells {
            std::fs::create_dir(cell.dir.join("sub")).expect("made");
            write(&cell.dir.join("small"), b"small");
            write(&cell.dir.join("big"), &vec![7; BIG]);
            write(&cell.dir.join("sub/deep"), b"deep");
            if stage >= Stage::Persisted {
                let file = std::fs::File::open(cell.dir.join("big")).expect("there");
                file.sync_all().unwrap_or_else(|error| panic!("{}: {error}", cell.name()));
            }
            if stage == Stage::Completed && !cell.is_strong() {
                loligo("sync {}", &[&cell.dir]).ok();
            }
        }
        for cell in &self.cells {
            write(&cell.dir.join("late"), b"late");
        }
        self.seen_by_others("while it is worked in");
    }

    /// Checks the view of others as long as the mount has its directories: strong cells whole, else that it is another's.
    fn seen_by_others(&self, when: &str) {
        for cell in &self.cells {
            let seen = names(&self.place.path("other").join(cell.name()));
            let strong = cell.is_strong().then(|| set(&["sub", "small", "big", "late"]));
            assert_eq!(seen, strong, "{} {when}", cell.name());
        }
    }

    fn kept(&self, cell: &Cell) -> Option<PathBuf> {
        let end = format!("-{}.journal", cell.epoch);
        let files = std::fs::read_dir(self.place.path("kept")).expect("it is there").flatten();
        files.map(|file| file.path()).find(|path| path.display().to_string().ends_with(&end))
    }

    /// The client is dead: what its policy promised is got back as an administrator would.
    fn recover(&mut self, stage: Stage) {
        for cell in self.cells.iter().filter(|cell| !cell.is_strong()) {
            let seen = self.place.path("other").join(cell.name());
            let is_kept = stage >= Stage::Persisted;
            match cell.durability {
                "local" if is_kept => {
                    match self.kept(cell) {
                        Some(file) => drop(loligo("merge {} --data {}", &[&file, &self.place.data()]).ok()),
                        // Of what is merged nothing is kept.
                        None => {
                            assert_eq!((cell.consistency, stage), ("weak", Stage::Completed), "nothing is kept");
                            continue;
                        }
                    }
                }
                "local" => {
                    // Nothing says it is over: its lease is long.
                    assert_eq!(names(&seen), None, "{}", cell.name());
                    continue;
                }
                "global" if is_kept && fact_stored(&self.place, cell) => {
                    until("the owner is seen to be gone", || {
                        let path = format!("/{}", cell.name());
                        loligo("merge --stored {} --data {}", &[Path::new(&path), &self.place.data()]).code == 0
                    });
                }
                _ => {}
            }
            until("it is a directory like others", || names(&seen).is_some());
        }
    }

    /// Checks the exact content for all, after the crash.
    fn survived(&self, stage: Stage, lives: bool) {
        for cell in &self.cells {
            let dir = self.place.path("other").join(cell.name());
            let all = ["sub", "small", "big", "late"];
            let expected = match (cell.consistency, cell.durability, stage) {
                ("strong", ..) => set(&all),
                _ if lives => set(&all),
                (_, "local", Stage::Appended) | ("weak", "local", Stage::Completed) if names(&dir).is_none() => {
                    continue;
                }
                (_, "local" | "global", Stage::Persisted | Stage::Completed) | ("weak", _, Stage::Completed) => {
                    set(&all[..3])
                }
                _ => set(&[]),
            };
            let found = names(&dir).unwrap_or_else(|| panic!("{} is another's still", cell.name()));
            assert_eq!(found, expected, "{} {stage:?}", cell.name());
            if !expected.is_empty() {
                assert!(std::fs::read(dir.join("big")).expect("there") == vec![7; BIG], "{} {stage:?}", cell.name());
                assert_eq!(std::fs::read(dir.join("sub/deep")).expect("there"), b"deep", "{}", cell.name());
            }
        }
    }

    fn end(mut self) {
        for mount in [self.mount.take(), self.other.take()].into_iter().flatten() {
            mount.stop();
        }
        if let Some(server) = self.server.take() {
            server.stop();
        }
        loligo("fsck --data {} --data-checksums", &[&self.place.data()]).ok();
    }
}

/// True if something of the cell is in the store.
fn fact_stored(place: &Place, cell: &Cell) -> bool {
    let status = loligo("status --data {} --json", &[&place.data()]).ok().json();
    let ranks = status["ranks"].as_array().cloned().unwrap_or_default();
    let all = ranks.iter().flat_map(|rank| rank["decoupled"].as_array().cloned().unwrap_or_default());
    let path = format!("/{}", cell.name());
    all.into_iter().any(|one| one["path"] == path.as_str())
}

fn dies(who: Dies, ranks: usize) {
    if !can_mount() {
        return;
    }
    for stage in [Stage::Appended, Stage::Persisted, Stage::Completed] {
        let mut scene = Scene::new(ranks);
        scene.work(stage);
        if who != Dies::Rank {
            killed(&mut scene.mount);
            unmounted(&scene.place, "mnt");
        }
        if who != Dies::Client {
            killed(&mut scene.server);
            scene.server = Some(serve(&scene.place, scene.ranks));
        }
        if who == Dies::Rank {
            scene.seen_by_others("after the rank's death");
            for cell in scene.cells.iter().filter(|cell| !cell.is_strong()) {
                assert_eq!(names(&cell.dir), Some(set(&["sub", "small", "big", "late"])), "its owner has it");
                loligo("merge {}", &[&cell.dir]).ok();
                loligo("recouple {}", &[&cell.dir]).ok();
            }
        } else {
            scene.recover(stage);
        }
        scene.survived(stage, who == Dies::Rank);
        scene.end();
    }
}

#[test]
fn every_cell_keeps_its_promise_when_the_client_dies_at_each_boundary() {
    dies(Dies::Client, 1);
}

#[test]
fn every_cell_keeps_its_promise_when_the_rank_dies_at_each_boundary() {
    dies(Dies::Rank, 1);
}

#[test]
fn every_cell_keeps_its_promise_when_both_die_at_each_boundary() {
    dies(Dies::Both, 1);
}

#[test]
fn every_cell_keeps_its_promise_when_the_client_dies_and_there_are_several_ranks() {
    dies(Dies::Client, 2);
}

#[test]
fn every_cell_keeps_its_promise_when_the_ranks_die_and_there_are_several() {
    dies(Dies::Rank, 3);
}

#[test]
fn every_cell_keeps_its_promise_when_client_and_ranks_die_and_there_are_several_ranks() {
    dies(Dies::Both, 3);
}

/// Levels that come after one another promise more.
fn keeps(more: (&str, &str), less: (&str, &str)) -> bool {
    let place = |levels: [&str; 3], level| levels.iter().position(|one| *one == level);
    place(CONSISTENCIES, more.0) >= place(CONSISTENCIES, less.0)
        && place(DURABILITIES, more.1) >= place(DURABILITIES, less.1)
}

impl Scene {
    /// For each pair of a cell that can be decoupled and any other a directory with the one that has a directory with the other: decoupled if it
    /// is given.
    fn nested() -> Scene {
        let place = Place::new();
        loligo("format --data {}", &[&place.data()]).ok();
        let server = Some(serve(&place, 1));
        let (mount, other) = (Some(mounted(&place, "mnt")), Some(mounted(&place, "other")));
        let (top, mut cells) = (place.path("mnt"), Vec::new());
        let all = || CONSISTENCIES.into_iter().flat_map(|one| DURABILITIES.map(|other| (one, other)));
        for (consistency, durability) in all() {
            let policy = place.path(&format!("{consistency}-{durability}.toml"));
            write(&policy, document(consistency, durability).as_bytes());
        }
        for (consistency, durability) in all().filter(|(consistency, _)| *consistency != "strong") {
            for kid in all() {
                let mut cell = Cell { consistency, durability, dir: PathBuf::new(), epoch: 0, kid: Some(kid) };
                cell.dir = top.join(cell.name());
                let below = cell.dir.join("kid");
                std::fs::create_dir_all(&below).expect("made");
                let policy = |(one, other): (&str, &str)| place.path(&format!("{one}-{other}.toml"));
                loligo("policy set {} {}", &[&cell.dir, &policy((consistency, durability))]).ok();
                loligo("policy set {} {}", &[&below, &policy(kid)]).ok();
                let lease = if durability == "local" { 60 } else { 0 };
                let done = loligo(&format!("decouple {{}} --lease {lease}"), &[&cell.dir]);
                assert_eq!(done.code == 0, keeps((consistency, durability), kid), "{}: {}", cell.name(), done.err);
                if done.code != 0 {
                    let named = format!("the policy of {}, which is below it, promises more", below.display());
                    assert!(done.err.contains(&named), "{}", done.err);
                }
                cell.epoch = fact(&cell.dir, "epoch").unwrap_or(0);
                cells.push(cell);
            }
        }
        Scene { place, ranks: 1, server, mount, other, cells }
    }

    fn work_below(&self) {
        for cell in &self.cells {
            let kid = cell.dir.join("kid");
            write(&kid.join("important"), b"important");
            for path in [kid.join("important"), kid] {
                let file = std::fs::File::open(&path).expect("there");
                file.sync_all().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }

    /// The files in the directories below are there, as far as the policies of these promise it.
    fn below_survived(&self, at: &str) {
        for cell in &self.cells {
            let path = self.place.path(at).join(cell.name()).join("kid/important");
            let is_promised = cell.is_strong() || cell.kid.is_some_and(|(_, durability)| durability != "none");
            match std::fs::read(&path) {
                Ok(data) => assert_eq!(data, b"important", "{}", path.display()),
                Err(error) => assert!(!is_promised, "{}: {error}", path.display()),
            }
        }
    }
}

fn dies_with_policies_below(who: Dies) {
    if !can_mount() {
        return;
    }
    let mut scene = Scene::nested();
    scene.work_below();
    if who != Dies::Rank {
        killed(&mut scene.mount);
        unmounted(&scene.place, "mnt");
    }
    if who != Dies::Client {
        killed(&mut scene.server);
        scene.server = Some(serve(&scene.place, scene.ranks));
    }
    if who == Dies::Rank {
        scene.below_survived("mnt");
        for cell in scene.cells.iter().filter(|cell| !cell.is_strong()) {
            loligo("merge {}", &[&cell.dir]).ok();
            loligo("recouple {}", &[&cell.dir]).ok();
        }
    } else {
        scene.recover(Stage::Persisted);
    }
    scene.below_survived("other");
    scene.end();
}

#[test]
fn what_a_directory_below_promises_survives_the_client_whatever_cell_the_one_above_has() {
    dies_with_policies_below(Dies::Client);
}

#[test]
fn what_a_directory_below_promises_survives_the_rank_whatever_cell_the_one_above_has() {
    dies_with_policies_below(Dies::Rank);
}

#[test]
fn what_a_directory_below_promises_survives_both_whatever_cell_the_one_above_has() {
    dies_with_policies_below(Dies::Both);
}
