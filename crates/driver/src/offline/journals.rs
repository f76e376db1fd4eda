//! Rows that the journals of all ranks have and the table lacks: each journal by itself, then the letters that did not arrive, then all
//! together. Changes nothing on the disk.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_journal::table::{
    Meta, Row, decode_inode, decode_row, key_discard, key_inode, key_meta, key_orphan, prefix_range,
};
use loligo_journal::{DataLog, DataRecord, ReadConfig, Record, Source, Tail};
use loligo_namespace::{Config, Loaded, Tree, apply, decided, ended_lines, lent_dirs};
use loligo_rows::{Head, put_event, read_small, read_values, scan};
use loligo_store::{Backend, Batch, StoreError, Table};
use loligo_types::{Event, Ino, Inode, Letter, Lsn, PeerRecord, Rank};

use super::Elsewhere;
use crate::server::error::{Result, bad_row};
use crate::server::recover::{Progress, replay, replay_of};

/// Rows as they are with all journals: the value, or that there is none.
pub(super) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Content of the journals.
pub(super) struct Journals {
    pub(super) overlay: Overlay,
    /// Inodes whose xattr rows in the table do not count.
    pub(super) swept: BTreeSet<Ino>,
    /// Where each rank's journal ends, in the order of the ranks.
    pub(super) tails: Vec<(Rank, Tail)>,
    /// The first number of each rank's range that no inode ever had, also of ranks that there are not (yet).
    pub(super) next_inos: BTreeMap<Rank, Ino>,
    /// Contradictions, in words.
    pub(super) damage: Vec<String>,
    /// Bytes of files that their objects do not have, in the order in which each rank has taken them.
    pub(super) data: Vec<DataRecord>,
}

/// One rank, as if it had just started.
struct Life {
    rank: Rank,
    tree: Tree,
    tail: Tail,
    /// Letters to other ranks: addressee, number, content.
    letters: Vec<(Rank, u64, Arc<Letter>)>,
    data: DataLog,
}

