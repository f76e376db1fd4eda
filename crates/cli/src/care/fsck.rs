//! `loligo fsck`: checks a file system that is not served, and mends it if told to. What is right is decided in
//! `loligo_namespace::fsck`; rows that cannot be read and objects of no file are found here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use loligo_driver::Offline;
use loligo_journal::table::{Meta, Row, key_policied, key_policies_noted, key_xattr, split_policied_key};
use loligo_namespace::SUBTREE;
use loligo_namespace::fsck::{self, Finding};
use loligo_store::Blobs;
use loligo_types::{Event, Ino, Kind, Target};
use serde_json::json;

use super::{objects, offline, paths, table};
use crate::output::{Context, Failure, Outcome, counted, human_bytes, note, put, quoted};
use crate::progress::{Bar, Unit};

/// Mending may bring to light what was hidden; after this many rounds it is given up.
const ROUNDS: usize = 5;

/// So many findings have a path: to find one out a directory is read.
const NAMED_MAX: usize = 256;

/// Result of one check of all records.
struct Checked {
    report: fsck::Report,
    /// Keys of rows that are to be removed.
    bad_keys: Vec<Vec<u8>>,
    /// Inodes that may have objects, and how many of the first ones.
    owners: BTreeMap<u64, u64>,
}

/// Checks, mends if told to, and says what was found.
pub fn run(data: &Path, repair: bool, data_checksums: bool, json: bool) -> Outcome {
    let (opened, salvaged) = match opened(data, repair) {
        Ok(opened) => (opened, None),
        Err(failure) => {
            let salvaged = table::salvage(data, repair, failure)?;
            (opened(data, repair)?, Some(salvaged))
        }
    };
    let (blobs, mut offline, mut checked) = opened;
    let clean = offline.was_clean();
    let lost = |text: String| Finding { text, loss: true, about: None };
    let mut findings: Vec<Finding> = salvaged.into_iter().chain(offline.damage().to_vec()).map(lost).collect();
    let all = std::mem::take(&mut checked.report.findings).into_iter().enumerate();
    findings.extend(all.map(|(at, finding)| if at < NAMED_MAX { named(&offline, finding) } else { finding }));
    let objects = objects::check(&*blobs, &checked.owners, data_checksums)?;
    findings.extend(object_findings(&offline, &objects));
    let found = findings.len();
    let mut left = found;
    if repair && (found > 0 || !objects.leftover.is_empty()) {
        checked = mend(&mut offline, checked)?;
        left = checked.report.findings.len() + objects.damaged.len() + objects.missing.len();
        objects::remove(&*blobs, &objects.leaked)?;
        objects::remove(&*blobs, &objects.leftover)?;
        offline.close().context(|| format!("writing the repairs into {}", data.display()))?;
    } else if repair {
        offline.leave().context(|| format!("closing {}", data.display()))?;
    }
    let report = &checked.report;
    if json {
        let list: Vec<_> = findings.iter().map(|f| json!({ "text": f.text, "loss": f.loss })).collect();
        let document = json!({
            "sound": left == 0,
            "found": found,
            "repaired": found - left,
            "left": left,
            "findings": list,
            "inodes": report.inodes,
            "entries": report.entries,
            "objects": objects.objects,
            "object_bytes": objects.bytes,
            "leftover_objects": objects.leftover.len(),
            "leftover_bytes": objects.leftover_bytes,
            "stopped_cleanly": clean,
        });
        put(format_args!("{document:#}"))?;
    } else {
        for finding in &findings {
            put(format_args!("{}: {}", if finding.loss { "LOST " } else { "wrong" }, finding.text))?;
        }
        if !objects.leftover.is_empty() {
            let (n, bytes) = (objects.leftover.len(), human_bytes(objects.leftover_bytes));
            let what = if repair { "removed" } else { "--repair removes them" };
            let n = counted(n as u64, "object");
            println!("note : {n} ({bytes}) left by writers that died before they told of them: {what}");
        }
        let checked_data = if data_checksums { ", all read and compared with their checksums" } else { "" };
        put(format_args!(
            "{}: {}, {}, {} ({}){checked_data}",
            data.display(),
            counted(report.inodes, "inode"),
            counted(report.entries, "entry"),
            counted(objects.objects, "object"),
            human_bytes(objects.bytes)
        ))?;
    }
    verdict(data, repair, found, left)
}

