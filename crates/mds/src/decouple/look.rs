//! Checks that a part of a merge says only what is its owner's to say. First that it is about the subtree: each inode, directory, name and
//! object that an event speaks of is a number of the grant, or was found below the root and is of the kind that the event says. That is
//! asked of every part, whoever sends it and however. Then that the owner may do it to what is another's. The check that all parts together
//! make a tree is `whole.rs`'s.

use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_journal::view_record;
use loligo_namespace::{Found, Lookup, access, is_within_bounds};
use loligo_types::limits::{INLINE_MAX, XATTR_NAME_MAX, XATTR_VALUE_MAX};
use loligo_types::{
    Cred, DecoupledRecord, Event, EventView, Ino, Inode, Interfere, Kind, Name, Need, Place, Placement,
};

use super::intake::Intake;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;

/// Obstacle of a part.
pub(super) enum Bar {
    /// Nobody may say it of it.
    Wrong,
    /// Its owner may not, as it is by now.
    Denied,
    Load(Vec<Need>),
}

/// An error if it is not so: then nobody may say it.
fn right(is: bool) -> Result<(), Bar> {
    if is { Ok(()) } else { Err(Bar::Wrong) }
}

impl Decoupled {
    /// Checks that all that a part says is its owner's to say; notes what it says.
    pub(super) fn look_through(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        body: &Arc<[u8]>,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        // What was noted before the part had to wait is not noted again.
        let before = intake.shape.noted_of(body).ok_or(Bar::Wrong)?;
        let (mut needs, mut noted, mut verdict, mut at) = (Vec::new(), Vec::new(), Ok(()), 0);
        let read = view_record(body, |event| {
            match self.look_at(core, cluster, record, cred, event, intake) {
                Ok(()) => noted.extend(to_be_noted(record, event)),
                Err(Bar::Load(more)) => needs.extend(more),
                Err(bar) => verdict = Err(bar),
            }
            if at >= before && !intake.shape.note(record, event) {
                verdict = Err(Bar::Wrong);
            }
            at += 1;
            if verdict.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        verdict?;
        right(read.is_ok())?;
        if !needs.is_empty() {
            intake.shape.waits(body, at);
            needs.sort_unstable();
            needs.dedup();
            return Err(Bar::Load(needs));
        }
        intake.shape.is_noted();
        right(noted.into_iter().all(|event| intake.note(event)))
    }

    /// Checks that an event is about the subtree, and its owner's to say.
    pub(super) fn look_at(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        event: EventView<'_>,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        let event = match event {
            EventView::Inode(inode) => return self.look_at_inode(core, cluster, record, cred, inode, intake),
            EventView::Entry { dir, name, ino, kind, remote } => {
                // A file with several names lives with one of them; a directory lives where its name is.
                // Or it has a line of the subtree map, because it was another rank's once.
                let lives_there = kind != Kind::Dir || cluster.atlas.routes.home(ino) == Some(core.me());
                right((!remote || lives_there) && ino != record.dir)?;
                self.is_there_as(core, cluster, record, dir, Some(Kind::Dir), intake)?;
                self.is_there_as(core, cluster, record, ino, Some(kind), intake)?;
                core.note_linked(record, ino, intake);
                core.name_changes(record, dir, name, intake)?;
                return self.may_write(core, cluster, record, cred, dir, intake);
            }
            EventView::Other(event) => event,
        };
        match event {
            Event::InodeGone(ino) => {
                right(*ino != record.dir)?;
                self.is_there_as(core, cluster, record, *ino, None, intake)?;
                core.note_linked(record, *ino, intake);
                self.may_rename(core, cluster, record, cred, *ino, intake)
            }
            Event::EntryGone { dir, name } => {
                self.is_there_as(core, cluster, record, *dir, Some(Kind::Dir), intake)?;
                core.name_changes(record, *dir, name.as_bytes(), intake)?;
                self.may_write(core, cluster, record, cred, *dir, intake)
            }
            Event::Xattr { ino, name, value } => {
                right(value.len() <= XATTR_VALUE_MAX && may_name(cred, name))?;
                self.is_there_as(core, cluster, record, *ino, None, intake)?;
                self.may_write(core, cluster, record, cred, *ino, intake)
            }
            Event::XattrGone { ino, name } => {
                right(may_name(cred, name))?;
                self.is_there_as(core, cluster, record, *ino, None, intake)?;
                self.may_write(core, cluster, record, cred, *ino, intake)
            }
            Event::Inline { ino, data } => {
                right(data.len() <= INLINE_MAX)?;
                self.is_there_as(core, cluster, record, *ino, Some(Kind::File), intake)?;
                self.may_write(core, cluster, record, cred, *ino, intake)
            }
            Event::InlineGone(ino) => {
                self.is_there_as(core, cluster, record, *ino, Some(Kind::File), intake)?;
                self.may_write(core, cluster, record, cred, *ino, intake)
            }
            Event::Discard { ino, .. } => {
                self.is_there_as(core, cluster, record, *ino, Some(Kind::File), intake)?;
                // Of a file that is cut, or of one that goes.
                match self.may_write(core, cluster, record, cred, *ino, intake) {
                    Err(Bar::Denied) => {
                        intake.ends.insert(*ino);
                        self.may_rename(core, cluster, record, cred, *ino, intake)
                    }
                    verdict => verdict,
                }
            }
            _ => Err(Bar::Wrong),
        }
    }

    fn look_at_inode(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        inode: &Inode,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        // What lives by itself lives here.
        let elsewhere = inode.place.rank().is_some_and(|rank| rank != core.me());
        right(is_within_bounds(inode) && !inode.is_spread() && inode.nlink > 0 && !elsewhere)?;
        if record.is_new(inode.ino) {
            right(is_as_made(inode) && is_his_to_make(inode, cred))?;
            return self.is_there_by(core, cluster, record, inode.parent, inode.place, intake);
        }
        self.is_there_as(core, cluster, record, inode.ino, Some(inode.kind), intake)?;
        core.note_linked(record, inode.ino, intake);
        let now = match core.tree.find(inode.ino) {
            Found::Here(now) => now,
            Found::Gone => return Err(Bar::Wrong),
            Found::Unknown => return Err(Bar::Load(vec![Need::Inode(inode.ino)])),
        };
        // What is another's stays as that one has made it.
        let keeps = (now.uid, now.gid, now.mode, now.acl(), now.default_acl())
            == (inode.uid, inode.gid, inode.mode, inode.acl(), inode.default_acl());
        let is_his = cred.is_root() || now.uid == cred.uid && is_his_to_make(inode, cred);
        let content = |inode: &Inode| (inode.size, inode.mtime, inode.cuts, inode.inline, inode.has_xattrs);
        let (written, renamed) = (content(now) != content(inode), names_of(now) != names_of(inode));
        let moved = (now.parent, now.place) != (inode.parent, inode.place);
        right(keeps || is_his)?;
        if moved && inode.ino != record.dir {
            self.is_there_by(core, cluster, record, inode.parent, inode.place, intake)?;
        }
        if is_his {
            return Ok(());
        }
        if written {
            self.may_write(core, cluster, record, cred, inode.ino, intake)?;
        }
        if renamed { self.may_rename(core, cluster, record, cred, inode.ino, intake) } else { Ok(()) }
    }

    /// Checks that an inode may say that it is in this directory. One that is not embedded there may say so of one that is gone by
    /// now.
    fn is_there_by(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        dir: Ino,
        place: Place,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        if place.hash().is_some() {
            return self.is_there_as(core, cluster, record, dir, Some(Kind::Dir), intake);
        }
        if matches!(core.tree.find(dir), Found::Gone) {
            Ok(())
        } else {
            self.is_there(core, cluster, record, dir, intake)
        }
    }

    /// Checks that the owner may write to something in the subtree, as it is by now.
    pub(super) fn may_write(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        if !self.is_of_others(core, cluster, record, cred, ino, intake)? {
            return Ok(());
        }
        let Some(inode) = core.tree.inode(ino) else { return Err(Bar::Wrong) };
        match core.may_change(inode, cred) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Bar::Denied),
            Err(needs) => Err(Bar::Load(needs)),
        }
    }

    /// True if something in the subtree is there, and may be others': its owner may do whatever it likes with what it has made, and as
    /// root.
    fn is_of_others(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<bool, Bar> {
        self.is_there(core, cluster, record, ino, intake)?;
        if record.is_new(ino) || cred.is_root() {
            return Ok(false);
        }
        match core.tree.find(ino) {
            Found::Here(_) => Ok(true),
            // Others have removed it; it counts for nothing.
            Found::Gone if record.interfere == Interfere::Allow => Ok(false),
            Found::Gone => Err(Bar::Wrong),
            Found::Unknown => Err(Bar::Load(vec![Need::Inode(ino)])),
        }
    }

    /// Checks that the owner may give something in the subtree another name, or take its name away: it must have the right to write to the
    /// directory that it is in. A directory knows its names by their number.
    pub(super) fn may_rename(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        if !self.is_of_others(core, cluster, record, cred, ino, intake)? {
            return Ok(());
        }
        match core.tree.inode(ino) {
            Some(inode) if self.is_held_for(record, inode) => Ok(()),
            Some(inode) => {
                let parent = inode.parent;
                self.may_write(core, cluster, record, cred, parent, intake)
            }
            None => Err(Bar::Wrong),
        }
    }

    /// Checks that something is in the subtree: a number of its grant, or found there.
    pub(super) fn is_there(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        if record.is_granted(ino) || ino == record.dir || intake.below.contains(&ino) {
            return Ok(());
        }
        if cluster.is_elsewhere(core, ino) {
            return Err(Bar::Wrong);
        }
        match core.tree.find(ino) {
            Found::Unknown => return Err(Bar::Load(vec![Need::Inode(ino)])),
            // What others have removed of it is not below anything any more.
            Found::Gone if record.interfere == Interfere::Allow => return Ok(()),
            Found::Here(inode) if self.is_held_for(record, inode) => return Ok(()),
            _ => {}
        }
        match self.may_be_below(core, cluster, ino, record.dir) {
            Ok(true) => {
                self.note_lent(core, ino, record.dir);
                intake.below.insert(ino);
                Ok(())
            }
            Ok(false) => Err(Bar::Wrong),
            Err(needs) => Err(Bar::Load(needs)),
        }
    }

    /// The same, and what was there before is an inode, of this kind. A new number is what the parts say.
    fn is_there_as(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        ino: Ino,
        kind: Option<Kind>,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        if record.is_new(ino) {
            return Ok(());
        }
        self.is_there(core, cluster, record, ino, intake)?;
        if record.interfere == Interfere::Allow {
            // What becomes of it is decided over what is there by then.
            return Ok(());
        }
        match core.tree.find(ino) {
            Found::Here(inode) => right(kind.is_none_or(|kind| kind == inode.kind)),
            Found::Gone => Err(Bar::Wrong),
            Found::Unknown => Err(Bar::Load(vec![Need::Inode(ino)])),
        }
    }
}

