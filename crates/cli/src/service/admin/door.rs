//! The connections of the admin plane: a bounded number at each listener, each of which serves one request in bounded time. One that has not
//! sent its request yet makes room for the next. What is answered is `port.rs`'s and `pages.rs`'s.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// Time limit for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longer heads are refused, bytes.
const HEAD_MAX: usize = 16 << 10;
/// After a connection could not be accepted.
const REST: Duration = Duration::from_millis(100);
/// Between two lines of the log about the same.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// A listener.
pub trait Listens {
    /// One end of a connection.
    type Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static;

    /// The next connection; `None`: one that may not come in.
    fn next(&self) -> impl Future<Output = io::Result<Option<Self::Stream>>>;
}

impl Listens for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<Option<TcpStream>> {
        self.accept().await.map(|(stream, _)| Some(stream))
    }
}

impl Listens for UnixListener {
    type Stream = UnixStream;

    /// The socket's mode keeps others out, but for the moment in which it is made.
    async fn next(&self) -> io::Result<Option<UnixStream>> {
        let (stream, _) = self.accept().await?;
        let uid = stream.peer_cred()?.uid();
        Ok((uid == 0 || uid == rustix::process::geteuid().as_raw()).then_some(stream))
    }
}

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at a time.
    pub room: usize,
    /// From the first byte to the last one of a connection.
    pub time: Duration,
}

/// A connection that is open.
struct Open {
    begun: Instant,
    /// It has sent its request.
    has_asked: Arc<AtomicBool>,
    end: AbortHandle,
}

/// The connections of one listener.
#[derive(Default)]
struct All {
    tasks: JoinSet<()>,
    open: HashMap<Id, Open>,
    /// When it was said last that something is wrong.
    said: Option<Instant>,
}

/// Serves a listener for ever. `answer`: to one request.
pub async fn serve<L, F>(listener: L, bounds: Bounds, answer: impl Fn(Request) -> F + Clone + Send + 'static)
where
    L: Listens,
    F: Future<Output = Response> + Send + 'static,
{
    let mut all = All::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.next() => accepted,
            Some(ended) = all.tasks.join_next_with_id() => {
                all.ended(ended.map(|(id, ())| id));
                continue;
            }
        };
        let stream = match accepted {
            Ok(Some(stream)) => stream,
            Ok(None) => continue,
            Err(error) => {
                all.say(&format!(
                    "a connection to the admin plane cannot be accepted now, which is tried again: {error}"
                ));
                sleep(REST).await;
                continue;
            }
        };
        if loligo_driver::server::is_last(&stream) {
            all.say("a connection to the admin plane is closed: the server has as many files open as it may");
            continue;
        }
        all.make_room(bounds.room).await;
        let (answer, has_asked) = (answer.clone(), Arc::new(AtomicBool::new(false)));
        let asked = has_asked.clone();
        let asks = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let answered = answer(request.map(Body::new));
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let mut http = http1::Builder::new();
        // One that stays open and asks nothing would keep others out.
        http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_MAX);
        let connection = http.serve_connection(TokioIo::new(stream), asks);
        let end = all.tasks.spawn(async move {
            // What a peer does wrong is its own affair.
            let _ = timeout(bounds.time, connection).await;
        });
        all.open.insert(end.id(), Open { begun: Instant::now(), has_asked, end });
    }
}

impl All {
    /// Until there is room for one more: the one goes first that came first and has not asked yet; else one is waited for to end.
    async fn make_room(&mut self, room: usize) {
        while self.open.len() >= room.max(1) {
            while let Some(ended) = self.tasks.try_join_next_with_id() {
                self.ended(ended.map(|(id, ())| id));
            }
            let silent = self.open.iter().filter(|(_, one)| !one.has_asked.load(Ordering::Relaxed));
            if self.open.len() < room.max(1) {
            } else if let Some(oldest) = silent.min_by_key(|(_, one)| one.begun).map(|(id, _)| *id) {
                if let Some(one) = self.open.remove(&oldest) {
                    one.end.abort();
                }
                self.say(
                    "the admin plane has as many connections as it takes: the oldest that has not asked yet makes room",
                );
            } else if let Some(ended) = self.tasks.join_next_with_id().await {
                self.ended(ended.map(|(id, ())| id));
            }
        }
    }

    fn ended(&mut self, task: Result<Id, tokio::task::JoinError>) {
        let id = task.unwrap_or_else(|error| error.id());
        self.open.remove(&id);
    }

    /// Says what is wrong, but not too often: peers can cause it.
    fn say(&mut self, what: &str) {
        if self.said.is_none_or(|said| said.elapsed() >= SAID_EVERY) {
            self.said = Some(Instant::now());
            tracing::warn!("{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream as Plain};

    use axum::response::IntoResponse;

    use super::*;

    /// Serves on a port of its own, for as long as the program runs.
    fn served(room: usize, time: Duration) -> SocketAddr {
        let (told, at) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                told.send(listener.local_addr().expect("it listens")).expect("somebody waits");
                serve(listener, Bounds { room, time }, |_| async { "yes\n".into_response() }).await;
            });
        });
        at.recv().expect("it listens")
    }

    fn connected(at: SocketAddr, words: &str) -> Plain {
        let mut stream = Plain::connect(at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        stream.write_all(words.as_bytes()).expect("the other end is there");
        stream
    }

    fn rest(stream: &mut Plain) -> String {
        let mut text = String::new();
        // One that was closed with something unread ends with an error.
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn those_that_send_nothing_or_half_a_request_make_room_for_those_who_ask() {
        let at = served(4, Duration::from_secs(60));
        let mut silent: Vec<Plain> =
            (0..200).map(|n| connected(at, if n % 2 == 0 { "" } else { "GET / HTTP/1.1\r\nHost: x\r\nA: " })).collect();
        for _ in 0..20 {
            assert!(rest(&mut connected(at, "GET / HTTP/1.0\r\n\r\n")).ends_with("yes\n"));
        }
        assert_eq!(rest(&mut silent[0]), "", "the oldest was closed");
    }

    #[test]
    fn a_request_that_does_not_come_and_a_head_without_end_are_given_up() {
        let at = served(4, Duration::from_secs(60));
        assert!(!rest(&mut connected(at, "GET / HTTP/1.1\r\n")).contains("yes"), "nothing for ever");
        let mut long = connected(at, "GET / HTTP/1.1\r\nA: ");
        let line = [b'a'; 1024];
        // It may be closed while this is sent.
        let _ = (0..1024).try_for_each(|_| long.write_all(&line));
        let said = rest(&mut long);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    }

    #[test]
    fn one_answer_ends_a_connection() {
        let at = served(1, Duration::from_secs(60));
        let twice = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(rest(&mut connected(at, twice)).matches("yes\n").count(), 1);
    }
}
