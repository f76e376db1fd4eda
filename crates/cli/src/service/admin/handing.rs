//! Orders that another one is to carry out: they are handed on, and its answer is given back as it is. To the server that leads what concerns
//! all, to the one that runs a rank what that rank is to do.
//!
//! What was handed on once is not handed on again: a server that it is not for any more says so, with 421. Never handed on is what has a secret
//! in its answer (`auth.rs`), because servers talk without encryption.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use loligo_driver::{ServerError, Unanswered};
use loligo_mds::admin::{Ask, Told};
use loligo_types::Rank;
use loligo_types::limits::QUESTION_TEXT_MAX;
use loligo_types::link::{Method, Question, Reply};
use serde::{Deserialize, Serialize};

use super::doc::BegunDoc;
use super::others::{self, At, Other};
use super::{Source, pages};

/// Time limit of an order that was handed on: a little longer than where it is carried out. A process that hangs is given up as soon as
/// nothing comes over the connection any more.
const ORDER_TIME: Duration = Duration::from_secs(65);

/// Between two looks whether this server knows of it, too.
const LOOK: Duration = Duration::from_millis(20);

/// With 421: which rank an order is for by now.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ElsewhereDoc {
    /// As far as is known.
    pub rank: u16,
}

fn told(status: StatusCode, text: String) -> Response {
    (status, text + "\n").into_response()
}

/// The reply of another one as the answer of this one.
fn as_response(other: &Other, reply: Reply) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_GATEWAY);
    match status {
        StatusCode::OK => ([(header::CONTENT_TYPE, "application/json")], reply.text).into_response(),
        // These are about itself, and do not say who it is.
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE => {
            told(status, format!("{other}: {}", reply.text.trim()))
        }
        _ => told(status, reply.text.trim().to_string()),
    }
}

/// Has another one carry out an order. The error: it is not reached, and whether it may have been done. `what`: what that one does.
async fn hand_on(
    source: &Arc<Source>,
    other: &Other,
    what: &str,
    page: String,
    text: String,
) -> Result<Reply, Response> {
    let order = Question { method: Method::Post, path: page, text };
    others::ask(source, other, order, ORDER_TIME).await.map_err(|unanswered| {
        let text = match unanswered {
            Unanswered::NotSent(why) => format!(
                "{other}, which {what}, is not reached ({why}): nothing was done; try again, or give the order there (on its machine, or \
                 with its --data)"
            ),
            Unanswered::Lost(why) => format!(
                "{other}, which {what}, was given the order and does not answer ({why}): it may have been done, or be done later; look \
                 (loligo status) before you give it again"
            ),
        };
        told(StatusCode::GATEWAY_TIMEOUT, text)
    })
}

/// Hands an order on to the server that leads, and gives back its answer; nothing if this one does.
pub async fn to_leader(source: &Arc<Source>, page: &str, text: &str) -> Option<Response> {
    let leader = source.leader_elsewhere()?;
    Some(given_to(source, leader, page.into(), text.into()).await)
}

pub(super) async fn given_to(
    source: &Arc<Source>,
    leader: Result<Other, String>,
    page: String,
    text: String,
) -> Response {
    if source.is_for_servers {
        let text = format!("{} does not lead any more, and did nothing: try again", source.own_name());
        return told(StatusCode::MISDIRECTED_REQUEST, text);
    }
    match leader {
        Err(why) => told(StatusCode::SERVICE_UNAVAILABLE, why),
        Ok(leader) => match hand_on(source, &leader, "leads", page, text).await {
            Ok(reply) => {
                catch_up(source).await;
                as_response(&leader, reply)
            }
            Err(response) => response,
        },
    }
}

