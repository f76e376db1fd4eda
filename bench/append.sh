#!/usr/bin/env bash
# Journal bytes of small synced appends to files that are held in their inodes, on a mount of `loligo up`: writes files, then appends to each in
# turn, with an fsync after each append. Writes one line to stdout. It judges nothing: the target stands in docs/data-journal.md.
# usage: bench/append.sh [-f FILES] [-n APPENDS] [-s SIZE] [-b BYTES] [--set KEY=VALUE]
#   -f FILES     files (32)
#   -n APPENDS   to each file (64)
#   -s SIZE      bytes of a file before its appends (6000)
#   -b BYTES     bytes of an append (128)
#   --set K=V    a setting of the server; may be repeated
# environment: LOLIGO_BIN, a program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=32 appends=64 size=6000 bytes=128
settings=()
usage() { sed -n '4,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -f | -n | -s | -b | --set) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -f) files=$2 ;;
    -n) appends=$2 ;;
    -s) size=$2 ;;
    -b) bytes=$2 ;;
    --set) settings+=(--set "$2") ;;
    esac
    shift 2
done

need_root
fuse_usable || exit 1
have perl || die "perl is not there: apt-get install perl"
find_loligo
make_scratch "${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}"
up loligo "$scratch/loligo" "$scratch/mnt" "${settings[@]}"

# written: bytes that went into the journal so far.
written() { "$binary" status --json "$scratch/mnt" | perl -0777 -ne '/"written_bytes":\s*(\d+)/ and print $1'; }

cat >"$scratch/work.pl" <<'WORK'
use strict; use warnings; use IO::Handle;
my ($dir, $files, $times, $bytes) = @ARGV;
my @open = map { open my $f, ">>", "$dir/$_" or die $!; $f->autoflush(1); $f } 1 .. $files;
for (1 .. $times) { for my $f (@open) { print $f chr(97 + int rand 26) x $bytes or die $!; $f->sync or die $! } }
WORK
perl "$scratch/work.pl" "$scratch/mnt" "$files" 1 "$size"
before=$(written)
perl "$scratch/work.pl" "$scratch/mnt" "$files" "$appends" "$bytes"
after=$(written)
count=$((files * appends))
echo "$count appends of $bytes bytes to $files files of $size bytes: $(((after - before) / count)) bytes of journal each ($((after - before)) in all)"
