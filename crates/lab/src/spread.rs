//! Distribution of directories over ranks when the clients begin, made by migrations as an administrator orders them. Not later moves.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use loligo_mds::admin::{Ask, Told};
use loligo_types::hash::name_hash;
use loligo_types::{Frag, Ino, Rank};
use loligo_workload::Path;

use crate::clients::Clients;
use crate::world::{Next, World};

/// Rule by which directories are dealt out to ranks before the clients begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// All at rank 0.
    #[default]
    One,
    /// The uppermost directories, of which there are several, in turn; each with all below it.
    Even,
    /// Directories in which many work at once in equal fragments, all others each by itself, by a hash of its path.
    Hashed,
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Spread, String> {
        match text {
            "one" => Ok(Spread::One),
            "even" => Ok(Spread::Even),
            "hashed" => Ok(Spread::Hashed),
            _ => Err(format!("there is no spread `{text}`: one, even, hashed")),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::One => "one",
            Spread::Even => "even",
            Spread::Hashed => "hashed",
        })
    }
}

/// Between two looks at how far migrations are, nanoseconds.
const LOOK_NS: u64 = 50_000_000;
/// Longest that it is waited for those of one level, nanoseconds.
const LONGEST_NS: u64 = 3600 * 1_000_000_000;

/// An order to a rank.
struct Order {
    from: usize,
    ask: Ask,
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// The whole of what is put where.
pub(crate) struct Dealer<'a> {
    pub world: &'a mut World,
    pub clients: &'a mut Clients,
    /// Numbers of directories.
    pub inos: &'a BTreeMap<Path, Ino>,
    /// Ranks of the directories that were dealt out so far.
    pub holders: BTreeMap<Path, usize>,
}

impl Dealer<'_> {
    pub fn deal(&mut self, spread: Spread, dirs: &[Path], shared: &[Path]) -> Result<(), String> {
        let ranks = self.world.ranks();
        if ranks == 1 || spread == Spread::One {
            return Ok(());
        }
        let mut targets: Vec<(Path, usize)> = Vec::new();
        match spread {
            Spread::One => {}
            Spread::Even => {
                let deepest = dirs.iter().map(|dir| depth(dir)).max().unwrap_or(0);
                let at = |level: usize| dirs.iter().filter(move |dir| depth(dir) == level);
                let level = (0..=deepest).find(|level| at(*level).count() > 1).unwrap_or(deepest);
                targets.extend(at(level).enumerate().map(|(number, dir)| (Path::clone(dir), number % ranks)));
            }
            Spread::Hashed => {
                let dirs = dirs.iter().filter(|dir| !shared.contains(dir));
                targets.extend(dirs.map(|dir| (Path::clone(dir), name_hash((0, 0), dir.as_bytes()) as usize % ranks)));
            }
        }
        let deepest = targets.iter().map(|(dir, _)| depth(dir)).max().unwrap_or(0);
        // Those above first: what is below moves along.
        for level in 0..=deepest {
            let mut orders = Vec::new();
            for (dir, to) in targets.iter().filter(|(dir, _)| depth(dir) == level) {
                let from = self.holder(dir);
                if from != *to {
                    orders.push(Order { from, ask: Ask::Migrate { dir: self.ino(dir)?, to: Rank(*to as u16) } });
                }
                self.holders.insert(Path::clone(dir), *to);
            }
            self.carry_out(orders)?;
        }
        if spread == Spread::Hashed {
            for dir in shared {
                self.cut(dir)?;
            }
        }
        Ok(())
    }

    /// Deals the fragments of a directory out to all ranks.
    fn cut(&mut self, dir: &Path) -> Result<(), String> {
        let ranks = self.world.ranks();
        let bits = ranks.next_power_of_two().ilog2() as u8;
        // So that each has as much as the others, or nearly.
        let bits = if ranks.is_power_of_two() { bits } else { bits + 2 };
        let (from, ino) = (self.holder(dir), self.ino(dir)?);
        let mut orders = Vec::new();
        for frag in Frag::WHOLE.split(bits).into_iter().skip(1) {
            let to = (from + frag.value as usize) % ranks;
            if to != from {
                orders.push(Order { from, ask: Ask::MigrateFrag { dir: ino, frag, to: Rank(to as u16) } });
            }
        }
        self.carry_out(orders)
    }

    fn ino(&self, dir: &Path) -> Result<Ino, String> {
        self.inos.get(dir).copied().ok_or(format!("{dir} is to be dealt out, and was not made"))
    }

    /// Rank of a directory: that of the nearest one above that was dealt out.
    fn holder(&self, dir: &str) -> usize {
        let mut at = dir;
        loop {
            if let Some(holder) = self.holders.get(at) {
                return *holder;
            }
            match at.rfind('/') {
                Some(end) => at = &at[..end],
                None => return 0,
            }
        }
    }

    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), String> {
        let (before, count) = (self.world.moved.len(), orders.len());
        let mut from: Vec<usize> = orders.iter().map(|order| order.from).collect();
        from.sort_unstable();
        from.dedup();
        for (id, order) in orders.into_iter().enumerate() {
            Clients::admin(self.world, order.from, id as u64 + 1, order.ask);
        }
        let last = self.world.now + LONGEST_NS;
        for rank in from {
            while self.works(rank)? {
                if self.world.now > last {
                    return Err(format!("migrations from rank {rank} take longer than an hour"));
                }
            }
        }
        let moved = self.world.moved.len() - before;
        if moved < count { Err(format!("of {count} migrations {moved} were done")) } else { Ok(()) }
    }

    /// Waits a little. Whether migrations from a rank are still under way.
    fn works(&mut self, rank: usize) -> Result<bool, String> {
        let until = self.world.now + LOOK_NS;
        Clients::admin(self.world, rank, 0, Ask::Migrations);
        let mut works = true;
        while let Some(next) = self.world.run(until) {
            match next {
                Next::Message { conn, msg, .. } => self.clients.told(self.world, conn, *msg),
                Next::Timer(number) => self.clients.timer(self.world, number),
                Next::Told { told, .. } => match *told {
                    Told::Refused(why) => return Err(format!("a migration was refused: {why}")),
                    Told::Elsewhere(rank) => return Err(format!("what is to move is at rank {rank}")),
                    Told::Migrations(all) => {
                        let busy = ["waiting", "preparing", "freezing", "moving", "cleaning"];
                        works = all.iter().any(|one| busy.contains(&one.state.as_str()));
                    }
                    _ => {}
                },
                Next::Balance { .. } => {}
            }
        }
        Ok(works)
    }
}
