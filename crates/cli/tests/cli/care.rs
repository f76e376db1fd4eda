//! Dump, load, fsck and the journal: what a file system is without its server.

use std::path::Path;
use std::sync::Arc;

use loligo_driver::Offline;
use loligo_driver::client::{Call, Client, Done, Options};
use loligo_journal::table::{Meta, Row, encode_note, key_inode, key_meta, key_policied, key_policies_noted};
use loligo_namespace::SUBTREE;
use loligo_store::{Batch, Durability, ObjectId};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use loligo_types::{Cred, Event, Ino, Kind, Name, Op, OpenFlags, SetAttr, SetTime, Time, XattrMode};

use super::run::{Place, Service, loligo, records_of};

fn name(text: &[u8]) -> Name {
    Name::new(text).expect("a name")
}

pub struct User {
    pub client: Client,
    cred: Arc<Cred>,
}

impl User {
    pub fn new(data: &Path) -> User {
        let client = Client::connect(&loligo_driver::socket_in(data), Options::default()).expect("a connection");
        User { client, cred: Arc::new(Cred::root()) }
    }

    fn op(&self, op: Op) -> Done {
        self.client.call(&self.cred, Call::Op(op.clone())).unwrap_or_else(|e| panic!("{op:?}: {e:?}"))
    }

    fn mkdir(&self, dir: Ino, text: &[u8]) -> Ino {
        self.op(Op::Mkdir { dir, name: name(text), mode: 0o751, umask: 0 }).attr().expect("attributes").ino
    }

    pub fn file(&self, dir: Ino, text: &[u8], data: &[u8]) -> Ino {
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let call = Call::Create { dir, name: name(text), mode: 0o640, umask: 0, flags, exclusive: true };
        let made = self.client.call(&self.cred, call).expect("a new file");
        let (ino, fh) = (made.attr().expect("attributes").ino, made.fh.expect("a handle"));
        let write = Call::Write { fh, offset: 0, data: data.into(), append: false, kill_priv: false };
        self.client.call(&self.cred, write).expect("written");
        self.client.call(&self.cred, Call::Fsync { fh, data_only: false }).expect("synced");
        self.client.call(&self.cred, Call::Release { fh, flock_owner: None }).expect("closed");
        ino
    }

    /// One of everything that a namespace can hold.
    fn fill(&self) {
        let dir = self.mkdir(Ino::ROOT, b"a dir \\ with\nodd \xff bytes");
        let deep = self.mkdir(dir, "tief \u{fc}".as_bytes());
        let file = self.file(deep, b"file", b"held in the inode\n\0\xff");
        self.file(deep, b"empty", b"");
        self.file(deep, b"big", &vec![7; 300_000]);
        self.op(Op::Link { ino: file, dir: Ino::ROOT, name: name(b"second name") });
        self.op(Op::Symlink { dir, name: name(b"link"), target: b"../to where"[..].into() });
        for (text, kind, rdev) in
            [(&b"fifo"[..], Kind::Fifo, 0), (b"null", Kind::Char, 0x103), (b"sock", Kind::Socket, 0)]
        {
            self.op(Op::Mknod { dir, name: name(text), kind, mode: 0o600, umask: 0, rdev });
        }
        let xattr = |ino, text: &[u8], value: &[u8]| {
            self.op(Op::SetXattr { ino, name: text.into(), value: value.into(), mode: XattrMode::Set });
        };
        xattr(file, b"user.empty", b"");
        xattr(file, b"user.some", b"a b=c");
        let acl: Vec<u8> =
            [(1u16, 6u16, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)]
                .iter()
                .flat_map(|(tag, perm, id)| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat())
                .collect();
        let acl = [&2u32.to_le_bytes()[..], &acl].concat();
        xattr(file, b"system.posix_acl_access", &acl);
        xattr(dir, b"system.posix_acl_default", &acl);
        let set = SetAttr { uid: Some(12), gid: Some(34), atime: Some(SetTime::At(Time(-5))), ..SetAttr::default() };
        self.client.call(&self.cred, Call::SetAttr { ino: file, set, fh: None }).expect("set");
    }
}

