//! A check of the store in a pool: whether all of it is what `docs/formats/rados.md` promises. It owns nothing and writes nothing, so
//! servers go on meanwhile; the order in which things are read, and a second look ([`loligo_store::look`]), tell what is being changed
//! from what is wrong.
//!
//! Here: who the file system is, who owns what, and what all parts use. Not here: what rows and records say, which is the namespace's.

mod data;
mod journal;
mod table;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_rados::{Cluster, Error, Pool, ReadOp};
use loligo_store::{CheckProgress, Checked, Finding, Identity, KeyValue, Result, Segments, StoreError, look};

use crate::error::{corrupt, store};
use crate::log::RadosLog;
use crate::names;
use crate::servers::decided;
use crate::slots::{FILE_SYSTEM, Record, is_dead, rank_of, server_of};
use crate::store::Place;
use crate::table::Index;

/// Where no program helps.
const FROM_A_COPY: &str =
    "nothing mends this: leave the pool as it is, and go back to a copy (loligo copy) or a dump (loligo load)";
/// The xattrs that say in which epoch of a slot an object may be written.
const EPOCH: &str = "epoch.";
/// Keys asked for at a time; the cluster gives 1,024 at most.
const PAGE: u64 = 1024;

/// Told how far it is.
type Tell<'a> = &'a mut dyn FnMut(CheckProgress);

/// A store in a pool, looked at.
pub struct RadosCheck {
    _cluster: Arc<Cluster>,
    pool: Arc<Pool>,
    files: Arc<Pool>,
    place: Place,
}

/// Findings of the parts so far.
#[derive(Default)]
struct Found {
    checked: Checked,
    /// By slot, the highest epoch that an object knows, and that object.
    epochs: BTreeMap<String, (u64, String)>,
}

/// Slots as they are put down: name, and the record or why it is none.
type SlotRecords = BTreeMap<String, Result<Record>>;

/// A step of looking at an object: its length and xattrs.
struct Head {
    len: u64,
    xattrs: Vec<(String, Vec<u8>)>,
}

impl Head {
    fn xattr(&self, name: &str) -> Option<u64> {
        let (_, value) = self.xattrs.iter().find(|(other, _)| other == name)?;
        value.as_slice().try_into().ok().map(u64::from_le_bytes)
    }
}

impl RadosCheck {
    /// Connects. [`StoreError::Foreign`] if there is nothing of a file system.
    pub fn of(place: &Place) -> Result<RadosCheck> {
        let (cluster, pool) = crate::store::connect(place, true)?;
        let files = crate::store::pool(&cluster, place, &format!("{}.data", place.namespace))?.refusing_when_full();
        Ok(RadosCheck { _cluster: cluster, pool, files: Arc::new(files), place: place.clone() })
    }

    /// Checks all of it but the records of journals, which [`RadosCheck::segments`] gives.
    pub fn run(&self, tell: Tell<'_>) -> Result<Checked> {
        let mut found = Found::default();
        let all = self.names(tell)?;
        if all.is_empty() {
            return Err(StoreError::Foreign { dir: self.place.to_string(), found: "there is no object in it".into() });
        }
        let begun = Instant::now();
        let slots = self.slots()?;
        found.add(look(|| self.identity())?);
        found.add(look(|| Ok(slot_findings(&self.slots()?)))?);
        found.add(look(|| self.decisions())?);
        self.table(&all, &mut found, tell)?;
        self.batches(&all, &slots, &mut found)?;
        self.journals(&all, &mut found, tell)?;
        found.add(foreign(&all));
        // The slots' epochs only grow: read behind all objects, they are at least what any of these knows.
        found.add(look(|| Ok(epoch_findings(&found.epochs, &self.slots()?)))?);
        self.data(&mut found, tell)?;
        self.owner(&slots, begun, &mut found)?;
        found.checked.findings.dedup();
        Ok(found.checked)
    }

    /// The ranks that have a journal, as far as that can be read.
    pub fn ranks(&self) -> Vec<u32> {
        RadosLog::ranks(&self.pool).unwrap_or_default()
    }

    /// The journal of a rank.
    pub fn segments(&self, rank: u32) -> Box<dyn Segments> {
        Box::new(journal::Look::new(self.pool.clone(), rank))
    }