/// A file system, owned from now on: the store of its file data, its records, and what a check of these found.
fn opened(data: &Path, repair: bool) -> Result<(Arc<dyn Blobs>, Offline, Checked), Failure> {
    let store = offline::store(data, repair)?;
    let blobs = store.blobs();
    let offline = offline::records(store, data)?;
    let checked = check(&offline)?;
    Ok((blobs, offline, checked))
}

/// A finding with the path of what it is about, as far as it has one.
fn named(offline: &Offline, finding: Finding) -> Finding {
    match finding.about.and_then(|ino| Some((ino, paths::of(offline, ino)?))) {
        Some((ino, path)) => {
            let path = path.display().to_string().replace(char::is_control, "?");
            Finding { text: format!("{}; {ino} is {path}", finding.text), ..finding }
        }
        None => finding,
    }
}

fn verdict(data: &Path, repair: bool, found: usize, left: usize) -> Outcome {
    let (data, path) = (data.display(), quoted(data));
    match (found, left) {
        (0, _) => {
            note(format_args!("{data} is sound"));
            Ok(())
        }
        (found, 0) => {
            note(format_args!("{data}: {found} problems found and mended"));
            Ok(())
        }
        (found, left) if repair => {
            Err(Failure::found(format!("{data}: {found} problems found, {left} of them cannot be mended"))
                .remedy("damaged file data is to be restored from a copy: overwrite or remove those files"))
        }
        (found, _) => Err(Failure::found(format!("{data}: {found} problems found; nothing was changed"))
            .remedy(format!("copy the directory if you can, then: loligo fsck --data {path} --repair"))),
    }
}

fn object_findings(offline: &Offline, objects: &objects::Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !objects.leaked.is_empty() {
        let (n, bytes) = (objects.leaked.len(), human_bytes(objects.leaked_bytes));
        let text = match n {
            1 => format!("1 object ({bytes}) belongs to no file"),
            _ => format!("{n} objects ({bytes}) belong to no file"),
        };
        findings.push(Finding { text, loss: false, about: None });
    }
    findings.extend(objects.missing.iter().map(|text| Finding { text: text.clone(), loss: true, about: None }));
    findings.extend(objects.damaged.iter().map(|(id, why)| Finding {
        text: format!("data of {}: {why}", paths::shown(offline, Ino(id.ino))),
        loss: true,
        about: None,
    }));
    findings
}

/// Mends round by round. What the last check says is what is left.
fn mend(offline: &mut Offline, first: Checked) -> Result<Checked, Failure> {
    let mut checked = first;
    for _ in 0..ROUNDS {
        let failed = || "writing repairs".to_string();
        offline.remove(&checked.bad_keys).context(failed)?;
        offline.write(&checked.report.repairs).context(failed)?;
        checked = check(offline)?;
        if checked.report.findings.is_empty() {
            break;
        }
    }
    Ok(checked)
}

fn check(offline: &Offline) -> Result<Checked, Failure> {
    let total = offline.backend().table().approximate_size().map(|size| size.keys).unwrap_or(0);
    // Each row is seen three times.
    let mut bar = Bar::start("checking", total * 3, Unit::Count);
    let mut rows = Rows::default();
    let mut round = 0;
    let report = fsck::check(offline.hash_key(), |see| {
        round += 1;
        let first = round == 1;
        let visited = offline.rows(&mut |(key, row)| {
            bar.add(1);
            match row {
                Ok(row) => rows.good(offline, key, row, first, see),
                Err(error) if first => rows.bad(key, &error.to_string()),
                Err(_) => {}
            }
            ControlFlow::Continue(())
        });
        visited.context(|| "reading the table".into())
    })?;
    rows.notes(offline)?;
    let Rows { findings, bad_keys, rewrites, mut owners, any_decoupled, .. } = rows;
    if any_decoupled {
        owners.values_mut().for_each(|count| *count = u64::MAX);
    }
    let mut report = report;
    report.findings.splice(0..0, findings);
    report.repairs.splice(0..0, rewrites);
    Ok(Checked { report, bad_keys, owners })
}