/// Until this server has seen what the leader has put down: who gave the order looks here next. Not longer than others are waited for.
async fn catch_up(source: &Arc<Source>) {
    let before = source.server.looks();
    let seen = async {
        while source.server.looks() < before + 2 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(others::REACH, seen).await;
}

/// Around orders that are the leader's.
pub async fn by_leader(State(source): State<Arc<Source>>, request: Request, next: Next) -> Response {
    let Some(leader) = source.leader_elsewhere() else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let text = to_bytes(body, QUESTION_TEXT_MAX).await.ok().and_then(|bytes| String::from_utf8(bytes.into()).ok());
    match text {
        Some(text) => given_to(&source, leader, parts.uri.path().to_string(), text).await,
        None => {
            let text = format!(
                "an order is handed on with a text of {QUESTION_TEXT_MAX} bytes at most: give it at the server that leads"
            );
            told(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
    }
}

/// Tells the rank that is to do it, wherever that is, to begin something. `from`: which rank that probably is; each that does not have what
/// it is about names one that knows better. `page`: where it is ordered of a rank.
pub async fn of_rank(source: &Arc<Source>, what: Ask, from: Rank, page: impl Fn(Rank) -> String) -> Response {
    let first = || source.server.ranks().first().copied();
    let is_there = |rank: Rank| source.server.all_ranks().contains(&rank) || source.state_elsewhere(rank).is_some();
    let mut from = if is_there(from) { from } else { first().unwrap_or(from) };
    // More often than there are ranks only if it moves.
    for _ in 0..=2 * source.server.all_ranks().len() {
        let next = match source.at(from) {
            At::Here => here(source, &what, from).await,
            _ if source.is_for_servers => {
                return (StatusCode::MISDIRECTED_REQUEST, Json(ElsewhereDoc { rank: from.0 })).into_response();
            }
            At::There(other) => there(source, &other, from, page(from)).await,
            At::Nowhere(why) => return told(StatusCode::CONFLICT, why),
        };
        match next {
            Ok(rank) => from = rank,
            Err(response) => return response,
        }
    }
    told(StatusCode::CONFLICT, "the directory moves from rank to rank; try again".into())
}

/// Tells a rank of this process; which one knows better, or the answer.
async fn here(source: &Arc<Source>, what: &Ask, rank: Rank) -> Result<Rank, Response> {
    let what = what.clone();
    let asked = move |source: &Source| match source.server.admin(rank, what) {
        // It has just left: any other knows better.
        Err(error @ ServerError::NoSuchRank { .. }) => match source.server.ranks().first() {
            Some(first) if *first != rank => Ok(Told::Elsewhere(*first)),
            _ => Err(error),
        },
        told => told,
    };
    let answer = match pages::ask(source, asked).await {
        // It went to another server while it was asked: there.
        Err(_) if source.state_elsewhere(rank).is_some() => return Ok(rank),
        answer => answer?,
    };
    match answer {
        Told::Begun(id) => Err(Json(BegunDoc { id, from: rank.0 }).into_response()),
        Told::Elsewhere(better) => Ok(better),
        Told::Refused(why) => Err(told(StatusCode::CONFLICT, why)),
        other => {
            let text = format!("rank {rank} answers with what was not asked: {other:?}; this is a bug");
            Err(told(StatusCode::CONFLICT, text))
        }
    }
}

/// The same of a rank that another one runs.
async fn there(source: &Arc<Source>, other: &Other, rank: Rank, page: String) -> Result<Rank, Response> {
    let reply = hand_on(source, other, &format!("runs rank {rank}"), page, String::new()).await?;
    if reply.status == StatusCode::MISDIRECTED_REQUEST.as_u16()
        && let Ok(ElsewhereDoc { rank }) = serde_json::from_str(&reply.text)
    {
        return Ok(Rank(rank));
    }
    Err(as_response(other, reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("it is short");
        (status, String::from_utf8(bytes.into()).expect("text"))
    }

    #[test]
    fn an_answer_is_given_back_as_it_is_and_one_about_the_other_server_itself_says_which_that_is() {
        let other = Other::Server { number: 1, name: "s1".into(), ranks: Vec::new() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let given =
            |status, said: &str| runtime.block_on(text(as_response(&other, Reply { status, text: said.into() })));
        assert_eq!(given(200, "{}"), (200, "{}".into()));
        assert_eq!(given(409, "there is no rank 7\n"), (409, "there is no rank 7\n".into()));
        assert_eq!(given(503, "it stops\n"), (503, "s1: it stops\n".into()));
    }
}
