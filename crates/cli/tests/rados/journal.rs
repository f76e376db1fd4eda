//! `loligo journal` on a store in the cluster: read while it is served, mended when it is not.

use std::path::Path;

use loligo_driver::client::Fs;

use crate::servers::{Place, connect};

fn fill(fs: &Fs, from: usize) {
    for n in from..from + 20 {
        fs.write(format!("/{n}"), n.to_string().into_bytes()).expect("written");
    }
}

/// Runs a subcommand of `loligo journal` on server 0's directory, which remembers the store.
#[track_caller]
fn journal(place: &Place, words: &str, files: &[&Path], code: i32) -> String {
    let data = place.data(0);
    let mut files = files.iter().map(|file| file.to_str().expect("UTF-8"));
    let mut args = vec!["journal"];
    for word in words.split(' ') {
        args.push(match word {
            "{}" => files.next().expect("a file for each {}"),
            "DATA" => data.to_str().expect("UTF-8"),
            word => word,
        });
    }
    place.say(&args, code)
}

#[test]
fn a_journal_in_the_cluster_is_read_while_it_is_served_and_mended_after() {
    let Some(place) = Place::formatted() else { return };
    let mut server = place.share(0, &[]);
    server.until_serves();
    let fs = connect(&place.address(1));
    fill(&fs, 0);
    let (early, file) = (place.path().join("early"), place.path().join("file"));
    assert!(journal(&place, "export --data DATA {}", &[&early], 0).contains("records 1 to "));
    fill(&fs, 20);
    let differ = journal(&place, "diff {} DATA", &[&early], 3);
    assert!(differ.contains("only in B: lsn") && differ.contains("name=39"), "{differ}");
    for words in ["apply --data DATA", "erase --data DATA --lsn 1"] {
        assert!(journal(&place, words, &[], 1).contains("in use"), "{words}");
    }
    server.kill();
    journal(&place, "export --data DATA {}", &[&file], 0);
    let erased = journal(&place, "erase --data DATA --name 39", &[], 0);
    assert!(erased.contains("ERASED") && erased.contains("backup of rank 0"), "{erased}");
    assert!(!journal(&place, "inspect --data DATA", &[], 0).contains("name=39"));
    journal(&place, "import {} --data DATA --rank 0", &[&file], 0);
    journal(&place, "diff {} DATA", &[&file], 0);
    let applied = journal(&place, "apply --data DATA", &[], 0);
    assert!(applied.contains("entry: 40 rows were written"), "{applied}");
    assert!(journal(&place, "apply --data DATA", &[], 0).contains("has all that the journals say"));
    place.say(&["fsck", "--data", place.data(0).to_str().expect("UTF-8")], 0);
    let mut server = place.share(0, &[]);
    server.until_serves();
    for n in 0..40 {
        assert_eq!(fs.read(format!("/{n}")).expect("it is there"), n.to_string().as_bytes());
    }
    fs.write("/more", b"x".to_vec()).expect("written");
    drop(fs);
    server.end();
    place.run(&["store", "check"], 0);
}