    /// Identity of the file system, if it can be read.
    pub fn fs_id(&self) -> Option<[u8; 16]> {
        crate::store::identity(&self.place, &self.pool).ok().flatten().map(|identity: Identity| identity.fs_id)
    }

    /// A row of the table, if it can be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = crate::bytes::escape(key);
        let index = Index::load(&self.pool)?;
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.omap_keys(&[&key]);
        let brought = op.run(&self.pool, &names::range(index.of(&key).1.id)).map_err(store)?;
        Ok(brought.omap(step).map_err(store)?.pairs.pop().map(|(_, value)| value))
    }

    /// The names of all objects but those of file data.
    fn names(&self, tell: Tell<'_>) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let listed = self.pool.list(&mut |name| {
            all.push(name.to_owned());
            tell(CheckProgress { stage: "listing objects", bytes: false, done: all.len() as u64, total: 0 });
            ControlFlow::Continue(())
        });
        listed.map_err(store)?;
        all.sort_unstable();
        Ok(all)
    }

    fn identity(&self) -> Result<Vec<Finding>> {
        let what = format!("object {}", names::IDENTITY);
        Ok(match crate::store::identity(&self.place, &self.pool) {
            Ok(Some(_)) => Vec::new(),
            Ok(None) => vec![Finding::wrong(
                format!("{what}, which says who the file system is, is missing"),
                "if its making was cut off, finish it: loligo format --store; else go back to a copy (loligo copy)",
            )],
            Err(error) => damage(error, FROM_A_COPY)?,
        })
    }

    /// Decisions of the leading server.
    fn decisions(&self) -> Result<Vec<Finding>> {
        match decided(&self.pool) {
            Ok(_) => Ok(Vec::new()),
            Err(error) => damage(
                error,
                "no server takes a rank until that is right: leave the pool as it is, and go back to a copy (loligo copy)",
            ),
        }
    }

    fn slots(&self) -> Result<SlotRecords> {
        let pairs = pairs_of(&self.pool, names::SLOTS)?.unwrap_or_default();
        let named = |(name, value): KeyValue| (String::from_utf8_lossy(&name).into_owned(), Record::decode(&value));
        Ok(pairs.into_iter().map(named).collect())
    }

    /// Checks that the owner of the file system is there: waits, if it must, for as long as its beat may take.
    fn owner(&self, before: &SlotRecords, begun: Instant, found: &mut Found) -> Result<()> {
        loop {
            let now = self.slots()?;
            let Some(Ok(record)) = now.get(FILE_SYSTEM) else { return Ok(()) };
            if !record.is_held {
                return Ok(());
            }
            let lease = Duration::from_millis(record.lease_ms.into());
            let was = before.get(FILE_SYSTEM).and_then(|was| was.as_ref().ok());
            if was.is_none_or(|was| (was.epoch, was.beat) != (record.epoch, record.beat)) {
                found.checked.server = Some(record.owner.clone());
                return Ok(());
            }
            if is_dead(&record.process) || begun.elapsed() > lease * 9 / 8 {
                found.checked.findings.push(Finding::note(
                    format!(
                        "the file system is owned by {}, which has not said for {} ms that it is there",
                        record.owner, record.lease_ms
                    ),
                    "it died, or is cut off: the next server, or one that stands by, takes over",
                ));
                return Ok(());
            }
            std::thread::sleep(lease / 8);
        }
    }
}

impl Found {
    fn add(&mut self, findings: Vec<Finding>) {
        self.checked.findings.extend(findings);
    }

    /// Notes which epochs an object knows.
    fn epochs_of(&mut self, object: &str, head: &Head) {
        for (name, _) in head.xattrs.iter().filter(|(name, _)| name.starts_with(EPOCH)) {
            let (slot, epoch) = (&name[EPOCH.len()..], head.xattr(name).unwrap_or(u64::MAX));
            let known = self.epochs.entry(slot.to_owned()).or_default();
            if epoch > known.0 {
                *known = (epoch, object.to_owned());
            }
        }
    }
}

