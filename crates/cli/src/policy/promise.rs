//! What a policy promises, and what of that holds now. Not here: the words for each level (crate `semantics`).

use loligo_semantics::{Cell, Consistency, Durability};

/// What it promises: who sees a change when, what survives which crash, and from when on that holds (thesis: the properties of
/// a cell hold only after all its mechanisms are done).
pub fn of(cell: Cell) -> Vec<&'static str> {
    let until = "Until the pipeline is done, a change is only in the memory of its client.";
    let until = (cell.consistency != Consistency::Strong).then_some(until);
    [cell.consistency.promise(), cell.durability.promise()].into_iter().chain(until).collect()
}

/// Why it is posix that holds now where the policy says something else; nothing where it says posix.
pub fn today(cell: Cell) -> Option<&'static str> {
    match cell {
        Cell { consistency: Consistency::Strong, durability: Durability::Global } => None,
        Cell { consistency: Consistency::Strong, .. } => {
            Some("It is given more than it asks for: the stronger promise of the default, strong/global.")
        }
        _ => Some(
            "This policy only permits the subtree to be decoupled. While it is not decoupled, its promises are those of posix, strong/global.",
        ),
    }
}
