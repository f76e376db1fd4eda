//! Paths through the library: how many requests they take, over one rank and over several.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Site;
use loligo_driver::client::path::{Fs, OpenHow};
use loligo_driver::client::{Call, Client, Options};
use loligo_driver::{Server, ServerConfig};
use loligo_mds::admin::{Ask, Told};
use loligo_types::{Cred, Frag, FsError, Kind, Op, Rank, SetAttr, XattrMode};

fn start(site: &Site, ranks: u16) -> Server {
    Server::start(ServerConfig { ranks, ..site.config() }, &mut |_| {}).expect("the server starts")
}

fn connect(site: &Site) -> (Client, Fs) {
    let address = format!("unix:{}", site.socket().display()).parse().expect("an address");
    let client = Client::connect(&address, Options { name: "paths".into(), ..Options::default() }).expect("connected");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

/// Requests that were answered so far, or sent on to other ranks; but for closes, which come with time, many at once.
fn requests(server: &Server) -> u64 {
    let status = server.status().expect("it runs");
    let of = |rank: &loligo_driver::RankStatus| {
        let ops = rank.mds.ops.iter().filter(|(name, _)| **name != "close");
        rank.mds.redirects + ops.map(|(_, count)| count.count).sum::<u64>()
    };
    status.ranks.iter().map(of).sum()
}

fn stop(client: Client, server: Server) {
    client.stop(Duration::from_secs(10)).expect("it ends");
    server.stop().expect("it stops cleanly");
}

#[test]
fn a_path_takes_one_request_however_deep_it_is() {
    let site = Site::new();
    let server = start(&site, 1);
    let (client, fs) = connect(&site);
    let mut path = String::new();
    for depth in 0..100 {
        path += &format!("/d{depth}");
        fs.mkdir(&path, 0o755).expect("made");
    }
    let file = path.clone() + "/f";
    fs.write(&file, b"x".to_vec()).expect("written");
    let before = requests(&server);
    assert_eq!(fs.stat(&file).map(|attr| attr.size), Ok(1));
    // So many names as a request has at most, and the rest.
    assert_eq!(requests(&server) - before, 2);
    assert_eq!(fs.stat("/d0/d1/d2").map(|attr| attr.kind), Ok(Kind::Dir));
    assert_eq!(requests(&server) - before, 3);
    // What is made or taken away at the end of a path comes with the way there.
    let mut last = requests(&server);
    let mut once = |what: &str, done: Result<(), FsError>| {
        assert_eq!(done, Ok(()), "{what}");
        assert_eq!(std::mem::replace(&mut last, requests(&server)) + 1, last, "{what}");
    };
    once("mkdir", fs.mkdir("/d0/d1/x", 0o750).map(drop));
    once("mknod", fs.mknod("/d0/d1/x/f", Kind::File, 0o600).map(drop));
    once("symlink", fs.symlink("f", "/d0/d1/x/s").map(drop));
    once("stat", fs.stat("/d0/d1/x").map(|attr| assert_eq!((attr.mode, attr.kind), (0o750, Kind::Dir))));
    once("readlink", fs.readlink("/d0/d1/x/s").map(|target| assert_eq!(*target, *b"f")));
    // So does what is done of what is there, or opened.
    let change = || SetAttr { mode: Some(0o640), ..SetAttr::default() };
    once("set_attr", fs.set_attr("/d0/d1/x/f", change()).map(|attr| assert_eq!(attr.mode, 0o640)));
    once("set_attr", fs.set_attr("/d0/d1/x", SetAttr { mode: Some(0o755), ..SetAttr::default() }).map(drop));
    once("read", fs.read("/d0/d1/x/f").map(|content| assert_eq!(content, b"")));
    once("read", fs.read("/d0/d1/x/f").map(drop));
    let create = OpenHow { create: Some(0o600), ..OpenHow::read_write() };
    once("open", fs.open("/d0/d1/x/f", create).and_then(|file| file.close()));
    once("open", fs.open("/d0/d1/x/g", create).and_then(|file| file.close()));
    once("stat", fs.stat("/d0/d1/x/g").map(|attr| assert_eq!((attr.kind, attr.mode), (Kind::File, 0o600))));
    once("readdir", fs.readdir("/d0/d1/x").map(|all| assert_eq!(all.len(), 3)));
    once("readdir", fs.readdir("/d0/d1/x/").map(|all| assert_eq!(all.len(), 3)));
    once("readdir", fs.readdir("/").map(drop));
    assert_eq!(fs.open("/d0/d1/x/g", OpenHow { exclusive: true, ..create }).err(), Some(FsError::Exists));
    assert_eq!(fs.readdir("/d0/d1/x/f").err(), Some(FsError::NotDir));
    assert_eq!(fs.readlink("/d0/d1/x/f").err(), Some(FsError::Invalid));
    assert_eq!(fs.open("/d0/d1/x/g/", OpenHow::read()).err(), Some(FsError::NotDir));
    // A symbolic link at the end is followed: to it, its target, where that leads.
    let before = requests(&server);
    fs.set_attr("/d0/d1/x/s", change()).expect("changed");
    assert_eq!((fs.read("/d0/d1/x/s"), requests(&server) - before), (Ok(Vec::new()), 6));
    fs.unlink("/d0/d1/x/g").expect("removed");
    last = requests(&server);
    let mut once = |what: &str, done: Result<(), FsError>| {
        assert_eq!(done, Ok(()), "{what}");
        assert_eq!(std::mem::replace(&mut last, requests(&server)) + 1, last, "{what}");
    };
    once("unlink", fs.unlink("/d0/d1/x/s"));
    once("unlink", fs.unlink("/d0/d1/x/f"));
    once("rmdir", fs.rmdir("/d0/d1/x"));
    // What refuses it is said once, too, and what is no directory is none.
    assert_eq!(fs.mkdir("/d0/d1/d2", 0o755).err(), Some(FsError::Exists));
    assert_eq!(fs.mkdir("/d0/no/x", 0o755).err(), Some(FsError::NotFound));
    assert_eq!(fs.rmdir("/d0/d1").err(), Some(FsError::NotEmpty));
    // Paths that end with no name.
    assert_eq!(fs.mknod("/d0/d1/..", Kind::File, 0o600).err(), Some(FsError::Exists));
    assert_eq!(
        (fs.mkdir("/", 0o755).err(), fs.mkdir("/d0/.", 0o755).err()),
        (Some(FsError::Exists), Some(FsError::Exists))
    );
    assert_eq!((fs.rmdir("/d0/."), fs.unlink("/d0/..")), (Err(FsError::Invalid), Err(FsError::IsDir)));
    assert_eq!((fs.rename("/d0/..", "/x"), fs.rename("/d0", "/")), (Err(FsError::Busy), Err(FsError::Busy)));
    assert_eq!(fs.write("/d0/..", b"x".to_vec()), Err(FsError::IsDir));
    fs.mknod("/d0/plain", Kind::File, 0o600).expect("made");
    assert_eq!(fs.mkdir("/d0/plain/x", 0o755).err(), Some(FsError::NotDir));
    // Links, dots, and what is in the way.
    fs.symlink("d1/../d1/d2", "/d0/link").expect("made");
    fs.symlink("/d0/link/d3", "/short").expect("made");
    let ino = fs.stat("/d0/d1/d2/d3").expect("it is there").ino;
    for same in ["/short", "/short/", "/./d0/.//link/d3/.", "/d0/d1/../link/d3/d4/.."] {
        assert_eq!(fs.stat(same).map(|attr| attr.ino), Ok(ino), "{same}");
    }
    fs.mkdir("/short/made", 0o755).expect("made, where the link leads");
    fs.mknod("/d0/./link/../d2/node", Kind::File, 0o600).expect("made");
    assert!(fs.stat("/d0/d1/d2/d3/made").is_ok() && fs.stat("/d0/d1/d2/node").is_ok());
    assert_eq!(fs.unlink("/d0/link/../d2/node"), Ok(()));
    assert_eq!(fs.lstat("/short").map(|attr| attr.kind), Ok(Kind::Symlink));
    assert_eq!(fs.stat(format!("{file}/x")).err(), Some(FsError::NotDir));
    assert_eq!(fs.stat(format!("{file}/")).err(), Some(FsError::NotDir));
    assert_eq!(fs.stat("/d0/no/d2").err(), Some(FsError::NotFound));
    fs.symlink("loop", "/loop").expect("made");
    assert_eq!(fs.stat("/loop/x").err(), Some(FsError::Loop));
    stop(client, server);
}

#[test]
fn under_placement_replicated_a_path_takes_one_request_wherever_it_leads() {
    one_request_each("replicated");
}

#[test]
fn under_placement_table_a_path_takes_one_request_wherever_it_leads() {
    one_request_each("table");
}

fn one_request_each(placement: &str) {
    const DIRS: usize = 12;
    let site = Site::new();
    let server = start(&site, 4);
    let (client, fs) = connect(&site);
    let top = fs.mkdir("/top", 0o755).expect("made").ino;
    let (name, value) = (loligo_namespace::PLACEMENT.into(), placement.as_bytes().into());
    let set = Op::SetXattr { ino: top, name, value, mode: XattrMode::Set };
    client.call(&Arc::new(Cred::root()), Call::Op(set)).expect("set");
    let mut files = Vec::new();
    for n in 0..DIRS {
        for path in [format!("/top/a{n}"), format!("/top/a{n}/b")] {
            fs.mkdir(&path, 0o755).expect("made");
            files.push(format!("{path}/f"));
            fs.mknod(files.last().expect("one"), Kind::File, 0o644).expect("made");
        }
    }
    // All ranks have come to know the directories that lead to their own.
    assert!(files.iter().all(|file| fs.stat(file).is_ok()));
    // Somebody who was nowhere yet: the first path shows where ranks are given by paths, and is looked for from the root.
    let (other, fresh) = connect(&site);
    fresh.stat(&files[1]).expect("it is there");
    let before = requests(&server);
    assert!(files.iter().all(|file| fresh.stat(file).is_ok()));
    assert_eq!(requests(&server) - before, files.len() as u64);
    // So does what is made.
    let before = requests(&server);
    assert!(files.iter().all(|file| fresh.mknod(format!("{file}2"), Kind::File, 0o644).is_ok()));
    // And what is opened, changed or listed.
    let change = || SetAttr { mode: Some(0o640), ..SetAttr::default() };
    assert!(files.iter().all(|file| fresh.read(format!("{file}2")).is_ok()));
    assert!(files.iter().all(|file| fresh.set_attr(format!("{file}2"), change()).is_ok()));
    assert!(files.iter().all(|file| fresh.readdir(file.trim_end_matches("/f")).is_ok_and(|all| all.len() > 1)));
    assert!(files.iter().all(|file| fresh.unlink(format!("{file}2")).is_ok()));
    assert_eq!(requests(&server) - before, 5 * files.len() as u64);
    // Changes of directories on the way are seen at once, by whoever asks whichever rank.
    let user = other.fs(Arc::new(Cred::user(7, 7)));
    assert!(files.iter().all(|file| user.stat(file).is_ok()));
    fs.set_attr("/top/a3", SetAttr { mode: Some(0o700), ..SetAttr::default() }).expect("changed");
    if placement == "table" {
        // Paths come through whoever may search it; what they lead to decides by itself.
        assert!(user.stat("/top/a3/b/f").is_ok() && user.read("/top/a3/f").is_ok());
        assert_eq!(user.readdir("/top/a3").err(), Some(FsError::Access));
        assert_eq!(user.write("/top/a3/g", b"x".to_vec()).err(), Some(FsError::Access));
        assert_eq!(user.unlink("/top/a3/f").err(), Some(FsError::Access));
    } else {
        assert_eq!(user.stat("/top/a3/f").err(), Some(FsError::Access));
        assert_eq!(user.stat("/top/a3/b/f").err(), Some(FsError::Access));
    }
    fs.set_attr("/top/a3", SetAttr { mode: Some(0o755), ..SetAttr::default() }).expect("changed");
    assert!(user.stat("/top/a3/b/f").is_ok());
    // A renamed directory takes nothing along, and is asked where it was.
    fs.rename("/top/a4", "/top/z4").expect("renamed");
    assert_eq!(fresh.stat("/top/a4/b/f").err(), Some(FsError::NotFound));
    fresh.stat("/top/z4/b/f").expect("it is there");
    let before = requests(&server);
    fresh.stat("/top/z4/b/f").expect("it is there");
    assert_eq!(requests(&server) - before, 1, "who has found it once asks its rank");
    other.stop(Duration::from_secs(10)).expect("it ends");
    stop(client, server);
}

#[test]
fn a_directory_in_fragments_of_several_ranks_is_asked_where_each_name_is() {
    let site = Site::new();
    let server = start(&site, 3);
    let (client, fs) = connect(&site);
    fs.mkdir("/top", 0o755).expect("made");
    let dir = fs.mkdir("/top/wide", 0o755).expect("made").ino;
    let files: Vec<String> = (0..40).map(|n| format!("/top/wide/f{n}")).collect();
    for file in &files {
        fs.mknod(file, Kind::File, 0o644).expect("made");
    }
    let quarters = Frag::WHOLE.split(2);
    for (frag, to) in [(quarters[2], 1), (quarters[3], 2)] {
        let ask = Ask::MigrateFrag { dir, frag, to: Rank(to) };
        server.admin(Rank::ZERO, ask).expect("it answers");
        let state = || match server.admin(Rank::ZERO, Ask::Migrations) {
            Ok(Told::Migrations(all)) => all.last().map(|last| last.state.clone()),
            other => panic!("{other:?}"),
        };
        while state().as_deref() != Some("done") {
            assert!(!state().is_some_and(|state| state.starts_with("failed")), "{:?}", state());
            // The rank goes on by itself.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let (other, fresh) = connect(&site);
    // The first ones show who has which names.
    files.iter().for_each(|file| assert!(fresh.stat(file).is_ok(), "{file}"));
    let before = requests(&server);
    files.iter().for_each(|file| assert!(fresh.stat(file).is_ok(), "{file}"));
    assert_eq!(requests(&server) - before, files.len() as u64);
    // So are files that are opened. A listing goes on at the ranks that have the rest.
    let before = requests(&server);
    files.iter().for_each(|file| assert!(fresh.read(file).is_ok(), "{file}"));
    assert_eq!(requests(&server) - before, files.len() as u64);
    for plus in [false, true] {
        let mut all = Vec::new();
        fresh.readdir_with("/top/wide", plus, |entry| all.push(entry.name.to_string())).expect("listed");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), files.len());
    }
    other.stop(Duration::from_secs(10)).expect("it ends");
    stop(client, server);
}

#[test]
fn a_directory_of_many_entries_is_listed_page_by_page_as_it_was_opened() {
    let site = Site::new();
    let server = start(&site, 1);
    let (client, fs) = connect(&site);
    fs.mkdir("/wide", 0o755).expect("made");
    for n in 0..2500 {
        fs.mknod(format!("/wide/f{n}"), Kind::File, 0o644).expect("made");
    }
    let before = requests(&server);
    let mut count = 0;
    fs.readdir_with("/wide", false, |_| count += 1).expect("listed");
    // The first page, the open, and the other two.
    assert_eq!((count, requests(&server) - before), (2500, 4));
    stop(client, server);
}

#[test]
fn what_another_user_writes_runs_no_more_in_the_name_of_its_owner() {
    let site = Site::new();
    let server = start(&site, 1);
    let (client, fs) = connect(&site);
    let user = client.fs(Arc::new(Cred::user(7, 7)));
    for size in [10, 100_000] {
        fs.write("/f", vec![b'x'; size]).expect("written");
        let set = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
        fs.set_attr("/f", set).expect("changed");
        let file = user.open("/f", OpenHow { create: None, ..OpenHow::append() }).expect("all may write it");
        file.write_at(0, b"y".to_vec()).and_then(|()| file.close()).expect("written");
        assert_eq!(fs.stat("/f").map(|attr| attr.mode & 0o6000), Ok(0), "{size}");
        // Root may.
        fs.set_attr("/f", SetAttr { mode: Some(0o6777), ..SetAttr::default() }).expect("changed");
        let file = fs.open("/f", OpenHow { create: None, ..OpenHow::append() }).expect("opened");
        file.write_at(0, b"z".to_vec()).and_then(|()| file.close()).expect("written");
        assert_eq!(fs.stat("/f").map(|attr| attr.mode & 0o6000), Ok(0o6000), "{size}");
    }
    stop(client, server);
}

#[test]
fn what_was_promised_of_directories_is_not_asked_again_and_others_wait_until_that_has_ended() {
    let site = Site::new();
    let server = start(&site, 4);
    let (client, fs) = connect(&site);
    let (other_client, other) = connect(&site);
    let policy = |name: &str, value: &str| {
        let (name, value) = (format!("loligo.policy.{name}").into_bytes().into(), value.as_bytes().into());
        let set = Op::SetXattr { ino: loligo_types::Ino::ROOT, name, value, mode: XattrMode::Set };
        client.call(&Arc::new(Cred::root()), Call::Op(set)).expect("it is root's");
    };
    policy("placement", "giga");
    policy("lookup_lease", "1s");
    fs.mkdir("/a", 0o755).expect("made");
    fs.mkdir("/a/b", 0o755).expect("made");
    fs.mkdir("/a/b/c", 0o755).expect("made");
    fs.mknod("/a/b/c/f", Kind::File, 0o644).expect("made");
    let ino = fs.stat("/a/b/c").expect("it is there").ino;
    // Each rank has what it needs of the others', and this client knows where `c` is: what comes next is asked of its rank at once. It may have taken
    // so long here that it has to be promised anew, but not each time.
    let asked = |what: &dyn Fn(u32)| {
        let of = |n| {
            fs.stat("/a/b/c/f").expect("it is there");
            let before = requests(&server);
            what(n);
            requests(&server) - before
        };
        (0..5).map(of).min()
    };
    assert_eq!(asked(&|_| assert!(fs.stat("/a/b/c/f").is_ok())), Some(1));
    assert_eq!(asked(&|n| assert!(fs.mknod(format!("/a/b/c/{n}"), Kind::File, 0o600).is_ok())), Some(1));
    // Both of its names are known places: without leases that is three.
    assert_eq!(asked(&|n| assert!(fs.rename(format!("/a/b/c/{n}"), format!("/a/b/c/n{n}")).is_ok())), Some(1));
    assert_eq!(fs.stat("/a/b/c/n0").map(|attr| attr.kind), Ok(Kind::File));
    let known = fs.lookup_leases();
    assert!(known[1..=3].iter().all(|(hits, leased)| *hits > 5 && *leased > 0), "of each on the way: {known:?}");
    assert!(known[4..].iter().all(|known| *known == (0, 0)), "and of nothing else: {known:?}");
    // Another one renames it: that comes to pass when nobody goes by its old name any more.
    fs.stat("/a/b/c/f").expect("it is there");
    other.rename("/a/b/c", "/a/moved").expect("renamed");
    assert_eq!(fs.stat("/a/b/c/f").err(), Some(FsError::NotFound));
    assert_eq!(fs.stat("/a/moved").map(|attr| attr.ino), Ok(ino));
    let waits: u64 = server.status().expect("it runs").ranks.iter().map(|rank| rank.mds.paths.promise_waits).sum();
    assert!(waits >= 1);
    other_client.stop(Duration::from_secs(10)).expect("it ends");
    stop(client, server);
}
