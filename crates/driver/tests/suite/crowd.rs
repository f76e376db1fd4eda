//! Peers over TCP that show no identity, however many: root at the Unix socket, and identities, come in all the same.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Raw, Site};
use loligo_driver::client::{ConnectError, Options};
use loligo_driver::{Address, Client, Identity, Rights, Server, ServerConfig};
use loligo_types::Cred;
use loligo_types::msg::Refusal;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn start(site: &Site, change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = site.config();
    config.listen.push(Address::Tcp("127.0.0.1:0".into()));
    change(&mut config);
    Server::start(config, &mut |_| {}).expect("the server starts")
}

/// Where it listens on TCP.
fn address(server: &Server) -> String {
    let tcp = server.addresses().iter().find_map(|at| match at {
        Address::Tcp(at) => Some(at.clone()),
        _ => None,
    });
    tcp.expect("it listens on TCP")
}

fn identity(server: &Server, name: &str) -> Identity {
    let (_, file) = server.add_identity(name, Rights::everywhere(true)).expect("a good name");
    Identity::parse(&file).expect("a good file")
}

fn connect(at: &str, identity: &Identity) -> Result<Client, ConnectError> {
    let options = Options { name: "test".into(), identity: Some(identity.clone()), ..Options::default() };
    Client::connect(&Address::Tcp(at.into()), options)
}

fn count(server: &Server, what: impl Fn(&loligo_driver::server::Metrics) -> u64) -> u64 {
    server.status().expect("it runs").ranks.iter().map(|rank| what(&rank.metrics)).sum()
}

#[test]
fn connections_that_show_nothing_make_room_and_keep_nobody_else_out() {
    let site = Site::new();
    let server = start(&site, |config| config.connections_max = 200);
    let (at, one) = (address(&server), identity(&server, "one"));
    let before = connect(&at, &one).expect("it is let in");
    let mut silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(&at).expect("it listens")).collect();
    // Each of these comes in at once: none of the others has to go first by itself.
    let root = Raw::session(&site.socket());
    let after = connect(&at, &one).expect("it is let in");
    for client in [&before, &after] {
        client.fs(Arc::new(Cred::root())).readdir("/").expect("it is served");
    }
    silent[0].set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!(silent[0].read(&mut [0; 1]).expect("the end"), 0, "the oldest has made room");
    assert!(count(&server, |metrics| metrics.dropped.get()) >= 400);
    assert!(count(&server, |metrics| metrics.connections.get()) <= 128 + 3);
    drop(root);
    for client in [before, after] {
        client.stop(PATIENCE).expect("nothing is left");
    }
    server.stop().expect("a clean stop");
}

#[test]
fn an_identity_takes_no_more_than_half_of_the_connections_and_is_told_so() {
    let site = Site::new();
    let server = start(&site, |config| config.connections_max = 4);
    let (at, one, two) = (address(&server), identity(&server, "one"), identity(&server, "two"));
    let clients = [connect(&at, &one).expect("the first"), connect(&at, &one).expect("the second")];
    match connect(&at, &one) {
        Err(ConnectError::Refused { why: Refusal::TooMany, text, .. }) => {
            assert!(text.contains("this identity has 2 connections"), "{text}");
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
    let others = [connect(&at, &two).expect("another one has its half"), connect(&at, &two).expect("all of it")];
    Raw::session(&site.socket());
    for client in clients.into_iter().chain(others) {
        client.stop(PATIENCE).expect("nothing is left");
    }
    let again = connect(&at, &one).expect("they have gone");
    again.stop(PATIENCE).expect("nothing is left");
    server.stop().expect("a clean stop");
}

#[test]
fn an_identity_takes_no_more_than_half_of_the_sessions_and_is_told_so() {
    let site = Site::new();
    let server = start(&site, |config| config.mds.sessions_max = 8);
    let (at, one, two) = (address(&server), identity(&server, "one"), identity(&server, "two"));
    let clients: Vec<Client> = (0..4).map(|_| connect(&at, &one).expect("it has not had its half")).collect();
    match connect(&at, &one) {
        Err(ConnectError::Refused { why: Refusal::TooMany, text, .. }) => {
            assert!(text.contains("this identity has 4 sessions, and 4 of 8 are free"), "{text}");
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
    let other = connect(&at, &two).expect("another one has a share of what is left");
    other.fs(Arc::new(Cred::root())).readdir("/").expect("it is served");
    Raw::session(&site.socket());
    for client in clients.into_iter().chain([other]) {
        client.stop(PATIENCE).expect("nothing is left");
    }
    connect(&at, &one).expect("they have gone").stop(PATIENCE).expect("nothing is left");
    server.stop().expect("a clean stop");
}

#[test]
fn those_that_are_trusted_without_an_identity_count_as_soon_as_they_greet() {
    let site = Site::new();
    let server = start(&site, |config| (config.trust_tcp, config.connections_max) = (true, 2));
    let at = Address::Tcp(address(&server));
    let connect = || Client::connect(&at, Options { name: "test".into(), ..Options::default() });
    let clients = [connect().expect("the first"), connect().expect("the second")];
    match connect() {
        Err(ConnectError::Refused { why: Refusal::TooMany, text, .. }) => assert!(text.contains("over TCP"), "{text}"),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
    Raw::session(&site.socket());
    for client in clients {
        client.stop(PATIENCE).expect("nothing is left");
    }
    server.stop().expect("a clean stop");
}

#[test]
fn a_server_that_closes_before_the_handshake_does_not_make_the_identity_look_broken() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let one = identity(&server, "one");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it listens").to_string();
    // Half of them are closed with something unread, which the other end sees as a reset.
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            if let (Ok(mut stream), true) = (stream, n % 2 == 0) {
                let _ = stream.read(&mut [0; 4096]);
            }
        }
    });
    match connect(&at, &one) {
        Err(error @ ConnectError::Io { .. }) => {
            let text = error.to_string();
            assert!(text.contains("may be as good as ever") && text.contains("try again later"), "{text}");
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("nobody is there"),
    }
    server.stop().expect("a clean stop");
}
