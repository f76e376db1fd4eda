//! Which of the inodes in memory are below a directory that moves. Told apart by their directories, which are remembered.

use loligo_namespace::{Found, Need};
use loligo_types::{Ino, Inode, limits};

use super::Where;
use crate::hash::IntMap;
use crate::machine::Mds;

/// Inodes and directories looked at in one go.
const SLICE: usize = 4000;
/// Directories to read for a slice before it is interrupted.
const NEEDS_MAX: usize = 256;

/// How far the look at memory is.
#[derive(Default)]
pub(crate) struct Survey {
    /// Of directories: whether they move.
    below: IntMap<Ino, bool>,
    inode: usize,
    dir: usize,
    pub(crate) found: u64,
    /// Records are being read.
    pub(crate) reading: bool,
    /// More must be read before the next one is known: what was read for it must stay in memory.
    pub(crate) asks: bool,
}

impl Survey {
    /// Over what is below a directory.
    pub(crate) fn of(dir: Ino) -> Survey {
        let mut survey = Survey::default();
        survey.below.insert(dir, true);
        survey
    }

    /// Whether something is known of a directory.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.below.contains_key(&ino)
    }

    /// Looked at, inodes and directories.
    pub(crate) fn seen(&self) -> u64 {
        (self.inode + self.dir) as u64
    }

    /// Starts from the beginning, with what is known of directories.
    pub(crate) fn again(&mut self) {
        (self.inode, self.dir, self.found) = (0, 0, 0);
    }

    /// The directories that move, as far as they were seen.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = Ino> + '_ {
        self.below.iter().filter(|(_, moves)| **moves).map(|(ino, _)| *ino)
    }
}

/// Whether something moves.
pub(crate) enum Moves {
    Yes,
    No,
    /// Not known before these are read.
    Unknown(Vec<Need>),
}

impl Mds {
    /// Whether an inode in memory is below the directory of the survey.
    pub(crate) fn moves(&mut self, survey: &mut Survey, ino: Ino) -> Moves {
        let mut path = Vec::new();
        let mut at = ino;
        let verdict = 'walk: {
            for _ in 0..limits::DEPTH_MAX {
                if let Some(moves) = survey.below.get(&at) {
                    break 'walk *moves;
                }
                let Some(inode) = self.tree.peek(at) else {
                    let mut wants = Vec::new();
                    match self.locate(at, &mut wants) {
                        Where::Unknown => return Moves::Unknown(wants),
                        // Gone, or another rank's already.
                        Where::Here if !matches!(self.tree.find(at), Found::Here(_)) => break 'walk false,
                        Where::Here => continue,
                        Where::Elsewhere(_) => break 'walk false,
                    }
                };
                if inode.kind == loligo_types::Kind::Dir {
                    path.push(at);
                }
                if !self.is_embedded(inode) || inode.parent == at {
                    break 'walk false;
                }
                at = inode.parent;
            }
            false
        };
        for dir in path {
            survey.below.insert(dir, verdict);
        }
        if verdict { Moves::Yes } else { Moves::No }
    }

    /// Whether the authority over an inode is that over its parent directory.
    fn is_embedded(&self, inode: &Inode) -> bool {
        inode.place.hash().is_some() && inode.parent.0 != 0 && self.cluster.routes.home(inode.ino).is_none()
    }

    /// Looks at a slice of memory; whether all was seen. What must be read for it is read first.
    pub(crate) fn survey_some(&mut self, survey: &mut Survey, mut each: impl FnMut(&mut Mds, Ino)) -> bool {
        if survey.reading {
            return false;
        }
        let (mut left, mut needs) = (SLICE, Vec::new());
        while left > 0 && needs.len() < NEEDS_MAX {
            let (inodes, dirs) = self.tree.places();
            let next = if survey.inode < inodes {
                self.tree.inode_at(survey.inode)
            } else if survey.dir < dirs {
                self.tree.dir_at(survey.dir)
            } else {
                return self.read_for_survey(survey, needs);
            };
            left -= 1;
            let verdict = next.map(|ino| (ino, self.moves(survey, ino)));
            match verdict {
                Some((_, Moves::Unknown(mut wants))) => {
                    survey.asks = true;
                    needs.append(&mut wants);
                    if needs.len() >= NEEDS_MAX {
                        break;
                    }
                    // This one again, when they are read.
                    break;
                }
                Some((ino, Moves::Yes)) => {
                    survey.found += 1;
                    each(self, ino);
                }
                _ => {}
            }
            survey.asks = false;
            if survey.inode < inodes { survey.inode += 1 } else { survey.dir += 1 }
        }
        if self.read_for_survey(survey, needs) {
            self.out.push_back(crate::io::Output::Again);
        }
        false
    }

    fn read_for_survey(&mut self, survey: &mut Survey, needs: Vec<Need>) -> bool {
        if needs.is_empty() {
            return true;
        }
        survey.reading = true;
        self.load(needs, crate::load::Waiter::Survey);
        false
    }
}
