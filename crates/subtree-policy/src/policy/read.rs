//! Reading a policy's document. Each value knows where it stands, so that what is wrong is told with its place, be it in the
//! middle of a composition. Not here: what a composition is.

use loligo_types::{JournalMode, Placement};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::journal;
use super::placement::{KEY, VALUE_LEN_MAX};
use super::{ALLOCATED_INODES_MAX, Interfere, LAG_MAX_MS, LEN_MAX, SubtreePolicy, SyncInterval};
use crate::ceiling::Ceiling;
use crate::cell::{Cell, Consistency, Durability, durability_mechanism};
use crate::composition::Composition;
use crate::fault::{Cause, Flaw, shown};
use crate::floor::Floor;
use crate::mechanism::Mechanism::{AppendClientJournal, Rpcs, VolatileApply};
use crate::mechanism::Purpose;
use crate::nearest;
use crate::pipeline::Pipeline;
use crate::preset::Preset;

/// All keys.
const KEYS: [&str; 14] = [
    "preset",
    "consistency",
    "durability",
    "pipeline",
    "allocated_inodes",
    "interfere",
    "sync_interval",
    "lag",
    "blind",
    KEY,
    journal::KEY,
    journal::THRESHOLD_KEY,
    "floor",
    "ceiling",
];
/// All keys of the table `floor`.
const FLOOR_KEYS: [&str; 2] = ["consistency", "durability"];

/// All keys of the table `ceiling`.
const CEILING_KEYS: [&str; 3] = ["decouple", "allocated_inodes", "lease"];

/// Description of valid lags, for errors.
const LAG_EXPECTED: &str = "a time from \"10ms\" to \"1h\" with one of the units ms, s, min (or m), h";

/// Of which the composition has to consist.
const COMPOSITION: &str = "a composition of mechanisms in quotes";

pub(super) fn read(text: &str) -> Result<SubtreePolicy, Flaw> {
    if text.len() > LEN_MAX {
        return Err(Flaw::new(Cause::TooLong { what: "a policy", max: LEN_MAX }, LEN_MAX));
    }
    let document = DeTable::parse(text).map_err(|error| {
        Flaw::new(Cause::Toml(error.message().to_string()), error.span().map_or(0, |span| span.start))
    })?;
    let table = Table { text, table: document.get_ref() };
    table.knows(&KEYS)?;
    let base = base(&table)?;
    let pipeline = pipeline(&table, base)?;
    let interfere = Interfere::default_of(&pipeline, table.value("sync_interval").is_some());
    let mut policy = SubtreePolicy { interfere, pipeline, ..SubtreePolicy::default() };
    if let Some(value) = table.value("allocated_inodes") {
        policy.allocated_inodes = allocated_inodes(&value)?;
    }
    if let Some(value) = table.value("interfere") {
        policy.interfere = value.level("\"allow\", \"read\" or \"block\"", Interfere::of)?;
        // Others may work where nothing is decoupled: "allow" is true there.
        if policy.interfere != Interfere::Allow && !policy.pipeline.has_client_journal() {
            let cell = policy.cell().to_string();
            return Err(Flaw::new(
                Cause::InterfereWithoutJournal { interfere: policy.interfere.name(), cell },
                value.at(),
            ));
        }
        if policy.interfere == Interfere::Read && !policy.pipeline.merges() {
            return Err(Flaw::new(Cause::ReadWithoutMerge, value.at()));
        }
    }
    if let Some(value) = table.value("sync_interval") {
        policy.sync_interval = Some(value.level(SyncInterval::EXPECTED, SyncInterval::of)?);
        if !policy.pipeline.has_client_journal() {
            return Err(Flaw::new(Cause::SyncWithoutJournal, value.at()));
        }
    }
    if let Some(value) = table.value("lag") {
        policy.lag = Some(value.level(LAG_EXPECTED, lag)?);
        if !policy.is_relaxed() {
            return Err(Flaw::new(Cause::LagWithoutRelaxed(policy.cell().to_string()), value.at()));
        }
    }
    if let Some(value) = table.value("blind") {
        policy.blind = value.bool()?;
    }
    if let Some(value) = table.value(KEY) {
        policy.placement = Some(placement(&value, &policy)?);
    }
    if let Some(value) = table.value(journal::KEY) {
        let mode = journal_mode(&value)?;
        if mode.takes_data() && policy.is_relaxed() {
            return Err(Flaw::new(Cause::JournalOfRelaxed(mode.name()), value.at()));
        }
        policy.journal = Some(mode);
    }
    if let Some(value) = table.value(journal::THRESHOLD_KEY) {
        policy.journal_threshold = Some(journal_threshold(&value, policy.journal)?);
    }
    if let Some(value) = table.value("floor") {
        policy.floor = floor(&value, policy.cell())?;
    }
    if let Some(value) = table.value("ceiling") {
        policy.ceiling = ceiling(&value, &policy)?;
    }
    Ok(policy)
}

