#!/usr/bin/env bash
# Starts a file system in a temporary directory, runs the suites on its mount, checks it, stops it. Whatever happens,
# nothing of it is left: no mount, no process, no file.
# usage: scripts/mount-suites.sh LOLIGO [suite...]    suites: pjdfstest fsx tools restart fsck (default: all)
# With LOLIGO_RANKS=N in the environment the file system has N ranks, and directories move between them all the time; with
# LOLIGO_THRASH_MEMBERS, too, ranks are drained and added. With LOLIGO_CEPH_CONF=FILE it is on that Ceph cluster, in the pool loligo.
# With LOLIGO_PLACEMENT=HOW directories are placed so from the root on (docs/placement.md).
# With LOLIGO_SECOND_MOUNT set a second mount of it compares and removes what real programs (the suite tools) made on the first one.
# With LOLIGO_TOOLS="CHECK..." the suite tools has these checks of scripts/suite-tools.sh only.
# With LOLIGO_DECOUPLED=POLICY each suite runs in a directory that is decoupled with it (docs/subtree-policies.md), and given back after it.
# exit status: 77 if this machine cannot mount (1 if LOLIGO_REQUIRE_MOUNT is set)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
. "$LOLIGO_TOP/scripts/tools.sh"

binary=$(readlink -f "${1:?usage: scripts/mount-suites.sh LOLIGO [suite...]}")
shift
[ -x "$binary" ] || die "$binary is not a program"
[ $# -gt 0 ] || set -- pjdfstest fsx tools restart fsck
# Where this cannot be, that is said and not held against the machine, unless LOLIGO_REQUIRE_MOUNT is set.
cannot_mount() {
    [ -z "${LOLIGO_REQUIRE_MOUNT:-}" ] || die "the suites on a mount cannot run, and LOLIGO_REQUIRE_MOUNT is set: $1"
    skipped "suites on a mount" "$1"
    exit 77
}
[ "$(id -u)" = 0 ] || cannot_mount "they switch users, and so need root"
fuse_usable || cannot_mount "$fuse_reason"
# Built or fetched before the mount exists, so that a slow network does not count against a suite.
tool pjdfstest 0.2.2 >/dev/null
tool fsx 0.3.2 >/dev/null

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-mount.XXXXXX")
data="$scratch/data" mount="$scratch/mnt" ranks=${LOLIGO_RANKS:-1}
second="$scratch/second"
mkdir "$mount" "$second"
chmod 755 "$scratch"
store=()
[ -z "${LOLIGO_CEPH_CONF:-}" ] || store=(--store "rados:loligo/suites.$$" --conf "$LOLIGO_CEPH_CONF")
# A server of this script must not be found by, nor find, any other.
unset LOLIGO_SERVER
# What moves between ranks is the thrasher's to say.
export LOLIGO_BALANCER=none

# The number of the kernel's FUSE connection, from a table that never waits for the file system.
connection() { awk -v at="$mount" '$5 == at { split($3, dev, ":"); print dev[2] }' /proc/self/mountinfo | tail -n 1; }
mounted() { [ -n "$(connection)" ]; }

start() {
    # Ranks may come and go: then the next start has as many as there were.
    local asked="--ranks $ranks"
    if [ -n "${LOLIGO_THRASH_MEMBERS:-}" ] && [ -d "$data" ]; then asked=""; fi
    timeout -k 5 60 "$binary" up --data "$data" "${store[@]}" --mount "$mount" --suid --dev $asked --set keep_dir="$scratch/kept" --daemon </dev/null >"$scratch/up.log" 2>&1 || {
        cat "$scratch/up.log"
        return 1
    }
    mounted || { cat "$scratch/up.log" && say "up succeeded, but nothing is mounted at $mount" && return 1; }
    if [ -n "${LOLIGO_PLACEMENT:-}" ]; then
        timeout -k 5 60 "$binary" --quiet subtree place "$mount" "$LOLIGO_PLACEMENT" || return 1
    fi
    if [ -n "${LOLIGO_SECOND_MOUNT:-}" ]; then
        timeout -k 5 60 "$binary" mount --data "$data" "$second" --daemon </dev/null >"$scratch/second.log" 2>&1 || {
            cat "$scratch/second.log"
            return 1
        }
        export SUITE_OTHER="$second/tools"
    fi
    if [ "$ranks" -gt 1 ]; then
        "$LOLIGO_TOP/scripts/thrash.sh" "$binary" "$data" "$mount" "$ranks" "${LOLIGO_THRASH_PAUSE:-1}" "$scratch/calm" &
        thrasher=$!
    fi
}

# Ends the moves, if there are some.
calm() {
    [ -n "${thrasher:-}" ] || return 0
    # Not a signal: a child that has only just been started would take it with this shell's own traps.
    : >"$scratch/calm"
    wait "$thrasher" 2>/dev/null
    rm -f "$scratch/calm"
    thrasher=
}

# Ends the second mount, if there is one.
end_second() {
    mountpoint -q "$second" || return 0
    timeout -k 5 60 "$binary" umount "$second" </dev/null >>"$scratch/second.log" 2>&1 || { cat "$scratch/second.log" && return 1; }
}

stop() {
    calm
    end_second || return 1
    timeout -k 5 60 "$binary" down --data "$data" </dev/null >"$scratch/down.log" 2>&1 || { cat "$scratch/down.log" && return 1; }
    ! mounted || { say "down succeeded, but $mount is still mounted" && return 1; }
}

cleanup() {
    trap - EXIT INT TERM
    calm
    # A suite that still runs holds files on the mount.
    [ -z "${suite_pid:-}" ] || kill -TERM "$suite_pid" 2>/dev/null
    cd /
    end_second || timeout 10 umount -l "$second"
    timeout -k 5 30 "$binary" down --data "$data" </dev/null >/dev/null 2>&1
    local tries=0 number
    while mounted && [ "$tries" -lt 5 ]; do
        number=$(connection)
        if [ -w "/sys/fs/fuse/connections/$number/abort" ]; then echo 1 >"/sys/fs/fuse/connections/$number/abort"; fi
        timeout 10 umount -l "$mount" 2>/dev/null
        tries=$((tries + 1))
    done
    # Only what was started on this very directory.
    timeout 10 pkill -KILL -f -- "--data $data( |\$)" 2>/dev/null
    mounted || rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'cleanup; exit 130' INT TERM

# The directory that the suite which is about to run has.
suite_dir=
decouple() {
    [ -n "${LOLIGO_DECOUPLED:-}" ] && [ -n "$suite_dir" ] || return 0
    if [ "$ranks" -gt 1 ]; then
        # It stays where it is now, so not at the first rank, and others are there to move. It may be there already, or that rank drained.
        mkdir -p "$mount"/others/{a,b,c}/{d,e,f}
        timeout 20 "$binary" --quiet subtree migrate "${suite_dir#"$mount"}" $((ranks - 1)) --data "$data" >/dev/null 2>&1
    fi
    "$binary" decouple "$suite_dir" --policy "$LOLIGO_DECOUPLED"
}
recouple() {
    [ -n "${LOLIGO_DECOUPLED:-}" ] && [ -n "$suite_dir" ] || return 0
    timeout -k 5 120 "$binary" recouple "$suite_dir"
}

results=()
failed=0
# run NAME MINUTES CMD...
run() {
    local name=$1 minutes=$2 started=$SECONDS status=0 word=ok
    shift 2
    echo "--- $name on the mount"
    decouple || { failed=$((failed + 1)) && results+=("$(printf '%-12s          FAILED: not decoupled' "$name")") && return 0; }
    timeout -k 15 $((minutes * 60)) "$@" </dev/null &
    suite_pid=$!
    wait "$suite_pid" || status=$?
    suite_pid=""
    recouple || { [ "$status" = 0 ] && status=1; }
    case $status in
    0) ;;
    124 | 137) word="FAILED: over $minutes min" ;;
    *) word="FAILED with status $status" ;;
    esac
    [ "$status" = 0 ] || failed=$((failed + 1))
    results+=("$(printf '%-12s %5d s  %s' "$name" $((SECONDS - started)) "$word")")
    # Later suites on a dead mount would only say so again.
    mounted && timeout 20 stat "$mount" >/dev/null 2>&1 && return 0
    say "the mount is gone or does not answer after $name; starting it again"
    failed=$((failed + 1))
    results+=("$(printf '%-12s          %s' "$name" "FAILED: the mount did not survive")")
    force_restart
}

