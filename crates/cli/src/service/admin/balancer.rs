//! The balancer as JSON and as orders: which policy is in force, what was, what each rank's last ticks were. The documents
//! and their pages; what they say comes from the server.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loligo_driver::{Advised, InForce, LogLine, ServerError, Tick, Version, policy_before};
use loligo_types::{PolicyId, Rank};
use serde::{Deserialize, Serialize};

use super::others::UnreachedDoc;
use super::{Source, all, pages};

/// Lines of the log that are shown at most.
const LINES_MAX: usize = 10_000;
/// Ticks in a row without an answer that are shown as a trouble; one may be late.
const SILENT_MIN: u64 = 3;

/// A version of a policy. Fields are only added.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct VersionDoc {
    /// Its number among all.
    pub policy: u32,
    /// Name of the policy.
    pub name: String,
    /// Its number among those of this name.
    pub version: u32,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

/// One change of the policy in force.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct InForceDoc {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// 0: none.
    pub policy: u32,
    /// For directories that name this policy; none: for the file system.
    #[serde(default)]
    pub name: Option<String>,
    /// The user who asked for it, or the fault that caused it.
    pub why: String,
    /// The one before was given up because it failed.
    pub failed: bool,
}

/// State of a policy at the last tick of a rank.
#[derive(Clone, Serialize, Deserialize, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct AdvisedDoc {
    /// As directories name it; none: it is that of the file system.
    pub name: Option<String>,
    /// Which version; 0: there is none of that name.
    pub policy: u32,
    /// Faults in a row up to now.
    pub streak: u32,
    /// Why it failed.
    pub fault: Option<String>,
    /// Moves that it wanted.
    pub moves: usize,
}

/// Which version directories mean that name a policy.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct NamedDoc {
    /// The name.
    pub name: String,
    /// Its number among all; 0: none, all have failed.
    pub policy: u32,
    /// Those that were given up because they failed.
    pub failed: Vec<u32>,
}

/// State of a rank's balancer.
#[derive(Clone, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RankBalanceDoc {
    /// Which.
    pub rank: u16,
    /// The policy that it has.
    pub policy: u32,
    /// Ticks in this life.
    pub ticks: u64,
    /// Moves that were begun.
    pub moves: u64,
    /// Moves that could not be.
    pub refused: u64,
    /// Ticks without an answer in time.
    pub unanswered: u64,
    /// The same, in a row up to now.
    #[serde(default)]
    pub silent: u64,
    /// Ticks that failed.
    pub faults: u64,
    /// Why that of the file system did at the last one.
    pub fault: Option<String>,
    /// All that were asked at the last one.
    #[serde(default)]
    pub policies: Vec<AdvisedDoc>,
    /// Time of the last decision, microseconds.
    pub took_us: u64,
    /// Own load, as the policy weighs it: of what it has authority over, and with what it does besides.
    pub auth: f64,
    /// With what it does besides.
    pub all: f64,
}

/// All of it.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct BalancerDoc {
    /// The policy in force for the file system; none: only what names one is balanced.
    pub in_force: Option<VersionDoc>,
    /// It was chosen, also if that is none; else it is the default.
    #[serde(default)]
    pub chosen: bool,
    /// Default policy with more than one rank as long as nobody has chosen: a policy that comes with Loligo, or `none`.
    #[serde(default)]
    pub default: String,
    /// Policies that directories name, as far as somebody has asked.
    #[serde(default)]
    pub named: Vec<NamedDoc>,
    /// All ranks that answer.
    pub ranks: Vec<RankBalanceDoc>,
    /// Those who do not.
    #[serde(default)]
    pub unreached: Vec<UnreachedDoc>,
    /// All versions.
    pub versions: Vec<VersionDoc>,
    /// Changes of the policy in force, the last of them last.
    pub history: Vec<InForceDoc>,
    /// The policy that a rollback puts in force, 0: none; nothing: there is nothing to go back to.
    #[serde(default)]
    pub before: Option<u32>,
}

/// Policy in force for the file system, by name.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct NowDoc {
    /// Which; none: nothing is balanced but what names a policy.
    pub policy: Option<VersionDoc>,
    /// It was chosen, also if that is none; else it is the default.
    pub chosen: bool,
}

/// The text of a version.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TextDoc {
    /// Which.
    pub version: VersionDoc,
    /// As it was set.
    pub text: String,
}

/// A line of the log.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct LineDoc {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Rank that logged it; none: the keeper of the cluster map.
    pub rank: Option<u16>,
    /// Text of the line.
    pub text: String,
}

/// A tick of a rank's balancer.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TickDoc {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Its number.
    pub tick: u64,
    /// By which policy.
    pub policy: u32,
    /// As directories name it; none: it is that of the file system.
    #[serde(default)]
    pub name: Option<String>,
    /// Input and answer of each hook.
    pub lines: Vec<String>,
    /// Moves that were wanted.
    pub moves: usize,
    /// The policy's fault in this tick.
    pub fault: Option<String>,
    /// Time of the decision, microseconds.
    pub took_us: u64,
}

