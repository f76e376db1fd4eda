//! A directory that one mount has decoupled and in which another one works meanwhile (`interfere = "allow"`), over many merges: whole files at
//! random, and records that both append and sync, also when the server is killed. Nothing is lost or torn. Not here: what becomes of each pair
//! of changes (`allow.rs`).

use std::path::{Path, PathBuf};

use loligo_types::Random;

use super::allow::{both, policy};
use super::run::{LOLIGO, Place, can_mount, loligo, until};

const NAMES: u64 = 6;
/// Bytes of a token and the end of its line.
const TOKEN: usize = 19;

/// A file's content says who wrote it in which round, and how long it is.
fn tokens(writer: &str, round: u32, number: u32, len: usize) -> Vec<u8> {
    format!("{writer}-{round:03}-{number:04}-{len:07}\n")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(len / TOKEN * TOKEN)
        .collect()
}

/// The token of each file below a directory; an error names one that is of several, or cut off.
fn all_tokens(dir: &Path) -> Vec<Result<String, String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("a name").path();
        match std::fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => found.extend(all_tokens(&path)),
            Ok(_) => found.push(token_of(&path)),
            Err(error) => found.push(Err(format!("{}: {error}", path.display()))),
        }
    }
    found
}

fn token_of(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let head = bytes.get(..TOKEN - 1).and_then(|head| std::str::from_utf8(head).ok()).unwrap_or_default().to_string();
    let whole = head.rsplit('-').next().and_then(|len| len.parse::<usize>().ok()).map(|len| len / TOKEN * TOKEN);
    let is_one = bytes.chunks(TOKEN).all(|chunk| chunk.len() == TOKEN && chunk[..TOKEN - 1] == *head.as_bytes());
    match whole == Some(bytes.len()) && is_one {
        true => Ok(head),
        false => Err(format!("{}: {} bytes, {:.54?}", path.display(), bytes.len(), String::from_utf8_lossy(&bytes))),
    }
}

/// One thing that somebody does to some file.
fn act(dir: &Path, writer: &str, round: u32, number: u32, numbers: &mut Random) {
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    let mut path = || dir.join(["a", "b"][numbers.below(2) as usize]).join(format!("f{}", numbers.below(NAMES)));
    let (one, other) = (path(), path());
    let most = if numbers.below(4) == 0 { 4 } else { 3 };
    let len = [90, 2_000, 150_000, 5_000_000][numbers.below(most) as usize];
    let bytes = tokens(writer, round, number, len);
    let done = match numbers.below(10) {
        0..4 => std::fs::write(&one, bytes),
        // In place: the rest is cut off after it.
        4..6 => std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&one).and_then(|file| {
            file.write_all_at(&bytes, 0)?;
            file.set_len(bytes.len() as u64)
        }),
        6 => {
            let next = dir.join(format!("next-{writer}"));
            std::fs::File::create(&next)
                .and_then(|mut file| file.write_all(&bytes))
                .and_then(|()| std::fs::rename(next, &one))
        }
        7 => std::fs::remove_file(&one),
        8 => std::fs::rename(&one, &other),
        _ => std::fs::hard_link(&one, &other),
    };
    use std::io::ErrorKind::{AlreadyExists, NotFound};
    if let Some(error) = done.err().filter(|error| !matches!(error.kind(), NotFound | AlreadyExists)) {
        panic!("{writer}, round {round}, {}: {error}", one.display());
    }
}

#[test]
fn whatever_two_mounts_do_in_a_decoupled_directory_nothing_that_either_wrote_is_lost_or_torn_over_many_merges() {
    rounds(20, false);
}

#[test]
fn nothing_of_both_is_lost_or_torn_when_the_server_is_killed_while_they_work_and_while_it_merges() {
    rounds(8, true);
}

/// A server that is started anew whenever it was killed, by a process of its own: a child of this one would close this one's files on the mounts
/// before it begins, and wait for the server with that.
struct Keeper {
    shell: std::process::Child,
    on: PathBuf,
    pid: PathBuf,
}

