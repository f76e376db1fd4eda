//! Data held in inodes: what is logged in short is read whole, whatever of the journal is trimmed and whatever the table has already.

use loligo_types::{Kind, Random, Time};

use super::*;

fn whole(ino: u64, data: &[u8]) -> Event {
    Event::Inline { ino: Ino(ino), data: data.into() }
}

/// A journal with the data as it stands after each record; dirty all the time.
struct Log {
    shortener: Shortener,
    now: BTreeMap<Ino, Arc<[u8]>>,
    records: Vec<Vec<Event>>,
}

impl Default for Log {
    fn default() -> Log {
        Log { shortener: Shortener::new(512), now: BTreeMap::new(), records: Vec::new() }
    }
}

impl Log {
    fn add(&mut self, events: &[Event]) -> &[Event] {
        let lsn = Lsn(self.records.len() as u64 + 1);
        let now = &self.now;
        let short = self.shortener.shorten(lsn, events, |ino| Some((now.get(&ino).cloned()?, true)));
        apply(&mut self.now, events);
        self.records.push(short.map_or_else(|| events.to_vec(), |(events, _)| events));
        self.records.last().expect("it was just pushed")
    }

    fn append(&mut self, ino: u64, bytes: &[u8]) -> &[Event] {
        let data = [&self.now.get(&Ino(ino)).cloned().unwrap_or_default(), bytes].concat();
        self.add(&[whole(ino, &data)])
    }

    fn replay(&self, records: &[Vec<Event>], first: u64) -> Result<BTreeMap<Ino, Arc<[u8]>>, PatchError> {
        replayed(
            records.iter().cloned().enumerate().map(|(at, events)| (Lsn(first + at as u64), events)),
            BTreeMap::new(),
        )
    }
}

fn apply(data: &mut BTreeMap<Ino, Arc<[u8]>>, events: &[Event]) {
    for event in events {
        match event {
            Event::Inline { ino, data: now } => drop(data.insert(*ino, now.clone())),
            Event::InlineGone(ino) | Event::InodeGone(ino) => drop(data.remove(ino)),
            Event::Departed(inos) => inos.iter().for_each(|ino| drop(data.remove(ino))),
            Event::InlinePatch(_) => panic!("a change that was not made whole"),
            _ => {}
        }
    }
}

fn replayed(
    records: impl Iterator<Item = (Lsn, Vec<Event>)>,
    mut table: BTreeMap<Ino, Arc<[u8]>>,
) -> Result<BTreeMap<Ino, Arc<[u8]>>, PatchError> {
    let mut log = InlineLog::default();
    for (lsn, mut events) in records {
        log.make_whole(lsn, &mut events)?;
        apply(&mut table, &events);
    }
    Ok(table)
}

fn is_short(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::InlinePatch(_)))
}

#[test]
fn small_appends_are_logged_in_short_from_the_second_change_on() {
    let mut log = Log::default();
    assert!(!is_short(log.append(9, &[1; 6000])), "nothing to build on");
    assert!(!is_short(log.append(9, &[2; 128])), "most files are written once: nothing was kept of the first");
    for _ in 0..50 {
        let Event::InlinePatch(patch) = &log.append(9, &[3; 128])[0] else { panic!("it is not short") };
        assert_eq!((patch.whole, patch.bytes.len()), (Lsn(2), 128));
    }
    assert_eq!(log.replay(&log.records, 1), Ok(log.now.clone()));
}

#[test]
fn short_data_large_changes_and_other_events_of_the_data_are_logged_whole() {
    let mut log = Log::default();
    for _ in 0..5 {
        assert!(!is_short(log.append(9, &[1; 90])), "the data is short");
    }
    let mut log = Log::default();
    log.append(9, &[1; 1000]);
    log.append(9, &[1; 1000]);
    assert!(is_short(log.append(9, &[1; 900])));
    assert!(!is_short(log.append(9, &[1; 4000])), "most of the data is new");
    assert!(is_short(log.append(9, &[1])), "which is built on from then on");
    for event in [Event::InlineGone(Ino(9)), Event::InodeGone(Ino(9)), Event::Departed([Ino(8), Ino(9)].into())] {
        log.add(&[event]);
        assert!(!is_short(log.append(9, &[1; 2000])));
        assert!(!is_short(log.append(9, &[1])));
        assert!(is_short(log.append(9, &[1])));
    }
    let two = [whole(9, &[5; 2000]), whole(9, &[5; 2001])];
    assert!(!is_short(log.add(&two)) && !is_short(log.append(9, &[1])), "a record with two states of it");
    assert_eq!(log.replay(&log.records, 1), Ok(log.now.clone()));
}

