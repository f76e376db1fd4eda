//! Clients that unpack a tree, each in a directory of its own: one directory after the other, from the first to the last.

use crate::call::join;
use crate::{Call, Item, Path, Rng, Workload};

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Untar {
    pub clients: u64,
    /// Of each client.
    pub dirs: u64,
    /// Of each directory.
    pub files: u64,
    /// Of each file, on average.
    pub bytes: u64,
}

impl Untar {
    pub fn workload(self, seed: u64) -> Workload {
        let tops: Vec<Path> = (0..self.clients).map(|client| join("/", &format!("tar{client}"))).collect();
        let lane = |(client, top): (usize, &Path)| {
            let (top, mut rng) = (Path::clone(top), Rng::new(seed, client as u64));
            let dirs = (0..self.dirs).flat_map(move |number| self.directory(&top, number, &mut rng));
            vec![Box::new(dirs.map(Item::Call)) as crate::Lane]
        };
        Workload {
            setup: tops.iter().cloned().map(Call::Mkdir).collect(),
            clients: tops.iter().enumerate().map(lane).collect(),
            spread: tops,
            ..Workload::empty()
        }
    }

    fn directory(&self, top: &Path, number: u64, rng: &mut Rng) -> Vec<Call> {
        let dir = join(top, &format!("d{number}"));
        let mut calls = vec![Call::Mkdir(Path::clone(&dir))];
        for file in 0..self.files {
            let path = join(&dir, &format!("f{file}"));
            let bytes = 1 + rng.below(2 * self.bytes.max(1) - 1);
            calls.push(Call::Write(Path::clone(&path), bytes.min(u64::from(u32::MAX)) as u32));
            calls.push(Call::Chmod(Path::clone(&path), 0o664));
            calls.push(Call::Utimens(path));
        }
        calls.push(Call::Utimens(dir));
        calls
    }
}
