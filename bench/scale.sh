#!/usr/bin/env bash
# Large namespaces: memory for a cached entry, start after a clean stop, recovery after kill -9 under load, listing of a
# huge directory, creates in one while it is split and merged, and more files than the cache holds. Writes a Markdown
# table to stdout. It judges nothing: the targets stand in docs/performance.md. With the default counts it takes an hour
# or more and some 15 GB of disk.
# usage: bench/scale.sh [-n FILES] [-m ENTRIES] [-c FILES] [--cache SIZE] [--load S] [-r RUNS] [--only LIST] [--dir DIR] [--limit S]
#   -n FILES      of the namespace for memory, restart and crash (10000000)
#   -m ENTRIES    of the directory that is listed, or split (1000000)
#   -c FILES      with a small cache (20000000)
#   --cache SIZE  the small cache (512MiB)
#   --load S      seconds of load before each kill -9 (20)
#   -r RUNS       of each restart and crash; the table shows medians (3)
#   --only LIST   of memory,restart,crash,list,split,small (all); restart and crash make the files that they need
#   --dir DIR     where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S     seconds until a single step is given up (7200)
# environment: LOLIGO_BIN, the program to measure instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="memory restart crash list split small"
CLIENTS=4
IN_FLIGHT=64

files=10000000 entries=1000000 small_files=20000000 cache=512MiB load_s=20 runs=3 only="" limit=7200
dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '6,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -m | -c | --cache | --load | -r | --only | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -m) entries=$2 ;;
    -c) small_files=$2 ;;
    --cache) cache=$2 ;;
    --load) load_s=$2 ;;
    -r) runs=$2 ;;
    --only) only=${2//,/ } ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
choose part "$only" "$PARTS"

rows=()
row() {
    say "  $1: $2"
    rows+=("| $1 | $2 |")
}

# memory_kib PID FIELD: VmRSS now, or VmHWM, the most it ever was. Asked only of processes that serve.
memory_kib() { awk -v want="$2:" '$1 == want { print $2 }' "/proc/$1/status"; }
mib() { awk -v kib="$1" 'BEGIN { printf "%.0f MiB", kib / 1024 }'; }
seconds() { awk -v ms="$1" 'BEGIN { printf "%.2f s", ms / 1000 }'; }

# bench DATA ARGS...: natively; the results as JSON in $scratch/bench.json.
bench() {
    local data=$1
    shift
    work "$limit" "$binary" bench md --json --data "$data" --in-flight "$IN_FLIGHT" --keep "$@" >"$scratch/bench.json" ||
        die "bench md $* did not succeed; its words are above"
}

# rates LABEL: a row for each phase that was measured last.
rates() {
    local line
    while read -r line; do
        row "$1: $(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line")" "$(value ops_per_s <<<"$line")/s, \
$(value server_cpu_us_per_op <<<"$line") us CPU of the whole server each, p99 $(value p99_us <<<"$line") us"
    done <"$scratch/bench.json"
}

# ---- memory, restart, crash: one data directory ----

big="" # the data directory, once it is there
# Room for everything, so that nothing is evicted.
big_cache() { echo "cache_bytes=$((files * 1024 + 1073741824))"; }

make_big() {
    local before after cached bytes
    [ -z "$big" ] || return 0
    big="$scratch/big"
    serve big "$big" --set "$(big_cache)"
    before=$(memory_kib "${running[big]}" VmRSS)
    bench "$big" --clients "$CLIENTS" --files $((files / CLIENTS)) --phases create
    after=$(memory_kib "${running[big]}" VmRSS)
    cached=$(status "$big" cache_inodes) bytes=$(status "$big" cache_bytes)
    rates "$files files, all cached"
    wanted memory || return 0
    row "cached entries after it" "$cached"
    row "memory for one, as the server counts it" "$((bytes / (cached + (cached == 0)))) bytes"
    row "memory for one, by the growth of the process" "$(((after - before) * 1024 / (cached + (cached == 0)))) bytes"
    row "most memory of the process" "$(mib "$(memory_kib "${running[big]}" VmHWM)")"
}