fn version_doc(version: &Version) -> VersionDoc {
    let Version { id, name, number, at_ms, .. } = version;
    VersionDoc { policy: id.0, name: name.clone(), version: *number, at_ms: *at_ms }
}

fn in_force_doc(one: InForce) -> InForceDoc {
    InForceDoc { at_ms: one.at_ms, policy: one.policy.0, name: one.name, why: one.why, failed: one.failed }
}

fn advised_doc(one: &Advised) -> AdvisedDoc {
    let Advised { name, policy, streak, fault, moves } = one.clone();
    AdvisedDoc { name, policy: policy.0, streak, fault, moves }
}

fn line_doc(line: LogLine) -> LineDoc {
    LineDoc { at_ms: line.at_ms, rank: line.rank.map(|rank| rank.0), text: line.text }
}

fn tick_doc(tick: Tick) -> TickDoc {
    let Tick { at_ms, tick, policy, name, lines, moves, fault, took_us } = tick;
    TickDoc { at_ms, tick, policy: policy.0, name, lines, moves, fault, took_us }
}

/// Of the rank's.
pub fn rank_doc(rank: &loligo_driver::RankStatus) -> RankBalanceDoc {
    let (balance, advice) = (&rank.mds.balance, &rank.advice);
    // What was asked once and is not any more says nothing.
    let is_asked = |one: &&Advised| balance.asks && (one.name.is_some() || balance.policy != PolicyId::NONE);
    let policies: Vec<AdvisedDoc> = advice.policies.iter().filter(is_asked).map(advised_doc).collect();
    RankBalanceDoc {
        rank: rank.rank.0,
        policy: balance.policy.0,
        ticks: balance.ticks,
        moves: balance.moves,
        refused: balance.refused,
        unanswered: balance.unanswered,
        silent: balance.silent,
        faults: advice.faults,
        fault: policies.iter().find(|one| one.name.is_none()).and_then(|one| one.fault.clone()),
        policies,
        took_us: advice.took_us,
        auth: balance.weighed.auth,
        all: balance.weighed.all,
    }
}

/// Trouble with the balancer of a rank, and its remedy.
pub fn trouble(rank: &loligo_driver::RankStatus) -> Option<String> {
    trouble_of(&rank_doc(rank))
}

fn trouble_of(doc: &RankBalanceDoc) -> Option<String> {
    if let Some(fault) = &doc.fault {
        return Some(format!(
            "the balancer's policy fails, so nothing is balanced: {fault} (see loligo balancer explain)"
        ));
    }
    let mut named = doc.policies.iter().filter_map(|one| Some((one.name.as_ref()?, one.fault.as_ref()?)));
    if let Some((name, fault)) = named.next() {
        return Some(format!(
            "the policy {name}, which directories name, fails, so these are not balanced: {fault} (see loligo balancer explain)"
        ));
    }
    (doc.silent >= SILENT_MIN).then(|| {
        format!(
            "the balancer's policy has not answered for {} ticks, so nothing is balanced: the table may not answer, or the \
             processors have no time left (see loligo balancer explain)",
            doc.silent
        )
    })
}

/// States of ranks' balancers, and the processes that did not answer.
type RanksSaid = (Vec<RankBalanceDoc>, Vec<UnreachedDoc>);

impl Source {
    /// Policy in force, for the status of all; `None` if the table does not say.
    pub fn policy_now(&self, policy: PolicyId) -> Option<NowDoc> {
        let version = self.server.policy(policy).ok()?;
        Some(NowDoc { policy: version.as_ref().map(version_doc), chosen: self.server.is_policy_chosen().ok()? })
    }

    /// `ranks`: how they do.
    fn balancer_doc(&self, (ranks, unreached): RanksSaid) -> Result<BalancerDoc, ServerError> {
        let versions = self.server.policies()?;
        let history = self.server.policy_history()?;
        let now = history.iter().rfind(|one| one.name.is_none()).map_or(0, |last| last.policy.0);
        let before = policy_before(&history, PolicyId(now)).map(|policy| policy.0);
        let history: Vec<InForceDoc> = history.into_iter().map(in_force_doc).collect();
        let in_force = versions.iter().find(|version| version.id.0 == now).map(version_doc);
        let named = self.server.named_policies()?.into_iter().map(|(name, named)| NamedDoc {
            name,
            policy: named.now.0,
            failed: named.failed.iter().map(|id| id.0).collect(),
        });
        let (versions, named) = (versions.iter().map(version_doc).collect(), named.collect());
        let (chosen, default) = (self.server.is_policy_chosen()?, self.settings.text("balancer").to_string());
        Ok(BalancerDoc { in_force, chosen, default, named, ranks, unreached, versions, history, before })
    }

