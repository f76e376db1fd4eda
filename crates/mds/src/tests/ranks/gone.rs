//! A client that ends while what it holds moves, or before it came where that is.

use loligo_types::Answer;
use loligo_types::msg::ToServer;

use super::*;
use crate::peer::PeerMsg;

/// Sessions that are in the way of others at a rank.
fn sessions(cluster: &Cluster, at: usize) -> usize {
    cluster.world(at).mds.status().sessions.len()
}

#[test]
fn what_a_client_held_that_ends_while_it_moves_or_before_it_came_where_it_is_is_free_at_once() {
    // How far the move is: the record is made, or also applied there.
    for (applied, gone) in [(false, true), (true, true), (true, false)] {
        let (mut cluster, a, here, _) = two_ranks();
        let before = sessions(&cluster, 1);
        let b = cluster.client_at(0);
        let outcome = cluster.ask(b, 0, create(here, "f", WRITE, 1));
        let Outcome::Answered(Ok(Answer::Opened { attr, .. })) = outcome else { panic!("{outcome:?}") };
        cluster.at(0, |world| world.clients[b].obeys = false);
        if applied {
            cluster.migrate(here, 0, 1);
            assert_eq!(sessions(&cluster, 1), before + 1);
        } else {
            cluster.hold(0, 1);
            let id = cluster.begin_move(here, 0, 1);
            cluster.deliver_until(0, 1, |msg| matches!(msg, PeerMsg::Letter { .. }));
            cluster.at(0, |world| world.message(b, ToServer::Goodbye { gone }));
            cluster.release();
            cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id) == "done");
        }
        if applied {
            cluster.at(0, |world| world.message(b, ToServer::Goodbye { gone }));
            cluster.run();
        }
        // One that only leaves a rank comes to the other one later.
        assert_eq!(sessions(&cluster, 1), before + usize::from(!gone), "applied: {applied}");
        if gone {
            let removed = cluster.send(a, 1, unlink(here, "f"));
            cluster.run();
            assert!(matches!(cluster.outcome(a, 1, removed), Some(Outcome::Answered(Ok(_)))), "nobody is waited for");
            assert!(!cluster.has(1, attr.ino), "nobody has it open");
        }
        cluster.finish();
    }
}
