//! The bytes of what a server asks the admin plane of another one, and of what that replies. Not what is asked: the pages are HTTP's, and
//! stand in docs/cli.md.

use loligo_journal::codec::parts::{Cursor, put_bytes, put_u64};
use loligo_types::limits::{QUESTION_PATH_MAX, QUESTION_TEXT_MAX, REPLY_TEXT_MAX};
use loligo_types::link::{Method, Question, Reply};

use super::{Result, take_text};

pub(super) fn put_question(out: &mut Vec<u8>, question: &Question) {
    out.push(question.method as u8);
    put_bytes(out, question.path.as_bytes());
    put_bytes(out, question.text.as_bytes());
}

pub(super) fn take_question(from: &mut Cursor<'_>) -> Result<Question> {
    let method = match from.u8()? {
        1 => Method::Get,
        2 => Method::Post,
        _ => return Err(from.invalid("method of a question")),
    };
    let path = take_limited(from, QUESTION_PATH_MAX, "path of a question")?;
    if !path.starts_with('/') {
        return Err(from.invalid("path of a question"));
    }
    Ok(Question { method, path, text: take_limited(from, QUESTION_TEXT_MAX, "text of a question")? })
}

pub(super) fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    put_u64(out, u64::from(reply.status));
    put_bytes(out, reply.text.as_bytes());
}

pub(super) fn take_reply(from: &mut Cursor<'_>) -> Result<Reply> {
    let status = u16::try_from(from.u32()?).ok().filter(|status| (100..1000).contains(status));
    let status = status.ok_or_else(|| from.invalid("status of a reply"))?;
    Ok(Reply { status, text: take_limited(from, REPLY_TEXT_MAX, "text of a reply")? })
}

fn take_limited(from: &mut Cursor<'_>, max: usize, what: &'static str) -> Result<String> {
    let text = take_text(from)?;
    if text.len() > max { Err(from.invalid(what)) } else { Ok(text) }
}
