#!/usr/bin/env bash
# What ranks bring and what they cost: the shapes of mdtest in own directories with one rank and with two, the CPU of the
# clients, of the ranks' threads and of the rest of the server apart; what an operation costs a rank of eight beside a lone
# one; and what eight ranks cost that have nothing to do. Writes Markdown tables to stdout. It judges nothing: the targets
# stand in docs/performance.md.
# usage: bench/ranks.sh [-n FILES] [-r RUNS] [--ranks "1 2"] [--idle S] [--only LIST] [--dir DIR] [--limit S]
#   -n FILES       of each of four clients (50000)
#   -r RUNS        of each number of ranks, in turn; the tables show medians (3)
#   --ranks "1 2"  numbers of ranks to compare
#   --idle S       seconds for which idle ranks are watched (20)
#   --only LIST    of own,cost,instructions,idle (all)
#   --dir DIR      where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S      seconds until a single measurement is given up (900)
# environment: LOLIGO_BIN and LOLIGO_COST, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="own cost instructions idle"
PHASES=create,stat,rename,unlink
CLIENTS=4
IN_FLIGHT=64
files=50000 runs=3 numbers="1 2" idle_s=20 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} limit=900
usage() { sed -n '6,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -r | --ranks | --idle | --only | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -r) runs=$2 ;;
    --ranks) numbers=$2 ;;
    --idle) idle_s=$2 ;;
    --only) only=${2//,/ } ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
choose part "$only" "$PARTS"

# ---- own: the shapes, directories spread over the ranks before ----

# own_once STORE DATA RANKS: appends lines "STORE RANKS PHASE OPS/S RANK_US SERVER_US CLIENT_US BUSY..." to the results.
own_once() {
    local store=$1 data=$2 ranks=$3 at line
    serve own "$data" --ranks "$ranks"
    # The directories are there before, and each is where it is to be.
    work "$limit" "$binary" bench md --json --data "$data" --name own --clients "$CLIENTS" --files 1 --phases mkdir --keep >/dev/null
    for ((at = 0; at < CLIENTS; at++)); do
        if [ $((at % ranks)) != 0 ]; then
            loligo subtree migrate --data "$data" "/own/own.$(printf %03d "$at")" $((at % ranks)) >/dev/null
        fi
    done
    work "$limit" "$binary" bench md --json --data "$data" --name own --clients "$CLIENTS" --in-flight $((IN_FLIGHT * ranks)) \
        --files "$files" --phases "$PHASES" --keep >"$scratch/lines"
    while read -r line; do
        [ "$(value errors <<<"$line")" = 0 ] || say "  there were errors, the numbers do not count: $line"
        echo "$store $ranks $(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line") $(value ops_per_s <<<"$line") \
            $(value rank_cpu_us_per_op <<<"$line") $(value server_cpu_us_per_op <<<"$line") \
            $(value client_cpu_us_per_op <<<"$line") $(sed 's/.*"rank_busy":\[\([^]]*\)\].*/\1/;s/,/\//g' <<<"$line")"
    done <"$scratch/lines" >>"$scratch/own"
    end own
    rm -rf --one-file-system "$data"
}

# of STORE RANKS PHASE COLUMN: the median.
of() { awk -v o="$1" -v r="$2" -v p="$3" -v c="$4" '$1 == o && $2 == r && $3 == p { print $c }' "$scratch/own" | median; }

part_own() {
    local run ranks store phase first
    for ((run = 1; run <= runs; run++)); do
        for store in disk tmpfs; do
            for ranks in $numbers; do
                say "own directories, run $run of $runs: $store, $ranks ranks"
                if [ "$store" = disk ]; then own_once disk "$scratch/data" "$ranks"; else own_once tmpfs "$tmpfs/data" "$ranks"; fi
            done
        done
    done
    first=${numbers%% *}
    echo "## Own directories"
    echo
    echo "$CLIENTS clients, $IN_FLIGHT requests in flight for each rank, $files files each; medians of $runs runs. Clients and ranks share the"
    echo "$(nproc) cores: the rate is that of all of them together. \"rank\" is the CPU of the ranks' threads; \"rest of server\""
    echo "journals, checkpoints and compaction; busy: how much of a core each rank's thread used in the last run."
    echo
    echo "| data on | phase | ranks | ops/s | to $first rank | rank, us/op | rest of server, us/op | clients, us/op | ops per CPU s of ranks | of clients | busy |"
    echo "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for store in disk tmpfs; do
        for phase in ${PHASES//,/ }; do
            for ranks in $numbers; do
                awk -v store="$store" -v phase="$phase" -v ranks="$ranks" -v rate="$(of "$store" "$ranks" "$phase" 4)" \
                    -v base="$(of "$store" "$first" "$phase" 4)" -v rank="$(of "$store" "$ranks" "$phase" 5)" \
                    -v server="$(of "$store" "$ranks" "$phase" 6)" -v client="$(of "$store" "$ranks" "$phase" 7)" \
                    -v busy="$(awk -v o="$store" -v r="$ranks" -v p="$phase" '$1 == o && $2 == r && $3 == p { b = $8 } END { print b }' "$scratch/own")" \
                    'BEGIN { printf "| %s | %s | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f | %s |\n", store, phase, ranks,
                        rate, rate / base, rank, server - rank, client, 1e6 / rank, 1e6 / client, busy }'
            done
        done
    done
    echo
}