#[test]
fn the_whole_data_comes_again_after_many_changes_and_after_many_bytes() {
    let mut log = Log::default();
    log.append(9, &[1; 20_000]);
    let short: Vec<bool> = (0..300).map(|_| is_short(log.append(9, b"x"))).collect();
    let wholes: Vec<usize> = (0..300).filter(|at| !short[*at]).collect();
    assert_eq!(wholes, [0, 129, 258]);
    let mut log = Log::default();
    log.append(9, &[1; 20_000]);
    let short: Vec<bool> = (0..300u32).map(|n| is_short(log.add(&[whole(9, &[n as u8; 8000])]))).collect();
    assert!(short.iter().all(|short| !short), "all of it is new");
    let mut bytes = 0;
    for n in 0..100u8 {
        let mut data = log.now[&Ino(9)].to_vec();
        data[..3000].fill(n.wrapping_add(100));
        match is_short(log.add(&[whole(9, &data)])) {
            true => bytes += 3000,
            false => bytes = 0,
        }
        assert!(bytes <= 4 * 8000, "{bytes}");
    }
}

#[test]
fn of_more_files_than_are_kept_each_is_whole_once_more_and_right() {
    let mut log = Log::default();
    for round in 0..3 {
        for ino in 1..5000 {
            log.append(ino, &[round; 600]);
        }
    }
    assert!(log.shortener.young.len() + log.shortener.old.len() <= 2 * FILES);
    assert_eq!(log.replay(&log.records, 1), Ok(log.now.clone()));
}

#[test]
fn a_missing_record_is_found_and_a_trimmed_one_is_passed_over() {
    let mut log = Log::default();
    for _ in 0..6 {
        log.append(9, &[7; 600]);
    }
    assert!(log.records[2..].iter().all(|events| is_short(events)));
    // Trimmed: the table has all of it.
    for first in 3..6 {
        assert_eq!(log.replay(&log.records[first..], first as u64 + 1), Ok(BTreeMap::new()));
    }
    let without = |at: usize| {
        let mut records = log.records.clone();
        records[at].clear();
        log.replay(&records, 1)
    };
    assert_eq!(without(0), Ok(log.now.clone()), "nothing builds on it");
    assert_eq!(without(1), Err(PatchError::NoBase { ino: Ino(9), whole: Lsn(2) }));
    assert_eq!(without(3), Err(PatchError::OtherBase { ino: Ino(9), whole: Lsn(2) }));
    assert!(without(5).is_ok(), "nor on the last");
}

#[test]
fn data_that_was_changed_past_the_journal_is_logged_whole() {
    let mut log = Log::default();
    for _ in 0..3 {
        log.append(9, &[7; 600]);
    }
    log.now.insert(Ino(9), [8; 1800][..].into());
    assert!(!is_short(log.append(9, b"x")));
}

/// A record of one inode's data as a rank has it.
#[derive(Default)]
struct Slot {
    data: Option<Arc<[u8]>>,
    /// The first change that no checkpoint has taken.
    dirty: Option<Lsn>,
    /// First change and state of the data that a checkpoint is writing.
    flying: Option<(Lsn, Option<Arc<[u8]>>)>,
}

/// A rank with a table, as `namespace` keeps what is dirty.
struct World {
    shortener: Shortener,
    slots: BTreeMap<Ino, Slot>,
    table: BTreeMap<Ino, Arc<[u8]>>,
    journal: BTreeMap<Lsn, Vec<Event>>,
    last: Lsn,
    short: u64,
    late: u64,
    /// Builds also on data that is not dirty.
    careless: bool,
}

impl World {
    fn new(careless: bool) -> World {
        World {
            shortener: Shortener::new(512),
            slots: BTreeMap::new(),
            table: BTreeMap::new(),
            journal: BTreeMap::new(),
            last: Lsn(0),
            short: 0,
            late: 0,
            careless,
        }
    }

    fn log(&mut self, event: Event, ino: Ino, data: Option<Arc<[u8]>>) {
        let lsn = self.last.next();
        self.last = lsn;
        let mut inode = loligo_types::Inode::new(ino, Kind::File, 0, 0, 0, Ino(1), Time(0));
        inode.size = data.as_ref().map_or(0, |data| data.len() as u64);
        let events = [event, Event::Inode(Box::new(inode))];
        let (slots, careless) = (&self.slots, self.careless);
        let before = |ino: Ino| {
            let slot = slots.get(&ino)?;
            Some((slot.data.clone()?, careless || slot.dirty.is_some()))
        };
        let short = self.shortener.shorten(lsn, &events, before);
        self.short += u64::from(short.is_some());
        self.journal.insert(lsn, short.map_or(events.into(), |(events, _)| events));
        let slot = self.slots.entry(ino).or_default();
        slot.data = data;
        slot.dirty.get_or_insert(lsn);
    }