impl Core {
    /// True if a user may write to something by himself. Not to a file with capabilities, nor to one of another's with setuid or setgid: a
    /// write ends those, and only a user who may act as root is believed that it did.
    pub(super) fn may_change(&self, inode: &Inode, cred: &Cred) -> Result<bool, Vec<Need>> {
        if cred.is_root() {
            return Ok(true);
        }
        let (is_file, is_his) = (inode.kind == Kind::File, inode.uid == cred.uid);
        if is_file && inode.has_xattrs {
            let all = self.tree.xattrs(inode).ok_or_else(|| vec![Need::Xattrs(inode.ino)])?;
            if all.iter().any(|(name, _)| **name == *b"security.capability") {
                return Ok(false);
            }
        }
        let setid = is_file && inode.mode & 0o6000 != 0;
        Ok(is_his || !setid && access::check(inode, cred, access::W).is_ok())
    }

    /// A file that was there before, and may have names elsewhere, is spoken of: its links are counted in the end. What the owner has made
    /// itself never had a name outside.
    fn note_linked(&self, record: &DecoupledRecord, ino: Ino, intake: &mut Intake) {
        if record.is_granted(ino) || intake.linked.contains(&ino) {
            return;
        }
        let is_alone = |inode: &Inode| inode.kind == Kind::Dir || inode.nlink == 1 && inode.place.hash().is_some();
        if self.tree.inode(ino).is_some_and(|inode| !is_alone(inode)) {
            intake.linked.insert(ino);
        }
    }

