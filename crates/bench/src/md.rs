//! A metadata run: phases one after another, natively or over a mount. Not here: how a single phase is carried out.

use std::path::PathBuf;

use loligo_driver::client::Client;

use crate::result::PhaseResult;
use crate::shape::{Phase, Stock};
use crate::{cpu, mounted, native};

/// Prefix of the names of ranks' threads.
const RANK_THREADS: &str = "loligo-rank";

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Clients: connections natively, processes over a mount.
    pub clients: usize,
    /// Requests in flight over all clients; natively only.
    pub in_flight: usize,
    /// Files of each client.
    pub files: usize,
    /// Bytes of each file that smallwrite makes and smallread reads.
    pub small_bytes: usize,
    /// One directory for all.
    pub shared: bool,
    /// In this order.
    pub phases: Vec<Phase>,
    /// Processes whose CPU counts as the server's.
    pub server_pids: Vec<u32>,
    /// Directory of the run below the root; an own one by default. One that is there is used, so that its directories
    /// can be put on ranks before.
    pub name: Option<String>,
    /// The files are there already: another run with the same name, clients and files has left them.
    pub found: bool,
    /// Leave what the phases made.
    pub keep: bool,
}

/// Where to run.
pub enum Target<'a> {
    /// A server; called once for each client.
    Native(&'a dyn Fn() -> Result<Client, String>),
    /// Below a directory.
    Mounted(PathBuf),
}

impl Config {
    /// Checks that this can be run; the error says why not.
    pub fn check(&self) -> Result<(), String> {
        if self.clients == 0 || self.files == 0 || self.in_flight < self.clients {
            return Err("at least one client, one file, and as many requests in flight as clients are needed".into());
        }
        let mut stock = self.stock();
        for phase in &self.phases {
            stock.allows(*phase).map_err(|why| format!("phase {}: {why}", phase.name()))?;
            stock = stock.after(*phase);
        }
        Ok(())
    }

    /// Files and directories at the beginning.
    fn stock(&self) -> Stock {
        Stock { files: self.found, ..Stock::default() }
    }

    /// CPU seconds used by the server so far, if its processes are known.
    pub fn server_cpu(&self) -> Option<f64> {
        if self.server_pids.is_empty() {
            return None;
        }
        self.server_pids.iter().map(|pid| cpu::of_process(*pid)).sum()
    }

    /// CPU seconds used so far by each rank's thread of the server. Natively only: see [`cpu::of_threads`].
    pub fn rank_cpu(&self) -> Vec<f64> {
        let threads = self.server_pids.iter().flat_map(|pid| cpu::of_threads(*pid, RANK_THREADS));
        threads.map(|(_, seconds)| seconds).collect()
    }
}

/// Runs all phases, giving each result to `each` as it comes, and removes what is left at the end if it is not to be
/// kept.
pub fn run(config: &Config, target: Target<'_>, mut each: impl FnMut(&PhaseResult)) -> Result<(), String> {
    config.check()?;
    let mut stock = config.stock();
    let run_id = config.name.clone().unwrap_or_else(|| format!("bench.{}", std::process::id()));
    match target {
        Target::Mounted(root) => {
            let root = root.join(run_id);
            let place = |e| format!("{}: {e}", root.display());
            let dirs = mounted::prepare(&root, config).map_err(place)?;
            for phase in &config.phases {
                let measured = mounted::run_phase(&dirs, config, *phase, stock).map_err(place)?;
                each(&PhaseResult::new(phase.name(), config.clients, &measured));
                stock = stock.after(*phase);
            }
            if config.keep { Ok(()) } else { std::fs::remove_dir_all(&root).map_err(place) }
        }
        Target::Native(connect) => {
            let mut run = native::Run::start(connect, config, &run_id)?;
            for phase in &config.phases {
                let measured = run.phase(config, *phase, stock)?;
                each(&PhaseResult::new(phase.name(), config.clients, &measured));
                stock = stock.after(*phase);
            }
            if config.keep { run.stop() } else { run.clean_up(config, stock) }
        }
    }
}
