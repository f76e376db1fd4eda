#!/usr/bin/env bash
# A small Ceph cluster on loopback, for tests and as a peer to measure: a monitor, OSDs and, if wanted, a manager and a CephFS, from
# Debian's packages (ceph-mon, ceph-osd, ceph-mgr, ceph-mds, ceph-common). Up in some five seconds; all of it lives in one directory.
# Without authentication, unless --auth. Not for data that anybody wants to keep.
# usage: scripts/ceph.sh up DIR [options]      starts one and prints the path of its ceph.conf
#          --osds N          OSDs (1)
#          --copies N        of each object (as many as OSDs, 3 at most)
#          --engine NAME     memstore, in memory (the default), or bluestore, in files of DIR
#          --bytes N         of each OSD (4G)
#          --address A       to which its daemons bind and by which they are known (127.0.0.1)
#          --auth            with authentication (cephx); users and their rights are made with `do DIR auth get-or-create`
#          --mgr             a manager, too: without one the cluster does not know how much space it has
#          --mds N           a CephFS named cephfs with N active MDS, and pools for it (0: none)
#          --pool NAME       a pool to begin with (loligo); may be repeated
#          --set "KEY = V"   a line of the settings of all; may be repeated
#        scripts/ceph.sh down DIR [--purge]    stops what up started, by pid; --purge: and removes DIR
#        scripts/ceph.sh signal DIR SIG NAME   sends a signal to one of them: KILL osd.0, STOP mon.a
#        scripts/ceph.sh start DIR NAME        starts one again that has ended
#        scripts/ceph.sh wait DIR              until all OSDs are up and all copies are there
#        scripts/ceph.sh do DIR ARGS...        the command ceph, for this cluster
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

