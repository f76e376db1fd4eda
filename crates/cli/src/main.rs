//! The one binary, `loligo`: reads the command line and hands over to a command. Not here: what any of them does.
//!
//! Commands stand by what a user wants: [`service`] starts and stops, [`look`] shows, [`policy`] says what directories
//! promise, [`ranks`] who serves what, [`balancer`] who decides that, [`care`] checks and moves, [`tools`] is the rest.

mod args;
mod at;
mod auth;
mod balancer;
mod care;
mod log;
mod look;
mod mounts;
mod output;
mod policy;
mod progress;
mod ranks;
mod service;
mod settings;
mod suggest;
mod target;
mod tools;

use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Bench, Cli, Command};
use output::Outcome;

fn main() -> ExitCode {
    if service::helper::is_called() {
        return service::helper::main();
    }
    let matches = args::command().try_get_matches().unwrap_or_else(|error| refused(&error));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let ready = cli.command.ready_fd();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(fd) = ready {
                service::daemon::failed(fd, &failure);
            }
            failure.report()
        }
    }
}

/// Prints what is wrong with the command line, or the help that was asked for, and ends. Of a number that is none clap passes on the words of the standard library.
fn refused(error: &clap::Error) -> ! {
    if let Some((group, word)) = unknown_command(error)
        && let Some(ours) = args::synonyms::of(&group, &word)
    {
        let before = if group.is_empty() { String::new() } else { format!("{group} ") };
        let failure = output::Failure::usage(format!("there is no command `loligo {before}{word}`")).remedy(ours);
        output::note(format_args!("loligo: {failure}"));
        std::process::exit(failure.code().into());
    }
    let words = ["invalid digit found in string", "number too large to fit in target type", "invalid float literal"];
    let text = error.render().to_string();
    match words.iter().find(|words| text.contains(**words)) {
        Some(words) => {
            output::note(text.replace(words, "this must be a number").trim_end());
            std::process::exit(error.exit_code())
        }
        None => error.exit(),
    }
}

/// The word that is no command, and the group of commands that it was looked for in.
fn unknown_command(error: &clap::Error) -> Option<(String, String)> {
    if error.kind() != clap::error::ErrorKind::InvalidSubcommand {
        return None;
    }
    let clap::error::ContextValue::String(word) = error.get(clap::error::ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let before: Vec<String> = std::env::args().skip(1).take_while(|arg| arg != word).collect();
    let group = before.iter().rev().find(|arg| args::command().find_subcommand(arg.as_str()).is_some());
    Some((group.cloned().unwrap_or_default(), word.clone()))
}

fn run(cli: Cli) -> Outcome {
    let global = settings::Given { file: cli.config, set: cli.set };
    if cli.quiet || cli.command.for_programs() {
        progress::none();
    }
    if !matches!(cli.command, Command::Up(_) | Command::Serve(_) | Command::Mount(_) | Command::Bench { .. }) {
        end_quietly_when_the_reader_is_gone();
    }
    service::preflight::many_files();
    match cli.command {
        Command::Up(args) => service::up::run(&args, &global),
        Command::Down(args) => service::down::run(&args, &global),
        Command::Format(args) => service::format::run(&args, &global),
        Command::Serve(args) => service::serve::run(&args, &global),
        Command::Mount(args) => service::mount::run(&args, &global),
        Command::Umount { mount, lazy, json } => service::umount::run(&mount, lazy, json),
        Command::Auth { what } => auth::run(&what),
        Command::Status { target, json } => look::status::run(&target, json, &global),
        Command::Top { target, interval, count } => look::top::run(&target, interval, count),
        Command::Doctor { dir, json } => look::doctor::run(dir.as_deref(), json, &global),
        Command::Path { inos, data, server, json } => look::path::run(&inos, data.as_deref(), server.as_deref(), json),
        Command::Config { data, path, json } => {
            let data = data.or(path).map(|data| target::data_of(&data)).transpose()?;
            look::config::run(data.as_deref(), &global, json)
        }
        Command::Rank { what } => ranks::run(&what),
        Command::Policy { what } => policy::run(what, &global),
        Command::Decoupled(what) => policy::decoupled(what),
        Command::Balancer { what } => balancer::run(&what),
        Command::Subtree { what } => ranks::subtree::run(&what),
        Command::Fsck { data, repair, data_checksums, json } => {
            care::fsck::run(&data.find()?, repair, data_checksums, json)
        }
        Command::Dump { data, output, without_data, json } => {
            care::dump::run(&data.find()?, output.as_deref(), without_data, json)
        }
        Command::Load { data, input, order } => care::load::run(&data, &input, order),
        Command::Copy(args) => care::copy::run(&args),
        Command::Journal(what) => care::journal::run(&what),
        Command::Store(what) => care::store::run(&what),
        Command::Bench { what: Bench::Md(args) } => tools::bench::run(&args),
        Command::Bench { what: Bench::Workload(args) } => tools::workload::run(&args),
        Command::Completions { shell } => tools::completions::run(shell),
        Command::Version { json } => tools::version::run(json),
        Command::Man { dir } => tools::man::run(&dir),
    }
}

/// `loligo dump | head` is no error.
fn end_quietly_when_the_reader_is_gone() {
    // SAFETY: restores the system's own handling of one signal before any thread was started.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
