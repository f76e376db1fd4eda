//! The OpenAPI document of the admin plane, docs/formats/admin-api.json: made of the list of routes below and of the types of their answers.
//! Tests only: they hold the document to the code, and the list to the routes. `LOLIGO_UPDATE=1 cargo test -p loligo-cli admin_api` writes
//! the document anew.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{auth, balancer, doc, heat, snapshot};
use crate::output;

/// Content of an answer or of an order.
enum Content {
    Text,
    Json(Value),
}

struct Route {
    method: &'static str,
    path: &'static str,
    what: &'static str,
    /// Content of the order, if it has one.
    order: Option<Content>,
    answer: Content,
}

type Schemas = BTreeMap<String, Value>;

/// Notes the schema of a type and of all in it; the reference to it.
fn of<T: ToSchema + PartialSchema>(schemas: &mut Schemas) -> Value {
    let mut all: Vec<(String, RefOr<Schema>)> = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut all);
    let named = all.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).expect("a schema is JSON")));
    schemas.extend(named);
    json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
}

fn list(one: Value) -> Content {
    Content::Json(json!({ "type": "array", "items": one }))
}

fn map(one: Value) -> Content {
    Content::Json(json!({ "type": "object", "additionalProperties": one }))
}

fn routes(schemas: &mut Schemas) -> Vec<Route> {
    let get = |path, what, answer| Route { method: "get", path, what, order: None, answer };
    let post = |path, what, answer| Route { method: "post", path, what, order: None, answer };
    let with = |order, route: Route| Route { order: Some(order), ..route };
    let status = Content::Json(of::<doc::StatusDoc>(schemas));
    let balance = |schemas: &mut Schemas| Content::Json(of::<balancer::BalancerDoc>(schemas));
    let version = |schemas: &mut Schemas| Content::Json(of::<balancer::VersionDoc>(schemas));
    let begun = |schemas: &mut Schemas| Content::Json(of::<doc::BegunDoc>(schemas));
    let drain = |schemas: &mut Schemas| Content::Json(of::<doc::DrainDoc>(schemas));
    let shot = |schemas: &mut Schemas| Content::Json(of::<snapshot::SnapshotDoc>(schemas));
    vec![
        get("/", "A list of the pages.", Content::Text),
        get(
            "/metrics",
            "Metrics in the text format of Prometheus. At the address, without token, series whose labels may hold a name are left out.",
            Content::Text,
        ),
        get("/healthz", "200 and `ok: ` with the state, or 503 and `failed`.", Content::Text),
        get("/api/v1/status", "State of the server and of all ranks, as `loligo status --json`.", status),
        get("/api/v1/ranks", "The ranks that this process runs.", list(of::<doc::RankDoc>(schemas))),
        get(
            "/api/v1/ops",
            "Operations by name, with latency buckets: upper bound in nanoseconds and count.",
            map(of::<doc::OpDoc>(schemas)),
        ),
        get("/api/v1/sessions", "Sessions of clients.", list(of::<doc::SessionDoc>(schemas))),
        get(
            "/api/v1/subtrees",
            "The subtree map: which rank has authority over which directories.",
            list(of::<doc::SubtreeDoc>(schemas)),
        ),
        get("/api/v1/migrations", "Running and finished migrations.", list(of::<doc::MigrationDoc>(schemas))),
        get("/api/v1/heat", "The 4,096 hottest fragments of each rank.", list(of::<heat::SpotDoc>(schemas))),
        get(
            "/api/v1/rank/drain/{rank}",
            "Progress of a drain; `there` is false when the rank is gone.",
            drain(schemas),
        ),
        get("/api/v1/config", "Settings in force, by key, and where they come from.", map(json!({}))),
        get("/api/v1/balancer", "The balancer's policies and what they do.", balance(schemas)),
        get(
            "/api/v1/balancer/text/{policy}",
            "Text of a policy, by its number.",
            Content::Json(of::<balancer::TextDoc>(schemas)),
        ),
        get(
            "/api/v1/balancer/log/{lines}",
            "The last lines of the balancer's log.",
            list(of::<balancer::LineDoc>(schemas)),
        ),
        get(
            "/api/v1/balancer/ticks/{rank}",
            "Inputs and answers of the policy in the last ticks of a rank.",
            list(of::<balancer::TickDoc>(schemas)),
        ),
        get("/api/v1/snapshot", "The snapshot that `copy` and `dump` read.", shot(schemas)),
        get("/api/v1/auth", "Identities. At the socket only.", list(of::<auth::IdentityDoc>(schemas))),
        with(
            Content::Json(of::<auth::Asked>(schemas)),
            post(
                "/api/v1/auth/add",
                "Makes an identity, with its private key. At the leading server only; not handed on.",
                Content::Json(of::<auth::AddedDoc>(schemas)),
            ),
        ),
        with(
            Content::Json(of::<auth::Asked>(schemas)),
            post(
                "/api/v1/auth/revoke",
                "Revokes an identity; only `name` counts.",
                list(of::<auth::IdentityDoc>(schemas)),
            ),
        ),
        post("/api/v1/rank/add/{count}", "Adds ranks.", Content::Json(of::<doc::AddedDoc>(schemas))),
        post("/api/v1/rank/drain/{rank}", "Begins to drain a rank.", drain(schemas)),
        post("/api/v1/rank/undrain/{rank}", "Stops draining a rank.", drain(schemas)),
        with(
            Content::Text,
            post(
                "/api/v1/rank/handover/{rank}",
                "Has another server run a rank: the one whose name or number the text is, else the one with the fewest.",
                Content::Json(of::<doc::HandOverDoc>(schemas)),
            ),
        ),
        post(
            "/api/v1/migrate/{dir}/{to}/{from}",
            "Begins to migrate a directory, by its inode number, to a rank; `from` is the rank asked first.",
            begun(schemas),
        ),
        post("/api/v1/migrate/{dir}/{to}/{from}/{value}/{bits}", "The same of a fragment.", begun(schemas)),
        post("/api/v1/gather/{dir}", "Begins to bring all fragments of a directory together.", begun(schemas)),
        post("/api/v1/gather/{dir}/{at}", "The same; `at` is the rank asked first.", begun(schemas)),
        with(
            Content::Text,
            post(
                "/api/v1/balancer/set/{name}",
                "Stores the text as a policy of this name, and puts it in force.",
                version(schemas),
            ),
        ),
        with(
            Content::Text,
            post("/api/v1/balancer/add/{name}", "Stores the text as a policy of this name.", version(schemas)),
        ),
        post("/api/v1/balancer/none", "Puts no policy in force.", balance(schemas)),
        post("/api/v1/balancer/unset", "Puts the default in force.", balance(schemas)),
        post("/api/v1/balancer/rollback", "Puts the policy before in force.", balance(schemas)),
        post("/api/v1/snapshot/make", "Makes a snapshot, unless there is one.", shot(schemas)),
        with(
            Content::Text,
            post(
                "/api/v1/snapshot/remove",
                "Removes the snapshot of this number; without one, whichever there is.",
                shot(schemas),
            ),
        ),
    ]
}

