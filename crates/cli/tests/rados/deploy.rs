//! docs/deploy.md, "Three machines", followed as it is written: servers on three hosts, a client on a fourth, over TLS. Only where there
//! are hosts (`scripts/rados-suite.sh --faults`); a manager of services there is none, so its part, the environment and the command of the
//! unit, is done here.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::faults::Hosts;
use crate::servers::{LOLIGO, PATIENCE, Place, Server};

const DOCUMENT: &str = include_str!("../../../../docs/deploy.md");
/// The hosts of the servers, which have the document's addresses in this order; the client is on the third.
const HOSTS: [&str; 3] = ["2", "4", "5"];

/// The document's part.
fn part() -> &'static str {
    let (_, part) = DOCUMENT.split_once("## Three machines\n").expect("the part");
    part.split("\n## ").next().expect("its text")
}

fn line(begin: &str) -> &'static str {
    part().lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no line begins with {begin:?}"))
}

/// The addresses of the document as those of the hosts.
fn on_hosts(text: &str) -> String {
    let mut text = text.to_string();
    for (number, host) in HOSTS.iter().enumerate() {
        text = text.replace(&format!("10.0.0.{}:", number + 1), &format!("10.77.0.1{host}:"));
    }
    text
}

/// A server as its machine's file says.
fn server(place: &Place, hosts: &Hosts, number: usize) -> Server {
    let (_, file) = part().split_once("cat <<'END'").expect("the file");
    let (_, file) = file.split_once('\n').expect("its first line");
    let (file, _) = file.split_once("\nEND\n").expect("its end");
    let own = file.replace("10.0.0.1", &format!("10.0.0.{}", number + 1));
    let mut program = hosts.command("run", &[HOSTS[number], LOLIGO]);
    let mut args = Vec::new();
    for (key, value) in on_hosts(&own).lines().filter_map(|line| line.split_once('=')) {
        if key == "SERVE" {
            // Another pool, and a cluster without users of its own.
            assert_eq!(value, "--store rados:loligo --ceph-user client.loligo");
        } else {
            program.env(key, value);
        }
    }
    if number == 0 {
        assert!(part().contains("`--ranks 3` at the end of its line SERVE"));
        args.extend(["--ranks", "3"]);
    }
    place.serve_by(program, number, &args)
}

/// Waits until a command on the client's host succeeds; what it said.
fn until_done(hosts: &Hosts, script: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let ran = hosts.command("run", &["3", "bash", "-c", script]).stdin(Stdio::null()).output().expect("bash");
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if ran.status.success() {
            return said;
        }
        assert!(Instant::now() < until, "{script}: {said}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn three_machines_are_set_up_as_the_document_says_and_a_fourth_mounts() {
    let (Some(hosts), Some(place)) = (Hosts::new(), Place::formatted()) else { return };
    let mut servers: Vec<Server> = Vec::new();
    for number in 0..3 {
        servers.push(server(&place, &hosts, number));
        servers[number].until_serves();
    }
    let data = place.data(0).display().to_string();
    let said = place.say(&["status", "--data", &data], 0);
    assert_eq!(said.lines().filter(|line| line.starts_with("shared by")).count(), 3, "{said}");

    // The identity, by the document's command.
    let identity = place.path().join("web.pem").display().to_string();
    let command = line("sudo loligo auth add web").split(" #").next().expect("without the remark");
    let words: Vec<String> = command
        .split_whitespace()
        .skip(2)
        .map(|word| word.replace("/var/lib/loligo/home", &data).replace("web.pem", &identity))
        .collect();
    place.say(&words.iter().map(String::as_str).collect::<Vec<_>>(), 0);

    // The line of fstab, by mount(8), which finds this program in a name space of its own.
    let dir = place.path().display().to_string();
    let fstab = on_hosts(line("10.0.0.1:7400,")).replace("/etc/loligo/web.pem", &identity);
    let fstab = fstab.replace(" /home ", &format!(" {dir}/home ")) + "\n";
    std::fs::write(place.path().join("fstab"), &fstab).expect("a file");
    let script = format!(
        "set -e; mkdir -p {dir}/home {dir}/sbin; cp -a /usr/sbin/. {dir}/sbin/; ln -sf {LOLIGO} {dir}/sbin/mount.loligo; \
         mount --bind {dir}/sbin /usr/sbin; mount -T {dir}/fstab {dir}/home; \
         for i in 1 2 3; do mkdir {dir}/home/d$i; echo $i >{dir}/home/d$i/file; done; sync {dir}/home/d3/file; touch {dir}/mounted; \
         while [ ! -e {dir}/killed ]; do sleep 0.05; done; \
         cat {dir}/home/d1/file {dir}/home/d2/file {dir}/home/d3/file; echo more >{dir}/home/d1/more; cat {dir}/home/d1/more; \
         touch {dir}/went-on; while [ ! -e {dir}/revoked ]; do sleep 0.05; done; \
         until ! cat {dir}/home/d1/more 2>/dev/null; do sleep 0.05; done; umount -l {dir}/home; echo out"
    );
    let client = hosts.command("run", &["3", "unshare", "--mount", "--propagation", "private", "bash", "-c", &script]);
    let mut client = client_of(client);
    until_done(&hosts, &format!("test -e {dir}/mounted"));

    // One machine is lost; not the one that leads, so that the order below has the same address.
    servers.remove(2).kill();
    std::fs::write(place.path().join("killed"), b"").expect("a file");
    until_done(&hosts, &format!("test -e {dir}/went-on"));

    let revoke = part().split('`').find(|code| code.starts_with("loligo auth revoke")).expect("how to take it back");
    let words: Vec<&str> = revoke.split(' ').skip(1).chain(["--data", &data]).collect();
    place.say(&words, 0);
    std::fs::write(place.path().join("revoked"), b"").expect("a file");
    let said = client.wait_with_output_of();
    assert!(said.contains("1\n2\n3\nmore\n") && said.ends_with("out\n"), "{said}");
    servers.into_iter().for_each(Server::end);
}

/// The client's process.
struct Client(Option<std::process::Child>);

fn client_of(mut command: Command) -> Client {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Client(Some(command.spawn().expect("it starts")))
}

impl Client {
    /// Waits for its end; what it said.
    fn wait_with_output_of(&mut self) -> String {
        let child = self.0.take().expect("it was not waited for");
        let ran = child.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        said
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
