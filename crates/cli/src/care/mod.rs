//! Commands that look after a file system that is not served: check and repair it, carry it as text or to another store,
//! look into its journals, and mend them. And to the store below it, served or not.

pub mod copy;
pub mod dump;
pub mod fsck;
pub mod journal;
pub mod load;
pub mod store;

mod looked;
mod objects;
mod offline;
mod places;
mod text;
