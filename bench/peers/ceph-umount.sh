#!/usr/bin/env bash
# Undoes all mounts that ceph-mount.sh made of the cluster in DIR, by force where they do not go otherwise. The cluster
# keeps running.
# usage: bench/peers/ceph-umount.sh DIR
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/env.sh"

dir=$(readlink -f "${1:?usage: ceph-umount.sh DIR}")

# The number of the kernel's FUSE connection of a mount, from a table that never waits for the file system.
connection() { awk -v at="$1" '$5 == at { split($3, dev, ":"); number = dev[2] } END { print number }' /proc/self/mountinfo; }
alive() { grep -qsv '^State:.Z' <(grep -s ^State: "/proc/$1/status"); }

for file in "$dir"/run/fuse*.path; do
    [ -e "$file" ] || continue
    mount=$(cat "$file") pid=$(cat "${file%.path}.pid" 2>/dev/null) turns=50
    if [ -n "$(connection "$mount")" ] && ! timeout -k 5 20 umount "$mount" 2>/dev/null; then
        abort="/sys/fs/fuse/connections/$(connection "$mount")/abort"
        if [ -w "$abort" ]; then echo 1 >"$abort"; fi
        timeout -k 5 10 umount -l "$mount"
    fi
    if [ -n "$pid" ]; then
        while [ "$turns" -gt 0 ] && alive "$pid"; do
            sleep 0.1
            turns=$((turns - 1))
        done
        # Its name, which can be read whatever state it is in, shows that the id is not another's by now.
        if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = ceph-fuse ]; then kill -TERM "$pid"; fi
    fi
    rm -f "$file" "${file%.path}.pid"
done
exit 0
