# Sourced by the scripts here: a scratch directory, processes and mounts that are surely gone at the end, small sums.
# Not a program. What is started is remembered by its process id, and only that is ever stopped.
# shellcheck shell=bash

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/env.sh"
export LC_ALL=C
# A server of these scripts must not be found by, nor find, any other.
unset LOLIGO_SERVER LOLIGO_CONFIG
# What is where is what is measured: nothing else moves it.
export LOLIGO_BALANCER=none

declare -A running=()
mounts=()
scratch=""
working=""

# choose WHAT ONLY ALL: refuses what is not of ALL; then `wanted NAME` says whether NAME is one of ONLY, or ONLY is empty.
choose() {
    local what=$1 name
    chosen_names=" ${2:-$3} "
    for name in $2; do
        case " $3 " in *" $name "*) ;; *) die "unknown $what '$name'; known are: $3" ;; esac
    done
}
wanted() { case "$chosen_names" in *" $1 "*) return 0 ;; *) return 1 ;; esac }

# options ARG...: sets $files, $runs, $seconds, $only, $parts, $modes, $settings, $dir and $limit, which have their defaults, from -n, -r, -t, --only,
# --parts, --modes, --set, --dir and --limit: those that the script's function `usage` names.
# shellcheck disable=SC2034 # the script uses them
options() {
    while [ $# -gt 0 ]; do
        case $1 in -h | --help) usage && exit 0 ;; esac
        case "$(usage 2>&1)" in *"  $1 "*) ;; *) say "unknown option $1" && usage && exit 2 ;; esac
        [ $# -ge 2 ] || { usage && exit 2; }
        case $1 in
        -n) files=$2 ;;
        -r) runs=$2 ;;
        -t) seconds=$2 ;;
        --only) only=${2//,/ } ;;
        --parts) parts=${2//,/ } ;;
        --modes) modes=${2//,/ } ;;
        --set) settings+=(--set "$2") ;;
        --dir) dir=$2 ;;
        --limit) limit=$2 ;;
        *) say "unknown option $1" && usage && exit 2 ;;
        esac
        shift 2
    done
}

need_root() { [ "$(id -u)" = 0 ] || die "${0##*/} mounts file systems and drops caches: run it as root"; }

# find_loligo: sets $binary to LOLIGO_BIN, or builds it.
find_loligo() {
    binary=${LOLIGO_BIN:-$("$LOLIGO_TOP/scripts/build.sh")}
    binary=$(readlink -f "$binary")
    [ -x "$binary" ] || die "$binary is not a program (LOLIGO_BIN)"
}

# make_scratch DIR: sets $scratch, a new directory below DIR, removed at the end with all that runs or is mounted there.
make_scratch() {
    mkdir -p "$1"
    scratch=$(mktemp -d "$(readlink -f "$1")/loligo-bench.XXXXXX")
    chmod 755 "$scratch"
    trap 'clean_up' EXIT
    trap 'exit 130' INT TERM
    case $(disk_type) in tmpfs | ramfs | overlay) say "warning: $1 is on $(disk_type), not on a disk; choose another with --dir" ;; esac
}

disk_type() { df --output=fstype "$scratch" | tail -n 1; }

