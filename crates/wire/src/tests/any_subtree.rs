//! Anything that is said about decoupled subtrees, for property tests. What must be refused is in `subtree.rs`.

use loligo_types::{
    Conflict, ConflictKind, Control, DecoupledRecord, Ino, Interfere, MergeInto, Op, Overwritten, Promise, RefusedBy,
    SessionId, SplitRule, StoredJournal, SubtreeAnswer, SubtreeOp,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::any::{bytes, ino};
use super::any_link::{inode, loaded, need};

pub fn subtree_op() -> impl Strategy<Value = Op> {
    let n = any::<u64>;
    let what = prop_oneof![
        (n(), n(), n(), any::<u32>()).prop_map(|(owner, resume, inos, lease_ms)| SubtreeOp::Decouple {
            owner,
            resume,
            inos,
            lease_ms,
            interfere: interfere(owner),
            promise: promise(owner),
        }),
        (n(), vec(ino(), 0..6)).prop_map(|(epoch, inos)| SubtreeOp::Data { epoch, inos }),
        (n(), vec(ino(), 0..6)).prop_map(|(epoch, inos)| SubtreeOp::Overwrite { epoch, inos }),
        (n(), any::<bool>(), vec(ino(), 0..6)).prop_map(|(epoch, first, inos)| SubtreeOp::HoldOpen {
            epoch,
            first,
            inos
        }),
        (n(), n(), ino())
            .prop_map(|(epoch, bytes, ino)| SubtreeOp::Keep { epoch, journal: StoredJournal { ino, bytes } }),
        (n(), n()).prop_map(|(epoch, inos)| SubtreeOp::Grant { epoch, inos }),
        (n(), vec(need(), 0..6)).prop_map(|(epoch, needs)| SubtreeOp::Fetch { epoch, needs }),
        (n(), n(), any::<u32>(), bytes(20_000)).prop_map(|(epoch, merge, part, body)| SubtreeOp::Part {
            epoch,
            merge,
            part,
            blind: epoch.is_multiple_of(3),
            body
        }),
        (n(), n(), any::<u32>(), ino()).prop_map(|(epoch, merge, parts, used)| SubtreeOp::Merge {
            epoch,
            merge,
            parts,
            used,
            into: if epoch.is_multiple_of(2) { MergeInto::Memory } else { MergeInto::Table },
        }),
        n().prop_map(|epoch| SubtreeOp::End { epoch }),
        (n(), any::<bool>()).prop_map(|(owner, now)| SubtreeOp::TakeOver { owner, now }),
    ];
    (ino(), what).prop_map(|(dir, what)| Op::Control(Control::Subtree { dir, what: Box::new(what) }))
}

fn interfere(number: u64) -> Interfere {
    [Interfere::Block, Interfere::Allow, Interfere::Read][(number % 3) as usize]
}

fn promise(number: u64) -> Promise {
    Promise::from_code((number % 6) as u8).expect("there are six")
}

/// The record of a subtree with this root. Grants ascend and do not overlap.
fn record(dir: Ino) -> impl Strategy<Value = DecoupledRecord> {
    let grants = vec((1u64..1000, 1u64..1 << 28), 0..5);
    let numbers = (any::<[u64; 5]>(), any::<[u32; 2]>(), vec(any::<u8>(), 0..=255), grants);
    numbers.prop_map(move |([epoch, owner, session, used, merges], [uid, lease_ms], name, pieces)| {
        let mut record = DecoupledRecord {
            dir,
            epoch,
            owner,
            session: SessionId(session),
            uid,
            name: name.into(),
            lease_ms,
            grants: Vec::new(),
            used: Ino(used),
            merges,
            interfere: interfere(owner),
            journal: (uid % 3 == 0).then_some(StoredJournal { ino: Ino(merges | 1), bytes: epoch }),
            objects: Vec::new(),
            promise: promise(owner),
            overwritten: Vec::new(),
        };
        let mut at = 0;
        for (gap, count) in pieces {
            record.grant(Ino(at + gap), count);
            record.objects.push((Ino(at + gap), count));
            if record.interfere != Interfere::Block {
                record.overwritten.push(Overwritten { file: Ino(at + gap), copy: Ino(count), count });
            }
            at += gap + count;
        }
        record
    })
}

pub fn subtree_answer() -> impl Strategy<Value = SubtreeAnswer> {
    let told = ino().prop_flat_map(|dir| (record(dir), inode(dir)));
    prop_oneof![
        (told, any::<u32>(), any::<(u64, u64, u8)>()).prop_map(|((record, root), inline_max, (split, merge, bits))| {
            let split = SplitRule { split, merge, bits };
            SubtreeAnswer::Decoupled { record, root: Box::new(root), inline_max, split }
        }),
        vec(loaded(), 0..6).prop_map(SubtreeAnswer::Records),
        ino()
            .prop_flat_map(|dir| (record(dir), vec(ino().prop_flat_map(inode), 0..4)))
            .prop_map(|(record, files)| SubtreeAnswer::Forked { record, files }),
        (0..RefusedBy::ALL.len(), ino()).prop_map(|(by, dir)| SubtreeAnswer::Refused { by: RefusedBy::ALL[by], dir }),
        any::<u64>().prop_map(|merges| SubtreeAnswer::Merged { merges, conflicts: 0, told: Vec::new() }),
        (any::<u64>(), 1..u64::MAX, vec(conflict(), 0..5))
            .prop_map(|(merges, conflicts, told)| SubtreeAnswer::Merged { merges, conflicts, told }),
    ]
}

fn conflict() -> impl Strategy<Value = Conflict> {
    let text = || vec(any::<u8>(), 0..=255).prop_map(Vec::into_boxed_slice);
    (0..ConflictKind::ALL.len(), any::<u64>(), text(), text()).prop_map(|(kind, ino, name, kept)| Conflict {
        kind: ConflictKind::ALL[kind],
        ino: Ino(ino),
        name,
        kept,
    })
}