fn slot_findings(slots: &SlotRecords) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, record) in slots {
        let is_slot = name == FILE_SYSTEM || rank_of(name).is_some() || server_of(name).is_some();
        if !is_slot {
            findings
                .push(Finding::wrong(format!("object {} names {name:?}, which is no slot", names::SLOTS), FROM_A_COPY));
        }
        if let Err(error) = record {
            findings.push(Finding::wrong(
                format!("who owns {name} cannot be read: {}", detail(error)),
                "no server can take it over until the record is right: leave the pool as it is, and go back to a copy (loligo copy)",
            ));
        }
    }
    findings
}

fn epoch_findings(known: &BTreeMap<String, (u64, String)>, slots: &SlotRecords) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (slot, (epoch, object)) in known {
        let now = match slots.get(slot) {
            Some(Ok(record)) => record.epoch,
            Some(Err(_)) => continue,
            None => 0,
        };
        if *epoch > now {
            findings.push(Finding::wrong(
                format!("object {object} knows epoch {epoch} of {slot}, but {slot} has had {now} owners only: every write to it is refused"),
                FROM_A_COPY,
            ));
        }
    }
    findings
}

/// Objects that are none of ours.
fn foreign(all: &[String]) -> Vec<Finding> {
    let others: Vec<&String> = all.iter().filter(|name| !is_ours(name)).collect();
    let Some(first) = others.first() else { return Vec::new() };
    let text = format!("{} objects, as {first}, are none of a file system", others.len());
    vec![Finding::note(text, "a name space is for one file system alone: see who put them there")]
}

fn is_ours(name: &str) -> bool {
    let alone = [names::IDENTITY, names::SLOTS, names::SERVERS, names::INDEX, names::LOGS];
    alone.contains(&name)
        || name.strip_prefix("batch.").is_some_and(|slot| slot == FILE_SYSTEM || slot.starts_with("rank."))
        || table::parse(name).is_some()
        || journal::parse(name).is_some()
}

/// A finding, if the error is damage; else the check itself has failed.
fn damage(error: StoreError, remedy: &str) -> Result<Vec<Finding>> {
    match error {
        StoreError::Corrupt { .. } | StoreError::NewerVersion { .. } | StoreError::Foreign { .. } => {
            Ok(vec![Finding::wrong(detail(&error), remedy)])
        }
        error => Err(error),
    }
}

/// The thing and the cause alone: the check has remedies of its own.
fn detail(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt { place, detail } => format!("{place}: {detail}"),
        error => error.to_string(),
    }
}

/// Keys and values of an object; `None`: it is not there.
fn pairs_of(pool: &Pool, object: &str) -> Result<Option<Vec<KeyValue>>> {
    let (mut all, mut after) = (Vec::<KeyValue>::new(), Vec::new());
    loop {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.omap_after(&after, PAGE).map_err(|_| corrupt(format!("object {object}"), "a key has a NUL"))?;
        let page = match op.run(pool, object).and_then(|brought| brought.omap(step)) {
            Ok(page) => page,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(store(error)),
        };
        all.extend(page.pairs);
        match all.last() {
            Some((last, _)) if page.more => after.clone_from(last),
            _ => return Ok(Some(all)),
        }
    }
}

/// Lengths and xattrs of objects, as far as they are there.
fn heads<'a>(pool: &Pool, objects: impl Iterator<Item = &'a str>) -> Result<Vec<Option<Head>>> {
    let begin = |object: &str| {
        let mut op = ReadOp::new().map_err(store)?;
        let steps = (op.stat(), op.xattrs());
        Ok((op.begin(pool, object).map_err(store)?, steps))
    };
    let begun: Vec<_> = objects.map(begin).collect::<Result<_>>()?;
    let head = |(reading, (stat, xattrs)): (loligo_rados::Reading, (usize, usize))| match reading.wait() {
        Ok(brought) => {
            let len = brought.stat(stat).map_err(store)?.len;
            Ok(Some(Head { len, xattrs: brought.xattrs(xattrs).map_err(store)? }))
        }
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store(error)),
    };
    begun.into_iter().map(head).collect()
}

/// A key of an omap, for people.
fn shown(key: &[u8]) -> String {
    if key.is_empty() {
        return "the first key".into();
    }
    let more = if key.len() > 24 { "..." } else { "" };
    let hex: String = key.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
    format!("key {hex}{more}")
}