impl Life {
    /// Reads a rank's small records and its journal.
    fn read(
        backend: &dyn Backend,
        rank: Rank,
        key: (u64, u64),
        elsewhere: Option<&mut dyn Source<Error = StoreError>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Life> {
        let table = backend.table();
        let head = read_values(&*table, rank)?;
        let mut tree = Tree::new(key, Config { inline_max: 0, rank, frag: loligo_namespace::FragConfig::default() });
        read_small(&*table, rank, &head, &mut |item| tree.load(item))?;
        let (mut letters, mut data) = (Vec::new(), DataLog::default());
        let mut seen = |lsn, mut record: Record| {
            record.events.iter().for_each(|event| data.note(lsn, event));
            if lsn < head.table_upto {
                // The table has it, and it may be another rank's by now.
                record.events.retain(|event| !event.is_of_inode());
            }
            replay_record(&mut tree, lsn, &record, &mut letters);
        };
        let (number, from) = (u32::from(rank.0), head.replay_from);
        let tail = match elsewhere {
            None => replay(backend, number, from, progress, &mut seen)?,
            Some(source) => {
                let config = ReadConfig { fs: Some(backend.identity().fs_id), rank: Some(number), from, synced: None };
                replay_of(source, config, progress, &mut seen)?
            }
        };
        Ok(Life { rank, tree, tail, letters, data })
    }

    /// Applies events behind the end of the journal.
    fn add(&mut self, event: &Event) {
        let lsn = Lsn(self.tail.next_lsn.0.max(self.tree.last_lsn().0));
        apply(&mut self.tree, event, lsn);
    }

    /// Up to which letter it has written to another rank, whatever its record of that says.
    fn sent(&self, to: Rank) -> u64 {
        let last = self.letters.iter().filter(|(rank, ..)| *rank == to).map(|(_, seq, _)| *seq).max();
        self.tree.peer(to).sent.max(last.unwrap_or(0))
    }
}

fn replay_record(tree: &mut Tree, lsn: Lsn, record: &Record, letters: &mut Vec<(Rank, u64, Arc<Letter>)>) {
    for event in &record.events {
        if let Event::Letter { to, seq, letter } = event {
            letters.push((*to, *seq, letter.clone()));
        }
        apply(tree, event, lsn);
    }
}

/// Reads the journals of all ranks that the table knows of; `elsewhere`: what counts in place of one of them.
pub(super) fn read(
    backend: &dyn Backend,
    head: &Head,
    key: (u64, u64),
    mut elsewhere: Option<Elsewhere<'_>>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Journals> {
    let last = u16::try_from(head.ranks.saturating_sub(1)).unwrap_or(u16::MAX);
    let mut lives = Vec::new();
    for rank in 0..=last {
        let source = elsewhere.take_if(|(of, _)| of.0 == rank).map(|(_, source)| source);
        lives.push(Life::read(backend, Rank(rank), key, source, progress)?);
    }
    let mut damage = Vec::new();
    deliver(&*backend.table(), &mut lives, &mut damage)?;
    let next_inos = next_inos(&*backend.table())?;
    let data = lives.iter().flat_map(|life| life.data.iter().cloned()).collect();
    Ok(merge(lives, next_inos, damage, data))
}

/// Reads the inode counters of the table.
fn next_inos(table: &dyn Table) -> Result<BTreeMap<Rank, Ino>> {
    let range = prefix_range(&key_meta(Meta::NextIno, Rank::ZERO)[..2]);
    let mut all = BTreeMap::new();
    scan(table, &range.start, &range.end, &mut |key, value| {
        // fsck speaks of a row that cannot be understood.
        if let Ok(Row::Meta { rank, value, .. }) = decode_row(key, value) {
            all.insert(rank, Ino(value));
        }
        Ok(())
    })?;
    Ok(all)
}

/// Applies the letters that their receivers have not applied, and puts down that nothing is on its way any more.
fn deliver(table: &dyn Table, lives: &mut [Life], damage: &mut Vec<String>) -> Result<()> {
    for from in 0..lives.len() {
        let letters = std::mem::take(&mut lives[from].letters);
        for (to, ..) in letters.iter().filter(|(to, ..)| usize::from(to.0) >= lives.len()) {
            damage.push(format!("rank {} has a letter to rank {to}, which there is not", lives[from].rank));
        }
        for to in (0..lives.len()).filter(|to| *to != from) {
            let rank = lives[to].rank;
            let of_it = letters.iter().filter(|(to, ..)| *to == rank);
            lives[from].letters = of_it.cloned().collect();
            deliver_between(table, lives, from, to, damage)?;
        }
    }
    Ok(())
}

fn deliver_between(
    table: &dyn Table,
    lives: &mut [Life],
    from: usize,
    to: usize,
    damage: &mut Vec<String>,
) -> Result<()> {
    let (sender, receiver) = (lives[from].rank, lives[to].rank);
    let sent = lives[from].sent(receiver);
    let mut received = lives[to].tree.peer(sender).received;
    if received > sent {
        damage.push(format!(
            "rank {receiver} has applied letters of rank {sender} up to {received}, but that one knows of {sent} only"
        ));
    }
    for (_, seq, letter) in std::mem::take(&mut lives[from].letters) {
        if seq <= received {
            continue;
        }
        if seq != received + 1 {
            damage.push(lost(sender, receiver, received + 1, seq - 1));
        }
        received = seq;
        deliver_one(table, lives, to, &letter)?;
    }
    if received < sent {
        damage.push(lost(sender, receiver, received + 1, sent));
    }
    let all = received.max(sent);
    put_peer(&mut lives[from], receiver, |peer| (peer.sent, peer.acked) = (all, all));
    put_peer(&mut lives[to], sender, |peer| peer.received = all);
    Ok(())
}

fn lost(sender: Rank, receiver: Rank, first: u64, last: u64) -> String {
    format!("letters {first} to {last} of rank {sender} to rank {receiver} are in no journal")
}

fn put_peer(life: &mut Life, other: Rank, change: impl FnOnce(&mut PeerRecord)) {
    let before = life.tree.peer(other);
    let mut peer = before;
    change(&mut peer);
    if peer != before {
        life.add(&Event::Peer(peer));
    }
}

fn deliver_one(table: &dyn Table, lives: &mut [Life], to: usize, letter: &Letter) -> Result<()> {
    match letter {
        Letter::Commit { events, .. } => {
            let mut now = BTreeMap::new();
            for dir in lent_dirs(events) {
                now.extend(inode_of(table, &mut lives[to], dir)?.map(|inode| (dir, inode)));
            }
            let tree = &lives[to].tree;
            let decided = decided(events, &mut |ino| now.get(&ino).cloned(), &mut |ino| tree.part(ino).cloned());
            decided.into_iter().chain(ended_lines(events)).for_each(|event| lives[to].add(&event));
        }
        Letter::Import { routes, events, clients: _ } => {
            routes.iter().for_each(|route| lives[to].add(&Event::Route(*route)));
            events.iter().for_each(|event| lives[to].add(event));
        }
        Letter::Fragment { part, routes, events, clients: _ } => {
            routes.iter().for_each(|route| lives[to].add(&Event::Route(*route)));
            events.iter().for_each(|event| lives[to].add(event));
            add_part(table, lives, to, part)?;
        }
        Letter::Sum { dir, entries, bytes } => {
            // Whoever has changes of the directory has it now.
            let at = lives.iter().position(|life| life.tree.inode(*dir).is_some()).unwrap_or(to);
            let Some(mut inode) = inode_of(table, &mut lives[at], *dir)? else { return Ok(()) };
            let sum = &mut inode.extra_mut().rstat;
            sum.entries = sum.entries.wrapping_add(*entries);
            sum.bytes = sum.bytes.wrapping_add(*bytes);
            lives[at].add(&Event::Inode(Box::new(inode)));
        }
    }
    Ok(())
}

/// A fragment has come: what its sender counted is the receiver's, whose part it is added to, or the directory itself.
fn add_part(table: &dyn Table, lives: &mut [Life], to: usize, part: &Inode) -> Result<()> {
    let rank = lives[to].rank;
    let home =
        lives[to].tree.routes().any(|route| route.dir == part.ino && route.rank == rank && route.frag.first() == 0);
    let mut all = match lives[to].tree.part(part.ino).cloned() {
        Some(own) => own,
        None if home => match inode_of(table, &mut lives[to], part.ino)? {
            Some(inode) => inode,
            None => return Ok(()),
        },
        None => part.new_part(rank),
    };
    all.add_part(part);
    lives[to].add(&Event::Inode(Box::new(all)));
    Ok(())
}

/// An inode as a rank knows it, or else as the table has it; `None` if it is gone: then nobody counts it.
fn inode_of(table: &dyn Table, life: &mut Life, ino: Ino) -> Result<Option<Inode>> {
    let key = key_inode(ino);
    let value = table.get(&key)?;
    let stored = value.map(|value| decode_inode(ino, &value)).transpose().map_err(|e| bad_row(&key, &e))?;
    // What is in memory stays as it is.
    life.tree.load(Loaded::Inode(ino, stored.map(Box::new)));
    Ok(life.tree.inode(ino).cloned())
}

/// All that differs from the table, of all ranks together.
fn merge(
    lives: Vec<Life>,
    mut next_inos: BTreeMap<Rank, Ino>,
    mut damage: Vec<String>,
    data: Vec<DataRecord>,
) -> Journals {
    let mut rows: BTreeMap<Vec<u8>, (Rank, Option<Vec<u8>>)> = BTreeMap::new();
    let mut swept = BTreeSet::new();
    let mut tails = Vec::new();
    for mut life in lives {
        next_inos.insert(life.rank, life.tree.next_ino());
        let mut batch = Batch::new();
        for record in life.tree.take_checkpoint(usize::MAX).records {
            put_event(&mut batch, &record.event, record.hash, life.rank);
            if let (true, Event::InodeGone(ino)) = (record.sweep, &record.event) {
                swept.insert(*ino);
            }
        }
        let deletes = batch.deletes.into_iter().map(|key| (key, None));
        for (key, value) in batch.puts.into_iter().map(|(key, value)| (key, Some(value))).chain(deletes) {
            merge_row(&mut rows, life.rank, key, value, &mut damage);
        }
        tails.push((life.rank, life.tail));
    }
    let overlay = rows.into_iter().map(|(key, (_, value))| (key, value)).collect();
    Journals { overlay, swept, tails, next_inos, damage, data }
}

/// Each row is one rank's. Only an orphan, or a discard, may end at one rank and begin at another.
fn merge_row(
    rows: &mut BTreeMap<Vec<u8>, (Rank, Option<Vec<u8>>)>,
    rank: Rank,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    damage: &mut Vec<String>,
) {
    let moves = [key_orphan(Ino(0))[0], key_discard(Ino(0))[0]].contains(&key[0]);
    match rows.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert((rank, value))),
        Entry::Occupied(entry) if entry.get().1 == value => {}
        Entry::Occupied(mut entry) if moves && entry.get().1.is_none() => drop(entry.insert((rank, value))),
        Entry::Occupied(_) if moves && value.is_none() => {}
        Entry::Occupied(entry) => {
            let (key, (first, kept)) = (entry.key(), entry.get());
            damage.push(format!(
                "rank {first} and rank {rank} both say in their journals what {} is; what rank {first} says counts",
                describe(key, kept.as_deref().or(value.as_deref()))
            ));
        }
    }
}

/// A row in words.
fn describe(key: &[u8], value: Option<&[u8]>) -> String {
    match value.map(|value| decode_row(key, value)) {
        Some(Ok(Row::Inode(inode))) => format!("inode {}", inode.ino),
        Some(Ok(Row::Entry { dir, name, .. })) => format!("entry {name} in {dir}"),
        Some(Ok(Row::Xattr { ino, .. })) => format!("an xattr of inode {ino}"),
        Some(Ok(Row::Inline { ino, .. })) => format!("the data of inode {ino}"),
        _ => format!("the row {}", key.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}