    fn write(&mut self, random: &mut Random, ino: Ino) {
        let old = self.slots.get(&ino).and_then(|slot| slot.data.clone());
        let mut data = old.clone().unwrap_or_default().to_vec();
        match random.below(12) {
            0 => data = vec![random.below(256) as u8; random.below(4000) as usize],
            1 => data.truncate(random.below(data.len() as u64 + 1) as usize),
            2 if old.is_some() => {
                let event = if random.below(2) == 0 { Event::InodeGone(ino) } else { Event::InlineGone(ino) };
                return self.log(event, ino, None);
            }
            3..6 if !data.is_empty() => {
                let at = random.below(data.len() as u64) as usize;
                let len = (data.len() - at).min(1 + random.below(60) as usize);
                data[at..at + len].fill(random.below(256) as u8);
            }
            6 => data.resize(data.len() + random.below(300) as usize, 0),
            _ => data.extend(vec![random.below(256) as u8; 1 + random.below(200) as usize]),
        }
        if data.len() > 8192 {
            data.clear();
        }
        let data: Arc<[u8]> = data.into();
        self.log(Event::Inline { ino, data: data.clone() }, ino, Some(data));
    }

    fn checkpoint(&mut self, random: &mut Random) {
        if self.slots.values().all(|slot| slot.flying.is_none()) {
            for slot in self.slots.values_mut().filter(|slot| slot.dirty.is_some()) {
                if random.below(3) > 0 {
                    slot.flying = slot.dirty.take().map(|since| (since, slot.data.clone()));
                }
            }
            return;
        }
        let (lands, is_written) = (random.below(3) > 0, random.below(2) == 0);
        for (ino, slot) in &mut self.slots {
            let Some((since, data)) = slot.flying.take() else { continue };
            // One that is said to have failed may be in the table.
            if lands || is_written {
                match data {
                    Some(data) => drop(self.table.insert(*ino, data)),
                    None => drop(self.table.remove(ino)),
                }
            }
            if !lands {
                slot.dirty = Some(since);
            }
        }
    }

    fn needed(&self) -> Lsn {
        let since = |slot: &Slot| slot.flying.as_ref().map(|flying| flying.0).into_iter().chain(slot.dirty).min();
        self.slots.values().filter_map(since).min().unwrap_or(self.last.next())
    }

    /// A crash at this moment, with the journal from any record on that it may begin with.
    fn finds_all(&mut self, random: &mut Random) -> bool {
        let oldest = self.journal.keys().next().copied().unwrap_or(self.needed());
        let from = Lsn(oldest.0 + random.below(self.needed().0 - oldest.0 + 1));
        let mut table = self.table.clone();
        if random.below(2) == 0 {
            // The batch under way is in the table.
            for (ino, slot) in &self.slots {
                match &slot.flying {
                    Some((_, Some(data))) => drop(table.insert(*ino, data.clone())),
                    Some((_, None)) => drop(table.remove(ino)),
                    None => {}
                }
            }
        }
        let records = self.journal.range(from..).map(|(lsn, events)| (*lsn, events.clone()));
        self.late += records
            .clone()
            .filter(|(_, events)| matches!(&events[0], Event::InlinePatch(patch) if patch.whole < from))
            .count() as u64;
        let now = self.slots.iter().filter_map(|(ino, slot)| Some((*ino, slot.data.clone()?))).collect();
        replayed(records, table) == Ok(now)
    }

    /// Some time of it; whether all was found whenever it was looked for.
    fn run(&mut self, seed: u64) -> bool {
        let mut random = Random::new(seed);
        (0..150).all(|_| {
            match random.below(10) {
                0 => self.checkpoint(&mut random),
                1 => {
                    let needed = self.needed();
                    self.journal.retain(|lsn, _| *lsn >= needed);
                }
                _ => {
                    let ino = Ino(1 + random.below(3));
                    self.write(&mut random, ino);
                }
            }
            self.finds_all(&mut random)
        })
    }
}

#[test]
fn a_crash_at_any_moment_over_any_table_and_with_any_trim_finds_the_data() {
    let (mut short, mut late) = (0, 0);
    for seed in 1..=300 {
        let mut world = World::new(false);
        assert!(world.run(seed), "seed {seed}");
        (short, late) = (short + world.short, late + world.late);
    }
    assert!(short > 5000 && late > 5000, "{short} in short, {late} after the record that they build on");
}

#[test]
fn changes_of_what_a_checkpoint_has_written_would_be_lost() {
    assert!((1..=50).any(|seed| !World::new(true).run(seed)));
}