/// A file system with one of everything; its server was stopped, or killed.
pub fn filled(place: &Place, kill: bool) {
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = User::new(&data);
    user.fill();
    if kill {
        server.kill();
    } else {
        user.client.stop(super::run::PATIENCE).expect("a clean end");
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn a_dump_that_is_loaded_dumps_the_same_and_is_sound() {
    let place = Place::new();
    filled(&place, false);
    let (text, copy) = (place.path("text"), place.path("copy"));
    loligo("dump --data {} --output {}", &[&place.data(), &text])
        .fails(1, &["/tief", "big (inode", "is in objects", "loligo copy --from", "--without-data"]);
    assert!(!text.exists() && !place.path("text.part").exists(), "nothing is written");
    let dumped = loligo("dump --without-data --data {} --output {}", &[&place.data(), &text]).ok();
    assert!(dumped.err.contains("data of 1 file is in objects"), "{}", dumped.err);
    let first = std::fs::read_to_string(&text).expect("UTF-8");
    for line in [
        "loligo-dump 1 inodes=10 entries=10 xattrs=2 inline=1 objects=1 object-bytes=300000 ",
        "# not in this dump: data in objects, files=1 bytes=300000",
        "second\\x20name",
        " data=objects",
        " target=../to\\x20where",
        " acl=u::rw-,u:1000:r--,g::r--,m::r--,o::---",
        " default-acl=",
        " atime=-0.000000005 ",
        " rdev=259",
        " user.empty \\-\n",
        " held\\x20in\\x20the\\x20inode\\x0a\\x00\\xff\n",
        "\nend lines=",
    ] {
        assert!(first.contains(line), "no `{line}` in {first}");
    }
    let told = loligo("load --data {} {}", &[&copy, &text]).ok().out;
    assert!(told.contains("loaded 10 inodes and 10 entries") && told.contains("without data: 1 file ("), "{told}");
    assert_eq!(loligo("dump --without-data --data {}", &[&copy]).ok().out, first);
    loligo("fsck --data {} --data-checksums", &[&copy]).ok();
    // It is a file system that can be served, and goes on from where the other was.
    let server = Service::start("serve --data {} --admin off", &[&copy]);
    let user = User::new(&copy);
    let ino = user.mkdir(Ino::ROOT, b"new");
    assert!(!first.contains(&format!("inode {ino} ")), "{ino} was given out before");
    user.op(Op::Lookup { dir: Ino::ROOT, name: name(b"second name") });
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&copy]).ok();
}

#[test]
fn a_dump_of_several_ranks_is_loaded_as_one_rank_that_keeps_their_numbers() {
    let place = Place::new();
    let (text, copy) = (place.path("text"), place.path("copy"));
    let (far, next) = (1u64 << 48 | 300, 1u64 << 48 | 305);
    let zero = "0.000000000";
    let inode = |ino: u64, kind: &str, mode: &str, numbers: &str, rest: &str| {
        format!(
            "inode {ino} {kind} mode={mode} uid=0 gid=0 {numbers} atime={zero} mtime={zero} ctime={zero} btime={zero} {rest}"
        )
    };
    let lines = [
        "loligo-dump 1 inodes=4 entries=4 xattrs=0 inline=0 objects=0 object-bytes=0 next-ino=300".to_string(),
        format!("next-ino {next}"),
        inode(1, "dir", "0755", "nlink=3 size=2", "parent=1 change=1"),
        "entry 1 a 256 dir".to_string(),
        "entry 1 device 257 char".to_string(),
        inode(256, "dir", "0755", "nlink=2 size=2", "parent=1 change=1"),
        format!("entry 256 f {far} file"),
        format!("entry 256 g {far} file"),
        inode(257, "char", "0600", "nlink=1 size=0", "parent=1 change=1 rdev=259"),
        inode(far, "file", "0644", "nlink=2 size=0", "parent=256 change=1 data=inline"),
    ];
    let body = lines.join("\n") + "\n";
    let whole = format!("{body}end lines={} crc32c={:08x}\n", lines.len(), crc32c::crc32c(body.as_bytes()));
    std::fs::write(&text, &whole).expect("a file");
    loligo("load --data {} {}", &[&copy, &text]).ok();
    loligo("fsck --data {}", &[&copy]).ok();
    assert_eq!(loligo("dump --without-data --data {}", &[&copy]).ok().out, whole);
    // A number beyond what its rank has given out.
    std::fs::write(&text, whole.replace(&format!("next-ino {next}"), &format!("next-ino {far}"))).expect("a file");
    loligo("load --data {} {}", &[&place.path("never"), &text]).fails(1, &["is not below next-ino"]);
}