/// Reads a lag: the longest time that a change stays not durable.
fn lag(text: &str) -> Option<SyncInterval> {
    SyncInterval::of(text).filter(|lag| lag.millis() <= LAG_MAX_MS)
}

/// The preset's cell, which the other keys override.
fn base(table: &Table<'_>) -> Result<Cell, Flaw> {
    let Some(value) = table.value("preset") else { return Ok(Cell::POSIX) };
    let names = Preset::ALL.map(Preset::name).join(", ");
    let name = value.string(&format!("one of {names}"))?;
    let hint = Preset::nearest(name).map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    let unknown = || value.wrong(format!("one of {names}"), format!("`{}`{hint}", shown(name)));
    Preset::of(name).map(Preset::cell).ok_or_else(unknown)
}

fn pipeline(table: &Table<'_>, base: Cell) -> Result<Pipeline, Flaw> {
    let (consistency, durability) = (table.value("consistency"), table.value("durability"));
    if let Some(whole) = table.value("pipeline") {
        for (key, other) in [("consistency", &consistency), ("durability", &durability)] {
            if let Some(value) = other {
                return Err(Flaw::new(Cause::PipelineAnd(key), value.at()));
            }
        }
        return Pipeline::of(whole.composition(COMPOSITION)?);
    }
    let consistency =
        consistency.map_or(Ok(Said::Level(base.consistency, 0)), |value| said(&value, Consistency::of))?;
    let durability = durability.map_or(Ok(Said::Level(base.durability, 0)), |value| said(&value, Durability::of))?;
    combined(consistency, durability)
}

/// Value of a key.
enum Said<L> {
    /// A level, and where that stands.
    Level(L, usize),
    Composition(Composition),
}

fn said<L>(value: &Value<'_>, level: fn(&str) -> Option<L>) -> Result<Said<L>, Flaw> {
    let purpose = if value.key == "consistency" { Purpose::Consistency } else { Purpose::Durability };
    let expected = match purpose {
        Purpose::Consistency => "a composition of mechanisms, or one of \"invisible\", \"weak\", \"strong\"",
        Purpose::Durability => "a composition of mechanisms, or one of \"none\", \"local\", \"global\"",
    };
    if let Some(level) = level(value.string(expected)?) {
        return Ok(Said::Level(level, value.at()));
    }
    let composition = value.composition(expected)?;
    match composition.leaves().iter().find(|leaf| leaf.mechanism.purpose() != purpose) {
        Some(leaf) => Err(Flaw::new(Cause::WrongKey { mechanism: leaf.mechanism }, leaf.place)),
        None => Ok(Said::Composition(composition)),
    }
}

