//! The pages, and who is served with them: who connects to the listeners, and other servers of the file system.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loligo_driver::{Replier, ServerError};
use loligo_mds::admin::Ask;
use loligo_types::limits::REPLY_TEXT_MAX;
use loligo_types::link::{Method, Question, Reply};
use loligo_types::{Frag, Ino, Rank};
use tokio::sync::{mpsc, watch};
use tower_service::Service;

use super::door::{self, Bounds};
use super::port::Port;
use super::{Source, all, auth, balancer, doc, handing, metrics, snapshot};

/// Time limit of a connection of the owner: an order takes up to a minute, and one that is handed on a little longer.
const OWNER_TIME: Duration = Duration::from_secs(90);
/// The same of anybody's at the port.
const ANYBODY_TIME: Duration = Duration::from_secs(15);

/// Pages that the owner may look at.
pub(super) fn pages() -> Router<Arc<Source>> {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(healthz))
        .route("/api/v1/status", get(status))
        .route("/api/v1/ranks", get(ranks))
        .route("/api/v1/ops", get(ops))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/subtrees", get(subtrees))
        .route("/api/v1/migrations", get(migrations))
        .route("/api/v1/heat", get(heat))
        .route("/api/v1/rank/drain/{rank}", get(drain_status))
        .route("/api/v1/config", get(config))
        .merge(balancer::pages())
        .merge(snapshot::pages())
        .fallback(nothing_here)
}

/// The same, and what the owner may do. That is who may connect to the socket in the data directory, and other servers; not who comes to the
/// port, whatever it shows.
pub(super) fn pages_and_orders(source: &Arc<Source>) -> Router {
    let by_leader = Router::new()
        .route("/api/v1/rank/add/{count}", post(add_ranks))
        .route("/api/v1/rank/handover/{rank}", post(hand_over))
        .route("/api/v1/auth/revoke", post(auth::revoke))
        .merge(balancer::orders())
        .route_layer(from_fn_with_state(source.clone(), handing::by_leader));
    pages()
        .route("/api/v1/migrate/{dir}/{to}/{from}", post(migrate))
        .route("/api/v1/migrate/{dir}/{to}/{from}/{value}/{bits}", post(migrate_frag))
        .route("/api/v1/gather/{dir}", post(gather))
        .route("/api/v1/gather/{dir}/{at}", post(gather_at))
        .route("/api/v1/rank/drain/{rank}", post(drain))
        .route("/api/v1/rank/undrain/{rank}", post(undrain))
        .merge(auth::orders())
        .merge(snapshot::orders())
        .merge(by_leader)
        .with_state(source.clone())
}

/// Serves both listeners and other servers until told to stop. `connections`: at both together.
pub(super) async fn serve(
    tcp: Option<(TcpListener, Port)>,
    unix: UnixListener,
    asked: mpsc::Receiver<(Question, Replier)>,
    source: Arc<Source>,
    stopped: watch::Receiver<bool>,
    connections: usize,
) -> std::io::Result<()> {
    tokio::spawn(hear(asked, pages_and_orders(&Arc::new(source.for_servers()))));
    let orders = pages_and_orders(&source);
    let room = connections / 2;
    let answer = move |request| call(orders.clone(), request);
    let unix = door::serve(tokio::net::UnixListener::from_std(unix)?, Bounds { room, time: OWNER_TIME }, answer);
    // A client that keeps its connection open must not keep the server from ending: what runs is dropped.
    let mut stop = stopped.clone();
    let told = async move { while !*stop.borrow_and_update() && stop.changed().await.is_ok() {} };
    match tcp {
        Some((tcp, port)) => {
            let answer = move |request| port.clone().answer(request);
            let tcp = door::serve(tokio::net::TcpListener::from_std(tcp)?, Bounds { room, time: ANYBODY_TIME }, answer);
            tokio::select! {
                () = unix => {}
                () = tcp => {}
                () = told => {}
            }
        }
        None => tokio::select! {
            () = unix => {}
            () = told => {}
        },
    }
    Ok(())
}

