//! From paths and arguments to a formula: merges components that are written alike, sums up entries, and refuses trees in which two entries
//! would have one name. Not here: reading the document.

use super::argument::{Argument, Values};
use super::collide::{self, Common};
use super::pattern::{Pattern, Token};
use super::weigh::{Linear, Unsummed};
use super::{Formula, Level, Node, Sums};
use crate::fault::Cause;
use crate::limits::{BYTES_MAX, DEPTH_MAX, ENTRIES_MAX};

/// A path as it is written, and the size of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathText {
    /// Components with `/` between them; with `/` at its end it is a directory.
    pub text: String,
    /// Bytes of each file of this path.
    pub size: u64,
}

/// The part of a document that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An argument, by its place.
    Argument(usize),
    /// A path, by its place.
    Path(usize),
}

type Refused = (Subject, Cause);

impl Formula {
    /// Checks paths and arguments and computes the sums.
    ///
    /// # Errors
    ///
    /// The first fault: a path that is none, names that are none or that two entries have, values that run into each other, a range dealt out
    /// over what is not set yet, too many entries or bytes.
    pub fn new(args: Vec<Argument>, paths: &[PathText]) -> Result<Formula, Refused> {
        for at in 0..args.len() {
            check_split(&args, at).map_err(|cause| (Subject::Argument(at), cause))?;
        }
        let root = Node {
            pattern: Pattern::default(),
            path: None,
            through: 0,
            is_dir: true,
            children: Vec::new(),
            levels: Vec::new(),
            all: Sums::default(),
        };
        let mut formula = Formula { args, nodes: vec![root] };
        let mut used = vec![false; formula.args.len()];
        for at in 0..paths.len() {
            formula.add(paths, at, &mut used).map_err(|cause| (Subject::Path(at), cause))?;
        }
        let mut bound = vec![false; formula.args.len()];
        formula.check_names(0, &bound, paths, &mut collide::PAIRS_MAX.clone())?;
        formula.sum(0, paths, &mut bound)?;
        let totals = formula.nodes[0].children.iter().try_fold(Sums::default(), |mut sums, child| {
            sums.add(&formula.nodes[*child].all)?;
            Ok(sums)
        });
        // Nothing is set at the root, so that its sums have no terms.
        let totals = totals.map_err(|over: Over| (Subject::Path(0), over.cause()))?;
        if totals.inodes.constant > ENTRIES_MAX {
            return Err((Subject::Path(0), Cause::TooManyEntries));
        }
        if totals.bytes.constant > BYTES_MAX {
            return Err((Subject::Path(0), Cause::TooManyBytes));
        }
        if let Some(at) = used.iter().position(|used| !used) {
            return Err((Subject::Argument(at), Cause::Unused(formula.args[at].name.clone())));
        }
        Ok(formula)
    }

