//! Numbers of entries in closed form. The number of entries below a place depends on the values of the arguments over which ranges
//! are dealt out, and on nothing else: it is a constant and, for each such range, a factor of its share. So sums over any number of
//! neighbours are products. Not here: which entry has which number (`walk.rs`).

use super::argument::Argument;

/// `constant` + the sum of `factor` x (share of the range at the value of the argument it is dealt out over).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Linear {
    pub constant: u64,
    /// Ranges with their factors.
    pub terms: Vec<(usize, u64)>,
}

/// Failure of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsummed {
    /// It is too large.
    Overflow,
    /// A range is dealt out below another one that is: the sum is no product.
    Nested,
}

impl Linear {
    pub fn of(constant: u64) -> Linear {
        Linear { constant, terms: Vec::new() }
    }

    pub fn add(&mut self, other: &Linear) -> Result<(), Unsummed> {
        self.constant = self.constant.checked_add(other.constant).ok_or(Unsummed::Overflow)?;
        for (range, factor) in &other.terms {
            match self.terms.iter_mut().find(|(own, _)| own == range) {
                Some((_, own)) => *own = own.checked_add(*factor).ok_or(Unsummed::Overflow)?,
                None => self.terms.push((*range, *factor)),
            }
        }
        Ok(())
    }

    /// Its sum over all values of an argument, or over those of the share that is given by the values set above.
    pub fn over(&self, args: &[Argument], argument: usize) -> Result<Linear, Unsummed> {
        let count = args[argument].count();
        if args[argument].split.is_some() {
            if !self.terms.is_empty() {
                return Err(Unsummed::Nested);
            }
            return Ok(Linear { constant: 0, terms: vec![(argument, self.constant)] });
        }
        let mut sum = Linear::of(self.constant.checked_mul(count).ok_or(Unsummed::Overflow)?);
        for (range, factor) in &self.terms {
            let is_here = args[*range].split.is_some_and(|split| split.over == argument);
            let part = match is_here {
                true => Linear::of(factor.checked_mul(args[*range].count()).ok_or(Unsummed::Overflow)?),
                false => {
                    Linear { constant: 0, terms: vec![(*range, factor.checked_mul(count).ok_or(Unsummed::Overflow)?)] }
                }
            };
            sum.add(&part)?;
        }
        Ok(sum)
    }

    /// Its value where the arguments have these values.
    pub fn value(&self, args: &[Argument], env: &[u64]) -> u64 {
        let term = |(range, factor): &(usize, u64)| {
            let over = args[*range].split.map_or(0, |split| split.over);
            factor * args[*range].share(env[over])
        };
        self.constant + self.terms.iter().map(term).sum::<u64>()
    }

    /// Its largest value, for a check of bounds: no share is larger than its range.
    pub fn most(&self, args: &[Argument]) -> Option<u64> {
        self.terms
            .iter()
            .try_fold(self.constant, |sum, (range, factor)| sum.checked_add(factor.checked_mul(args[*range].count())?))
    }

    /// Its sum over the first `many` values of an argument that is not dealt out, or places of a share.
    pub fn before(&self, args: &[Argument], argument: usize, many: u64, env: &[u64]) -> u64 {
        let term = |(range, factor): &(usize, u64)| {
            let over = args[*range].split.map_or(0, |split| split.over);
            let shares =
                if over == argument { args[*range].before_part(many) } else { args[*range].share(env[over]) * many };
            factor * shares
        };
        self.constant * many + self.terms.iter().map(term).sum::<u64>()
    }

    /// The value of an argument, of `count` values, at which the sum from the first one on reaches beyond `rest`: the greatest with a sum
    /// before it that is at most `rest`.
    pub fn find(&self, args: &[Argument], argument: usize, count: u64, rest: u64, env: &[u64]) -> u64 {
        let is_here = |range: usize| args[range].split.is_some_and(|split| split.over == argument);
        if !self.terms.iter().any(|(range, _)| is_here(*range)) {
            let each = self.value(args, env);
            return rest.checked_div(each).unwrap_or(0).min(count - 1);
        }
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.before(args, argument, middle, env) <= rest { low = middle } else { high = middle }
        }
        low
    }
}
