//! The admin plane at its loopback port, which every user of the machine reaches, and every web page that one of them has open: anybody is
//! shown health and numbers, without a name of a file, a client, an identity or a host. Who shows the token of the data directory may look at
//! the pages. Orders are not taken here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

use super::token::Token;
use super::{Source, doc, metrics, pages};

/// Questions of anybody that are answered at a time: others wait for the server, too.
const AT_ONCE: usize = 4;
/// So many of them at once,
const BURST: u32 = 64;
/// and then one in this time: each costs the ranks some.
const PACE: Duration = Duration::from_millis(10);

/// Labels of metrics whose values are words and numbers of the program. Others may hold what users have named.
const LABELS: [&str; 9] = ["rank", "op", "le", "state", "kind", "of", "placement", "why", "names"];

/// Pages at the port: for anybody, and for the owner.
#[derive(Clone)]
pub struct Port {
    anybody: Router,
    owner: Router,
    token: Option<Token>,
    /// The host in the setting, beside those of loopback.
    host: Arc<str>,
    at_once: Arc<Semaphore>,
    next: Arc<Mutex<Option<Instant>>>,
}

impl Port {
    /// `setting`: HOST:PORT. Without a token nobody is shown more than anybody is.
    pub fn new(source: &Arc<Source>, setting: &str, token: Option<Token>) -> Port {
        let anybody = Router::new()
            .route("/", get(index))
            .route("/metrics", get(numbers))
            .route("/healthz", get(health))
            .fallback(not_for_you)
            .with_state(source.clone());
        let host = setting.rsplit_once(':').map_or(setting, |(host, _)| host).trim_matches(['[', ']']);
        Port {
            anybody,
            owner: pages::pages().with_state(source.clone()),
            token,
            host: host.into(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            next: Arc::default(),
        }
    }

    /// Answers a request.
    pub async fn answer(self, request: Request) -> Response {
        if let Err(host) = self.host_of(&request) {
            let text = format!(
                "this is not {host}: name this server by its loopback address, as in http://127.0.0.1:PORT (a proxy has to say so in \
                 `Host`, too)\n"
            );
            return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
        }
        let mut pages = match self.is_owner(&request) {
            true => self.owner.clone(),
            false => {
                self.turn().await;
                self.anybody.clone()
            }
        };
        let Ok(_one) = self.at_once.acquire().await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        match pages.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Checks that the request means this server: a web page of another host, whose name was made to lead here, would say that name (DNS
    /// rebinding). The error: what it says.
    fn host_of(&self, request: &Request) -> Result<(), String> {
        let said = request.uri().authority().map(|authority| authority.as_str().to_owned());
        let headers = request.headers().get_all(header::HOST).iter();
        let said = said.into_iter().chain(headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()));
        said.into_iter().try_for_each(|host| if self.is_own(&host) { Ok(()) } else { Err(host) })
    }

    fn is_own(&self, authority: &str) -> bool {
        // `[::1]:80`, `::1`, `127.0.0.1:80`, `localhost`.
        let host = match authority.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) if port.is_empty() || port.starts_with(':') => host,
                _ => return false,
            },
            None if authority.matches(':').count() > 1 => authority,
            None => authority.split(':').next().unwrap_or_default(),
        };
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_loopback || host.eq_ignore_ascii_case("localhost") || host.eq_ignore_ascii_case(&self.host)
    }

    fn is_owner(&self, request: &Request) -> bool {
        let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        matches!((&self.token, shown), (Some(token), Some(shown)) if token.is(shown))
    }

    /// Waits until anybody may ask something again.
    async fn turn(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        // When all that was asked would have been answered one after the other.
        let after = next.map_or(now, |next| next.max(now));
        if let Some(early) = after.checked_sub(PACE * BURST).filter(|early| *early > now) {
            sleep_until(early).await;
        }
        *next = Some(after + PACE);
    }
}

async fn index() -> &'static str {
    "Loligo\n\n/metrics           for Prometheus\n/healthz           200 if it serves, else 503\n\nThe pages below /api/v1 are \
     their owner's: `loligo status --data DIR`, or the token in DIR/admin.token\n"
}

async fn not_for_you() -> Response {
    let text = "this page is the owner's: ask on the server's machine with --data DIR, or a path in a mount, or show the token in \
                DIR/admin.token (Authorization: Bearer TOKEN; of the loligo command LOLIGO_ADMIN_TOKEN=FILE). /healthz and /metrics are for \
                anybody\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

/// The word, and not the reason, which may name a file.
async fn health(State(source): State<Arc<Source>>) -> Response {
    match pages::ask(&source, Source::status).await {
        Ok(status) => match doc::health(&status).0 {
            "failed" => (StatusCode::SERVICE_UNAVAILABLE, "failed\n").into_response(),
            word => format!("ok: {word}\n").into_response(),
        },
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed\n").into_response(),
    }
}

async fn numbers(State(source): State<Arc<Source>>) -> Response {
    match pages::ask(&source, Source::status).await {
        Ok(status) => {
            let text = without_names(&metrics::render(&source, &status));
            ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the server does not answer\n").into_response(),
    }
}

/// The lines all of whose labels are known to hold no names.
fn without_names(text: &str) -> String {
    text.lines()
        .filter(|line| line.starts_with('#') || has_no_names(line))
        .fold(String::new(), |text, line| text + line + "\n")
}

fn has_no_names(line: &str) -> bool {
    let Some((_, labels)) = line.split_once('{') else { return true };
    let Some((labels, _)) = labels.rsplit_once('}') else { return false };
    labels.split(',').all(|label| {
        let Some((name, value)) = label.split_once('=') else { return false };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-+.\"".contains(c);
        LABELS.contains(&name) && value.chars().all(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_whose_labels_may_hold_names_are_left_out() {
        let text = "# HELP a b {path=\"x\"}\na 1\na{rank=\"0\",le=\"+Inf\"} 2\na{rank=\"0\",path=\"/secret\"} 3\n\
                    a{kind=\"/secret\"} 4\na{kind=\"x\",op=\"a b\"} 5\na{\n";
        assert_eq!(without_names(text), "# HELP a b {path=\"x\"}\na 1\na{rank=\"0\",le=\"+Inf\"} 2\n");
    }
}
