#!/usr/bin/env bash
# How long the clients of a rank stand still when another server is to run it, of those that share a store: by order (`loligo rank
# handover`), and when its server is killed. A mount caches many files by then, which it holds leases on. On a Ceph cluster in memory that is
# started for it. Writes a Markdown table to stdout: the longest time that a single call took, of calls that are made one after the other
# while the rank goes over: `stat` of files that are cached, `stat` of files that are not, and a file that is made.
# usage: bench/handover.sh [-n LEASES] [-r RUNS] [--only LIST] [--dir DIR] [--limit S]
#   -n LEASES    files that the mount caches (100000)
#   -r RUNS      of each (3)
#   --only LIST  of handover,kill (all)
#   --dir DIR    where the scratch directory is made (the cache directory)
#   --limit S    seconds until a single step is given up (600)
# environment: LOLIGO_BIN, the program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

WAYS="handover kill"
files=100000 runs=3 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} limit=600
usage() { sed -n '6,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
options "$@"
choose way "$only" "$WAYS"
need_root
find_loligo
have python3 && have ceph-osd || die "python3 and Ceph's daemons are needed: install them"
make_scratch "$dir"

# Makes files and looks at them; says `ready`, and makes calls until its standard input ends. Then it tells the longest of each kind, milliseconds.
cat >"$scratch/program" <<'PROGRAM'
import os, select, sys, time
top, files = sys.argv[1], int(sys.argv[2])
dirs = max(1, files // 1000)
name = lambda n: '%s/d%d/f%d' % (top, n % dirs, n)
if not os.path.exists(top + '/d0'):
    for n in range(dirs): os.mkdir('%s/d%d' % (top, n))
    for n in range(files): os.mknod(name(n), 0o644)
    for n in range(1000): os.mknod('%s/cold%d' % (top, n), 0o644)
for n in range(files): os.stat(name(n))
print('ready', flush=True)
longest, n = {'cached': 0, 'uncached': 0, 'make': 0}, 0
def took(kind, call):
    begun = time.monotonic(); call(); longest[kind] = max(longest[kind], time.monotonic() - begun)
while not select.select([sys.stdin], [], [], 0)[0]:
    n += 1
    for k in range(20): took('cached', lambda: os.stat(name((n * 7919 + k * 104729) % files)))
    took('uncached', lambda: os.path.exists('%s/none%d' % (top, n)))
    took('make', lambda: os.mknod('%s/d%d/new-%d-%d' % (top, n % dirs, os.getpid(), n), 0o644))
print(' '.join('%.0f' % (longest[kind] * 1000) for kind in ('cached', 'uncached', 'make')), flush=True)
PROGRAM

cluster="$scratch/ceph"
mkdir "$cluster"
conf=$("$LOLIGO_TOP/scripts/ceph.sh" up "$cluster")
ceph_down() { "$LOLIGO_TOP/scripts/ceph.sh" down "$cluster" >/dev/null; }
store=(--store rados:loligo --conf "$conf")
loligo format "${store[@]}" --data "$scratch/a" >/dev/null

# server NAME: one of the two that share the store.
server() {
    start "$1" "$binary" serve "${store[@]}" --data "$scratch/$1" --set "server_name=$1" --set admin=off --log "${LOLIGO_LOG:-warn}" "${@:2}"
    until_true 120 "$1" serving "$scratch/$1"
}
# has NAME: whether this server runs rank 0.
has() { loligo rank list --data "$scratch/$1" 2>/dev/null | grep -q "^ *0 .* $1\( \|\$\)"; }

results="$scratch/results"
: >"$results"
server a --ranks 1
server b --standby
mkdir "$scratch/mnt"
mounts+=("$scratch/mnt")
start mount "$binary" mount --server "$scratch/a/loligo.sock,$scratch/b/loligo.sock" "$scratch/mnt" --log warn
until_true 60 mount mounted "$scratch/mnt"
from=a to=b
for way in $WAYS; do
    wanted "$way" || continue
    for _ in $(seq "$runs"); do
        coproc work_on { exec python3 "$scratch/program" "$scratch/mnt" "$files"; }
        working=$work_on_PID
        read -r -t "$limit" said <&"${work_on[0]}" && [ "$said" = ready ] || die "the files were not made within $limit s"
        begun=$(now_ms)
        if [ "$way" = handover ]; then
            loligo rank handover 0 --to "$to" --data "$scratch/$to" >&2
        else
            end "$from" KILL 20
        fi
        order=$(($(now_ms) - begun))
        # What was asked for by then has been answered before the program hears that it is over.
        sleep 3
        echo >&"${work_on[1]}"
        read -r -t "$limit" said <&"${work_on[0]}" || die "the program does not come back within $limit s"
        wait "$working" || true
        working=""
        echo "$way $order $said" | tee -a "$results" >&2
        [ "$way" = handover ] || server "$from" --standby
        read -r from to <<<"$to $from"
    done
done

echo "Longest time of a call while a rank goes to another server, $files files cached; median of $runs ($(machine))"
echo
echo "| how | the order took, ms | \`stat\`, cached, ms | \`stat\`, not cached, ms | a file is made, ms |"
echo "|---|---|---|---|---|"
for way in $WAYS; do
    wanted "$way" || continue
    row="| $way |"
    for column in 2 3 4 5; do row+=" $(awk -v way="$way" -v at="$column" '$1 == way { print $at }' "$results" | median) |"; done
    echo "$row"
done