impl Keeper {
    fn start(place: &Place) -> Keeper {
        // Also on a busy machine clients are there again in time.
        let script = r#"while [ -e "$D/on" ]; do
            "$L" serve --data "$D/data" --set session_ms=20000 --set grace_ms=10000 >/dev/null 2>&1 &
            echo $! > "$D/pid.new"; mv "$D/pid.new" "$D/pid"; wait
        done"#;
        let (on, pid) = (place.path("on"), place.path("pid"));
        std::fs::write(&on, "").expect("written");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).env("D", place.dir.path()).env("L", LOLIGO);
        let keeper = Keeper { shell: shell.spawn().expect("there is a shell"), on, pid };
        until("it serves", || loligo("status {}", &[&place.data()]).code == 0);
        keeper
    }

    fn now(&self) -> i32 {
        let text = std::fs::read_to_string(&self.pid).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.now()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// kill -9; another one comes.
    fn kill(&self) {
        let before = self.now();
        self.signal(rustix::process::Signal::KILL);
        until("another server comes", || self.now() != before);
    }

    fn stop(mut self) {
        std::fs::remove_file(&self.on).expect("it is there");
        self.signal(rustix::process::Signal::TERM);
        self.shell.wait().expect("it ends");
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.on);
        if self.shell.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(rustix::process::Signal::KILL);
            let _ = self.shell.wait();
        }
    }
}

/// Two mounts work in it at the same time, and then it is merged, so many times.
fn rounds(rounds: u32, kills: bool) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Keeper::start(&place);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir_all(mine.join("a")).expect("it is writable");
    std::fs::create_dir_all(mine.join("b")).expect("it is writable");
    let policy = policy(&place);
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    for round in 0..rounds {
        // All of it is known here: what others do from now on is seen with the merge, so nothing of it is written over knowingly.
        all_tokens(&mine);
        std::thread::scope(|scope| {
            for (at, (writer, dir)) in [("o", &mine), ("t", &theirs)].into_iter().enumerate() {
                scope.spawn(move || {
                    let mut numbers = Random::new(u64::from(round) * 2 + at as u64);
                    (0..12).for_each(|number| act(dir, writer, round, number, &mut numbers));
                });
            }
            if kills && round % 2 == 0 {
                server.kill();
            }
        });
        let is_new = |token: &String| token.contains(&format!("-{round:03}-"));
        // Bytes that only others change may be seen here before the merge that brings their size.
        let view = |dir: &Path, writer: &str| -> Vec<String> {
            let whole = all_tokens(dir).into_iter().flatten();
            whole.filter(|token| is_new(token) && token.starts_with(writer)).collect()
        };
        let made: Vec<String> = view(&mine, "o").into_iter().chain(view(&theirs, "t")).collect();
        std::thread::scope(|scope| {
            let merge = scope.spawn(|| loligo("merge {}", &[&mine]).ok());
            if kills && round % 2 == 1 {
                server.kill();
            }
            merge.join().expect("it is merged");
        });
        for dir in [&mine, &theirs] {
            let there: Result<Vec<String>, String> = all_tokens(dir).into_iter().collect();
            let there = there.unwrap_or_else(|wrong| panic!("round {round}, after the merge: {wrong}"));
            for token in &made {
                assert!(there.contains(token), "round {round}, {}: {token} is lost", dir.display());
            }
        }
        if round % 5 == 4 {
            let _ = std::fs::remove_dir_all(mine.join(".conflicts"));
        }
    }
    loligo("recouple {}", &[&mine]).ok();
    let sorted = |dir: &Path| {
        let mut all = all_tokens(dir);
        all.sort();
        all
    };
    assert_eq!(sorted(&mine), sorted(&theirs));
    assert_eq!((other.stop().0, owner.stop().0), (0, 0));
    server.stop();
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

/// Bytes of a record, with the end of its line.
const RECORD: usize = 64;

