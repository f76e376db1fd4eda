#!/usr/bin/env bash
# Follows docs/deploy.md under a real systemd: installs, serves, kills, upgrades, mounts from fstab; with a Ceph cluster also two servers
# of which one stands by. Systemd runs in namespaces of its own, over a copy of this machine's root that is gone afterwards; nothing of
# this machine is touched. As root, where overlayfs is. 15 seconds, and as much again with a cluster.
# usage: scripts/systemd-test.sh [CEPH-DIRECTORY]    of `scripts/ceph.sh up DIR --pool loligo`
# environment: LOLIGO (built if it is not said), the program to install; LOLIGO_DEB, a package to install instead. Exit code 77: this machine
# cannot.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

boot() { # inside the namespaces: DIR
    local root=$1/over/tree unit units=$1/over/tree/etc/systemd/system
    mount --make-rprivate /
    mount -t tmpfs tmpfs "$1/over"
    mkdir "$1/over/up" "$1/over/work" "$root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/over/up,workdir=$1/over/work" "$root"
    # None of this machine's own services.
    rm -rf "$units" && mkdir -p "$units"
    printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n' >"$units/multi-user.target"
    ln -s multi-user.target "$units/default.target"
    for unit in systemd-{udevd,logind,remount-fs,networkd,resolved,timesyncd}.service tmp.mount; do ln -s /dev/null "$units/$unit"; done
    : >"$root/etc/fstab"
    : >"$root/etc/machine-id"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/run"
    # What the overlay does not show because it is on another file system, or in this one's scratch directory.
    mkdir -p "$root$1" "$root$LOLIGO_TOP"
    mount --rbind "$1/share" "$root$1"
    mount --bind "$LOLIGO_TOP" "$root$LOLIGO_TOP"
    if [ -n "${CEPH:-}" ]; then mkdir -p "$root$CEPH" && mount --bind "$CEPH" "$root$CEPH"; fi
    exec chroot "$root" env -i container=loligo PATH="$PATH" /lib/systemd/systemd --system --log-target=null
}

# ---- what stands in docs/deploy.md ----

check() { # WHAT COMMAND...: it must go well within 30 s.
    local what=$1 turn
    shift
    for ((turn = 0; turn < 150; turn++)); do
        if "$@" >/dev/null 2>&1; then say "ok: $what" && return 0; fi
        sleep 0.2
    done
    say "what the units say:"
    journalctl -o cat --no-pager -n 40 -u 'loligo-server@*' -u mounted.mount >&2
    die "$what: $* does not come true"
}
state_is() { [ "$(systemctl show -p "$2" --value "loligo-server@$1")" = "$3" ]; }
main_pid() { systemctl show -p MainPID --value "loligo-server@$1"; }
holds() { [ "$(cat "$1")" = "$2" ]; }
status_has() { loligo status --data "/var/lib/loligo/$1" | grep -q "$2"; }
states_are() { [ "$(systemctl is-active mounted.mount loligo-server@home | sort | uniq -c | tr -s ' ')" = " 2 $1" ]; }
not_there() { ! systemctl is-active -q "loligo-server@$1"; }

# put_in DIR: installs, or upgrades.
put_in() {
    if [ -e "$1/loligo.deb" ]; then
        DEBIAN_FRONTEND=noninteractive dpkg --install --force-depends "$1/loligo.deb"
    else
        LOLIGO=$1/loligo "$LOLIGO_TOP/scripts/install.sh"
    fi
}

steps() { # inside systemd: DIR
    local pid
    check "systemd runs" systemctl is-active -q basic.target
    put_in "$1"
    install -d -m 755 /var/lib/loligo
    install -d -m 700 -o loligo -g loligo /var/lib/loligo/home
    runuser -u loligo -- loligo format --data /var/lib/loligo/home
    echo 'LOLIGO_ADMIN=off' >/etc/loligo/home.env
    systemctl enable --now loligo-server@home
    check "it counts as started when it serves" status_has home "health *serving"
    check "and runs as its user" [ "$(stat -c %U "/proc/$(main_pid home)")" = loligo ]
    mkdir /mounted
    echo '/var/lib/loligo/home /mounted loligo _netdev,nofail,x-systemd.requires=loligo-server@home.service 0 0' >/etc/fstab
    systemctl daemon-reload
    systemctl start mounted.mount
    echo one >/mounted/file
    kill -9 "$(main_pid home)"
    check "one that was killed is started again" state_is home NRestarts 1
    check "and the mount goes on" holds /mounted/file one
    # An upgrade.
    pid=$(main_pid home)
    put_in "$1"
    check "an upgrade leaves the server alone" [ "$(main_pid home)" = "$pid" ]
    systemctl restart loligo-server@home
    check "the mount goes on after an upgrade" holds /mounted/file one
    systemctl stop loligo-server@home
    check "the mount that requires it goes with it" states_are inactive
    systemctl start mounted.mount
    check "and brings it back" holds /mounted/file one
    systemctl stop mounted.mount loligo-server@home
    check "a clean stop is one" state_is home Result success
    echo 'LOLIGO_LEASE_MS=soon' >>/etc/loligo/home.env
    if systemctl start loligo-server@home; then die "it started with a setting that makes no sense"; fi
    check "wrong usage is not tried again" state_is home SubState failed
    [ -z "${CEPH:-}" ] || on_ceph
    [ ! -e "$1/loligo.deb" ] || removed
}

