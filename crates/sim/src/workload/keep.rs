//! A program that has a directory decoupled keeps what it made in the store; and one that takes such a directory over, when its owner is gone,
//! and merges what is there. What must be there is judged by [`crate::kept`].

use std::sync::Arc;

use loligo_client::Call;
use loligo_journal::file::FileWriter;
use loligo_journal::{FileReader, Owner, Source, decode_record, encode_record};
use loligo_subtree::{Group, Subtree};
use loligo_types::{
    Answer, DataOp, DecoupledRecord, Event, FsError, FsResult, Ino, Lsn, StoredJournal, SubtreeAnswer, SubtreeOp,
};

use crate::kept::Keeping;
use crate::subtrees::State;

use super::owner::{End, Own, PAUSE_US, TRIES, Told, is_passing};
use super::{Shell, Track};

/// Bytes of one data request.
const PIECE: usize = 300;

/// The journal as it is kept.
fn file_of(record: &DecoupledRecord, parts: &[Arc<[u8]>]) -> Vec<u8> {
    let mut writer = FileWriter::new([1; 16], Owner::Client(record.session.0), false);
    let mut bytes = writer.header().to_vec();
    let mut first = Vec::new();
    encode_record(&mut first, None, &[Event::Decoupled(Box::new(record.clone()))]);
    for (lsn, body) in (1..).zip([&first[..]].into_iter().chain(parts.iter().map(|part| &part[..]))) {
        writer.append(&mut bytes, Lsn(lsn), body).expect("records are short");
    }
    bytes
}

/// Content of a journal: the merges that were done before, and the parts of the next one.
type Said = (u64, Vec<Arc<[u8]>>);

