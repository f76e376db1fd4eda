//! Copies and dumps of a file system that is served: they are of one moment, and who writes goes on. How a snapshot is made, by itself:
//! `crates/store-local/tests/snapshot.rs`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loligo_driver::client::path::OpenHow;
use loligo_driver::client::{Client, Fs, Options};
use loligo_store::Backend;
use loligo_store_local::{LocalStore, OpenOptions};
use loligo_types::Cred;
use serde_json::Value;

use super::run::{LOLIGO, PATIENCE, Place, Service, apart, loligo, until};

/// Bytes of a file that has an object.
const LEN: usize = 40_000;

fn client(data: &Path) -> Client {
    Client::connect(&loligo_driver::socket_in(data), Options::default()).expect("a connection")
}

fn fs(client: &Client) -> Fs {
    client.fs(Arc::new(Cred::root()))
}

fn content(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(LEN / 8)
}

/// Writes a file with its number, then the next one when that is synced; between both the same into one that is there, in place.
fn write_on(fs: &Fs, dir: &str, is_over: &AtomicBool, done: &AtomicU64) {
    let last = fs.open(format!("{dir}/last"), OpenHow::read_write()).expect("it is there");
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let file = fs.open(format!("{dir}/{number}"), OpenHow::create()).expect("it is made");
        file.write_at(0, content(number)).expect("it is written");
        file.sync().expect("it is synced");
        last.write_at(0, content(number)).expect("it is written");
        last.sync().expect("it is synced");
        done.store(number, Ordering::Relaxed);
    }
}

/// Asserts that the files of a writer are those of one moment.
fn check(fs: &Fs, dir: &str) {
    let names = fs.readdir(dir).expect("it can be listed");
    let mut numbers: Vec<u64> = names.iter().filter_map(|entry| entry.name.to_string().parse().ok()).collect();
    numbers.sort_unstable();
    let newest = numbers.len() as u64;
    assert!(numbers.iter().copied().eq(1..=newest), "{dir}: {numbers:?}");
    let last = fs.read(format!("{dir}/last")).expect("it reads");
    assert_eq!(last.len(), LEN);
    let seen: Vec<u64> = last.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("8 bytes"))).collect();
    let (least, most) = (seen.iter().min().copied(), seen.iter().max().copied());
    // It was written and synced before the newest file was made, and is written again only when that is synced.
    assert!(least >= newest.checked_sub(1) && most <= Some(newest), "{dir}: {least:?} to {most:?} of {newest}");
    for number in 1..=newest {
        let read = fs.read(format!("{dir}/{number}")).expect("it reads");
        let is_whole = number < newest || most == Some(newest);
        assert!(!is_whole || read == content(number), "{dir}/{number} was synced and is not whole");
    }
}