/// Has the pages answer a request.
async fn call(mut pages: Router, request: Request<Body>) -> Response {
    match pages.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Hears what other servers ask. Each is a task of its own: none waits for another one.
async fn hear(mut asked: mpsc::Receiver<(Question, Replier)>, pages: Router) {
    while let Some((question, replier)) = asked.recv().await {
        let pages = pages.clone();
        tokio::spawn(async move { replier.reply(reply(pages, question).await) });
    }
}

/// Reply of the pages to a question.
pub(super) async fn reply(pages: Router, question: Question) -> Reply {
    let method = match question.method {
        Method::Get => axum::http::Method::GET,
        Method::Post => axum::http::Method::POST,
    };
    let request = Request::builder().method(method).uri(question.path).body(Body::from(question.text));
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            return Reply { status: StatusCode::BAD_REQUEST.as_u16(), text: format!("no such page: {error}\n") };
        }
    };
    let response = call(pages, request).await;
    let status = response.status().as_u16();
    match to_bytes(response.into_body(), REPLY_TEXT_MAX).await {
        Ok(text) => Reply { status, text: String::from_utf8_lossy(&text).into_owned() },
        Err(_) => Reply {
            status: StatusCode::INSUFFICIENT_STORAGE.as_u16(),
            text: format!("what it has to say are more than {REPLY_TEXT_MAX} bytes: ask it there\n"),
        },
    }
}

/// Asks the server on a thread where waiting is allowed.
pub(super) async fn ask<T: Send + 'static>(
    source: &Arc<Source>,
    what: impl FnOnce(&Source) -> Result<T, ServerError> + Send + 'static,
) -> Result<T, Response> {
    let source = source.clone();
    let unavailable = |text: String| (StatusCode::SERVICE_UNAVAILABLE, text + "\n").into_response();
    match tokio::task::spawn_blocking(move || what(&source)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(
            error @ (ServerError::Refused(_) | ServerError::NoSuchRank { .. } | ServerError::TooManyRanks { .. }),
        )) => Err((StatusCode::CONFLICT, format!("{error}\n")).into_response()),
        Ok(Err(error)) => Err(unavailable(error.to_string())),
        Err(error) => Err(unavailable(error.to_string())),
    }
}

async fn index() -> &'static str {
    "Loligo\n\n/metrics           for Prometheus\n/healthz           200 if it serves, else 503 and why\n\
     /api/v1/status     what it does\n/api/v1/ops        operations, with the buckets of their latencies\n\
     /api/v1/ranks      what its ranks do\n/api/v1/sessions   its clients\n/api/v1/subtrees   which rank has what\n\
     /api/v1/migrations what moves from rank to rank\n/api/v1/config     its settings\n\
     /api/v1/heat       what is done in which directories\n\
     /api/v1/balancer   the policy in force and what it does\n\
     /api/v1/snapshot   the snapshot that a copy or a dump reads\n"
}

async fn nothing_here() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "nothing is here; / lists what there is\n")
}

async fn metrics_page(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::status).await {
        Ok(status) => {
            let text = metrics::render(&source, &status);
            ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
        }
        Err(response) => response,
    }
}

async fn healthz(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::status).await {
        Ok(status) => match doc::health(&status) {
            ("failed", reason) => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("failed: {}\n", reason.unwrap_or_default())).into_response()
            }
            (word, Some(reason)) => format!("ok: {word}, {reason}\n").into_response(),
            (word, None) => format!("ok: {word}\n").into_response(),
        },
        Err(response) => response,
    }
}

async fn status(State(source): State<Arc<Source>>) -> Response {
    either(all::status(&source).await.map(|doc| Json(doc).into_response()))
}

async fn ranks(State(source): State<Arc<Source>>) -> Response {
    all::ranks(&source).await
}

async fn ops(State(source): State<Arc<Source>>) -> Response {
    either(all::operations(&source).await)
}

async fn sessions(State(source): State<Arc<Source>>) -> Response {
    either(all::sessions(&source).await)
}

async fn subtrees(State(source): State<Arc<Source>>) -> Response {
    either(all::subtrees(&source).await)
}

async fn migrations(State(source): State<Arc<Source>>) -> Response {
    either(all::migrations(&source).await)
}

async fn heat(State(source): State<Arc<Source>>) -> Response {
    either(all::heat(&source).await)
}

fn either(told: Result<Response, Response>) -> Response {
    told.unwrap_or_else(|response| response)
}

async fn migrate(State(source): State<Arc<Source>>, Path((dir, to, from)): Path<(u64, u16, u16)>) -> Response {
    begin_to_migrate(&source, Ino(dir), None, Rank(to), Rank(from)).await
}

