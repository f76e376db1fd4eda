//! Clients that reach file data in the store by themselves, and hold files that move.

use loligo_types::{Answer, Control, Op, RankState};

use super::*;
use crate::Config;

#[test]
fn whoever_gets_a_file_knows_by_what_the_store_knows_the_client_that_holds_it() {
    let change = |config| Config { direct: Some("rados:p/n.data".into()), ..config };
    let (mut cluster, a, here, _) = here_and_there(Cluster::with_settings(&[RankState::Up; 2], change));
    let file = cluster.touch(a, here, "f");
    let address: Box<[u8]> = b"10.0.0.7:0/12"[..].into();
    let told = cluster.ask(a, 0, Op::Control(Control::DataAddress { address: address[..].into() }));
    assert!(matches!(told, Outcome::Answered(Ok(Answer::Done))), "{told:?}");
    let opened = cluster.ask(a, 0, Op::Open { ino: file, flags: WRITE, handle: 1 });
    assert!(matches!(opened, Outcome::Answered(Ok(_))), "{opened:?}");
    cluster.migrate(here, 0, 1);
    // It writes the file in the store while it has not heard of the move, and the second rank hears nothing of it.
    let session = cluster.world(1).session(a);
    cluster.at(1, |world| {
        let slot = world.mds.sessions.find(session).expect("it has a session");
        world.mds.evict_session(slot);
    });
    assert_eq!(cluster.world(1).shut_out, [(session, vec![address])]);
    // And so does whoever takes over from that.
    cluster.at(1, |world| world.shut_out.clear());
    cluster.kill(1);
    cluster.start(1);
    for _ in 0..100 {
        cluster.wait(100);
    }
    assert_eq!(cluster.world(1).shut_out.len(), 1);
}
