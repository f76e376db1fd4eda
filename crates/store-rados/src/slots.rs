//! Who owns what: the file system as a whole, and each rank. A slot has an epoch that grows with each owner; every write names that of its
//! slot, and the cluster compares. The owner says with a beat that it is there; who sees none for the time of a lease may take over.
//!
//! Not here: whether somebody wants to take over, and what follows from it.
//!
//! Time is never compared between machines: an owner counts its lease from when it began the beat, the other from when it saw that beat,
//! which is later. So what an owner answers within its lease was true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_rados::{Cluster, Error, Pool, ReadOp, WriteOp};
use loligo_store::{Lease, Result, StoreError};
use rustix::time::ClockId;

use crate::bytes::{Get, Put};
use crate::error::{fenced, store};
use crate::names;

/// Version of a slot's record.
const VERSION: u8 = 1;
/// Beats in the time of a lease.
const BEATS: u32 = 4;
/// How long the cluster refuses an owner that was deposed: longer than anything it has sent may be on its way.
const SHUT_OUT: Duration = Duration::from_secs(3600);

/// The slot of the file system as a whole.
pub(crate) const FILE_SYSTEM: &str = "fs";

/// The slot of a rank.
pub(crate) fn of_rank(rank: u32) -> String {
    format!("rank.{rank}")
}

/// What is put down of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) is_held: bool,
    pub(crate) epoch: u64,
    pub(crate) beat: u64,
    pub(crate) lease_ms: u32,
    /// The owner's connection, as the cluster's blocklist takes it.
    pub(crate) addresses: String,
    /// For people.
    pub(crate) owner: String,
    /// The process, as others on the same machine can look for it.
    pub(crate) process: String,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let put = Put::new(VERSION).u8(self.is_held.into()).u64(self.epoch).u64(self.beat).u32(self.lease_ms);
        put.bytes(self.addresses.as_bytes()).bytes(self.owner.as_bytes()).bytes(self.process.as_bytes()).0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record> {
        let mut get = Get::new("a record of who owns what", bytes, VERSION)?;
        let record = Record {
            is_held: get.u8()? == 1,
            epoch: get.u64()?,
            beat: get.u64()?,
            lease_ms: get.u32()?,
            addresses: get.text()?,
            owner: get.text()?,
            process: get.text()?,
        };
        get.end()?;
        Ok(record)
    }
}

/// Until when what a process owns is its own for certain.
#[derive(Debug, Default)]
struct Until {
    /// Nanoseconds of the clock that goes on while the machine sleeps.
    until: AtomicU64,
    lost: OnceLock<String>,
}

impl Lease for Until {
    fn holds(&self) -> bool {
        now() < self.until.load(Ordering::Acquire) && self.lost.get().is_none()
    }

    fn lost(&self) -> Option<String> {
        self.lost.get().cloned()
    }
}

/// Nanoseconds since the machine was started, sleep included.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A slot that is owned.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) epoch: u64,
    lease: Arc<Until>,
}

impl Slot {
    /// [`StoreError::Fenced`] once it is known that another one has it.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lease.lost.get() {
            None => Ok(()),
            Some(_) => Err(fenced(&self.name)),
        }
    }

    /// The name of the xattr that says of an object in which epoch of this slot it may be written.
    pub(crate) fn xattr(&self) -> String {
        format!("epoch.{}", self.name)
    }
}

/// All that this process owns.
pub struct Slots {
    inner: Arc<Inner>,
    stop: Mutex<Option<Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    cluster: Arc<Cluster>,
    pool: Arc<Pool>,
    lease_time: Duration,
    addresses: String,
    owner: String,
    process: String,
    /// What is put down of those that are owned.
    held: Mutex<BTreeMap<String, Record>>,
    lease: Arc<Until>,
    /// Addresses that were shut out.
    shut_out: Mutex<BTreeSet<String>>,
}