    /// The last ticks of a rank of this process.
    fn tick_docs(&self, rank: Rank) -> Result<Vec<TickDoc>, ServerError> {
        Ok(self.server.balancer_ticks(rank)?.into_iter().map(tick_doc).collect())
    }

    fn policy_text(&self, policy: u32) -> Result<TextDoc, ServerError> {
        let all = self.server.policies()?;
        let version = all.into_iter().find(|version| version.id.0 == policy);
        let version = version.ok_or_else(|| ServerError::Refused(format!("there is no policy {policy}")))?;
        Ok(TextDoc { version: version_doc(&version), text: version.text })
    }
}

/// Pages that anybody may look at.
pub fn pages() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/v1/balancer", get(|State(source)| done(source, |_| Ok(()))))
        .route("/api/v1/balancer/text/{policy}", get(text))
        .route("/api/v1/balancer/log/{lines}", get(log))
        .route("/api/v1/balancer/ticks/{rank}", get(ticks))
}

/// Orders that only the owner may give, at the server that leads.
pub fn orders() -> Router<Arc<Source>> {
    Router::new()
        .route("/api/v1/balancer/set/{name}", post(set))
        .route("/api/v1/balancer/add/{name}", post(add))
        .route("/api/v1/balancer/none", post(none))
        .route("/api/v1/balancer/unset", post(unset))
        .route("/api/v1/balancer/rollback", post(roll_back))
}

/// Asks the server on a thread where waiting is allowed.
async fn answer<T: Serialize + Send + 'static>(
    source: Arc<Source>,
    what: impl FnOnce(&Source) -> Result<T, ServerError> + Send + 'static,
) -> Response {
    match pages::ask(&source, what).await {
        Ok(doc) => Json(doc).into_response(),
        Err(response) => response,
    }
}

async fn text(State(source): State<Arc<Source>>, Path(policy): Path<u32>) -> Response {
    answer(source, move |source| source.policy_text(policy)).await
}

async fn log(State(source): State<Arc<Source>>, Path(lines): Path<usize>) -> Response {
    let look = move |source: &Source| {
        let lines = source.server.policy_log(lines.min(LINES_MAX))?;
        Ok(lines.into_iter().map(line_doc).collect::<Vec<_>>())
    };
    answer(source, look).await
}

async fn ticks(State(source): State<Arc<Source>>, Path(rank): Path<u16>) -> Response {
    if let Some(elsewhere) = all::of_rank(&source, Rank(rank), format!("/api/v1/balancer/ticks/{rank}")).await {
        return elsewhere;
    }
    answer(source, move |source| source.tick_docs(Rank(rank))).await
}

async fn set(State(source): State<Arc<Source>>, Path(name): Path<String>, body: String) -> Response {
    answer(source, move |source| source.server.set_policy(&name, &body).map(|version| version_doc(&version))).await
}

async fn add(State(source): State<Arc<Source>>, Path(name): Path<String>, body: String) -> Response {
    answer(source, move |source| source.server.add_policy(&name, &body).map(|version| version_doc(&version))).await
}

async fn none(State(source): State<Arc<Source>>) -> Response {
    done(source, |source| source.server.use_policy(PolicyId::NONE, "none")).await
}

async fn unset(State(source): State<Arc<Source>>) -> Response {
    done(source, |source| source.server.unset_policy()).await
}

async fn roll_back(State(source): State<Arc<Source>>) -> Response {
    done(source, |source| source.server.roll_back_policy().map(|_| ())).await
}

/// Carries something out, and shows how it is then.
async fn done(source: Arc<Source>, what: impl FnOnce(&Source) -> Result<(), ServerError> + Send + 'static) -> Response {
    if let Err(response) = pages::ask(&source, what).await {
        return response;
    }
    let said = match all::status(&source).await {
        Ok(status) => (status.ranks.into_iter().map(|rank| rank.balancer).collect(), status.unreached),
        Err(response) => return response,
    };
    answer(source, move |source| source.balancer_doc(said)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_fails_or_does_not_answer_any_more_is_told_as_a_trouble() {
        let doc = |silent, fault: Option<&str>| RankBalanceDoc {
            silent,
            unanswered: 9,
            fault: fault.map(str::to_string),
            ..RankBalanceDoc::default()
        };
        assert_eq!(trouble_of(&doc(2, None)), None, "what was long ago does not count");
        assert!(trouble_of(&doc(3, None)).is_some_and(|text| text.contains("not answered for 3 ticks")));
        assert!(trouble_of(&doc(0, Some("when: no"))).is_some_and(|text| text.contains("when: no")));
        let named = |fault: Option<&str>| AdvisedDoc {
            name: Some("mine".into()),
            policy: 3,
            streak: 1,
            fault: fault.map(str::to_string),
            moves: 0,
        };
        let of = |fault| RankBalanceDoc { policies: vec![named(fault)], ..doc(0, None) };
        assert_eq!(trouble_of(&of(None)), None);
        assert!(trouble_of(&of(Some("x"))).is_some_and(|text| text.contains("policy mine, which directories name")));
    }
}