#[test]
fn a_dump_holds_what_is_in_the_journal_only() {
    let place = Place::new();
    filled(&place, true);
    let text = loligo("dump --without-data --data {}", &[&place.data()]).ok().out;
    assert!(text.contains("inodes=10 entries=10 xattrs=2 inline=1"), "{text}");
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
    let piped = std::process::Command::new("sh")
        .args(["-c", "timeout 60 \"$0\" dump --without-data --data \"$1\" | head -1", super::run::LOLIGO])
        .arg(place.data())
        .output()
        .expect("a shell");
    assert!(piped.stderr.is_empty() || !String::from_utf8_lossy(&piped.stderr).contains("panicked"));
}

#[test]
fn a_dump_that_was_damaged_leaves_nothing_behind() {
    let place = Place::new();
    filled(&place, false);
    let text = loligo("dump --without-data --data {}", &[&place.data()]).ok().out;
    let cut = &text[..text.rfind("\nend").expect("a last line") + 1];
    for (bad, why) in [
        (text.replace("uid=12", "uid=13"), "was changed or damaged"),
        (text.replace("mode=0640", "mode=x"), "mode"),
        (cut.to_string(), "cut off"),
        (text.replace("loligo-dump 1", "loligo-dump 9"), "version 9"),
        (text.replace("inodes=10", "inodes=11"), "line"),
        ("hello\n".to_string(), "no dump"),
    ] {
        let (file, dir) = (place.path("bad"), place.path("never"));
        std::fs::write(&file, &bad).expect("a file");
        loligo("load --data {} {}", &[&dir, &file]).fails(1, &["bad", why]);
        assert!(!dir.exists() || std::fs::read_dir(&dir).expect("a directory").next().is_none(), "{why}");
    }
    loligo("load --data {} {}", &[&place.path("never"), &place.path("none")]).fails(1, &["none"]);
}

/// Changes a stopped file system behind its back.
fn damage(data: &Path, change: impl FnOnce(&mut Offline)) {
    let store = LocalStore::open(data, &OpenOptions::default()).expect("the store");
    let mut offline = Offline::open(Arc::new(store), &mut |_| ()).expect("a file system");
    change(&mut offline);
    offline.close().expect("written");
}

#[test]
fn damage_is_found_told_and_mended() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    damage(&data, |offline| {
        offline.remove(&[key_inode(Ino(258))]).expect("removed");
        let mut batch = Batch::new();
        batch.put(b"I\0\0\0\0\0\0\x7f\xff\x01".to_vec(), b"??".to_vec());
        offline.backend().table().write(&batch, Durability::Sync).expect("written");
        offline
            .write(&[Event::Entry {
                dir: Ino::ROOT,
                name: name(b"ghost"),
                ino: Ino(9999),
                kind: Kind::File,
                remote: false,
            }])
            .expect("written");
    });
    let found = loligo("fsck --data {}", &[&data]).fails(3, &["problems found; nothing was changed", "--repair"]);
    for word in ["ghost", "cannot be understood", "lost+found", "; 1 is /\n"] {
        assert!(found.out.contains(word), "no {word} in {}", found.out);
    }
    let again = loligo("fsck --data {} --json", &[&data]).fails(3, &[]).json();
    assert_eq!((&again["sound"], &again["repaired"]), (&false.into(), &0.into()));
    let mended = loligo("fsck --data {} --repair --json", &[&data]).ok().json();
    assert_eq!((&mended["sound"], &mended["found"], &mended["left"]), (&true.into(), &again["found"], &0.into()));
    loligo("fsck --data {}", &[&data]).ok();
    assert_eq!(Service::start("serve --data {}", &[&data]).stop().0, 0);
}

