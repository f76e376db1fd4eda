//! The store of a decoupled subtree's server fails at each of its calls while the owner persists and merges, for once or for good, and its
//! owner lives or dies: what was acknowledged is there, and what was not is whole or nothing. Over a disk in memory, whose calls can be counted.
//! Not which machine dies: `subtree_store.rs`, and the cells of the command line's tests.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::Site;
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_driver::{Address, Server};
use loligo_store::mem::{CrashPlan, Fault, FaultPoint};
use loligo_types::{Cred, FsError, FsResult, MergeInto};

const FILES: usize = 60;
const POINTS: [FaultPoint; 7] = [
    FaultPoint::LogAppend,
    FaultPoint::LogSync,
    FaultPoint::TableWrite,
    FaultPoint::TableRead,
    FaultPoint::BlobWrite,
    FaultPoint::BlobSync,
    FaultPoint::BlobRead,
];
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Steps of the owner, in order; those up to one number were acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    KeepFirst,
    MergeFirst,
    KeepSecond,
    MergeThird,
    End,
}

const STEPS: [Step; 5] = [Step::KeepFirst, Step::MergeFirst, Step::KeepSecond, Step::MergeThird, Step::End];

impl Step {
    /// State of the tree once all that this step promises is merged: nothing, the first files, those of the second turn, those of the
    /// third.
    fn state(self) -> usize {
        match self {
            Step::KeepFirst | Step::MergeFirst => 1,
            Step::KeepSecond => 2,
            Step::MergeThird | Step::End => 3,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    into: MergeInto,
    at: Option<(FaultPoint, u64, Fault)>,
    owner_dies: bool,
}

fn serve(site: &Site) -> Server {
    let mut config = site.config();
    config.mds.session_ms = 300;
    Server::start(config, &mut |_| {}).expect("the server starts")
}

fn connect(site: &Site) -> (Client, Fs) {
    let address = Address::Unix(site.socket());
    let client = Client::connect(&address, Options { name: "job".into(), ..Options::default() }).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn options(into: MergeInto, lease: Duration) -> SubtreeOptions {
    SubtreeOptions { lease, allocated_inodes: 10_000, into, ..SubtreeOptions::default() }
}

/// Files, each with its name and more as content, and what they become.
fn make(job: &mut Subtree, turn: usize) -> FsResult<()> {
    job.mkdir(format!("d{turn}"), 0o755)?;
    for n in 0..FILES {
        job.write(format!("d{turn}/f{n}"), vec![turn as u8; 100 + 60 * n])?;
    }
    if turn > 1 {
        job.unlink(format!("d{}/f0", turn - 1))?;
        job.rename(format!("d{}/f1", turn - 1), format!("d{turn}/moved"))?;
    }
    Ok(())
}

/// The names in each directory of a state.
fn names(state: usize) -> Vec<BTreeSet<String>> {
    let of = |turn: usize| {
        let first = if turn < state { 2 } else { 0 };
        let moved = (turn > 1).then(|| "moved".to_string());
        (first..FILES).map(|n| format!("f{n}")).chain(moved).collect()
    };
    (1..=state).map(of).collect()
}

/// A store that failed once is asked again, as a program would.
fn again<R>(mut what: impl FnMut() -> FsResult<R>) -> FsResult<R> {
    let begun = Instant::now();
    loop {
        match what() {
            Err(FsError::Io | FsError::NoSpace) if begun.elapsed() < PATIENCE => {}
            result => return result,
        }
    }
}

/// The owner's work, until it is done or the owner is no more.
fn work(job: &mut Subtree, told: &Mutex<Vec<Step>>) -> FsResult<()> {
    for step in STEPS {
        match step {
            Step::KeepFirst => make(job, 1).and_then(|()| again(|| job.persist_global()))?,
            Step::MergeFirst => again(|| job.merge()).map(drop)?,
            Step::KeepSecond => make(job, 2).and_then(|()| again(|| job.persist_global()))?,
            Step::MergeThird => make(job, 3).and_then(|()| again(|| job.merge())).map(drop)?,
            Step::End => again(|| job.recouple())?,
        }
        told.lock().expect("no panic with it").push(step);
    }
    Ok(())
}

/// Merges the journal that is in the store, if there is one, as a later client does.
fn finish(fs: &Fs, into: MergeInto) {
    let begun = Instant::now();
    let mut job = loop {
        match Subtree::resume_stored(fs, "/job", &options(into, Duration::from_millis(100))) {
            Err(FsError::Busy) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            // It is a directory like others, or the owner had kept nothing and it is one when its lease is over.
            Err(FsError::NotFound) if fs.readdir("/job").is_ok() || begun.elapsed() > PATIENCE => return,
            Err(FsError::NotFound) => std::thread::sleep(Duration::from_millis(20)),
            result => break result.expect("nobody is there"),
        }
    };
    if let Some(kept) = job.stored().expect("it is whole") {
        job.merge_kept(&kept).expect("it is as it was kept");
    }
    job.recouple().expect("nothing is outstanding");
}

/// Which state all see; panics if it is none.
fn state(fs: &Fs, case: Case) -> usize {
    let list = |path: &str| -> Vec<String> {
        let entries = fs.readdir(path).unwrap_or_else(|error| panic!("{case:?}: {path}: {error:?}"));
        entries.into_iter().map(|entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned()).collect()
    };
    let dirs = list("/job");
    let state = dirs.len();
    assert_eq!(
        dirs.into_iter().collect::<BTreeSet<_>>(),
        (1..=state).map(|turn| format!("d{turn}")).collect(),
        "{case:?}"
    );
    for (turn, expected) in (1..).zip(names(state)) {
        let found = list(&format!("/job/d{turn}"));
        assert_eq!(
            (found.len(), found.into_iter().collect()),
            (expected.len(), expected),
            "{case:?}: {turn} of {state}"
        );
        let content = fs.read(format!("/job/d{turn}/f9")).expect("there");
        assert_eq!(content, vec![turn as u8; 640], "{case:?}");
        if turn > 1 {
            let moved = fs.read(format!("/job/d{turn}/moved")).expect("there");
            assert_eq!(moved, vec![turn as u8 - 1; 160], "{case:?}");
        }
    }
    state
}

/// Runs one, and says how many calls of each kind the store has met.
fn run(case: Case) -> Vec<u64> {
    let site = Site::new();
    let mut server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let lease = if case.owner_dies { Duration::from_millis(100) } else { Duration::from_secs(600) };
    let mut job = Subtree::decouple(&fs, "/job", &options(case.into, lease)).expect("free");
    let told = Arc::new(Mutex::new(Vec::new()));
    let before = POINTS.map(|point| site.disk.calls(point));
    if let Some((point, nth, fault)) = case.at {
        site.disk.fail(point, nth, fault);
    }
    let owner = std::thread::spawn({
        let told = Arc::clone(&told);
        move || {
            let done = work(&mut job, &told);
            drop(job);
            done
        }
    });
    let mut died = false;
    while !owner.is_finished() {
        if server.wait_fatal(Some(Duration::from_millis(5))).is_none() {
            continue;
        }
        if case.owner_dies {
            // Nobody hears anything any more, and what it waits for has no answer.
            let _ = client.stop(Duration::ZERO);
            died = true;
        }
        site.disk.crash(&CrashPlan::lose_all());
        drop(server);
        server = serve(&site);
    }
    let done = owner.join().expect("no panic");
    let calls = POINTS.iter().zip(before).map(|(point, before)| site.disk.calls(*point) - before).collect();
    let told = told.lock().expect("no panic with it").clone();
    let (at_least, at_most) = match (told.last(), STEPS.get(told.len())) {
        (last, Some(next)) if died => (last.map_or(0, |step| step.state()), next.state()),
        _ => {
            assert_eq!((done, told.len()), (Ok(()), STEPS.len()), "{case:?}");
            (3, 3)
        }
    };
    // What is left of it all is what was durable; the fault may have come after the last step, too, or never.
    site.disk.crash(&CrashPlan::lose_all());
    drop(server);
    let server = serve(&site);
    let (other, fs) = connect(&site);
    if died {
        finish(&fs, case.into);
    }
    let seen = state(&fs, case);
    assert!((at_least..=at_most).contains(&seen), "{case:?}: {seen}, and {told:?} was told");
    // It is a directory like others.
    fs.mkdir("/job/more", 0o755).expect("it is all's");
    drop((fs, other, client));
    server.stop().expect("it stops");
    calls
}

/// All calls of all kinds, `every`th of them; each also with the owner's death, if the fault is one that ends the server.
fn sweep(into: MergeInto, faults: &[Fault]) {
    let every: u64 = if std::env::var_os("LOLIGO_ALL_FAULTS").is_some() { 1 } else { 4 };
    let calls = run(Case { into, at: None, owner_dies: false });
    let mut cases = Vec::new();
    for (point, count) in POINTS.iter().zip(&calls) {
        for fault in faults {
            for nth in (1..=*count).filter(|nth| (nth + u64::from(*fault == Fault::Io)) % every == 0) {
                let at = Some((*point, nth, *fault));
                cases.extend([false, true].map(|owner_dies| Case { into, at, owner_dies }));
            }
        }
    }
    assert!(cases.len() > 10, "{calls:?}");
    eprintln!("{} cases, {calls:?}", cases.len());
    // Most of each is waiting.
    let next = Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = { next.lock().expect("no panic with it").next() } {
                    run(case);
                }
            });
        }
    });
}

#[test]
fn a_store_that_fails_for_once_while_its_owner_persists_and_merges_loses_nothing() {
    sweep(MergeInto::Memory, &[Fault::Io, Fault::Full]);
}

#[test]
fn a_store_that_fails_for_once_while_what_is_merged_goes_into_the_table_loses_nothing() {
    sweep(MergeInto::Table, &[Fault::Io, Fault::Full]);
}

#[test]
fn what_was_told_is_there_when_the_store_dies_at_any_call_with_its_owner_or_without() {
    sweep(MergeInto::Memory, &[Fault::Die]);
}

#[test]
fn what_was_told_is_there_when_the_store_dies_at_any_call_of_a_merge_into_the_table() {
    sweep(MergeInto::Table, &[Fault::Die]);
}