/// Both keys as one pipeline: what does operations, what makes durable, what applies. The thesis splits the cells of its table
/// between two keys and does not say how they come together; so they are in each of its cells.
fn combined(consistency: Said<Consistency>, durability: Said<Durability>) -> Result<Pipeline, Flaw> {
    let consistency = match consistency {
        Said::Composition(composition) => composition,
        Said::Level(Consistency::Strong, at) => Composition::of(&[Rpcs], at),
        Said::Level(Consistency::Weak, at) => Composition::of(&[AppendClientJournal, VolatileApply], at),
        Said::Level(Consistency::Invisible, at) => Composition::of(&[AppendClientJournal], at),
    };
    // It has to make sense by itself: the order of its stages is ours below, and a wrong one would pass unseen.
    Pipeline::of(consistency.clone())?;
    let durability = match durability {
        Said::Composition(composition) => Some(composition),
        Said::Level(level, at) => {
            durability_mechanism(level, consistency.has(Rpcs)).map(|mechanism| Composition::of(&[mechanism], at))
        }
    };
    let (mut parts, applies): (Vec<_>, Vec<_>) = consistency
        .apart()
        .into_iter()
        .partition(|stage| stage.mechanisms().iter().any(|mechanism| mechanism.does_operations()));
    parts.extend(durability);
    parts.extend(applies);
    Pipeline::of(Composition::together(parts))
}

fn allocated_inodes(value: &Value<'_>) -> Result<u64, Flaw> {
    let expected = || format!("a whole number from 1 to {ALLOCATED_INODES_MAX}");
    let DeValue::Integer(number) = value.value() else { return Err(value.wrong(expected(), value.found())) };
    let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
    let inside = parsed.filter(|number| (1..=ALLOCATED_INODES_MAX).contains(number));
    inside.ok_or_else(|| value.wrong(expected(), shown(&number.to_string())))
}

fn placement(value: &Value<'_>, policy: &SubtreePolicy) -> Result<Placement, Flaw> {
    let names = Placement::ALL.map(Placement::name);
    let expected = || format!("one of {}", names.join(", "));
    let name = value.string(&expected())?;
    let hint = nearest::of(name, names).map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    let unknown = || value.wrong(expected(), format!("`{}`{hint}", shown(name)));
    let placement = Placement::named(name.as_bytes()).ok_or_else(unknown)?;
    if policy.excludes(placement) {
        return Err(Flaw::new(Cause::ScatteredWithJournal(placement.name()), value.at()));
    }
    // It is shown with another one when the directory has another one.
    if value.text.len() - value.value.span().len() + VALUE_LEN_MAX > LEN_MAX {
        return Err(Flaw::new(
            Cause::TooLong { what: "a policy with a placement", max: LEN_MAX - VALUE_LEN_MAX },
            value.at(),
        ));
    }
    Ok(placement)
}

fn journal_mode(value: &Value<'_>) -> Result<JournalMode, Flaw> {
    let names = JournalMode::ALL.map(JournalMode::name);
    let expected = || format!("one of {}", names.join(", "));
    let name = value.string(&expected())?;
    let hint = nearest::of(name, names).map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    JournalMode::named(name).ok_or_else(|| value.wrong(expected(), format!("`{}`{hint}", shown(name))))
}

fn journal_threshold(value: &Value<'_>, mode: Option<JournalMode>) -> Result<u32, Flaw> {
    let expected = journal::threshold_expected();
    let text = value.string(&expected)?;
    let threshold = journal::threshold_of(text).ok_or_else(|| value.wrong(expected, value.found()))?;
    if mode != Some(JournalMode::Selective) {
        return Err(Flaw::new(Cause::ThresholdWithoutSelective(mode.map(JournalMode::name)), value.at()));
    }
    Ok(threshold)
}

fn floor(value: &Value<'_>, own: Cell) -> Result<Floor, Flaw> {
    let DeValue::Table(table) = value.value() else {
        return Err(value.wrong("a table with consistency, durability or both".into(), value.found()));
    };
    let table = Table { text: value.text, table };
    table.knows(&FLOOR_KEYS)?;
    let mut floor = Floor::default();
    if let Some(value) = table.value("consistency") {
        let level = value.level("\"invisible\", \"weak\" or \"strong\"", Consistency::of)?;
        floor.consistency = Some(level);
        not_below("consistency", own.consistency, level, value.at())?;
    }
    if let Some(value) = table.value("durability") {
        let level = value.level("\"none\", \"local\" or \"global\"", Durability::of)?;
        floor.durability = Some(level);
        not_below("durability", own.durability, level, value.at())?;
    }
    Ok(floor)
}

