//! Commands that look after a file system that is not served: check and repair it, carry it as text or to another store,
//! look into its journal. And to the store below it, served or not.

pub mod copy;
pub mod dump;
pub mod fsck;
pub mod journal;
pub mod load;
pub mod store;

mod objects;
mod offline;
mod places;
mod text;
