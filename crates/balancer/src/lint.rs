//! Tries a policy on toy clusters before anyone depends on it: loads it, lets it run on typical loads, and says what is odd.
//! What it does on a real cluster depends on more; what it does here is the least that it has to do well.

use crate::balance::{Form, Policy};
use crate::toy::{Toy, ToyPiece};
use crate::{Fault, Limits};

/// Ranks of the toys.
const SIZES: &[usize] = &[1, 2, 3, 5, 8, 16, 64];
/// After so many cases with faults nothing more is tried.
const FAULTY_MAX: usize = 4;
/// Beyond this many ranks only the loads that tell most are tried, for fewer ticks: the work grows with the square.
const SMALL: usize = 16;
/// Ticks of a case. In the last part of them nothing should move any more.
const TICKS: usize = 48;
const TICKS_LARGE: usize = 30;
const LATE_PARTS: usize = 4;
/// Requests that one rank of the toy can answer in a second, and directories of a case.
const CAPACITY: f64 = 1000.0;
const DIRECTORIES: usize = 96;
/// Of the mean: a cluster with less than this on the fullest rank is even.
const EVEN: f64 = 1.5;

/// Load of the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// Nothing.
    Idle,
    /// Rank 0 has twice what it can do.
    OneHot,
    /// The first two ranks have nearly twice what they can do.
    TwoHot,
    /// All ranks have nearly as much as they can do, evenly.
    AllHot,
    /// Little, then much, then little, all on what rank 0 began with.
    FlashCrowd,
    /// Half of what they can do, evenly, up and down by a fifth.
    Noise,
    /// Rank 0 has too much, and the last rank says nothing.
    Silent,
    /// Rank 0 has too much, and the last rank takes nothing.
    Draining,
}

const SCENES: &[Scene] = &[
    Scene::Idle,
    Scene::OneHot,
    Scene::TwoHot,
    Scene::AllHot,
    Scene::FlashCrowd,
    Scene::Noise,
    Scene::Silent,
    Scene::Draining,
];

impl Scene {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Scene::Idle => "idle",
            Scene::OneHot => "one hot",
            Scene::TwoHot => "two hot",
            Scene::AllHot => "all hot",
            Scene::FlashCrowd => "flash crowd",
            Scene::Noise => "noise",
            Scene::Silent => "one silent",
            Scene::Draining => "one drained",
        }
    }

    fn is_tried(self, ranks: usize) -> bool {
        let needs_two = matches!(self, Scene::TwoHot | Scene::Silent | Scene::Draining);
        let tells_much = matches!(self, Scene::OneHot | Scene::Noise);
        (ranks > 1 || !needs_two) && (ranks <= SMALL || tells_much)
    }

    /// Something is wrong with the load, so something should move.
    fn asks_for_moves(self, ranks: usize) -> bool {
        match self {
            Scene::OneHot => ranks > 1,
            Scene::TwoHot => ranks > 2,
            _ => false,
        }
    }
}

/// Result of one load on one cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct LintCase {
    /// The load.
    pub scene: Scene,
    /// Number of ranks.
    pub ranks: usize,
    /// Ticks that it ran.
    pub ticks: usize,
    /// Pieces that moved.
    pub moves: usize,
    /// Of them in the last quarter.
    pub late_moves: usize,
    /// Decisions that ended with a fault.
    pub faults: usize,
    /// The first of them.
    pub fault: Option<Fault>,
    /// In the end, what is asked of the fullest rank by the mean.
    pub imbalance: f64,
}

/// Report about a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct LintReport {
    /// Its name.
    pub name: String,
    /// Its form; none if it does not load.
    pub form: Option<Form>,
    /// Why it does not load.
    pub refused: Option<Fault>,
    /// Result of each load.
    pub cases: Vec<LintCase>,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl LintReport {
    /// It loads and never ends with a fault.
    pub fn is_usable(&self) -> bool {
        self.refused.is_none() && self.cases.iter().all(|case| case.faults == 0)
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match (&self.refused, self.form) {
            (Some(fault), _) => format!("{}: refused: {fault}", self.name),
            (None, Some(Form::Hooks)) => format!("{}: hooks in TOML", self.name),
            (None, _) => format!("{}: a file of Luau", self.name),
        }];
        for case in &self.cases {
            let fault = case.fault.as_ref().map_or(String::new(), |fault| format!("; {} faults: {fault}", case.faults));
            let (ranks, scene, moves, late) = (case.ranks, case.scene.name(), case.moves, case.late_moves);
            let imbalance = case.imbalance;
            lines.push(format!(
                "{ranks:>3} ranks, {scene:12} {moves:>5} moves, {late:>4} late, imbalance {imbalance:.2}{fault}"
            ));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines
    }
}

/// Tries a policy.
pub fn lint(name: &str, text: &str) -> LintReport {
    let mut report =
        LintReport { name: name.to_string(), form: None, refused: None, cases: Vec::new(), warnings: Vec::new() };
    let mut policy = match Policy::load(name, text, &Limits::deterministic()) {
        Ok(policy) => policy,
        Err(fault) => {
            report.refused = Some(fault);
            return report;
        }
    };
    report.form = Some(policy.form());
    report.warnings.extend(odd_names(&mut policy));
    for ranks in SIZES {
        for scene in SCENES.iter().filter(|scene| scene.is_tried(*ranks)) {
            if report.cases.iter().filter(|case| case.faults > 0).count() >= FAULTY_MAX {
                report.warnings.push(format!("ends with faults so often that {ranks} ranks and more were not tried"));
                report.warnings.extend(warnings(&report.cases));
                return report;
            }
            match run(name, text, *scene, *ranks) {
                Ok(case) => report.cases.push(case),
                Err(fault) => report.warnings.push(format!("does not load a second time: {fault}")),
            }
        }
    }
    report.warnings.extend(warnings(&report.cases));
    report
}

