//! Lists in CSV and NDJSON.

use super::{indexed, refused, root_options};
use crate::{Options, list};

fn csv_as(text: &str, options: Options) -> Result<Vec<String>, String> {
    indexed(text.as_bytes(), false, &|input, sources, sink| list::csv(input, &options, sources, sink))
}

fn csv(text: &str) -> Result<Vec<String>, String> {
    csv_as(text, Options::default())
}

fn ndjson(text: &str) -> Result<Vec<String>, String> {
    indexed(text.as_bytes(), false, &|input, sources, sink| list::ndjson(input, &root_options(), sources, sink))
}

#[test]
fn lines_of_both_forms_become_the_same_entries() {
    let expected = [
        "dir 700 /",
        "e 644 inline say \"hi\"",
        "l 644 -> dir/f",
        "z 644 zeros 5",
        "dir/f 600 345",
        "dir/g 644 abcdef",
    ];
    let text = "path,source,offset,length,size,contents,target,mode\n\
                dir/f,/data/a,3,3,,,,600\n\
                dir/,,,,,,,700\n\
                dir/g,b,,,,,,\n\
                z,,,,5,,,\n\
                e,,,,,\"say \"\"hi\"\"\",,\n\
                l,,,,,,dir/f,\n";
    assert_eq!(csv(text), Ok(expected.map(String::from).to_vec()));
    let text = r#"{"path": "dir/f", "source": "/data/a", "offset": 3, "length": 3, "mode": "600", "uid": 5, "mtime": 1.5}
        {"path": "dir/", "mode": "0o700"}

        {"path": "dir/g", "source": "b", "offset": null}
        {"path": "z", "size": 5}
        {"path": "e", "contents": "say \"hi\""}
        {"path": "l", "target": "dir/f"}"#;
    assert_eq!(ndjson(text), Ok(expected.map(String::from).to_vec()));
}

#[test]
fn lines_that_make_no_sense_are_refused_by_number() {
    refused(csv("source\nb\n"), "`the heading`: column `path` is missing");
    refused(csv("path,colour\nb,red\n"), "`the heading`: column `colour` is not known");
    refused(csv("path,path\nb,b\n"), "`the heading`: column `path` stands twice");
    refused(csv("path,size\nb,1\nc\n"), "found record with 1 fields");
    let row = |text: &str| csv(&format!("path,source,offset,length,size,mode,uid,mtime\nok,,,,,,,\n{text}\n"));
    refused(row(",,,,1,,,"), "`line 3`: column `path` is empty");
    refused(row("../x,,,,,,,"), "`line 3`: its path contains `..`");
    refused(row("/x,,,,,,,"), "`line 3`: its path begins with `/`");
    refused(row("x,b,5,2,,,,"), "`line 3`: 2 bytes at byte 5 go beyond the end of `b` at 6");
    refused(row("x,none,,,,,,"), "`line 3`: source `none`: it is not there");
    refused(row("x,b,-1,2,,,,"), "`line 3`: offset is no number");
    refused(row("x,b,,,7,,,"), "`line 3`: column `size` excludes another");
    refused(row("x,,1,,,,,"), "`line 3`: column `offset` is for a source");
    refused(row("x/,,,,1,,,"), "`line 3`: column `size` is for files");
    refused(row("x,,,,NaN,,,"), "`line 3`: size is no number");
    refused(row("x,,,,18446744073709551615,,,"), "`line 3`: `x`: it is larger than a file may be");
    refused(row("x,,,,,999,,"), "`line 3`: mode is no number");
    refused(row("x,,,,,10000,,"), "`line 3`: mode is no number");
    refused(row("x,,,,,4755,,"), "`line 3`: it is setuid");
    refused(row("x,,,,,,5,"), "`line 3`: column `uid` and `gid` count for root only");
    refused(row("x,,,,,,,nan"), "`line 3`: mtime is no number");
    refused(row("x,,,,,,,1e300"), "`line 3`: mtime is no number");
    refused(row("a/b,,,,,,,\na,,,,,,,"), "`a` is a file and a directory");
    assert!(csv_as("path,uid\nx,5\n", root_options()).is_ok());
    refused(ndjson("{\"path\": \"x\"}\n[1]\n"), "`line 2`: this is no JSON of this form");
    refused(ndjson("{\"path\": \"x\", \"colour\": 1}"), "`line 1`: column `colour` is not known");
    refused(ndjson("{\"path\": [\"x\"]}"), "`line 1`: column `path` is neither a text nor a number");
    refused(ndjson("{\"size\": 1}"), "`line 1`: column `path` is empty");
    refused(ndjson(&"x".repeat(2 << 20)), "`line 1`: the line has 1048577 bytes");
    assert_eq!(csv("path\n"), Ok(Vec::new()));
    assert_eq!(ndjson(""), Ok(Vec::new()));
}
