//! Costs that the simulation does not compute, as they were measured: times of a rank's thread by kind of work, of a sync, and of
//! a message on its way. Read from a file that says when and where it was measured. Not what happens in that time: `world.rs`.

use loligo_mds::Input;
use loligo_mds::peer::PeerMsg;
use loligo_types::msg::ToServer;
use loligo_types::{Answer, Op};

/// Of the example `real_times` of this crate, where the file has no line for it.
const SNAPSHOT_NS: u64 = 9_000;
const PIECE_NS: u64 = 300;
/// Likewise: see docs/scaling/costs.txt.
const NAME_NS: u64 = 800;
const ENTRY_NS: u64 = 560;

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
    /// Likewise, of a way by path of one name.
    pub walk: u64,
    /// Of the rank's thread for each further name of a way.
    pub name: u64,
    /// Of the rank's thread for each entry that a listing answers with, beside the request.
    pub entry: u64,
    /// Of the rank's thread for one message of another rank.
    pub peer: u64,
    /// Of the rank's thread for one letter of another rank: a record of its journal comes of it.
    pub letter: u64,
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
        let (create, stat) = (of("create")?, of("stat")?);
        Ok(Costs {
            // As a look at one name, and as what another rank's request does here.
            walk: or("walk", stat),
            letter: or("letter", create),
            name: or("name", NAME_NS),
            entry: or("entry", ENTRY_NS),
            snapshot: or("snapshot", SNAPSHOT_NS),
            piece: or("piece", PIECE_NS),
            create,
            stat,
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

    /// All work of ranks' threads takes so many times as long; messages on their way, syncs and reads do not.
    #[must_use]
    pub fn slower(self, times: f64) -> Costs {
        let of = |ns: u64| (ns as f64 * times).round() as u64;
        let [create, stat, rename, unlink] = [self.create, self.stat, self.rename, self.unlink].map(of);
        let [walk, name, entry, peer, letter] = [self.walk, self.name, self.entry, self.peer, self.letter].map(of);
        let [tick, step, snapshot, piece] = [self.tick, self.step, self.snapshot, self.piece].map(of);
        Costs { create, stat, rename, unlink, walk, name, entry, peer, letter, tick, step, snapshot, piece, ..self }
    }

    /// Of the rank's thread for what comes to it, nanoseconds; what shows only when it was dealt with is not in it.
    pub fn of(&self, input: &Input) -> u64 {
        match input {
            Input::Message { msg: ToServer::Request(request), .. } => self.of_request(&request.op),
            Input::Peer { msg: PeerMsg::Letter { .. }, .. } => self.letter,
            // A message in and a small answer, as those of other ranks.
            Input::Message {
                msg: ToServer::RecallDone { .. } | ToServer::Release(_) | ToServer::Reclaim(_), ..
            }
            | Input::Message { msg: ToServer::Data(_) | ToServer::Hello(_), .. }
            | Input::Peer { .. } => self.peer,
            Input::Tick => self.tick,
            // In what a request costs on average.
            _ => 0,
        }
    }

    fn of_request(&self, op: &Op) -> u64 {
        match op {
            Op::Mknod { .. } | Op::Create { .. } | Op::Mkdir { .. } | Op::Symlink { .. } | Op::Link { .. } => {
                self.create
            }
            Op::Rename { .. } => self.rename,
            Op::Unlink { .. } | Op::Rmdir { .. } => self.unlink,
            // Changes of one inode: a record in the journal, as for an unlink, and fewer entries.
            Op::SetAttr { .. } | Op::WriteInline { .. } | Op::SetData { .. } => self.unlink,
            Op::Walk { names, .. } => self.walk + self.name * (names.len() as u64).saturating_sub(1),
            Op::Via { names, what, .. } => self.of_request(what) + self.name * names.len() as u64,
            _ => self.stat,
        }
    }

    /// Likewise for an answer, beside the request.
    pub fn of_answer(&self, answer: &Answer) -> u64 {
        match answer {
            Answer::Entries { entries, .. } => self.entry * entries.len() as u64,
            Answer::Walked { last, .. } => self.of_answer(last),
            _ => 0,
        }
    }
}