force_restart() {
    local number
    number=$(connection)
    [ -z "$number" ] || { echo 1 >"/sys/fs/fuse/connections/$number/abort"; } 2>/dev/null
    calm
    timeout -k 5 30 "$binary" down --data "$data" </dev/null >/dev/null 2>&1
    mounted && timeout 10 umount -l "$mount"
    timeout 10 pkill -KILL -f -- "--data $data( |\$)"
    start || exit 1
}

# What was written before a clean stop is there, byte by byte, after the next start.
restart_suite() {
    local tree
    tree=$(compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/src/*/librocksdb-sys-$(locked_version librocksdb-sys)" | sed -n 1p)
    [ -n "$tree" ] || { say "the source of librocksdb-sys is not in cargo's registry; using this checkout" && tree="$LOLIGO_TOP/crates"; }
    cp -a "$tree" "$mount/kept" || return 1
    ln "$mount/kept/Cargo.toml" "$mount/kept-link" || return 1
    stop && start || return 1
    diff -r "$tree" "$mount/kept" || return 1
    [ "$(stat -c %h "$mount/kept/Cargo.toml")" = 2 ] || { say "a hard link was lost" && return 1; }
    rm -rf "$mount/kept" "$mount/kept-link"
}

# Runs in this shell: it stops and starts what the other functions here watch.
run_restart() {
    local started=$SECONDS word=ok
    echo "--- restart"
    restart_suite || { word=FAILED && failed=$((failed + 1)); }
    results+=("$(printf '%-12s %5d s  %s' restart $((SECONDS - started)) "$word")")
    mounted || start || exit 1
}

# The check wants a file system that is not served; afterwards it is served again.
run_fsck() {
    local started=$SECONDS word=ok
    echo "--- fsck"
    { stop && timeout -k 5 240 "$binary" fsck --data "$data" --data-checksums </dev/null; } || { word=FAILED && failed=$((failed + 1)); }
    results+=("$(printf '%-12s %5d s  %s' fsck $((SECONDS - started)) "$word")")
    mounted || start || exit 1
}

start || die "cannot start: $binary up --data $data --mount $mount --daemon"
for suite in "$@"; do
    case $suite in
    pjdfstest)
        suite_dir="$mount/pjdfstest"
        mkdir -p "$suite_dir" && chmod 755 "$suite_dir"
        run pjdfstest 6 env LOLIGO_BIN="$binary" "$LOLIGO_TOP/scripts/pjdfstest.sh" "$mount/pjdfstest"
        ;;
    fsx)
        # In a directory of its own, which can move.
        suite_dir="$mount/fsx"
        mkdir -p "$suite_dir"
        for seed in 1 2 3; do run "fsx-$seed" 4 "$LOLIGO_TOP/scripts/fsx.sh" "$mount/fsx" "${FSX_OPS:-5000}" "$seed"; done
        ;;
    tools)
        suite_dir="$mount/tools"
        mkdir -p "$suite_dir" && chmod 755 "$suite_dir"
        # Attributes of directories that are spread over ranks are not cached, and what moves is waited for: some stressors take
        # longer than with a lone rank.
        if [ "$ranks" -gt 1 ]; then export CHECK_SECONDS="${CHECK_SECONDS:-1800}" STRESSOR_SECONDS="${STRESSOR_SECONDS:-240}"; fi
        minutes=$((ranks > 1 ? 60 : 15))
        read -ra checks <<<"${LOLIGO_TOOLS:-}"
        run tools "$minutes" "$LOLIGO_TOP/scripts/suite-tools.sh" "$mount/tools" "${checks[@]}"
        ;;
    restart) run_restart ;;
    fsck) run_fsck ;;
    *) die "unknown suite '$suite'" ;;
    esac
done
if ! stop; then
    failed=$((failed + 1))
    results+=("down                  FAILED")
fi
echo "--- suites on the mount"
printf '%s\n' "${results[@]}"
[ "$failed" = 0 ]
