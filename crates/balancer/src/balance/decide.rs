//! One decision, phase by phase: weigh what the rank has, see who takes part, `mdsload` of each, `when`, `where`, `howmuch`
//! and the pieces. A fault in any of them ends it with nothing moved.

use super::carve::{Carver, nested};
use super::environment;
use super::howmuch::HowMuch;
use super::{Outcome, Policy, targets};
use crate::engine::{Input, Output, Run, Value};
use crate::{Fault, FaultKind};
use loligo_types::{Rank, RankView, Snapshot, Weighed};

pub(super) fn decide(policy: &mut Policy, snapshot: &Snapshot, state: &mut Option<Value>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.decision.tick = snapshot.tick;
    let explain = &mut outcome.explain;
    explain.policy = policy.name().to_string();
    (explain.version, explain.tick, explain.whoami) = (snapshot.policy, snapshot.tick, snapshot.whoami);
    (explain.state_before, explain.state_after) = (*state, *state);
    let before = state.or(policy.settings.state).unwrap_or(Value::Number(0.0));
    let began = environment::check(snapshot).and_then(|()| policy.program.begin(before));
    let ended = began.and_then(|mut run| {
        let ended = phases(&mut run, &policy.settings, snapshot, &mut outcome);
        let evaluated = run.finish();
        outcome.explain.log = evaluated.log;
        outcome.explain.log_dropped = evaluated.log_dropped;
        outcome.explain.steps = evaluated.steps;
        ended.map(|()| evaluated.state)
    });
    match ended {
        Ok(after) => {
            if after != before || state.is_some() {
                *state = Some(after);
            }
            outcome.explain.state_after = *state;
        }
        Err(fault) => {
            outcome.decision.moves.clear();
            outcome.explain.moves.clear();
            outcome.fault = Some(fault);
        }
    }
    outcome
}

fn phases(
    run: &mut Run<'_>,
    settings: &super::Settings,
    snapshot: &Snapshot,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    let (loads, own) = weigh(run, snapshot)?;
    outcome.decision.weighed = Some(own);
    let part = match environment::part(snapshot, own) {
        Ok(part) => part,
        Err(why) => {
            outcome.explain.held = Some(why);
            return Ok(());
        }
    };
    outcome.explain.ranks = environment::seen(&part);
    if part.len() < 2 {
        outcome.explain.held = Some("there is no other rank".to_string());
        return Ok(());
    }
    let Some(me) = part.iter().position(|(view, _)| view.rank == snapshot.whoami) else { return Ok(()) };
    set_environment(run, snapshot, &part, me)?;
    let mds_loads = mds_loads(run, part.len())?;
    for (seen, load) in outcome.explain.ranks.iter_mut().zip(&mds_loads) {
        seen.load = Some(*load);
    }
    let total: f64 = mds_loads.iter().sum();
    if !total.is_finite() {
        return Err(Fault::new("mdsload", FaultKind::Answer, "the loads are too big to be added"));
    }
    outcome.explain.total = Some(total);
    run.set_column("MDSs", "load", &mds_loads)?;
    run.set("total", Input::Number(total))?;
    // Targets are in units of `load`, pieces in those of `metaload`.
    let (mine, nested) = (mds_loads[me], nested(&snapshot.pieces, &loads));
    let scale = if own.auth > 0.0 { mine / own.auth } else { 0.0 };
    let ranks: Vec<Rank> = part.iter().map(|(view, _)| view.rank).collect();
    run.set("home", environment::home(snapshot, &nested, &ranks, scale))?;
    run.set("targets", Input::Out)?;
    if !when(run)? {
        outcome.explain.when = Some(false);
        return Ok(());
    }
    outcome.explain.when = Some(true);
    run.call("where", &[])?;
    let views: Vec<&RankView> = part.iter().map(|(view, _)| *view).collect();
    let asked = run.global("targets")?;
    let targets = targets::read(asked, &views, &outcome.explain.ranks, me, mine, settings.minimum_offload)?;
    (outcome.explain.targets, outcome.explain.skipped) = (targets.asked, targets.skipped);
    let howmuch = HowMuch::ask(run, settings, run.limits().selectors)?;
    let mut carver = Carver::new(&snapshot.pieces, nested, settings.need_min, run.limits().moves);
    for (rank, amount) in targets.wanted {
        let amount = if scale > 0.0 { amount / scale } else { 0.0 };
        carver.carve(run, &howmuch, rank, amount)?;
    }
    outcome.explain.rounds = carver.rounds;
    outcome.explain.moves.clone_from(&carver.moves);
    outcome.decision.moves = carver.moves;
    Ok(())
}

/// The load of each piece, and of what the rank does besides as the last one; and the sums.
fn weigh(run: &mut Run<'_>, snapshot: &Snapshot) -> Result<(Vec<f64>, Weighed), Fault> {
    let vectors = snapshot.pieces.iter().map(|piece| &piece.load).chain([&snapshot.besides]);
    let rows: Vec<f64> = vectors.flat_map(environment::counters).collect();
    let loads = run.call_rows("metaload", &rows, 5)?;
    // The sum of nothing is minus zero.
    let auth = 0.0 + loads[..snapshot.pieces.len()].iter().sum::<f64>();
    let all = auth + loads.last().copied().unwrap_or(0.0);
    let own = Weighed { policy: snapshot.policy, auth, all };
    match own.is_sound() {
        true => Ok((loads, own)),
        false => Err(Fault::new("metaload", FaultKind::Answer, "the loads are too big to be added")),
    }
}

fn set_environment(
    run: &mut Run<'_>,
    snapshot: &Snapshot,
    part: &[(&RankView, Weighed)],
    me: usize,
) -> Result<(), Fault> {
    let own = part[me].1;
    let at_top = snapshot.pieces.iter().filter(|piece| piece.above.is_none());
    let inodes: u64 = at_top.map(|piece| piece.inodes).fold(0, u64::saturating_add);
    run.set("whoami", Input::Number((me + 1) as f64))?;
    run.set("authmetaload", Input::Number(own.auth))?;
    run.set("allmetaload", Input::Number(own.all))?;
    run.set("tick_ms", Input::Number(snapshot.tick_ms as f64))?;
    run.set("inodes", Input::Number(inodes as f64))?;
    run.set("MDSs", environment::metrics(part))
}

fn mds_loads(run: &mut Run<'_>, count: usize) -> Result<Vec<f64>, Fault> {
    (1..=count).map(|i| run.call_number("mdsload", &[Input::Number(i as f64)])).collect()
}

fn when(run: &mut Run<'_>) -> Result<bool, Fault> {
    match run.call("when", &[])? {
        Output::Bool(go) => Ok(go),
        other => {
            let text = format!("must answer true or false, it answered {}", other.type_name());
            Err(Fault::new("when", FaultKind::Answer, text))
        }
    }
}