/// Appends records to files that others append to, too, and syncs each few of them. Returns those of which a sync has told that they are durable.
fn append_records(
    dir: &Path,
    writer: &str,
    batches: u64,
    seed: u64,
    done: &std::sync::atomic::AtomicU64,
) -> Vec<String> {
    use std::io::Write;
    let (mut numbers, mut synced) = (Random::new(seed), Vec::new());
    for batch in 0..batches {
        let path = dir.join(format!("log{}", numbers.below(4)));
        let records: Vec<String> =
            (0..=numbers.below(3)).map(|at| format!("{:.<63}\n", format!("{writer}-{batch:05}-{at}"))).collect();
        let appended = std::fs::OpenOptions::new().append(true).open(path).and_then(|mut file| {
            records.iter().try_for_each(|record| file.write_all(record.as_bytes()))?;
            file.sync_all()
        });
        // A server that was killed may have cost a call its answer: then nothing was promised.
        if appended.is_ok() {
            synced.extend(records);
        }
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    synced
}

/// The records of all files below a directory; an error: one that is of two, or has a hole.
fn all_records(dir: &Path, found: &mut std::collections::BTreeSet<String>) -> Result<(), String> {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("a name").path();
        if path.is_dir() {
            all_records(&path, found)?;
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for record in bytes.chunks(RECORD) {
            let text = std::str::from_utf8(record).unwrap_or_default();
            if text.len() != RECORD || !text.ends_with(".\n") || text.contains('\0') {
                return Err(format!("{}: {:?}", path.display(), String::from_utf8_lossy(record)));
            }
            found.insert(text.to_string());
        }
    }
    Ok(())
}

/// Both mounts append to the same files while it is merged again and again. Files `log0` and `log2` live in objects.
fn appended_by_both(batches: u64, kills: u64) {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Keeper::start(&place);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let base = format!("{:.<63}\n", "base");
    for at in 0..4 {
        let records = if at % 2 == 0 { 1000 } else { 1 };
        std::fs::write(mine.join(format!("log{at}")), base.repeat(records)).expect("written");
    }
    let policy = place.path("often.toml");
    let text = "preset = 'batchfs'\ninterfere = 'allow'\nallocated_inodes = 1000\nsync_interval = '100ms'\n";
    std::fs::write(&policy, text).expect("written");
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    let done = AtomicU64::new(0);
    let synced: Vec<String> = std::thread::scope(|scope| {
        let writers = [("o1", &mine), ("o2", &mine), ("t1", &theirs), ("t2", &theirs)];
        let all = (1..).zip(writers).map(|(seed, (writer, dir))| {
            let done = &done;
            scope.spawn(move || append_records(dir, writer, batches, seed, done))
        });
        let all = all.collect::<Vec<_>>();
        for kill in 1..=kills {
            until("they have done their part", || done.load(Relaxed) >= batches * 4 * kill / (kills + 1));
            server.kill();
        }
        all.into_iter().flat_map(|one| one.join().expect("it appends")).collect()
    });
    assert!(synced.len() as u64 > batches, "{} records", synced.len());
    loligo("recouple {}", &[&mine]).ok();
    for dir in [&mine, &theirs] {
        let mut there = std::collections::BTreeSet::new();
        all_records(dir, &mut there).unwrap_or_else(|torn| panic!("{torn}"));
        let lost: Vec<&String> = synced.iter().filter(|record| !there.contains(*record)).collect();
        assert!(lost.is_empty(), "{}: {} of {} records are lost: {lost:?}", dir.display(), lost.len(), synced.len());
    }
    assert_eq!((other.stop().0, owner.stop().0), (0, 0));
    server.stop();
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn what_both_append_to_the_same_files_and_sync_is_all_there_while_merges_go_on() {
    appended_by_both(150, 0);
}

#[test]
fn what_both_append_to_the_same_files_and_sync_is_all_there_when_the_server_is_killed_between_merges() {
    appended_by_both(100, 3);
}
