#!/usr/bin/env bash
# Real programs whose speed is that of synced writes: PostgreSQL (pgbench), SQLite, Redis and dbench on a mount of `loligo up`, through bindfs
# over the same disk, and on the disk itself. The systems run in turn. Writes a Markdown table to stdout. It judges nothing: the targets stand in
# docs/performance.md. A program that is not installed is left out, and named on stderr.
# usage: bench/synced.sh [-t SECONDS] [-r RUNS] [--only NAME,..] [--parts NAME,..] [--set KEY=VALUE] [--dir DIR]
#   -t SECONDS   time of a run of pgbench or dbench (10)
#   -r RUNS      of each part; the table shows medians (3)
#   --only NAME  systems: loligo, bindfs, disk
#   --parts NAME parts, as they stand in the table
#   --set K=V    a setting of the server; may be repeated
#   --dir DIR    where the scratch directory is made: on the disk to be measured, and open to all users (/var/tmp)
# environment: LOLIGO_BIN, a program to use instead of building it; PGBIN, the directory of PostgreSQL's programs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=10 runs=3 only="" parts="" dir=${LOLIGO_BENCH_DIR:-/var/tmp}
settings=()
usage() { sed -n '5,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
options "$@"
all_parts="pgbench-1 pgbench-8 sqlite-delete sqlite-truncate sqlite-persist sqlite-wal redis-16 dbench-4"
choose part "$parts" "$all_parts"
chosen_parts=$chosen_names
choose system "$only" "loligo bindfs disk"

need_root
fuse_usable || exit 1
have bindfs || die "bindfs is not there: apt-get install bindfs"
find_loligo
make_scratch "$dir"
pgbin=${PGBIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)}

# PostgreSQL does not run as root.
as_nobody() { (cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"); }

# installed PART: true if its programs are.
installed() {
    case $1 in
    pgbench-*) [ -x "$pgbin/initdb" ] && [ -x "$pgbin/pgbench" ] ;;
    sqlite-*) have sqlite3 ;;
    redis-*) have redis-server && have redis-benchmark ;;
    dbench-*) have dbench ;;
    esac
}

# Each prints its operations a second. The directory is new and empty.
pgbench_run() {
    local at=$1 clients=$2 socket=$scratch/pg.sock rate
    mkdir -p "$socket" "$at/pg"
    chown 65534:65534 "$socket" "$at/pg"
    as_nobody "$pgbin/initdb" -D "$at/pg" -U bench -A trust >"$scratch/pg.log" 2>&1 || { tail -n 5 "$scratch/pg.log" >&2 && return 1; }
    as_nobody "$pgbin/pg_ctl" -D "$at/pg" -w -l "$scratch/pg.sock/log" -o "-k $socket -c listen_addresses= " start >>"$scratch/pg.log" 2>&1 || return 1
    as_nobody "$pgbin/pgbench" -h "$socket" -U bench -i -s 5 -q postgres >>"$scratch/pg.log" 2>&1
    rate=$(as_nobody "$pgbin/pgbench" -h "$socket" -U bench -c "$clients" -j 1 -T "$seconds" postgres 2>>"$scratch/pg.log" | sed -n 's/^tps = \([0-9.]*\).*/\1/p')
    as_nobody "$pgbin/pg_ctl" -D "$at/pg" -w -m fast stop >>"$scratch/pg.log" 2>&1
    echo "$rate"
}
sqlite_run() {
    local at=$1 mode=$2 count=500 start
    sqlite3 "$at/db" "PRAGMA journal_mode=$mode; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);" >/dev/null
    {
        echo "PRAGMA journal_mode=$mode; PRAGMA synchronous=FULL;"
        for ((n = 1; n <= count; n++)); do echo "INSERT INTO t (text) VALUES ('line $n of a table with some words in it');"; done
    } >"$scratch/sql"
    start=$(now_ms)
    sqlite3 "$at/db" <"$scratch/sql" >/dev/null
    echo $((count * 1000 / ($(now_ms) - start)))
    [ "$(sqlite3 "$at/db" 'SELECT count(*) FROM t')" = "$count" ] || die "SQLite has not all rows on $at"
}
redis_run() {
    local at=$1 clients=$2 socket=$scratch/redis.sock
    start redis redis-server --port 0 --unixsocket "$socket" --dir "$at" --appendonly yes --appendfsync always --save ""
    until_true 20 redis redis-cli -s "$socket" ping
    redis-benchmark -s "$socket" -t set -d 100 -n 20000 -c "$clients" --csv 2>/dev/null | sed -n 's/^"SET","\([0-9.]*\)".*/\1/p'
    end redis
}
# In MB/s, as dbench says it.
dbench_run() { dbench -s -t "$seconds" -D "$1" "$2" 2>&1 | sed -n 's/^Throughput \([0-9.]*\).*/\1/p'; }

declare -A at=()
mkdir "$scratch/disk"
at[disk]=$scratch/disk
if wanted bindfs; then bindfs_over bindfs "$scratch/below" "$scratch/mnt-bindfs" && at[bindfs]=$scratch/mnt-bindfs; fi
if wanted loligo; then up loligo "$scratch/loligo" "$scratch/mnt-loligo" "${settings[@]}" && at[loligo]=$scratch/mnt-loligo; fi
systems=""
for system in disk bindfs loligo; do wanted "$system" && systems+=" $system"; done

: >"$scratch/results.tsv"
done_parts=""
for part in $all_parts; do
    case "$chosen_parts" in *" $part "*) ;; *) continue ;; esac
    if ! installed "$part"; then say "$part is left out: its program is not installed" && continue; fi
    done_parts+=" $part"
    say "$part"
    for ((run = 1; run <= runs; run++)); do
        for system in $systems; do
            own=${at[$system]}/$part.$run
            mkdir "$own"
            rate=$("${part%-*}_run" "$own" "${part##*-}") || die "$part on $system failed"
            [ -n "$rate" ] || die "$part on $system said no rate"
            printf '%s\t%s\t%s\n' "$system" "$part" "$rate" >>"$scratch/results.tsv"
            rm -rf "$own"
        done
    done
done
of() { awk -F '\t' -v s="$1" -v p="$2" '$1 == s && $2 == p { print $3 }' "$scratch/results.tsv" | median; }

echo "Measured $(date -u +%Y-%m-%d). $(machine)."
echo "Transactions, requests or (dbench) MB a second: medians of $runs runs."
printf '\n| part |'
for system in $systems; do printf ' %s |' "$system"; done
printf ' loligo / bindfs | loligo / disk |\n|---|'
for system in $systems; do printf -- '---:|'; done
printf -- '---:|---:|\n'
for part in $done_parts; do
    printf '| %s |' "$part"
    for system in $systems; do printf ' %.0f |' "$(of "$system" "$part")"; done
    for other in bindfs disk; do
        awk -v a="$(of loligo "$part")" -v b="$(of "$other" "$part")" 'BEGIN { if (a && b) printf " %.2f |", a / b; else printf " |" }'
    done
    echo
done
