//! Recorded calls as text, one a line: what a workload has done can be written down and done again.
//!
//! ```text
//! # microseconds since the beginning, client, call, path [, second path or number]
//! 0 - mkdir /shared
//! 0 0 create /shared/a%20file
//! 412 1 rename /shared/a /shared/b
//! 977 0 write /shared/c 4096
//! 1204 1 chmod /shared/c 664
//! 2000 - mark link
//! ```
//!
//! Fields are parted by one or more spaces or tabs. Client `-`: before the first call of a client it makes what is to exist; a
//! mark is for all clients. Clients are numbered from 0, lines of one client are in the order in which it called. In paths and
//! names of marks, what is not a printable ASCII character, and `%`, is written as `%` and two hexadecimal digits for each byte of
//! its UTF-8. Calls: `mkdir create stat open readdir unlink rmdir rename write chmod utimens`; `write` ends with bytes, `chmod`
//! with octal permission bits. Lines that are empty or begin with `#` are passed over.
//!
//! Not the lanes of a client: a trace has one for each. Nor answers.

use std::fmt::Write as _;

use crate::{Call, Item, Lane, Path, Workload};

/// Most clients of a trace.
pub const CLIENTS_MAX: usize = 100_000;

/// Writes a line.
pub fn line(us: u64, client: Option<usize>, call: &Call) -> String {
    let mut out = head(us, client, call.name());
    push_path(&mut out, call.path());
    // Writing into a string cannot fail.
    let _ = match call {
        Call::Rename(_, to) => {
            push_path(&mut out, to);
            Ok(())
        }
        Call::Write(_, bytes) => write!(out, " {bytes}"),
        Call::Chmod(_, mode) => write!(out, " {mode:o}"),
        _ => Ok(()),
    };
    out.push('\n');
    out
}

/// Writes the line of a mark.
pub fn mark(us: u64, name: &str) -> String {
    let mut out = head(us, None, "mark");
    push_path(&mut out, name);
    out.push('\n');
    out
}

fn head(us: u64, client: Option<usize>, name: &str) -> String {
    client.map_or_else(|| format!("{us} - {name}"), |client| format!("{us} {client} {name}"))
}

fn push_path(out: &mut String, path: &str) {
    out.push(' ');
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
}

/// Writes down a whole workload as it would go if all lanes took turns; times are 0.
pub fn record(workload: Workload) -> String {
    let mut out: String = workload.setup.iter().map(|call| line(0, None, call)).collect();
    let mut lanes: Vec<(usize, Lane)> = Vec::new();
    for (client, of_it) in workload.clients.into_iter().enumerate() {
        lanes.extend(of_it.into_iter().map(|lane| (client, lane)));
    }
    let mut marked: Vec<(usize, Lane)> = Vec::new();
    while !lanes.is_empty() {
        let mut name = None;
        let mut turn = std::mem::take(&mut lanes);
        while !turn.is_empty() {
            let mut going = Vec::new();
            for (client, mut lane) in turn {
                match lane.next() {
                    Some(Item::Call(call)) => out.push_str(&line(0, Some(client), &call)),
                    Some(Item::Until(_)) => {}
                    Some(Item::Mark(mark)) => {
                        name = Some(mark);
                        marked.push((client, lane));
                        continue;
                    }
                    None => continue,
                }
                going.push((client, lane));
            }
            turn = going;
        }
        if let Some(name) = name {
            out.push_str(&mark(0, &name));
        }
        lanes.append(&mut marked);
    }
    out
}

