#!/usr/bin/env bash
# Latency of a client that works in a directory with the policy `posix`, alone, beside a client in another such directory, and beside one in a directory
# with the policy `relaxed`, at the same rank: the relaxed one makes more requests, and asks for fewer syncs of the disk. Through sockets, one request
# in flight each. Writes a Markdown table to stdout; it judges nothing: docs/performance.md tells what it shows.
# usage: bench/neighbour.sh [-n FILES] [-r RUNS] [--dir DIR] [--limit S]
#   -n FILES     that the client makes in each run (5000)
#   -r RUNS      of each situation; medians are shown (5)
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S    seconds until a single step is given up (600)
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=5000 runs=5 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} limit=600
usage() { sed -n '5,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
options "$@"
need_root
find_loligo
make_scratch "$dir"

up neighbour "$scratch/data" "$scratch/mnt"
for name in strict posix relaxed; do mkdir "$scratch/mnt/$name"; done
"$binary" policy set "$scratch/mnt/relaxed" relaxed >/dev/null

bench() { work "$limit" "$binary" bench md --json --quiet --data "$scratch/data" --clients 1 --in-flight 1 --phases create "$@"; }

# others NAME: a client that makes files in that directory until it is ended.
others() {
    start "others" "$binary" bench md --json --quiet --data "$scratch/data" --clients 1 --in-flight 1 --phases create --files 100000000 --name "$1"
    sleep 0.5
}

: >"$scratch/results"
for ((run = 0; run < runs; run++)); do
    for beside in alone posix relaxed; do
        [ "$beside" = alone ] || others "$beside"
        line=$(bench --name strict --files "$files")
        [ "$beside" = alone ] || end others
        [ "$(value errors <<<"$line")" = 0 ] || say "  there were errors, the numbers do not count: $line"
        for number in ops_per_s p50_us p99_us; do echo "$beside $number $(value "$number" <<<"$line")"; done >>"$scratch/results"
    done
done

of() { awk -v b="$1" -v n="$2" '$1 == b && $2 == n { print $3 }' "$scratch/results" | median; }
echo "| beside a client in | creates/s | p50, us | p99, us |"
echo "|---|---:|---:|---:|"
for beside in alone posix relaxed; do
    printf '| %s | %.0f | %.0f | %.0f |\n' "$beside" "$(of $beside ops_per_s)" "$(of $beside p50_us)" "$(of $beside p99_us)"
done
