//! `howmuch`: the list of selectors, ours and the policy's own, and the round in which all of them are tried and the one
//! nearest to the target wins. Not which pieces there are to choose from: see `carve.rs`.

use super::explain::Tried;
use super::file::Settings;
use super::select::{BUILT_IN, SAME, Selector};
use crate::engine::{Input, Output, Run, near};
use crate::{Fault, FaultKind};

/// Selector of policies that name none.
const DEFAULT: &str = "big_first";

pub(super) struct HowMuch {
    selectors: Vec<Named>,
}

enum Named {
    BuiltIn(&'static str, Selector),
    /// A function of the policy: `selectors.` and its name.
    Own(String),
}

fn wrong(text: String) -> Fault {
    Fault::new("howmuch", FaultKind::Answer, text)
}

impl HowMuch {
    /// Asks the policy for the list and looks the names up.
    pub(super) fn ask(run: &mut Run<'_>, settings: &Settings, most: usize) -> Result<HowMuch, Fault> {
        let names = match &settings.howmuch {
            Some(names) => names.clone(),
            None => {
                let answer = if run.has("howmuch") { run.call("howmuch", &[])? } else { run.global("howmuch")? };
                names_of(answer)?
            }
        };
        if names.is_empty() || names.len() > most {
            return Err(wrong(format!("must list 1 to {most} selectors, it lists {}", names.len())));
        }
        Ok(HowMuch { selectors: names.iter().map(|name| find(run, name)).collect::<Result<_, Fault>>()? })
    }

    /// Tries all of them on some loads. The winner's place among them and the places that it takes; none if taking nothing is at
    /// least as near.
    pub(super) fn choose(&self, run: &mut Run<'_>, loads: &[f64], target: f64) -> Result<Choice, Fault> {
        let mut choice = Choice { tried: Vec::with_capacity(self.selectors.len()), winner: None, taken: Vec::new() };
        let mut nearest = target.abs();
        for (at, selector) in self.selectors.iter().enumerate() {
            let (name, taken) = match selector {
                Named::BuiltIn(name, selector) => ((*name).to_string(), selector(loads, target)),
                Named::Own(path) => (path.trim_start_matches("selectors.").to_string(), own(run, path, loads, target)?),
            };
            let sum: f64 = taken.iter().map(|place| loads[*place]).sum();
            choice.tried.push(Tried { selector: name, sum, pieces: taken.len() });
            let far = (sum - target).abs();
            if far < nearest - target.abs() * SAME && !taken.is_empty() {
                (nearest, choice.winner, choice.taken) = (far, Some(at), taken);
            }
        }
        Ok(choice)
    }
}

pub(super) struct Choice {
    pub tried: Vec<Tried>,
    pub winner: Option<usize>,
    pub taken: Vec<usize>,
}

fn names_of(answer: Output) -> Result<Vec<String>, Fault> {
    let entries = match answer {
        Output::Nil => return Ok(vec![DEFAULT.to_string()]),
        Output::Text(name) => return Ok(vec![name]),
        Output::Table(entries) => entries,
        other => return Err(wrong(format!("must be a list of names of selectors, it is {}", other.type_name()))),
    };
    let mut names = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match (key, value) {
            (Output::Number(key), Output::Text(name)) => names.push((key, name)),
            (_, other) => return Err(wrong(format!("must list names of selectors, {} is in it", other.type_name()))),
        }
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

fn find(run: &Run<'_>, name: &str) -> Result<Named, Fault> {
    let own = format!("selectors.{name}");
    if run.has(&own) {
        return Ok(Named::Own(own));
    }
    if let Some((name, selector)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok(Named::BuiltIn(name, *selector));
    }
    let near = BUILT_IN.iter().filter_map(|(known, _)| Some((near(name, known)?, *known))).min();
    let advice = match near {
        Some((_, near)) => format!("did you mean `{near}`?"),
        None => "define it in `selectors`".to_string(),
    };
    Err(wrong(format!("there is no selector `{name}`: {advice}")))
}

/// Answer of a selector of the policy's own: places from 1, each once.
fn own(run: &mut Run<'_>, path: &str, loads: &[f64], target: f64) -> Result<Vec<usize>, Fault> {
    let answer = run.call(path, &[Input::numbers(loads), Input::Number(target)])?;
    let wrong = |text: String| Fault::new(path, FaultKind::Answer, text);
    let Output::Table(entries) = answer else {
        return Err(wrong(format!("must answer a list of places, it answered {}", answer.type_name())));
    };
    let mut is_taken = vec![false; loads.len()];
    let mut taken = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let (Output::Number(key), Output::Number(place)) = (&key, &value) else {
            return Err(wrong("must answer a list of places, numbers from 1".to_string()));
        };
        if !(*place >= 1.0 && *place <= loads.len() as f64 && place.fract() == 0.0) {
            return Err(wrong(format!("answered place {place}, there are places 1 to {}", loads.len())));
        }
        let at = *place as usize - 1;
        if std::mem::replace(&mut is_taken[at], true) {
            return Err(wrong(format!("answered place {place} twice")));
        }
        taken.push((*key, at));
    }
    taken.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(taken.into_iter().map(|(_, at)| at).collect())
}
