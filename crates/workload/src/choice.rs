//! Which of many files is meant. Not what is done with it.

use std::fmt;
use std::str::FromStr;

use crate::Rng;
use crate::rng::Scatter;
use crate::zipf::Zipf;

/// Rule by which files are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// All equally often.
    Uniform,
    /// A few most of the time; these lie anywhere in the tree.
    Zipf,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        match text {
            "uniform" => Ok(Choice::Uniform),
            "zipf" => Ok(Choice::Zipf),
            _ => Err(format!("choice={text}: this must be uniform or zipf")),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Uniform => "uniform",
            Choice::Zipf => "zipf",
        })
    }
}

/// Chooses among files with the numbers below a count.
#[derive(Clone, Debug)]
pub(crate) enum Chooser {
    Uniform(u64),
    /// By rank, and which file has it.
    Zipf(Zipf, Scatter),
}

/// See [`Rng::new`].
const STREAM: u64 = 0xC401_CE00;

impl Chooser {
    pub fn new(choice: Choice, seed: u64, count: u64) -> Chooser {
        match choice {
            Choice::Uniform => Chooser::Uniform(count),
            Choice::Zipf => Chooser::Zipf(Zipf::new(count), Scatter::new(seed, STREAM, count)),
        }
    }

    pub fn choose(&self, rng: &mut Rng) -> u64 {
        match self {
            Chooser::Uniform(count) => rng.below(*count),
            Chooser::Zipf(zipf, scatter) => scatter.at(zipf.draw(rng) - 1),
        }
    }
}
