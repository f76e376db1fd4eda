#!/usr/bin/env bash
# Measures the everyday work of one process on a mount (create files, write small files, unpack, copy, read and remove a tree)
# in a `relaxed` directory and in a `posix` one, beside bindfs on a tmpfs, a FUSE file system without a journal and a disk.
# The systems take turns in each run, so that a busy moment of the machine hits all of them; a ratio is the median of those of the runs. It judges
# nothing.
# usage: bench/beside.sh [-n FILES] [-t FILES] [-r RUNS] [--only NAME,..] [--dir DIR]
#   -n FILES     made, and written with 100 bytes each (5000)
#   -t FILES     in the tree: a hundredth as many directories; most files have some KiB, one in twenty some ten KiB (15000; 0: no tree)
#   -r RUNS      of each system (5)
#   --only NAME  systems: relaxed, posix, before-relaxed, before-posix (those of which there is a program); bindfs is always measured
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, a program to use instead of building it; LOLIGO_BEFORE, another one to be measured beside it; BINDFS, the program
# bindfs if it is not installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=5000 tree=15000 runs=5 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '6,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -t | -r | --only | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -t) tree=$2 ;;
    -r) runs=$2 ;;
    --only) only=${2//,/ } ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done
need_root
command -v "${BINDFS:-bindfs}" >/dev/null || die "bindfs is what everything is compared with: install it, or name the program in BINDFS"
command -v perl >/dev/null || die "the work is done by a perl script: install perl"

known="relaxed posix"
[ -z "${LOLIGO_BEFORE:-}" ] || known+=" before-relaxed before-posix"
choose system "$only" "$known"
find_loligo
make_scratch "$dir"
make_tmpfs
bindfs_over bindfs "$tmpfs/below" "$scratch/bindfs"

systems="bindfs" now_binary=$binary
declare -A program=() at=([bindfs]=$scratch/bindfs) process=([bindfs]=bindfs)
for name in $known; do
    wanted "$name" || continue
    systems+=" $name"
    case $name in before-*) program[$name]=$(readlink -f "$LOLIGO_BEFORE") of=before ;; *) program[$name]=$now_binary of=now ;; esac
    if [ ! -d "$scratch/$of" ]; then
        mkdir "$scratch/$of"
        binary=${program[$name]} up "$of" "$scratch/$of/data" "$scratch/$of/mnt"
    fi
    at[$name]=$scratch/$of/mnt process[$name]=$of
done
binary=$now_binary

# make_tree DIR FILES: the same tree each time.
make_tree() {
    perl -e 'use strict; my ($dir, $n) = @ARGV; srand 1; mkdir $dir;
        for my $i (0 .. $n - 1) { my $sub = sprintf "%s/d%03d", $dir, $i / 100; mkdir $sub unless $i % 100;
            my $size = int(200 + rand(6000)); $size += int(rand(60000)) unless $i % 20;
            open my $f, ">", sprintf("%s/file-%05d.c", $sub, $i) or die; print $f chr(97 + $i % 26) x $size; close $f or die; }' "$1" "$2"
}
if [ "$tree" -gt 0 ]; then
    make_tree "$tmpfs/tree" "$tree"
    tar -C "$tmpfs" -cf "$tmpfs/tree.tar" tree
fi

creates='use Fcntl; my ($dir, $n) = @ARGV; for my $i (1 .. $n) { sysopen my $f, "$dir/c$i", O_CREAT | O_EXCL | O_WRONLY or die "$!"; close $f or die "$!"; }'
writes='use Fcntl; my ($dir, $n) = @ARGV; my $data = "x" x 100;
for my $i (1 .. $n) { sysopen my $f, "$dir/w$i", O_CREAT | O_WRONLY | O_TRUNC or die "$!"; syswrite $f, $data; close $f or die "$!"; }'
cpu() { awk '{ print $14 + $15 }' "/proc/${running[$1]}/stat"; }
# timed SYSTEM PHASE CMD...: notes its nanoseconds and the clock ticks of the system's process.
timed() {
    local system=$1 phase=$2 begun used
    shift 2
    begun=$(date +%s%N) used=$(cpu "${process[$system]}")
    "$@" >/dev/null
    echo "$run $system $phase $(($(date +%s%N) - begun)) $(($(cpu "${process[$system]}") - used))" >>"$scratch/times"
}

for ((run = 1; run <= runs; run++)); do
    for system in $systems; do
        place=${at[$system]}/$system.$run
        mkdir "$place"
        case $system in *relaxed) "${program[$system]}" policy set "$place" relaxed >>"$scratch/said" ;; esac
        mkdir "$place/files"
        timed "$system" create perl -e "$creates" "$place/files" "$files"
        timed "$system" write perl -e "$writes" "$place/files" "$files"
        [ "$(find "$place/files" -type f | wc -l)" = $((2 * files)) ] || die "$system: files are missing"
        [ "$tree" -gt 0 ] || continue
        timed "$system" untar tar -C "$place" -xf "$tmpfs/tree.tar"
        timed "$system" cp-a cp -a "$place/tree" "$place/copy"
        timed "$system" tar tar -C "$place" -cf "$scratch/out.tar" copy
        timed "$system" rm rm -r "$place/copy"
    done
done

awk -v runs="$runs" -v files="$files" -v tree="$tree" -v hz="$(getconf CLK_TCK)" '
    function median(list,   n, v, i, j, t) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++) { t = v[i] + 0; for (j = i - 1; j > 0 && v[j] + 0 > t; j--) v[j + 1] = v[j]; v[j + 1] = t }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    { ns[$1, $2, $3] = $4; all[$2, $3] = all[$2, $3] " " $4; cpu[$2, $3] = cpu[$2, $3] " " $5
      if (!($2 in seen)) { seen[$2] = 1; system_of[++systems] = $2 }
      if (!($3 in met)) { met[$3] = 1; phase_of[++phases] = $3 } }
    END {
        printf "%-8s %-16s %9s %9s %14s %12s\n", "work", "system", "files/s", "seconds", "rate/bindfs", "CPU us/file"
        for (p = 1; p <= phases; p++) for (s = 1; s <= systems; s++) {
            phase = phase_of[p]; name = system_of[s]; ratios = ""
            for (run = 1; run <= runs; run++) ratios = ratios " " ns[run, "bindfs", phase] / ns[run, name, phase]
            n = phase == "create" || phase == "write" ? files : tree; t = median(all[name, phase]) / 1e9
            printf "%-8s %-16s %9.0f %9.2f %14.2f %12.1f\n", phase, name, n / t, t, median(ratios), median(cpu[name, phase]) * 1e6 / hz / n
        }
    }' "$scratch/times"