#[test]
fn notes_of_directories_with_policies_are_compared_with_their_xattrs_and_mended() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = User::new(&data);
    let (dir, gone) = (user.mkdir(Ino::ROOT, b"with a policy"), user.mkdir(Ino::ROOT, b"gone"));
    for ino in [dir, gone] {
        let (name, value) = (SUBTREE.into(), b"preset = 'hdfs'"[..].into());
        user.op(Op::SetXattr { ino, name, value, mode: XattrMode::Set });
    }
    user.op(Op::Rmdir { dir: Ino::ROOT, name: name(b"gone") });
    // What only a journal says counts, too.
    server.kill();
    loligo("fsck --data {}", &[&data]).ok();
    damage(&data, |offline| {
        assert!(matches!(offline.get(&key_policied(dir)), Ok(Some(_))), "it is noted");
        assert!(matches!(offline.get(&key_policied(gone)), Ok(None)), "it went with its directory");
        offline.remove(&[key_policied(dir)]).expect("removed");
        let mut batch = Batch::new();
        batch.put(key_policied(Ino::ROOT), encode_note(&[]));
        offline.backend().table().write(&batch, Durability::Sync).expect("written");
    });
    let found = loligo("fsck --data {}", &[&data]).fails(3, &["2 problems found"]);
    for words in [
        format!(
            "{dir} has a policy of its own, and the note is missing by which a rank finds it; {dir} is /with a policy"
        ),
        "a note says that 1 has a policy of its own, and it has none".to_string(),
    ] {
        assert!(found.out.contains(&words), "no {words} in {}", found.out);
    }
    loligo("fsck --data {} --repair", &[&data]).ok();
    loligo("fsck --data {}", &[&data]).ok();
    damage(&data, |offline| {
        assert!(matches!(offline.get(&key_policied(dir)), Ok(Some(_))), "it is noted again");
        assert!(matches!(offline.get(&key_policied(Ino::ROOT)), Ok(None)));
        // A table of before there were notes says so, and is looked through as a whole.
        offline.remove(&[key_policied(dir), key_policies_noted()]).expect("removed");
    });
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn objects_that_nobody_was_told_of_are_noted_and_removed() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let (mut inline, mut big) = (None, None);
    damage(&data, |offline| {
        let visited = offline.rows(&mut |(_, row)| {
            if let Ok(Row::Inode(inode)) = row
                && inode.kind == Kind::File
            {
                let found = if inode.inline { &mut inline } else { &mut big };
                *found = Some(inode.ino.0);
            }
            std::ops::ControlFlow::Continue(())
        });
        visited.expect("it reads");
        let blobs = offline.backend().blobs();
        let left = [ObjectId::new(inline.expect("a small file"), 0), ObjectId::new(big.expect("a big file"), 9)];
        left.iter().for_each(|id| blobs.write_at(*id, 0, b"left").expect("written"));
        blobs.sync_all().expect("synced");
    });
    let found = loligo("fsck --data {} --json", &[&data]).ok().json();
    assert_eq!((&found["sound"], &found["leftover_objects"]), (&true.into(), &2.into()));
    let text = loligo("fsck --data {}", &[&data]).ok();
    assert!(text.out.contains("2 objects") && text.out.contains("--repair removes them"), "{}", text.out);
    loligo("fsck --data {} --repair", &[&data]).ok();
    let left = loligo("fsck --data {} --json", &[&data]).ok().json();
    assert_eq!((&left["leftover_objects"], &left["objects"]), (&0.into(), &1.into()));
}

