//! Asks a server's admin plane for a page: one HTTP request, one answer. Not a general HTTP client.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use loligo_driver::Unanswered;
use loligo_types::link::{Method, Question, Reply};
use serde::de::DeserializeOwned;

use crate::output::Failure;
use crate::service::admin::UNREACHED;
use crate::service::admin::others::UnreachedDoc;
use crate::service::admin::token::Token;
use crate::target::{Admin, Found};

/// Time limit of an answer; the server itself gives up after 5 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same of the answer to an order: what takes long to begin the server answers after 60 s, with what is known of it.
const ORDER_PATIENCE: Duration = Duration::from_secs(70);
/// Names a file with the token that shows at a port that the pages are ours to look at.
const TOKEN: &str = "LOLIGO_ADMIN_TOKEN";
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
    parsed(path, &answer(found, "POST", path, body)?.text)
}

/// The document at a path that tells of all ranks, and whose are not in it.
pub fn json_of_all<T: DeserializeOwned>(found: &Found, path: &str) -> Result<(T, Vec<UnreachedDoc>), Failure> {
    let Answer { head, text, .. } = answer(found, "GET", path, "")?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(UNREACHED).then(|| serde_json::from_str(value.trim()).ok()).flatten()
    };
    Ok((parsed(path, &text)?, head.lines().find_map(header).unwrap_or_default()))
}

/// The page at a path.
pub fn text(found: &Found, path: &str) -> Result<String, Failure> {
    answer(found, "GET", path, "").map(|answer| answer.text)
}

/// An answer of HTTP, in parts.
struct Answer {
    status: u16,
    /// Its headers.
    head: String,
    text: String,
}

impl Answer {
    fn parse(answer: &str) -> Option<Answer> {
        let (head, text) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head: head.into(), text: text.into() })
    }
}

/// Asks a process of this machine as a server asks another one.
pub fn raw(admin: &Admin, patience: Duration, question: &Question) -> Result<Reply, Unanswered> {
    let not_sent = |error: io::Error| Unanswered::NotSent(error.to_string());
    let Admin::Unix(socket) = admin else { return Err(Unanswered::NotSent("it has no socket".into())) };
    let stream = UnixStream::connect(socket).map_err(not_sent)?;
    stream.set_read_timeout(Some(patience)).map_err(not_sent)?;
    let method = match question.method {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let lost = |why: String| Unanswered::Lost(why);
    let answer =
        exchange(stream, method, &question.path, "", &question.text).map_err(|error| lost(error.to_string()))?;
    let answer = Answer::parse(&answer).ok_or_else(|| lost("its answer makes no sense".into()))?;
    Ok(Reply { status: answer.status, text: answer.text })
}

fn answer(found: &Found, method: &str, path: &str, body: &str) -> Result<Answer, Failure> {
    let admin = found.admin()?;
    let patience = if method == "GET" { PATIENCE } else { ORDER_PATIENCE };
    let answer = match admin {
        Admin::Unix(socket) => unix(socket, patience, method, path, body),
        Admin::Tcp(at) => tcp(at, patience, method, path, token()?.as_ref()),
    };
    let answer = answer.map_err(|e| nobody(found, admin, &e))?;
    let bad =
        || Failure::new("the server's answer is not one of a Loligo admin plane").remedy("is this its admin address?");
    let answer = Answer::parse(&answer).ok_or_else(bad)?;
    let said = answer.text.trim();
    match answer.status {
        200 => Ok(answer),
        401 => Err(Failure::new(format!("{} shows numbers alone to anybody (/healthz, /metrics)", place(admin))).remedy(
            "on the server's machine give --data DIR, or a path in a mount; or LOLIGO_ADMIN_TOKEN=FILE with the file DIR/admin.token of its data directory",
        )),
        // It can, and says why it will not; or another one that it has asked does, or does not answer.
        409 | 421 | 504 => Err(Failure::new(said)),
        _ if !said.is_empty() => Err(Failure::new(format!("the server cannot answer: {said}"))),
        _ => Err(bad()),
    }
}

fn unix(socket: &Path, patience: Duration, method: &str, path: &str, body: &str) -> io::Result<String> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    exchange(stream, method, path, "", body)
}

/// The token that the environment names a file of.
fn token() -> Result<Option<Token>, Failure> {
    let Some(file) = std::env::var_os(TOKEN).filter(|file| !file.is_empty()) else { return Ok(None) };
    let file = Path::new(&file);
    Token::read(file).map(Some).map_err(|error| {
        Failure::usage(format!("{TOKEN}: {}: {error}", file.display()))
            .remedy("name the file admin.token of the server's data directory, or a copy of it")
    })
}

fn tcp(at: &str, patience: Duration, method: &str, path: &str, token: Option<&Token>) -> io::Result<String> {
    let address = at.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(patience))?;
    let shown = token.map(|token| format!("Authorization: Bearer {}\r\n", token.text())).unwrap_or_default();
    exchange(stream, method, path, &format!("Host: {address}\r\n{shown}"), "")
}

/// HTTP/1.0: the body ends with the connection. `headers`: whole lines.
fn exchange(mut stream: impl Read + Write, method: &str, path: &str, headers: &str, body: &str) -> io::Result<String> {
    let head = format!("{method} {path} HTTP/1.0\r\nAccept: */*\r\n{headers}");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn place(admin: &Admin) -> String {
    match admin {
        Admin::Unix(path) => path.display().to_string(),
        Admin::Tcp(at) => format!("http://{at}"),
    }
}

fn nobody(found: &Found, admin: &Admin, error: &io::Error) -> Failure {
    let place = place(admin);
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Failure::new(format!(
            "{place}: {error}; only root and the user whom the data directory belongs to may ask there"
        ))
        .remedy("of a directory: loligo policy explain DIRECTORY in a mount; anybody may look at /healthz and /metrics of the admin address");
    }
    let gone = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    match (&found.data, &found.state) {
        (Some(data), Some(state)) if gone => state.killed(data),
        _ => Failure::new(format!("the server at {place} does not answer: {error}"))
            .remedy("is it running, and is this its admin address?"),
    }
}
