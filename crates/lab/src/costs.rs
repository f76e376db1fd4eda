//! What the simulation does not compute but was measured: how long a rank's thread takes for what, how long a sync and a
//! message on its way take. Read from a file that says when and where it was measured.

/// Of the example `real_times` of this crate, where the file has no line for it.
const SNAPSHOT_NS: u64 = 9_000;
const PIECE_NS: u64 = 300;

/// Nanoseconds.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Of the rank's thread for one request, with its share of everything else that the thread does: making a name.
    pub create: u64,
    /// Likewise, of looking at something.
    pub stat: u64,
    /// Likewise.
    pub rename: u64,
    /// Likewise.
    pub unlink: u64,
    /// Of the rank's thread for one message of another rank.
    pub peer: u64,
    /// Of the rank's thread for a tick, every 20 ms.
    pub tick: u64,
    /// Of the rank's thread for a step of a long work, as a migration's.
    pub step: u64,
    /// Of the rank's thread for showing a balancer's policy what it has, beside a tick, and for each piece shown.
    pub snapshot: u64,
    /// See `snapshot`.
    pub piece: u64,
    /// A sync of the journal, while which the thread does other things.
    pub sync: u64,
    /// A read of the table; likewise.
    pub load: u64,
    /// A message on its way, to a client or to a rank.
    pub net: u64,
    /// Where and when.
    pub measured: String,
}

impl Costs {
    /// Those that were measured last, as they stand in docs/scaling.
    pub fn measured() -> Result<Costs, String> {
        Costs::parse(include_str!("../../../docs/scaling/costs.txt"))
    }

    /// From lines `name = microseconds`; `measured = ...` says where and when; `#` begins a comment.
    pub fn parse(text: &str) -> Result<Costs, String> {
        let mut measured = String::new();
        let mut found = std::collections::BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) = line.split_once('=').ok_or(format!("`{line}` is not `name = value`"))?;
            let (name, value) = (name.trim(), value.trim());
            if name == "measured" {
                measured = value.to_owned();
                continue;
            }
            let us: f64 = value.parse().map_err(|_| format!("{name}: `{value}` is no number of microseconds"))?;
            if !us.is_finite() || us <= 0.0 {
                return Err(format!("{name}: {value} microseconds cannot be"));
            }
            found.insert(name.to_owned(), (us * 1000.0).round() as u64);
        }
        let of = |name: &str| found.get(name).copied().ok_or(format!("there is no line `{name} = ...`"));
        let or = |name: &str, default: u64| found.get(name).copied().unwrap_or(default);
        Ok(Costs {
            snapshot: or("snapshot", SNAPSHOT_NS),
            piece: or("piece", PIECE_NS),
            create: of("create")?,
            stat: of("stat")?,
            rename: of("rename")?,
            unlink: of("unlink")?,
            peer: of("peer")?,
            tick: of("tick")?,
            step: of("step")?,
            sync: of("sync")?,
            load: of("load")?,
            net: of("net")?,
            measured,
        })
    }
}
