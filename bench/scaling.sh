#!/usr/bin/env bash
# How many ranks are how much faster than one: measures on this machine what the simulation takes as given, then runs it in
# virtual time for 1 to 128 ranks. Writes a Markdown table to stdout, and the costs, a CSV and a picture into docs/scaling.
# It judges nothing: the targets stand in docs/performance.md.
# usage: bench/scaling.sh [-n FILES] [-r RUNS] [--ranks LIST] [--ms N] [--simulate-only] [--out DIR] [--dir DIR] [--limit S]
#   -n FILES         of each of four clients for the costs (50000)
#   -r RUNS          of each measurement; the median counts (3)
#   --ranks LIST     numbers of ranks (1,2,4,8,16,32,64,128)
#   --ms N           milliseconds of virtual time that count (60)
#   --simulate-only  with the costs that are in the directory already
#   --out DIR        where the results are written (docs/scaling)
#   --dir DIR        where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S        seconds until a single step is given up (1800)
# environment: LOLIGO_BIN, LOLIGO_LIMITS, LOLIGO_MOVING and LOLIGO_SCALING, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=50000 runs=3 ranks=1,2,4,8,16,32,64,128 ms=60 measure=yes out="$LOLIGO_TOP/docs/scaling" limit=1800
dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '5,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --simulate-only) measure=no && shift && continue ;;
    -n | -r | --ranks | --ms | --out | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -r) runs=$2 ;;
    --ranks) ranks=$2 ;;
    --ms) ms=$2 ;;
    --out) out=$2 ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done

# example PACKAGE NAME PROGRAM: PROGRAM, or the example, built.
example() {
    if [ -n "$3" ]; then echo "$3" && return; fi
    (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" && cargo build --quiet --release --package "$1" --example "$2" >&2)
    echo "$(target_dir)/release/examples/$2"
}

# The rank's thread, by phase: lines "PHASE US".
rank_costs() {
    local run line
    for ((run = 1; run <= runs; run++)); do
        say "costs of requests, run $run of $runs"
        serve costs "$scratch/data"
        work "$limit" "$binary" bench md --json --data "$scratch/data" --clients 4 --in-flight 64 --files "$files" \
            --phases create,stat,rename,unlink >"$scratch/lines"
        while read -r line; do
            echo "$(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line") $(value rank_cpu_us_per_op <<<"$line")"
        done <"$scratch/lines" >>"$scratch/costs"
        end costs
        rm -rf --one-file-system "$scratch/data"
    done
}
phase() { awk -v p="$1" '$1 == p { print $2 }' "$scratch/costs" | median; }

# Nanoseconds on a core of all ranks' threads.
rank_ns() {
    local task
    for task in /proc/"${running[idle]}"/task/*; do
        if [[ $(cat "$task/comm") = loligo-rank* ]]; then cut -d' ' -f1 "$task/schedstat"; fi
    done | awk '{ all += $1 } END { printf "%.0f\n", all }'
}

# Microseconds of a tick, of a server with eight ranks that nobody asks anything.
tick_us() {
    local before after
    say "cost of a tick"
    serve idle "$scratch/idle" --ranks 8
    sleep 3
    before=$(rank_ns)
    sleep 20
    after=$(rank_ns)
    end idle
    awk -v ns=$((after - before)) 'BEGIN { printf "%.1f\n", ns / 1e3 / 20 / 8 / 50 }'
}

costs() {
    local limits moving rpc sync step tick
    limits=$(example loligo-bench limits "${LOLIGO_LIMITS:-}")
    moving=$(example loligo-bench moving "${LOLIGO_MOVING:-}")
    rank_costs
    tick=$(tick_us)
    say "syncs and messages"
    sync=$(work "$limit" "$limits" sync "$scratch" --json | grep '"what"' | head -n 1 | value p50_us)
    rpc=$(work "$limit" "$limits" rpc --json | grep '"what"' | head -n 1 | value p50_us)
    step=$(work "$limit" "$moving" --entries 200000 | awk '$1 == "again" { printf "%.0f\n", $3 * 1000 / $2; exit }')
    cat <<FILE
# What the scaling simulation takes as given, in microseconds. Made by bench/scaling.sh; see docs/performance.md.
measured = $(date -u +%Y-%m-%d), $(machine | sed 's/; loligo.*//')
# CPU of the rank's thread for a request, everything else that the thread does included: bench md, 64 in flight, on disk.
create = $(phase create)
stat = $(phase stat)
rename = $(phase rename)
unlink = $(phase unlink)
# Of a message between ranks: taken to be that of a stat, which is a message in and a small answer, too.
peer = $(phase stat)
# Of a tick: eight idle ranks.
tick = $tick
# A step of a migration's look at memory: the example moving.
step = $step
# The median of a sync of an append, and half a ping-pong over a socket: the example limits.
sync = $sync
net = $(awk -v us="$rpc" 'BEGIN { printf "%.1f\n", us / 2 }')
# A read of the table by a thread of its own: not measured, two messages' time.
load = $rpc
FILE
}

mkdir -p "$out"
scaling=$(example loligo-lab scaling "${LOLIGO_SCALING:-}")
if [ "$measure" = yes ]; then
    need_root
    make_scratch "$dir"
    find_loligo
    costs >"$scratch/costs.txt"
    cp "$scratch/costs.txt" "$out/costs.txt"
fi
say "simulating $ranks ranks"
"$scaling" --costs "$out/costs.txt" --ranks "$ranks" --ms "$ms" --csv "$out/scaling.csv" --svg "$out/scaling.svg"
