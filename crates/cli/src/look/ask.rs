//! Asks a server's admin plane for a page: one HTTP request, one answer. Not a general HTTP client.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::output::{Failure, quoted};
use crate::target::{Admin, Found};

/// How long an answer may take; the server itself gives up after 5 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same of the answer to an order: what takes long to begin the server answers after 60 s, with what is known of it.
const ORDER_PATIENCE: Duration = Duration::from_secs(70);
/// Longer answers are not ours.
const ANSWER_MAX: u64 = 64 << 20;

/// The JSON document at a path.
pub fn json<T: DeserializeOwned>(found: &Found, path: &str) -> Result<T, Failure> {
    parsed(path, &text(found, path)?)
}

fn parsed<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|e| {
        Failure::new(format!("the server's answer to {path} cannot be understood: {e}"))
            .remedy("use a loligo of the server's version")
    })
}

/// The answer to an order.
pub fn order<T: DeserializeOwned>(found: &Found, path: &str) -> Result<T, Failure> {
    order_with(found, path, "")
}

/// The answer to an order that comes with a text.
pub fn order_with<T: DeserializeOwned>(found: &Found, path: &str, body: &str) -> Result<T, Failure> {
    if let Admin::Tcp(at) = found.admin()? {
        return Err(Failure::usage(format!("http://{at} takes no orders, as it has no login"))
            .remedy("on the server's machine give --data DIR, or a path inside a mount"));
    }
    parsed(path, &answer(found, "POST", path, body)?)
}

/// The page at a path.
pub fn text(found: &Found, path: &str) -> Result<String, Failure> {
    answer(found, "GET", path, "")
}

fn answer(found: &Found, method: &str, path: &str, body: &str) -> Result<String, Failure> {
    let admin = found.admin()?;
    let patience = if method == "GET" { PATIENCE } else { ORDER_PATIENCE };
    let answer = match admin {
        Admin::Unix(socket) => unix(socket, patience, method, path, body),
        Admin::Tcp(at) => tcp(at, patience, method, path),
    };
    let answer = answer.map_err(|e| nobody(found, admin, &e))?;
    let bad =
        || Failure::new("the server's answer is not one of a Loligo admin plane").remedy("is this its admin address?");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(bad)?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_string()),
        // It can, and says why it will not.
        Some("409") => Err(Failure::new(body.trim())),
        Some(_) if !body.trim().is_empty() => Err(Failure::new(format!("the server cannot answer: {}", body.trim()))),
        _ => Err(bad()),
    }
}

fn unix(socket: &Path, patience: Duration, method: &str, path: &str, body: &str) -> io::Result<String> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    exchange(stream, method, path, body)
}

fn tcp(at: &str, patience: Duration, method: &str, path: &str) -> io::Result<String> {
    let address = at.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(patience))?;
    exchange(stream, method, path, "")
}

/// HTTP/1.0: the body ends with the connection.
fn exchange(mut stream: impl Read + Write, method: &str, path: &str, body: &str) -> io::Result<String> {
    let head = format!("{method} {path} HTTP/1.0\r\nHost: loligo\r\nAccept: */*\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn nobody(found: &Found, admin: &Admin, error: &io::Error) -> Failure {
    let place = match admin {
        Admin::Unix(path) => path.display().to_string(),
        Admin::Tcp(at) => format!("http://{at}"),
    };
    let gone = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    match (&found.data, &found.state) {
        (Some(data), Some(state)) if gone => {
            let mount = state.mount.as_deref().map_or("DIR".to_string(), quoted);
            Failure::new(format!(
                "no server runs on {}: the last one (process {}) ended without stopping; nothing acknowledged is lost",
                data.display(),
                state.pid
            ))
            .remedy(format!("bring it back: loligo up --data {} --mount {mount}", quoted(data)))
        }
        _ => Failure::new(format!("the server at {place} does not answer: {error}"))
            .remedy("is it running, and is this its admin address?"),
    }
}
