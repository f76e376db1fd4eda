//! The machine alone, and the machine with real effects on the memory backend, run in any order that
//! it allows.

mod durable;
mod fork;
mod frozen;
mod logged;
mod machine;
mod quiesce;
mod random;
mod replay;

use std::sync::Arc;

use loligo_store::Blobs;
use loligo_types::{DataAnswer, DataError, DataOp, Ino, SessionId};

use crate::execute::execute;
use crate::{Access, Config, Durable, Effect, EffectId, Input, Osd, Output, Tag};

pub(crate) const OBJECT: u32 = 16_384;
pub(crate) const ALICE: SessionId = SessionId(1);
pub(crate) const BOB: SessionId = SessionId(2);
pub(crate) const FILE: Ino = Ino(0x100);

/// A machine where Alice may write `FILE` and Bob may read it.
pub(crate) fn osd() -> Osd {
    let mut osd = Osd::new(Config { queue_bytes: 1 << 20, dirty_files: 4 });
    osd.handle(Input::Access { session: ALICE, ino: FILE, access: Access::Write });
    osd.handle(Input::Access { session: BOB, ino: FILE, access: Access::Read });
    osd
}

pub(crate) fn ask(osd: &mut Osd, session: SessionId, tag: Tag, op: DataOp) {
    osd.handle(Input::Request { session, tag, ino: FILE, object_size: OBJECT, op });
}

/// Carries out all that the machine gives out, until there is no more; the rest of its outputs.
pub(crate) fn settle(osd: &mut Osd, blobs: &dyn Blobs) -> Vec<Output> {
    let mut said = Vec::new();
    while let Some(output) = osd.next_output() {
        match output {
            Output::Run { id, effect } => {
                let result = execute(blobs, &effect);
                osd.handle(Input::Done { id, result });
            }
            output => said.push(output),
        }
    }
    said
}

/// The answer to a request, after all of it was carried out.
pub(crate) fn answer(
    osd: &mut Osd,
    blobs: &dyn Blobs,
    session: SessionId,
    tag: Tag,
    op: DataOp,
) -> Result<DataAnswer, DataError> {
    ask(osd, session, tag, op);
    match settle(osd, blobs).pop() {
        Some(Output::Reply { result, .. }) => result,
        other => panic!("unexpected {other:?}"),
    }
}

pub(crate) fn write_op(offset: u64, bytes: &[u8]) -> DataOp {
    DataOp::Write { offset, data: Arc::from(bytes) }
}

pub(crate) fn outputs(osd: &mut Osd) -> Vec<Output> {
    std::iter::from_fn(|| osd.next_output()).collect()
}

/// The effects that came out, and nothing else did.
pub(crate) fn runs(osd: &mut Osd) -> Vec<(EffectId, Effect)> {
    let run = |output| match output {
        Output::Run { id, effect } => (id, effect),
        other => panic!("unexpected {other:?}"),
    };
    outputs(osd).into_iter().map(run).collect()
}

pub(crate) fn done(osd: &mut Osd, id: EffectId) {
    osd.handle(Input::Done { id, result: Ok(DataAnswer::Done) });
}

pub(crate) fn reply(session: SessionId, tag: Tag, result: Result<DataAnswer, DataError>) -> Output {
    Output::Reply { session, tag, result }
}