# ---- cost, instructions: the machine alone, without IO ----

find_cost() {
    cost=${LOLIGO_COST:-}
    if [ -z "$cost" ]; then
        (cd "$LOLIGO_TOP" && cargo build --quiet --release --package loligo-mds --example cost >&2)
        cost="$(target_dir)/release/examples/cost"
    fi
    [ -x "$cost" ] || die "$cost is not a program (LOLIGO_COST)"
}

part_cost() {
    say "cost of an operation, by the clock"
    echo "## Cost of an operation in the machine, by the CPU clock"
    echo
    echo "Best of five runs each, in turn; without wire, journal and table."
    echo
    work "$limit" "$cost" --compare 1,8 100000
    echo
}

# instructions_of NAME RANKS POLICY: of each phase, one a line. The words are always as long: where memory lies shows in the numbers.
instructions_of() {
    local file
    work "$limit" valgrind --tool=callgrind --dump-after=cost::Bench::phase --callgrind-out-file="$scratch/cg.$1" \
        "$cost" 20000 "${@:2}" >"$scratch/cg.names" 2>/dev/null
    find "$scratch" -name "cg.$1.[0-9]*" | sort -V | head -n "$(grep -c ' ns$' "$scratch/cg.names")" | while read -r file; do
        sed -n 's/^totals: //p;s/^summary: //p' "$file" | head -n 1
    done
}

part_instructions() {
    local ranks
    if ! have valgrind; then say "valgrind is not installed: instructions are not counted (apt-get install valgrind)" && return; fi
    for ranks in 1 8; do
        say "instructions of an operation, $ranks ranks"
        instructions_of "$ranks" "$ranks" 0 >"$scratch/instructions.$ranks"
    done
    say "instructions of an operation, 8 ranks with a policy in force"
    instructions_of policy 8 1 >"$scratch/instructions.policy"
    echo "## Instructions of a phase in the machine (callgrind; 20,000 files)"
    echo
    echo "With a policy in force: between two of its ticks."
    echo
    echo "| phase | 1 rank | 8 ranks | ratio | 8 ranks, a policy in force | to none |"
    echo "|---|---:|---:|---:|---:|---:|"
    sed 's/ *[0-9]* ns$//' <(grep ' ns$' "$scratch/cg.names") |
        paste -d'|' - "$scratch/instructions.1" "$scratch/instructions.8" "$scratch/instructions.policy" |
        awk -F'|' '{ gsub(/^ +/, "", $1); one += $2; eight += $3; ruled += $4
                printf "| %s | %d | %d | %.3f | %d | %.6f |\n", $1, $2, $3, $3 / $2, $4, $4 / $3 }
            END { printf "| all | %d | %d | %.3f | %d | %.6f |\n", one, eight, eight / one, ruled, ruled / eight }'
    echo
}

# ---- idle: nobody asks for anything ----

# seen PID: "CPU nanoseconds of all threads, CPU of ranks' threads, times that threads slept and were woken".
seen() {
    local task
    for task in /proc/"$1"/task/*; do
        echo "$(cat "$task/comm") $(cut -d' ' -f1 "$task/schedstat") $(sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "$task/status")"
    done | awk '{ all += $2; woken += $3 } $1 ~ /rank/ { rank += $2 } END { printf "%.0f %.0f %.0f\n", all, rank, woken }'
}

part_idle() {
    local ranks before after
    echo "## Idle ranks"
    echo
    echo "A server nobody asks anything, watched for $idle_s s."
    echo
    echo "| ranks | CPU, % of a core | of it ranks' threads | wake-ups/s | of each rank |"
    echo "|---:|---:|---:|---:|---:|"
    for ranks in 1 2 8; do
        say "idle, $ranks ranks"
        serve idle "$scratch/idle" --ranks "$ranks"
        sleep 3
        before=$(seen "${running[idle]}")
        sleep "$idle_s"
        after=$(seen "${running[idle]}")
        echo "$before $after" | awk -v n="$ranks" -v s="$idle_s" '{ printf "| %d | %.2f | %.2f | %.0f | %.0f |\n", n,
            ($4 - $1) / s / 1e7, ($5 - $2) / s / 1e7, ($6 - $3) / s, ($6 - $3) / s / n }'
        end idle
        rm -rf --one-file-system "$scratch/idle"
    done
    echo
}

need_root
make_scratch "$dir"
make_tmpfs
if wanted own || wanted idle; then find_loligo; fi
if wanted cost || wanted instructions; then find_cost; fi
echo "Measured $(date -u +%Y-%m-%d). $(machine 2>/dev/null || true)"
echo "Load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg)."
echo
for part in $PARTS; do
    if wanted "$part"; then "part_$part"; fi
done
