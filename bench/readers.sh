#!/usr/bin/env bash
# Measures the cost of readers for the owner of a decoupled directory: the same job with interfere = "block" and "read", in turns in one run,
# with a merge each second; then with "read" while another mount lists and reads the directory all the time. The job makes small files, and
# overwrites some larger ones again and again. It judges nothing; docs/performance.md has the results.
# usage: bench/readers.sh [-n FILES] [-m LARGE] [-r RUNS] [--dir DIR]
#   -n FILES     of 100 bytes, that the job makes (20000)
#   -m LARGE     so often it writes one of four files of 1 MiB over (100)
#   -r RUNS      of each; the median is shown (3)
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=20000 large=100 runs=3 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '5,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -m | -r | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -m) large=$2 ;;
    -r) runs=$2 ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done
command -v perl >/dev/null || die "the job is a perl script: install perl"

find_loligo
make_scratch "$dir"
mount=$scratch/mnt other=$scratch/other
up job "$scratch/data" "$mount" --set keep_dir="$scratch/kept"
mount_of other "$scratch/data" "$other"

job='my ($dir, $n, $large) = @ARGV; my ($small, $big) = ("x" x 100, "y" x (1 << 20)); my $every = $large ? int($n / $large) || 1 : $n + 1;
sub put { my ($mode, $name, $data) = @_; open my $f, $mode, "$dir/$name" or die "$name: $!"; print $f $data; close $f or die "$name: $!"; }
for my $i (1 .. $n) { put(">", "f$i", $small); put("+<", "big" . ($i / $every) % 4, $big) if $i % $every == 0; }'
now() { date +%s%N; }

# one NAME INTERFERE READERS: a job in a directory of its own.
one() {
    at=$mount/$1.$run
    mkdir "$at"
    for n in 0 1 2 3; do head -c 1048576 /dev/zero >"$at/big$n"; done
    printf 'preset = "batchfs"\nallocated_inodes = 1000000\nsync_interval = "1s"\ninterfere = "%s"\n' "$2" >"$scratch/policy"
    "$binary" decouple "$at" --policy "$scratch/policy" >>"$scratch/said"
    if [ "$3" = 1 ]; then
        # Ends with this script, also when that dies.
        (while [ -d "$scratch" ]; do ls -lR "$other/$1.$run" >/dev/null 2>&1 && cat "$other/$1.$run"/big* >/dev/null 2>&1 && echo >>"$scratch/passes"; done) &
        reader=$!
    fi
    begun=$(now)
    perl -e "$job" "$at" "$files" "$large"
    "$binary" recouple "$at" >>"$scratch/said"
    echo $(($(now) - begun)) >>"$scratch/times.$1"
    if [ "$3" = 1 ]; then
        kill "$reader"
        # 143: it was ended.
        wait "$reader" 2>/dev/null || [ $? = 143 ] || die "the reader ended by itself"
    fi
    [ "$(find "$other/$1.$run" -name 'f*' -size -2 | wc -l)" = "$files" ] || die "$1: files are missing"
}

: >"$scratch/passes"
for ((run = 1; run <= runs; run++)); do
    one block block 0
    one read read 0
    one readers read 1
done
base=$(median <"$scratch/times.block")
printf '%-34s %10s %9s %14s\n' "$files files, $large times 1 MiB" files/s seconds "beside block"
for name in block read readers; do
    ns=$(median <"$scratch/times.$name")
    label=$name && [ "$name" != readers ] || label="read, and another mount reads"
    awk -v label="$label" -v n="$files" -v ns="$ns" -v base="$base" 'BEGIN { printf "%-34s %10.0f %9.2f %14.3f\n", label, n * 1e9 / ns, ns / 1e9, base / ns }'
done
echo "passes of the reader over the directory: $(wc -l <"$scratch/passes")"
