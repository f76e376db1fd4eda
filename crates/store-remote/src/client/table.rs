//! The table of another process.

use std::sync::Arc;

use loligo_store::{Batch, Durability, KeyValue, Result, StoreError, Table, TableSize};

use super::{Shared, wrong_answer};
use crate::answer::Answer;
use crate::request::{REQUEST_MAX, Request};

pub(super) struct RemoteTable(pub(super) Arc<Shared>);

impl RemoteTable {
    fn values(&self, request: &Request<'_>, count: usize) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.ask(request, &mut |answer| match answer {
            Answer::Values(values) if values.len() == count => {
                Some(values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            }
            _ => None,
        })
    }
}

impl Table for RemoteTable {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.values(&Request::Get { key }, 1)?.pop().flatten())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.values(&Request::MultiGet { keys: keys.to_vec() }, keys.len())
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        let mut found: Vec<KeyValue> = Vec::new();
        let mut connection = self.0.take()?;
        let mut take = |answer: Answer<'_>| match answer {
            Answer::Rows { rows, more } => {
                found.extend(rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
                Some(more)
            }
            _ => None,
        };
        let mut more =
            self.0.ask_over(&mut connection, &Request::Scan { start, end, limit: limit as u64 }, &mut take)?;
        while more {
            let heard = connection.hear().and_then(|answer| take(answer).ok_or_else(wrong_answer));
            more = heard.map_err(|error| self.0.lose(&error))?;
        }
        self.0.give_back(connection);
        Ok(found)
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        let bytes = batch.bytes() + 8 * batch.puts.len() + 4 * batch.deletes.len() + 16;
        if bytes > REQUEST_MAX {
            let cause = format!("a batch of {bytes} bytes, {REQUEST_MAX} go over a connection; this is a bug");
            return Err(StoreError::Io { what: "the table of the server".into(), cause });
        }
        let puts = batch.puts.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
        let deletes = batch.deletes.iter().map(Vec::as_slice).collect();
        self.0.ask_done(&Request::Write { durability, puts, deletes })
    }

    fn flush(&self) -> Result<()> {
        self.0.ask_done(&Request::Flush)
    }

    fn approximate_size(&self) -> Result<TableSize> {
        self.0.ask(&Request::TableSize, &mut |answer| match answer {
            Answer::TableSize(size) => Some(size),
            _ => None,
        })
    }
}