/// A fragment of it.
type OfFrag = (u64, u16, u16, String, u8);

async fn migrate_frag(State(source): State<Arc<Source>>, Path((dir, to, from, value, bits)): Path<OfFrag>) -> Response {
    match format!("{value}/{bits}").parse::<Frag>() {
        Ok(frag) => begin_to_migrate(&source, Ino(dir), Some(frag), Rank(to), Rank(from)).await,
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    }
}

/// Begins to move the authority over a directory and all below it to another rank. `from`: who is likely to have it.
async fn begin_to_migrate(source: &Arc<Source>, dir: Ino, frag: Option<Frag>, to: Rank, from: Rank) -> Response {
    let ask = match frag {
        Some(frag) => Ask::MigrateFrag { dir, frag, to },
        None => Ask::Migrate { dir, to },
    };
    let ranks = source.server.ranks();
    // Where others run some, the rank itself knows who is there.
    if !ranks.contains(&to) && !source.server.has_others() {
        let there: Vec<String> = ranks.iter().map(Rank::to_string).collect();
        let why = match &there[..] {
            [only] => format!("there is no rank {to}: there is only rank {only}\n"),
            _ => format!("there is no rank {to}: the ranks are {}\n", there.join(", ")),
        };
        return (StatusCode::CONFLICT, why).into_response();
    }
    let part = frag.map_or(String::new(), |frag| format!("/{:x}/{}", frag.value, frag.bits));
    handing::of_rank(source, ask, from, |at| format!("/api/v1/migrate/{}/{to}/{at}{part}", dir.0)).await
}

/// Asks all ranks to give the fragments of a directory to the one that has its inode.
async fn gather(State(source): State<Arc<Source>>, Path(dir): Path<u64>) -> Response {
    gather_at(State(source), Path((dir, Rank::ZERO.0))).await
}

/// The same, asking that rank first which one it is.
async fn gather_at(State(source): State<Arc<Source>>, Path((dir, at)): Path<(u64, u16)>) -> Response {
    let page = |at| format!("/api/v1/gather/{dir}/{at}");
    handing::of_rank(&source, Ask::Gather { dir: Ino(dir) }, Rank(at), page).await
}

async fn add_ranks(State(source): State<Arc<Source>>, Path(count): Path<u16>) -> Response {
    match ask(&source, move |source| source.add_ranks(count)).await {
        Ok(ranks) => Json(doc::AddedDoc { ranks: ranks.iter().map(|rank| rank.0).collect() }).into_response(),
        Err(response) => response,
    }
}

async fn drain(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    begin_or_stop_draining(source, rank, true).await
}

async fn undrain(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    begin_or_stop_draining(source, rank, false).await
}

/// The leader does it; how far it is then, the rank tells whoever was asked first.
async fn begin_or_stop_draining(source: Arc<Source>, rank: u16, drain: bool) -> Response {
    let page = format!("/api/v1/rank/{}/{rank}", if drain { "drain" } else { "undrain" });
    let done = match handing::to_leader(&source, &page, "").await {
        Some(answer) if answer.status() == StatusCode::OK => Ok(()),
        Some(answer) => Err(answer),
        None => ask(&source, move |source| source.drain_rank(Rank(rank), drain)).await,
    };
    match done {
        // Who hands it on asks for that by itself.
        Ok(()) if source.is_for_servers => {
            Json(doc::DrainDoc { there: true, draining: drain, ..Default::default() }).into_response()
        }
        Ok(()) => drain_status(State(source), Path(rank)).await,
        Err(response) => response,
    }
}

/// The order's text is the name or number of a server; none: the one that has the fewest ranks.
async fn hand_over(State(source): State<Arc<Source>>, Path(rank): Path<u16>, to: String) -> Response {
    let to = Some(to).filter(|to| !to.is_empty());
    match ask(&source, move |source| source.hand_over(Rank(rank), to)).await {
        Ok(server) => Json(doc::HandOverDoc { rank, server }).into_response(),
        Err(response) => response,
    }
}

async fn drain_status(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    either(all::drain(&source, Rank(rank)).await)
}

async fn config(State(source): State<Arc<Source>>) -> Response {
    Json(crate::look::config::as_json(&source.settings)).into_response()
}
