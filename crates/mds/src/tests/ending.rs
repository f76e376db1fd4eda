//! Sessions that end where clients read and write file data in the store by themselves: what they held is nobody's before nothing of
//! them can take effect any more.

use std::sync::Arc;

use loligo_types::msg::{Reclaim, ToClient, ToServer};
use loligo_types::{Answer, Control, FsError, Ino, Op, Seq, SessionId};

use super::*;
use crate::{Config, Identity, Input, Peer};

const ADDRESS: &[u8] = b"10.0.0.7:0/12";

fn direct() -> Config {
    Config { direct: Some("rados:p/n.data".into()), ..config() }
}

fn tell(world: &mut World, at: usize, address: &[u8]) -> Result<Answer, FsError> {
    world.call(at, Op::Control(Control::DataAddress { address: address.into() }))
}

/// The second client writes a file and has told its address; the first one, which obeys, wants to open the file.
struct Wanted {
    world: World,
    a: usize,
    b: usize,
    dead: SessionId,
    ino: Ino,
    open: Seq,
}

fn wanted_with(config: Config, peer: Peer) -> Wanted {
    let mut world = World::with(config);
    let a = world.client();
    let b = world.client_from_afar(peer);
    tell(&mut world, b, ADDRESS).expect("the store has clients");
    let ino = world.create(b, Ino::ROOT, "f", WRITE, 1).ino;
    world.clients[b].obeys = false;
    let open = world.send(a, Op::Open { ino, flags: WRITE, handle: 1 });
    let dead = world.session(b);
    Wanted { world, a, b, dead, ino, open }
}

fn network() -> Peer {
    Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: None }
}

fn wanted() -> Wanted {
    wanted_with(direct(), network())
}

impl Wanted {
    fn answered(&mut self) -> bool {
        self.world.reply(self.a, self.open).is_some_and(|(result, _)| result.is_ok())
    }

    /// The session ends, and the file is opened only when neither the object server nor the store takes anything of it.
    fn ends(mut self, what: &str) {
        let addresses = vec![Box::from(ADDRESS)];
        assert_eq!(self.world.shut_out, [(self.dead, addresses)], "{what}");
        assert!(!self.answered(), "{what}: the store may take a late write");
        let status = self.world.mds.status();
        let shown: Vec<_> = status.sessions.iter().map(|s| (s.id == self.dead, s.direct, s.ending)).collect();
        assert!(shown.contains(&(true, true, true)) && shown.contains(&(false, false, false)), "{what}: {shown:?}");
        self.world.input(Input::ShutOut { session: self.dead });
        assert!(!self.answered(), "{what}: the object server executes one");
        self.world.input(Input::Fenced { session: self.dead });
        assert!(self.answered(), "{what}");
        assert_eq!(self.world.mds.status().sessions.len(), 1, "{what}");
    }
}

#[test]
fn however_a_session_ends_its_rights_are_others_only_when_nothing_can_come_of_it() {
    let mut silent = wanted();
    silent.world.clients[silent.b].closed = true;
    silent.world.wait_alive(2000);
    assert!(silent.world.clients[silent.b].inbox.iter().any(|msg| matches!(msg, ToClient::Evicted)));
    silent.ends("silent too long");

    let mut disobedient = wanted_with(Config { recall_ms: 100, ..direct() }, network());
    disobedient.world.wait_alive(3000);
    disobedient.ends("disobedient");

    let mut dead = wanted();
    dead.world.disconnect(dead.b);
    let session = dead.dead;
    dead.world.input(Input::PeerDead { session });
    dead.ends("its process is dead");

    let identity = Identity { key: [7; 32], name: "x".into(), rights: crate::Rights::everywhere(true) };
    let mut revoked = wanted_with(direct(), Peer { identity: Some(Arc::new(identity)), ..network() });
    revoked.world.input(Input::Identities(Arc::default()));
    revoked.ends("revoked");

    let mut local = wanted_with(direct(), Peer { uid: Some(0), local: true, ..network() });
    local.world.disconnect(local.b);
    local.ends("lived in this process");
}

/// A session that waited would be a writer by the next tick, and nobody would drop it any more.
#[test]
fn who_waited_for_the_file_gets_it_when_what_the_dead_one_left_is_dropped() {
    let mut wanted = wanted();
    let (dead, ino) = (wanted.dead, wanted.ino);
    wanted.world.disconnect(wanted.b);
    wanted.world.discards = false;
    for input in [Input::PeerDead { session: dead }, Input::ShutOut { session: dead }, Input::Fenced { session: dead }]
    {
        wanted.world.input(input);
    }
    assert_eq!(Vec::from(wanted.world.pending_discards.clone()), [(ino, 0)], "it may have moved it to objects");
    assert!(!wanted.answered());
    wanted.world.discards = true;
    wanted.world.pump();
    assert!(wanted.answered());
}

#[test]
fn who_says_goodbye_has_nothing_under_way() {
    let mut wanted = wanted();
    wanted.world.message(wanted.b, ToServer::Goodbye { gone: false });
    assert!(wanted.answered());
    assert!(wanted.world.shut_out.is_empty());
}