#[test]
fn a_copy_of_a_served_file_system_with_several_ranks_is_of_one_moment() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --admin off --set balancer=none", &[&data]);
    let dirs = ["/r0", "/r1", "/r2"];
    let user = client(&data);
    for (rank, dir) in dirs.iter().enumerate() {
        fs(&user).mkdir(dir, 0o755).expect("it is made");
        if rank > 0 {
            loligo(&format!("subtree migrate --data {{}} {dir} {rank}"), &[&data]).ok();
        }
        fs(&user).write(format!("{dir}/last"), content(0)).expect("it is written");
    }
    fs(&user).write("/r1/token", *b"one of a kind").expect("it is written");
    fs(&user).sync_all().expect("they are synced");
    let is_over = AtomicBool::new(false);
    let done: [AtomicU64; 4] = Default::default();
    let least = || done.iter().map(|done| done.load(Ordering::Relaxed)).min().expect("there are some");
    std::thread::scope(|scope| {
        for (dir, done) in dirs.iter().zip(&done) {
            let (data, is_over) = (&data, &is_over);
            scope.spawn(move || {
                let client = client(data);
                write_on(&fs(&client), dir, is_over, done);
                client.stop(PATIENCE).expect("a clean end");
            });
        }
        scope.spawn(|| {
            let client = client(&data);
            let names = ["/r1/token", "/r2/token"];
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                fs(&client).rename(names[round % 2], names[(round + 1) % 2]).expect("it is renamed");
                done[3].fetch_add(1, Ordering::Relaxed);
            }
            client.stop(PATIENCE).expect("a clean end");
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..3 {
                let begin = least();
                until("all have written", || least() > begin + 5);
                let begin = least();
                let told = loligo("copy --from {} --to {}", &[&data, &place.path(&format!("copy-{round}"))]).ok();
                assert!(told.out.contains("all read back and compared"), "{}", told.out);
                assert!(!data.join("snapshot").exists(), "the snapshot is removed");
                until("all go on writing", || least() > begin);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
    user.stop(PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
    for round in 0..3 {
        let copy = place.path(&format!("copy-{round}"));
        loligo("fsck --data {} --data-checksums", &[&copy]).ok();
        loligo("store check --data {}", &[&copy]).ok();
        let server = Service::start("serve --data {} --admin off --set balancer=none --set grace_ms=100", &[&copy]);
        let user = client(&copy);
        dirs.iter().for_each(|dir| check(&fs(&user), dir));
        let tokens = [fs(&user).read("/r1/token"), fs(&user).read("/r2/token")];
        let found: Vec<&[u8]> = tokens.iter().flatten().map(Vec::as_slice).collect();
        assert_eq!(found, [b"one of a kind"], "in one directory, and in one alone");
        user.stop(PATIENCE).expect("a clean end");
        assert_eq!(server.stop().0, 0);
        loligo("fsck --data {}", &[&copy]).ok();
    }
}

#[test]
fn a_dump_of_a_served_file_system_loads_and_one_that_would_lose_data_is_refused() {
    let place = Place::new();
    let (data, text, again) = (place.data(), place.path("text"), place.path("again"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --admin off", &[&data]);
    let user = client(&data);
    fs(&user).mkdir("/dir", 0o755).expect("it is made");
    fs(&user).write("/dir/small", *b"in the inode").expect("it is written");
    fs(&user).sync_all().expect("it is synced");
    loligo("dump --data {} --output {}", &[&data, &text]).ok();
    loligo("load --data {} {}", &[&again, &text]).ok();
    let first = std::fs::read_to_string(&text).expect("text");
    assert!(first.contains(" small ") && first.contains("in\\x20the\\x20inode"), "{first}");
    assert_eq!(loligo("dump --data {}", &[&again]).ok().out, first);
    fs(&user).write("/dir/large", vec![1; LEN]).expect("it is written");
    fs(&user).sync_all().expect("it is synced");
    loligo("dump --data {}", &[&data]).fails(1, &["/dir/large", "loligo copy --from"]);
    assert!(!data.join("snapshot").exists(), "the snapshot is removed");
    user.stop(PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
}

fn admin(data: &Path, request: &str) -> (u16, String) {
    ask(data, request, "")
}

/// The answer of the admin socket.
fn ask(data: &Path, request: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(data.join("admin.sock")).expect("a connection");
    stream
        .write_all(format!("{request} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .expect("a request");
    let answer = std::io::read_to_string(stream).expect("an answer");
    let (head, text) = answer.split_once("\r\n\r\n").expect("HTTP");
    (head.split(' ').nth(1).expect("a status").parse().expect("a number"), text.to_string())
}

#[test]
fn a_snapshot_is_made_once_kept_while_it_is_read_and_removed_by_order_or_by_the_next_start() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let document = |request: &str| -> Value {
        let (status, text) = admin(&data, request);
        assert_eq!(status, 200, "{request}: {text}");
        serde_json::from_str(&text).expect("a document")
    };
    let whole = || {
        until("the snapshot is whole", || document("GET /api/v1/snapshot")["state"] == "whole");
        LocalStore::open(data.join("snapshot"), &OpenOptions { read_only: true, ..OpenOptions::default() })
    };
    assert_eq!(document("GET /api/v1/snapshot")["state"], "none");
    assert_eq!(document("POST /api/v1/snapshot/make")["made"], true);
    assert_eq!(document("POST /api/v1/snapshot/make")["made"], false, "it is another one's");
    let reader = whole().expect("it is there");
    let (status, text) = admin(&data, "POST /api/v1/snapshot/remove");
    assert!(status == 409 && text.contains("a command that reads it"), "{status} {text}");
    drop(reader);
    // Not by who has another one in mind.
    let other = ask(&data, "POST /api/v1/snapshot/remove", "7");
    assert!(other.0 == 200 && other.1.contains("\"whole\""), "{other:?}");
    assert_eq!(ask(&data, "POST /api/v1/snapshot/remove", "one").0, 400);
    assert_eq!(document("POST /api/v1/snapshot/remove")["state"], "none");
    assert_eq!(document("POST /api/v1/snapshot/make")["made"], true);
    let reader = whole().expect("it is there");
    server.kill();
    let lease = reader.lease().expect("it tells whether it holds");
    assert!(lease.holds(), "it needs no server");
    let server = Service::start("serve --data {} --admin off", &[&data]);
    assert!(!data.join("snapshot").exists() && lease.lost().is_some());
    assert_eq!(server.stop().0, 0);
}

/// A dump that has its snapshot open, and waits for somebody who reads what it writes.
fn waiting_dump(place: &Place, data: &Path) -> Child {
    let pipe = place.path("pipe");
    let _ = std::fs::remove_file(&pipe);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let mut dump = Command::new(LOLIGO);
    dump.args(["dump", "--quiet", "--without-data", "--data"]).arg(data).arg("--output").arg(&pipe);
    let child = dump.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Shared by those who read it.
    let is_read = || {
        let Ok(lock) = std::fs::File::open(data.join("snapshot/lock")) else { return false };
        data.join("snapshot/whole").exists()
            && rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
    };
    until("the snapshot is read", is_read);
    child
}

#[test]
fn a_snapshot_whose_command_was_killed_is_removed_by_the_server() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    // Long enough for a busy machine to open it before the server takes it for left alone.
    let server = Service::start("serve --data {} --admin off --set snapshot_idle_ms=10000", &[&data]);
    let mut dump = waiting_dump(&place, &data);
    dump.kill().expect("it runs");
    dump.wait().expect("a child");
    until("the snapshot is removed", || !data.join("snapshot").exists());
    // The next one needs not wait.
    loligo("dump --data {}", &[&data]).ok();
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_snapshot_that_is_read_outlives_its_server_and_all_that_only_looks_and_ends_with_a_start() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    for ends in [false, true] {
        let server = Service::start("serve --data {} --admin off", &[&data]);
        let dump = waiting_dump(&place, &data);
        assert_eq!(server.stop().0, 0);
        let looks = [
            "fsck --data {} --data-checksums",
            "path 1 --data {}",
            "store check --data {}",
            "journal apply --data {} --dry-run",
        ];
        looks.into_iter().for_each(|words| _ = loligo(words, &[&data]).ok());
        if ends {
            loligo("fsck --data {} --repair", &[&data]).ok();
        }
        let text = std::fs::read_to_string(place.path("pipe")).expect("what it wrote");
        let dump = dump.wait_with_output().expect("a child");
        let told = String::from_utf8_lossy(&dump.stderr);
        assert_eq!(dump.status.success(), !ends, "{told}");
        match ends {
            false => assert!(text.contains("loligo"), "{text}"),
            true => assert!(told.contains("opened to be changed") && told.contains("do it again"), "{told}"),
        }
        assert_eq!(data.join("snapshot").exists(), !ends);
    }
}

/// A socket that answers as a server does which makes a snapshot, and then ends. The store's own tests stop a real one (`store-local/tests/snapshot.rs`).
fn a_server_that_ends_while_it_makes_one(data: &Path) -> std::thread::JoinHandle<()> {
    let socket = data.join("admin.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for made in [true, false] {
            let (mut stream, _) = listener.accept().expect("a question");
            // To its end, which is an empty line.
            let lines = BufReader::new(&stream).lines().map(|line| line.expect("a question"));
            assert!(lines.take_while(|line| !line.is_empty()).count() > 0);
            let doc = format!("{{\"state\":\"making\",\"number\":1,\"made\":{made}}}");
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{doc}").expect("it listens");
        }
        std::fs::remove_file(&socket).expect("it is there");
    })
}

#[test]
fn a_copy_whose_server_stops_while_it_makes_the_snapshot_says_so_and_needs_none_then() {
    let place = Place::new();
    let (data, copy) = (place.data(), place.path("copy"));
    loligo("format --data {}", &[&data]).ok();
    let owner = LocalStore::open(&data, &OpenOptions::default()).expect("nobody has it");
    let state = format!(
        "{{\"pid\": 1, \"socket\": {0:?}, \"admin_socket\": {1:?}, \"admin\": null, \"mount\": null}}",
        data.join("loligo.sock"),
        data.join("admin.sock")
    );
    std::fs::write(data.join("server.json"), state).expect("it can be written");
    let server = a_server_that_ends_while_it_makes_one(&data);
    loligo("copy --from {} --to {}", &[&data, &copy])
        .fails(1, &["was stopped, or ended, while it made", "no snapshot is needed"]);
    server.join().expect("it was asked twice");
    assert!(!copy.exists());
    drop(owner);
    std::fs::remove_file(data.join("server.json")).expect("it is there");
    loligo("copy --from {} --to {}", &[&data, &copy]).ok();
}

#[test]
fn a_copy_and_a_check_take_a_data_directory_that_cannot_be_written_and_a_server_says_what_to_do() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = client(&data);
    fs(&user).write("/f", content(1)).expect("written");
    fs(&user).sync_all().expect("synced");
    // So that there is something to recover.
    server.kill();
    drop(user);
    let script = "mount --bind $D/data $D/data; mount -o remount,bind,ro $D/data
        $L fsck --data $D/data --data-checksums; $L store check --data $D/data; $L dump --without-data --data $D/data
        $L copy --from $D/data --to $D/copy
        if $L serve --data $D/data; then exit 9; fi; if $L up --data $D/data --mount $D/mnt; then exit 9; fi";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in ["cannot be written", "loligo copy --from", "loligo fsck --data"] {
        assert!(ran.err.matches(words).count() >= 2, "no `{words}` in {}", ran.err);
    }
    let server = Service::start("serve --data {} --admin off --set grace_ms=100", &[&place.path("copy")]);
    assert_eq!(fs(&client(&place.path("copy"))).read("/f").expect("it reads"), content(1));
    drop(server);
}

#[test]
fn nothing_but_a_reader_opens_a_snapshot_and_nothing_is_made_inside_of_a_data_directory() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let client = client(&data);
    fs(&client).write("/f", content(1)).expect("written");
    fs(&client).sync_all().expect("synced");
    let ask = |order: &str| {
        let mut socket = UnixStream::connect(data.join("admin.sock")).expect("the admin plane");
        write!(socket, "POST /api/v1/snapshot/{order} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .expect("asked");
        std::io::read_to_string(socket).expect("an answer")
    };
    assert!(ask("make").contains("200"));
    let snapshot = data.join("snapshot");
    until("the snapshot is whole", || snapshot.join("whole").exists());
    for words in ["serve --data {}", "fsck --data {} --repair", "fsck --data {}"] {
        loligo(words, &[&snapshot]).fails(1, &["is inside of the data directory"]);
    }
    assert!(ask("remove").contains("200"));
    assert_eq!(fs(&client).read("/f").expect("it reads"), content(1));
    drop(client);
    assert_eq!(server.stop().0, 0);
    std::os::unix::fs::symlink(data.join("objects"), place.path("link")).expect("made");
    for target in [data.join("snapshot"), data.join("objects/copy"), data.join("new/copy"), place.path("link/copy")] {
        loligo("copy --from {} --to {}", &[&data, &target]).fails(1, &["is inside of the data directory"]);
        loligo("format --data {}", &[&target]).fails(1, &["is inside of the data directory"]);
        assert!(!target.exists() && !data.join("new").exists(), "{}", target.display());
    }
}