clean_up() {
    local status=$? at name
    trap '' INT TERM
    trap - EXIT
    set +e
    cd /
    # What works on a mount holds files there.
    if [ -n "$working" ]; then kill -TERM "$working" 2>/dev/null && wait "$working"; fi
    if [ -n "${cluster:-}" ]; then ceph_down; fi
    for ((at = ${#mounts[@]} - 1; at >= 0; at--)); do unmount "${mounts[at]}"; done
    for name in "${!running[@]}"; do end "$name" TERM 20; done
    for ((at = ${#mounts[@]} - 1; at >= 0; at--)); do
        if mounted "${mounts[at]}"; then say "warning: ${mounts[at]} is still mounted; $scratch stays" && exit 1; fi
    done
    rm -rf --one-file-system "$scratch"
    exit "$status"
}

# The number of the kernel's FUSE connection of a mount, from a table that never waits for the file system.
connection() { awk -v at="$1" '$5 == at { split($3, dev, ":"); number = dev[2] } END { print number }' /proc/self/mountinfo; }
mounted() { [ -n "$(connection "$1")" ]; }

# unmount DIR: by force if it does not go otherwise.
unmount() {
    local tries=0 abort
    while mounted "$1" && [ "$tries" -lt 5 ]; do
        timeout -k 5 30 umount "$1" 2>/dev/null && break
        [ "$tries" -gt 0 ] || { sleep 1 && tries=1 && continue; }
        abort="/sys/fs/fuse/connections/$(connection "$1")/abort"
        if [ -w "$abort" ]; then echo 1 >"$abort"; fi
        timeout -k 5 10 umount -l "$1" 2>/dev/null || true
        tries=$((tries + 1))
    done
}

# start NAME CMD...: in the background, its words in $scratch/NAME.log.
start() {
    local name=$1
    shift
    # A session of its own: a Ctrl-C ends this script, which then ends it in order.
    setsid "$@" </dev/null >>"$scratch/$name.log" 2>&1 &
    running[$name]=$!
    # The shell need not tell of its end; `end` does.
    disown "$!"
}

alive() { kill -0 "${running[$1]}" 2>/dev/null; }

# end NAME [SIGNAL] [SECONDS]: and wait until it is gone; SIGKILL after SECONDS.
end() {
    local pid=${running[$1]:-} turns=$((${3:-60} * 20))
    [ -n "$pid" ] || return 0
    # A FUSE server ends with its mount, so all of this may come too late.
    kill "-${2:-TERM}" "$pid" 2>/dev/null || true
    while [ "$turns" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
        sleep 0.05
        turns=$((turns - 1))
    done
    if kill -KILL "$pid" 2>/dev/null; then say "warning: $1 did not end in time and was killed"; fi
    unset "running[$1]"
}

# until_true SECONDS NAME CMD...: waits until CMD succeeds; gives up at once if the process NAME has ended.
until_true() {
    local name=$2 end=$(($(now_ms) + $1 * 1000))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ! alive "$name" || [ "$(now_ms)" -gt "$end" ]; then
            tail -n 20 "$scratch/$name.log" >&2
            die "$name did not come up; its last words are above"
        fi
        sleep 0.02
    done
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# work SECONDS CMD...: a command that must end; unlike in the foreground, it does not keep this script from being ended.
work() {
    local status=0
    timeout -k 10 "$@" </dev/null &
    working=$!
    wait "$working" || status=$?
    working=""
    return "$status"
}

# loligo ARGS...: a short command.
loligo() { timeout -k 10 60 "$binary" "$@" </dev/null; }

# status DATA FIELD: one value of `loligo status --json`.
status() { loligo status --data "$1" --json | sed -n "s/^ *\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" | head -n 1; }
serving() { [ "$(status "$1" health)" = serving ]; }

# serve NAME DATA [ARGS...]: a server without a mount, on a data directory that is made if it is not there.
serve() {
    local name=$1 data=$2
    shift 2
    [ -e "$data" ] || loligo format --data "$data" >/dev/null
    start "$name" "$binary" serve --data "$data" --log warn "$@"
    until_true 120 "$name" serving "$data"
}

# up NAME DATA MOUNT [ARGS...]: store, server and mount in one process.
up() {
    local name=$1 data=$2 at=$3
    shift 3
    mkdir -p "$at"
    mounts+=("$at")
    start "$name" "$binary" up --data "$data" --mount "$at" --log warn "$@"
    until_true 60 "$name" mounted "$at"
    until_true 60 "$name" serving "$data"
}

# mount_of NAME DATA MOUNT: a mount in a process of its own.
mount_of() {
    mkdir -p "$3"
    mounts+=("$3")
    start "$1" "$binary" mount --server "$2" "$3" --log warn
    until_true 60 "$1" mounted "$3"
}

# bindfs_over NAME DIR MOUNT: with several threads, the faster way. BINDFS: the program, if it is not installed.
bindfs_over() {
    mkdir -p "$2" "$3"
    mounts+=("$3")
    start "$1" "${BINDFS:-bindfs}" -f --multithreaded "$2" "$3"
    until_true 20 "$1" mounted "$3"
}

# gone NAME MOUNT: unmounts it and waits for its process.
gone() {
    unmount "$2"
    end "$1"
}

# make_tmpfs: sets $tmpfs, a tmpfs of this script.
make_tmpfs() {
    tmpfs="$scratch/tmpfs"
    mkdir "$tmpfs"
    mount -t tmpfs -o mode=755 loligo-bench "$tmpfs"
    mounts+=("$tmpfs")
}

drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# value NAME: that number of each JSON object on stdin, one a line.
value() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p"; }

# median: of the numbers on stdin, one a line.
median() {
    sort -g | awk '{ v[NR] = $1 }
        END { if (NR) printf "%.15g\n", (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}

# machine: the machine in a line, without names.
machine() {
    local memory cpu
    memory=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
    cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    echo "$(nproc) cores (${cpu:-unknown}), $memory GiB, Linux $(uname -r | cut -d- -f1), disk: $(disk_type)${binary:+; $("$binary" --version)}"
}