usage() { sed -n '5,20p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2 && exit 2; }
[ $# -ge 2 ] || usage
what=$1
[ "$what" != up ] || mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
conf="$dir/ceph.conf"
# Nothing but a directory that `up` has made is touched, least of all removed.
[ "$what" = up ] || [ -e "$conf" ] || die "$dir holds no cluster"

ceph_() { ceph -c "$conf" --connect-timeout 30 "$@" 2>>"$dir/log/ceph.log"; }

# pid NAME: of a daemon that runs, and is one of this directory (a number may have been given to another process since).
pid() {
    local pid
    pid=$(cat "$dir/run/$1.pid" 2>/dev/null) || return 1
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "^ceph-[a-z]* -c $conf" || return 1
    echo "$pid"
}

start() {
    local name=$1 kind=${1%%.*} id=${1#*.}
    pid "$name" >/dev/null && die "$name runs already"
    setsid "ceph-$kind" -c "$conf" -i "$id" -f </dev/null >>"$dir/log/$name.out" 2>&1 &
    echo $! >"$dir/run/$name.pid"
}

# until_true TRIES COMMAND...: a tenth of a second between tries.
until_true() {
    local tries=$1
    shift
    for _ in $(seq "$tries"); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}

listens() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }
mon_answers() { ceph -c "$conf" --connect-timeout 5 mon stat >/dev/null 2>&1; }
osds_up() { [ "$(ceph_ osd stat -f json | sed -n 's/.*"num_up_osds":\([0-9]*\).*/\1/p')" = "$1" ]; }
clean() {
    osds_up "$(find "$dir" -maxdepth 1 -name 'osd.*' | wc -l)" &&
        ceph_ pg stat -f json | grep -q '"num_pg_by_state":\[{"name":"active+clean","num":[0-9]*}\]'
}
mds_active() { [ "$(ceph_ fs dump -f json | grep -o '"state":"up:active"' | wc -l)" = "$1" ]; }
gone() { ! kill -0 "$1" 2>/dev/null || grep -qs '^State:.*Z' "/proc/$1/status"; }

up() {
    local osds=1 copies="" engine=memstore bytes=4G address=127.0.0.1 auth=none mgr="" mds=0 pools=() more="" port i
    while [ $# -gt 0 ]; do
        case $1 in
        --mgr) mgr=yes && shift && continue ;;
        --auth) auth=cephx && shift && continue ;;
        --osds | --copies | --engine | --bytes | --address | --mds | --pool | --set) [ $# -ge 2 ] || usage ;;
        *) say "unknown option $1" && usage ;;
        esac
        case $1 in
        --osds) osds=$2 ;;
        --copies) copies=$2 ;;
        --engine) engine=$2 ;;
        --bytes) bytes=$2 ;;
        --address) address=$2 ;;
        --mds) mds=$2 ;;
        --pool) pools+=("$2") ;;
        --set) more+="$2"$'\n' ;;
        esac
        shift 2
    done
    [ -n "$copies" ] || copies=$((osds < 3 ? osds : 3))
    [ ${#pools[@]} -gt 0 ] || pools=(loligo)
    for i in ceph ceph-mon ceph-osd ceph-authtool monmaptool; do
        have "$i" || die "$i is not installed: apt-get install ceph-mon ceph-osd ceph-common"
    done
    [ "$mds" = 0 ] || have ceph-mds || die "ceph-mds is not installed: apt-get install ceph-mds"
    [ ! -e "$conf" ] || die "$dir holds a cluster already: scripts/ceph.sh down $dir --purge"
    # The monitor's two ports must be known before it starts. Below the range from which the kernel gives ports to connections.
    port=$((20000 + RANDOM % 12000))
    while listens "$address" "$port" || listens "$address" $((port + 1)); do port=$((20000 + RANDOM % 12000)); done
    mkdir -p "$dir"/{log,run,crash,mon.a}
    local fsid monitor="[v2:$address:$port/0,v1:$address:$((port + 1))/0]"
    fsid=$(cat /proc/sys/kernel/random/uuid)
    cat >"$conf" <<EOF
[global]
fsid = $fsid
mon_host = $monitor
public_addr = $address
cluster_addr = $address
ms_bind_ipv6 = false
auth_cluster_required = $auth
auth_service_required = $auth
auth_client_required = $auth
keyring = $dir/keyring
run_dir = $dir/run
log_file = $dir/log/\$name.log
log_to_stderr = false
crash_dir = $dir/crash
pid_file =
osd_pool_default_size = $copies
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_crit = 1
mon_data_avail_warn = 2
client_mount_timeout = 30
$more
[client]
admin_socket =
[mon]
mon_data = $dir/mon.\$id
[mgr]
mgr_data = $dir/mgr.\$id
keyring = $dir/mgr.\$id/keyring
mgr_initial_modules =
[mds]
mds_data = $dir/mds.\$id
keyring = $dir/mds.\$id/keyring
[osd]
osd_data = $dir/osd.\$id
keyring = $dir/osd.\$id/keyring
osd_objectstore = $engine
memstore_device_bytes = $(numfmt --from=iec "$bytes")
bluestore_block_size = $(numfmt --from=iec "$bytes")
EOF
    ceph-authtool --create-keyring "$dir/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
    ceph-authtool "$dir/keyring" --gen-key -n client.admin \
        --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *' >/dev/null
    monmaptool --create --fsid "$fsid" --addv a "$monitor" "$dir/monmap" >/dev/null
    ceph-mon -c "$conf" -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring" >>"$dir/log/mkfs.out" 2>&1
    start mon.a
    until_true 100 mon_answers || die "the monitor does not answer: see $dir/log/mon.a.log"
    if [ -n "$mgr" ]; then
        mkdir -p "$dir/mgr.x"
        ceph_ auth get-or-create mgr.x mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o "$dir/mgr.x/keyring"
        start mgr.x
    fi
    for i in $(seq 0 $((osds - 1))); do
        local id
        id=$(cat /proc/sys/kernel/random/uuid)
        mkdir -p "$dir/osd.$i"
        ceph_ osd new "$id" "$i" >/dev/null
        ceph_ auth get-or-create "osd.$i" mon 'allow profile osd' mgr 'allow profile osd' osd 'allow *' -o "$dir/osd.$i/keyring"
        ceph-osd -c "$conf" -i "$i" --mkfs --osd-uuid "$id" >>"$dir/log/mkfs.out" 2>&1
        start "osd.$i"
    done
    until_true 300 osds_up "$osds" || die "not all OSDs are up: see $dir/log"
    for i in "${pools[@]}"; do ceph_ osd pool create "$i" 8 8 >/dev/null; done
    [ "$mds" = 0 ] || cephfs "$mds"
    echo "$conf"
}

# cephfs N: with so many active MDS. Their names may not begin with a digit.
cephfs() {
    local i
    for i in cephfs_meta cephfs_data; do ceph_ osd pool create "$i" 8 8 >/dev/null; done
    ceph_ fs new cephfs cephfs_meta cephfs_data >/dev/null
    for i in $(seq 0 $(($1 - 1))); do
        mkdir -p "$dir/mds.m$i"
        ceph_ auth get-or-create "mds.m$i" mon 'allow profile mds' mgr 'allow profile mds' osd 'allow *' mds 'allow *' -o "$dir/mds.m$i/keyring"
        start "mds.m$i"
    done
    ceph_ fs set cephfs max_mds "$1" >/dev/null
    until_true 300 mds_active "$1" || die "not all MDS are active: see $dir/log"
}

down() {
    local kind file number numbers
    for kind in mds mgr osd mon; do
        numbers=()
        for file in "$dir/run/$kind".*.pid; do
            [ -e "$file" ] && number=$(pid "$(basename "$file" .pid)") || continue
            # One that was stopped hears nothing else.
            kill -TERM "$number" 2>/dev/null && kill -CONT "$number" 2>/dev/null || true
            numbers+=("$number")
        done
        for number in "${numbers[@]}"; do
            until_true 50 gone "$number" || kill -KILL "$number" 2>/dev/null || true
        done
        rm -f "$dir/run/$kind".*.pid
    done
    if [ "${1:-}" = --purge ]; then rm -rf --one-file-system "${dir:?}"; fi
}

case $what in
up) up "$@" ;;
down) down "$@" ;;
signal)
    [ $# -eq 2 ] || usage
    number=$(pid "$2") || die "$2 does not run"
    kill "-$1" "$number"
    ;;
start)
    [ $# -eq 1 ] || usage
    start "$1"
    ;;
wait) until_true 1200 clean || die "copies are missing still: see $dir/log" ;;
do) ceph_ "$@" ;;
*) usage ;;
esac
