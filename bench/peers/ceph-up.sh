#!/usr/bin/env bash
# A small CephFS on loopback from the Debian packages (ceph-mon ceph-osd ceph-mds): one mon, one OSD in memory, one MDS
# (or more), started by hand. A peer for measurements and nothing else: no authentication, one copy of the data, nothing
# kept over a restart. All it writes lies below DIR; the process ids are in DIR/run. Prints the path of its ceph.conf
# once CephFS is active.
# usage: bench/peers/ceph-up.sh DIR [--port P] [--osd memstore|bluestore] [--mds N] [--conf "key = value"]...
#   --port P   first port; the daemons take P .. P+399 on 127.0.0.1 (26800)
#   --osd K    memstore (default), or bluestore in a sparse file
#   --mds N    so many active MDS (1)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/env.sh"

usage="usage: ceph-up.sh DIR [--port P] [--osd memstore|bluestore] [--mds N] [--conf \"key = value\"]..."
dir=${1:?$usage}
shift
port=26800 osd=memstore mds_count=1 extra=""
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$usage"
    case $1 in
    --port) port=$2 ;;
    --osd) osd=$2 ;;
    --mds) mds_count=$2 ;;
    --conf) extra+="$2"$'\n' ;;
    *) die "unknown option $1; $usage" ;;
    esac
    shift 2
done
for program in ceph ceph-authtool monmaptool ceph-mon ceph-osd ceph-mds; do
    have "$program" || die "$program is not there: apt-get install ceph-mon ceph-osd ceph-mds ceph-fuse"
done
mkdir -p "$dir"
dir=$(readlink -f "$dir")
[ ! -e "$dir/ceph.conf" ] || die "$dir already holds a cluster; bench/peers/ceph-down.sh $dir --purge removes it"
mkdir -p "$dir"/{log,run,crash,mon.a,osd.0}
conf="$dir/ceph.conf" keyring="$dir/keyring" fsid=$(cat /proc/sys/kernel/random/uuid)
monitor="[v2:127.0.0.1:$port/0,v1:127.0.0.1:$((port + 1))/0]"

write_conf() {
    cat >"$conf" <<CONF
[global]
fsid = $fsid
mon_host = $monitor
mon_initial_members = a
public_network = 127.0.0.0/8
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv4 = true
ms_bind_ipv6 = false
ms_bind_port_min = $((port + 10))
ms_bind_port_max = $((port + 399))
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
auth_allow_insecure_global_id_reclaim = false
keyring = $keyring
run_dir = $dir/run
admin_socket = $dir/run/\$name.\$pid.asok
log_file = $dir/log/\$name.log
log_to_stderr = false
err_to_stderr = true
crash_dir = $dir/crash
pid_file =
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_crit = 1
mon_data_avail_warn = 2
mon_clock_drift_allowed = 5
mds_log_max_segments = 128
client_mount_timeout = 30
$extra
[mon]
mon_data = $dir/mon.\$id
[mds]
mds_data = $dir/mds.\$id
[osd]
osd_data = $dir/osd.\$id
osd_objectstore = $osd
memstore_device_bytes = 8589934592
bluestore_block_size = 8589934592
bluestore_fsck_on_mount = false
osd_class_load_list = *
osd_class_default_list = *
CONF
}

cluster() { timeout -k 5 60 ceph -c "$conf" --connect-timeout 30 "$@" 2>>"$dir/log/cli.log"; }

# daemon NAME CMD...: each runs in its foreground mode, so that its process id is the one remembered.
daemon() {
    local name=$1
    shift
    setsid "$@" </dev/null >>"$dir/log/$name.out" 2>&1 &
    echo $! >"$dir/run/$name.pid"
}

# until_true SECONDS WHAT CMD...
until_true() {
    local turns=$(($1 * 10)) what=$2
    shift 2
    until "$@" >/dev/null; do
        turns=$((turns - 1))
        [ "$turns" -gt 0 ] || die "$what; look into $dir/log, and remove it all with bench/peers/ceph-down.sh $dir --purge"
        sleep 0.1
    done
}

mon() {
    ceph-authtool --create-keyring "$keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
    ceph-authtool "$keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' >/dev/null
    monmaptool --create --fsid "$fsid" --addv a "$monitor" "$dir/monmap" >/dev/null
    ceph-mon -c "$conf" -i a --mkfs --monmap "$dir/monmap" --keyring "$keyring" >>"$dir/log/mkfs.out" 2>&1
    daemon mon.a ceph-mon -c "$conf" -i a -f
    until_true 30 "the mon does not answer" cluster mon stat
}

osd_is_up() { cluster osd stat -f json | grep -q '"num_up_osds":1\b'; }

osd() {
    local id
    id=$(cat /proc/sys/kernel/random/uuid)
    cluster osd new "$id" 0 >/dev/null
    cluster auth get-or-create osd.0 mon 'allow profile osd' osd 'allow *' >"$dir/osd.0/keyring"
    ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$id" --keyring "$dir/osd.0/keyring" >>"$dir/log/mkfs.out" 2>&1
    daemon osd.0 ceph-osd -c "$conf" -i 0 -f --keyring "$dir/osd.0/keyring"
    until_true 60 "the OSD does not come up" osd_is_up
}

mds_are_active() { [ "$(cluster fs dump -f json | grep -o '"state":"up:active"' | wc -l)" = "$mds_count" ]; }

mds() {
    local at
    cluster osd pool create cephfs_meta 8 8 >/dev/null
    cluster osd pool create cephfs_data 8 8 >/dev/null
    cluster fs new cephfs cephfs_meta cephfs_data >/dev/null
    for ((at = 0; at < mds_count; at++)); do
        mkdir -p "$dir/mds.m$at"
        cluster auth get-or-create "mds.m$at" mon 'allow profile mds' osd 'allow rw tag cephfs *=*' mds allow >"$dir/mds.m$at/keyring"
        daemon "mds.m$at" ceph-mds -c "$conf" -i "m$at" -f --keyring "$dir/mds.m$at/keyring"
    done
    [ "$mds_count" = 1 ] || cluster fs set cephfs max_mds "$mds_count" >/dev/null
    until_true 60 "the MDS does not become active" mds_are_active
}

write_conf
mon
osd
mds
echo "$conf"
