#!/usr/bin/env bash
# Cost of a synced write: syncs of the disk for each fsync of a program, and such fsyncs a second, on a mount of
# `loligo up`, through bindfs over the same disk, and on the disk itself. Each part runs twice: with the syncs of the process counted by strace, and
# without strace for the times. Writes a Markdown table to stdout. It judges nothing: the targets stand in docs/performance.md.
# usage: bench/syncs.sh [-n OPS] [-r RUNS] [--only NAME,..] [--parts NAME,..] [--set KEY=VALUE] [--dir DIR]
#   -n OPS       synced operations of a part, of all its jobs together (2000)
#   -r RUNS      of each part without strace, the systems in turn; the table shows medians (3)
#   --only NAME  systems: loligo, bindfs, disk
#   --parts NAME parts, as they stand in the table
#   --set K=V    a setting of the server; may be repeated
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ops=2000 runs=3 only="" parts="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
settings=()
usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -r | --only | --parts | --set | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) ops=$2 ;;
    -r) runs=$2 ;;
    --only) only=${2//,/ } ;;
    --parts) parts=${2//,/ } ;;
    --set) settings+=(--set "$2") ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done

# NAME KIND BYTES JOBS: overwrite a random place of a file of 4 MiB, make a file, or append to one; `-osync` instead of an fsync.
all_parts='overwrite-4KiB overwrite 4096 1
overwrite-4KiB-32 overwrite 4096 32
overwrite-1KiB-32 overwrite 1024 32
osync-1KiB-8 overwrite-osync 1024 8
new-64KiB new 65536 1
new-4KiB new 4096 1
append-128B append 128 1
append-128B-osync-16 append-osync 128 16'
known=$(awk '{ printf "%s ", $1 }' <<<"$all_parts")
choose part "$parts" "$known"
chosen_parts=$chosen_names
choose system "$only" "loligo bindfs disk"

need_root
fuse_usable || exit 1
for program in strace perl bindfs; do have "$program" || die "$program is not there: apt-get install $program"; done
find_loligo
make_scratch "$dir"