fn odd_names(policy: &mut Policy) -> Vec<String> {
    let warn = |(name, near): (String, Option<&'static str>)| match near {
        Some(near) => Some(format!("sets `{name}`, which means nothing: did you mean `{near}`?")),
        None => Some(format!("sets the global `{name}`, which is new in each decision: write `local {name}`")),
    };
    policy.odd_names().into_iter().filter_map(warn).collect()
}

/// Lets one load run.
fn run(name: &str, text: &str, scene: Scene, ranks: usize) -> Result<LintCase, Fault> {
    let mut toy = Toy::new(name, text, ranks)?;
    set(&mut toy, scene);
    let ticks = if ranks <= SMALL { TICKS } else { TICKS_LARGE };
    let mut case = LintCase { scene, ranks, ticks, moves: 0, late_moves: 0, faults: 0, fault: None, imbalance: 1.0 };
    for tick in 0..ticks {
        if scene == Scene::FlashCrowd {
            let part = ticks / LATE_PARTS;
            let demand = if tick < part || tick >= 2 * part { 0.1 } else { 0.5 * ranks as f64 };
            demand_on(&mut toy.pieces, demand * CAPACITY);
        }
        let ticked = toy.tick();
        let moves = ticked.moves().len();
        case.moves += moves;
        case.late_moves += if tick >= ticks - ticks / LATE_PARTS { moves } else { 0 };
        case.faults += ticked.faults().len();
        case.fault = case.fault.or_else(|| ticked.faults().first().map(|fault| (*fault).clone()));
        if case.faults > 0 {
            // One that never ends would do so at each tick.
            case.ticks = tick + 1;
            break;
        }
    }
    case.imbalance = toy.imbalance();
    Ok(case)
}

/// So much in all on everything but the root.
fn demand_on(pieces: &mut [ToyPiece], demand: f64) {
    let count = pieces.len().saturating_sub(1).max(1) as f64;
    pieces.iter_mut().skip(1).for_each(|piece| piece.demand = demand / count);
}

fn set(toy: &mut Toy, scene: Scene) {
    let ranks = toy.ranks.len();
    toy.capacity = CAPACITY;
    let root = toy.add(None, 0, 0.0);
    let owners = match scene {
        Scene::TwoHot => ranks.min(2),
        Scene::AllHot | Scene::Noise => ranks,
        _ => 1,
    };
    for at in 0..DIRECTORIES.div_ceil(owners) * owners {
        toy.add(Some(root), at % owners, 0.0);
    }
    let demand = match scene {
        Scene::Idle | Scene::FlashCrowd => 0.0,
        Scene::OneHot | Scene::Silent | Scene::Draining => 2.0,
        Scene::TwoHot => 3.8,
        Scene::AllHot => 0.95 * ranks as f64,
        Scene::Noise => 0.5 * ranks as f64,
    };
    demand_on(&mut toy.pieces, demand * CAPACITY);
    toy.noise = if scene == Scene::Noise { 0.2 } else { 0.0 };
    let last = ranks - 1;
    match scene {
        Scene::Silent => {
            toy.ranks[last].silent = true;
        }
        Scene::Draining => toy.ranks[last].takes_more = false,
        _ => {}
    }
}

/// Warnings about the cases taken together; each is given once.
fn warnings(cases: &[LintCase]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |is_odd: &dyn Fn(&LintCase) -> bool, text: &str| {
        let odd: Vec<String> = cases
            .iter()
            .filter(|case| is_odd(case))
            .map(|case| format!("{} with {}", case.scene.name(), case.ranks))
            .collect();
        let more = if odd.len() > 3 { format!(" and {} more", odd.len() - 3) } else { String::new() };
        if !odd.is_empty() {
            warnings.push(format!("{text}: {}{more}", odd[..odd.len().min(3)].join(", ")));
        }
    };
    warn(&|case| case.faults > 0 && case.ranks == 1, "ends with a fault where there is one rank only");
    warn(&|case| case.faults > 0 && case.ranks > 1, "ends with a fault");
    warn(&|case| case.scene == Scene::Idle && case.moves > 0, "moves something although nothing happens");
    warn(&|case| case.scene == Scene::Noise && case.late_moves > 0, "moves something for noise");
    let rests = |case: &LintCase| matches!(case.scene, Scene::OneHot | Scene::TwoHot | Scene::AllHot);
    warn(&|case| rests(case) && case.late_moves > 0, "does not come to rest");
    let should = |case: &LintCase| case.scene.asks_for_moves(case.ranks) && case.faults == 0;
    warn(&|case| should(case) && case.moves == 0, "moves nothing although a rank has too much");
    let small = |case: &LintCase| should(case) && case.ranks <= 3 && case.moves > 0;
    warn(&|case| small(case) && case.imbalance > EVEN, "leaves one rank with much more than the others");
    warnings
}
