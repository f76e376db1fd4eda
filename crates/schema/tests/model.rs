//! Random documents against a model that lists every entry: names, numbers, kinds, pages of listings and counts are equal, and a document is
//! refused if and only if the model finds two entries of one name, or for a reason that the model does not know.

use std::collections::BTreeMap;

use loligo_schema::formula::{Bound, Formula, Place};
use loligo_schema::{Body, Cause, Document, Generator};
use loligo_types::{Kind, Random};

struct Rng(Random);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.0.pick(from)
    }
}

/// An argument as the model knows it: all values, and for each the part that it is dealt to.
#[derive(Debug)]
struct Arg {
    name: String,
    text: String,
    values: Vec<String>,
    split: Option<(usize, Vec<usize>)>,
}

fn arg(rng: &mut Rng, at: usize, before: &[Arg]) -> Arg {
    let name = format!("a{at}");
    if rng.below(3) == 0 {
        let words = ["a", "b", "ab", "x1", "1", "0", "12", "-", "a.b", "", "zz"];
        let mut values: Vec<String> = Vec::new();
        for _ in 0..=rng.below(3) {
            let word = rng.pick(&words[..9]).to_string();
            if !values.contains(&word) {
                values.push(word);
            }
        }
        let text = format!("{values:?}");
        return Arg { name, text, values, split: None };
    }
    let (first, step) = (*rng.pick(&[0, 1, 5, 8, 98]), *rng.pick(&[1, 1, 1, 2, 3]));
    let count = 1 + rng.below(7);
    let (width, hex) = (*rng.pick(&[0, 0, 2, 3]), rng.below(5) == 0);
    let last = first + step * count - 1 - rng.below(step);
    let numbers: Vec<usize> = (first..=last).step_by(step).collect();
    let print = |n: &usize| if hex { format!("{n:0width$x}") } else { format!("{n:0width$}") };
    let values: Vec<String> = numbers.iter().map(print).collect();
    let mut text =
        format!("first = {first}, last = {last}, step = {step}, width = {width}, base = {}", if hex { 16 } else { 10 });
    let mut split = None;
    let free: Vec<usize> = (0..before.len()).filter(|over| before[*over].split.is_none()).collect();
    if !free.is_empty() && rng.below(3) == 0 {
        let over = *rng.pick(&free);
        let (parts, cyclic) = (before[over].values.len(), rng.below(2) == 0);
        let block =
            |index: usize| (0..parts).rfind(|part| part * values.len() / parts <= index).expect("part 0 begins at 0");
        let owners = (0..values.len()).map(|index| if cyclic { index % parts } else { block(index) }).collect();
        text += &format!(", split = \"a{over}\", deal = \"{}\"", if cyclic { "cyclic" } else { "block" });
        split = Some((over, owners));
    }
    Arg { name, text: format!("{{ {text} }}"), values, split }
}

/// A component: literals and arguments.
type Component = Vec<Result<&'static str, usize>>;

fn component(rng: &mut Rng, args: usize) -> Component {
    let literal = |rng: &mut Rng| *rng.pick(&["a", ".", "-", "x", "1", "f."]);
    let mut parts = Vec::new();
    for _ in 0..=rng.below(3) {
        parts.push(if rng.below(2) == 0 && args > 0 { Err(rng.below(args)) } else { Ok(literal(rng)) });
    }
    if parts == [Ok(".")] { vec![Ok("dot")] } else { parts }
}

fn shown(component: &Component) -> String {
    component.iter().map(|part| part.map_or_else(|arg| format!("{{a{arg}}}"), str::to_string)).collect()
}

/// A path: its components, and if it is a directory.
type Path = (Vec<Component>, bool);

/// The rest of a path from some directory on, and if it is a directory.
type Rest<'a> = (&'a [Component], bool);

/// An entry of the model: path of names, and if it is a directory.
type Listed = Vec<(Vec<String>, bool)>;

