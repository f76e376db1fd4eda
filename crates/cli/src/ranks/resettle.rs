//! `loligo subtree place --move`: directories that are there come to ranks of their own, or back to one, as their new placement says; one by one, each by a migration
//! of its own. So a crash, or an end by the user, leaves each directory where it was or where it is to be, and the same command goes on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loligo_types::hash::mix;
use loligo_types::{Frag, FsError, Ino, Kind, Placement};

use super::place::{self, Asker, Place};
use crate::look::ask;
use crate::output::{Failure, Outcome, human_count, say};
use crate::progress::{Bar, Unit};
use crate::service::admin::doc::{BegunDoc, MigrationDoc, StatusDoc, SubtreeDoc};

/// Migrations that are ordered ahead: a rank does one after the other, and remembers this many that have ended.
const AHEAD: usize = 32;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Limit of passes, each of which looks for directories to move.
const PASSES_MAX: u32 = 10;
/// Limit of retries for a directory that could not be moved just then.
const TRIES: u32 = 5;

/// A directory below the one that is placed.
struct Dir {
    ino: Ino,
    /// Rank that has the directory, as far as can be told; `None`: several ranks have its fragments.
    rank: Option<u16>,
    /// It does not simply follow the directory above.
    apart: bool,
}

/// One that is to move.
struct Move {
    ino: Ino,
    from: u16,
    to: u16,
    tries: u32,
}

/// Lines of the subtree map by directory: the ranks of directories that do not follow the one above.
struct Lines(BTreeMap<u64, Vec<SubtreeDoc>>);

impl Lines {
    fn of(found: &crate::target::Found) -> Result<Lines, Failure> {
        let (lines, _): (Vec<SubtreeDoc>, _) = ask::json_of_all(found, "/api/v1/subtrees")?;
        let mut by_dir: BTreeMap<u64, Vec<SubtreeDoc>> = BTreeMap::new();
        lines.into_iter().for_each(|line| by_dir.entry(line.dir).or_default().push(line));
        Ok(Lines(by_dir))
    }

    /// A directory in one that a rank has; none: several have that.
    fn dir(&self, ino: Ino, above: Option<u16>) -> Dir {
        let lines = self.0.get(&ino.0).map_or(&[][..], Vec::as_slice);
        let whole = Frag::WHOLE.to_string();
        match lines {
            [] => match ino.zeroth_rank() {
                Some(rank) => Dir { ino, rank: Some(rank.0), apart: true },
                // Where its name is: with fragments of several ranks, at one of them.
                None => Dir { ino, rank: above.or(Some(ino.birth_rank().0)), apart: false },
            },
            [line] if line.frag == whole => Dir { ino, rank: Some(line.rank), apart: true },
            _ => Dir { ino, rank: None, apart: true },
        }
    }
}

/// Moves what is below a directory to where its placement, that was just set, has what is made there.
pub fn run(place: &Place, placement: Placement) -> Outcome {
    let asker = Asker::new(&place.found)?;
    let top = place::authority(place)?;
    let ranks = ranks_up(&place.found)?;
    if ranks.is_empty() {
        return Err(Failure::new("no rank takes directories just now").remedy("see loligo rank list"));
    }
    let wanted = |dir: &Dir| match placement {
        Placement::Subtree | Placement::Inherited => dir.apart.then_some(top),
        // Not a random number: the same command comes to the same.
        Placement::Giga | Placement::Replicated | Placement::Table | Placement::TableInherit => {
            Some(ranks[(mix(dir.ino.0) % ranks.len() as u64) as usize])
        }
    };
    let mut moved = 0;
    for _ in 0..PASSES_MAX {
        let dirs = look(&asker, place, top)?;
        // Those below first: what moves with a directory would else be moved twice. What was where it is to be, and had no line of its own, has gone
        // along all the same, and is moved back in the next pass.
        let moves: VecDeque<Move> = dirs
            .iter()
            .rev()
            .filter_map(|dir| Some(Move { ino: dir.ino, from: dir.rank?, to: wanted(dir)?, tries: 0 }))
            .filter(|one| one.from != one.to)
            .collect();
        if moves.is_empty() {
            return tell(place, moved, &dirs);
        }
        let all = moves.len() as u64;
        let failed = carry_out(&place.found, moves, &mut Bar::start("moving directories", all, Unit::Count))?;
        moved += all - failed.len() as u64;
        if let Some((ino, why)) = failed.first() {
            let text = format!("{} could not be moved; of the first, inode {ino}: {why}", failed.len());
            return Err(Failure::new(text).remedy("do the same again: it goes on with those"));
        }
    }
    Err(Failure::new(format!("{} were moved, and others are at work on them", human_count(moved)))
        .remedy("do the same again when less is renamed and moved below it"))
}

