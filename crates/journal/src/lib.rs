//! Record and segment bytes, the writer and the reader: what makes an acknowledged change last.
//!
//! All of it is pure: bytes go in and come out, and whoever holds the files (the driver, the simulator, the journal
//! tool) moves them. What is *not* here: files and syncs (`store`), when to checkpoint and when to answer (`mds`).
//!
//! - [`codec`]: events to bytes and back, the body of a record.
//! - [`table`]: keys and values of checkpointed metadata, made of the same codec.
//! - [`segment`], [`frame`]: the bytes around records.
//! - [`data`]: which bytes of files the journal has and their objects may not.
//! - [`inline`]: changes of data held in inodes, logged in short and read whole.
//! - [`Writer`]: group commit. [`Reader`]: recovery. [`inspect`]: both for a person to look at.
//! - [`file`]: a journal as one file, to carry it elsewhere. [`Filter`]: which records are meant. [`diff`]: what two journals do not share.
//!
//! The layouts are drawn byte by byte in `docs/formats/journal.md`, `journal-file.md`, `event.md` and `table.md`.

#[cfg(test)]
mod arbitrary;
pub mod codec;
pub mod data;
pub mod diff;
pub mod file;
pub mod filter;
pub mod frame;
pub mod inline;
pub mod inspect;
pub mod reader;
pub mod segment;
pub mod table;
pub mod writer;

pub use codec::{DecodeError, Record, decode_record, encode_record, view_record};
pub use data::{DataLog, DataRecord};
pub use file::{FileError, FileHeader, FileReader, FileWriter, Owner};
pub use filter::Filter;
pub use inline::{InlineLog, PatchError, Shortener};
pub use reader::{MemSource, RawRecord, ReadConfig, ReadError, Reader, Source, Synced, Tail, Torn};
pub use segment::{FsId, SegmentHeader, SegmentInfo};
pub use writer::{AppendError, Batch, Outstanding, Writer, WriterConfig};
