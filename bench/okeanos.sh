#!/usr/bin/env bash
# Figures of Okeanos (Hatzieleftheriou and Anastasiadis; docs/data-journal.md) with the journal modes of this file system, on a real disk: bytes
# in the journal and in objects, syncs, and latencies of synced writes, by mode. Writes Markdown tables to stdout. It judges nothing. Not
# here: the paper's disks, which turn; each position of theirs takes milliseconds, so its ratios of time are not to be expected.
# usage: bench/okeanos.sh [-t SECONDS] [--only NAME,..] [--modes NAME,..] [--set KEY=VALUE] [--dir DIR]
#   -t SECONDS   time of each run that goes by time (10; the paper: 300)
#   --only NAME  traffic: 100 streams, one synced write of each size a second (Fig 3.1)
#                streams: 125 B a second, synced, to each of many files (Fig 5.1a, 5.2a)
#                large: 125,000 B a second, synced, to each of 10 files (Fig 5.1b, 5.2b)
#                postmark: transactions on 500 files by 16 jobs, synced (Fig 5.4)
#                checkpoint: 16 jobs write 1,024 B and 47,001 B pieces to a file each, synced (Fig 5.5, 5.6)
#                recovery: 10,000 synced writes of 8 B, then kill -9 and a start (Fig 5.7)
#   --modes NAME wasteless, selective, data, ordered, writeback
#   --set K=V    a setting of the server; may be repeated
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=10 only="" modes="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
settings=()
usage() { sed -n '5,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
options "$@"
choose mode "$modes" "wasteless selective data ordered writeback"
chosen_modes=$chosen_names
choose figure "$only" "traffic streams large postmark checkpoint recovery"

need_root
fuse_usable || exit 1
for program in perl curl; do have "$program" || die "$program is not there: apt-get install $program"; done
find_loligo
make_scratch "$dir"

# The work. Prints the microseconds of each operation, then those of the whole. Files begin with 64 KiB, so that they are objects in every mode.
cat >"$scratch/work.pl" <<'WORK'
use strict; use warnings; use Fcntl; use IO::Handle; use Time::HiRes qw(time sleep);
my ($kind, $dir, $files, $bytes, $count, $jobs) = @ARGV;
sub fill { my ($path, $size) = @_; open my $f, ">", $path or die "$path: $!"; print $f "y" x $size; $f->sync or die $!; close $f or die $! }
if ($kind eq "make") { fill("$dir/$_", 65536) for 1 .. $files; exit 0 }
$jobs = $files if $jobs > $files;
my $begun = time;
my @out;
for my $job (0 .. $jobs - 1) {
    pipe my $from, my $to or die $!;
    my $pid = fork // die $!;
    if ($pid) { close $to; push @out, $from; next }
    close $from; srand $job;
    my @times;
    my $timed = sub { my $start = time; shift->(); push @times, 1e6 * (time - $start) };
    my @own = map { my $n = $_; $n % $jobs == $job ? "$dir/" . ($n + 1) : () } 0 .. $files - 1;
    if ($kind eq "postmark") { postmark($timed) } else {
        my @open = map { sysopen my $f, $_, O_WRONLY | O_APPEND | O_SYNC or die "$_: $!"; $f } @own;
        my $data = "x" x $bytes;
        # Rounds of a second for streams, of no time for the others.
        for my $round (1 .. $count) {
            my $next = $begun + $round;
            for my $f (@open) { $timed->(sub { (syswrite($f, $data) // die $!) == $bytes or die "short" }) }
            sleep $next - time if $kind eq "stream" && $next > time;
        }
    }
    printf $to "%.0f\n", $_ for @times;
    close $to; exit 0;
}
for my $from (@out) { print while <$from> }
while (wait != -1) { die "a job failed" if $? }
printf "all %.0f\n", 1e6 * (time - $begun);

# Read or append 5 to 1, create or delete 9 to 1: of ten transactions five are of each kind. Files of 500 B to 97.66 KiB.
sub postmark {
    my $timed = shift;
    my ($next, @mine) = (0);
    my $write = sub { my ($path, $flags, $size) = @_;
        sysopen my $f, $path, O_WRONLY | O_CREAT | O_SYNC | $flags or die "$path: $!";
        while ($size > 0) { my $n = $size < $bytes ? $size : $bytes; (syswrite($f, "z" x $n) // die $!) == $n or die "short"; $size -= $n }
        close $f or die $! };
    my $create = sub { my $path = "$dir/p$$." . $next++; $write->($path, O_EXCL, 500 + int rand 99_500); push @mine, $path };
    $create->() for 1 .. $files / $jobs;
    for (1 .. $count / $jobs) {
        $timed->(sub {
            my $path = @mine ? $mine[rand @mine] : undef;
            if ($path && rand() < 0.5) {
                if (rand() < 5 / 6) { open my $f, "<", $path or die $!; local $/; my $all = <$f> }
                else { $write->($path, O_APPEND, $bytes) }
            } elsif (rand() < 0.9 || @mine < 2) { $create->() }
            else { my $path = splice @mine, rand @mine, 1; unlink $path or die $! }
        });
    }
}
WORK

# counters: journal bytes, bytes to objects past the journal, bytes to objects that the journal had, syncs of the journal, syncs of objects.
counters() {
    # Ranks say their numbers once a second.
    sleep 2
    curl -sf "http://$admin/metrics" | awk '
        /^loligo_journal_written_bytes_total/ { journal += $NF }
        /^loligo_object_direct_bytes_total/ { direct += $NF }
        /^loligo_object_logged_bytes_total/ { logged += $NF }
        /^loligo_journal_sync_seconds_count/ { syncs += $NF }
        /^loligo_object_sync_seconds_count/ { osyncs += $NF }
        END { printf "%.0f %.0f %.0f %.0f %.0f\n", journal, direct, logged, syncs, osyncs }'
}

admin=127.0.0.1:$((20000 + RANDOM % 20000))
fresh=0
# server MODE: a new file system with one directory, d, of that mode.
server() {
    fresh=$((fresh + 1))
    name=fs$fresh data=$scratch/data$fresh at=$scratch/mnt$fresh
    up "$name" "$data" "$at" --set admin="$admin" "${settings[@]}"
    mkdir "$at/d"
    echo "journal = '$1'" >"$scratch/policy"
    loligo policy set "$at/d" "$scratch/policy" >/dev/null
}
server_gone() { gone "$name" "$at" && rm -rf "$data"; }

# run FIGURE MODE CASE KIND FILES BYTES COUNT JOBS: a row of results.
run() {
    local figure=$1 mode=$2 case=$3 kind=$4 files=$5 bytes=$6 count=$7 jobs=$8 before after
    server "$mode"
    [ "$kind" = postmark ] || work 900 perl "$scratch/work.pl" make "$at/d" "$files"
    sync -f "$at/d"
    before=$(counters)
    work 900 perl "$scratch/work.pl" "$kind" "$at/d" "$files" "$bytes" "$count" "$jobs" >"$scratch/times" || die "$figure in mode $mode failed"
    after=$(counters)
    grep -v all "$scratch/times" | sort -n | awk -v row="$figure	$mode	$case" -v before="$before" -v after="$after" \
        -v all="$(awk '$1 == "all" { print $2 }' "$scratch/times")" '
        { v[NR] = $1 }
        END {
            split(before, b, " "); split(after, a, " ")
            late = int(NR * 0.99); if (late < 1) late = 1
            printf "%s\t%d\t%.2f\t%.2f\t%d\t%d\t%.0f\t%.0f\t%.0f\n", row, NR, (a[1] - b[1]) / 1e6, (a[2] - b[2] + a[3] - b[3]) / 1e6,
                a[4] - b[4], a[5] - b[5], v[int((NR + 1) / 2)], v[late], NR / (all / 1e6)
        }' >>"$scratch/results.tsv"
    server_gone
}

: >"$scratch/results.tsv"
for mode in wasteless selective data ordered writeback; do
    case "$chosen_modes" in *" $mode "*) ;; *) continue ;; esac
    say "$mode"
    if wanted traffic; then for size in 128 1024 4096; do run traffic "$mode" "$size B" stream 100 "$size" "$seconds" 100; done; fi
    if wanted streams; then for n in 100 1000; do run streams "$mode" "$n streams" stream "$n" 125 "$seconds" 100; done; fi
    if wanted large; then run large "$mode" "10 streams" stream 10 125000 "$seconds" 10; fi
    if wanted postmark; then for size in 1024 4096 131072; do run postmark "$mode" "requests of $size B" postmark 500 "$size" 2000 16; done; fi
    if wanted checkpoint; then for size in 1024 47001; do run checkpoint "$mode" "$size B" fast 16 "$size" 250 16; done; fi
    if wanted recovery; then
        server "$mode"
        work 900 perl "$scratch/work.pl" make "$at/d" 100
        work 900 perl "$scratch/work.pl" fast "$at/d" 100 8 100 100 >/dev/null
        end "$name" KILL
        unmount "$at"
        before=$(now_ms)
        up "$name" "$data" "$at" --set admin="$admin" "${settings[@]}"
        after=$(now_ms)
        bytes=$(($(cat "$at"/d/* | wc -c) - 100 * 65536))
        [ "$bytes" = 80000 ] || die "in mode $mode $bytes bytes of 80000 are there after the crash"
        printf 'recovery\t%s\tstart after kill -9\t%d\n' "$mode" $((after - before)) >>"$scratch/results.tsv"
        server_gone
    fi
done

echo "Measured $(date -u +%Y-%m-%d). $(machine)."
for figure in traffic streams large postmark checkpoint; do
    wanted "$figure" || continue
    printf '\n%s\n\n| case | mode | operations | journal MB | objects MB | journal syncs | object syncs | p50 us | p99 us | /s |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n' "$figure"
    awk -F '\t' -v f="$figure" '$1 == f { printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $3, $2, $4, $5, $6, $7, $8, $9, $10, $11 }' "$scratch/results.tsv" |
        sort -t '|' -k 2,2V -s
done
if wanted recovery; then
    printf '\nrecovery\n\n| mode | ms until a start after kill -9 serves |\n|---|---:|\n'
    awk -F '\t' '$1 == "recovery" { printf "| %s | %s |\n", $2, $4 }' "$scratch/results.tsv"
fi
