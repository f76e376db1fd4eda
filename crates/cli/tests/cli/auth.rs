//! Identities: made, listed, used from another place and revoked, as an administrator and a client do it.

use std::os::unix::fs::PermissionsExt;

use super::run::{Place, Service, can_mount, loligo, loligo_in, not_tested, sh};

/// Where the server listens on TCP, which it says when it is ready.
pub(super) fn tcp_of(place: &Place) -> String {
    let ranks = loligo("rank list --data {} --json", &[&place.data()]).ok().json();
    let addresses = ranks[0]["addresses"].as_array().expect("a list").clone();
    let tcp = addresses.iter().filter_map(|at| at.as_str()?.strip_prefix("tcp:").map(str::to_string)).next();
    tcp.unwrap_or_else(|| panic!("no TCP in {addresses:?}"))
}

fn served(place: &Place, more: &str) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    Service::start(&format!("serve --data {{}} --listen 0.0.0.0:0 {more}"), &[&place.data()])
}

#[test]
fn an_identity_is_made_listed_used_and_revoked() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "");
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let file = place.path("one.pem");
    let bench = format!("bench md --server {at} --clients 1 --in-flight 2 --files 20 --phases create,stat,unlink");
    loligo(&bench, &[]).fails(1, &["without an identity", "--identity", "loligo auth add"]);

    loligo("auth list --data {}", &[&data]).ok();
    loligo("auth add one --data {} --out {}", &[&data, &file]).ok();
    assert_eq!(std::fs::metadata(&file).expect("it was written").permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(text.starts_with("loligo identity 1\n") && text.contains("PRIVATE KEY"), "{text}");
    loligo("auth add one --data {}", &[&data]).fails(1, &["already", "revoke"]);
    loligo("auth add two --data {} --out {}", &[&data, &file]).fails(1, &["one.pem", "not there"]);
    let printed = loligo("auth add reader --read-only --data {}", &[&data]).ok().out;
    assert!(printed.starts_with("loligo identity 1\n"), "{printed}");
    let list = loligo("auth list --data {} --json", &[&data]).ok().json();
    let of = |at: usize| (list[at]["name"].as_str(), list[at]["read_only"].as_bool());
    assert_eq!(
        (of(0), of(1), list.as_array().map(Vec::len)),
        ((Some("one"), Some(false)), (Some("reader"), Some(true)), Some(2))
    );
    assert!(loligo("auth list --data {}", &[&data]).ok().out.contains("read only"));

    loligo(&(bench.clone() + " --identity {}"), &[&file]).ok();
    loligo_in(&bench, &[], |command| _ = command.env("LOLIGO_IDENTITY", &file)).ok();
    let reader = place.path("reader.pem");
    std::fs::write(&reader, printed).expect("a file");
    loligo(&(bench.clone() + " --identity {}"), &[&reader]).fails(1, &["read-only"]);
    loligo("auth revoke one --data {}", &[&data]).ok();
    loligo(&(bench.clone() + " --identity {}"), &[&file]).fails(1, &["revoked"]);
    loligo("auth revoke one --data {}", &[&data]).fails(1, &["no identity one", "auth list"]);
    loligo(&(bench + " --identity {}"), &[&data.join("server.json")]).fails(2, &["server.json", "loligo auth add"]);
    // Who may come in is told to nobody who just connects to the admin port.
    let state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data.join("server.json")).expect("a file")).expect("JSON");
    let admin = format!("http://{}", state["admin"].as_str().expect("an address"));
    loligo(&format!("auth list --server {admin}"), &[]).fails(1, &["anybody", "--data DIR", "LOLIGO_ADMIN_TOKEN"]);
    let with_token =
        |command: &mut std::process::Command| _ = command.env("LOLIGO_ADMIN_TOKEN", data.join("admin.token"));
    loligo_in(&format!("auth list --server {admin}"), &[], with_token).fails(1, &["nothing is here"]);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn ranks_of_the_server_and_of_others_are_reached_over_tls_and_let_nobody_in_who_was_revoked() {
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "--ranks 3 --elsewhere 2 --set balancer=none");
    let other = Service::start("serve --data {} --join 2 --listen 0.0.0.0:0", &[&data]);
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let file = place.path("one.pem");
    loligo("auth add one --data {} --out {}", &[&data, &file]).ok();
    let identity = loligo_driver::Identity::read(&file).expect("a good file");
    let options = || loligo_driver::client::Options { identity: Some(identity.clone()), ..Default::default() };
    let connect = || loligo_driver::Client::connect(&at.parse().expect("an address"), options());
    let client = connect().expect("it is let in");
    let fs = client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    for rank in [1, 2] {
        fs.mkdir(format!("/{rank}"), 0o755).expect("made");
        loligo(&format!("subtree migrate --data {{}} /{rank} {rank}"), &[&data]).ok();
        fs.write(format!("/{rank}/file"), *b"content").expect("it reaches the rank");
    }
    let sessions = |socket: &std::path::Path| {
        let ranks = loligo("rank list --server {} --json", &[socket]).ok().json();
        ranks.as_array().expect("a list").iter().filter_map(|rank| rank["sessions"].as_u64()).sum::<u64>()
    };
    let elsewhere = data.join("admin-2.sock");
    assert_eq!(sessions(&elsewhere), 1, "the client speaks with the rank of the other process");
    loligo("auth revoke one --data {}", &[&data]).ok();
    super::run::until("the other process looks at the list", || sessions(&elsewhere) == 0);
    assert_eq!(sessions(&data.join("admin.sock")), 0);
    assert!(
        fs.mkdir("/2/dir", 0o755).is_err() && fs.mkdir("/1/dir", 0o755).is_err() && fs.mkdir("/dir", 0o755).is_err()
    );
    assert!(connect().is_err());
    assert_eq!(other.stop().0, 0);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_mount_comes_in_with_its_identity() {
    if !can_mount() {
        return not_tested("a mount over TLS");
    }
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "");
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let files = [("one", ""), ("reader", "--read-only")].map(|(name, how)| {
        let file = place.path(name);
        loligo(&format!("auth add {name} {how} --data {{}} --out {{}}"), &[&data, &file]).ok();
        file
    });
    let mounts = [place.path("rw"), place.path("ro")];
    for (file, mount) in files.iter().zip(&mounts) {
        loligo(
            &format!("mount --server {at} --identity {{}} --daemon --log-file {{}} {{}}"),
            &[file, &place.path("log"), mount],
        )
        .ok();
    }
    let script = "cd $D; echo hello > file && cat file && mkdir dir && dd if=/dev/zero of=large bs=1M count=8 2>&1 && cmp -n 8388608 large /dev/zero";
    sh(script, &mounts[0]).ok();
    let read =
        sh("cd $D; cat file; wc -c < large; set +e; (echo more >> file); rm -f file; mkdir d; true", &mounts[1]).ok();
    assert!(read.out.contains("hello") && read.out.contains("8388608"), "{}", read.out);
    assert_eq!(read.err.matches("Read-only file system").count(), 3, "{}", read.err);
    let status = loligo("status --data {} --json", &[&data]).ok().json();
    let sessions = status["sessions"].as_array().expect("a list");
    let mut shown: Vec<_> = sessions.iter().filter_map(|session| session["identity"].as_str()).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["one", "reader"]);
    let text = loligo("status --data {}", &[&data]).ok().out;
    assert!(text.contains(", identity reader"), "{text}");
    for mount in &mounts {
        loligo("umount {}", &[mount]).ok();
    }
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_mount_with_paths_shows_what_lies_below_them_and_the_way_there() {
    if !can_mount() {
        return not_tested("a mount of an identity with paths");
    }
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "--ranks 2 --set balancer=none");
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    for bad in ["rw:home", "w:/home", "rw:/a/../b"] {
        loligo(&format!("auth add bad --allow {bad} --data {{}}"), &[&data]).fails(2, &[bad]);
    }
    loligo("auth add bad --allow rw:/a --allow r:/a --data {}", &[&data]).fails(1, &["/a is named twice"]);
    loligo("auth add bad --allow rw:/a --read-only --data {}", &[&data]).fails(2, &["--read-only"]);
    let files = [("all", ""), ("ann", "--allow rw:/home/ann --allow r:/pub --squash none")].map(|(name, how)| {
        let file = place.path(name);
        loligo(&format!("auth add {name} {how} --data {{}} --out {{}}"), &[&data, &file]).ok();
        file
    });
    let listed = loligo("auth list --data {}", &[&data]).ok().out;
    assert!(listed.contains("rw:/home/ann r:/pub"), "{listed}");
    let mounts = [place.path("rw"), place.path("ann's")];
    for (file, mount) in files.iter().zip(&mounts) {
        let log = place.path("log");
        loligo(&format!("mount --server {at} --identity {{}} --daemon --log-file {{}} {{}}"), &[file, &log, mount])
            .ok();
    }
    sh(
        "cd $D; mkdir -p home/ann home/ben pub; echo hello > pub/f; echo secret > home/ben/f; chmod -R 777 .",
        &mounts[0],
    )
    .ok();
    loligo("subtree migrate --data {} /home/ann 1", &[&data]).ok();
    let script = "cd $D/home/ann; echo mine > f; mkdir d; mv f d/f; cat d/f ../../pub/f; ls -la .; ls -ld $D/home; pwd";
    let seen = sh(script, &mounts[1]).ok();
    assert!(seen.out.contains("mine\nhello\n"), "{}", seen.out);
    assert_eq!(seen.err, "");
    let script = "cd $D; set +e; ls .; ls home; cat home/ben/f; (echo x > pub/f); mkdir home/x; mv home/ann home/anna; \
                  ln home/ann/d/f pub/f2; ls home/ben; true";
    let refused = sh(script, &mounts[1]).ok();
    assert!(!refused.out.contains("secret"), "{}", refused.out);
    assert_eq!(refused.err.matches("Permission denied").count(), 6, "{}", refused.err);
    assert_eq!(refused.err.matches("Read-only file system").count(), 2, "{}", refused.err);
    // Her directory as the whole mount, which is what she can list.
    let (mount, log) = (place.path("home"), place.path("log"));
    let from = format!("mount --server {at} --identity {{}} --daemon --log-file {{}} {{}} --path");
    loligo(&format!("{from} /home/ben"), &[&files[1], &log, &mount]).fails(1, &["/home/ben", "permission denied"]);
    loligo(&format!("{from} /home/ann/d/f"), &[&files[1], &log, &mount]).fails(1, &["no directory"]);
    loligo(&format!("{from} /home/ann"), &[&files[1], &log, &mount]).ok();
    let script = "cd $D; ls; cat d/f; mkdir e; mv d/f e/f; ln e/f g; touch .; stat -c %a .; chmod 750 .; ls -d ..; cat g; rm -r d; ls; \
                  test $(stat -c %i .) = $(stat -c %i $D/../rw/home/ann)";
    let seen = sh(script, &mount).ok();
    assert_eq!(seen.out, "d\nmine\n777\n..\nmine\ne\ng\n");
    // What others change is seen, also of the directory that is mounted.
    sh("cd $D/home/ann; chmod 700 .; mv g h; echo theirs > h", &mounts[0]).ok();
    assert_eq!(sh("cd $D; stat -c %a .; ls; cat h", &mount).ok().out, "700\ne\nh\ntheirs\n");
    loligo("umount {}", &[&mount]).ok();
    for mount in &mounts {
        loligo("umount {}", &[mount]).ok();
    }
    assert_eq!(server.stop().0, 0);
}

