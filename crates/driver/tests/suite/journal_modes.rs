//! Journal modes of a policy, from the library down to the disk: the way that written bytes take, and what is there after lost power. Not
//! the rules of the rank (crate `mds`).

use std::sync::Arc;
use std::time::Duration;

use loligo_driver::client::path::{Fs, OpenHow};
use loligo_driver::client::{Call, Client, Options};
use loligo_driver::{Server, ServerConfig};
use loligo_mds::admin::{Ask, Told};
use loligo_types::{Cred, Ino, JournalMode, Op, Rank, XattrMode};

use crate::common::{Site, wait_until};

fn connect(site: &Site) -> (Client, Fs) {
    let address = format!("unix:{}", site.socket().display()).parse().expect("an address");
    let client = Client::connect(&address, Options { name: "modes".into(), ..Options::default() }).expect("connected");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

/// A client ends whose server is gone: what it holds would be written again when the server is back.
fn leave(client: Client) {
    // It cannot say goodbye.
    let _ = client.stop(Duration::ZERO);
}

/// Makes `/d` with a journal mode.
fn directory(fs: &Fs, policy: &str) {
    let ino = fs.mkdir("/d", 0o755).expect("made").ino;
    let (name, value) = (loligo_namespace::SUBTREE.into(), policy.as_bytes().into());
    let set = Op::SetXattr { ino, name, value, mode: XattrMode::Set };
    fs.client().call(fs.cred(), Call::Op(set)).expect("it is set");
}

fn read_write() -> OpenHow {
    OpenHow { create: Some(0o644), ..OpenHow::read_write() }
}

/// Bytes that went into the journal, and past it into objects.
fn written(server: &Server) -> (u64, u64) {
    let logged = server.status().expect("it runs").ranks.iter().map(|rank| rank.mds.data_taken).sum();
    (logged, server.metrics().data_direct.get())
}

/// The power is lost, the clients end, and a server that is started again is read.
fn after_lost_power(site: &Site, server: Server, clients: Vec<(Client, Fs)>, ranks: u16) -> Option<Vec<u8>> {
    site.power_loss(server);
    for (client, fs) in clients {
        drop(fs);
        leave(client);
    }
    let server = Server::start(ServerConfig { ranks, ..site.config() }, &mut |_| {}).expect("it starts");
    let (client, fs) = connect(site);
    let content = fs.read("/d/f").ok();
    client.stop(Duration::from_secs(10)).expect("it ends");
    server.stop().expect("it stops");
    content
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Writes a file in pieces with a sync after each, loses the power, and reads the file. The bytes of each way.
fn synced(policy: &str, pieces: &[(u64, usize)]) -> (u64, u64) {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    directory(&fs, policy);
    let file = fs.open("/d/f", read_write()).expect("made");
    let mut content = Vec::new();
    for (round, (offset, len)) in pieces.iter().enumerate() {
        let (offset, piece) = (*offset as usize, bytes(round as u8, *len));
        content.resize(content.len().max(offset + len), 0);
        content[offset..offset + len].copy_from_slice(&piece);
        file.write_at(offset as u64, piece).expect("written");
        file.sync().expect("synced");
    }
    let ways = written(&server);
    drop(file);
    let found = after_lost_power(&site, server, vec![(client, fs)], 1);
    assert!(found == Some(content), "{policy}: not as it was synced");
    ways
}

#[test]
fn what_was_synced_is_there_in_every_mode_and_each_mode_takes_its_way() {
    // Small: over the end, into the middle. Large: more than one request with data takes.
    let (small, large) = ([(0, 20_000), (20_000, 125), (300, 4096)], [(0, 300_000), (100, 150_000)]);
    for mode in JournalMode::ALL {
        let policy = format!("journal = '{}'", mode.name());
        let (few, many) = (20_000 + 125 + 4096, 450_000);
        match mode {
            JournalMode::Wasteless | JournalMode::Data => {
                assert_eq!(synced(&policy, &small), (few, 0), "{policy}");
                assert_eq!(synced(&policy, &large), (many, 0), "{policy}");
            }
            JournalMode::Selective => {
                assert_eq!(synced(&policy, &small), (few, 0), "{policy}");
                assert_eq!(synced(&policy, &large), (0, many), "{policy}");
            }
            JournalMode::Ordered | JournalMode::Writeback => {
                assert_eq!(synced(&policy, &small), (0, few), "{policy}");
                assert_eq!(synced(&policy, &large), (0, many), "{policy}");
            }
        }
    }
    let policy = "journal = 'selective'\njournal_threshold = '4095B'";
    assert_eq!(synced(policy, &small), (125, 20_000 + 4096), "a threshold of 4,095 bytes");
}

/// Writes a file without a sync, closes it, loses the power, and reads it.
fn unsynced(policy: &str, len: usize) -> Option<Vec<u8>> {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    directory(&fs, policy);
    let file = fs.open("/d/f", read_write()).expect("made");
    file.write_at(0, bytes(7, len)).expect("written");
    file.close().expect("at the server");
    // Whatever the answers of others waited for is durable.
    fs.mkdir("/durable", 0o755).expect("made");
    after_lost_power(&site, server, vec![(client, fs)], 1)
}

#[test]
fn of_unsynced_writes_modes_with_all_data_in_the_journal_keep_all_and_ordered_shows_no_size_without_its_bytes() {
    for len in [20_000, 300_000] {
        for mode in ["wasteless", "data", "ordered"] {
            assert!(unsynced(&format!("journal = '{mode}'"), len) == Some(bytes(7, len)), "{mode}, {len}");
        }
        for mode in ["selective", "writeback"] {
            let content = unsynced(&format!("journal = '{mode}'"), len).expect("its name is durable");
            assert!(
                content.iter().all(|byte| *byte == 0),
                "{mode}, {len}: objects that nobody synced are lost with the power"
            );
        }
    }
}

#[test]
fn a_file_that_several_clients_write_is_ordered_too() {
    let site = Site::new();
    let server = site.start();
    let ((one, fs), (two, other)) = (connect(&site), connect(&site));
    directory(&fs, "journal = 'ordered'");
    let file = fs.open("/d/f", read_write()).expect("made");
    file.write_at(0, bytes(1, 10_000)).expect("written");
    let same = other.open("/d/f", read_write()).expect("opened");
    same.write_at(10_000, bytes(2, 10_000)).expect("written");
    file.write_at(20_000, bytes(3, 10_000)).expect("written");
    drop((file, same));
    let content = after_lost_power(&site, server, vec![(one, fs), (two, other)], 1);
    let expected: Vec<u8> = [1, 2, 3].into_iter().flat_map(|seed| bytes(seed, 10_000)).collect();
    assert!(content == Some(expected), "a size covers bytes that are lost");
}

#[test]
fn a_mode_that_changes_while_a_file_is_dirty_counts_from_the_next_write_on() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    directory(&fs, "journal = 'writeback'");
    let file = fs.open("/d/f", read_write()).expect("made");
    file.write_at(0, bytes(1, 20_000)).expect("written");
    let ino = fs.stat("/d").expect("it is there").ino;
    let set = |mode: &str| {
        let (name, value) = (loligo_namespace::SUBTREE.into(), format!("journal = '{mode}'").into_bytes().into());
        let set = Op::SetXattr { ino, name, value, mode: XattrMode::Set };
        fs.client().call(fs.cred(), Call::Op(set)).expect("it is set");
    };
    let mut expected = bytes(1, 20_000);
    for (round, mode) in ["wasteless", "ordered", "data", "selective", "writeback"].into_iter().enumerate() {
        set(mode);
        for _ in 0..2 {
            let (at, piece) = (round * 1000, bytes(round as u8 + 2, 700));
            expected[at..at + 700].copy_from_slice(&piece);
            file.write_at(at as u64, piece).expect("written");
            file.sync().expect("synced");
        }
    }
    drop(file);
    let found = after_lost_power(&site, server, vec![(client, fs)], 1);
    assert!(found == Some(expected), "not as it was synced");
}

fn migrate(server: &Server, dir: Ino, from: Rank, to: Rank) {
    let told = server.admin(from, Ask::Migrate { dir, to }).expect("an answer");
    let Told::Begun(id) = told else { panic!("{told:?}") };
    wait_until("the directory has moved", || {
        let told = server.admin(from, Ask::Migrations).expect("an answer");
        let Told::Migrations(all) = told else { panic!("{told:?}") };
        let ours = all.into_iter().find(|one| one.id == id).expect("it is known");
        assert!(!ours.state.starts_with("failed"), "{ours:?}");
        ours.state == "done"
    });
}

#[test]
fn a_directory_moves_between_ranks_with_outstanding_data_in_every_mode() {
    for mode in JournalMode::ALL {
        let site = Site::new();
        let server = Server::start(ServerConfig { ranks: 2, ..site.config() }, &mut |_| {}).expect("it starts");
        let (client, fs) = connect(&site);
        directory(&fs, &format!("journal = '{}'", mode.name()));
        let dir = fs.stat("/d").expect("it is there").ino;
        let file = fs.open("/d/f", read_write()).expect("made");
        let mut expected = vec![0; 40_000];
        let mut write = |round: usize| {
            let (at, piece) = (round * 5000, bytes(round as u8, 9000));
            expected[at..at + 9000].copy_from_slice(&piece);
            file.write_at(at as u64, piece).expect("written");
            file.sync().expect("synced");
        };
        write(0);
        write(1);
        migrate(&server, dir, Rank(0), Rank(1));
        write(2);
        write(3);
        migrate(&server, dir, Rank(1), Rank(0));
        write(4);
        expected.truncate(4 * 5000 + 9000);
        drop(file);
        let found = after_lost_power(&site, server, vec![(client, fs)], 2);
        assert!(found == Some(expected), "{}: not as it was synced", mode.name());
    }
}
