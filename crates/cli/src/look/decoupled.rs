//! Decoupled subtrees of all ranks, as `status` shows them, and what to do about those that wait for somebody.

use std::path::{Path, PathBuf};

use crate::mounts;
use crate::output::{counted, human_bytes, human_count, human_time, quoted};
use crate::ranks::place::Asker;
use crate::service::admin::decoupled::DecoupledDoc;
use crate::service::admin::doc::RankDoc;
use crate::target::Found;
use loligo_types::Ino;

/// Subtrees shown; `--json` has more.
const SHOWN: usize = 20;

/// The paths of those whose rank does not know them by heart: the names above a directory may be other ranks', or in the table alone. Whoever is
/// to merge what lies there needs to be told where.
pub fn paths<'a>(found: &Found, unnamed: impl IntoIterator<Item = (u64, &'a mut Option<String>)>) {
    let unnamed = unnamed.into_iter().filter(|(_, path)| path.is_none()).take(SHOWN);
    let mut unnamed = unnamed.peekable();
    if unnamed.peek().is_none() {
        return;
    }
    // The rest of the page is worth reading if nobody answers there.
    let Ok(asker) = Asker::new(found) else { return };
    unnamed.for_each(|(dir, path)| *path = asker.path_of(Ino(dir)).map(|path| path.display().to_string()));
}

/// A line for each, those that wait for somebody or are taken back soonest first; nothing if there are none. `data`: the server's directory, for
/// commands to copy.
pub fn lines(ranks: &[RankDoc], data: &str) -> String {
    let of = |rank: &'_ RankDoc| (ranks.len() > 1).then_some(rank.rank);
    let mut all: Vec<(Option<u16>, &DecoupledDoc)> =
        ranks.iter().flat_map(|rank| rank.decoupled.iter().map(move |one| (of(rank), one))).collect();
    all.sort_by_key(|(_, one)| (one.waits_in_ms.or(one.taken_back_in_ms).unwrap_or(u64::MAX), one.dir));
    let mut out: String = all.iter().take(SHOWN).map(|(rank, one)| line(*rank, one, data)).collect();
    let count: u64 = ranks.iter().map(|rank| rank.decoupled_subtrees).sum();
    let shown = all.len().min(SHOWN) as u64;
    if count > shown {
        out.push_str(&format!("... and {} more decoupled subtrees\n", human_count(count - shown)));
    }
    out
}

/// A line for each decoupled directory of which a stage of its pipeline has failed, in the mount that a path is in: no other knows it.
pub fn failed_stages(ranks: &[RankDoc], path: Option<&Path>) -> Vec<String> {
    let top = path.and_then(|path| mounts::over(&mounts::all().ok()?, &path.canonicalize().ok()?));
    let Some(top) = top else { return Vec::new() };
    let places = ranks.iter().flat_map(|rank| &rank.decoupled).filter_map(|one| one.path.as_deref());
    let places = places.map(|path| top.path.join(path.trim_start_matches('/'))).take(SHOWN);
    let line = |dir: PathBuf| {
        let (stage, error) = crate::policy::failed_stage(&dir)?;
        let (shown, dir) = (plain(&dir.display().to_string()), quoted(&dir));
        Some(format!("failed: {shown}: the stage {stage} of its pipeline ({error}); loligo policy explain {dir}"))
    };
    places.filter_map(line).collect()
}

/// The root, and the server, as a command takes them.
fn named(one: &DecoupledDoc, data: &str) -> String {
    let dir = one.path.as_ref().map_or_else(|| "DIRECTORY".into(), |path| quoted(plain(path).as_ref()));
    format!("{dir} --data {}", quoted(data.as_ref()))
}

/// `rank`: that of several.
fn line(rank: Option<u16>, one: &DecoupledDoc, data: &str) -> String {
    let at = rank.map_or_else(String::new, |rank| format!(" at rank {rank}"));
    let root = one.path.as_ref().map_or_else(|| format!("inode {}", one.dir), |path| plain(path));
    let merges = counted(one.merges, "merge");
    let left = human_count(one.numbers_left);
    let mut out =
        format!("decoupled{at}: {root} by {} (uid {}), {merges}, {left} numbers left", plain(&one.name), one.uid);
    if one.shared {
        out.push_str("; others may work there");
    }
    if one.read {
        out.push_str("; others read the last merge");
    }
    if one.merging {
        out.push_str("; a merge is on its way into memory");
    }
    if one.parts > 0 {
        let parts = if one.parts == 1 { "1 part".to_string() } else { format!("{} parts", human_count(one.parts)) };
        out.push_str(&format!("; {parts} of a merge have come, {}", human_bytes(one.part_bytes)));
    }
    if let (Some(away_ms), Some(left_ms)) = (one.away_ms, one.taken_back_in_ms) {
        let time = |ms: u64| human_time(ms as f64 / 1e3);
        out.push_str(&format!("; owner not heard for {}, taken back in {}", time(away_ms), time(left_ms)));
        if left_ms > 0 {
            out.push_str(&format!(", or by root at once: loligo abandon --force {}", named(one, data)));
        }
    }
    if let Some(file) = &one.kept_file {
        let file = plain(file);
        out.push_str(&format!(
            "; {file} on this machine has what it did: loligo merge {} --data {}",
            quoted(file.as_ref()),
            quoted(data.as_ref())
        ));
    }
    if let Some(bytes) = one.stored_bytes {
        let bytes = human_bytes(bytes);
        match (one.away_ms, one.waits_in_ms) {
            (Some(away_ms), Some(left_ms)) => {
                let away = human_time(away_ms as f64 / 1e3);
                out.push_str(&format!("; owner not heard for {away}, {bytes} of its journal are in the store"));
                if left_ms > 0 {
                    let left = human_time(left_ms as f64 / 1e3);
                    out.push_str(&format!(", for others to merge in {left}"));
                } else {
                    let dir = named(one, data);
                    out.push_str(&format!(": waits for loligo merge --stored {dir}, or loligo abandon --stored {dir}"));
                }
            }
            _ => out.push_str(&format!("; {bytes} of its journal are in the store")),
        }
    }
    out + "\n"
}

