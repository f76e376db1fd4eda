//! A journal as a person sees it.

use loligo_types::{Event, Ino, Kind, Name, Origin, Seq, SessionId};

use super::*;
use crate::codec::encode_record;
use crate::reader::MemSource;
use crate::writer::{Writer, WriterConfig};

fn journal(records: &[(Option<Origin>, Vec<Event>)]) -> MemSource {
    let mut writer = Writer::new(WriterConfig::new([1; 16], 0));
    let mut source = MemSource::default();
    for (origin, events) in records {
        let mut body = Vec::new();
        encode_record(&mut body, origin.as_ref(), events);
        writer.append(&body).expect("the writer has not failed");
        let batch = writer.take_batch().expect("a record was appended");
        source.write(&batch);
        writer.synced(batch.last);
    }
    source
}

fn entry() -> (Option<Origin>, Vec<Event>) {
    let origin = Origin { session: SessionId(3), seq: Seq(9), answered: Seq(8), ino: Ino(256), value: 1 };
    let name = Name::new(b"a \"b\"\\\n\xff").expect("a name");
    (
        Some(origin),
        vec![Event::Entry { dir: Ino(1), name, ino: Ino(256), kind: Kind::File, remote: false }, Event::Orphan(Ino(5))],
    )
}

#[test]
fn a_record_is_shown_as_text_and_as_one_line_of_json() {
    let mut inspector = Inspector::open(journal(&[entry()]), ReadConfig::default()).expect("a good journal");
    let shown = inspector.next().expect("one record").expect("a good record");
    assert_eq!(
        shown.to_string(),
        "lsn 1 segment 1 offset 64 size 49 session 3 seq 9 answered 8 ino 256 value 1\n  \
         entry dir=1 name=\"a \\\"b\\\"\\\\\\x0a\\xff\" ino=256 kind=file remote=false\n  \
         orphan ino=5"
    );
    assert_eq!(
        serde_json::to_string(&shown).expect("its keys are texts"),
        "{\"segment\":1,\"offset\":64,\"lsn\":1,\"size\":49,\
         \"origin\":{\"session\":3,\"seq\":9,\"answered\":8,\"ino\":256,\"value\":1},\
         \"events\":[{\"event\":\"entry\",\"dir\":1,\"name\":\"a \\\"b\\\"\\\\\\\\\\\\x0a\\\\xff\",\
         \"ino\":256,\"kind\":\"file\",\"remote\":false},{\"event\":\"orphan\",\"ino\":5}]}"
    );
    assert!(inspector.next().is_none());
    assert_eq!(inspector.tail().expect("read to the end").next_lsn, Lsn(2));
}

#[test]
fn a_check_counts_and_says_how_the_journal_ends() {
    let report = verify(journal(&[entry(), entry(), (None, vec![])]), ReadConfig::default());
    assert_eq!((report.records, report.events, report.bytes), (3, 4, 49 + 49 + 27));
    assert_eq!((report.first, report.last), (Some(Lsn(1)), Some(Lsn(3))));
    let empty = verify(MemSource::default(), ReadConfig::default());
    assert_eq!((empty.records, empty.end), (0, Ok(Tail::default())));
}

#[test]
fn a_body_that_is_not_understood_is_told_with_its_place_and_the_rest_is_still_shown() {
    let mut writer = Writer::new(WriterConfig::new([1; 16], 0));
    let mut source = MemSource::default();
    for body in [&[2u8, 0, 0][..], &[9, 0, 0], &[2, 0, 0]] {
        writer.append(body).expect("the writer has not failed");
    }
    source.write(&writer.take_batch().expect("three records"));
    let report = verify(source.clone(), ReadConfig::default());
    let error = DecodeError::UnknownVersion { what: "record", found: 9, known: 2 };
    assert_eq!(report.end, Err(InspectError::Record { segment: 1, offset: 91, lsn: Lsn(2), error }));
    let inspector = Inspector::open(source, ReadConfig::default()).expect("a good journal");
    assert_eq!(inspector.map(|entry| entry.is_ok()).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn text_keeps_what_is_readable_and_can_be_turned_back() {
    assert_eq!(escape("Gr\u{fc}\u{df}e".as_bytes()), "Gr\u{fc}\u{df}e");
    assert_eq!(escape(b"tab\there\\n\x7f\xc3"), "tab\\x09here\\\\n\\x7f\\xc3");
    assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
}