    /// Adds a path to the tree of patterns.
    fn add(&mut self, paths: &[PathText], at: usize, used: &mut [bool]) -> Result<(), Cause> {
        let text = &paths[at].text;
        let wrong = |why: &str, remedy| Cause::Path { path: text.clone(), why: why.to_string(), remedy };
        let (body, is_dir) = match text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (text.as_str(), false),
        };
        if body.is_empty() {
            return Err(wrong("it is empty", "remove it, or name an entry"));
        }
        if body.contains('\0') {
            return Err(wrong("it contains a NUL", "remove it: no name can contain one"));
        }
        let components: Vec<&str> = body.split('/').collect();
        if components.len() > DEPTH_MAX {
            let why = format!("it has {} components, more than {DEPTH_MAX}", components.len());
            return Err(Cause::Path { path: text.clone(), why, remedy: "use fewer directories" });
        }
        let mut node = 0;
        let mut bound = vec![false; self.args.len()];
        for (depth, component) in components.iter().enumerate() {
            match *component {
                "" if depth == 0 => return Err(wrong("it begins with `/`", "write it from the directory on")),
                "" => return Err(wrong("two `/` stand in a row", "remove one")),
                "." | ".." => return Err(wrong("`.` and `..` are no names", "write the path without them")),
                _ => {}
            }
            let find = |name: &str| self.args.iter().position(|argument| argument.name == name);
            let pattern = Pattern::parse(component, find).map_err(|(why, remedy)| Cause::Path {
                path: text.clone(),
                why,
                remedy,
            })?;
            self.check_component(&pattern, text, &mut bound)?;
            let is_last = depth + 1 == components.len();
            node = self.enter(node, pattern, at);
            if !is_last || is_dir {
                self.nodes[node].is_dir = true;
            }
            if is_last && self.nodes[node].path.replace(at).is_some() {
                return Err(wrong("it stands here a second time", "remove one of the two"));
            }
        }
        let files = |node: &&Node| node.is_dir && node.path.is_some_and(|path| !paths[path].text.ends_with('/'));
        if let Some(both) = self.nodes.iter().find(files) {
            let file = both.path.map_or(text, |path| &paths[path].text);
            let dir = if file == text { &paths[both.through].text } else { text };
            return Err(Cause::FileAndDir { file: file.clone(), dir: dir.clone() });
        }
        used.iter_mut().zip(&bound).for_each(|(used, bound)| *used |= bound);
        Ok(())
    }

    /// Checks one component; its arguments are bound from then on.
    fn check_component(&self, pattern: &Pattern, path: &str, bound: &mut [bool]) -> Result<(), Cause> {
        if let Some(argument) = pattern.ambiguous(&self.args, |argument| bound[argument]) {
            return Err(Cause::Ambiguous { path: path.into(), argument: self.args[argument].name.clone() });
        }
        let bytes = pattern.longest(&self.args) as u64;
        if bytes > loligo_types::limits::NAME_MAX as u64 {
            return Err(Cause::NameTooLong { path: path.into(), bytes });
        }
        for argument in pattern.sets(|argument| bound[argument]) {
            if let Some(split) = self.args[argument].split
                && !bound[split.over]
            {
                let (name, over) = (self.args[argument].name.clone(), &self.args[split.over].name);
                let why = format!("`{{{over}}}` does not stand before `{{{name}}}` in `{}`", crate::fault::shown(path));
                return Err(Cause::Split { name, why, remedy: "put it there, or remove the split" });
            }
            bound[argument] = true;
        }
        Ok(())
    }

    /// The child with this pattern, made if there is none.
    fn enter(&mut self, node: usize, pattern: Pattern, through: usize) -> usize {
        let known = self.nodes[node].children.iter().find(|child| self.nodes[**child].pattern == pattern);
        if let Some(known) = known {
            return *known;
        }
        let (path, is_dir, children, levels) = (None, false, Vec::new(), Vec::new());
        self.nodes.push(Node { pattern, path, through, is_dir, children, levels, all: Sums::default() });
        let new = self.nodes.len() - 1;
        self.nodes[node].children.push(new);
        new
    }

    /// Refuses names that two siblings have, and names that are none, below a node.
    fn check_names(&self, node: usize, bound: &[bool], paths: &[PathText], budget: &mut usize) -> Result<(), Refused> {
        let common = |bound: &[bool], one: &Pattern, two: &Pattern, budget: &mut usize| {
            collide::common(&self.args, bound, one, two, budget)
        };
        let path = |node: &Node| paths[node.through].text.clone();
        let mut own = bound.to_vec();
        self.nodes[node].pattern.sets(|argument| bound[argument]).into_iter().for_each(|argument| own[argument] = true);
        let children = &self.nodes[node].children;
        for (at, child) in children.iter().map(|child| &self.nodes[*child]).enumerate() {
            for dot in [".", ".."].map(|text| Pattern { tokens: vec![Token::Literal(text.into())] }) {
                if common(&own, &child.pattern, &dot, budget) != Common::None {
                    let why = "`.` or `..` would appear as a name".to_string();
                    let cause = Cause::Path { path: path(child), why, remedy: "change the values or the literal" };
                    return Err((Subject::Path(child.through), cause));
                }
            }
            for other in children[..at].iter().map(|other| &self.nodes[*other]) {
                let (first, second) = (path(other), path(child));
                let cause = match common(&own, &other.pattern, &child.pattern, budget) {
                    Common::None => continue,
                    Common::Name(name) => {
                        Cause::Collision { first, second, name: String::from_utf8_lossy(&name).into_owned() }
                    }
                    Common::Unknown => Cause::TooInvolved { first, second },
                };
                return Err((Subject::Path(child.through), cause));
            }
        }
        children.iter().try_for_each(|child| self.check_names(*child, &own, paths, budget))
    }

    /// Computes the sums of a node and of all below it.
    fn sum(&mut self, node: usize, paths: &[PathText], bound: &mut Vec<bool>) -> Result<(), Refused> {
        let sets = self.nodes[node].pattern.sets(|argument| bound[argument]);
        let before = bound.clone();
        sets.iter().for_each(|argument| bound[*argument] = true);
        let mut each = Sums::default();
        for child in self.nodes[node].children.clone() {
            self.sum(child, paths, bound)?;
            let through = self.nodes[child].through;
            each.add(&self.nodes[child].all).map_err(|over| (Subject::Path(through), over.cause()))?;
        }
        let path = self.nodes[node].path.filter(|_| !self.nodes[node].is_dir);
        each.enter(path.map(|path| paths[path].size));
        let mut levels = Vec::new();
        let refused = |over: Over, through: usize| match over {
            Over::Nested(range) => {
                let name = self.args[range].name.clone();
                let why = format!(
                    "in `{}` another argument behind it is split, too",
                    crate::fault::shown(&paths[through].text)
                );
                (Subject::Path(through), Cause::Split { name, why, remedy: "split one argument of a path only" })
            }
            other => (Subject::Path(through), other.cause()),
        };
        let through = self.nodes[node].through;
        if node != 0 {
            for argument in sets.iter().rev() {
                let all = each.over(&self.args, *argument).map_err(|over| refused(over, through))?;
                levels.push(Level { argument: Some(*argument), each });
                each = all;
            }
            if sets.is_empty() {
                levels.push(Level { argument: None, each: each.clone() });
            }
            levels.reverse();
            let in_bounds = |sum: &Linear, max: u64| sum.most(&self.args).is_some_and(|most| most <= max);
            // Of a range that is dealt out the bound is that of all shares, which the whole tree has.
            if !in_bounds(&each.inodes, ENTRIES_MAX) {
                return Err((Subject::Path(through), Cause::TooManyEntries));
            }
            if !in_bounds(&each.bytes, BYTES_MAX) {
                return Err((Subject::Path(through), Cause::TooManyBytes));
            }
        }
        *bound = before;
        let node = &mut self.nodes[node];
        (node.levels, node.all) = (levels, each);
        Ok(())
    }
}