/// Lists everything below a directory in preorder. None: two entries have one name, a name is none, or a range is split over what is not set.
fn list(
    args: &[Arg],
    paths: &[Rest<'_>],
    env: &BTreeMap<usize, usize>,
    above: &[String],
    out: &mut Listed,
) -> Option<()> {
    let mut groups: Vec<(String, Vec<Rest<'_>>)> = Vec::new();
    for (components, is_dir) in paths.iter().filter(|(components, _)| !components.is_empty()) {
        let text = shown(&components[0]);
        let rest = (&components[1..], *is_dir);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, all)) => all.push(rest),
            None => groups.push((text, vec![rest])),
        }
    }
    let mut names = Vec::new();
    for (text, rests) in &groups {
        let own = paths.iter().find(|(components, _)| components.first().is_some_and(|first| shown(first) == *text));
        let component = &own.expect("the group is of it").0[0];
        let ends = rests.iter().filter(|(rest, _)| rest.is_empty()).count();
        let is_dir = rests.iter().any(|(rest, is_dir)| !rest.is_empty() || *is_dir);
        if ends > 1 || is_dir && rests.iter().any(|(rest, is_dir)| rest.is_empty() && !is_dir) {
            return None;
        }
        let mut envs = vec![env.clone()];
        for arg in component.iter().filter_map(|part| part.err()) {
            let mut next = Vec::new();
            for env in envs {
                if env.contains_key(&arg) {
                    next.push(env);
                    continue;
                }
                let part = match &args[arg].split {
                    Some((over, _)) => Some(*env.get(over)?),
                    None => None,
                };
                for value in 0..args[arg].values.len() {
                    if part.is_none_or(|part| args[arg].split.as_ref().is_some_and(|(_, owners)| owners[value] == part))
                    {
                        let mut more = env.clone();
                        more.insert(arg, value);
                        next.push(more);
                    }
                }
            }
            envs = next;
        }
        for env in envs {
            let name: String =
                component.iter().map(|part| part.unwrap_or_else(|arg| &args[arg].values[env[&arg]])).collect();
            if names.contains(&name) || name == "." || name == ".." {
                return None;
            }
            names.push(name.clone());
            let path = [above, &[name]].concat();
            out.push((path.clone(), is_dir));
            list(args, rests, &env, &path, out)?;
        }
    }
    Some(())
}

