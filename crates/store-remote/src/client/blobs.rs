//! The objects of another process.

use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_store::{Blobs, Extent, ObjectId, Result, check_range};

use super::log::{copy, read_parts};
use super::{Shared, wrong_answer};
use crate::answer::Answer;
use crate::request::Request;

pub(super) struct RemoteBlobs(pub(super) Arc<Shared>);

impl Blobs for RemoteBlobs {
    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_parts(offset, buf, |offset, part| {
            let request = Request::Read { id, offset, len: part.len() as u32 };
            self.0.ask(&request, &mut |answer| copy(answer, part))
        })
    }

    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        // An empty write, too: the owner says whether that is an error.
        let mut at = offset;
        for data in data.chunks(super::READ_MAX).chain(data.is_empty().then_some(data)) {
            self.0.ask_done(&Request::WriteAt { id, offset: at, data })?;
            at += data.len() as u64;
        }
        Ok(())
    }

    fn write_logged(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        let mut at = offset;
        for data in data.chunks(super::READ_MAX) {
            self.0.ask_done(&Request::WriteLogged { id, offset: at, data })?;
            at += data.len() as u64;
        }
        Ok(())
    }

    fn spoil(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        self.0.ask_done(&Request::Spoil { id, offset, len })
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<()> {
        self.0.ask_done(&Request::Truncate { id, len })
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        self.0.ask_done(&Request::Punch { id, offset, len })
    }

    fn sync(&self, id: ObjectId) -> Result<()> {
        self.0.ask_done(&Request::Sync { id })
    }

    fn sync_many(&self, ino: u64, indexes: &[u64]) -> Result<()> {
        self.0.ask_done(&Request::SyncMany { ino, indexes: indexes.to_vec() })
    }

    fn sync_removals(&self, ino: u64) -> Result<()> {
        self.0.ask_done(&Request::SyncRemovals { ino })
    }

    fn sync_all(&self) -> Result<()> {
        self.0.ask_done(&Request::SyncAll)
    }

    fn delete(&self, id: ObjectId) -> Result<()> {
        self.0.ask_done(&Request::Delete { id })
    }

    fn len(&self, id: ObjectId) -> Result<Option<u64>> {
        self.0.ask(&Request::Len { id }, &mut |answer| match answer {
            Answer::Len(len) => Some(len),
            _ => None,
        })
    }

    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>> {
        self.0.ask(&Request::Extents { id, offset, len }, &mut |answer| match answer {
            Answer::Extents(extents) => Some(extents),
            _ => None,
        })
    }

    fn objects_of(&self, ino: u64) -> Result<Vec<u64>> {
        self.0.ask(&Request::ObjectsOf { ino }, &mut |answer| match answer {
            Answer::Numbers(indexes) => Some(indexes),
            _ => None,
        })
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()> {
        let mut connection = self.0.take()?;
        // Whether more is wanted, and comes.
        let mut take = |answer: Answer<'_>| match answer {
            Answer::Objects { objects, more } => {
                let broke = objects.into_iter().any(|(id, len)| visit(id, len).is_break());
                Some((!broke, more))
            }
            _ => None,
        };
        let (mut wanted, mut more) = self.0.ask_over(&mut connection, &Request::ListObjects, &mut take)?;
        while wanted && more {
            // The owner may also find in the middle that it cannot go on.
            let heard = connection.hear().and_then(|answer| match answer {
                Answer::Failed(error) => Ok(Err(error)),
                answer => take(answer).map(Ok).ok_or_else(wrong_answer),
            });
            (wanted, more) = heard.map_err(|error| self.0.lose(&error))??;
        }
        // One on which more comes is of no use.
        if !more {
            self.0.give_back(connection);
        }
        Ok(())
    }
}
