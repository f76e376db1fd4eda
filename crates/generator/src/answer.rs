//! Values of a program as answers. Only their types are looked at here; the rest is checked by [`loligo_schema::code::Checked`].

use loligo_balancer::engine::Output;
use loligo_schema::code::Answer;

const KEYS: [&str; 11] =
    ["dir", "name", "entries", "dirs", "size", "contents", "target", "mode", "uid", "gid", "mtime"];

/// A table of numbers with the keys 1, 2, ...; nil: an empty one.
pub(crate) fn numbers(answer: &Output) -> Result<Vec<f64>, String> {
    let wrong = || "list: must answer a table of numbers with the keys 1, 2, ...".to_string();
    let pairs = match answer {
        Output::Nil => return Ok(Vec::new()),
        Output::Table(pairs) => pairs,
        other => return Err(format!("{}, it answered {}", wrong(), other.type_name())),
    };
    let mut numbers = vec![None; pairs.len()];
    for pair in pairs {
        let (Output::Number(key), Output::Number(value)) = pair else { return Err(wrong()) };
        let at = (*key >= 1.0 && key.fract() == 0.0 && *key <= pairs.len() as f64).then(|| *key as usize - 1);
        *numbers.get_mut(at.ok_or_else(wrong)?).ok_or_else(wrong)? = Some(*value);
    }
    numbers.into_iter().map(|number| number.ok_or_else(wrong)).collect()
}

/// A table with the keys of an entry; nil: there is none.
pub(crate) fn entry(number: u64, answer: &Output) -> Result<Option<Answer>, String> {
    let pairs = match answer {
        Output::Nil => return Ok(None),
        Output::Table(pairs) => pairs,
        other => return Err(format!("entry({number}): must answer a table or nil, it answered {}", other.type_name())),
    };
    let mut entry = Answer::default();
    let (mut entries, mut dirs) = (None, None);
    for (key, value) in pairs {
        let key = match key {
            Output::Text(key) if KEYS.contains(&key.as_str()) => key.as_str(),
            Output::Text(key) => {
                let key: String = key.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(format!("entry({number}): `{key}` is no key of an entry; there are {}", KEYS.join(", ")));
            }
            other => return Err(format!("entry({number}): keys are texts, not {}", other.type_name())),
        };
        match (key, value) {
            ("dir", Output::Number(value)) => entry.dir = *value,
            ("entries", Output::Number(value)) => entries = Some(*value),
            ("dirs", Output::Number(value)) => dirs = Some(*value),
            ("size", Output::Number(value)) => entry.size = Some(*value),
            ("mode", Output::Number(value)) => entry.mode = Some(*value),
            ("uid", Output::Number(value)) => entry.uid = Some(*value),
            ("gid", Output::Number(value)) => entry.gid = Some(*value),
            ("mtime", Output::Number(value)) => entry.mtime = Some(*value),
            ("name", Output::Text(value)) => entry.name = value.clone().into_bytes(),
            ("contents", Output::Text(value)) => entry.contents = Some(value.clone().into_bytes()),
            ("target", Output::Text(value)) => entry.target = Some(value.clone().into_bytes()),
            (key, value) => return Err(format!("entry({number}): `{key}` is {}", value.type_name())),
        }
    }
    entry.counts = entries.map(|entries| (entries, dirs.unwrap_or(0.0)));
    Ok(Some(entry))
}
