//! The pages, and the listeners that they are served on.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loligo_driver::ServerError;
use loligo_types::{Frag, Ino, Rank};
use tokio::sync::watch;

use super::{Source, auth, balancer, doc, metrics};

/// Serves both listeners until told to stop.
pub async fn serve(
    tcp: Option<TcpListener>,
    unix: UnixListener,
    source: Arc<Source>,
    stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let pages = Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(healthz))
        .route("/api/v1/status", get(status))
        .route("/api/v1/ops", get(ops))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/subtrees", get(subtrees))
        .route("/api/v1/migrations", get(migrations))
        .route("/api/v1/rank/drain/{rank}", get(drain_status))
        .route("/api/v1/config", get(config))
        .merge(balancer::pages())
        .fallback(nothing_here);
    // Who may connect to the socket in the data directory is its owner; who may connect to a port is anybody.
    let orders = pages
        .clone()
        .route("/api/v1/migrate/{dir}/{to}/{from}", post(migrate))
        .route("/api/v1/rank/add/{count}", post(add_ranks))
        .route("/api/v1/rank/drain/{rank}", post(drain))
        .route("/api/v1/rank/undrain/{rank}", post(undrain))
        .route("/api/v1/rank/handover/{rank}", post(hand_over))
        .route("/api/v1/migrate/{dir}/{to}/{from}/{value}/{bits}", post(migrate_frag))
        .route("/api/v1/gather/{dir}", post(gather))
        .merge(auth::orders())
        .merge(balancer::orders())
        .with_state(source.clone());
    let pages = pages.with_state(source);
    let unix = axum::serve(tokio::net::UnixListener::from_std(unix)?, orders);
    // A client that keeps its connection open must not keep the server from ending: what runs is dropped.
    let mut stop = stopped.clone();
    let told = async move { while !*stop.borrow_and_update() && stop.changed().await.is_ok() {} };
    match tcp {
        Some(tcp) => {
            let tcp = axum::serve(tokio::net::TcpListener::from_std(tcp)?, pages);
            tokio::select! {
                end = unix.into_future() => end,
                end = tcp.into_future() => end,
                () = told => Ok(()),
            }
        }
        None => tokio::select! {
            end = unix.into_future() => end,
            () = told => Ok(()),
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
     /api/v1/sessions   its clients\n/api/v1/subtrees   which rank has what\n\
     /api/v1/migrations what moves from rank to rank\n/api/v1/config     its settings\n\
     /api/v1/balancer   the policy in force and what it does\n"
}

async fn nothing_here() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "nothing is here; / lists what there is\n")
}

async fn metrics_page(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::status).await {
        Ok(status) => {
            let text = metrics::render(&source, &status);
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
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
    match ask(&source, Source::status_doc).await {
        Ok(status) => Json(status).into_response(),
        Err(response) => response,
    }
}

async fn ops(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::status).await {
        Ok(status) => Json(doc::ops(doc::all_metrics(&status), true)).into_response(),
        Err(response) => response,
    }
}

async fn sessions(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::status).await {
        Ok(status) => Json(doc::sessions(&status)).into_response(),
        Err(response) => response,
    }
}

async fn subtrees(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::subtree_docs).await {
        Ok(lines) => Json(lines).into_response(),
        Err(response) => response,
    }
}

async fn migrations(State(source): State<Arc<Source>>) -> Response {
    match ask(&source, Source::migration_docs).await {
        Ok(all) => Json(all).into_response(),
        Err(response) => response,
    }
}

async fn migrate(State(source): State<Arc<Source>>, Path((dir, to, from)): Path<(u64, u16, u16)>) -> Response {
    let order = move |source: &Source| source.migrate(Ino(dir), None, Rank(to), Rank(from));
    begun(ask(&source, order).await)
}

/// A fragment of it.
type OfFrag = (u64, u16, u16, String, u8);

async fn migrate_frag(State(source): State<Arc<Source>>, Path((dir, to, from, value, bits)): Path<OfFrag>) -> Response {
    match format!("{value}/{bits}").parse::<Frag>() {
        Ok(frag) => {
            let order = move |source: &Source| source.migrate(Ino(dir), Some(frag), Rank(to), Rank(from));
            begun(ask(&source, order).await)
        }
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    }
}

async fn gather(State(source): State<Arc<Source>>, Path(dir): Path<u64>) -> Response {
    begun(ask(&source, move |source| source.gather(Ino(dir))).await)
}

fn begun(told: Result<Result<(u64, Rank), String>, Response>) -> Response {
    match told {
        Ok(Ok((id, from))) => Json(doc::BegunDoc { id, from: from.0 }).into_response(),
        Ok(Err(why)) => (StatusCode::CONFLICT, why + "\n").into_response(),
        Err(response) => response,
    }
}

async fn add_ranks(State(source): State<Arc<Source>>, Path(count): Path<u16>) -> Response {
    match ask(&source, move |source| source.add_ranks(count)).await {
        Ok(ranks) => Json(doc::AddedDoc { ranks: ranks.iter().map(|rank| rank.0).collect() }).into_response(),
        Err(response) => response,
    }
}

async fn drain(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    match ask(&source, move |source| source.drain_rank(Rank(rank), true)).await {
        Ok(()) => drain_status(State(source), Path(rank)).await,
        Err(response) => response,
    }
}

async fn undrain(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    match ask(&source, move |source| source.drain_rank(Rank(rank), false)).await {
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
    match ask(&source, move |source| source.drain_doc(Rank(rank))).await {
        Ok(status) => Json(status).into_response(),
        Err(response) => response,
    }
}

async fn config(State(source): State<Arc<Source>>) -> Response {
    Json(crate::look::config::as_json(&source.settings)).into_response()
}
