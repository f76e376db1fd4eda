#!/usr/bin/env bash
# What a kernel looks up anew because it was told to forget names, and what telling it costs others: commits with git on a
# mount and on two side by side, files that two mounts publish in one directory, and a file that is made where another
# mount's kernel knows many names. Writes a Markdown table to stdout. It judges nothing.
# usage: bench/names.sh [-n FILES] [-c COMMITS] [-r RUNS] [--only LIST] [--dir DIR] [--limit S]
#   -n FILES     whose names another mount's kernel knows (60000)
#   -c COMMITS   on one mount; two mounts make 60 each (100)
#   -r RUNS      of each (3)
#   --only LIST  of git,two,publish,many (all)
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S    seconds until a single step is given up (600)
# environment: LOLIGO_BIN, the program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PARTS="git two publish many"
files=60000 commits=100 runs=3 only="" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} limit=600
usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -c | -r | --only | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -c) commits=$2 ;;
    -r) runs=$2 ;;
    --only) only=${2//,/ } ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
choose part "$only" "$PARTS"
need_root
find_loligo
have git && have curl || die "git and curl are needed: install them"
make_scratch "$dir"
one="$scratch/one" two="$scratch/two" data="$scratch/data"
mkdir "$scratch/home"
export HOME="$scratch/home" GIT_CONFIG_NOSYSTEM=1
git config --global user.name bench && git config --global user.email bench@localhost

# What runs on the mounts, in programs of their own, which `work` can end.
cat >"$scratch/commits" <<'PROGRAM'
set -e # DIR COMMITS
git init -q "$1" && cd "$1"
for n in $(seq "$2"); do
    mkdir -p dir$((n % 17)) && echo "line $n" >>dir$((n % 17))/file$((n % 5))
    head -c $((n * 37)) /dev/zero >blob$((n % 23))
    git add -A && git commit -qm "$n"
done
PROGRAM
cat >"$scratch/publish" <<'PROGRAM'
set -e # MOUNT WHO FILES
for n in $(seq "$3"); do echo x >"$1/own$2/x" && mv "$1/own$2/x" "$1/shared/$2.$n"; done
PROGRAM
# both PROGRAM ARGS-OF-ONE -- ARGS-OF-THE-OTHER
cat >"$scratch/both" <<'PROGRAM'
program=$1 && shift
first=()
while [ "$1" != -- ]; do first+=("$1") && shift; done
shift
bash "$program" "${first[@]}" &
bash "$program" "$@" && wait $!
PROGRAM

# counted NAME: what the mount of `up` counts by now.
counted() { curl -s --unix-socket "$data/admin.sock" http://localhost/metrics | awk -v name="loligo_mount_$1" '$1 == name { n = $2 } END { print n + 0 }'; }
lookups() { counted 'ops_total{op="lookup"}'; }
# Older programs count all of them as names.
forgot() { counted "notifications_total{kind=\"$all\"}"; }

# measured WHAT CMD...: a row of it: time, and what was looked up and forgotten meanwhile.
measured() {
    local what=$1 before forgotten began
    shift
    before=$(lookups) forgotten=$(forgot) began=$(now_ms)
    work "$limit" "$@" >/dev/null || die "$what failed"
    echo "| $what | $(($(now_ms) - began)) ms | $(($(lookups) - before)) | $(($(forgot) - forgotten)) |"
}

second() {
    mkdir -p "$two"
    mounts+=("$two")
    start second "$binary" mount --data "$data" "$two" --log warn
    until_true 60 second mounted "$two"
}

up one "$data" "$one"
second
all=all_names
curl -s --unix-socket "$data/admin.sock" http://localhost/metrics | grep -q 'kind="all_names"' || all=names
machine
echo
echo "| what | took | names looked up by the first mount's kernel | times that it forgot all names |"
echo "|---|---|---|---|"
for run in $(seq "$runs"); do
    ! wanted git || measured "$commits commits" bash "$scratch/commits" "$one/git$run" "$commits"
    ! wanted two || measured "60 commits on each of two mounts" bash "$scratch/both" "$scratch/commits" "$one/first$run" 60 -- "$two/second$run" 60
    if wanted publish; then
        top="$one/publish$run" other="$two/publish$run"
        mkdir -p "$top/shared" "$top/own1" "$top/own2"
        measured "300 files published by each of two mounts" bash "$scratch/both" "$scratch/publish" "$top" 1 300 -- "$other" 2 300
    fi
    if wanted many; then
        mkdir "$one/many$run"
        (cd "$one/many$run" && seq -f "f%.0f" "$files" | xargs touch)
        # Whoever made them had names of the directory asked back when the other one came; for a second none are lent after that.
        sleep 2
        (cd "$two/many$run" && seq -f "f%.0f" "$files" | xargs stat --format=%i >/dev/null)
        measured "a file where the other kernel knows $files names" touch "$one/many$run/new"
    fi
done