#[test]
fn a_session_that_ends_cannot_be_gone_on_with_and_its_client_gets_another_one() {
    let mut wanted = wanted();
    wanted.world.disconnect(wanted.b);
    wanted.world.input(Input::PeerDead { session: wanted.dead });
    let before = wanted.dead;
    wanted.world.resume(wanted.b);
    let welcome = wanted.world.clients[wanted.b].welcome.clone().expect("it may come in");
    assert!(!welcome.resumed && welcome.session != before);
    assert!(!wanted.answered(), "the new one has nothing to do with what the old one held");
    assert_eq!(wanted.world.mds.status().sessions.len(), 3);
    let open = wanted.world.send(wanted.b, Op::GetAttr { ino: Ino::ROOT });
    assert!(wanted.world.reply(wanted.b, open).is_some());
    wanted.world.input(Input::Fenced { session: before });
    wanted.world.input(Input::ShutOut { session: before });
    assert!(wanted.answered());
}

#[test]
fn after_a_restart_whoever_does_not_come_back_is_shut_out_before_anybody_acts() {
    let mut wanted = wanted();
    wanted.world.disconnect(wanted.b);
    wanted.world.input(Input::PeerDead { session: wanted.dead });
    assert_eq!(wanted.world.shut_out.len(), 1);
    // The server dies before the store has said that it refuses the client.
    wanted.world.shut_out.clear();
    wanted.world.crash();
    wanted.world.resume(wanted.a);
    wanted.world.reclaim(wanted.a, Reclaim::default());
    let make = wanted.world.send(wanted.a, mkdir(Ino::ROOT, "d"));
    wanted.world.wait_alive(5000);
    assert_eq!(wanted.world.shut_out, [(wanted.dead, vec![Box::from(ADDRESS)])], "the journal knows its address");
    assert_eq!(wanted.world.reply(wanted.a, make), None, "what it held is known to nobody: nobody may act");
    wanted.world.input(Input::Fenced { session: wanted.dead });
    wanted.world.input(Input::ShutOut { session: wanted.dead });
    assert!(wanted.world.reply(wanted.a, make).is_some_and(|(result, _)| result.is_ok()));
    assert!(wanted.world.mds.status().grace.is_none());
}

#[test]
fn who_has_told_no_address_is_waited_for_at_the_object_server_only() {
    let mut world = World::with(direct());
    let (a, b) = (world.client(), world.client());
    let ino = world.create(b, Ino::ROOT, "f", WRITE, 1).ino;
    world.clients[b].obeys = false;
    let (open, dead) = (world.send(a, Op::Open { ino, flags: WRITE, handle: 1 }), world.session(b));
    world.disconnect(b);
    world.input(Input::PeerDead { session: dead });
    assert_eq!(world.reply(a, open), None);
    world.input(Input::Fenced { session: dead });
    assert!(world.reply(a, open).is_some());
    assert!(world.shut_out.is_empty());
}

#[test]
fn addresses_are_taken_of_those_who_may_name_them() {
    let mut world = World::new();
    let a = world.client_from_afar(network());
    assert_eq!(tell(&mut world, a, ADDRESS), Err(FsError::NotSupported), "the store has no clients");
    let mut world = World::with(direct());
    let a = world.client_from_afar(network());
    assert!(world.clients[a].welcome.as_ref().is_some_and(|welcome| welcome.direct == "rados:p/n.data"));
    assert_eq!(tell(&mut world, a, b""), Err(FsError::NotSupported));
    let user = Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let b = world.client_from_afar(user);
    world.clients[b].uid = 1000;
    assert_eq!(tell(&mut world, b, ADDRESS), Err(FsError::NotAuthorized), "it might name a server's");
    let identity = Identity { key: [7; 32], name: "x".into(), rights: crate::Rights::everywhere(false) };
    let c = world.client_from_afar(Peer { identity: Some(Arc::new(identity)), ..network() });
    tell(&mut world, c, ADDRESS).expect("it reads");
    let session = world.session(c);
    world.disconnect(c);
    world.input(Input::PeerDead { session });
    assert!(world.shut_out.is_empty(), "its key cannot write");
    let d = world.client_from_afar(super::paths::limited(&["rw:/d"]));
    assert!(world.clients[d].welcome.as_ref().is_some_and(|welcome| welcome.direct.is_empty()));
    assert_eq!(tell(&mut world, d, ADDRESS), Err(FsError::NotSupported), "the store does not ask about paths");
    tell(&mut world, a, ADDRESS).expect("it may");
    tell(&mut world, a, b"10.0.0.7:0/13").expect("it has made another connection");
    let session = world.session(a);
    world.disconnect(a);
    world.input(Input::PeerDead { session });
    let both = vec![Box::from(ADDRESS), Box::from(&b"10.0.0.7:0/13"[..])];
    assert_eq!(world.shut_out, [(session, both)]);
}

/// Nothing orders what a client writes in the store with a drop that a crash repeats; so it is answered only when it is not repeated.
#[test]
fn a_cut_is_answered_when_its_drop_is_known_to_be_done() {
    let mut world = World::with(direct());
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.call(a, set_data(ino, 1, 0, 10_000_000, true)).expect("it is open");
    (world.discards, world.syncs) = (false, false);
    let cut = world.send(a, truncate(ino, 1));
    world.sync();
    world.pump();
    world.discard_one();
    world.pump();
    assert_eq!(world.reply(a, cut), None, "that it is done is not durable");
    world.sync();
    world.pump();
    assert!(world.reply(a, cut).is_some_and(|(result, _)| result.is_ok()));
}
