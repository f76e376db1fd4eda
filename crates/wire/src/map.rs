//! The cluster map and the subtree map, to protobuf and back with every check.

use loligo_types::limits::{ADDRESS_MAX, RANKS_MAX, ROUTES_MAX};
use loligo_types::{ClusterMap, Frag, Ino, PolicyId, Rank, RankInfo, RankState, Route};

use crate::common::limit;
use crate::{DecodeError, proto};

type Result<T> = std::result::Result<T, DecodeError>;

pub(crate) fn to_rank(rank: Rank) -> u32 {
    u32::from(rank.0)
}

pub(crate) fn rank(number: u32) -> Result<Rank> {
    u16::try_from(number).map(Rank).map_err(|_| DecodeError::Invalid("rank"))
}

pub(crate) fn to_routes(routes: &[Route]) -> Vec<proto::Route> {
    let to_route = |route: &Route| proto::Route {
        dir: route.dir.0,
        frag_bits: u32::from(route.frag.bits),
        frag_value: route.frag.value,
        rank: to_rank(route.rank),
        version: route.version,
    };
    routes.iter().map(to_route).collect()
}

pub(crate) fn routes(routes: Vec<proto::Route>) -> Result<Vec<Route>> {
    limit(routes.len(), ROUTES_MAX, "routes")?;
    routes.into_iter().map(route).collect()
}

fn route(m: proto::Route) -> Result<Route> {
    let frag = u8::try_from(m.frag_bits).ok().and_then(|bits| Frag::new(bits, m.frag_value));
    Ok(Route {
        dir: Ino(m.dir),
        frag: frag.ok_or(DecodeError::Invalid("fragment"))?,
        rank: rank(m.rank)?,
        version: m.version,
    })
}

/// As clients are told: without the policy, which is the ranks' matter.
pub(crate) fn to_map(map: &ClusterMap) -> proto::ClusterMap {
    let to_info = |info: &RankInfo| proto::RankInfo {
        rank: to_rank(info.rank),
        address: info.address.clone(),
        state: info.state as i32,
    };
    proto::ClusterMap { epoch: map.epoch, ranks: map.ranks.iter().map(to_info).collect() }
}

pub(crate) fn map(m: proto::ClusterMap) -> Result<ClusterMap> {
    limit(m.ranks.len(), RANKS_MAX, "ranks")?;
    let ranks = m.ranks.into_iter().map(info).collect::<Result<Vec<_>>>()?;
    if !ranks.is_sorted_by(|a, b| a.rank < b.rank) {
        return Err(DecodeError::Invalid("order of ranks"));
    }
    Ok(ClusterMap { epoch: m.epoch, ranks, policy: PolicyId::NONE })
}

fn info(m: proto::RankInfo) -> Result<RankInfo> {
    limit(m.address.len(), ADDRESS_MAX, "bytes of a rank's address")?;
    let state = match m.state {
        1 => RankState::Up,
        2 => RankState::Draining,
        3 => RankState::Leaving,
        _ => return Err(DecodeError::Invalid("state of a rank")),
    };
    Ok(RankInfo { rank: rank(m.rank)?, address: m.address, state })
}