/// Reads a trace. `timed`: calls are not made before their time.
pub fn parse(text: &str, timed: bool) -> Result<Workload, String> {
    let mut workload = Workload::empty();
    let mut clients: Vec<Vec<Item>> = Vec::new();
    let mut marks: Vec<(Vec<usize>, Path)> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let wrong = |what: String| format!("line {}: {what}: `{line}`", number + 1);
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [us, client, name, path, rest @ ..] = fields.as_slice() else {
            return Err(wrong("a line is `microseconds client call path [path or number]`".into()));
        };
        let us: u64 = us.parse().map_err(|_| wrong(format!("`{us}` is no number of microseconds")))?;
        let path = unescape(path).map_err(&wrong)?;
        if *client == "-" && *name == "mark" {
            marks.push((clients.iter().map(Vec::len).collect(), path));
            continue;
        }
        let call = call(name, path, rest).map_err(&wrong)?;
        if *client == "-" {
            if !clients.is_empty() {
                return Err(wrong("what is to exist (client `-`) stands before all calls of clients".into()));
            }
            workload.setup.push(call);
            continue;
        }
        let client: usize =
            client.parse().map_err(|_| wrong(format!("`{client}` is neither a client's number nor `-`")))?;
        if client >= CLIENTS_MAX {
            return Err(wrong(format!("clients are numbered from 0 to {}", CLIENTS_MAX - 1)));
        }
        if clients.len() <= client {
            clients.resize_with(client + 1, Vec::new);
        }
        if timed {
            clients[client].push(Item::Until(us));
        }
        clients[client].push(Item::Call(call));
    }
    for (places, name) in marks.into_iter().rev() {
        for (client, items) in clients.iter_mut().enumerate() {
            items.insert(places.get(client).copied().unwrap_or(0), Item::Mark(Path::clone(&name)));
        }
    }
    workload.spread = workload
        .setup
        .iter()
        .filter_map(|call| match call {
            Call::Mkdir(path) => Some(Path::clone(path)),
            _ => None,
        })
        .collect();
    workload.clients = clients.into_iter().map(|items| vec![Box::new(items.into_iter()) as Lane]).collect();
    Ok(workload)
}

fn call(name: &str, path: Path, rest: &[&str]) -> Result<Call, String> {
    let most = usize::from(matches!(name, "rename" | "write" | "chmod"));
    if rest.len() != most {
        return Err(format!("{name} has {} after its path, not {most}", rest.len()));
    }
    proper(&path)?;
    let last = rest.first().copied().unwrap_or("");
    Ok(match name {
        "mkdir" => Call::Mkdir(path),
        "create" => Call::Create(path),
        "stat" => Call::Stat(path),
        "open" => Call::Open(path),
        "readdir" => Call::Readdir(path),
        "unlink" => Call::Unlink(path),
        "rmdir" => Call::Rmdir(path),
        "rename" => {
            let to = unescape(last)?;
            proper(&to)?;
            Call::Rename(path, to)
        }
        "write" => Call::Write(path, last.parse().map_err(|_| format!("`{last}` is no number of bytes"))?),
        "chmod" => {
            let mode = u16::from_str_radix(last, 8).ok().filter(|mode| *mode <= 0o7777);
            Call::Chmod(path, mode.ok_or(format!("`{last}` is no octal mode from 0 to 7777"))?)
        }
        "utimens" => Call::Utimens(path),
        _ => {
            return Err(format!(
                "there is no call `{name}`: mkdir, create, stat, open, readdir, unlink, rmdir, rename, write, chmod, utimens"
            ));
        }
    })
}

/// Checks that it is a path as [`Path`] has them: on a real file system one with `..` would lead out of the place for the calls.
fn proper(path: &str) -> Result<(), String> {
    let Some(names) = path.strip_prefix('/') else { return Err("a path begins with `/`".into()) };
    let bad = |name: &str| matches!(name, "" | "." | "..") || name.contains('\0');
    if !names.is_empty() && names.split('/').any(bad) {
        return Err("names in a path are not empty, `.` or `..`, and have no NUL".into());
    }
    Ok(())
}

fn unescape(text: &str) -> Result<Path, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or(b'?')).to_digit(16));
        let [Some(high), Some(low)] = digits else {
            return Err(format!("in `{text}` a `%` is not followed by two hexadecimal digits"));
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map(Path::from).map_err(|_| format!("`{text}` is not UTF-8 when its escapes are resolved"))
}
