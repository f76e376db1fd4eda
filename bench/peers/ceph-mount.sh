#!/usr/bin/env bash
# Mounts the CephFS of the cluster in DIR (scripts/ceph.sh up DIR --mds 1) with ceph-fuse, the Debian package of that name, and
# prints the mount point. Process id and mount point are remembered in DIR/run; ceph-umount.sh undoes all mounts of DIR. Not
# the kernel's client.
# usage: bench/peers/ceph-mount.sh DIR [MOUNT [ceph-fuse arguments...]]     MOUNT is DIR/mnt if not given
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/env.sh"

dir=$(readlink -f "${1:?usage: ceph-mount.sh DIR [MOUNT [ceph-fuse arguments...]]}")
mount=${2:-$dir/mnt}
shift
[ $# = 0 ] || shift
[ -e "$dir/ceph.conf" ] || die "$dir holds no cluster of scripts/ceph.sh (no ceph.conf)"
have ceph-fuse || die "ceph-fuse is not there: apt-get install ceph-fuse"
mkdir -p "$mount"
mount=$(readlink -f "$mount")

number=0
while [ -e "$dir/run/fuse$number.pid" ]; do number=$((number + 1)); done
echo "$mount" >"$dir/run/fuse$number.path"
setsid ceph-fuse -c "$dir/ceph.conf" --name client.admin -f "$mount" "$@" </dev/null >>"$dir/log/fuse$number.out" 2>&1 &
pid=$!
echo "$pid" >"$dir/run/fuse$number.pid"
turns=300
until awk -v at="$mount" '$5 == at { found = 1 } END { exit !found }' /proc/self/mountinfo; do
    turns=$((turns - 1))
    if [ "$turns" = 0 ] || ! kill -0 "$pid" 2>/dev/null; then
        tail -n 20 "$dir/log/fuse$number.out" >&2
        die "ceph-fuse did not mount $mount; its last words are above"
    fi
    sleep 0.05
done
echo "$mount"
