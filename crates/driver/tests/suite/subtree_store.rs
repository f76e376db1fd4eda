//! Decoupled subtrees whose owners keep their journals in the store: what is there after which death, and who goes on, over a real server and
//! its socket.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Site;
use loligo_driver::client::subtree::{Kept, KeptError};
use loligo_driver::client::{Call, Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_driver::{Address, Server};
use loligo_journal::file::FileWriter;
use loligo_journal::{Owner, encode_record};
use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{
    Answer, Control, Cred, DataOp, Event, FsError, FsResult, Ino, Inode, Kind, Lsn, Name, Op, SetAttr, StoredJournal,
    SubtreeOp, Time,
};

fn serve(site: &Site) -> Server {
    let mut config = site.config();
    config.mds.session_ms = 1000;
    Server::start(config, &mut |_| {}).expect("the server starts")
}

fn connect(site: &Site) -> (Client, Fs) {
    let address = Address::Unix(site.socket());
    let client = Client::connect(&address, Options { name: "job".into(), ..Options::default() }).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn stop(client: &Client) {
    client.stop(Duration::from_secs(10)).expect("it ends");
}

/// Owners are waited for no longer than it takes to see that they are gone.
fn options() -> SubtreeOptions {
    SubtreeOptions { lease: Duration::from_millis(100), allocated_inodes: 10_000, ..SubtreeOptions::default() }
}

/// Takes one over as soon as its owner is away for long enough.
fn take_over(fs: &Fs, path: impl AsRef<Path>) -> FsResult<Subtree> {
    let begun = Instant::now();
    loop {
        match Subtree::resume_stored(fs, &path, &options()) {
            Err(FsError::Busy) if begun.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

fn stored(job: &mut Subtree) -> Kept {
    job.stored().expect("it is whole").expect("there is one")
}

/// The journal that counts by the rank's record.
fn counts(client: &Client, job: &Subtree) -> Option<StoredJournal> {
    let (dir, epoch) = (job.root(), job.record().epoch);
    let what = Box::new(SubtreeOp::Data { epoch, inos: vec![Ino(epoch)] });
    let answer = client
        .call(&Arc::new(Cred::root()), Call::Op(Op::Control(Control::Subtree { dir, what })))
        .expect("it is his")
        .answer;
    let Answer::Subtree(answer) = answer else { panic!("no such answer") };
    let loligo_types::SubtreeAnswer::Decoupled { record, .. } = *answer else { panic!("no such answer") };
    record.journal
}

fn raw(client: &Client, ino: Ino, op: DataOp) -> FsResult<Answer> {
    let done = client.call(&Arc::new(Cred::root()), Call::Data { ino, op });
    done.map(|done| done.answer).map_err(|failed| failed.error)
}

#[test]
fn what_was_kept_in_the_store_is_merged_by_another_after_the_owner_and_the_power_of_the_server_were_lost() {
    let site = Site::new();
    let server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    fs.write("/job/old", b"old".to_vec()).expect("written");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    job.write("merged", b"1".to_vec()).expect("made");
    job.merge().expect("his");
    for n in 0..700 {
        job.write(format!("f{n}"), b"2".to_vec()).expect("made");
    }
    job.persist_global().expect("kept");
    let first = counts(&client, &job).expect("it counts");
    job.write("f0", b"3".to_vec()).expect("there");
    job.unlink("old").expect("there");
    job.persist_global().expect("added");
    let second = counts(&client, &job).expect("it counts");
    assert!(second.ino == first.ino && second.bytes > first.bytes, "{first:?} {second:?}");
    job.persist_global().expect("nothing is new");
    assert_eq!(counts(&client, &job), Some(second));
    job.write("lost", b"4".to_vec()).expect("made");
    // Nobody says farewell.
    site.power_loss(server);
    drop((job, fs, client));
    let _server = serve(&site);
    let (other, fs) = connect(&site);
    assert_eq!(Subtree::resume_stored(&fs, "/job", &options()).err(), Some(FsError::Busy), "its owner may come back");
    let mut job = take_over(&fs, "/job").expect("nobody is there");
    assert_eq!(job.stat("f0"), Err(FsError::NotFound), "nothing is merged yet");
    assert_eq!(job.merge().err(), Some(FsError::NotEmpty), "what is in the store comes first");
    assert_eq!(job.recouple(), Err(FsError::NotEmpty));
    assert_eq!(job.persist_global(), Err(FsError::NotEmpty));
    let kept = stored(&mut job);
    assert_eq!((kept.groups().len(), kept.record().merges), (1, 1));
    job.merge_kept(&kept).expect("his");
    assert_eq!(counts(&other, &job), None, "it is merged");
    assert_eq!(&*job.read("f0").expect("there"), b"3");
    job.write("more", b"5".to_vec()).expect("it goes on");
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    assert_eq!(fs.stat("/job").expect("there").size, 702);
    assert_eq!(fs.read("/job/merged").expect("there"), b"1");
    assert_eq!(fs.stat("/job/old"), Err(FsError::NotFound));
    assert_eq!(fs.stat("/job/lost"), Err(FsError::NotFound));
    stop(&other);
}

#[test]
fn after_a_merge_the_journal_in_the_store_is_begun_anew_under_the_other_number_and_nothing_is_merged_twice() {
    let site = Site::new();
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    let mut numbers = Vec::new();
    for n in 0..4 {
        job.write(format!("f{n}"), format!("{n}").into_bytes()).expect("made");
        job.persist_global().expect("kept");
        numbers.push(counts(&client, &job).expect("it counts").ino);
        if n < 3 {
            job.merge().expect("his");
            assert_eq!(counts(&client, &job), None, "all of it is merged");
            assert_eq!(
                raw(&client, numbers[n], DataOp::Read { offset: 0, len: 4 }),
                Ok(Answer::Bytes(vec![0; 4].into()))
            );
        }
    }
    let [one, other] = job.record().journal_inos();
    assert_eq!(numbers, [one, other, one, other]);
    stop(&client);
    let (client, fs) = connect(&site);
    let mut job = take_over(&fs, "/job").expect("nobody is there");
    let kept = stored(&mut job);
    job.merge_kept(&kept).expect("his");
    // What was merged is left out when it comes again, and what came after it is as it was.
    job.write("f3", b"again".to_vec()).expect("there");
    job.merge().expect("his");
    assert_eq!(job.merge_kept(&kept).expect("it is merged").records, 0);
    job.recouple().expect("nothing is outstanding");
    for n in 0..3 {
        assert_eq!(fs.read(format!("/job/f{n}")).expect("there"), format!("{n}").into_bytes());
    }
    assert_eq!(fs.read("/job/f3").expect("there"), b"again");
    stop(&client);
}

#[test]
fn what_was_kept_and_then_merged_is_not_merged_again_though_the_owner_died_before_it_could_say_that() {
    let site = Site::new();
    let server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    job.write("f", b"first".to_vec()).expect("made");
    job.persist_global().expect("kept");
    let journal = counts(&client, &job).expect("it counts");
    let bytes = raw(&client, journal.ino, DataOp::Read { offset: 0, len: journal.bytes as u32 }).expect("it may");
    let Answer::Bytes(bytes) = bytes else { panic!("no such answer") };
    job.merge().expect("his");
    job.write("f", b"second".to_vec()).expect("there");
    job.merge().expect("his");
    // As it was before the merges were said to have made it void.
    let (dir, epoch) = (job.root(), job.record().epoch);
    raw(&client, journal.ino, DataOp::Write { offset: 0, data: bytes }).expect("it may");
    raw(&client, journal.ino, DataOp::Sync).expect("it may");
    let what = Box::new(SubtreeOp::Keep { epoch, journal });
    client.call(&Arc::new(Cred::root()), Call::Op(Op::Control(Control::Subtree { dir, what }))).expect("it is his");
    drop((job, fs));
    stop(&client);
    site.power_loss(server);
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    let mut job = take_over(&fs, "/job").expect("nobody is there");
    let kept = stored(&mut job);
    assert_eq!(kept.groups().len(), 1);
    assert_eq!(job.merge_kept(&kept).expect("it is merged").records, 0);
    job.recouple().expect("nothing is outstanding");
    assert_eq!(fs.read("/job/f").expect("there"), b"second");
    stop(&client);
}

#[test]
fn what_was_written_and_not_registered_is_nothing_and_what_was_registered_before_counts() {
    let site = Site::new();
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    job.write("kept", b"1".to_vec()).expect("made");
    job.persist_global().expect("kept");
    let journal = counts(&client, &job).expect("it counts");
    let [one, other] = job.record().journal_inos();
    // It died while it added to it, and had begun the other one besides.
    for ino in [one, other] {
        let offset = if ino == journal.ino { journal.bytes } else { 0 };
        raw(&client, ino, DataOp::Write { offset, data: vec![0xab; 5000].into() }).expect("it may");
    }
    drop((job, fs));
    stop(&client);
    let (client, fs) = connect(&site);
    let mut job = take_over(&fs, "/job").expect("nobody is there");
    let kept = stored(&mut job);
    job.merge_kept(&kept).expect("it is whole");
    // The next one lies where the torn one was.
    job.write("next", b"2".to_vec()).expect("made");
    job.persist_global().expect("kept");
    job.write("more", b"3".to_vec()).expect("made");
    job.persist_global().expect("added");
    assert_eq!(stored(&mut job).groups()[0].parts.len(), 2);
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    assert_eq!(fs.stat("/job").expect("there").size, 3);
    stop(&client);
}

#[test]
fn a_damaged_journal_in_the_store_is_refused_by_name_and_nothing_of_it_is_merged() {
    let site = Site::new();
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    for n in 0..3 {
        job.mkdir(format!("d{n}"), 0o755).expect("made");
        job.persist_global().expect("kept");
    }
    let journal = counts(&client, &job).expect("it counts");
    let (dir, epoch) = (job.root(), job.record().epoch);
    let Answer::Bytes(whole) =
        raw(&client, journal.ino, DataOp::Read { offset: 0, len: journal.bytes as u32 }).expect("it may")
    else {
        panic!("no such answer")
    };
    let put = |bytes: &[u8]| {
        raw(&client, journal.ino, DataOp::Discard { from: 0 }).expect("it may");
        raw(&client, journal.ino, DataOp::Write { offset: 0, data: bytes.into() }).expect("it may");
    };
    let said = |job: &mut Subtree, what: &str| {
        let error = job.stored().expect_err(what);
        let text = error.to_string();
        assert!(text.contains(&format!("(object {})", journal.ino)), "{what}: {text}");
        error
    };
    for at in [3, 40, 70, 130, whole.len() / 2, whole.len() - 3] {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 4;
        put(&bytes);
        said(&mut job, &format!("byte {at}"));
    }
    // It ends where no record ends.
    put(&whole[..whole.len() - 5]);
    let error = said(&mut job, "cut");
    assert!(matches!(error, KeptError::Cut { .. }), "{error}");
    put(&[]);
    said(&mut job, "zeros");
    // Another subtree's.
    fs.mkdir("/other", 0o755).expect("made");
    let mut other = Subtree::decouple(&fs, "/other", &options()).expect("free");
    other.mkdir("d", 0o755).expect("made");
    other.persist_global().expect("kept");
    let its = counts(&client, &other).expect("it counts");
    let Answer::Bytes(bytes) =
        raw(&client, its.ino, DataOp::Read { offset: 0, len: its.bytes as u32 }).expect("it may")
    else {
        panic!("no such answer")
    };
    put(&bytes);
    let what = Box::new(SubtreeOp::Keep { epoch, journal: StoredJournal { bytes: its.bytes, ..journal } });
    client.call(&Arc::new(Cred::root()), Call::Op(Op::Control(Control::Subtree { dir, what }))).expect("it is his");
    let error = said(&mut job, "another's");
    assert!(matches!(error, KeptError::NotOfSubtree(_)), "{error}");
    // Who takes it over finds the same, and can give it up.
    drop((job, other));
    stop(&client);
    let (client, fs) = connect(&site);
    let mut job = take_over(&fs, "/job").expect("nobody is there");
    job.stored().expect_err("it is another's");
    assert_eq!(job.recouple(), Err(FsError::NotEmpty));
    job.abandon().expect("it is given up");
    assert_eq!(fs.stat("/job").expect("there").size, 0, "nothing was merged");
    stop(&client);
}

#[test]
fn a_long_journal_is_kept_and_read_in_many_requests_and_over_a_restart_of_the_server() {
    let site = Site::new();
    let server = serve(&site);
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let long = SubtreeOptions { lease: Duration::from_secs(600), ..options() };
    let mut job = Subtree::decouple(&fs, "/job", &long).expect("free");
    let big = vec![7; 4000];
    for n in 0..8000 {
        job.write(format!("f{n}"), big.clone()).expect("made");
    }
    job.persist_global().expect("kept");
    let journal = counts(&client, &job).expect("it counts");
    assert!(journal.bytes > 7 * DATA_OP_MAX as u64, "{journal:?}");
    // The right to write is gone with the life of the server, and so may be what was not synced.
    for n in 8000..10_000 {
        job.write(format!("f{n}"), big.clone()).expect("made");
    }
    site.power_loss(server);
    let server = std::thread::scope(|scope| {
        let keeping = scope.spawn(|| job.persist_global());
        let server = serve(&site);
        keeping.join().expect("no panic").expect("kept");
        server
    });
    let more = counts(&client, &job).expect("it counts");
    assert!(more.ino == journal.ino && more.bytes > journal.bytes, "{more:?}");
    let kept = stored(&mut job);
    let read: usize = kept.groups().iter().map(|group| group.parts.len()).sum();
    assert!(kept.groups().len() >= 2, "{}", kept.groups().len());
    // The owner's number is enough when the owner is gone.
    drop(job);
    stop(&client);
    server.stop().expect("it stops");
    drop(server);
    let _server = serve(&site);
    let (other, fs) = connect(&site);
    let mut job = Subtree::resume(&fs, &kept, &long).expect("it knows the number");
    let again = stored(&mut job);
    assert_eq!(again.groups().iter().map(|group| group.parts.len()).sum::<usize>(), read);
    let merged = job.merge_kept(&again).expect("his");
    assert_eq!(merged.steps, again.groups().len() as u64);
    job.recouple().expect("nothing is outstanding");
    assert_eq!(fs.stat("/job").expect("there").size, 10_000);
    assert_eq!(fs.read("/job/f9999").expect("there"), big);
    stop(&other);
}

#[test]
fn of_a_journal_on_the_disk_and_one_in_the_store_the_one_that_goes_further_is_merged() {
    let site = Site::new();
    let _server = serve(&site);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("job.journal");
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &options()).expect("free");
    job.write("a", b"1".to_vec()).expect("made");
    job.persist(&path).expect("written");
    job.persist_global().expect("kept");
    job.write("b", b"2".to_vec()).expect("made");
    job.persist_global().expect("kept");
    let kept = Kept::read(&path).expect("a good file");
    let mut second = Subtree::resume(&fs, &kept, &options()).expect("it knows the number");
    assert_eq!(second.merge_kept(&kept).err(), Some(FsError::NotEmpty), "the store has more");
    job.persist(&path).expect("added");
    let kept = Kept::read(&path).expect("a good file");
    second.merge_kept(&kept).expect("it goes as far");
    assert_eq!(counts(&client, &second), None, "what the store has is merged, too");
    second.recouple().expect("nothing is outstanding");
    assert_eq!(fs.stat("/job").expect("there").size, 2);
    stop(&client);
}

#[test]
fn what_root_merges_for_a_user_it_merges_with_that_users_rights() {
    let site = Site::new();
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    let root = Arc::new(Cred::root());
    fs.mkdir("/job", 0o755).expect("made");
    let his = SetAttr { uid: Some(1000), gid: Some(1000), ..SetAttr::default() };
    fs.set_attr("/job", his).expect("root may");
    let user = client.fs(Arc::new(Cred::user(1000, 1000)));
    let mut job = Subtree::decouple(&user, "/job", &options()).expect("it is his");
    job.write("his", b"1".to_vec()).expect("made");
    job.persist_global().expect("kept");
    let (dir, epoch) = (job.root(), job.record().epoch);
    // What it wrote there is what a program of its own says: a file of root's that runs as root, for one.
    let (record, journal) = (job.record().clone(), counts(&client, &job).expect("it counts"));
    let mut forged = Inode::new(record.used, Kind::File, 0o4755, 0, 0, dir, Time(1));
    forged.nlink = 1;
    let name = Name::new(b"su").expect("a name");
    let entry = Event::Entry { dir, name, ino: record.used, kind: Kind::File, remote: false };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::new([7; 16], Owner::Client(record.session.0), false);
    bytes.extend(writer.header());
    for (lsn, events) in
        [(1, vec![Event::Decoupled(Box::new(record))]), (2, vec![Event::Inode(Box::new(forged)), entry])]
    {
        let mut body = Vec::new();
        encode_record(&mut body, None, &events);
        writer.append(&mut bytes, Lsn(lsn), &body).expect("it is short");
    }
    let journal = StoredJournal { bytes: bytes.len() as u64, ..journal };
    raw(&client, journal.ino, DataOp::Write { offset: 0, data: bytes.into() }).expect("it may");
    let what = Box::new(SubtreeOp::Keep { epoch, journal });
    client.call(&root, Call::Op(Op::Control(Control::Subtree { dir, what }))).expect("it is his");
    drop((job, user, fs));
    stop(&client);
    let (client, fs) = connect(&site);
    let stranger = client.fs(Arc::new(Cred::user(1001, 1001)));
    assert_eq!(Subtree::resume_stored(&stranger, "/job", &options()).err(), Some(FsError::Perm));
    let mut job = take_over(&fs, "/job").expect("root may");
    let kept = stored(&mut job);
    assert_eq!(job.merge_kept(&kept).err(), Some(FsError::Invalid), "that is not its user's to make");
    job.abandon().expect("root may");
    assert_eq!(fs.stat("/job").expect("there").size, 0);
    stop(&client);
}

#[test]
fn a_program_whose_subtree_root_takes_is_told_with_its_next_operation_and_what_it_persists_is_in_its_file() {
    let site = Site::new();
    let _server = serve(&site);
    let (client, fs) = connect(&site);
    let (root, other) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("nobody uses it");
    job.write("f", b"made".to_vec()).expect("its own");
    let mut taken = Subtree::take_now(&other, job.root(), &SubtreeOptions::default()).expect("root may");
    assert_eq!(job.mkdir("late", 0o755).err(), Some(FsError::Stale));
    taken.abandon().expect("its own");
    assert_eq!(job.mkdir("later", 0o755).err(), Some(FsError::Stale), "what is lost stays lost");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("job.journal");
    assert!(job.persist(&file).is_err(), "nobody can merge it");
    drop(job);
    let kept = Kept::claim(&file).expect("what was made is there to be looked at");
    assert_eq!(kept.groups().len(), 1);
    stop(&client);
    stop(&root);
}
