//! Owners of the file system as a whole and of each rank. A slot has an epoch that grows with each owner; every write names that of its
//! slot, and the cluster compares. The owner says with a beat that it is there; another server that sees none for the time of a lease may
//! take over.
//!
//! Not here: whether somebody wants to take over, and what follows from it.
//!
//! Time is never compared between machines: an owner counts its lease from when it began the beat, the other from when it saw that beat,
//! which is later. So what an owner answers within its lease was true.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_rados::{Cluster, Error, Pool, ReadOp, WriteOp};
use loligo_store::{Lease, Result, StoreError};
use rustix::time::ClockId;

use crate::bytes::{Get, Put};
use crate::clients::SHUT_OUT_S;
use crate::error::{fenced, store};
use crate::names;
use crate::room::Room;

/// Version of a slot's record. Of version 1 there was no server, no place and no flags.
const VERSION: u8 = 2;
/// Beats in the time of a lease.
const BEATS: u32 = 4;

/// The slot of the file system as a whole.
pub(crate) const FILE_SYSTEM: &str = "fs";

/// The slot of a rank.
pub(crate) fn of_rank(rank: u32) -> String {
    format!("rank.{rank}")
}

/// The slot by which a server is known to the others, as long as it runs. It owns nothing but itself.
pub(crate) fn of_server(server: u64) -> String {
    format!("{SERVER}{server:016x}")
}

/// In front of a server's number.
const SERVER: &str = "server.";

/// The server that a slot is of.
pub(crate) fn server_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix(SERVER)?, 16).ok()
}

/// The rank that a slot is of.
pub(crate) fn rank_of(name: &str) -> Option<u32> {
    name.strip_prefix("rank.")?.parse().ok()
}

/// Record of a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The number of the server that owns it; 0: a process that is no server, and wants to be alone.
    pub(crate) server: u64,
    /// Of a server: [`SHARES`] and [`STOPS`].
    pub(crate) flags: u8,
    /// Of a server: where the others reach it. Of a rank: where clients do.
    pub(crate) at: String,
}

/// The server takes its share of the ranks when it comes.
pub(crate) const SHARES: u8 = 1;
/// It is about to end, and takes nothing more.
pub(crate) const STOPS: u8 = 2;

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let put = Put::new(VERSION).u8(self.is_held.into()).u64(self.epoch).u64(self.beat).u32(self.lease_ms);
        let put = put.bytes(self.addresses.as_bytes()).bytes(self.owner.as_bytes()).bytes(self.process.as_bytes());
        put.u64(self.server).u8(self.flags).bytes(self.at.as_bytes()).0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record> {
        let mut get = Get::new("a record of who owns what", bytes, VERSION)?;
        let mut record = Record {
            is_held: get.u8()? == 1,
            epoch: get.u64()?,
            beat: get.u64()?,
            lease_ms: get.u32()?,
            addresses: get.text()?,
            owner: get.text()?,
            process: get.text()?,
            ..Record::default()
        };
        if bytes.first() != Some(&1) {
            (record.server, record.flags, record.at) = (get.u64()?, get.u8()?, get.text()?);
        }
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
    /// The number of this server, if it is one.
    server: u64,
    /// The beats of others that were seen last, by slot, and since when they are the same.
    watched: Mutex<HashMap<String, Watched>>,
    /// Records of the slots that are owned.
    held: Mutex<BTreeMap<String, Record>>,
    lease: Arc<Until>,
    /// Addresses that were shut out.
    shut_out: Mutex<BTreeSet<String>>,
    /// Those of owners who had what this process holds, until they are: taking it may have failed half way.
    to_shut_out: Mutex<BTreeMap<String, String>>,
}

/// A beat, and since when nothing but it was seen.
struct Watched {
    beat: (u64, u64),
    since: Instant,
}

/// State of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It says so, since it was looked at before.
    Lives,
    /// It may.
    Silent,
    /// It has given the slot back, is known to be dead, or was silent for so long that it can be replaced.
    Gone,
}