/// Compares everything of a formula with the list.
fn compare(formula: &Formula, listed: &Listed, rng: &mut Rng, text: &str) {
    let files = listed.iter().filter(|(_, is_dir)| !is_dir).count() as u64;
    let totals = formula.totals();
    assert_eq!((totals.entries, totals.files, totals.bytes), (listed.len() as u64, files, files * 7), "{text}");
    assert_eq!(formula.locate(totals.entries + 1), None);
    let mut children: BTreeMap<Vec<String>, Vec<(String, u64)>> = BTreeMap::from([(Vec::new(), Vec::new())]);
    for (index, (path, is_dir)) in (1..).zip(listed) {
        let (name, above) = path.split_last().expect("it has a name");
        children.entry(above.to_vec()).or_default().push((name.clone(), index));
        if *is_dir {
            children.entry(path.clone()).or_default();
        }
        let place = formula.locate(index).unwrap_or_else(|| panic!("{index} of {text}"));
        let expected = if *is_dir { Kind::Dir } else { Kind::File };
        assert_eq!((formula.kind(&place), place.index), (expected, index), "{path:?} of {text}");
        assert_eq!(formula.names(&place), path.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{text}");
        assert_eq!(formula.resolve(path.iter().map(|name| name.as_bytes())), Some(place), "{path:?} of {text}");
    }
    for (path, children) in &children {
        let dir = formula.resolve(path.iter().map(|name| name.as_bytes())).expect("it is listed");
        assert_eq!(formula.len(&dir), children.len() as u64, "{path:?} of {text}");
        // Pages of any size from any cookie.
        let mut cookie = 0;
        let mut paged: Vec<(String, u64)> = Vec::new();
        while cookie < children.len() as u64 {
            let page = cookie..cookie + 1 + rng.below(4) as u64;
            for place in page.map_while(|ordinal| formula.nth(&dir, ordinal)) {
                paged.push((String::from_utf8(formula.name(&place)).expect("text"), place.index));
                cookie = formula.ordinal(&place).expect("it is in a directory") + 1;
            }
        }
        assert_eq!(&paged, children, "{path:?} of {text}");
        assert_eq!(formula.nth(&dir, cookie), None);
        for name in ["", "a", "1", "01", "x1", "f.0", "12", "a.b", "dot", "nothing", ".", "..", "a/b"] {
            let known = children.iter().find(|(own, _)| own == name).map(|(_, index)| *index);
            let found = formula.child(&dir, name.as_bytes()).map(|place| place.index);
            assert_eq!(found, known, "{name} in {path:?} of {text}");
        }
    }
}

/// Compares the entries of a path within random bounds with a filter over all of them.
fn compare_selection(formula: &Formula, paths: usize, rng: &mut Rng, text: &str) {
    use loligo_schema::formula::Values;
    let path = rng.below(paths);
    let all: Vec<Place> = formula.select(path, &[]).expect("it is a path").collect();
    let of_path = |place: &Place| formula.path_of(place) == Some(path);
    let expected: Vec<u64> =
        (1..=formula.totals().entries).filter(|index| of_path(&formula.locate(*index).expect("it is there"))).collect();
    assert_eq!(all.iter().map(|place| place.index).collect::<Vec<u64>>(), expected, "path {path} of {text}");
    for argument in formula.args() {
        let Values::Range(range) = &argument.values else { continue };
        let (first, last) = (range.first + rng.below(4) as u64, range.first + rng.below(12) as u64);
        let bounds = [(argument.name.as_str(), Bound::Numbers { first, last })];
        let Some(found) = formula.select(path, &bounds) else { continue };
        let found: Vec<Place> = found.collect();
        let inside = |place: &&Place| {
            let value = formula.value(place, &argument.name).expect("the path has it");
            (first..=last).contains(&(range.first + value * range.step))
        };
        assert_eq!(
            found,
            all.iter().filter(inside).cloned().collect::<Vec<_>>(),
            "{bounds:?} of path {path} of {text}"
        );
    }
}

#[test]
fn random_documents_give_the_tree_that_a_model_lists() {
    let (mut sound, mut entries, mut refused) = (0, 0, BTreeMap::<String, usize>::new());
    for seed in 0..20_000u64 {
        let mut rng = Rng(Random::new(seed << 20));
        let mut args: Vec<Arg> = Vec::new();
        for at in 0..rng.below(4) {
            args.push(arg(&mut rng, at, &args));
        }
        let path = |rng: &mut Rng| -> Path {
            ((0..=rng.below(3)).map(|_| component(rng, args.len())).collect(), rng.below(6) == 0)
        };
        let mut paths: Vec<Path> = (0..=rng.below(3)).map(|_| path(&mut rng)).collect();
        // Paths that share a beginning.
        if paths.len() > 1 && rng.below(2) == 0 {
            let first = paths[0].0[0].clone();
            paths[1].0.insert(0, first);
        }
        let texts: Vec<String> = paths
            .iter()
            .map(|(components, is_dir)| {
                let text = components.iter().map(shown).collect::<Vec<_>>().join("/");
                if *is_dir { format!("{:?}", text + "/") } else { format!("{{ path = {text:?}, size = 7 }}") }
            })
            .collect();
        let used = |arg: &usize| paths.iter().any(|(path, _)| path.iter().flatten().any(|part| *part == Err(*arg)));
        let lines: Vec<String> = args.iter().map(|arg| format!("{} = {}\n", arg.name, arg.text)).collect();
        let text =
            format!("version = 1\nkind = \"formula\"\npaths = [{}]\n[args]\n{}", texts.join(", "), lines.concat());
        let mut listed = Listed::new();
        let all: Vec<Rest<'_>> = paths.iter().map(|(path, is_dir)| (&path[..], *is_dir)).collect();
        let model = list(&args, &all, &BTreeMap::new(), &[], &mut listed);
        match Document::parse(&text) {
            Ok(document) => {
                assert_eq!(model, Some(()), "the model finds a fault in {text}");
                let Generator::Formula(formula) = &document.generator else { panic!("another kind") };
                compare(&formula.tree, &listed, &mut rng, &text);
                compare_selection(&formula.tree, paths.len(), &mut rng, &text);
                let last = formula.tree.locate(listed.len() as u64).expect("it is there");
                let body = formula.entry(&last, &document.defaults).body;
                assert!(matches!(body, Body::Dir { entries: 0, dirs: 0 } | Body::Zeros(7)), "{body:?} of {text}");
                sound += 1;
                entries += listed.len();
            }
            Err(fault) => {
                let is_allowed = match &fault.cause {
                    Cause::Ambiguous { .. } | Cause::TooInvolved { .. } | Cause::Split { .. } => true,
                    Cause::Unused(_) => !(0..args.len()).all(|arg| used(&arg)),
                    Cause::Collision { .. } | Cause::FileAndDir { .. } | Cause::Path { .. } => model.is_none(),
                    _ => false,
                };
                let exact = is_allowed || matches!(fault.cause, Cause::Collision { .. }) && has_split(&args);
                assert!(exact, "{fault}\n{text}\n{listed:?}");
                let kind = format!("{:?}", fault.cause);
                *refused.entry(kind.split([' ', '(', '{']).next().expect("a word").to_string()).or_default() += 1;
            }
        }
    }
    // The harness looks at enough of both.
    assert!(sound > 2000 && entries > 40_000, "{sound} sound, {entries} entries, {refused:?}");
    assert!(refused.contains_key("Collision") && refused.contains_key("Ambiguous"), "{refused:?}");
}

#[test]
#[should_panic(expected = "left == right")]
fn the_comparison_finds_two_entries_that_changed_places() {
    let text = "version = 1\nkind = \"formula\"\npaths = [{ path = \"a\", size = 7 }, { path = \"b\", size = 7 }]\n";
    let Generator::Formula(formula) = Document::parse(text).expect("it is sound").generator else { return };
    let listed = vec![(vec!["b".to_string()], false), (vec!["a".to_string()], false)];
    compare(&formula.tree, &listed, &mut Rng(Random::new(0)), text);
}

/// Shares are not told apart when patterns are compared: names of different shares count as common.
fn has_split(args: &[Arg]) -> bool {
    args.iter().any(|arg| arg.split.is_some())
}