impl Slots {
    /// Owns nothing yet. `owner`: for people who ask who has something.
    pub(crate) fn new(cluster: &Arc<Cluster>, pool: &Arc<Pool>, lease: Duration, owner: String) -> Result<Slots> {
        let inner = Arc::new(Inner {
            cluster: cluster.clone(),
            pool: pool.clone(),
            lease_time: lease,
            addresses: cluster.addresses().map_err(store)?,
            owner,
            process: this_process(),
            held: Mutex::default(),
            lease: Arc::default(),
            shut_out: Mutex::default(),
        });
        let (stop, stopped) = channel::<()>();
        let at = inner.clone();
        let beat = move || {
            while stopped.recv_timeout(at.lease_time / BEATS) == Err(RecvTimeoutError::Timeout) {
                at.beat();
            }
        };
        let thread = std::thread::Builder::new().name("loligo-beat".into()).spawn(beat);
        let thread = thread.map_err(|error| StoreError::from_io("starting a thread", &error))?;
        Ok(Slots { inner, stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) })
    }

    /// Until when all of it is its own.
    pub fn lease(&self) -> Arc<dyn Lease> {
        self.inner.lease.clone()
    }

    /// Takes a slot that is free or whose owner is gone; waits for as long as it takes to know that. Whoever had it can write nothing more
    /// when this returns. [`StoreError::InUse`] if its owner is there.
    pub(crate) fn take(&self, name: &str) -> Result<Arc<Slot>> {
        self.inner.take(name)
    }

    /// What is put down of all slots.
    pub(crate) fn all(pool: &Pool) -> Result<BTreeMap<String, Record>> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.omap_after(b"", 1 << 16).map_err(store)?;
        let pairs = match op.run(pool, names::SLOTS) {
            Ok(found) => found.omap(step).map_err(store)?.pairs,
            Err(Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(store(error)),
        };
        let named = |(name, value): (Vec<u8>, Vec<u8>)| {
            Ok((String::from_utf8_lossy(&name).into_owned(), Record::decode(&value)?))
        };
        pairs.into_iter().map(named).collect()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It ends with its next look at most.
            let _ = thread.join();
        }
        if let Err(error) = self.inner.release() {
            tracing::warn!("could not say that this server is gone, so the next one waits a little: {error}");
        }
    }
}

impl Inner {
    fn read(&self, name: &str) -> Result<Option<(Vec<u8>, Record)>> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.omap_keys(&[name.as_bytes()]);
        let mut omap = match op.run(&self.pool, names::SLOTS) {
            Ok(found) => found.omap(step).map_err(store)?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(store(error)),
        };
        let Some((_, value)) = omap.pairs.pop() else { return Ok(None) };
        let record = Record::decode(&value)?;
        Ok(Some((value, record)))
    }

    fn take(&self, name: &str) -> Result<Arc<Slot>> {
        let mut watched: Option<((u64, u64), Instant)> = None;
        loop {
            let asked = Instant::now();
            let found = self.read(name)?;
            let may_live = |record: &Record| record.is_held && !self.is_out(record) && !is_dead(&record.process);
            if let Some((_, record)) = found.as_ref().filter(|(_, record)| may_live(record)) {
                let lease = Duration::from_millis(record.lease_ms.into());
                let beat = (record.epoch, record.beat);
                match watched {
                    Some((seen, _)) if seen != beat => {
                        return Err(StoreError::InUse {
                            dir: format!("{name} of pool {}", self.pool.name()),
                            owner: record.owner.clone(),
                        });
                    }
                    // A cluster that was slow was slow for the owner's beats, too.
                    Some((_, since)) if asked.elapsed() < lease / 2 => {
                        if since.elapsed() < lease * 9 / 8 {
                            std::thread::sleep(lease / 8);
                            continue;
                        }
                    }
                    _ => {
                        watched = Some((beat, Instant::now()));
                        continue;
                    }
                }
            }
            if let Some(slot) = self.replace(name, found)? {
                return Ok(slot);
            }
            // Another one was faster.
            watched = None;
        }
    }

    /// Whether this process has shut that owner out, when it took something else from it: all that it owned had one beat.
    fn is_out(&self, record: &Record) -> bool {
        let out = self.shut_out.lock().unwrap_or_else(PoisonError::into_inner);
        !out.is_empty() && record.addresses.split(',').all(|address| out.contains(address))
    }

    /// Takes it from whoever had it. `None`: something has changed meanwhile.
    fn replace(&self, name: &str, found: Option<(Vec<u8>, Record)>) -> Result<Option<Arc<Slot>>> {
        let (before, epoch) = found.as_ref().map_or((&[][..], 1), |(bytes, record)| (bytes, record.epoch + 1));
        let record = Record {
            is_held: true,
            epoch,
            beat: 1,
            lease_ms: u32::try_from(self.lease_time.as_millis()).unwrap_or(u32::MAX),
            addresses: self.addresses.clone(),
            owner: self.owner.clone(),
            process: self.process.clone(),
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = now();
        let mut op = WriteOp::new().map_err(store)?;
        op.create().assert_omap(name.as_bytes(), before).omap_set([(name.as_bytes(), record.encode().as_slice())]);
        match op.run(&self.pool, names::SLOTS) {
            Ok(_) => {}
            Err(Error::Changed { .. }) => return Ok(None),
            Err(error) => return Err(store(error)),
        }
        if held.is_empty() {
            self.lease.until.store(begun + self.lease_time.as_nanos() as u64, Ordering::Release);
        }
        held.insert(name.to_owned(), record);
        drop(held);
        if let Some((_, old)) = found.filter(|(_, record)| record.is_held && record.addresses != self.addresses) {
            tracing::info!("{name} is taken over from {}, in epoch {epoch}", old.owner);
            let mut shut_out = self.shut_out.lock().unwrap_or_else(PoisonError::into_inner);
            for address in old.addresses.split(',').filter(|address| !address.is_empty()) {
                // Once for all that it owned: each time the monitors have to agree.
                if !shut_out.contains(address) {
                    self.cluster.shut_out(address, SHUT_OUT.as_secs() as u32).map_err(store)?;
                    shut_out.insert(address.to_owned());
                }
            }
        }
        Ok(Some(Arc::new(Slot { name: name.to_owned(), epoch, lease: self.lease.clone() })))
    }

    /// Says that this process is there.
    fn beat(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() || self.lease.lost.get().is_some() {
            return;
        }
        let begun = now();
        let next: BTreeMap<String, Record> = held
            .iter()
            .map(|(name, record)| (name.clone(), Record { beat: record.beat + 1, ..record.clone() }))
            .collect();
        match self.exchange(&held, &next) {
            Ok(()) => {
                *held = next;
                self.lease.until.store(begun + self.lease_time.as_nanos() as u64, Ordering::Release);
            }
            Err(Error::Changed { .. }) => match self.look(&held) {
                Ok(Some(now)) => *held = now,
                Ok(None) => self.lose("another server has taken over"),
                Err(error) => tracing::warn!("could not say that this server is there: {error}"),
            },
            Err(Error::Fenced { .. }) => {
                self.lose("another server has taken over, and has shut this one out of the cluster")
            }
            Err(error) => tracing::warn!("could not say that this server is there: {error}"),
        }
    }

    fn lose(&self, why: &str) {
        tracing::error!("this server owns nothing any more: {why}");
        let _ = self.lease.lost.set(why.to_owned());
    }

    /// What is put down of what is held, if it is all still this process's: a beat of which nothing was heard may have been there.
    fn look(&self, held: &BTreeMap<String, Record>) -> Result<Option<BTreeMap<String, Record>>> {
        let mut all = Slots::all(&self.pool)?;
        let mut same = |name: &String, was: &Record| {
            let is = all.remove(name)?;
            (is.is_held && is.epoch == was.epoch && is.process == was.process).then(|| (name.clone(), is))
        };
        Ok(held.iter().map(|(name, was)| same(name, was)).collect())
    }

    fn exchange(
        &self,
        before: &BTreeMap<String, Record>,
        after: &BTreeMap<String, Record>,
    ) -> std::result::Result<(), Error> {
        let mut op = WriteOp::new()?;
        for (name, record) in before {
            op.assert_omap(name.as_bytes(), &record.encode());
        }
        for (name, record) in after {
            op.omap_set([(name.as_bytes(), record.encode().as_slice())]);
        }
        op.run(&self.pool, names::SLOTS).map(drop)
    }

    /// Gives all of it back.
    fn release(&self) -> Result<()> {
        self.lease.until.store(0, Ordering::Release);
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if held.is_empty() || self.lease.lost.get().is_some() {
            return Ok(());
        }
        let free = |(name, record): (&String, &Record)| (name.clone(), Record { is_held: false, ..record.clone() });
        let free = held.iter().map(free).collect();
        self.exchange(&held, &free).map_err(store)
    }
}

