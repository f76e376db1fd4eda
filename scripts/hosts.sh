#!/usr/bin/env bash
# Hosts on one machine, for tests of several servers and of cut links: network namespaces on a switch of their own, which is another
# namespace. Nothing of the machine's own network is touched, and two runs at once do not meet. Host N has the address 10.77.0.(10+N).
# Needs root, iproute2 and util-linux. Not containers: files, processes and mounts are those of the machine.
# usage: scripts/hosts.sh up DIR N                    makes N hosts and writes into DIR what they are
#        scripts/hosts.sh run DIR HOST COMMAND...     runs a command in one, with the pid of this script
#        scripts/hosts.sh cut DIR A B [--one-way]     from now on nothing of A reaches B, nor of B A; --one-way: only A's is lost
#        scripts/hosts.sh heal DIR [A B]              undoes what was cut between them, or all
#        scripts/hosts.sh slow DIR HOST MS            each packet that it sends comes so much later; 0: as before
#        scripts/hosts.sh down DIR                    removes what up made; processes in hosts must be ended before
#        scripts/hosts.sh test                        tries all of this
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2; }
[ $# -ge 2 ] || [ "${1:-}" = test ] || usage
# Of nobody. The switch gives it to all, and no host takes it.
NOBODY=02:00:00:00:00:00

address() { echo "10.77.0.$((10 + $1))"; }

# names: sets $id and $count to those of $dir, and with them what `host` and $switch say.
names() {
    [ -e "$dir/hosts" ] || die "$dir holds no hosts"
    read -r id count <"$dir/hosts"
    switch="loligo-$id-switch"
}
host() {
    [[ $1 =~ ^[1-9][0-9]*$ ]] && [ "$1" -le "$count" ] || die "there is no host '$1': they are 1 to $count"
    echo "loligo-$id-$1"
}

up() {
    local count=$1 at name id
    [[ $count =~ ^[1-9][0-9]*$ ]] && [ "$count" -le 200 ] || die "'$count' is no number of hosts from 1 to 200"
    [ ! -e "$dir/hosts" ] || die "$dir holds hosts already: scripts/hosts.sh down $dir"
    id=$(od -An -N4 -tx1 /dev/urandom | tr -d ' ')
    echo "$id $count" >"$dir/hosts"
    # Half of a network is of no use.
    trap 'down' EXIT
    names
    ip netns add "$switch"
    ip -n "$switch" link add switch type bridge
    ip -n "$switch" link set switch up
    for at in $(seq "$count"); do
        name=$(host "$at")
        ip netns add "$name"
        ip -n "$name" link set lo up
        ip -n "$name" link add eth0 type veth peer name "host$at" netns "$switch"
        ip -n "$switch" link set "host$at" master switch up
        ip -n "$name" address add "$(address "$at")/24" dev eth0
        # IPv6 would be a way around what is cut.
        ip -n "$name" link set eth0 addrgenmode none up
    done
    trap - EXIT
}

down() {
    local at name left
    names
    for at in $(seq "$count"); do
        name=$(host "$at")
        [ -e "/run/netns/$name" ] || continue
        left=$(ip netns pids "$name" | tr '\n' ' ')
        [ -z "$left" ] || say "warning: processes still run in host $at, without a network now: $left"
        # The namespace lives as long as they do; its link does not.
        ip -n "$name" link delete eth0 2>/dev/null || true
        ip netns delete "$name"
    done
    [ ! -e "/run/netns/$switch" ] || ip netns delete "$switch"
    rm "$dir/hosts"
}

# A packet to a wrong hardware address is lost without a word, also of connections that are there; neither nft nor a filter of tc
# needs to be in the kernel for it. A blackhole route would give the sender an error.
lose() { ip -n "$(host "$1")" neighbour replace "$(address "$2")" lladdr "$NOBODY" dev eth0 nud permanent; }

# heal_one FROM [TO]
heal_one() { ip -n "$(host "$1")" neighbour flush dev eth0 nud permanent ${2:+to "$(address "$2")"} >/dev/null; }

cut() {
    [ "${3:---one-way}" = --one-way ] || usage
    host "$2" >/dev/null
    lose "$1" "$2"
    [ $# = 3 ] || lose "$2" "$1"
}

heal() {
    local at
    if [ $# = 2 ]; then
        heal_one "$1" "$2"
        heal_one "$2" "$1"
    else
        for at in $(seq "$count"); do heal_one "$at"; done
    fi
}

slow() {
    local name
    name=$(host "$1")
    [[ $2 =~ ^[0-9]+$ ]] || die "'$2' is no number of milliseconds"
    if [ "$2" = 0 ]; then
        tc -n "$name" qdisc delete dev eth0 root 2>/dev/null || true
    else
        tc -n "$name" qdisc replace dev eth0 root netem delay "$2ms" 2>/dev/null ||
            die "this machine cannot delay packets: the kernel has no netem (CONFIG_NET_SCH_NETEM, modprobe sch_netem)"
    fi
}

# Only the network is another's: with `ip netns exec`, what one command mounts the next one would not see.
run() {
    local name
    name=$(host "$1")
    shift
    exec nsenter --net="/run/netns/$name" -- "$@"
}

# ---- the test ----

self() { "${BASH_SOURCE[0]}" "$@"; }

# Answers every line over TCP with the same, and writes what comes over UDP to a file.
LISTENER='
import socketserver, sys, threading
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Note(socketserver.BaseRequestHandler):
    def handle(self):
        with open(sys.argv[1], "ab") as file:
            file.write(self.request[0])
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
udp = socketserver.UDPServer(("0.0.0.0", 7000), Note)
threading.Thread(target=udp.serve_forever, daemon=True).start()
Server(("0.0.0.0", 7000), Echo).serve_forever()
'
ASK='exec 3<>"/dev/tcp/$0/7000" && echo hello >&3 && read -r answer <&3 && [ "$answer" = hello ]'
TALK='exec 3<>"/dev/tcp/$0/7000"; while read -r wait line; do echo "$line" >&3; read -r -t "$wait" answer <&3 && echo "$answer" || echo silence; done'

# reach FROM TO: a question and its answer. asked FROM ADDRESS: how asking ended; 124 is silence.
reach() { timeout 1 "${BASH_SOURCE[0]}" run "$dir" "$1" bash -c "$ASK" "$(address "$2")" 2>/dev/null; }
silent() {
    local status=0
    reach "$@" || status=$?
    [ "$status" = 124 ]
}
not() { ! "$@"; }
tell() { self run "$dir" "$1" bash -c 'echo "$1" >"/dev/udp/$0/7000"' "$(address "$2")" "$3"; }
told() { grep -qsx "$2" "$dir/told.$1"; }
# say_on SECONDS LINE: on the connection that is there; the answer that comes within so long, or "silence".
say_on() {
    local answer
    echo "$1 $2" >&"${talk[1]}"
    read -r answer <&"${talk[0]}"
    echo "$answer"
}
patiently() {
    for _ in $(seq 50); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}
own_network() { ip link && ip address && ip route; }
all_reach() {
    local from to
    for from in 1 2 3; do for to in 1 2 3; do reach "$from" "$to" || return 1; done; done
}

failed=0
check() {
    local what=$1
    shift
    if "$@"; then echo "ok: $what"; else echo "FALSE: $what" && failed=1; fi
}

test_slow() {
    local before
    if ! self slow "$dir" 3 300 2>"$dir/slow.err"; then
        check "what cannot be delayed is refused: $(cat "$dir/slow.err")" grep -q netem "$dir/slow.err"
        return 0
    fi
    before=$(date +%s%N)
    check "a slow host is reached" patiently reach 1 3
    check "and it takes its time" [ $(($(date +%s%N) - before)) -ge 300000000 ]
    self slow "$dir" 3 0
}

end_test() {
    local pid
    for pid in "${listeners[@]}"; do kill "$pid" 2>/dev/null || true; done
    # Their namespaces go with them.
    for pid in "${listeners[@]}"; do wait "$pid" 2>/dev/null || true; done
    for dir in "$scratch/one" "$scratch/two"; do if [ -e "$dir/hosts" ]; then self down "$dir"; fi; done
    rm -rf "$scratch"
}

test_all() {
    local before at
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-hosts.XXXXXX")
    listeners=()
    trap 'end_test' EXIT
    dir="$scratch/one"
    before=$(own_network)
    self up "$dir" 3
    self up "$scratch/two" 2
    names
    check "the machine's own network is as before" [ "$(own_network)" = "$before" ]
    for at in 1 2 3; do
        "${BASH_SOURCE[0]}" run "$dir" "$at" python3 -c "$LISTENER" "$dir/told.$at" 2>"$dir/listener.$at" &
        listeners+=($!)
    done
    check "all hosts reach each other" patiently all_reach
    dir="$scratch/two" check "hosts of another run are not reached" not reach 2 1
    coproc talk { exec "${BASH_SOURCE[0]}" run "$dir" 1 bash -c "$TALK" "$(address 2)"; }
    listeners+=("$talk_PID")
    check "a connection works" [ "$(say_on 10 a)" = a ]

    self cut "$dir" 1 2
    check "after a cut there is silence" silent 1 2
    check "in both directions" silent 2 1
    check "on connections that were there, too" [ "$(say_on 1 b)" = silence ]
    check "others reach both" patiently eval "reach 3 1 && reach 3 2 && reach 1 3 && reach 2 3"
    self cut "$dir" 3 1
    self heal "$dir" 1 2
    check "what is healed works again" patiently reach 1 2
    check "what is not, does not" silent 1 3
    check "the connection goes on where it was" [ "$(say_on 20 c)" = b ]
    self heal "$dir"
    check "all is healed" patiently all_reach

    self cut "$dir" 1 2 --one-way
    tell 1 2 lost
    tell 2 1 comes
    check "after a one-way cut the other direction works" patiently told 1 comes
    check "and the one does not" not told 2 lost
    self heal "$dir"
    tell 1 2 again
    check "until it is healed" patiently told 2 again

    test_slow
    check "there is no host 4" not self run "$dir" 4 true 2>/dev/null
    check "nor anything behind the switch" not self run "$dir" 1 bash -c ': </dev/tcp/192.0.2.1/80' 2>/dev/null
    exec {talk[1]}>&-
    end_test 2>"/dev/null"
    trap - EXIT
    check "nothing is left" eval "! ip netns list | grep -q 'loligo-$id-'"
    check "the machine's own network is as before" [ "$(own_network)" = "$before" ]
    return "$failed"
}

what=$1
[ "$(id -u)" = 0 ] || die "namespaces need root"
for program in ip tc nsenter; do have "$program" || die "$program is not installed: apt-get install iproute2 util-linux"; done
if [ "$what" = test ]; then
    test_all
    exit
fi
[ "$what" != up ] || mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
[ "$what" = up ] || names
case "$what $#" in
"up 1") up "$@" ;;
"down 0") down ;;
"cut 2" | "cut 3") cut "$@" ;;
"heal 0" | "heal 2") heal "$@" ;;
"slow 2") slow "$@" ;;
"run 0" | "run 1") usage ;;
"run "*) run "$@" ;;
*) usage ;;
esac
