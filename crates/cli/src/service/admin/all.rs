//! The documents of all ranks: what this process knows, and what others say who run the rest. Who cannot be asked is named beside it: in the
//! status as `unreached`, of other pages in a header. One rank's document is `doc.rs`'s, asking is `others.rs`'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use loligo_driver::ServerError;
use loligo_types::{PolicyId, Rank, RankState};
use serde::Serialize;

use super::doc::{self, DrainDoc, MigrationDoc, OpDoc, RankDoc, SessionDoc, StatusDoc, SubtreeDoc};
use super::handing::ElsewhereDoc;
use super::heat::SpotDoc;
use super::others::{At, Gathered, REACH, UnreachedDoc, ask, document, gather, page};
use super::{Source, ops, pages};

/// The header with whom could not be asked: a list of [`UnreachedDoc`] as JSON.
pub const UNREACHED: &str = "loligo-unreached";

/// A document, and who is not in it.
pub fn page_of<T: Serialize>(doc: &T, unreached: &[UnreachedDoc]) -> Response {
    let mut response = Json(doc).into_response();
    if !unreached.is_empty() {
        let text = serde_json::to_string(unreached).unwrap_or_default().replace('\u{7f}', "?");
        // Nothing that a header cannot have is left in it.
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().insert(UNREACHED, value);
        }
    }
    response
}

/// The answers of this process and of the others to one question.
async fn both<T, O>(
    source: &Arc<Source>,
    own: impl FnOnce(&Source) -> Result<T, ServerError> + Send + 'static,
    path: &str,
) -> Result<(T, Gathered<O>), Response>
where
    T: Send + 'static,
    O: serde::de::DeserializeOwned,
{
    let (own, others) = tokio::join!(pages::ask(source, own), gather(source, path));
    Ok((own?, others))
}

/// The ranks of this process and of those of its machine that run some for it.
pub async fn ranks(source: &Arc<Source>) -> Response {
    let own = |source: &Source| {
        Ok(source.server.rank_statuses()?.iter().map(|rank| RankDoc::new(source, rank)).collect::<Vec<_>>())
    };
    match pages::ask(source, own).await {
        Ok(ranks) => Json(ranks).into_response(),
        Err(response) => response,
    }
}

/// A picture of the server, with all ranks that answer.
pub async fn status(source: &Arc<Source>) -> Result<StatusDoc, Response> {
    let own = |source: &Source| Ok(StatusDoc::new(source, &source.status()?));
    let (mut doc, others): (StatusDoc, Gathered<Vec<RankDoc>>) = both(source, own, "/api/v1/ranks").await?;
    doc.ranks.extend(others.docs.into_iter().flatten());
    doc.ranks.sort_by_key(|rank| rank.rank);
    // One that goes from server to server may be told of by both.
    doc.ranks.dedup_by_key(|rank| rank.rank);
    doc.unreached = others.unreached;
    if !source.is_for_servers {
        let is_told = |rank: &Rank| {
            let unreached = doc.unreached.iter().flat_map(|one| &one.ranks);
            doc.ranks.iter().map(|told| &told.rank).chain(unreached).any(|told| *told == rank.0)
        };
        let missing: Vec<Rank> = source.server.all_ranks().into_iter().filter(|rank| !is_told(rank)).collect();
        if !missing.is_empty() {
            let why = "it began, ended or went to another server just now: try again".to_string();
            doc.unreached.push(UnreachedDoc::nobody(missing, why));
        }
    }
    if let Some((health, reason)) = doc::health_of_all(&doc.ranks) {
        (doc.health, doc.reason) = (health, reason);
    }
    if doc.balancer.is_none()
        && let Some(policy) = doc.ranks.first().map(|rank| PolicyId(rank.balancer.policy))
    {
        doc.balancer = pages::ask(source, move |source| Ok(source.policy_now(policy))).await?;
    }
    Ok(doc)
}

/// Operations of all ranks, with the buckets of their latencies.
pub async fn operations(source: &Arc<Source>) -> Result<Response, Response> {
    let own = |source: &Source| Ok(ops::of(ops::all_metrics(&source.server.rank_statuses()?), true));
    let (mut all, others): (_, Gathered<BTreeMap<String, OpDoc>>) = both(source, own, "/api/v1/ops").await?;
    for (name, op) in others.docs.into_iter().flatten() {
        match all.get_mut(&name) {
            Some(known) => ops::add(known, &op),
            None => _ = all.insert(name, op),
        }
    }
    Ok(page_of(&all, &others.unreached))
}

/// The sessions at all ranks.
pub async fn sessions(source: &Arc<Source>) -> Result<Response, Response> {
    let own = |source: &Source| Ok(doc::sessions(&source.server.rank_statuses()?));
    let (mut all, others): (_, Gathered<Vec<SessionDoc>>) = both(source, own, "/api/v1/sessions").await?;
    all.extend(others.docs.into_iter().flatten());
    all.sort_by_key(|session| (session.rank, session.id));
    Ok(page_of(&all, &others.unreached))
}