/// Findings of a pass over the rows.
#[derive(Default)]
struct Rows {
    findings: Vec<Finding>,
    bad_keys: Vec<Vec<u8>>,
    rewrites: Vec<Event>,
    owners: BTreeMap<u64, u64>,
    /// The owner of a decoupled directory may have written files there beyond the end that the table knows.
    any_decoupled: bool,
    /// Directories with policies of their own, by their xattrs and by the notes of them.
    policied: BTreeSet<Ino>,
    noted: BTreeSet<Ino>,
    /// The table says that it has all such notes: who decouples a directory looks at nothing else.
    all_noted: bool,
}

impl Rows {
    /// Compares notes and xattrs. A note too few lets a directory be decoupled that promises more than its owner gives.
    fn notes(&mut self, offline: &Offline) -> Result<(), Failure> {
        for ino in self.noted.difference(&self.policied) {
            let text = format!("a note says that {ino} has a policy of its own, and it has none");
            self.findings.push(Finding { text, loss: false, about: None });
            self.bad_keys.push(key_policied(*ino));
        }
        if !self.all_noted {
            return Ok(());
        }
        for ino in self.policied.difference(&self.noted) {
            let row = offline.get(&key_xattr(*ino, SUBTREE)).context(|| format!("reading the policy of {ino}"))?;
            let Some(Row::Xattr { ino, name, value }) = row else { continue };
            let text = format!("{ino} has a policy of its own, and the note is missing by which a rank finds it");
            self.findings.push(Finding { text, loss: false, about: Some(ino) });
            // The note is written with the xattr.
            self.rewrites.push(Event::Xattr { ino, name, value });
        }
        Ok(())
    }

    fn bad(&mut self, key: &[u8], why: &str) {
        let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
        self.findings.push(Finding { text: format!("row {hex} cannot be understood: {why}"), loss: true, about: None });
        self.bad_keys.push(key.to_vec());
    }

    fn good(&mut self, offline: &Offline, key: &[u8], row: Row, first: bool, see: &mut dyn FnMut(&Event)) {
        let event = match row {
            Row::Inode(inode) => {
                if first && inode.kind == Kind::File {
                    let size = if inode.inline { 0 } else { inode.size };
                    let count = size.div_ceil(u64::from(inode.layout().object_size));
                    self.owners.entry(inode.ino.0).or_insert(count);
                }
                Event::Inode(inode)
            }
            Row::Entry { dir, hash, name, target: Target { ino, kind, remote } } => {
                let wrong = first && hash != offline.hash(&name);
                let event = Event::Entry { dir, name, ino, kind, remote };
                if wrong {
                    let text = format!(
                        "entry {} lies at a wrong place in its directory",
                        loligo_journal::inspect::event_text(&event)
                    );
                    self.findings.push(Finding { text, loss: false, about: Some(dir) });
                    self.bad_keys.push(key.to_vec());
                    self.rewrites.push(event.clone());
                }
                event
            }
            Row::Xattr { ino, name, value } => {
                if first && *name == *SUBTREE {
                    self.policied.insert(ino);
                }
                Event::Xattr { ino, name, value }
            }
            Row::Inline { ino, data } => Event::Inline { ino, data },
            Row::Orphan { ino, .. } => Event::Orphan(ino),
            Row::Discard { ino, from, object_size, .. } => {
                // The next server drops these.
                self.owners.insert(ino.0, u64::MAX);
                Event::Discard { ino, from, object_size }
            }
            Row::Decoupled { record, .. } => {
                // Of files that it has made and not merged, and its journal; and copies of files that it has overwritten. What comes to
                // nothing is dropped when it is given back.
                let noted = record.objects.iter().flat_map(|(first, count)| first.0..first.0.saturating_add(*count));
                let copies = record.overwritten.iter().flat_map(|files| files.pairs()).map(|(_, copy)| copy.0);
                if first {
                    noted.chain(copies).for_each(|ino| _ = self.owners.insert(ino, u64::MAX));
                    self.any_decoupled = true;
                }
                Event::Decoupled(record)
            }
            Row::Session(session) => Event::Session(session),
            Row::Route { route, .. } => Event::Route(route),
            Row::Peer { peer, .. } => Event::Peer(peer),
            // One beyond its rank's range says nothing.
            Row::Meta { meta: Meta::NextIno, rank, value } if Ino(value).birth_rank() == rank => {
                Event::NextIno(Ino(value))
            }
            Row::Note { .. } => {
                if first {
                    self.noted.extend(split_policied_key(key));
                    self.all_noted |= key == key_policies_noted();
                }
                return;
            }
            Row::Meta { .. } => return,
        };
        see(&event);
    }
}