impl Slots {
    /// Owns nothing yet. `owner`: for people who ask who has something. `server`: the number by which others know it; 0: it is none.
    /// `room` is looked at with the beats.
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        pool: &Arc<Pool>,
        room: Option<Arc<Room>>,
        lease: Duration,
        owner: String,
        server: u64,
    ) -> Result<Slots> {
        let inner = Arc::new(Inner {
            cluster: cluster.clone(),
            pool: pool.clone(),
            lease_time: lease,
            addresses: cluster.addresses().map_err(store)?,
            owner,
            process: this_process(),
            server,
            watched: Mutex::default(),
            held: Mutex::default(),
            lease: Arc::default(),
            shut_out: Mutex::default(),
            to_shut_out: Mutex::default(),
        });
        let (stop, stopped) = channel::<()>();
        let at = inner.clone();
        let beat = move || {
            while stopped.recv_timeout(at.lease_time / BEATS) == Err(RecvTimeoutError::Timeout) {
                at.beat();
                room.iter().for_each(|room| room.look());
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

    /// Records of all slots, and whether their owners live. Owners in this process do.
    pub(crate) fn look(&self) -> Result<BTreeMap<String, (Record, Life)>> {
        let asked = Instant::now();
        let all = Slots::all(&self.inner.pool)?;
        self.inner.watched.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| all.contains_key(name));
        let life = |(name, record): (String, Record)| {
            // Of what this process has given back it is as gone as anybody: whoever waits for that may be this one.
            let is_own = record.is_held && record.process == self.inner.process;
            let life = if is_own { Life::Lives } else { self.inner.life(&name, &record, asked) };
            (name, (record, life))
        };
        Ok(all.into_iter().map(life).collect())
    }

    /// Record and state of the owner of that slot.
    pub(crate) fn life_of(&self, name: &str) -> Result<(Option<Record>, Life)> {
        let asked = Instant::now();
        let Some((_, record)) = self.inner.read(name)? else { return Ok((None, Life::Gone)) };
        let life = self.inner.life(name, &record, asked);
        Ok((Some(record), life))
    }

    /// The time after which a silent owner may be replaced, of this process.
    pub(crate) fn lease_time(&self) -> Duration {
        self.inner.lease_time
    }

    /// Changes what others are told of a slot that is owned.
    pub(crate) fn tell(&self, name: &str, change: impl Fn(&mut Record)) -> Result<()> {
        self.inner.change(name, |record| {
            let mut next = record.clone();
            change(&mut next);
            Some(next)
        })
    }

    /// The epoch in which this process has a slot.
    pub(crate) fn epoch(&self, name: &str) -> Option<u64> {
        self.inner.epoch(name)
    }

    /// Gives a slot back.
    pub(crate) fn give(&self, name: &str) -> Result<()> {
        self.inner.change(name, |record| Inner::given_back(name, record))
    }

    /// Strikes out a server that is gone.
    pub(crate) fn forget(&self, name: &str, record: &Record) -> Result<()> {
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_omap(name.as_bytes(), &record.encode()).omap_remove([name.as_bytes()]);
        match op.run(&self.inner.pool, names::SLOTS) {
            Ok(_) | Err(Error::Changed { .. }) => Ok(()),
            Err(error) => Err(store(error)),
        }
    }

    /// Records of all slots.
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
    fn epoch(&self, name: &str) -> Option<u64> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|record| record.epoch)
    }

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
        // It may have been taken before, by who then could not go on.
        if let Some(epoch) = self.epoch(name) {
            return self.slot(name, epoch);
        }
        loop {
            let asked = Instant::now();
            let found = self.read(name)?;
            if let Some((_, record)) = &found {
                match self.life(name, record, asked) {
                    Life::Lives => {
                        return Err(StoreError::InUse {
                            dir: format!("{name} of pool {}", self.pool.name()),
                            owner: record.owner.clone(),
                        });
                    }
                    Life::Silent => {
                        std::thread::sleep(Duration::from_millis(record.lease_ms.into()) / 8);
                        continue;
                    }
                    Life::Gone => {}
                }
            }
            // If another one was faster, it is looked at anew.
            if let Some(slot) = self.replace(name, found)? {
                return Ok(slot);
            }
        }
    }

    /// State of the owner by a record that was read with a question begun then.
    fn life(&self, name: &str, record: &Record, asked: Instant) -> Life {
        if !record.is_held || self.is_out(record) || is_dead(&record.process) {
            return Life::Gone;
        }
        let lease = Duration::from_millis(record.lease_ms.into());
        let beat = (record.epoch, record.beat);
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Watched { beat, since: Instant::now() };
        match all.insert(name.to_owned(), new) {
            Some(seen) if seen.beat != beat => Life::Lives,
            // A cluster that was slow was slow for the owner's beats, too.
            Some(seen) if asked.elapsed() < lease / 2 => {
                let is_over = seen.since.elapsed() >= lease * 9 / 8;
                all.insert(name.to_owned(), seen);
                if is_over { Life::Gone } else { Life::Silent }
            }
            _ => Life::Silent,
        }
    }

    /// True if this process has shut that owner out, when it took something else from it: all that it owned had one beat.
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
            server: self.server,
            ..Record::default()
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
        if let Some((_, old)) = found.filter(|(_, record)| record.is_held && record.addresses != self.addresses) {
            tracing::info!("{name} is taken over from {}, in epoch {epoch}", old.owner);
            self.to_shut_out.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), old.addresses);
        }
        drop(held);
        self.slot(name, epoch).map(Some)
    }

    /// One that this process holds, when whoever had it before can write nothing more.
    fn slot(&self, name: &str, epoch: u64) -> Result<Arc<Slot>> {
        let mut owing = self.to_shut_out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(addresses) = owing.get(name) {
            let mut shut_out = self.shut_out.lock().unwrap_or_else(PoisonError::into_inner);
            for address in addresses.split(',').filter(|address| !address.is_empty()) {
                // Once for all that it owned: each time the monitors have to agree.
                if !shut_out.contains(address) {
                    self.cluster.shut_out(address, SHUT_OUT_S).map_err(store)?;
                    shut_out.insert(address.to_owned());
                }
            }
            owing.remove(name);
        }
        Ok(Arc::new(Slot { name: name.to_owned(), epoch, lease: self.lease.clone() }))
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

    /// Stored records of the held slots, if all are still this process's: a beat of which nothing was heard may have been there.
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

    /// Changes one that is held, or gives it back (`None` of the change: struck out).
    fn change(&self, name: &str, change: impl Fn(&Record) -> Option<Record>) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = held.get(name) else { return Ok(()) };
        let next = change(record);
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_omap(name.as_bytes(), &record.encode());
        match &next {
            Some(next) => op.omap_set([(name.as_bytes(), next.encode().as_slice())]),
            None => op.omap_remove([name.as_bytes()]),
        };
        match op.run(&self.pool, names::SLOTS) {
            Ok(_) => {}
            // What became of it the next beat finds out.
            Err(Error::Changed { .. }) => return Err(fenced(name)),
            Err(error) => return Err(store(error)),
        }
        match next.filter(|next| next.is_held) {
            Some(next) => held.insert(name.to_owned(), next),
            None => held.remove(name),
        };
        Ok(())
    }

    /// Record of a slot that nobody has any more; of a server none.
    fn given_back(name: &str, record: &Record) -> Option<Record> {
        let free = Record { is_held: false, at: String::new(), flags: 0, ..record.clone() };
        server_of(name).is_none().then_some(free)
    }

    /// Gives all of it back.
    fn release(&self) -> Result<()> {
        self.lease.until.store(0, Ordering::Release);
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        if held.is_empty() || self.lease.lost.get().is_some() {
            return Ok(());
        }
        let mut op = WriteOp::new().map_err(store)?;
        for (name, record) in &held {
            op.assert_omap(name.as_bytes(), &record.encode());
            match Inner::given_back(name, record) {
                Some(free) => op.omap_set([(name.as_bytes(), free.encode().as_slice())]),
                None => op.omap_remove([name.as_bytes()]),
            };
        }
        op.run(&self.pool, names::SLOTS).map(drop).map_err(store)
    }
}

/// Name of this process, unlike that of any other one of this machine: the machine's start, the namespace of its number, the number, its
/// start time.
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

/// True if that was a process of this machine, and is gone. Of others nothing is known.
pub(crate) fn is_dead(name: &str) -> bool {
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
            server: 5,
            flags: SHARES,
            at: "d".into(),
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let before = "0103000000000000000400000000000000d0070000010000006101000000620100000063";
        assert_eq!(hex(&record.encode()), format!("02{before}0500000000000000010100000064"));
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let mut old = record.encode();
        old[0] = 1;
        old.truncate(1 + before.len() / 2);
        let of_old = Record { server: 0, flags: 0, at: String::new(), ..record };
        assert_eq!(Record::decode(&old), Ok(of_old), "version 1 is read");
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
