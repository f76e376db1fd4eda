#!/usr/bin/env bash
# Installs what is missing and runs every test there is. Every step is timed and bounded; a failed one does not hide
# the others, unless nothing can go on without it. The last lines say what failed.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP" || exit 1

profile=ci
logs=$(mktemp -d "${TMPDIR:-/tmp}/loligo-test.XXXXXX")
# Whatever is skipped, by a script or by a test, adds a line there.
export LOLIGO_SKIPPED="$logs/skipped"
summary=()
failures=()
running=""
began=$SECONDS

finish() {
    trap - EXIT
    trap '' INT TERM
    [ -z "$running" ] || kill -TERM "$running" 2>/dev/null
    for name in "${failures[@]}"; do
        printf '\n===== last lines of the failed step "%s" =====\n' "$name"
        tail -n 60 "$logs/$name.log" 2>/dev/null
    done
    printf '\n===== summary (%d s) =====\n' $((SECONDS - began))
    printf '%s\n' "${summary[@]}"
    local untested=""
    if [ -s "$LOLIGO_SKIPPED" ]; then
        untested=", but not everything could be tested on this machine (see above)"
        printf '\n===== NOT TESTED on this machine =====\n'
        sort "$LOLIGO_SKIPPED" | uniq -c | while read -r times what; do
            if [ "$times" = 1 ]; then echo "- $what"; else echo "- $what ($times times)"; fi
        done
        echo "(LOLIGO_REQUIRE_MOUNT=1 makes it a failure if nothing can be mounted.)"
    fi
    rm -rf "$logs"
    if [ ${#failures[@]} -gt 0 ]; then
        echo "FAILED: ${failures[*]}"
        exit 1
    fi
    [ "${1:-0}" = 0 ] || { echo "STOPPED before the end" && exit "$1"; }
    echo "all steps passed$untested"
    exit 0
}
trap 'finish 130' INT TERM
trap 'finish 1' EXIT

# step NAME MINUTES CMD...: run, time, bound, remember. Its output goes on as it comes, and is kept for the end.
step() {
    local name=$1 minutes=$2 started=$SECONDS status=0
    shift 2
    # CI ends everything after 90 minutes without a word: end before that, with a summary.
    local left=$((85 - (SECONDS - began) / 60))
    if [ -n "${CI:-}" ] && [ "$minutes" -gt "$left" ]; then minutes=$left; fi
    if [ "$minutes" -le 0 ]; then
        failures+=("$name")
        summary+=("$(printf '%-12s %5d s  FAILED: no time was left for it' "$name" 0)")
        return 1
    fi
    printf '\n===== %s (at %d s, limit %d min) =====\n' "$name" $((SECONDS - began)) "$minutes"
    # The process substitution keeps the job's own status; stdin is closed so that nothing can ask.
    timeout -k 20 "$((minutes * 60))" "$@" </dev/null > >(tee "$logs/$name.log") 2>&1 &
    running=$!
    wait "$running" || status=$?
    running=""
    local took=$((SECONDS - started)) word=ok
    case $status in
    0) ;;
    77) word="SKIPPED: see the end" status=0 ;;
    124 | 137) word="FAILED: over its limit of $minutes min" ;;
    *) word="FAILED with status $status" ;;
    esac
    [ "$status" = 0 ] || failures+=("$name")
    summary+=("$(printf '%-12s %5d s  %s' "$name" "$took" "$word")")
    printf '===== %s: %s, %d s =====\n' "$name" "$word" "$took"
    return "$status"
}

# Artifacts of old checkouts pile up in a shared target directory; past this it is cheaper to begin anew.
bound_target_dir() {
    local dir kib
    dir=$(target_dir)
    kib=$(du -sk "$dir" 2>/dev/null | cut -f1)
    [ "${kib:-0}" -le $((20 * 1024 * 1024)) ] || { say "$dir has grown over 20 GiB; removing it" && rm -rf "$dir"; }
}

step setup 12 bash scripts/setup.sh test || finish 1
bound_target_dir
step rocksdb 40 bash scripts/rocksdb-cache.sh || finish 1
exports=$(scripts/rocksdb-cache.sh) || finish 1
eval "$exports"

# Suites that start the real program find it here.
LOLIGO_BIN="$(target_dir)/$profile/loligo"
export LOLIGO_BIN

step fetch 10 bash -c '. scripts/env.sh; retry 3 cargo fetch --target "$(rustc -vV | sed -n "s/^host: //p")"' || finish 1
step build 30 cargo build --keep-going --profile $profile --workspace --bins --tests || finish 1
step check 15 bash scripts/check.sh
# Most of it waits, for servers, leases and disks: twice as many tests at a time as there are processors.
step unit 25 env RUST_TEST_THREADS=$((2 * $(nproc))) cargo test --profile $profile --workspace --no-fail-fast --lib --bins --tests
# Examples in the documentation of crates.
step doc 5 cargo test --profile $profile --workspace --doc
step examples 10 bash scripts/examples.sh
step mount 25 bash scripts/mount-suites.sh "$LOLIGO_BIN"
# In directories that are decoupled, and merged after each.
step decoupled 10 env LOLIGO_DECOUPLED=batchfs bash scripts/mount-suites.sh "$LOLIGO_BIN" pjdfstest fsx restart fsck
# The same with four ranks, between which directories move all the time, and which are drained and added.
step ranks 20 env STRESSOR_RUN=1 LOLIGO_RANKS=4 LOLIGO_THRASH_PAUSE=0.2 LOLIGO_THRASH_MEMBERS=1 bash scripts/mount-suites.sh "$LOLIGO_BIN"
# And with directories that are spread over ranks as they are made, in each way; and model, crash loop and two mounts on such a tree
# (of the whole workspace: of one package alone all would be built anew, with other features). CONTRIBUTING.md has the command
# for all programs on such a tree.
programs="git_project rsync_tree copy_and_remove renames hard_links concurrent_appends stressors"
# One placement a commit, by its hash; LOLIGO_ALL_PLACEMENTS=1 takes all of them.
placements=(giga replicated table)
commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null || true)
if [ -z "${LOLIGO_ALL_PLACEMENTS:-}" ] && [ -n "$commit" ]; then
    placements=("${placements[$((16#${commit:0:7} % ${#placements[@]}))]}")
    say "this commit's placement is ${placements[0]}; LOLIGO_ALL_PLACEMENTS=1 tests all of them"
fi
for placement in "${placements[@]}"; do
    step "$placement" 20 env LOLIGO_TOOLS="$programs" STRESSOR_RUN=1 LOLIGO_PLACEMENT=$placement LOLIGO_RANKS=4 LOLIGO_THRASH_PAUSE=0.2 LOLIGO_THRASH_MEMBERS=1 bash scripts/mount-suites.sh "$LOLIGO_BIN"
    step "$placement-e2e" 10 env LOLIGO_PLACEMENT=$placement LOLIGO_RANKS=4 cargo test --profile $profile --workspace --no-fail-fast --test crash --test model --test two_mounts --test shared_files
done
step rados 10 bash scripts/rados-suite.sh
step systemd 5 env LOLIGO="$LOLIGO_BIN" bash scripts/systemd-test.sh
step fuzz 10 bash scripts/fuzz.sh
finish 0
