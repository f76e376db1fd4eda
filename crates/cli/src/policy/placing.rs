//! Where directories live that are made in a directory, who says so, and what a policy changes of it. What a policy names is one with the
//! placement that the directory has itself; what it does not name is handed down as directories are made. Not here: setting it.

use loligo_subtree_policy::{SubtreePolicy, policy};
use loligo_types::{Ino, Placement};

use super::chain::Link;
use crate::output::{Failure, Outcome, quoted};

/// Placement in force at a directory.
pub struct Placed {
    /// Placement of the directories that are made in it.
    pub placement: Placement,
    /// The directory that says so, if it can be seen.
    pub from: Option<String>,
    /// Why, for people.
    pub why: String,
}

/// Placement in force at a directory whose own placement is this.
fn would(ino: Ino, own: Placement) -> Placement {
    if own == Placement::Inherited { Placement::by_number(ino) } else { own }
}

/// Placement in force at the first of these directories; each is in the next.
pub fn of(links: &[Link]) -> Placed {
    let Some((here, above)) = links.split_first() else {
        return Placed { placement: Placement::Subtree, from: None, why: "the default".into() };
    };
    let (name, placement) = (&here.name, would(here.ino, here.own));
    if here.own != Placement::Inherited {
        return Placed { placement, from: Some(name.clone()), why: format!("{name} says so") };
    }
    // Nobody who makes a directory looks further up than one.
    let nearest = above.iter().find(|link| link.own != Placement::Inherited);
    let scatters = placement.scatters();
    match nearest {
        Some(link) if scatters && link.own == placement => {
            let why = format!("{} says so, and {name} was made below it", link.name);
            Placed { placement, from: Some(link.name.clone()), why }
        }
        Some(link) if scatters => {
            let why = format!("{name} was made where that held; {} says {} by now", link.name, link.own.name());
            Placed { placement, from: None, why }
        }
        None if scatters => Placed { placement, from: None, why: format!("{name} was made where that held") },
        Some(link) if link.own.scatters() => {
            let why = format!("the default; {} says {}, and {name} was not made by that", link.name, link.own.name());
            Placed { placement, from: None, why }
        }
        _ => Placed { placement, from: None, why: "the default".into() },
    }
}

/// Placement in force at the first of these directories once it has this policy, or none of its own.
fn after(links: &[Link], policy: Option<&SubtreePolicy>) -> Option<Placement> {
    let here = links.first()?;
    let named_before = here.text.as_ref().is_some_and(|text| policy::names_placement(text));
    let own = match policy.and_then(SubtreePolicy::placement) {
        Some(named) => named,
        None if named_before => Placement::Inherited,
        None => here.own,
    };
    Some(would(here.ino, own))
}

/// Refuses what no directory can be that has its own at all ranks.
pub fn check(links: &[Link], policy: &SubtreePolicy) -> Outcome {
    let (Some(placement), Some(here)) = (after(links, Some(policy)), links.first()) else { return Ok(()) };
    if policy.excludes(placement) {
        return Err(contradiction(&here.name, placement, &of(links).why));
    }
    Ok(())
}

/// Why a directory is not given to one client.
pub fn contradiction(name: &str, placement: Placement, why: &str) -> Failure {
    Failure::found(format!(
        "{name}: directories that are made in it get ranks of their own (placement {}: {why}), and a directory with this policy can be given to one \
         client with all that is in it, which is at one rank then",
        placement.name()
    ))
    .remedy(format!(
        "say placement = \"subtree\" in the policy, or loligo subtree place {} subtree; or take a policy whose operations go to the server, as posix",
        quoted(std::path::Path::new(name))
    ))
}

/// Change of the placement by a policy, as a line; `None` if it stays.
pub fn change(links: &[Link], policy: Option<&SubtreePolicy>) -> Option<String> {
    let (was, is) = (of(links).placement, after(links, policy)?);
    (was != is).then(|| {
        format!(
            "placement: {} -> {}: directories that are made there from now on {}; those that are there stay where they are",
            was.name(),
            is.name(),
            crate::ranks::subtree::how(is)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, ino: Ino, own: Placement, text: Option<&str>) -> Link {
        Link { name: name.into(), text: text.map(|text| text.as_bytes().to_vec()), ino, own }
    }

    #[test]
    fn it_is_told_who_says_where_directories_live_and_why_it_holds_or_not() {
        use Placement::{Giga, Inherited, Subtree, Table};
        let scattered = Ino(500).scattered(loligo_types::Rank(2)).expect("there is one");
        let why = |links: &[Link]| {
            let placed = of(links);
            (placed.placement, placed.from, placed.why)
        };
        let top = || link("/a", Ino(300), Giga, None);
        assert_eq!(why(&[top()]), (Giga, Some("/a".into()), "/a says so".into()));
        let below = || link("/a/b", scattered, Inherited, None);
        assert_eq!(why(&[below(), top()]), (Giga, Some("/a".into()), "/a says so, and /a/b was made below it".into()));
        let other = link("/a", Ino(300), Table, None);
        assert_eq!(why(&[below(), other]), (Giga, None, "/a/b was made where that held; /a says table by now".into()));
        assert_eq!(why(&[below()]), (Giga, None, "/a/b was made where that held".into()));
        let old = link("/a/b", Ino(299), Inherited, None);
        let before = (Subtree, None, "the default; /a says giga, and /a/b was not made by that".into());
        assert_eq!(why(&[old, top()]), before);
        assert_eq!(why(&[link("/", Ino::ROOT, Inherited, None)]), (Subtree, None, "the default".into()));
    }

    #[test]
    fn what_a_policy_does_not_name_stays_unless_the_one_before_named_it() {
        let named = [link("/a", Ino(300), Placement::Giga, Some("placement = 'giga'"))];
        let apart = [link("/a", Ino(300), Placement::Giga, Some("blind = true"))];
        let (posix, batchfs) = (SubtreePolicy::default(), SubtreePolicy::of(loligo_subtree_policy::Preset::BatchFs));
        assert!(change(&named, Some(&posix)).is_some_and(|line| line.starts_with("placement: giga -> subtree: ")));
        assert!(change(&named, None).is_some() && change(&apart, None).is_none());
        assert_eq!(change(&apart, Some(&posix)), None);
        assert!(check(&named, &batchfs).is_ok() && check(&apart, &posix).is_ok());
        let refused = check(&apart, &batchfs).expect_err("they do not go together");
        assert!(
            refused.says("/a: directories")
                && refused.says("placement giga: /a says so")
                && refused.says("at one rank")
        );
    }
}