fn content(content: &Content) -> Value {
    match content {
        Content::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        Content::Json(schema) => json!({ "application/json": { "schema": schema } }),
    }
}

fn parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let number = |name: &str| !matches!(name, "name" | "value");
    names
        .map(|name| {
            let kind =
                if number(name) { json!({ "type": "integer", "minimum": 0 }) } else { json!({ "type": "string" }) };
            json!({ "name": name, "in": "path", "required": true, "schema": kind })
        })
        .collect()
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let routes = routes(&mut schemas);
    let mut paths: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    let error = json!({ "description": "Refused; the text says why and what to do.", "content": { "text/plain": { "schema": { "type": "string" } } } });
    for route in &routes {
        let answer = json!({ "description": "Done.", "content": content(&route.answer) });
        let mut one = json!({ "summary": route.what, "responses": { "200": answer, "default": error } });
        if let Some(order) = &route.order {
            one["requestBody"] = json!({ "content": content(order) });
        }
        let parameters = parameters(route.path);
        if !parameters.is_empty() {
            one["parameters"] = Value::from(parameters);
        }
        assert!(paths.entry(route.path).or_default().insert(route.method, one).is_none(), "{} twice", route.path);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Admin plane of Loligo",
            "version": "1",
            "description": "HTTP on DIR/admin.sock for root and the server's user, and on a loopback address, where pages want the token of DIR/admin.token and orders are refused. Fields are only added. See docs/cli.md, \"The admin plane\"."
        },
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas
        },
        "security": [{}, { "token": [] }],
        "paths": paths
    })
}

fn place() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/admin-api.json")
}

#[test]
fn the_openapi_document_is_that_of_the_admin_api() {
    let made = format!("{:#}\n", document());
    if std::env::var_os("LOLIGO_UPDATE").is_some() {
        std::fs::write(place(), &made).expect("it can be written");
    }
    let there = std::fs::read_to_string(place()).expect("the document is there");
    let line = there.lines().zip(made.lines()).position(|(there, made)| there != made);
    assert!(
        there == made,
        "docs/formats/admin-api.json differs from line {} on: LOLIGO_UPDATE=1 cargo test -p loligo-cli admin_api writes it anew",
        output::human_count(line.unwrap_or(0) as u64 + 1)
    );
}

#[test]
fn each_route_of_the_admin_api_is_in_the_openapi_document_and_no_other() {
    let sources =
        [include_str!("auth.rs"), include_str!("balancer.rs"), include_str!("pages.rs"), include_str!("snapshot.rs")];
    let mut served = BTreeSet::new();
    for part in sources.iter().flat_map(|text| text.split(".route(\"").skip(1)) {
        let (path, rest) = part.split_once("\", ").expect("a path and a handler");
        let method = rest.split('(').next().expect("a method");
        assert!(matches!(method, "get" | "post"), "{path}: {method}");
        served.insert((method.to_string(), path.to_string()));
    }
    let listed: BTreeSet<(String, String)> =
        routes(&mut Schemas::new()).iter().map(|route| (route.method.to_string(), route.path.to_string())).collect();
    assert_eq!(listed, served);
}

#[test]
fn each_schema_that_the_openapi_document_refers_to_is_in_it() {
    let document = document();
    let text = document.to_string();
    let named = text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
    for name in named.collect::<BTreeSet<_>>() {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}
