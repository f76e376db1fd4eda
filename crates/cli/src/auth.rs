//! `loligo auth`: the identities with which clients come in over TLS. The list is the server's; here it is asked, and what
//! it makes is written into a file.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use loligo_driver::{Grant, Identity, Squash};
use serde_json::json;

use crate::args::{Order, Target};
use crate::look::ask;
use crate::output::{Failure, Outcome, UNCHANGED, human_time, put, say, written};
use crate::service::admin::auth::{AddedDoc, Asked, IdentityDoc};
use crate::suggest;
use crate::target;

/// `loligo auth`.
#[derive(Subcommand)]
pub enum AuthCommand {
    /// Make an identity: a file with which clients come in over TLS, for all users of their host.
    Add {
        /// Name of the identity.
        name: String,
        /// It may change nothing.
        #[arg(long, conflicts_with = "allow")]
        read_only: bool,
        /// Where it may do what: `rw:/PATH` or `r:/PATH`, several times if need be. What is nowhere allowed is refused. Without it: all.
        #[arg(long, value_name = "RIGHTS")]
        allow: Vec<Grant>,
        /// Users of its host that it does not act for, and who count as nobody (65534): root, all or none. Without it: root if --allow limits it, else
        /// none.
        #[arg(long, value_name = "USERS")]
        squash: Option<Squash>,
        /// File to write, which only its owner may read; without it, stdout, if that is no terminal. The key in it is kept nowhere else.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
        /// As JSON; without --out the text of the file, with its key, is in it.
        #[arg(long)]
        json: bool,
    },
    /// Print the identities that there are.
    List {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take an identity back: who has come in with it is out at once.
    Revoke {
        /// Name of the identity.
        name: String,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        order: Order,
    },
}

/// Identity of a client at a server that it reaches over TCP.
#[derive(Args, Clone, Default)]
pub struct AsIdentity {
    /// Identity with which to come in over TCP (see `loligo auth add`).
    #[arg(long, value_name = "FILE", env = "LOLIGO_IDENTITY")]
    pub identity: Option<String>,
}

impl AsIdentity {
    /// Reads it, if there is one.
    pub fn read(&self) -> Result<Option<Identity>, Failure> {
        read(self.identity.as_deref().unwrap_or_default())
    }
}

/// Reads an identity; an empty name is none.
pub fn read(file: &str) -> Result<Option<Identity>, Failure> {
    if file.is_empty() {
        return Ok(None);
    }
    Identity::read(Path::new(file)).map(Some).map_err(|error| Failure::usage(error.to_string()))
}

/// Carries it out.
pub fn run(what: &AuthCommand) -> Outcome {
    match what {
        AuthCommand::Add { name, read_only, allow, squash, out, target, json } => {
            let allow = allow.iter().map(Grant::to_string).collect();
            let squash = squash.map(|squash| squash.to_string());
            add(Asked { name: name.into(), read_only: *read_only, allow, squash }, out.as_deref(), target, *json)
        }
        AuthCommand::List { target, json } => list(target, *json),
        AuthCommand::Revoke { name, target, order } => revoke(name, target, *order),
    }
}

fn add(asked: Asked, out: Option<&Path>, target: &Target, as_json: bool) -> Outcome {
    let name = &asked.name;
    if out.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage(format!("the private key of {name} would be shown on this terminal"))
            .remedy("write it into a file: --out FILE; or hand it on: loligo auth add ... | COMMAND"));
    }
    let found = target::find(target)?;
    // Before anything is made that could not be kept.
    let mut file = out.map(|path| make(path).map(|file| (path, file))).transpose()?;
    let body = serde_json::to_string(&asked).map_err(|e| Failure::new(format!("the order as JSON: {e}")))?;
    let added: Result<AddedDoc, Failure> = ask::order_with(&found, "/api/v1/auth/add", &body);
    match (added, &mut file) {
        (Ok(added), None) if as_json => put(json!(added)),
        (Ok(added), None) => put(added.file.trim_end()),
        (Ok(added), Some((path, file))) => {
            let kept = file.write_all(added.file.as_bytes()).and_then(|()| file.sync_all());
            kept.map_err(|error| {
                written(&path.display().to_string(), &error)
                    .remedy(format!("the identity is of no use now: loligo auth revoke {name}, and add it again"))
            })?;
            if as_json {
                return put(json!({ "identity": added.identity, "out": path.display().to_string() }));
            }
            say(format_args!(
                "identity {name} is in {}: give it to a client on a way that others cannot read, for --identity",
                path.display()
            ));
            Ok(())
        }
        (Err(failure), file) => {
            if let Some((path, _)) = file {
                let _ = std::fs::remove_file(path);
            }
            Err(failure)
        }
    }
}

fn make(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let failure = Failure::new(format!("{}: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure.remedy("name a file that is not there"),
            _ => failure,
        }
    })
}

fn list(target: &Target, as_json: bool) -> Outcome {
    let found = target::find(target)?;
    let all: Vec<IdentityDoc> = ask::json(&found, "/api/v1/auth")?;
    if as_json {
        return put(json!(all));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for one in &all {
        let age = now.saturating_sub(Duration::from_millis(one.at_ms));
        let rights = match &one.allow[..] {
            [] if one.read_only => "read only".into(),
            [] => "read, write".into(),
            some => some.join(" "),
        };
        let squash = if one.squash.is_empty() { "?" } else { &one.squash };
        put(format_args!(
            "{:<24} {rights:<11}  squash {squash:<4}  {}  {} old",
            one.name,
            one.serial,
            human_time(age.as_secs_f64())
        ))?;
    }
    if all.is_empty() {
        say(
            "there are no identities; clients come in through the server's Unix socket (loligo auth add NAME makes one)",
        );
    }
    Ok(())
}

fn revoke(name: &str, target: &Target, order: Order) -> Outcome {
    let found = target::find(target)?;
    let asked = Asked { name: name.into(), read_only: false, allow: Vec::new(), squash: None };
    let body = serde_json::to_string(&asked).map_err(|e| Failure::new(format!("the order as JSON: {e}")))?;
    let there: Vec<IdentityDoc> = ask::json(&found, "/api/v1/auth")?;
    let near = suggest::nearest(name, there.iter().map(|one| one.name.as_str())).filter(|near| *near != name);
    if order.dry_run {
        let one = there.iter().find(|one| one.name == name).ok_or_else(|| {
            let failure = Failure::new(format!("there is no identity {name}"));
            failure.remedy(format!("loligo auth list{} shows those that there are", target.again()))
        })?;
        return match order.json {
            true => put(json!({ "identity": one, "revoked": false })),
            false => put(format_args!("identity {name} ({}): revoked\n{UNCHANGED}", one.serial)),
        };
    }
    let revoked: Result<Vec<IdentityDoc>, Failure> = ask::order_with(&found, "/api/v1/auth/revoke", &body);
    revoked.map_err(|failure| match near {
        Some(near) => failure.remedy(format!("did you mean {near}?")),
        None => failure,
    })?;
    if order.json {
        let one = there.iter().find(|one| one.name == name);
        return put(json!({ "identity": one, "revoked": true }));
    }
    say(format_args!("identity {name} is revoked: who came in with it is out"));
    Ok(())
}