/// Names are whatever anybody gave: one must not look like another line, nor do anything to a terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> DecoupledDoc {
        DecoupledDoc {
            dir: 4711,
            epoch: 1 << 40,
            kept_file: None,
            path: Some("/job".into()),
            name: "a job".into(),
            uid: 0,
            shared: false,
            read: false,
            here: true,
            away_ms: None,
            taken_back_in_ms: None,
            stored_bytes: None,
            waits_in_ms: None,
            numbers: 100,
            numbers_left: 97,
            merges: 3,
            parts: 0,
            part_bytes: 0,
            merging: false,
        }
    }

    #[test]
    fn a_line_says_who_has_it_and_for_how_long_nobody_has_been_heard() {
        assert_eq!(line(None, &one(), "/my data"), "decoupled: /job by a job (uid 0), 3 merges, 97 numbers left\n");
        let shared = DecoupledDoc { shared: true, ..one() };
        assert!(line(None, &shared, "/my data").ends_with("97 numbers left; others may work there\n"));
        let read = DecoupledDoc { read: true, ..one() };
        assert!(line(None, &read, "/my data").ends_with("97 numbers left; others read the last merge\n"));
        let away =
            DecoupledDoc { here: false, away_ms: Some(12_000), taken_back_in_ms: Some(48_000), merges: 1, ..one() };
        assert_eq!(
            line(None, &away, "/my data"),
            "decoupled: /job by a job (uid 0), 1 merge, 97 numbers left; owner not heard for 12.0 s, taken back in 48.0 s, or by root at once: \
             loligo abandon --force /job --data '/my data'\n"
        );
        let kept = DecoupledDoc { kept_file: Some("/keep/a b".into()), ..away.clone() };
        let said = "; /keep/a b on this machine has what it did: loligo merge '/keep/a b' --data '/my data'\n";
        assert!(line(Some(3), &kept, "/my data").ends_with(said), "{}", line(Some(3), &kept, "/my data"));
        assert!(line(Some(3), &kept, "/my data").starts_with("decoupled at rank 3: /job by a job"));
        let stored = DecoupledDoc { stored_bytes: Some(3 << 20), ..one() };
        assert!(
            line(None, &stored, "/my data").ends_with("97 numbers left; 3.0 MiB of its journal are in the store\n"),
            "{}",
            line(None, &stored, "/my data")
        );
        let soon = DecoupledDoc { here: false, away_ms: Some(12_000), waits_in_ms: Some(48_000), ..stored };
        let said =
            "; owner not heard for 12.0 s, 3.0 MiB of its journal are in the store, for others to merge in 48.0 s\n";
        assert!(line(None, &soon, "/my data").ends_with(said), "{}", line(None, &soon, "/my data"));
        let waits = DecoupledDoc { waits_in_ms: Some(0), ..soon };
        let said = ": waits for loligo merge --stored /job --data '/my data', or loligo abandon --stored /job --data '/my data'\n";
        assert!(line(None, &waits, "/my data").ends_with(said), "{}", line(None, &waits, "/my data"));
        let coming = DecoupledDoc { path: None, parts: 2, part_bytes: 2048, ..one() };
        assert!(
            line(None, &coming, "/my data").starts_with("decoupled: inode 4711 by "),
            "{}",
            line(None, &coming, "/my data")
        );
        assert!(
            line(None, &coming, "/my data").ends_with("; 2 parts of a merge have come, 2.0 KiB\n"),
            "{}",
            line(None, &coming, "/my data")
        );
    }

    #[test]
    fn whatever_an_owner_calls_itself_is_one_line() {
        let named = DecoupledDoc { name: "x\n\u{1b}[2J".into(), path: Some("/a\nb".into()), ..one() };
        assert_eq!(line(None, &named, "/my data"), "decoupled: /a?b by x??[2J (uid 0), 3 merges, 97 numbers left\n");
    }
}
