//! Starts a server on a store that several share. Not here: which ranks it runs from then on (`rank_placement.rs`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use loligo_rows::read_head;
use loligo_store::{Batch, Durability, ServerFlags, Servers, StoreError};
use loligo_types::Rank;

use super::auth::Auth;
use super::error::{Result, ServerError};
use super::members::Members;
use super::membership::{MembershipEvent, MembershipThread, Seats};
use super::peers::Peers;
use super::policy::{Notes, put_default, settle};
use super::rank_placement::RankPlacement;
use super::recover::Progress;
use super::start::spawn;
use super::{Ended, Server, ServerConfig};
use crate::Address;

/// Starts a server on a store that several share. If it leads, it runs at once what no other one has.
pub(super) fn join_servers(
    mut config: ServerConfig,
    servers: Arc<dyn Servers>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Server> {
    let begun = Instant::now();
    let backend = config.backend.clone();
    if !config.elsewhere.is_empty() {
        let text = "which server runs which rank is ordered while they run: loligo rank handover RANK";
        return Err(ServerError::Refused(text.into()));
    }
    let table = backend.table();
    let head = read_head(&*table, Rank::ZERO)?;
    let auth = Auth::open(&*backend)?;
    config.auth = Some(auth.clone());
    let (to_keeper, news) = channel();
    let seats: Seats = Arc::default();
    let identity = (backend.identity().fs_id, servers.me(), servers.key()?);
    let peers = Peers::start(identity, &peer_address(&config)?, seats.clone(), to_keeper.clone())?;
    let flags = ServerFlags { shares: config.sharing.takes_share, stops: false };
    servers.announce(&peers.at().to_string(), flags)?;
    let (ended, resident_at) = (Arc::new(Ended::default()), Arc::<Mutex<Option<Rank>>>::default());
    let placing = RankPlacement::new(servers.clone(), peers.clone(), flags);
    let view = placing.view.clone();
    let (ranks, must_lead) = (config.ranks, config.sharing.must_lead);
    let addresses = config.listen.clone();
    let by_default = config.default_policy.clone();
    let mut keeper = MembershipThread {
        config,
        members: Members::read(&*table, head.ranks)?,
        data_epoch: head.data_epoch,
        begun,
        seats: seats.clone(),
        running: BTreeMap::new(),
        unstopped: Arc::default(),
        news,
        to_self: to_keeper.clone(),
        ended: ended.clone(),
        waiting: BTreeMap::new(),
        is_stopping: false,
        door_at: Rank::ZERO,
        resident_at: resident_at.clone(),
        log_lines: 0,
        hub: None,
        search: None,
        placing: Some(placing),
    };
    let begun = if servers.lead(must_lead)? {
        keeper.begin_to_lead(&servers.look()?).and_then(|()| {
            let notes = Notes::new(table.clone());
            keeper.members.fill(ranks)?;
            keeper.members.epoch += u64::from(!keeper.members.is_single());
            let by_default = settle(&notes, &by_default, &mut keeper.members)?;
            let mut batch = Batch::new();
            keeper.members.put(&mut batch, None);
            by_default.map_or(Ok(()), |one| put_default(&notes, &mut batch, &one))?;
            table.write(&batch, Durability::Sync)?;
            keeper.begin_all(progress)
        })
    } else if must_lead {
        let sight = servers.look()?;
        let leader = sight.leader.and_then(|leader| Some(sight.servers.get(&leader)?.name.clone()));
        let dir = "the file system".to_owned();
        Err(StoreError::InUse { dir, owner: leader.unwrap_or_else(|| "another server".into()) }.into())
    } else {
        keeper.look_around()
    };
    let supervisor = match begun {
        Ok(()) => spawn("loligo-server", move || keeper.run())?,
        Err(error) => {
            // The ranks that run have what they have in their journals.
            let _ = to_keeper.send(MembershipEvent::Abandon);
            let _ = to_keeper.send(MembershipEvent::Stop);
            let _ = keeper.run();
            return Err(error);
        }
    };
    let (supervisor, keeper) = (Mutex::new(Some(supervisor)), Mutex::new(to_keeper));
    let (hub, has_joined, view, peers) = (None, false, Some(view), Some(peers));
    let _watch = Some(auth.begin_to_watch(&seats)?);
    Ok(Server {
        backend,
        addresses,
        seats,
        auth,
        _watch,
        hub,
        has_joined,
        view,
        peers,
        keeper,
        resident_at,
        supervisor,
        ended,
    })
}

/// Where other servers reach this one, if nothing is said: where clients do, at another port. It is told to them as it is, so it has to be
/// one address and not all.
fn peer_address(config: &ServerConfig) -> Result<String> {
    if let Some(at) = &config.sharing.at {
        if is_all(at) {
            let text = format!(
                "other servers cannot be told to reach this one at {at}: name the address of this machine (peer_listen=HOST:PORT)"
            );
            return Err(ServerError::Refused(text));
        }
        return Ok(at.clone());
    }
    let tcp = config.listen.iter().find_map(|address| match address {
        Address::Tcp(at) if !is_all(at) => at.rsplit_once(':').map(|(host, _)| format!("{host}:0")),
        _ => None,
    });
    Ok(tcp.unwrap_or_else(|| "127.0.0.1:0".into()))
}

/// True if that is the address of all interfaces.
fn is_all(at: &str) -> bool {
    at.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use loligo_store::Identity;
    use loligo_store::mem::MemDisk;

    use super::*;
    use crate::server::Sharing;

    #[test]
    fn other_servers_are_told_one_address_of_this_machine() {
        let backend = MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("memory opens");
        let config = |listen: &[&str], at: Option<&str>| ServerConfig {
            listen: listen.iter().map(|at| at.parse().expect("an address")).collect(),
            sharing: Sharing { at: at.map(str::to_string), ..Sharing::default() },
            ..ServerConfig::new(backend.clone())
        };
        let told = |listen: &[&str], at| peer_address(&config(listen, at)).ok();
        assert_eq!(told(&["/d/a", "10.0.0.1:7400"], None).as_deref(), Some("10.0.0.1:0"));
        assert_eq!(told(&["10.0.0.1:7400"], Some("10.0.0.1:7399")).as_deref(), Some("10.0.0.1:7399"));
        for all in ["0.0.0.0:7400", "[::]:7400"] {
            assert_eq!(told(&[all], None).as_deref(), Some("127.0.0.1:0"));
            assert_eq!(told(&[], Some(all)), None);
        }
    }
}