/// What tells a process from any other one of this machine: the machine's start, the name space of its number, the number, when it began.
fn this_process() -> String {
    process(std::process::id()).unwrap_or_default()
}

fn process(pid: u32) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the program's name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (state, began) = (fields.first()?, fields.get(19)?);
    if matches!(*state, "Z" | "X") {
        return None;
    }
    Some(format!("{} {} {pid} {began}", boot.trim(), space.display()))
}

/// Whether that was a process of this machine, and is gone. Of others nothing is known.
fn is_dead(name: &str) -> bool {
    let fields: Vec<&str> = name.split(' ').collect();
    let [boot, space, pid, _] = fields[..] else { return false };
    let ours = this_process();
    let is_here = ours.split(' ').take(2).eq([boot, space]);
    match pid.parse() {
        Ok(pid) if is_here => process(pid).is_none_or(|there| there != name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_record_are_fixed() {
        let record = Record {
            is_held: true,
            epoch: 3,
            beat: 4,
            lease_ms: 2000,
            addresses: "a".into(),
            owner: "b".into(),
            process: "c".into(),
        };
        let hex: String = record.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "010103000000000000000400000000000000d0070000010000006101000000620100000063");
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn a_process_is_dead_only_if_it_was_one_of_this_machine() {
        let ours = this_process();
        assert!(!ours.is_empty() && !is_dead(&ours));
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let was = process(child.id());
        child.wait().expect("it ends");
        if let Some(was) = was {
            assert!(is_dead(&was));
        }
        let elsewhere = ours.replacen(&ours[..4], "0000", 1);
        assert!(!is_dead(&elsewhere) && !is_dead("") && !is_dead("a b c d"));
        let earlier = format!("{}0", ours);
        assert!(is_dead(&earlier), "another one with this number");
    }
}