/// Failure of a sum, with the part of it that failed.
enum Over {
    Entries,
    Bytes,
    Nested(usize),
}

impl Over {
    fn cause(self) -> Cause {
        match self {
            Over::Bytes => Cause::TooManyBytes,
            Over::Entries | Over::Nested(_) => Cause::TooManyEntries,
        }
    }
}

impl Sums {
    fn add(&mut self, other: &Sums) -> Result<(), Over> {
        self.inodes.add(&other.inodes).map_err(|_| Over::Entries)?;
        self.entries.add(&other.entries).map_err(|_| Over::Entries)?;
        self.files.add(&other.files).map_err(|_| Over::Entries)?;
        self.bytes.add(&other.bytes).map_err(|_| Over::Bytes)
    }

    /// From the sums below an entry to those of the entry: `size` of a file, nothing for a directory.
    fn enter(&mut self, size: Option<u64>) {
        // It cannot overflow: the sums below were checked to be far smaller.
        self.inodes.constant += 1;
        self.entries = Linear::of(1);
        self.files.constant += u64::from(size.is_some());
        self.bytes.constant += size.unwrap_or(0);
    }

    fn over(&self, args: &[Argument], argument: usize) -> Result<Sums, Over> {
        let entries = |unsummed| match unsummed {
            Unsummed::Overflow => Over::Entries,
            Unsummed::Nested => Over::Nested(argument),
        };
        let inodes = self.inodes.over(args, argument).map_err(entries)?;
        if inodes.most(args).is_none_or(|most| most > ENTRIES_MAX) {
            return Err(Over::Entries);
        }
        Ok(Sums {
            inodes,
            entries: self.entries.over(args, argument).map_err(entries)?,
            files: self.files.over(args, argument).map_err(entries)?,
            bytes: self.bytes.over(args, argument).map_err(|_| Over::Bytes)?,
        })
    }
}

/// Refuses an argument that is dealt out over itself or over one that is dealt out, and a list that is.
fn check_split(args: &[Argument], at: usize) -> Result<(), Cause> {
    let Some(split) = args[at].split else { return Ok(()) };
    let name = args[at].name.clone();
    let mut next = Some(split.over);
    // A chain that is longer than the arguments are many goes round in a circle.
    for _ in 0..=args.len() {
        match next {
            Some(over) if over == at => return Err(Cause::Recursion(name)),
            Some(over) => next = args[over].split.map(|split| split.over),
            None => break,
        }
    }
    if args[split.over].split.is_some() {
        let why = format!("`{}` is split itself", args[split.over].name);
        return Err(Cause::Split { name, why, remedy: "split one argument of a path only" });
    }
    if let Values::List(_) = args[at].values {
        let why = "a list cannot be split".to_string();
        return Err(Cause::Split { name, why, remedy: "use a range, or write a path for each part" });
    }
    Ok(())
}
