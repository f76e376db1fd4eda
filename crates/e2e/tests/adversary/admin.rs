//! The admin plane's port with HTTP that is written by hand: half sent, too long, for another host, without the token. It tells numbers at most
//! and takes no orders.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use loligo_e2e::raw::tcp;
use loligo_types::Random;

use super::site::Site;

/// Answer of the port to these bytes; empty if it closes the connection. `ends`: the sender says that nothing more comes.
fn answer(at: SocketAddr, bytes: &[u8], ends: bool) -> String {
    let mut stream = tcp(at);
    // The port may answer, and close, before it has read all.
    let _ = stream.write_all(bytes);
    if ends {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut told = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        told.extend_from_slice(&part[..n]);
    }
    String::from_utf8_lossy(&told).into_owned()
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Nothing of the file system, of its identities and clients stands in it.
#[track_caller]
fn says_no_names(site: &Site, answer: &str) {
    let data = site.scratch.data();
    for word in ["theirs", "bound", "secret", data.to_str().expect("UTF-8")] {
        assert!(!answer.contains(word), "{word} in {answer}");
    }
}

#[test]
fn requests_that_are_half_sent_too_long_or_no_http_are_ended_and_tell_nothing() {
    let Some(site) = Site::new("adversary-http") else { return };
    let before = site.outside();
    let long = |n: usize| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(n));
    let many = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(2000));
    let path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20));
    let bodied = "POST /api/v1/auth/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551615\r\n\r\n{";
    let chunked =
        "POST /api/v1/rank/add/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    let smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/auth HTTP/1.1\r\n\r\n";
    for (what, text) in [
        ("a line that does not end", "GET /healthz HT".to_string()),
        ("a head that does not end", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n".into()),
        ("a header of a megabyte", long(1 << 20)),
        ("a header over the limit", long(17 << 10)),
        ("thousands of headers", many),
        ("a path of a megabyte", path),
        ("a body without an end", bodied.into()),
        ("a chunk without an end", chunked.into()),
        ("two lengths", smuggled.into()),
        ("another version", "GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n".into()),
        ("no method", " /healthz HTTP/1.1\r\n\r\n".into()),
        ("no HTTP", "Lo\u{1}\u{1}\0\0\0\0\0\0\0\0\0\0\0\0".into()),
        ("NUL in the path", "GET /heal\0thz HTTP/1.1\r\nHost: localhost\r\n\r\n".into()),
        ("a path upwards", "GET /../../admin.token HTTP/1.1\r\nHost: localhost\r\n\r\n".into()),
        ("a path upwards in other words", "GET /%2e%2e/admin.token HTTP/1.1\r\nHost: localhost\r\n\r\n".into()),
        ("another method", "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n".into()),
        ("a proxy's", "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n".into()),
    ] {
        let told = answer(site.admin, text.as_bytes(), true);
        says_no_names(&site, &told);
        assert!(code(&told) != 200 || told.ends_with("ok: serving\n") || what.contains("upwards"), "{what}: {told}");
    }
    // What is never ended is ended by the port: this comes back by itself.
    for text in ["", "GET /healthz HTTP/1.1\r\nHost: loc", bodied] {
        says_no_names(&site, &answer(site.admin, text.as_bytes(), false));
    }
    let mut dice = Random::new(3);
    for _ in 0..300 {
        let mut bytes = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0\r\n\r\n".to_vec();
        for _ in 0..1 + dice.below(8) {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = dice.below(256) as u8;
        }
        says_no_names(&site, &answer(site.admin, &bytes, true));
    }
    assert!(answer(site.admin, b"GET /healthz HTTP/1.0\r\n\r\n", false).ends_with("ok: serving\n"));
    site.ends_unharmed(&before);
}

#[test]
fn without_the_token_for_another_host_and_for_orders_there_is_nothing() {
    let Some(site) = Site::new("adversary-token") else { return };
    let before = site.outside();
    let token = std::fs::read_to_string(site.scratch.data().join("admin.token")).expect("a token");
    let token = token.trim();
    let ask = |method: &str, page: &str, headers: &str| {
        let text = format!("{method} {page} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        answer(site.admin, text.as_bytes(), false)
    };
    let (cut, longer, other) = (&token[..token.len() - 1], format!("{token}0"), "0".repeat(token.len()));
    let pages =
        ["/api/v1/status", "/api/v1/sessions", "/api/v1/ranks", "/api/v1/subtrees", "/api/v1/auth", "/api/v1/config"];
    for page in pages {
        for shown in [
            "",
            "Bearer",
            "Bearer ",
            cut,
            &longer,
            &other,
            "Basic Og==",
            &format!("Bearer {cut}"),
            &format!("Bearer {other}"),
        ] {
            let told = ask("GET", page, &format!("Host: localhost\r\nAuthorization: {shown}\r\n"));
            assert_eq!(code(&told), 401, "{page} with {shown:?}: {told}");
            says_no_names(&site, &told);
        }
        // The token in the wrong place, and twice with the wrong one first.
        for headers in [
            format!("Host: localhost\r\nX-Authorization: Bearer {token}\r\n"),
            format!("Host: localhost\r\nCookie: token={token}\r\n"),
            format!("Host: localhost\r\nAuthorization: Bearer {other}\r\nAuthorization: Bearer {token}\r\n"),
        ] {
            let told = ask("GET", &format!("{page}?token={token}"), &headers);
            assert_eq!(code(&told), 401, "{page} with {headers:?}: {told}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "", "localhost\r\nHost: evil.example"] {
            let told = ask("GET", page, &format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n"));
            assert!([400, 421].contains(&code(&told)), "{host}: {told}");
            says_no_names(&site, &told);
        }
    }
    // Who has the token may look, and order nothing.
    let shown = format!("Host: localhost\r\nContent-Length: 2\r\nAuthorization: Bearer {token}\r\n");
    for order in ["rank/add/1", "rank/drain/0", "migrate/1/0/0", "auth/add", "auth/revoke", "evict/1", "balancer"] {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let told = answer(
                site.admin,
                format!("{method} /api/v1/{order} HTTP/1.1\r\nConnection: close\r\n{shown}\r\n{{}}").as_bytes(),
                false,
            );
            assert!([401, 403, 404, 405].contains(&code(&told)), "{method} {order}: {told}");
        }
    }
    assert_eq!(
        code(&ask("GET", "/api/v1/status", &format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n"))),
        200
    );
    site.ends_unharmed(&before);
}
