#!/usr/bin/env bash
# Stops the daemons that ceph-up.sh remembered below DIR/run, by process id, and only if that is still one of them. It
# does not unmount: ceph-umount.sh first.
# usage: bench/peers/ceph-down.sh DIR [--kill] [--purge]
#   --kill     at once (SIGKILL)
#   --purge    remove DIR afterwards
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/env.sh"

usage="usage: ceph-down.sh DIR [--kill] [--purge]"
dir=$(readlink -f "${1:?$usage}")
[ -e "$dir/ceph.conf" ] || die "$dir holds no cluster of ceph-up.sh (no ceph.conf)"
shift
signal=TERM purge=""
for option in "$@"; do
    case $option in
    --kill) signal=KILL ;;
    --purge) purge=yes ;;
    *) die "unknown option $option; $usage" ;;
    esac
done

# Does this process run? Not so a zombie, whose parent was perhaps never told.
alive() { grep -qsv '^State:.Z' <(grep -s ^State: "/proc/$1/status"); }

stop() {
    local pid turns=100
    pid=$(cat "$1")
    if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "^ceph-[a-z]* -c $dir/ceph.conf"; then
        kill "-$signal" "$pid" 2>/dev/null
        while [ "$turns" -gt 0 ] && alive "$pid"; do
            sleep 0.05
            turns=$((turns - 1))
        done
        if alive "$pid"; then kill -KILL "$pid" 2>/dev/null; fi
    fi 2>/dev/null
    rm -f "$1"
}

for kind in mds osd mon; do
    for file in "$dir/run/$kind".*.pid; do
        if [ -e "$file" ]; then stop "$file"; fi
    done
done
[ -z "$purge" ] || rm -rf --one-file-system "$dir"