part_memory() { make_big; }

# timed_start: starts the server of $big; sets $took, milliseconds until it serves.
timed_start() {
    local before
    drop_caches
    before=$(now_ms)
    serve big "$big" --set "$(big_cache)"
    took=$(($(now_ms) - before))
}

part_restart() {
    local run before stops="" starts=""
    make_big
    for ((run = 1; run <= runs; run++)); do
        before=$(now_ms)
        end big TERM "$limit"
        stops+="$(($(now_ms) - before))"$'\n'
        timed_start
        starts+="$took"$'\n'
    done
    row "clean stop with $files files" "$(seconds "$(median <<<"${stops%$'\n'}")")"
    row "start after it, until it serves" "$(seconds "$(median <<<"${starts%$'\n'}")")"
}

# crash_once CLIENTS: kill -9 under load; CLIENTS is `stay` or `go`. Sets $took and $outstanding.
crash_once() {
    # More files than can be made in that time; what is there is left.
    start load "$binary" bench md --json --data "$big" --clients "$CLIENTS" --in-flight "$IN_FLIGHT" --files 10000000 --phases create --keep
    sleep "$load_s"
    alive load || die "the load ended by itself: $(tail -n 3 "$scratch/load.log")"
    outstanding=$(status "$big" outstanding_bytes)
    [ "$1" = stay ] || end load KILL
    end big KILL
    timed_start
    if [ "$1" = stay ]; then
        alive load || row "REMARK" "the load did not go on after a kill -9: $(tail -n 1 "$scratch/load.log")"
        end load
    fi
}

part_crash() {
    local run clients times pending
    make_big
    for clients in stay go; do
        times="" pending=""
        for ((run = 1; run <= runs; run++)); do
            crash_once "$clients"
            times+="$took"$'\n' pending+="$outstanding"$'\n'
        done
        row "kill -9 under load, clients $clients: until it serves" \
            "$(seconds "$(median <<<"${times%$'\n'}")"), $(mib $(($(median <<<"${pending%$'\n'}" | cut -d. -f1) / 1024))) of journal outstanding"
    done
}

# ---- list: one huge directory, read by a mount that is a process of its own ----

part_list() {
    local data="$scratch/list" mount="$scratch/mnt" server_before mount_before before first all lines
    serve list "$data"
    bench "$data" --clients 1 --files "$entries" --shared --phases create
    # New processes, so that the most memory they ever used is that of the listing.
    end list TERM "$limit"
    drop_caches
    serve list "$data"
    mkdir "$mount"
    mounts+=("$mount")
    start mount "$binary" mount --data "$data" "$mount" --log warn
    until_true 30 mount mounted "$mount"
    server_before=$(memory_kib "${running[list]}" VmRSS) mount_before=$(memory_kib "${running[mount]}" VmRSS)
    before=$(now_ms)
    work "$limit" bash -c 'ls -U "$0"/bench.*/shared | head -n 1 >/dev/null' "$mount"
    first=$(($(now_ms) - before))
    before=$(now_ms)
    work "$limit" bash -c 'ls -l "$0"/bench.*/shared | wc -l' "$mount" >"$scratch/lines"
    all=$(($(now_ms) - before)) lines=$(cat "$scratch/lines")
    # The first line of ls -l is a sum.
    [ "$lines" = $((entries + 1)) ] || row "REMARK" "ls -l printed $lines lines for $entries entries"
    row "directory of $entries entries: the first name" "$(seconds "$first")"
    row "ls -l of it, piped to wc" "$(seconds "$all")"
    row "memory of the server: before, and the most meanwhile" "$(mib "$server_before"), $(mib "$(memory_kib "${running[list]}" VmHWM)")"
    row "memory of the mount: before, and the most meanwhile" "$(mib "$mount_before"), $(mib "$(memory_kib "${running[mount]}" VmHWM)")"
    gone mount "$mount"
    end list TERM "$limit"
    rm -rf --one-file-system "$data"
}