fn ceiling(value: &Value<'_>, policy: &SubtreePolicy) -> Result<Ceiling, Flaw> {
    let DeValue::Table(table) = value.value() else {
        return Err(value.wrong("a table with decouple, allocated_inodes, lease or some of them".into(), value.found()));
    };
    let table = Table { text: value.text, table };
    table.knows(&CEILING_KEYS)?;
    let mut ceiling = Ceiling::default();
    if let Some(value) = table.value("decouple") {
        ceiling.forbids = !value.bool()?;
    }
    if let Some(value) = table.value("allocated_inodes") {
        let most = allocated_inodes(&value)?;
        ceiling.allocated_inodes = Some(most);
        if policy.pipeline.has_client_journal() && policy.allocated_inodes > most {
            return Err(Flaw::new(Cause::AboveOwnCeiling { own: policy.allocated_inodes, most }, value.at()));
        }
    }
    if let Some(value) = table.value("lease") {
        ceiling.lease = Some(value.level(SyncInterval::EXPECTED, SyncInterval::of)?);
    }
    Ok(ceiling)
}

/// Directories below that say nothing take over this policy: it cannot ask more of them than it gives.
fn not_below<L: Ord + ToString>(key: &'static str, own: L, floor: L, at: usize) -> Result<(), Flaw> {
    if own < floor {
        let cause = Cause::BelowOwnFloor { key, own: own.to_string(), floor: floor.to_string() };
        return Err(Flaw::new(cause, at));
    }
    Ok(())
}

/// A table of the document.
struct Table<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Fails at the first key of the text that is not one of these.
    fn knows(&self, keys: &[&'static str]) -> Result<(), Flaw> {
        let unknown = self.table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let nearest = nearest::of(key.get_ref(), keys.iter().copied());
        Err(Flaw::new(Cause::UnknownKey { key: key.get_ref().to_string(), nearest }, key.span().start))
    }

    fn value(&self, key: &'static str) -> Option<Value<'a>> {
        let value = self.table.iter().find(|(name, _)| name.get_ref() == key)?.1;
        Some(Value { text: self.text, key, value })
    }
}

/// A value of the document.
struct Value<'a> {
    text: &'a str,
    key: &'static str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// Bytes before it.
    fn at(&self) -> usize {
        self.value.span().start
    }

    fn found(&self) -> String {
        match self.value() {
            DeValue::String(text) => format!("`{}`", shown(text)),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Integer(number) => shown(&number.to_string()),
            DeValue::Float(_) => "a fraction".to_string(),
            DeValue::Datetime(_) => "a date".to_string(),
            DeValue::Array(_) => "a list".to_string(),
            DeValue::Table(_) => "a table".to_string(),
        }
    }

    fn wrong(&self, expected: String, found: String) -> Flaw {
        Flaw::new(Cause::BadValue { key: self.key, expected, found }, self.at())
    }

    fn string(&self, expected: &str) -> Result<&'a str, Flaw> {
        self.value().as_str().ok_or_else(|| self.wrong(expected.to_string(), self.found()))
    }

    fn bool(&self) -> Result<bool, Flaw> {
        self.value().as_bool().ok_or_else(|| self.wrong("true or false".into(), self.found()))
    }

    /// One of few words.
    fn level<L>(&self, expected: &str, of: fn(&str) -> Option<L>) -> Result<L, Flaw> {
        of(self.string(expected)?).ok_or_else(|| self.wrong(expected.to_string(), self.found()))
    }

    /// A composition, whose places are those in the document.
    fn composition(&self, expected: &str) -> Result<Composition, Flaw> {
        let inner = self.string(expected)?;
        let span = self.value.span();
        let raw = self.text.get(span.clone()).unwrap_or("");
        // With escapes in it, it does not stand in the document as it is: then all is at its beginning.
        let begin = raw.find(inner).filter(|_| !inner.is_empty()).map(|quotes| span.start + quotes);
        let place = |at: usize| begin.map_or(span.start, |begin| begin + at);
        match Composition::read(inner) {
            Ok(composition) => Ok(composition.placed(place)),
            Err(flaw) => Err(Flaw::new(flaw.cause, place(flaw.offset))),
        }
    }
}
