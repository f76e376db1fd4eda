//! `loligo subtree`: which rank has which directories, and keeping a directory where it is wanted.

use loligo_types::{FsError, Placement};
use serde_json::json;

use super::attrs::Attrs;
use super::migrate::How;
use super::place::{self, Asker, Place};
use super::{leases, migrate, rank, resettle, split};
use crate::args::{Directory, Order, Subtree, Target};
use crate::look::ask;
use crate::output::{Failure, Outcome, put, quoted, say};
use crate::service::admin::doc::SubtreeDoc;
use crate::target;

/// The xattr of a directory that says which rank is to have it.
const PIN: &[u8] = b"loligo.policy.pin";

/// The xattr of a directory that says where directories in it live, and that which tells what holds.
const PLACEMENT: &[u8] = b"loligo.policy.placement";
const PLACES: &[u8] = b"loligo.dir.placement";

/// Does one of them.
pub fn run(what: &Subtree) -> Outcome {
    match what {
        Subtree::List { target, json } => list(target, *json),
        Subtree::Pin { dir, rank, order } => pin(dir, *rank, *order),
        Subtree::Unpin { dir, order } => unpin(dir, *order),
        Subtree::Split { dir, bits, order } => split::split(dir, *bits, *order),
        Subtree::Unsplit { dir, order } => split::unsplit(dir, *order),
        Subtree::Gather { dir, order } => migrate::gather(dir, *order),
        Subtree::Place { dir, placement, r#move, order } => place_dirs(dir, placement, *r#move, *order),
        Subtree::Unplace { dir, order } => unplace_dirs(dir, *order),
        Subtree::Lease { dir, time, order } => leases::lease(dir, time, *order),
        Subtree::Unlease { dir, order } => leases::unlease(dir, *order),
        Subtree::Migrate { dir, rank, frag, no_wait, json, dry_run } => {
            migrate::run(dir, *rank, *frag, &How { no_wait: *no_wait, json: *json, dry_run: *dry_run })
        }
    }
}

fn list(target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let (mut routes, unreached): (Vec<SubtreeDoc>, _) = ask::json_of_all(&found, "/api/v1/subtrees")?;
    if !routes.iter().any(|route| route.dir == loligo_types::Ino::ROOT.0) {
        // Said by no line: rank 0 has the root unless one says otherwise.
        let (dir, frag) = (loligo_types::Ino::ROOT.0, loligo_types::Frag::WHOLE.to_string());
        routes.insert(0, SubtreeDoc { dir, frag, rank: 0, version: 0 });
    }
    let asker = found.address().is_ok().then(|| Asker::new(&found)).transpose()?;
    let path = |route: &SubtreeDoc| {
        let path = asker.as_ref().and_then(|asker| asker.path_of(loligo_types::Ino(route.dir)));
        path.map(|path| path.display().to_string())
    };
    let mut lines: Vec<(Option<String>, SubtreeDoc)> = routes.into_iter().map(|route| (path(&route), route)).collect();
    lines.sort_by(|(a, one), (b, other)| (a, one.dir, &one.frag).cmp(&(b, other.dir, &other.frag)));
    if json {
        let line = |(path, route): &(Option<String>, SubtreeDoc)| {
            let SubtreeDoc { dir, frag, rank, version } = route;
            json!({ "path": path, "dir": dir, "frag": frag, "rank": rank, "version": version })
        };
        let mut all: Vec<serde_json::Value> = lines.iter().map(line).collect();
        // In place of the lines that only their ranks know.
        all.extend(unreached.iter().map(|one| json!({ "unreached": one })));
        return put(format_args!("{:#}", serde_json::Value::from(all)));
    }
    let mut out = format!("{:>4} {:>8} {:>7}  directory\n", "rank", "fragment", "version");
    for (path, route) in &lines {
        let path = path.clone().unwrap_or_else(|| format!("inode {}", route.dir));
        out.push_str(&format!("{:>4} {:>8} {:>7}  {path}\n", route.rank, route.frag, route.version));
    }
    out.push_str(&rank::not_reached(&unreached));
    put(out.trim_end())
}

fn pin(dir: &Directory, to: u16, order: Order) -> Outcome {
    let place = place::find(dir)?;
    if order.dry_run && !rustix::process::geteuid().is_root() {
        return Err(not_pinned(&place, FsError::Perm));
    }
    rank::check(&place.found, to)?;
    let done = Attrs::of(&place)?.order(&place, PIN, Some(&to.to_string()), order);
    done.map_err(|error| error.with(|error| not_pinned(&place, error)))?;
    if !order.dry_run && !order.json {
        say(format_args!("{} and what is below it is to be at rank {to}", place.name));
    }
    Ok(())
}

fn unpin(dir: &Directory, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let done = Attrs::of(&place)?.order(&place, PIN, None, order);
    done.map_err(|error| {
        error.with(|error| match error {
            FsError::NoData => Failure::new(format!("{} is not pinned", place.name)),
            error => not_pinned(&place, error),
        })
    })?;
    if !order.dry_run && !order.json {
        say(format_args!("{} goes where load wants it", place.name));
    }
    Ok(())
}

fn place_dirs(dir: &Directory, placement: &str, moves: bool, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    let done = attrs.order(&place, PLACEMENT, Some(placement), order);
    done.map_err(|error| error.with(|error| not_placed(&place, error)))?;
    match Placement::named(placement.as_bytes()) {
        _ if order.dry_run => Ok(()),
        Some(placement) if moves => resettle::run(&place, placement),
        _ if order.json => Ok(()),
        _ => tell_placement(&attrs, &place),
    }
}

fn unplace_dirs(dir: &Directory, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    let done = attrs.order(&place, PLACEMENT, None, order);
    done.map_err(|error| {
        error.with(|error| match error {
            FsError::NoData => Failure::new(format!("{} does not say where directories live", place.name)),
            error => not_placed(&place, error),
        })
    })?;
    if order.dry_run || order.json { Ok(()) } else { tell_placement(&attrs, &place) }
}

/// Prints the placement in force from now on.
fn tell_placement(attrs: &Attrs, place: &Place) -> Outcome {
    let text = attrs.get(PLACES).map_err(|error| refused(place, error))?;
    let how = how(Placement::named(&text).unwrap_or_default());
    say(format_args!(
        "directories that are made in {} {how}; those that are there stay where they are (--move moves them)",
        place.name
    ));
    Ok(())
}

/// Of new directories under a placement: where they live.
pub fn how(placement: Placement) -> &'static str {
    match placement {
        Placement::Giga => "each get a rank of their own",
        Placement::Replicated => "each get a rank of their own, which their paths give",
        Placement::Table => {
            "each get a rank of their own, which their paths give, and programs that ask by paths come through them whoever may search them"
        }
        Placement::TableInherit => {
            "each get a rank of their own, which their paths give; programs that ask by paths come through them whoever may search them, and what is \
             made in one is open to nobody whom it keeps out"
        }
        Placement::Inherited | Placement::Subtree => "live with their names",
    }
}

/// Of a pin that was refused.
fn not_pinned(place: &Place, error: FsError) -> Failure {
    match error {
        FsError::Perm => Failure::new(format!("{}: only root says at which rank a directory is to be", place.name))
            .remedy(
                "do it as root; its owner may say where directories live that are made in it: loligo subtree place",
            ),
        error => refused(place, error),
    }
}

/// Of a placement that was refused.
fn not_placed(place: &Place, error: FsError) -> Failure {
    match error {
        // Its name makes sense: it is what the policy permits that does not go with it.
        FsError::Invalid => Failure::found(format!(
            "{}: its policy permits to give it to one client with all that is in it, at one rank, and its directories would get ranks of their own",
            place.name
        ))
        .remedy(format!("set another policy first, or none: loligo policy unset {}", quoted(std::path::Path::new(&place.name)))),
        error => refused(place, error),
    }
}

pub(super) fn refused(place: &Place, error: FsError) -> Failure {
    let failure = Failure::new(format!("{}: {error}", place.name));
    match error {
        FsError::Access | FsError::Perm => failure.remedy("do it as root, or as the owner of the directory"),
        _ => failure,
    }
}