#[test]
fn root_of_a_host_with_a_limited_identity_is_nobody_and_its_programs_and_devices_are_nobodys() {
    if !can_mount() {
        return not_tested("a mount of an identity whose root is squashed");
    }
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "");
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    loligo("auth add bad --squash some --data {}", &[&data]).fails(2, &["some", "root, all or none"]);
    let squashes =
        [("all", "--squash none", "none"), ("ann", "--allow rw:/ann", "root"), ("ben", "--squash all", "all")];
    let mounts = squashes.map(|(name, how, squash)| {
        let (file, mount, log) = (place.path(name), place.path(&format!("at-{squash}")), place.path("log"));
        loligo(&format!("auth add {name} {how} --data {{}} --out {{}}"), &[&data, &file]).ok();
        loligo(&format!("mount --server {at} --identity {{}} --daemon --log-file {{}} {{}}"), &[&file, &log, &mount])
            .ok();
        mount
    });
    let list = loligo("auth list --data {} --json", &[&data]).ok().json();
    let told: Vec<_> = list.as_array().expect("a list").iter().map(|one| one["squash"].as_str()).collect();
    assert_eq!(told, [Some("none"), Some("root"), Some("all")]);
    assert!(loligo("auth list --data {}", &[&data]).ok().out.contains("squash root"));
    sh("cd $D; mkdir ann; chmod 777 . ann; echo secret > ann/secret; chmod 600 ann/secret", &mounts[0]).ok();
    let script = "set +e; cd $D/ann; cp /bin/true mine; chmod 4755 mine; chown 0:0 mine; mknod sda b 8 0; cat secret; stat -c %u:%g:%a mine; \
                  cp /bin/true his; chown 1000 his; setpriv --reuid 1000 --regid 1000 --clear-groups touch of-a-user; \
                  stat -c %u:%g of-a-user; rm -f mine his of-a-user; true";
    for (mount, user) in [(&mounts[1], "1000:1000"), (&mounts[2], "65534:65534")] {
        let ran = sh(script, mount).ok();
        assert_eq!(ran.out, format!("65534:65534:4755\n{user}\n"), "{}", ran.err);
        assert!(ran.err.contains("cat: secret: Permission denied"), "{}", ran.err);
        assert!(ran.err.contains("mknod: sda: Operation not permitted"), "{}", ran.err);
        assert_eq!(ran.err.matches("chown: ").count(), 2, "{}", ran.err);
    }
    // Whoever mounts without a word runs no program of another's in its owner's name, and opens no device.
    let options = sh("findmnt -n -o OPTIONS $D", &mounts[0]).ok().out;
    assert!(options.contains("nosuid") && options.contains("nodev"), "{options}");
    for mount in &mounts {
        loligo("umount {}", &[mount]).ok();
    }
    assert_eq!(server.stop().0, 0);
}