removed() {
    sed -i '/^LOLIGO_LEASE_MS=soon/d' /etc/loligo/home.env
    systemctl start loligo-server@home
    check "it serves" status_has home "health *serving"
    DEBIAN_FRONTEND=noninteractive dpkg --purge loligo
    check "a purge stops the server" not_there home
    check "and leaves its data and settings" test -s /etc/loligo/home.env -a -d /var/lib/loligo/home
}

on_ceph() {
    local name
    for name in one two; do
        install -d -m 700 -o loligo -g loligo "/var/lib/loligo/$name"
        printf 'SERVE=--store rados:loligo\nLOLIGO_ADMIN=off\nLOLIGO_SERVER_NAME=%s\n' "$name" >"/etc/loligo/$name.env"
    done
    mkdir /other
    # Units do not see /tmp.
    mkdir -p /etc/ceph
    sed "s#$CEPH/#/etc/ceph/#g" "$CEPH/ceph.conf" >/etc/ceph/ceph.conf
    if [ -e "$CEPH/keyring" ]; then install -m 644 "$CEPH/keyring" /etc/ceph/keyring; fi
    runuser -u loligo -- loligo format --store rados:loligo --data /var/lib/loligo/one
    sed -i 's/^SERVE=.*/& --standby/' /etc/loligo/two.env
    systemctl enable --now loligo-server@one
    systemctl enable --now loligo-server@two
    check "the second stands by" [ "$(systemctl show -p StatusText --value loligo-server@two | grep -c standing)" = 1 ]
    loligo mount --server /var/lib/loligo/one,/var/lib/loligo/two --daemon --log-file /var/log/mount.log /other
    echo two >/other/file
    kill -9 "$(main_pid one)"
    check "the other one takes over" status_has two "health *serving"
    check "and the mount goes on" holds /other/file two
    check "the first one is started again" state_is one ActiveState active
    systemctl restart loligo-server@two
    check "and has it again when the other one is restarted" holds /other/file two
    umount /other
    systemctl stop loligo-server@one loligo-server@two
    check "both stop" not_there one
}

# ---- outside ----

case ${1:-} in
--boot) boot "$2" ;;
--steps)
    CEPH=${3:-}
    cd /
    steps "$2"
    exit 0
    ;;
esac
[ "$(id -u)" = 0 ] && [ -x /lib/systemd/systemd ] && have unshare && have nsenter && grep -qw overlay /proc/filesystems ||
    { skipped "docs/deploy.md under systemd" "root, systemd and overlayfs are needed" && exit 77; }
CEPH=${1:+$(readlink -f "$1")}
export CEPH
program=${LOLIGO:-$(target_dir)/ci/loligo}
[ -n "${LOLIGO:-}${LOLIGO_DEB:-}" ] || { eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cargo build -q --profile ci -p loligo-cli --bin loligo; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-systemd.XXXXXX")
chmod 755 "$scratch"
mkdir "$scratch/share" "$scratch/over"
if [ -n "${LOLIGO_DEB:-}" ]; then cp "$LOLIGO_DEB" "$scratch/share/loligo.deb"; else cp "$program" "$scratch/share/loligo"; fi
cd /
unshare --mount --pid --fork --ipc --uts --cgroup "$LOLIGO_TOP/scripts/systemd-test.sh" --boot "$scratch" >"$scratch/boot.log" 2>&1 &
outer=$!
end() {
    pkill -9 -P "$outer" || true
    wait "$outer" 2>/dev/null || true
    rm -rf "$scratch"
}
trap end EXIT
for ((turn = 0; turn < 100; turn++)); do
    init=$(pgrep -P "$outer" || true)
    if [ -n "$init" ] && nsenter -t "$init" -a -r --wd=/ test -S /run/systemd/private 2>/dev/null; then break; fi
    sleep 0.1
done
[ -n "${init:-}" ] || { cat "$scratch/boot.log" >&2 && die "systemd does not start"; }
nsenter -t "$init" -a -r --wd=/ "$LOLIGO_TOP/scripts/systemd-test.sh" --steps "$scratch" "$CEPH"
say "all of it came true"