#[test]
fn damaged_file_data_is_found_by_its_checksum() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let mut dirs = vec![data.join("objects")];
    let mut largest = None;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            let meta = entry.metadata().expect("attributes");
            if meta.is_dir() {
                dirs.push(entry.path());
            } else if largest.as_ref().is_none_or(|(len, _)| meta.len() > *len) {
                largest = Some((meta.len(), entry.path()));
            }
        }
    }
    let (len, path) = largest.expect("an object");
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("the object");
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", len - 1000).expect("written");
    loligo("fsck --data {}", &[&data]).ok();
    let found = loligo("fsck --data {} --data-checksums", &[&data]).fails(3, &["problems found"]);
    assert!(found.out.contains("LOST"), "{}", found.out);
}

#[test]
fn an_unfinished_load_is_nothing_to_build_on() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let store = LocalStore::open(&data, &OpenOptions::default()).expect("the store");
    let mut offline = Offline::open(Arc::new(store), &mut |_| ()).expect("a file system");
    offline.remove(&[key_meta(Meta::Format, loligo_types::Rank::ZERO)]).expect("removed");
    drop(offline);
    loligo("serve --data {}", &[&data]).fails(1, &["holds no finished file system"]);
    loligo("format --data {}", &[&data]).fails(1, &["a load that did not come to its end", "remove the directory"]);
    loligo("fsck --data {}", &[&data]).fails(1, &["no finished file system"]);
}