    /// A name is given or taken in a directory that was there before. If that has directories in it, the name may be one's, which must not be
    /// lost.
    fn name_changes(&self, record: &DecoupledRecord, dir: Ino, name: &[u8], intake: &mut Intake) -> Result<(), Bar> {
        if record.is_new(dir) || record.interfere == Interfere::Allow {
            return Ok(());
        }
        if self.tree.inode(dir).is_none_or(|dir| dir.nlink <= 2) {
            return Ok(());
        }
        let name = Name::new(name).map_err(|_| Bar::Wrong)?;
        match self.tree.entry(dir, &name) {
            Lookup::Present(target) if target.kind == Kind::Dir => _ = intake.shape.left.insert(target.ino, dir),
            Lookup::Present(_) | Lookup::Absent => {}
            Lookup::Unknown => return Err(Bar::Load(vec![Need::Entry { dir, name }])),
        }
        Ok(())
    }
}

/// The fields of an inode that change with its names; the number of links of a directory changes with those in it.
pub(super) fn names_of(inode: &Inode) -> (Ino, Place, u32) {
    (inode.parent, inode.place, if inode.kind == Kind::Dir { 0 } else { inode.nlink })
}

/// True if a user may set xattrs of this name. Policies are a rank's to hear of at once, and ACLs are in the inode.
fn may_name(cred: &Cred, name: &[u8]) -> bool {
    let spaces: &[&[u8]] = if cred.is_root() { &[b"user.", b"trusted.", b"security."] } else { &[b"user."] };
    name.len() <= XATTR_NAME_MAX && !name.contains(&0) && spaces.iter().any(|space| name.starts_with(space))
}

