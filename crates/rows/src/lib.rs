//! Events to table rows and back, over the store traits: the one place that writes checkpoints, reads the records that a rank
//! needs, and reads all that a rank needs when it starts. The driver, the simulator, the lab and the offline tools use it.
//!
//! Not here: threads, clocks, progress bars, retries (the driver's); the layout of a row (`journal::table`); what an event
//! means (`namespace`).
//!
//! | file | holds |
//! |---|---|
//! | [`write`] | an event as a change of its row; the batch of a checkpoint |
//! | [`first`] | the first rows of a file system |
//! | [`load`] | the rows that a [`Need`](loligo_namespace::Need) asks for |
//! | [`start`] | the single values and the small tables of a rank |
//! | [`replay`] | the records of a rank's journal |

pub mod error;
pub mod first;
pub mod load;
pub mod replay;
pub mod start;
pub mod write;

pub use error::{Error, Result, bad_row};
pub use first::{FirstRows, first_rows, put_finished};
pub use load::{Loader, Pieces, Rows};
pub use replay::{LogSource, Read, open_journal, replay, replay_of};
pub use start::{Head, check_layout, read_head, read_meta, read_routes, read_small, read_values, scan};
pub use write::{batch_of, put_event, put_meta};
