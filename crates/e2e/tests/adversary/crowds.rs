//! Crowds: thousands of connections that begin and do not go on, at each of the server's ports. Who is in stays in, and who may come in comes.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use loligo_e2e::raw::bytes::{Message, frame};
use loligo_e2e::raw::{Credentials, Hello, Wire, tcp};

use super::site::Site;

/// Connections of one crowd.
const CROWD: usize = 2000;

/// So many connections that send the beginnings one after the other, and nothing more. As many stay open as this process may have.
fn crowd(at: SocketAddr, beginnings: &[&[u8]]) -> VecDeque<TcpStream> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let most = (limit.current.unwrap_or(u64::MAX) / 4).min(CROWD as u64) as usize;
    let mut open = VecDeque::new();
    for n in 0..CROWD {
        let mut stream = tcp(at);
        // The server may have closed it for another one.
        let _ = stream.write_all(beginnings[n % beginnings.len()]);
        open.push_back(stream);
        if open.len() > most {
            open.pop_front();
        }
    }
    open
}

#[test]
fn thousands_of_connections_that_are_half_open_keep_nobody_out_and_nobody_who_is_in() {
    let Some(site) = Site::new("adversary-crowd") else { return };
    let before = site.outside();
    let (mut inside, _) = site.bound(91);
    let mut owner = site.owner(92);
    let hello = frame(&Hello::of(93).message(), &[]);
    let beginnings = [
        &b""[..],
        b"L",
        &hello[..hello.len() - 1],
        b"\x16\x03\x01\x02\x00\x01",
        b"\x16\x03\x01\x00\x05hello",
        b"GET /",
    ];
    let crowd = crowd(site.tcp, &beginnings);
    for wire in [&mut inside, &mut owner] {
        wire.ping().expect("it is served still");
    }
    // Another one comes in over TLS while they are there: tried again, as clients do, since a handshake may be among the oldest.
    let bound = Credentials::read(&site.file_of("bound"));
    let came = (0..20).find_map(|n| Wire::tls(site.tcp, &bound).hello(&Hello::of(94 + n)).ok());
    assert!(came.is_some(), "no handshake succeeds");
    assert!(site.owner(99).ping().is_ok());
    drop(crowd);
    site.ends_unharmed(&before);
}

#[test]
fn a_crowd_at_the_admin_port_keeps_neither_clients_nor_the_owner_out() {
    let Some(site) = Site::new("adversary-admin-crowd") else { return };
    let before = site.outside();
    let (mut inside, _) = site.bound(101);
    let beginnings =
        [&b""[..], b"G", b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"\x16\x03\x01\x02\x00\x01", b"L"];
    let crowd = crowd(site.admin, &beginnings);
    inside.ping().expect("it is served still");
    assert!(site.scratch.run(&["status"]).contains("serving"), "the owner is answered");
    let get_attr = Message::new().message(18, &Message::new().int(1, site.mine.file));
    inside.call(&get_attr, &[]).expect("it is its file");
    drop(crowd);
    site.ends_unharmed(&before);
}
