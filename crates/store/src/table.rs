//! The table: sorted keys and values, one key space. Not a database: no transactions over reads, no
//! column families; the first byte of a key is the caller's type prefix.

use crate::Result;

/// Rows in a batch of many.
const INGEST_ROWS: usize = 4096;

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// When a write is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the end of this process, but not the loss of power, until the next
    /// [`Durability::Sync`] write or [`Table::flush`]. Buffered batches are lost from the last
    /// backwards: what is left is always a prefix of the batches written.
    Buffered,
    /// On the disk when the call returns, with every batch before it.
    Sync,
}

/// Changes made together. A key in both lists ends up with the value put.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Keys with their new values; of a key given twice the last counts.
    pub puts: Vec<KeyValue>,
    /// Keys to remove; removing an absent key is no error.
    pub deletes: Vec<Vec<u8>>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key and its new value.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.puts.push((key.into(), value.into()));
        self
    }

    /// Adds a key to remove.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut Self {
        self.deletes.push(key.into());
        self
    }

    /// True if the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        let puts: usize = self.puts.iter().map(|(k, v)| k.len() + v.len()).sum();
        puts + self.deletes.iter().map(Vec::len).sum::<usize>()
    }
}

/// Estimated size of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Estimated number of keys.
    pub keys: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// A sorted key-value store. Reads see every write that returned before they began.
pub trait Table: Send + Sync {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The values of `keys`, in their order. Cheaper than as many [`Table::get`] calls.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// The first `limit` pairs with `start <= key < end` in ascending order; an empty `end` means no
    /// upper bound. Fewer than `limit` pairs means that there are no more.
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>>;

    /// Makes the changes of `batch`, all or none, also over a crash. An error means that none was
    /// made; after [`crate::StoreError::Full`] the same call succeeds once there is space.
    fn write(&self, batch: &Batch, durability: Durability) -> Result<()>;

    /// Makes the changes of `batch` one by one, in any order: a reader may see some of them, and so may who comes after a crash or an
    /// error; to do it again makes it whole. For rows that a journal has, too, until [`Table::flush`].
    fn write_rows(&self, batch: &Batch) -> Result<()> {
        self.write(batch, Durability::Buffered)
    }

    /// The same of very many rows at once, no two of one key: in whatever way is the cheapest for so many.
    fn ingest(&self, mut batch: Batch) -> Result<()> {
        while !batch.is_empty() {
            let puts = batch.puts.split_off(batch.puts.len().saturating_sub(INGEST_ROWS));
            let deletes = batch.deletes.split_off(batch.deletes.len().saturating_sub(INGEST_ROWS));
            self.write_rows(&Batch { puts, deletes })?;
        }
        Ok(())
    }

    /// Makes every batch written so far durable.
    fn flush(&self) -> Result<()>;

    /// An estimate of the table's size; never a full scan.
    fn approximate_size(&self) -> Result<TableSize>;
}