/// True if a user may have made an inode with this owner, group and mode.
pub(super) fn is_his_to_make(inode: &Inode, cred: &Cred) -> bool {
    let group = inode.kind == Kind::Dir || inode.mode & access::S_ISGID == 0 || cred.in_group(inode.gid);
    let whiteout = inode.kind == Kind::Char && inode.extra.as_ref().is_none_or(|extra| extra.rdev == 0);
    let device = matches!(inode.kind, Kind::Char | Kind::Block) && !whiteout;
    cred.is_root() || inode.uid == cred.uid && group && !device
}

/// True if a new inode says nothing of itself that comes with a policy, or with what only a rank does.
pub(super) fn is_as_made(inode: &Inode) -> bool {
    let rare = inode.extra.as_deref();
    rare.is_none_or(|rare| {
        !rare.linkable && !rare.moved && rare.expected_entries == 0 && rare.placement == Placement::Inherited
    })
}

/// An event, if it says something of what was there before, or is looked at once more in the end.
fn to_be_noted(record: &DecoupledRecord, event: EventView<'_>) -> Option<Event> {
    match event {
        EventView::Inode(inode) if !record.is_new(inode.ino) => Some(Event::Inode(Box::new(inode.clone()))),
        EventView::Other(Event::InodeGone(ino)) if record.is_new(*ino) => None,
        EventView::Other(
            event @ (Event::InodeGone(_) | Event::Discard { .. } | Event::Xattr { .. } | Event::XattrGone { .. }),
        ) => Some(event.clone()),
        _ => None,
    }
}
