//! The phases of a run and the names that they use. Not here: how a phase is carried out.

use std::str::FromStr;

/// One shape of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Make empty files, exclusively.
    Create,
    /// Ask for the attributes of files in random order.
    Stat,
    /// List a directory with the attributes of its entries; counted in entries.
    Readdir,
    /// Give each file another name in its directory.
    Rename,
    /// Remove files.
    Unlink,
    /// Make directories.
    Mkdir,
    /// Remove them.
    Rmdir,
    /// Create, write, close.
    Smallwrite,
    /// Open, read, close.
    Smallread,
}

impl Phase {
    /// All, in an order in which each finds what it needs.
    pub const ALL: [Phase; 9] = [
        Phase::Create,
        Phase::Stat,
        Phase::Readdir,
        Phase::Rename,
        Phase::Unlink,
        Phase::Mkdir,
        Phase::Rmdir,
        Phase::Smallwrite,
        Phase::Smallread,
    ];

    /// As on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Readdir => "readdir",
            Phase::Rename => "rename",
            Phase::Unlink => "unlink",
            Phase::Mkdir => "mkdir",
            Phase::Rmdir => "rmdir",
            Phase::Smallwrite => "smallwrite",
            Phase::Smallread => "smallread",
        }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Phase, String> {
        Phase::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            let names: Vec<_> = Phase::ALL.iter().map(|p| p.name()).collect();
            format!("unknown phase `{text}`; known are {}", names.join(", "))
        })
    }
}

/// Files and directories that exist while a run goes on, so that each phase knows its input.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stock {
    /// Files are there.
    pub files: bool,
    /// They hold the bytes of a small file each.
    pub filled: bool,
    /// They have their second name.
    pub renamed: bool,
    /// Directories are there.
    pub dirs: bool,
}

impl Stock {
    /// Checks that a phase finds its input.
    pub fn allows(self, phase: Phase) -> Result<(), &'static str> {
        let (ok, why) = match phase {
            Phase::Create | Phase::Smallwrite => (!self.files, "files are there already: put unlink before it"),
            Phase::Stat | Phase::Readdir | Phase::Unlink => (self.files, "no files are there: put create before it"),
            Phase::Rename => {
                (self.files && !self.renamed, "it needs files with their first names: put create before it")
            }
            Phase::Mkdir => (!self.dirs, "directories are there already: put rmdir before it"),
            Phase::Rmdir => (self.dirs, "no directories are there: put mkdir before it"),
            Phase::Smallread => (self.files && self.filled, "no small files are there: put smallwrite before it"),
        };
        if ok { Ok(()) } else { Err(why) }
    }

    /// Files and directories after a phase.
    #[must_use]
    pub fn after(mut self, phase: Phase) -> Stock {
        match phase {
            Phase::Create | Phase::Smallwrite => {
                self = Stock { files: true, filled: phase == Phase::Smallwrite, renamed: false, ..self };
            }
            Phase::Rename => self.renamed = true,
            Phase::Unlink => self = Stock { dirs: self.dirs, ..Stock::default() },
            Phase::Mkdir => self.dirs = true,
            Phase::Rmdir => self.dirs = false,
            Phase::Stat | Phase::Readdir | Phase::Smallread => {}
        }
        self
    }

    /// Name of file `i` of a client, 16 bytes long. In one shared directory the client is part of it.
    pub fn file(self, client: usize, i: usize) -> String {
        let mark = if self.renamed { 'r' } else { 'f' };
        format!("{mark}{client:03}.{i:011}")
    }
}

/// Name of directory `i` of a client.
pub fn dir_name(client: usize, i: usize) -> String {
    format!("d{client:03}.{i:011}")
}

/// The numbers 0..n in an order without pattern, the same in every run (a multiplicative walk; `n` need not be prime).
pub fn shuffled(n: usize) -> impl Iterator<Item = usize> {
    let step = {
        let mut s = (n as f64 * 0.618_033_988_7) as usize | 1;
        while n > 1 && gcd(s, n) != 1 {
            s += 2;
        }
        s.max(1)
    };
    (0..n).scan(0usize, move |at, _| {
        let here = *at;
        *at = (*at + step) % n.max(1);
        Some(here)
    })
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_visits_every_number_once() {
        for n in [1, 2, 3, 10, 997, 1000, 4096] {
            let mut seen: Vec<_> = shuffled(n).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>(), "n = {n}");
        }
    }

    #[test]
    fn the_default_order_of_phases_always_finds_what_it_needs() {
        let mut stock = Stock::default();
        for phase in Phase::ALL {
            stock.allows(phase).unwrap_or_else(|why| panic!("{}: {why}", phase.name()));
            stock = stock.after(phase);
        }
    }

    #[test]
    fn a_phase_without_its_files_is_refused() {
        assert!(Stock::default().allows(Phase::Stat).is_err());
        assert!(Stock::default().after(Phase::Create).allows(Phase::Smallread).is_err());
        assert!("mkdirs".parse::<Phase>().is_err());
    }
}