#[test]
fn a_journal_is_shown_as_text_and_as_json_and_its_end_is_judged() {
    let place = Place::new();
    filled(&place, true);
    let data = place.data();
    let text = loligo("journal inspect --data {}", &[&data]).ok().out;
    for word in ["lsn 1 segment", "entry dir=1", "name=\"second name\"", "rank 0 segment", "whole; the next record is"]
    {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let lines = loligo("journal inspect --data {} --json", &[&data]).ok().out;
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    let summary = loligo("journal inspect --data {} --summary", &[&data]).ok().out;
    assert!(!summary.contains("entry dir=1") && summary.contains("records"), "{summary}");
    // A torn end is what a crash leaves; a broken middle is not.
    let segment =
        std::fs::read_dir(data.join("journal/0")).expect("a journal").flatten().next().expect("a segment").path();
    let bytes = records_of(&segment);
    std::fs::write(&segment, &bytes[..bytes.len() - 3]).expect("written");
    let torn = loligo("journal inspect --data {} --summary", &[&data]).ok().out;
    assert!(torn.contains("torn"), "{torn}");
    let mut broken = bytes.clone();
    broken[bytes.len() / 2] ^= 1;
    std::fs::write(&segment, &broken).expect("written");
    let told = loligo("journal inspect --data {} --summary", &[&data]).fails(3, &["segment"]);
    assert!(told.out.contains("broken"), "{}", told.out);
}

/// The segments of the journal, oldest first.
fn segments(data: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(data.join("journal/0")).expect("a journal");
    let mut all: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Each kind of damage has words of its own, and so has what only looks like it.
#[test]
fn a_journal_of_several_segments_tells_a_gap_from_a_newer_version_and_from_what_is_no_damage() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    // Each start begins a segment; killed ones are not trimmed until the next checkpoint.
    for round in 0..3u8 {
        let server = Service::start("serve --data {} --admin off", &[&data]);
        let user = User::new(&data);
        for n in 0..10 {
            user.mkdir(Ino::ROOT, &[b'a' + round, b'0' + n]);
        }
        server.kill();
    }
    let all = segments(&data);
    let newest = all.last().expect("a segment").clone();
    let bytes = std::fs::read(&newest).expect("a segment");
    let inspect = |flags: &str| loligo(&format!("journal inspect --data {{}} {flags}"), &[&data]);
    let whole = inspect("--summary").ok().out;
    assert!(whole.contains("whole; the next record is"), "{whole}");
    // A newer version: the header is right, and not known.
    let mut newer = bytes.clone();
    newer[8..10].copy_from_slice(&7u16.to_le_bytes());
    let crc = crc32c::crc32c(&newer[..60]);
    newer[60..64].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&newest, &newer).expect("written");
    let told = inspect("--summary").fails(3, &["version 7"]);
    assert!(told.out.contains("broken"), "{}", told.out);
    let json = inspect("--summary --json").fails(3, &[]).out;
    let last: serde_json::Value = serde_json::from_str(json.lines().last().expect("a line")).expect("JSON");
    assert!(last["error"].as_str().expect("text").contains("version 7"), "{last}");
    loligo("serve --data {}", &[&data]).fails(1, &["version 7"]);
    // Zeros behind the records are no damage: a segment may be longer than what was written.
    std::fs::write(&newest, [&bytes[..], &[0; 4096]].concat()).expect("written");
    assert!(inspect("--summary").ok().out.contains("whole"), "zeros");
    std::fs::write(&newest, &bytes).expect("written");
    // A segment between others that is gone.
    if all.len() >= 3 {
        let between = &all[all.len() - 2];
        let kept = std::fs::read(between).expect("a segment");
        std::fs::remove_file(between).expect("removed");
        let told = inspect("--summary").fails(3, &["segment"]);
        assert!(told.out.contains("broken"), "{}", told.out);
        std::fs::write(between, kept).expect("written");
    }
    assert_eq!(inspect("--summary").ok().out, whole, "looking changes nothing");
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_load_that_was_cut_off_says_so_until_the_directory_is_removed() {
    let place = Place::new();
    filled(&place, false);
    let (text, copy) = (place.path("text"), place.path("copy"));
    loligo("dump --without-data --data {} -o {}", &[&place.data(), &text]).ok();
    let whole = std::fs::read_to_string(&text).expect("a dump");
    let mut load = std::process::Command::new(super::run::LOLIGO);
    load.args(["load", "--quiet", "--data"]).arg(&copy).arg("-").stdin(std::process::Stdio::piped());
    let mut load = load.spawn().expect("loligo can be started");
    let mut stdin = load.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, &whole.as_bytes()[..whole.len() / 2]).expect("it reads");
    // All it was given has been loaded once it waits for more: it is blocked in reading its descriptor 0.
    let reads = format!("{} 0x0 ", libc::SYS_read);
    let blocked = || std::fs::read_to_string(format!("/proc/{}/syscall", load.id())).unwrap_or_default();
    super::run::until("it waits for more", || copy.join("journal").exists() && blocked().starts_with(&reads));
    rustix::process::kill_process(rustix::process::Pid::from_child(&load), rustix::process::Signal::TERM)
        .expect("alive");
    load.wait().expect("its end");
    loligo("load --data {} {}", &[&copy, &text])
        .fails(1, &["a load that did not come to its end", "remove the directory"]);
    loligo("serve --data {}", &[&copy]).fails(1, &["no finished file system", "remove the directory"]);
    std::fs::remove_dir_all(&copy).expect("removed");
    loligo("load --data {} {}", &[&copy, &text]).ok();
    loligo("load --data {} {}", &[&copy, &text]).fails(1, &["already holds the file system"]);
}

#[test]
fn a_load_goes_on_where_a_format_or_a_load_was_cut_off_before_the_first_record() {
    let place = Place::new();
    filled(&place, false);
    let (text, copy) = (place.path("text"), place.path("copy"));
    loligo("dump --without-data --data {} -o {}", &[&place.data(), &text]).ok();
    LocalStore::format(&copy, &FormatOptions::default()).expect("the store alone");
    loligo("load --data {} {}", &[&copy, &text]).ok();
    loligo("fsck --data {}", &[&copy]).ok();
}