/// Reads one.
fn read(bytes: Vec<u8>) -> Result<Said, String> {
    struct Bytes(Vec<u8>);
    impl Source for Bytes {
        type Error = std::convert::Infallible;

        fn list(&mut self) -> Result<Vec<(u64, u64)>, Self::Error> {
            Ok(vec![(0, self.0.len() as u64)])
        }

        fn read_at(&mut self, _: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Self::Error> {
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }
    let mut reader = FileReader::open(Bytes(bytes)).map_err(|error| error.to_string())?;
    let mut parts: Vec<Arc<[u8]>> = Vec::new();
    while let Some(raw) = reader.next_record().map_err(|error| error.to_string())? {
        parts.push(raw.body.into());
    }
    if let Some(torn) = reader.tail().and_then(|tail| tail.torn) {
        return Err(format!("it is cut off: {torn:?}"));
    }
    let first = if parts.is_empty() { return Err("it has no record".into()) } else { parts.remove(0) };
    match &decode_record(&first).map_err(|error| error.to_string())?.events[..] {
        [Event::Decoupled(record)] => Ok((record.merges, parts)),
        other => Err(format!("it begins with {other:?}")),
    }
}

impl Shell {
    /// Takes over one whose owner is gone.
    pub(super) async fn take_over(&mut self, dir: Ino, owner: u64) -> FsResult<Told> {
        for _ in 0..TRIES {
            let begun = self.now();
            match self.subtree_call(dir, SubtreeOp::TakeOver { owner, now: false }).await {
                Ok(answer) => return self.told(dir, begun, answer).ok_or(FsError::Io),
                Err(error) if is_passing(error) => {}
                Err(error @ (FsError::Busy | FsError::NotFound | FsError::Stale)) => return Err(error),
                other => {
                    self.wrong(format!("directory {dir} is not taken over: {other:?}")).await;
                    return Err(FsError::Io);
                }
            }
            self.sleep(PAUSE_US).await;
        }
        Err(FsError::Unavailable)
    }

    async fn data(&mut self, ino: Ino, op: DataOp) -> FsResult<Answer> {
        self.call(Call::Data { ino, op }, Track::None).await.map(|done| done.answer)
    }

    /// Writes an object, durably.
    async fn put(&mut self, ino: Ino, bytes: &[u8]) -> FsResult<()> {
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            let op = DataOp::Write { offset: (number * PIECE) as u64, data: piece.into() };
            self.data(ino, op).await?;
        }
        self.data(ino, DataOp::Sync).await.map(drop)
    }

    async fn get(&mut self, journal: StoredJournal) -> FsResult<Vec<u8>> {
        match self.data(journal.ino, DataOp::Read { offset: 0, len: journal.bytes as u32 }).await? {
            Answer::Bytes(bytes) => {
                if bytes.len() as u64 != journal.bytes {
                    self.wrong(format!("of {journal:?} there are {} bytes", bytes.len())).await;
                }
                Ok(bytes.to_vec())
            }
            _ => Err(FsError::Io),
        }
    }

    /// May reach the journal's objects; which of them counts.
    async fn allow(&mut self, own: &mut Own) -> Result<Option<StoredJournal>, End> {
        let (epoch, inos) = (own.subtree.record().epoch, own.subtree.record().journal_inos().to_vec());
        match self.ask_rank(own, SubtreeOp::Data { epoch, inos }).await? {
            Answer::Subtree(answer) => match *answer {
                SubtreeAnswer::Decoupled { record, .. } => Ok(record.journal),
                _ => Err(End::GivesUp),
            },
            _ => Err(End::GivesUp),
        }
    }

    /// Keeps what is outstanding in the store.
    pub(super) async fn keep(&mut self, own: &mut Own, after: &State) -> Result<(), End> {
        let Some(Group { parts, used, .. }) = own.subtree.groups().pop() else { return Ok(()) };
        let (dir, record) = (own.dir, own.subtree.record().clone());
        let (epoch, bytes) = (record.epoch, file_of(&record, &parts));
        let keeping = Keeping { merges: record.merges, parts, used, state: after.clone() };
        let number = self.jobs.borrow_mut().kept.keeps(dir, keeping);
        for _ in 0..TRIES {
            let counts = self.allow(own).await?.map(|counts| counts.ino);
            let [one, other] = record.journal_inos();
            let ino = if counts == Some(one) { other } else { one };
            match self.put(ino, &bytes).await {
                Ok(()) => {
                    let journal = StoredJournal { ino, bytes: bytes.len() as u64 };
                    self.ask_rank(own, SubtreeOp::Keep { epoch, journal }).await?;
                    let mut jobs = self.jobs.borrow_mut();
                    jobs.counts.kept += 1;
                    jobs.kept.kept(dir, number);
                    return Ok(());
                }
                Err(FsError::Stale) => drop(self.resume(own).await?),
                Err(error) if is_passing(error) => {}
                Err(error) => {
                    self.wrong(format!("a journal of {dir} cannot be kept: {error}")).await;
                    return Err(End::GivesUp);
                }
            }
            self.sleep(PAUSE_US).await;
        }
        Err(End::GivesUp)
    }

    /// Drops the kept journal, because all of it is merged; the rank needs no word of it.
    pub(super) async fn void(&mut self, own: &mut Own) -> Result<(), End> {
        let (epoch, [ino, _]) = (own.subtree.record().epoch, own.subtree.record().journal_inos());
        self.ask_rank(own, SubtreeOp::Keep { epoch, journal: StoredJournal { ino, bytes: 0 } }).await.map(drop)
    }

    /// Merges a journal that an earlier owner has left in the store, before anything else.
    pub(super) async fn merge_stored(&mut self, own: &mut Own) -> Result<(), End> {
        if own.subtree.record().journal.is_none() {
            return Ok(());
        }
        let Some(bytes) = self.get_stored(own).await? else { return Ok(()) };
        let (dir, done) = (own.dir, own.subtree.record().merges);
        let found = read(bytes).and_then(|(merges, parts)| {
            let jobs = self.jobs.borrow();
            match jobs.kept.found(dir, merges, &parts) {
                _ if merges < done && jobs.merges_twice => Ok(jobs.again(dir, parts, own.subtree.record().used)),
                _ if merges < done => Ok(None),
                Some(keeping) => Ok(Some(keeping.clone())),
                None => Err(format!("nobody has kept that, or something newer: {merges} merges, of {done}, {parts:?}")),
            }
        });
        match found {
            Ok(Some(Keeping { parts, used, state, .. })) => {
                self.merge_parts(own, &parts, used, &state).await?;
                self.jobs.borrow_mut().counts.taken += 1;
            }
            Ok(None) => {}
            Err(text) => {
                self.wrong(format!("the journal of {dir} in the store: {text}")).await;
                return Err(End::GivesUp);
            }
        }
        if self.rng.one_in(2) {
            self.void(own).await?;
        }
        let epoch = own.subtree.record().epoch;
        let (record, root, settings) =
            self.decouple(dir, own.owner, epoch, 1000).await.map_err(|error| match error {
                FsError::Unavailable => End::GivesUp,
                _ => End::Lost,
            })?;
        own.subtree = Subtree::new(settings, record, root);
        Ok(())
    }

    async fn get_stored(&mut self, own: &mut Own) -> Result<Option<Vec<u8>>, End> {
        for _ in 0..TRIES {
            let Some(journal) = self.allow(own).await? else { return Ok(None) };
            match self.get(journal).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(FsError::Stale) => drop(self.resume(own).await?),
                Err(error) if is_passing(error) => {}
                Err(error) => {
                    self.wrong(format!("the journal of {} in the store cannot be read: {error}", own.dir)).await;
                    return Err(End::GivesUp);
                }
            }
            self.sleep(PAUSE_US).await;
        }
        Err(End::GivesUp)
    }
}
