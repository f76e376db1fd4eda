//! Reference files of kerchunk.

use super::{indexed, refused};
use crate::{Options, kerchunk};

fn run(text: &str) -> Result<Vec<String>, String> {
    indexed(text.as_bytes(), false, &|input, sources, sink| kerchunk::index(input, &Options::default(), sources, sink))
}

#[test]
fn references_of_version_0_and_1_become_a_zarr_store() {
    let v0 = r#"{".zgroup": "{\"zarr_format\": 2}", "t/0.0": ["/data/a", 2, 3], "t/0.1": ["b"], "t/.zarray": {"shape": [2]}, "t/x": "base64:aGkh"}"#;
    let expected = [
        ".zgroup 644 inline {\"zarr_format\": 2}",
        "t 755 /",
        "t/.zarray 644 inline {\"shape\":[2]}",
        "t/0.0 644 234",
        "t/0.1 644 abcdef",
        "t/x 644 inline hi!",
    ];
    assert_eq!(run(v0), Ok(expected.map(String::from).to_vec()));
    // Templates may come behind the references, and be made of others.
    let v1 = r#"{"version": 1, "refs": {"k": ["file://{{u}}", 0, 1], "j": ["{{ d }}/a", 9, 1]},
                 "templates": {"d": "/data", "u": "{{d}}/a"}, "gen": []}"#;
    assert_eq!(run(v1), Ok(vec!["j 644 9".into(), "k 644 0".into()]));
}

#[test]
fn base64_is_read_in_both_alphabets_with_or_without_padding_and_with_blanks() {
    let read = |text: &str| run(&format!(r#"{{"k": "base64:{text}"}}"#));
    for text in ["fn5+YQ==", "fn5+YQ", "fn5-YQ", " fn5+\\nYQ == "] {
        assert_eq!(read(text), Ok(vec!["k 644 inline ~~~a".into()]), "{text}");
    }
    assert_eq!(read("Pz8/"), read("Pz8_"));
}

#[test]
fn references_that_cannot_be_followed_are_refused_by_key() {
    let one = |value: &str| run(&format!("{{\"k\": {value}}}"));
    refused(one(r#"["s3://bucket/x", 0, 1]"#), "`k`: `s3://bucket/x` is no file of this file system");
    refused(one(r#"["https://host/x"]"#), "is no file of this file system");
    refused(one(r#"["none"]"#), "`k`: source `none`: it is not there");
    refused(one(r#"["b", 4, 3]"#), "`k`: 3 bytes at byte 4 go beyond the end of `b` at 6");
    refused(one(r#"["b", 18446744073709551615, 3]"#), "go beyond the end");
    refused(one(r#"["b", -1, 3]"#), "`k`: its offset is no number");
    refused(one(r#"["b", 1, 1e30]"#), "`k`: its length is no number");
    refused(one(r#"["b", 1]"#), "`k`: this is no JSON of this form: a reference has one or three parts");
    refused(one("[]"), "a reference without a file");
    refused(one("7"), "a reference is a text or a list");
    refused(one(r#""base64:a===b""#), "its base64 text is no number");
    refused(one(r#""base64:YWF""#), "its base64 text is no number");
    refused(run(r#"{"/abs": "x"}"#), "`/abs`: its path begins with `/`");
    refused(run(r#"{"a/../../b": "x"}"#), "`a/../../b`: its path contains `..`");
    refused(run(r#"{"a": "x", "a/b": "y"}"#), "`a` is a file and a directory");
    refused(run(r#"{"version": 2, "refs": {}}"#), "`version`: version 2 is not known");
    refused(
        run(r#"{"version": 1, "gen": [{"key": "x"}], "refs": {}}"#),
        "`gen`: it is a program that makes references",
    );
    let v1 = |url: &str, templates: &str| {
        run(&format!("{{\"version\": 1, \"templates\": {templates}, \"refs\": {{\"k\": [{url:?}]}}}}"))
    };
    refused(v1("{{f(c=1)}}", "{}"), "`k`: `{{f(c=1)}}` is a program");
    refused(v1("{{u}}", "{}"), "there is no template `u`");
    refused(v1("{{u", "{}"), "`{{` has no partner");
    refused(v1("{{u}}", r#"{"u": "{{u}}{{u}}"}"#), "is a program");
    for text in ["", "[]", "{", "{\"k\": }", "{\"k\": \"x\"} x", "nul"] {
        refused(run(text), "this is no JSON of this form");
    }
}