# The work: prints the microseconds of each operation, then those of the whole.
cat >"$scratch/work.pl" <<'WORK'
use strict; use warnings; use Fcntl; use IO::Handle; use Time::HiRes qw(time);
my ($dir, $kind, $bytes, $jobs, $ops) = @ARGV;
my $osync = $kind =~ s/-osync$//;
my ($size, $data) = (4 << 20, "x" x $bytes);
my $flags = $osync ? O_SYNC : 0;
my $path = sub { "$dir/$kind" . ($kind eq "new" ? ".$bytes." : ".") . shift };
sub fill { my $path = shift; open my $f, ">", $path or die "$path: $!"; print $f "y" x $size; $f->sync or die $!; close $f or die $! }
if ($kind eq "overwrite") { for my $job (1 .. $jobs) { fill($path->($job)) unless -e $path->($job) } }
# The counting begins here, and the first operation after it.
if (my $at = $ENV{GO}) { open my $f, ">", "$at.ready" or die $!; close $f; select undef, undef, undef, 0.01 until -e $at }
my $begun = time;
my @out;
for my $job (1 .. $jobs) {
    pipe my $from, my $to or die $!;
    my $pid = fork // die $!;
    if ($pid) { close $to; push @out, $from; next }
    close $from; srand $job;
    my @times; my $f;
    sysopen $f, $path->($job), O_RDWR | O_CREAT | $flags or die $! unless $kind eq "new";
    for my $op (1 .. $ops / $jobs) {
        my $start = time;
        if ($kind eq "new") {
            sysopen $f, $path->("$$.$op"), O_RDWR | O_CREAT | $flags or die $!;
        } elsif ($kind eq "overwrite") {
            sysseek $f, int(rand($size / $bytes)) * $bytes, 0 or die $!;
        } elsif ($op % 100 == 1) {
            # A file that stays small.
            truncate $f, 0 or die $!; sysseek $f, 0, 0;
        }
        (syswrite($f, $data) // die $!) == $bytes or die "short";
        $f->sync or die $! unless $osync;
        close $f or die $! if $kind eq "new";
        push @times, 1e6 * (time - $start);
    }
    printf $to "%.0f\n", $_ for @times;
    close $to; exit 0;
}
for my $from (@out) { print while <$from> }
while (wait != -1) { die "a job failed" if $? }
printf "all %.0f\n", 1e6 * (time - $begun);
WORK

# traced COUNTS PROCESS: counts the syncs of the process in the file COUNTS until `end strace`.
traced() {
    start strace strace -f -qq -c -U name,calls -e trace=fsync,fdatasync,syncfs,sync -o "$1" -p "$2"
    until_true 20 strace grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$2/status"
}
total() { awk '$1 ~ /^(fsync|fdatasync|syncfs|sync)$/ { n += $2 } END { print n + 0 }' "$1"; }

# counted SYSTEM PROCESS DIR NAME KIND BYTES JOBS
counted() {
    local system=$1 process=$2 at=$3 name=$4 counts=$scratch/$1.$4.counts
    shift 4
    export GO=$scratch/go
    rm -f "$GO" "$GO.ready"
    start work perl "$scratch/work.pl" "$at" "$@" "$ops"
    until_true 120 work test -e "$GO.ready"
    # On the disk itself the program that asks is the one that syncs.
    traced "$counts" "${process:-${running[work]}}"
    : >"$GO"
    until_gone work 600
    end strace INT
    unset GO
    printf '%s\t%s\tsyncs\t%s\n' "$system" "$name" "$(awk -v n="$(total "$counts")" -v ops="$ops" 'BEGIN { printf "%.2f", n / ops }')" >>"$scratch/results.tsv"
}

# until_gone NAME SECONDS: waits for the end of a process.
until_gone() {
    local turns=$(($2 * 20))
    while alive "$1" && [ "$turns" -gt 0 ]; do sleep 0.05 && turns=$((turns - 1)); done
    alive "$1" && die "$1 did not end"
    unset "running[$1]"
}

# timed SYSTEM DIR NAME KIND BYTES JOBS
timed() {
    local system=$1 at=$2 name=$3
    shift 3
    work 600 perl "$scratch/work.pl" "$at" "$@" "$ops" >"$scratch/times" || die "$name on $system failed"
    awk -v s="$system" -v p="$name" -v ops="$ops" '$1 == "all" { printf "%s\t%s\trate\t%.0f\n", s, p, ops / ($2 / 1e6) }' "$scratch/times" >>"$scratch/results.tsv"
    grep -v all "$scratch/times" | median | awk -v s="$system" -v p="$name" '{ printf "%s\t%s\tp50\t%.0f\n", s, p, $1 }' >>"$scratch/results.tsv"
}

of() { awk -F '\t' -v s="$1" -v p="$2" -v w="$3" '$1 == s && $2 == p && $3 == w { print $4 }' "$scratch/results.tsv" | median; }

declare -A at=() process=([disk]="")
mkdir "$scratch/disk"
at[disk]=$scratch/disk
if wanted bindfs; then
    bindfs_over bindfs "$scratch/below" "$scratch/mnt-bindfs"
    at[bindfs]=$scratch/mnt-bindfs process[bindfs]=${running[bindfs]}
fi
if wanted loligo; then
    up loligo "$scratch/loligo" "$scratch/mnt-loligo" "${settings[@]}"
    at[loligo]=$scratch/mnt-loligo process[loligo]=${running[loligo]}
fi
systems=""
for system in disk bindfs loligo; do wanted "$system" && systems+=" $system"; done

: >"$scratch/results.tsv"
while read -r name kind bytes jobs; do
    case "$chosen_parts" in *" $name "*) ;; *) continue ;; esac
    say "$name"
    for system in $systems; do counted "$system" "${process[$system]}" "${at[$system]}" "$name" "$kind" "$bytes" "$jobs"; done
    for ((run = 1; run <= runs; run++)); do
        for system in $systems; do timed "$system" "${at[$system]}" "$name" "$kind" "$bytes" "$jobs"; done
    done
done <<<"$all_parts"

echo "Measured $(date -u +%Y-%m-%d). $(machine)."
echo "Disk: $(disk_type). $ops operations; syncs: of the disk, for each fsync, by strace; operations a second and p50 of one in us: medians of $runs runs."
echo
printf '| part |'
for system in $systems; do printf ' %s: syncs | /s | p50 |' "$system"; done
printf '\n|---|'
for system in $systems; do printf -- '---:|---:|---:|'; done
echo
while read -r name _; do
    case "$chosen_parts" in *" $name "*) ;; *) continue ;; esac
    printf '| %s |' "$name"
    for system in $systems; do printf ' %s | %s | %s |' "$(of "$system" "$name" syncs)" "$(of "$system" "$name" rate)" "$(of "$system" "$name" p50)"; done
    echo
done <<<"$all_parts"
