//! Objects that are no file's, where there are several ranks.

use super::*;

#[test]
fn the_journal_of_a_decoupled_subtree_is_kept_at_the_rank_that_has_decoupled_it() {
    let mut world = Ranks::with_second();
    let ino = Ino(Ino::first_of(R1).0 + 7);
    let id = world.call(Call::Data { ino, op: DataOp::Sync });
    let wire = world.take();
    let [Wire::Data(R1, number, DataOp::Sync)] = wire[..] else { panic!("{wire:?}") };
    world.says(R1, ToClient::Data { id: number, result: Ok(DataAnswer::Done) });
    world.result(id).expect("that rank knows it");
    // It has said no, and nobody else would know better.
    let id = world.call(Call::Data { ino, op: DataOp::Sync });
    let wire = world.take();
    let [Wire::Data(R1, number, DataOp::Sync)] = wire[..] else { panic!("{wire:?}") };
    world.says(R1, ToClient::Data { id: number, result: Err(DataError::Stale) });
    assert_eq!(world.result(id).expect_err("it is not allowed any more").error, FsError::Stale);
    assert_eq!(world.take(), []);
}
