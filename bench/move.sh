#!/usr/bin/env bash
# What moving a large directory from rank to rank costs those who work elsewhere: a directory with many files, all in
# memory, is moved while other clients work in directories of their own at both ranks. Writes Markdown tables to stdout:
# how long it took, how long what moves had to wait, and latencies of the others before and meanwhile, in one run. It
# judges nothing: the targets stand in docs/performance.md.
# usage: bench/move.sh [-n FILES] [-r RUNS] [--only LIST] [--dir DIR] [--limit S]
#   -n FILES     in the directory that moves (1000000)
#   -r RUNS      directories moved (3)
#   --only LIST  of server,machine (all): through sockets with a real table, and the two machines alone, step by step
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S    seconds until a single step is given up (1800)
# environment: LOLIGO_BIN and LOLIGO_MOVING, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="server machine"
# Of each of the others: so many that they work for about as long as a move takes.
OTHER_FILES=400
files=1000000 runs=3 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} limit=1800
usage() { sed -n '6,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
options "$@"
choose part "$only" "$PARTS"

bench() { work "$limit" "$binary" bench md --json --data "$scratch/data" "$@"; }

# others LABEL NAME: two clients in directories of their own, one at each rank, with one request in flight each, so that it
# is the latency that shows. Appends lines "LABEL PHASE OPS/S P50 P99" to the results.
others() {
    local line
    bench --name "$2" --clients 2 --in-flight 2 --files "$OTHER_FILES" --phases create,stat,rename,unlink --keep >"$scratch/lines"
    while read -r line; do
        [ "$(value errors <<<"$line")" = 0 ] || say "  there were errors, the numbers do not count: $line"
        echo "$1 $(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line") $(value ops_per_s <<<"$line") $(value p50_us <<<"$line") $(value p99_us <<<"$line")"
    done <"$scratch/lines" >>"$scratch/others"
}

# CPU of the server's process so far, hundredths of a second.
used() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/${running[move]}/stat"; }

# quiet: waits until checkpoints and compaction of what was made are over.
quiet() {
    local turn before
    for ((turn = 0; turn < 60; turn++)); do
        before=$(used)
        sleep 2
        [ $(($(used) - before)) -gt 10 ] || return 0
    done
    say "  the server does not come to rest; it is measured all the same"
}

# prepare NAME: the others' directories, one at each rank.
prepare() {
    bench --name "$1" --clients 2 --files 1 --phases mkdir --keep >/dev/null
    loligo subtree migrate --data "$scratch/data" "/$1/own.001" 1 >/dev/null
}

median_of() { awk -v l="$1" -v p="$2" -v c="$3" '$1 == l && $2 == p { print $c }' "$scratch/others" | median; }

part_server() {
    local run phase before after begun
    serve move "$scratch/data" --ranks 2 --set "cache_bytes=$((runs * files * 1024 + 1073741824))"
    prepare warm && others warm warm
    for ((run = 1; run <= runs; run++)); do
        say "run $run of $runs: making $files files"
        bench --name "big$run" --clients 1 --in-flight 64 --files "$files" --phases create --keep >/dev/null
        prepare "alone$run" && prepare "meanwhile$run"
        quiet
        say "run $run of $runs: the others alone"
        others alone "alone$run"
        say "run $run of $runs: the directory moves meanwhile"
        timeout -k 10 "$limit" "$binary" subtree migrate --data "$scratch/data" "/big$run/own.000" 1 --json \
            >>"$scratch/moves" 2>>"$scratch/moves.err" </dev/null &
        running[mover]=$!
        begun=$(now_ms)
        others moving "meanwhile$run"
        echo "$(($(now_ms) - begun))" >>"$scratch/lasted"
        wait "${running[mover]}" || say "  the move did not succeed: $(tail -n 1 "$scratch/moves.err")"
        unset "running[mover]"
    done
    echo "## Through the server"
    echo
    echo "A directory of $files files, all in memory, is moved while two clients with one request in flight each work elsewhere,"
    echo "one at each rank, $OTHER_FILES files each. Their latencies are medians of $runs runs."
    echo
    echo "| move | inodes in memory | took, ms | what moves waited, us | the others worked for, ms |"
    echo "|---:|---:|---:|---:|---:|"
    paste -d' ' "$scratch/moves" "$scratch/lasted" | awk '{
        split("inodes took_ms frozen_us", want, " ")
        for (i = 1; i <= 3; i++) { n = want[i]; match($0, "\"" n "\":[0-9]+"); v[i] = substr($0, RSTART + length(n) + 3, RLENGTH - length(n) - 3) }
        printf "| %d | %d | %d | %d | %d |\n", NR, v[1], v[2], v[3], $NF }'
    echo
    echo "| others | alone: ops/s | p50, us | p99, us | meanwhile: ops/s | p50, us | p99, us | p99, times |"
    echo "|---|---:|---:|---:|---:|---:|---:|---:|"
    for phase in create stat rename unlink; do
        before=$(median_of alone "$phase" 5) after=$(median_of moving "$phase" 5)
        echo "| $phase | $(median_of alone "$phase" 3) | $(median_of alone "$phase" 4) | $before | $(median_of moving "$phase" 3) | \
$(median_of moving "$phase" 4) | $after | $(awk -v a="$after" -v b="$before" 'BEGIN { printf "%.2f", a / b }') |"
    done
    echo
    end move TERM "$limit"
    rm -rf --one-file-system "$scratch/data"
}

part_machine() {
    local moving=${LOLIGO_MOVING:-} what
    if [ -z "$moving" ]; then
        (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" &&
            cargo build --quiet --release --package loligo-bench --example moving >&2)
        moving="$(target_dir)/release/examples/moving"
    fi
    echo "## The machines alone"
    for what in "--leases 0" "--leases $files" "--opens $((files < 10000 ? files : 10000))" "--dirs 1"; do
        say "machines alone, $what"
        echo
        echo "\`moving --entries $files $what\`:"
        echo
        # shellcheck disable=SC2086 # two words
        work "$limit" "$moving" --entries "$files" $what | sed 's/^/    /'
    done
    echo
}

need_root
make_scratch "$dir"
wanted server && find_loligo
echo "Measured $(date -u +%Y-%m-%d). $(machine 2>/dev/null || true)"
echo "Load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg)."
echo
for part in $PARTS; do
    if wanted "$part"; then "part_$part"; fi
done
