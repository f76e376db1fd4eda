#!/usr/bin/env bash
# What a job that makes many small files on a mount gains when its directory promises less: the same job under each preset, in one run, with
# loligo run, on a server and mount as `loligo up` starts them; then without a file system of ours, on the disk below, and through bindfs on a
# tmpfs, if that is installed: what any FUSE file system without a disk takes. It judges nothing; docs/tutorial-checkpoint.md tells what it shows.
# usage: bench/job.sh [-n FILES] [-b BYTES] [-r RUNS] [--dir DIR]
#   -n FILES     the job makes (20000)
#   -b BYTES     in each (100)
#   -r RUNS      of each preset; the median is shown (3)
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=20000 bytes=100 runs=3 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '5,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -b | -r | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -b) bytes=$2 ;;
    -r) runs=$2 ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done
command -v perl >/dev/null || die "the job is a perl script: install perl"

find_loligo
make_scratch "$dir"
mount=$scratch/mnt
up job "$scratch/data" "$mount" --set keep_dir="$scratch/kept"

job='my ($dir, $n, $bytes) = @ARGV; my $data = "x" x $bytes;
for my $i (1 .. $n) { open my $f, ">", "$dir/f$i" or die "f$i: $!"; print $f $data; close $f or die "f$i: $!"; }'
now() { date +%s%N; }
cpu() { awk '{ print $14 + $15 }' "/proc/${running[job]}/stat"; }

printf '%-10s %-20s %12s %14s %16s\n' preset promises files/s "seconds in all" "CPU us a file"
base=
for preset in posix relaxed hdfs batchfs deltafs ramdisk; do
    : >"$scratch/times" && : >"$scratch/cpus"
    for ((run = 1; run <= runs; run++)); do
        at=$mount/$preset.$run
        mkdir "$at"
        begun=$(now) used=$(cpu)
        if [ "$preset" = posix ] || [ "$preset" = relaxed ]; then
            [ "$preset" = posix ] || "$binary" policy set "$at" relaxed >>"$scratch/said"
            perl -e "$job" "$at" "$files" "$bytes"
        else
            "$binary" run --policy "$preset" "$at" -- perl -e "$job" "$at" "$files" "$bytes" 2>>"$scratch/said"
        fi
        echo $(($(now) - begun)) >>"$scratch/times"
        echo $(($(cpu) - used)) >>"$scratch/cpus"
        case $preset in
        deltafs | ramdisk) "$binary" abandon "$at" >>"$scratch/said" ;;
        *) [ "$(find "$at" -type f -size -2 | wc -l)" = "$files" ] || die "$preset: files are missing" ;;
        esac
    done
    ns=$(median <"$scratch/times") ticks=$(median <"$scratch/cpus")
    cell=$("$binary" policy presets | awk -v name="$preset" '$1 == name { print $2 }')
    awk -v preset="$preset" -v cell="$cell" -v n="$files" -v ns="$ns" -v ticks="$ticks" -v base="${base:-$ns}" -v hz="$(getconf CLK_TCK)" 'BEGIN {
        printf "%-10s %-20s %12.0f %9.2f (%.2fx) %16.1f\n", preset, cell, n * 1e9 / ns, ns / 1e9, base / ns, ticks * 1e6 / hz / n }'
    base=${base:-$ns}
done

# beside NAME DIR: the same job in a directory of another file system.
beside() {
    : >"$scratch/times"
    for ((run = 1; run <= runs; run++)); do
        mkdir "$2/beside.$run"
        begun=$(now)
        perl -e "$job" "$2/beside.$run" "$files" "$bytes"
        echo $(($(now) - begun)) >>"$scratch/times"
        rm -rf "$2/beside.$run"
    done
    awk -v name="$1" -v n="$files" -v ns="$(median <"$scratch/times")" -v base="$base" \
        'BEGIN { printf "%-31s %12.0f %9.2f (%.2fx)\n", name, n * 1e9 / ns, ns / 1e9, base / ns }'
}
mkdir "$scratch/plain"
beside "the disk below, nothing synced" "$scratch/plain"
if command -v "${BINDFS:-bindfs}" >/dev/null; then
    make_tmpfs
    bindfs_over bindfs "$tmpfs/below" "$scratch/bound"
    beside "bindfs on tmpfs" "$scratch/bound"
fi