/// All that all ranks know of the subtree map, each line in its newest version.
pub async fn subtrees(source: &Arc<Source>) -> Result<Response, Response> {
    let (own, others) = both(source, Source::routes, "/api/v1/subtrees").await?;
    let mut newest: BTreeMap<(u64, String), SubtreeDoc> = BTreeMap::new();
    let theirs = others.docs.into_iter().flat_map(|lines: Vec<SubtreeDoc>| lines);
    for line in own.iter().map(doc::subtree).chain(theirs) {
        let known = newest.entry((line.dir, line.frag.clone())).or_insert_with(|| line.clone());
        if line.version > known.version {
            *known = line;
        }
    }
    Ok(page_of(&newest.into_values().collect::<Vec<_>>(), &others.unreached))
}

/// The migrations of all ranks.
pub async fn migrations(source: &Arc<Source>) -> Result<Response, Response> {
    let own = |source: &Source| Ok(source.migrations()?.iter().map(doc::migration).collect::<Vec<_>>());
    let (mut all, others): (_, Gathered<Vec<MigrationDoc>>) = both(source, own, "/api/v1/migrations").await?;
    all.extend(others.docs.into_iter().flatten());
    Ok(page_of(&all, &others.unreached))
}

/// Heat of the hottest fragments of the directories of all ranks.
pub async fn heat(source: &Arc<Source>) -> Result<Response, Response> {
    let own =
        |source: &Source| Ok(source.heat()?.iter().map(|(rank, spot)| SpotDoc::new(*rank, spot)).collect::<Vec<_>>());
    let (mut all, others): (_, Gathered<Vec<SpotDoc>>) = both(source, own, "/api/v1/heat").await?;
    all.extend(others.docs.into_iter().flatten());
    Ok(page_of(&all, &others.unreached))
}

/// Progress of a rank's drain.
pub async fn drain(source: &Arc<Source>, rank: Rank) -> Result<Response, Response> {
    let path = format!("/api/v1/rank/drain/{rank}");
    let state = match source.state_elsewhere(rank) {
        Some(state) => state,
        None => {
            let own = move |source: &Source| source.drain_status(rank).map(|(status, there)| doc::drain(status, there));
            match (pages::ask(source, own).await, source.state_elsewhere(rank)) {
                (Ok(doc), _) => return Ok(Json(doc).into_response()),
                // It ended, or went to another server, while it was asked; the map has it still.
                (Err(_), Some(state)) => state,
                (Err(response), None) => return Err(response),
            }
        }
    };
    if source.is_for_servers {
        return Err(misdirected(rank));
    }
    let unknown = |why: String| DrainDoc { there: true, state: why.clone(), stuck: Some(why), ..DrainDoc::default() };
    let said = match source.at(rank) {
        At::There(other) => match ask(source, &other, page(path), REACH).await {
            Ok(reply) => document::<DrainDoc>(&reply).map_err(|why| format!("{other}, which runs it: {why}")),
            Err(loligo_driver::Unanswered::NotSent(why) | loligo_driver::Unanswered::Lost(why)) => {
                Err(format!("{other}, which runs it, is not reached: {why}"))
            }
        },
        At::Nowhere(why) => Err(why),
        At::Here => Err("it begins or ends just now".into()),
    };
    let said = match said {
        Ok(doc) if doc.there => doc,
        Ok(_) => unknown("it ends just now".into()),
        Err(why) => unknown(why),
    };
    // That it is drained is for the map to say.
    Ok(Json(DrainDoc { draining: state != RankState::Up, ..said }).into_response())
}

/// A page about a rank that another one runs, as that one gives it; nothing if this one does.
pub async fn of_rank(source: &Arc<Source>, rank: Rank, path: String) -> Option<Response> {
    let other = match source.at(rank) {
        At::Here => return None,
        _ if source.is_for_servers => return Some(misdirected(rank)),
        At::There(other) => other,
        At::Nowhere(why) => return Some((axum::http::StatusCode::CONFLICT, why + "\n").into_response()),
    };
    let doc = match ask(source, &other, page(path), REACH).await {
        Ok(reply) => document::<serde_json::Value>(&reply),
        Err(loligo_driver::Unanswered::NotSent(why) | loligo_driver::Unanswered::Lost(why)) => Err(why),
    };
    Some(match doc {
        Ok(doc) => Json(doc).into_response(),
        Err(why) => {
            let text = format!("{other}, which runs rank {rank}, is not reached: {why}\n");
            (axum::http::StatusCode::GATEWAY_TIMEOUT, text).into_response()
        }
    })
}

fn misdirected(rank: Rank) -> Response {
    (axum::http::StatusCode::MISDIRECTED_REQUEST, Json(ElsewhereDoc { rank: rank.0 })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_not_asked_is_named_in_a_header_whatever_it_is_called() {
        let one = |name: &str| UnreachedDoc { number: None, name: name.into(), ranks: vec![1], why: "no".into() };
        assert!(!page_of(&[1], &[]).headers().contains_key(UNREACHED));
        for name in ["s1", "Fluß\n\"7\"", "\u{7f}\0"] {
            let response = page_of(&[1], &[one(name)]);
            let header = response.headers().get(UNREACHED).expect("it is named").as_bytes();
            let read: Vec<UnreachedDoc> = serde_json::from_slice(header).expect("a list");
            assert_eq!(read, [one(&name.replace('\u{7f}', "?"))]);
        }
    }
}
