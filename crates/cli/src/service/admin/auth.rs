//! Identities as JSON and as orders. All of it over the socket alone: who may come in is nobody else's business.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loligo_driver::{Listed, Rights, ServerError};
use serde::{Deserialize, Serialize};

use super::{Source, pages};

/// A line of the list of identities. Fields are only added.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct IdentityDoc {
    /// Name of the identity.
    pub name: String,
    /// Number of its certificate.
    pub serial: String,
    /// It may change nothing.
    pub read_only: bool,
    /// When it was made, milliseconds since 1970.
    pub at_ms: u64,
    /// Where it may do what, `rw:/PATH` or `r:/PATH` each; none: everywhere.
    #[serde(default)]
    pub allow: Vec<String>,
    /// The users of its host that it does not act for: `none`, `root` or `all`.
    #[serde(default)]
    pub squash: String,
}

/// An identity that was made.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = IdentityAddedDoc))]
pub struct AddedDoc {
    /// Its line of the list.
    pub identity: IdentityDoc,
    /// Text of the identity file.
    pub file: String,
}

/// The identity that is asked for.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = IdentityOrderDoc))]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Name of the identity.
    pub name: String,
    /// It may change nothing.
    pub read_only: bool,
    /// Where it may do what, `rw:/PATH` or `r:/PATH` each; none: everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// The users of its host that it does not act for: `none`, `root` or `all`. None: root if it may not act everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squash: Option<String>,
}

impl Asked {
    fn rights(&self) -> Result<Rights, String> {
        let rights = self.places()?;
        Ok(match &self.squash {
            Some(text) => rights.squashing(text.parse()?),
            None => rights,
        })
    }

    fn places(&self) -> Result<Rights, String> {
        if self.allow.is_empty() {
            return Ok(Rights::everywhere(!self.read_only));
        }
        if self.read_only {
            return Err("an identity is read-only, or has rights at paths".into());
        }
        Rights::of(self.allow.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
    }
}

/// The page and the order that are each server's own.
pub fn orders() -> Router<Arc<Source>> {
    Router::new().route("/api/v1/auth", get(list)).route("/api/v1/auth/add", post(add))
}

fn doc(listed: Listed) -> IdentityDoc {
    let Listed { name, serial, rights, at_ms, .. } = listed;
    let places = rights.is_limited();
    let allow = rights.grants().iter().filter(|_| places).map(ToString::to_string).collect();
    let squash = rights.squash().to_string();
    IdentityDoc { name, serial, read_only: rights.is_read_only(), at_ms, allow, squash }
}

fn docs(source: &Source) -> Result<Vec<IdentityDoc>, ServerError> {
    Ok(source.server.identities()?.into_iter().map(doc).collect())
}

async fn list(State(source): State<Arc<Source>>) -> Response {
    match pages::ask(&source, docs).await {
        Ok(all) => Json(all).into_response(),
        Err(response) => response,
    }
}

/// Not handed on, and not done for another server: the answer has a private key in it, and servers talk without encryption.
async fn add(State(source): State<Arc<Source>>, body: String) -> Response {
    let refused = match source.leader_elsewhere() {
        _ if source.is_for_servers => {
            "an identity is made at the server that leads, and not for another one".to_string()
        }
        Some(Ok(leader)) => format!(
            "{leader} leads, and makes identities: ask there (on its machine, or with its --data). This is not handed on, because a private \
             key would come back without encryption"
        ),
        Some(Err(why)) => why,
        None => String::new(),
    };
    if !refused.is_empty() {
        return (StatusCode::CONFLICT, refused + "\n").into_response();
    }
    let asked: Asked = match serde_json::from_str(&body) {
        Ok(asked) => asked,
        Err(why) => return misunderstood(&why),
    };
    let made = move |source: &Source| {
        let rights = asked.rights().map_err(ServerError::Refused)?;
        let (listed, file) = source.server.add_identity(&asked.name, rights)?;
        Ok(AddedDoc { identity: doc(listed), file })
    };
    match pages::ask(&source, made).await {
        Ok(added) => Json(added).into_response(),
        Err(response) => response,
    }
}

/// The leader's.
pub async fn revoke(State(source): State<Arc<Source>>, body: String) -> Response {
    let asked: Asked = match serde_json::from_str(&body) {
        Ok(asked) => asked,
        Err(why) => return misunderstood(&why),
    };
    let order = move |source: &Source| {
        source.server.revoke_identity(&asked.name)?;
        docs(source)
    };
    match pages::ask(&source, order).await {
        Ok(all) => Json(all).into_response(),
        Err(response) => response,
    }
}

/// Of another version: a limit that is not understood must not be left out.
fn misunderstood(why: &serde_json::Error) -> Response {
    let text = format!("the order is not understood ({why}): use a loligo of the server's version\n");
    (StatusCode::BAD_REQUEST, text).into_response()
}