# ---- split: creates in a huge directory while it is split and merged ----

# creates FILES: one program makes one file after the other in the large directory; they are removed again.
creates() {
    work "$limit" "$binary" bench md --json --mount "$scratch/mnt" --name big --shared --clients 1 --files "$1" \
        --phases create,unlink --keep >"$scratch/bench.json" || die "bench md over the mount did not succeed; its words are above"
}
# waits LABEL: a row of what that program waited.
waits() {
    local line
    line=$(head -n 1 "$scratch/bench.json")
    [ "$(value errors <<<"$line")" = 0 ] || row "REMARK" "there were errors, the next row does not count: $line"
    row "$1" "median $(value p50_us <<<"$line"), p99 $(value p99_us <<<"$line"), longest $(value max_us <<<"$line") us"
}

# recuts: how often directories were split and merged so far.
recuts() { echo "$(($(status "$scratch/split" splits) + $(status "$scratch/split" merges)))"; }

part_split() {
    local data="$scratch/split" mount="$scratch/mnt" before making
    # One fragment, until so many more are made.
    serve split "$data" --set "cache_bytes=$((entries * 1024 + 1073741824))" --set "frag_split_entries=$((entries + 10000))"
    # The names that the others below will have are free.
    bench "$data" --name big --clients 1 --files "$entries" --shared --phases create,rename
    mkdir -p "$mount"
    mounts+=("$mount")
    start mount "$binary" mount --data "$data" "$mount" --log warn
    until_true 30 mount mounted "$mount"
    creates 8000
    waits "a file in a directory of $entries entries"
    before=$(recuts)
    creates 8000 &
    making=$!
    while kill -0 "$making" 2>/dev/null; do
        for bits in 3 6 9; do loligo subtree split --data "$data" /big/shared "$bits" >/dev/null; done
        loligo subtree unsplit --data "$data" /big/shared >/dev/null
    done
    wait "$making"
    waits "the same while it is cut into 8, 64 and 512 fragments and merged, over and over"
    row "splits and merges meanwhile" "$(($(recuts) - before))"
    before=$(recuts)
    creates 20000
    waits "the same while it grows over its limit and is split by itself"
    row "splits meanwhile" "$(($(recuts) - before))"
    gone mount "$mount"
    end split TERM "$limit"
    rm -rf --one-file-system "$data"
}

# ---- small: more files than the cache holds ----

part_small() {
    local data="$scratch/small"
    serve small "$data" --set "cache_bytes=$cache"
    bench "$data" --clients "$CLIENTS" --files $((small_files / CLIENTS)) --phases create,stat
    rates "$small_files files, cache of $cache"
    row "memory of the cache at the end" "$(mib $(($(status "$data" cache_bytes) / 1024)))"
    row "most memory of the process" "$(mib "$(memory_kib "${running[small]}" VmHWM)")"
    end small TERM "$limit"
    rm -rf --one-file-system "$data"
}

need_root
if wanted list || wanted split; then fuse_usable || exit 1; fi
find_loligo
make_scratch "$dir"
for part in $PARTS; do
    wanted "$part" || continue
    if [ -n "$big" ] && [[ $part =~ ^(list|split|small)$ ]]; then
        end big TERM "$limit"
        rm -rf --one-file-system "$big"
        big=""
    fi
    say "$part"
    "part_$part"
done

cat <<HEAD
Measured $(date -u +%Y-%m-%d). $(machine).
$CLIENTS clients and $IN_FLIGHT requests in flight, natively, each acknowledged change synced; caches are empty before each start.
A listing, and files in a directory that is split: one program on the mount, one call after the other.

| what | measured |
|---|---|
HEAD
printf '%s\n' "${rows[@]}"