fn tell(place: &Place, moved: u64, dirs: &[Dir]) -> Outcome {
    let all = human_count(dirs.len() as u64);
    say(format_args!(
        "all {all} directories below {} are where they are to be; {} moved",
        place.name,
        human_count(moved)
    ));
    let in_fragments = dirs.iter().filter(|dir| dir.rank.is_none()).count() as u64;
    if in_fragments > 0 {
        say(format_args!(
            "{} of them are in fragments of several ranks, and stay so: loligo subtree gather",
            human_count(in_fragments)
        ));
    }
    Ok(())
}

/// The directories below a directory, as they are now.
fn look(asker: &Asker, place: &Place, top: u16) -> Result<Vec<Dir>, Failure> {
    let lines = Lines::of(&place.found)?;
    let mut bar = Bar::start("looking for directories", 0, Unit::Count);
    bar.alive();
    below(asker, place, top, &lines, &mut bar)
}

/// All directories below one, those above before what is in them.
fn below(asker: &Asker, place: &Place, top: u16, lines: &Lines, bar: &mut Bar) -> Result<Vec<Dir>, Failure> {
    let mut all: Vec<Dir> = Vec::new();
    let mut left = VecDeque::from([(place.ino, lines.dir(place.ino, Some(top)).rank)]);
    while let Some((dir, rank)) = left.pop_front() {
        let listed = asker.list(dir, |entry| {
            if entry.kind == Kind::Dir {
                let found = lines.dir(entry.ino, rank);
                left.push_back((found.ino, found.rank));
                all.push(found);
            }
            true
        });
        match listed {
            Ok(()) => {}
            // Removed since.
            Err(FsError::NotFound | FsError::Stale) if dir != place.ino => {}
            Err(error) => return Err(super::subtree::refused(place, error)),
        }
        bar.set(all.len() as u64);
    }
    Ok(all)
}

/// The ranks that take directories, ascending.
fn ranks_up(found: &crate::target::Found) -> Result<Vec<u16>, Failure> {
    let status: StatusDoc = ask::json(found, "/api/v1/status")?;
    let takes = |state: &str| matches!(state, "serving" | "damaged" | "full" | "grace");
    let mut ranks: Vec<u16> = status.ranks.iter().filter(|rank| takes(&rank.state)).map(|rank| rank.rank).collect();
    ranks.extend(status.servers.iter().flat_map(|server| &server.ranks).filter_map(|rank| u16::try_from(*rank).ok()));
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

/// Moves them; those that could not be, and why.
fn carry_out(
    found: &crate::target::Found,
    mut left: VecDeque<Move>,
    bar: &mut Bar,
) -> Result<Vec<(Ino, String)>, Failure> {
    let mut under_way: Vec<(Move, BegunDoc)> = Vec::new();
    let mut failed = Vec::new();
    while !left.is_empty() || !under_way.is_empty() {
        while under_way.len() < AHEAD
            && let Some(one) = left.pop_front()
        {
            match ask::order(found, &format!("/api/v1/migrate/{}/{}/{}", one.ino.0, one.to, one.from)) {
                Ok(begun) => under_way.push((one, begun)),
                // It went there with the one above, or is gone.
                Err(why) if why.says("already") || why.says("does not exist") => bar.add(1),
                Err(why) => again(one, why.to_string(), &mut left, &mut failed),
            }
        }
        let (told, unreached): (Vec<MigrationDoc>, Vec<crate::service::admin::others::UnreachedDoc>) =
            ask::json_of_all(found, "/api/v1/migrations")?;
        for (one, begun) in std::mem::take(&mut under_way) {
            let of_it = told.iter().find(|told| (told.id, told.from) == (begun.id, begun.from));
            match of_it.map(|told| told.state.as_str()) {
                Some("done") => bar.add(1),
                Some(why) if why.starts_with("failed") => again(one, why.to_owned(), &mut left, &mut failed),
                None if !unreached.iter().any(|silent| silent.ranks.contains(&begun.from)) => {
                    again(one, "its rank does not know of it any more".into(), &mut left, &mut failed);
                }
                _ => under_way.push((one, begun)),
            }
        }
        if !under_way.is_empty() {
            std::thread::sleep(LOOK);
        }
    }
    Ok(failed)
}

/// It is tried again after the others, unless that was so often.
fn again(one: Move, why: String, left: &mut VecDeque<Move>, failed: &mut Vec<(Ino, String)>) {
    if one.tries < TRIES {
        std::thread::sleep(LOOK);
        return left.push_back(Move { tries: one.tries + 1, ..one });
    }
    failed.push((one.ino, why));
}
