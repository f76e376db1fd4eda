//! File data: that each object is called as one is, is no longer than one may be, and is below the index up to which its file's objects
//! are sought. Not its content, which the cluster checks itself (scrubbing); nor whose it is, which `loligo fsck` looks at.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use loligo_store::{CheckProgress, Finding, ObjectId, Result, look};

use super::{Found, Head, RadosCheck, Tell, heads};
use crate::blobs::{PIECE_MAX, UPTO};
use crate::error::store;
use crate::names;

/// Objects looked at at a time.
const AT_ONCE: usize = 64;

/// Findings of the walk over the objects.
#[derive(Default)]
struct Walk {
    some: Vec<ObjectId>,
    /// Of files with more than their first object, the highest index.
    highest: BTreeMap<u64, u64>,
    findings: Vec<Finding>,
    objects: u64,
    bytes: u64,
    others: u64,
    other: Option<String>,
}

impl RadosCheck {
    pub(super) fn data(&self, found: &mut Found, tell: Tell<'_>) -> Result<()> {
        let (mut walk, mut hints, mut end) = (Walk::default(), 0u64, Ok(()));
        let listed = self.files.list(&mut |name| {
            match names::parse_object(name) {
                Some(id) => walk.some.push(id),
                None if name.len() == 16 && u64::from_str_radix(name, 16).is_ok() => hints += 1,
                None => {
                    walk.others += 1;
                    walk.other.get_or_insert_with(|| name.to_owned());
                }
            }
            if walk.some.len() == AT_ONCE {
                end = self.some(&mut walk);
                tell(CheckProgress { stage: "checking objects", bytes: false, done: walk.objects, total: 0 });
            }
            if end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        listed.map_err(store)?;
        end?;
        self.some(&mut walk)?;
        for (ino, index) in &walk.highest {
            found.add(look(|| self.hint(*ino, *index))?);
        }
        if let Some(first) = &walk.other {
            let text = format!("{} objects of file data, as {first}, are none of a file system", walk.others);
            found.add(vec![Finding::note(text, "a name space is for one file system alone: see who put them there")]);
        }
        found.add(walk.findings);
        found.checked.count("objects", walk.objects);
        found.checked.count("object_bytes", walk.bytes);
        found.checked.count("large_files", hints);
        Ok(())
    }

    fn some(&self, walk: &mut Walk) -> Result<()> {
        let names: Vec<String> = walk.some.iter().map(|id| names::object(*id)).collect();
        for (id, head) in walk.some.drain(..).zip(heads(&self.files, names.iter().map(String::as_str))?) {
            // One that was removed meanwhile is none.
            let Some(Head { len, .. }) = head else { continue };
            walk.objects += 1;
            walk.bytes += len;
            if id.index > 0 {
                let highest = walk.highest.entry(id.ino).or_default();
                *highest = id.index.max(*highest);
            }
            if len > PIECE_MAX {
                let text = format!("object {} has {len} bytes, more than {PIECE_MAX}", names::object(id));
                walk.findings
                    .push(Finding::wrong(text, "it was not written by a server: restore it, or remove its file"));
            }
        }
        Ok(())
    }

    /// The hint up to which a file's objects are found, if it covers this one. The hint is raised before an object is made, and removed
    /// behind all of them.
    fn hint(&self, ino: u64, index: u64) -> Result<Vec<Finding>> {
        let (hint, object) = (names::pieces(ino), names::object(ObjectId::new(ino, index)));
        let upto = heads(&self.files, [hint.as_str()].into_iter())?.pop().flatten();
        let upto = upto.map(|head| head.xattr(UPTO));
        if matches!(upto, Some(Some(upto)) if upto > index) {
            return Ok(Vec::new());
        }
        // It may have been removed meanwhile.
        if heads(&self.files, [object.as_str()].into_iter())?.pop().flatten().is_none() {
            return Ok(Vec::new());
        }
        let text = match upto {
            None => format!("object {object} is there, and object {hint}, which has to say so, is missing"),
            Some(None) => format!("object {hint} has no {UPTO} of 8 bytes"),
            Some(Some(upto)) => format!("object {object} is there, and object {hint} says that all are below {upto}"),
        };
        let what = "is not found when its file is cut or removed, and takes room then";
        Ok(vec![Finding::wrong(
            format!("{text}: it {what}"),
            "no data is lost: copy the file (cp), and remove the old one; loligo fsck --repair then removes the object",
        )])
    }
}
