//! Clients that make empty files, as mdtest does: all in one directory, or each in its own.

use crate::call::join;
use crate::{Call, Item, Lane, Path, Workload};

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Create {
    pub clients: u64,
    /// Of each client.
    pub files: u64,
    /// Each client has so many calls under way.
    pub lanes: u64,
    /// Each file is looked for before it is made, as a kernel does.
    pub look: bool,
    /// All in one directory.
    pub shared: bool,
}

impl Create {
    pub fn workload(&self) -> Workload {
        let dirs: Vec<Path> = match self.shared {
            true => vec![Path::from("/shared")],
            false => (0..self.clients).map(|client| join("/", &format!("own{client}"))).collect(),
        };
        let lanes = |client: u64| -> Vec<Lane> {
            let dir = &dirs[client as usize % dirs.len()];
            (0..self.lanes).map(|lane| self.lane(client, lane, Path::clone(dir))).collect()
        };
        Workload {
            setup: dirs.iter().cloned().map(Call::Mkdir).collect(),
            shared: if self.shared { dirs.clone() } else { Vec::new() },
            clients: (0..self.clients).map(lanes).collect(),
            spread: dirs,
            ..Workload::empty()
        }
    }

    fn lane(&self, client: u64, lane: u64, dir: Path) -> Lane {
        let look = self.look;
        let numbers = (lane..self.files).step_by(self.lanes.max(1) as usize);
        Box::new(numbers.flat_map(move |number| {
            let path = join(&dir, &format!("c{client}.{number}"));
            let looks = look.then(|| Item::Call(Call::Stat(Path::clone(&path))));
            looks.into_iter().chain([Item::Call(Call::Create(path))])
        }))
    }
}
