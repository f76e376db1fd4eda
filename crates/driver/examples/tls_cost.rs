//! Cost of TLS: processor time of a handshake at the rank, and the same work over TCP with and without TLS, in turn. The store is in
//! memory, so that nothing else is measured; no comparison of file systems.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_driver::client::Options;
use loligo_driver::sock::Sock;
use loligo_driver::{Address, Client, FormatOptions, Identity, Server, ServerConfig, format};
use loligo_store::mem::MemDisk;
use loligo_types::Cred;

const HANDSHAKES: u32 = 500;
const STATS: u32 = 20_000;
const FILE: usize = 64 << 20;
const LIMIT: Duration = Duration::from_secs(60);

fn cpu(server: &Server) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(server.status()?.ranks.iter().map(|rank| rank.metrics.rank_cpu_ns.get()).sum())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let disk = MemDisk::new(loligo_store::Identity::new([7; 16], [9; 16]));
    format(&*disk.open()?, &FormatOptions::default())?;
    let mut config = ServerConfig::new(disk.open()?);
    config.listen.push(Address::Tcp("127.0.0.1:0".into()));
    (config.trust_tcp, config.look) = (true, Duration::ZERO);
    let server = Server::start(config, &mut |_| {})?;
    let at = server.addresses().first().cloned().ok_or("it listens nowhere")?;
    let identity = Identity::parse(&server.add_identity("one", loligo_driver::Rights::everywhere(true))?.1)?;
    let (before, begun) = (cpu(&server)?, Instant::now());
    for _ in 0..HANDSHAKES {
        drop(Sock::connect(&at, Some(&identity))?);
    }
    let each = (cpu(&server)? - before) / u64::from(HANDSHAKES) / 1000;
    println!(
        "a handshake: {each} us of the rank's thread, {} us in all",
        begun.elapsed().as_micros() / u128::from(HANDSHAKES)
    );
    for round in 0..3 {
        for identity in [None, Some(identity.clone())] {
            let how = if identity.is_some() { "TLS  " } else { "plain" };
            let client = Client::connect(&at, Options { identity, ..Options::default() })?;
            let fs = client.fs(Arc::new(Cred::root()));
            let (before, begun) = (cpu(&server)?, Instant::now());
            for _ in 0..STATS {
                fs.stat("/")?;
            }
            let stats = f64::from(STATS) / begun.elapsed().as_secs_f64();
            let busy = (cpu(&server)? - before) as f64 / f64::from(STATS) / 1000.0;
            let (path, bytes) = (format!("/{round}{how}"), vec![7u8; FILE]);
            let begun = Instant::now();
            fs.write(&path, bytes)?;
            fs.sync_all()?;
            let write = FILE as f64 / begun.elapsed().as_secs_f64() / 1e6;
            let begun = Instant::now();
            fs.read(&path)?;
            let read = FILE as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!("{how} {stats:8.0} stats/s ({busy:.1} us each), writes {write:6.0} MB/s, reads {read:6.0} MB/s");
            client.stop(LIMIT).map_err(|error| format!("{error:?}"))?;
        }
    }
    server.stop()?;
    Ok(())
}