#[test]
fn an_identity_for_a_path_decouples_below_it_and_is_told_why_it_cannot_elsewhere() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let server = served(&place, "");
    let at = tcp_of(&place).replace("0.0.0.0", "127.0.0.1");
    let [mnt, all] = ["mnt", "all"].map(|name| place.path(name));
    [&mnt, &all].into_iter().for_each(|dir| std::fs::create_dir(dir).expect("a directory"));
    let whole = Service::start("mount --server {} {}", &[&data, &all]);
    std::fs::create_dir_all(all.join("a/b/job")).expect("made");
    let file = place.path("id.pem");
    loligo("auth add host --allow rw:/a/b --squash none --data {} --out {}", &[&data, &file]).ok();
    let keep = format!("keep_dir={}", place.path("kept").display());
    let keep = std::path::Path::new(&keep);
    let limited = Service::start(&format!("mount --server {at} --identity {{}} {{}} --set {{}}"), &[&file, &mnt, keep]);
    let job = mnt.join("a/b/job");
    let said = loligo("decouple {} --policy batchfs", &[&job]).ok().err;
    assert!(said.contains("not seen from here"), "policies above the path: {said}");
    std::fs::write(job.join("f"), "made").expect("it is its own");
    assert!(loligo("policy explain {}", &[&job]).ok().out.contains("weak/local"));
    loligo("recouple {}", &[&job]).ok();
    assert_eq!(std::fs::read_to_string(all.join("a/b/job/f")).expect("merged"), "made");
    loligo("run --policy batchfs {} -- touch {}", &[&mnt.join("a/b"), &mnt.join("a/b/g")]).ok();
    assert!(all.join("a/b/g").exists());
    loligo("decouple {} --policy batchfs", &[&mnt.join("a")]).fails(1, &["limited to paths", "name a directory there"]);
    assert_eq!((limited.stop().0, whole.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {}", &[&data]).ok();
}
