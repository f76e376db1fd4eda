//! Cost of moving a directory fragment to another rank, by its number of entries: `cargo run --release -p loligo-driver --example move_cost
//! [-- FILES..]`. The setup is a process with two ranks, a store in a temporary directory, and a directory of as many files made by 32
//! threads; all of them are in the cache of the exporting rank, beside as many that stay. It prints the time of the first move and how long
//! requests waited (median of five, to and fro).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loligo_driver::client::path::OpenHow;
use loligo_driver::client::{Client, Options};
use loligo_driver::{Address, FormatOptions, Server, ServerConfig, format};
use loligo_mds::admin::{Ask, Migration, Told};
use loligo_store::Backend;
use loligo_store_local::{FormatOptions as StoreFormat, LocalStore, OpenOptions};
use loligo_types::{Cred, FsResult, Ino, Rank};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const THREADS: usize = 32;

fn start(dir: &Path) -> Outcome<(Server, Client)> {
    let data = dir.join("data");
    LocalStore::format(&data, &StoreFormat::default())?;
    let store = LocalStore::open(&data, &OpenOptions::default())?;
    format(&store, &FormatOptions::default())?;
    let backend: Arc<dyn Backend> = Arc::new(store);
    let socket = Address::Unix(dir.join("loligo.sock"));
    let mut config = ServerConfig { ranks: 2, ..ServerConfig::new(backend) };
    config.listen.push(socket.clone());
    let server = Server::start(config, &mut |_| {})?;
    Ok((server, Client::connect(&socket, Options::default())?))
}

fn fill(client: &Client, dir: &str, files: usize) -> FsResult<()> {
    let cred = Arc::new(Cred::root());
    client.fs(cred.clone()).mkdir(dir, 0o755)?;
    std::thread::scope(|scope| {
        let fill = |thread: usize| -> FsResult<()> {
            let fs = client.fs(cred.clone());
            for n in (thread..files).step_by(THREADS) {
                fs.open(format!("{dir}/{n}"), OpenHow::create())?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || fill(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

fn migrate(server: &Server, dir: Ino, from: Rank, to: Rank) -> Outcome<Migration> {
    let Told::Begun(id) = server.admin(from, Ask::Migrate { dir, to })? else {
        return Err(format!("{dir:?} is not rank {from}'s to move").into());
    };
    loop {
        if let Told::Migrations(all) = server.admin(from, Ask::Migrations)?
            && let Some(ours) = all.into_iter().find(|one| one.id == id)
        {
            match ours.state.as_str() {
                "done" => return Ok(ours),
                why if why.starts_with("failed") => return Err(why.into()),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

fn main() -> Outcome<()> {
    println!("| entries | inodes moved | all of it | requests wait |");
    println!("|---:|---:|---:|---:|");
    let given: Vec<usize> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let sizes = if given.is_empty() { vec![100, 1000, 3000, 10_000, 30_000, 100_000] } else { given };
    for files in sizes {
        let dir = tempfile::tempdir()?;
        let (server, client) = start(dir.path())?;
        fill(&client, "/stays", files)?;
        fill(&client, "/moves", files)?;
        let ino = client.fs(Arc::new(Cred::root())).stat("/moves")?.ino;
        let mut moves = Vec::new();
        for turn in 0..5 {
            moves.push(migrate(&server, ino, Rank(turn % 2), Rank((turn + 1) % 2))?);
        }
        // What was moved is read again only when it is asked for: the first move finds all of it in memory.
        let inodes = moves[0].inodes;
        let first = moves[0].took_ms;
        moves.sort_by_key(|one| one.frozen_us);
        println!("| {files} | {inodes} | {first} ms | {} ms |", moves[2].frozen_us / 1000);
        client.stop(Duration::from_secs(20))?;
        server.stop()?;
    }
    Ok(())
}
