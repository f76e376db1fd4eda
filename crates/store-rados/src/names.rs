//! Names of objects. Names sort as their numbers do, because all have the same number of digits.

use loligo_store::ObjectId;

/// Object with the identity of the file system.
pub(crate) const IDENTITY: &str = "loligo";
/// Object with the owners of slots.
pub(crate) const SLOTS: &str = "slots";
/// Object with the intended owners, and the cluster map.
pub(crate) const SERVERS: &str = "servers";
/// Which range of the table begins where.
pub(crate) const INDEX: &str = "table";

/// A range of the table.
pub(crate) fn range(id: u64) -> String {
    format!("table.{id:x}")
}

/// A batch over several ranges that is under way.
pub(crate) fn batch(slot: &str) -> String {
    format!("batch.{slot}")
}

/// The segments that a rank's journal has.
pub(crate) fn log(rank: u32) -> String {
    format!("journal.{rank}")
}

/// A piece of one of them.
pub(crate) fn segment(rank: u32, id: u64, piece: u64) -> String {
    format!("journal.{rank}.{id:016x}.{piece:x}")
}

/// The ranks that have a journal.
pub(crate) const LOGS: &str = "journals";

/// A piece of a file's data.
pub(crate) fn object(id: ObjectId) -> String {
    format!("{:016x}.{:016x}", id.ino, id.index)
}

/// Object with the hints about all pieces of a file.
pub(crate) fn pieces(ino: u64) -> String {
    format!("{ino:016x}")
}

/// The piece that is called so; `None` for what is no piece.
pub(crate) fn parse_object(name: &str) -> Option<ObjectId> {
    let (ino, index) = name.split_once('.')?;
    if ino.len() != 16 || index.len() != 16 {
        return None;
    }
    Some(ObjectId::new(u64::from_str_radix(ino, 16).ok()?, u64::from_str_radix(index, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_piece_is_read_back_and_nothing_else_is_taken_for_one() {
        let id = ObjectId::new(0x1234, u64::MAX);
        assert_eq!(object(id), "0000000000001234.ffffffffffffffff");
        assert_eq!(parse_object(&object(id)), Some(id));
        for other in [pieces(5).as_str(), "table.5", "1.2", "000000000000123x.0000000000000000"] {
            assert_eq!(parse_object(other), None, "{other}");
        }
    }
}
