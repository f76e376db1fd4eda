//! Blocks that were read, the latest used ones, in a bounded number. Not here: what they mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dirs::Dir;
use super::entries::Entries;
use super::index::Row;
use super::sources::Source;

/// A block that was read and checked.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Entries(Entries),
    Dirs(Arc<[Dir]>),
    Sources(u64, Arc<[Source]>),
    Index(Arc<[Row]>),
}

impl Block {
    /// About as many bytes of memory.
    fn bytes(&self) -> usize {
        match self {
            Block::Entries(entries) => entries.bytes(),
            Block::Dirs(rows) => size_of_val(&**rows),
            Block::Sources(_, rows) => {
                size_of_val(&**rows) + rows.iter().map(|source| source.name.len()).sum::<usize>()
            }
            Block::Index(rows) => size_of_val(&**rows) + rows.iter().map(|row| row.key.len()).sum::<usize>(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Cache {
    max: usize,
    bytes: usize,
    clock: u64,
    /// By place: when it was used last, and the block.
    blocks: BTreeMap<u64, (u64, Block)>,
    /// By when they were used last.
    used: BTreeMap<u64, u64>,
}

impl Cache {
    /// With room for so many bytes, and always for one block.
    pub fn new(max: usize) -> Cache {
        Cache { max, bytes: 0, clock: 0, blocks: BTreeMap::new(), used: BTreeMap::new() }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&mut self, offset: u64) -> Option<Block> {
        let (used, block) = self.blocks.get_mut(&offset)?;
        self.clock += 1;
        self.used.remove(used);
        self.used.insert(self.clock, offset);
        *used = self.clock;
        Some(block.clone())
    }

    pub fn put(&mut self, offset: u64, block: Block) {
        self.clock += 1;
        self.bytes += block.bytes();
        self.used.insert(self.clock, offset);
        if let Some((used, old)) = self.blocks.insert(offset, (self.clock, block)) {
            self.used.remove(&used);
            self.bytes -= old.bytes();
        }
        while self.bytes > self.max && self.blocks.len() > 1 {
            let Some((_, oldest)) = self.used.pop_first() else { break };
            if let Some((_, block)) = self.blocks.remove(&oldest) {
                self.bytes -= block.bytes();
            }
        }
    }
}
