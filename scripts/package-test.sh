#!/usr/bin/env bash
# Tests the packages of scripts/package.sh: the .deb in clean roots of Debian (install, mounts, fstab, upgrade while a mount is in use,
# removal, purge), the .rpm beside it, the tarball on Debian 11, the image, and that two runs give the same bytes. The roots come from a
# mirror of Debian by mmdebstrap and are kept in the cache. As root, with /dev/fuse; about a minute for each part. The unit under systemd:
# LOLIGO_DEB=FILE scripts/systemd-test.sh.
# usage: scripts/package-test.sh [PART...]    parts: bookworm trixie rpm tarball image same (all of them)
# environment: LOLIGO (built if it is not said), the program to package; LOLIGO_PACKAGES, a directory of packages that were made of it. Exit
# code 77: this machine cannot.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

ok() { say "ok: $*"; }
# check WHAT COMMAND...
check() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 || die "$what: this fails: $*"
    ok "$what"
}
same() { [ "$1" = "$2" ] || die "expected '$2', found '$1'"; }
holds() { same "$(cat "$1")" "$2"; }
# has TEXT WORDS
has() { [[ $1 = *"$2"* ]] || die "'$2' is not in: $1"; }
apt() { retry 3 env DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=3 "$@" </dev/null; }

# ---- inside a root ----

# The programs of Loligo that have DIR on their command line.
processes() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        if [[ $(readlink "$exe") = /usr/bin/loligo* ]] && tr '\0' ' ' <"${exe%/exe}/cmdline" | grep -qF -- "$1"; then basename "${exe%/exe}"; fi
    done
}
exe() { readlink "/proc/$(processes "$1" | head -n 1)/exe"; }

# A file system in use: `up` at /mnt, and a second mount at /fs by its line in fstab.
use() {
    loligo up --data /data --mount /mnt --daemon >/dev/null
    echo one >/mnt/file
    mkdir -p /fs
    echo '/data /fs loligo defaults,_netdev,nofail 0 0' >/etc/fstab
    mount /fs
    holds /fs/file one
    ok "up, and a mount from fstab"
}

inside_deb() {
    local deb=/packages/old.deb newer=/packages/new.deb said
    apt update >/dev/null
    apt install "$deb" >/dev/null 2>&1 || die "apt-get install $deb fails"
    has "$(loligo version --json)" '"version"'
    check "the user is there" id loligo
    check "the man page is there" test -s /usr/share/man/man1/loligo-up.1.gz
    check "the unit starts the program of the package" grep -q '^ExecStart=/usr/bin/loligo ' /usr/lib/systemd/system/loligo-server@.service
    check "bash reads the completions" bash -c '. /usr/share/bash-completion/completions/loligo'
    check "dpkg finds nothing changed" test -z "$(dpkg --verify loligo)"
    same "$(stat -c '%U:%G %a' /usr/bin/loligo)" "root:root 755"
    echo '# mine' >>/etc/loligo/example.env
    use

    # An upgrade, while files are open on both mounts.
    exec 7>>/mnt/open 8</fs/file
    echo before >&7
    said=$(DEBIAN_FRONTEND=noninteractive dpkg -i "$newer" 2>&1) || die "the upgrade fails: $said"
    has "$said" "the mount /fs goes on with the previous program"
    echo after >&7
    same "$(cat <&8)" one
    exec 7>&- 8<&-
    same "$(tr '\n' ' ' </fs/open)" "before after "
    same "$(exe /mnt)" "/usr/bin/loligo (deleted)"
    echo two >/mnt/file
    holds /fs/file two
    check "the changed configuration file is kept" grep -q '^# mine' /etc/loligo/example.env
    ok "open files go on through an upgrade"
    loligo umount /fs
    mount /fs
    same "$(exe "/fs")" /usr/bin/loligo
    holds /fs/open $'before\nafter'
    ok "a new mount uses the new program, with the previous server"

    # Removal.
    if said=$(DEBIAN_FRONTEND=noninteractive dpkg --remove loligo 2>&1); then die "the package is removed below a mount"; fi
    has "$said" "/fs"
    same "$(dpkg-query -W -f '${db:Status-Status}' loligo)" installed
    holds /fs/file two
    ok "it is not removed while a mount is in use"
    loligo umount /fs
    loligo down --data /data
    mkdir -p /var/lib/loligo/home
    loligo format --data /var/lib/loligo/home >/dev/null
    echo SERVE= >/etc/loligo/home.env
    apt remove loligo >/dev/null 2>&1 || die "apt-get remove fails"
    check "the program is gone" test ! -e /usr/bin/loligo -a ! -L /usr/sbin/mount.loligo
    check "the configuration is there" test -e /etc/loligo/example.env
    apt purge loligo >/dev/null 2>&1 || die "apt-get purge fails"
    check "a purge takes the configuration of the package" test ! -e /etc/loligo/example.env
    check "and leaves that of servers" test -e /etc/loligo/home.env
    check "and their data" test -d /var/lib/loligo/home/table -o -d /var/lib/loligo/home/journal
    check "and their user" id loligo
    same "$(dpkg-query -W -f '${db:Status-Status}' loligo 2>/dev/null || echo none)" none
    apt install "$deb" >/dev/null 2>&1 || die "a second installation fails"
    loligo up --data /data --mount /mnt --daemon >/dev/null
    holds /mnt/file two
    loligo down --data /data
    ok "the file system of before is there after a new installation"
}

inside_rpm() {
    local said
    apt update >/dev/null
    apt install rpm fuse3 >/dev/null 2>&1 || die "apt-get install rpm fails"
    has "$(rpm -qp --requires /packages/loligo.rpm)" "libc.so.6(GLIBC_2"
    has "$(rpm -qp --requires /packages/loligo.rpm)" fuse3
    same "$(rpm -qp --configfiles /packages/loligo.rpm)" /etc/loligo/example.env
    # The packages that it needs are Debian's here, which rpm does not know.
    rpm --install --nodeps /packages/loligo.rpm || die "rpm --install fails"
    check "the user is there" id loligo
    check "rpm finds nothing changed" test -z "$(rpm --verify --nodeps loligo)"
    use
    if said=$(rpm --erase loligo 2>&1); then die "the package is removed below a mount"; fi
    has "$said" "/fs"
    holds /fs/file one
    rpm --upgrade --force --nodeps /packages/loligo.rpm || die "rpm --upgrade fails"
    echo two >/mnt/file
    holds /fs/file two
    loligo umount /fs
    loligo down --data /data
    rpm --erase loligo || die "rpm --erase fails"
    check "the program is gone, the data are there" test ! -e /usr/bin/loligo -a -d /data
}

inside_tarball() {
    apt update >/dev/null
    apt install mount >/dev/null 2>&1 || die "apt-get install mount fails"
    tar --strip-components=1 -C /usr/local -xzf /packages/loligo.tar.gz
    ln -s /usr/local/bin/loligo /sbin/mount.loligo
    say "glibc: $(ldd --version | head -n 1)"
    use
    loligo umount /fs
    loligo down --data /data
}

# ---- outside ----

enter() { # ROOT COMMAND...: in namespaces of its own, which end with all that was started there.
    unshare --mount --pid --fork --kill-child "$LOLIGO_TOP/scripts/package-test.sh" --enter "$@"
}

entered() { # ROOT COMMAND...
    local root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mkdir -p "$root/proc" "$root/sys" "$root/dev"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}

debian() { # SUITE ROOT PART: a clean root, in which PART runs.
    local kept=$LOLIGO_CACHE/debian-$1.tar root=$2
    if [ ! -s "$kept" ]; then
        say "making a root of Debian $1 (once for this machine)"
        mmdebstrap --quiet --variant=apt "$1" "$kept.$$" "${LOLIGO_DEBIAN:-http://deb.debian.org/debian}" || die "mmdebstrap cannot make Debian $1"
        mv "$kept.$$" "$kept"
    fi
    mkdir -p "$root"
    tar -C "$root" -xf "$kept" --exclude=./dev/*
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cp -r "$scratch/packages" "$root/packages"
    mkdir -p "$root/scripts"
    cp "$LOLIGO_TOP/scripts/package-test.sh" "$LOLIGO_TOP/scripts/env.sh" "$root/scripts/"
    enter "$root" bash /scripts/package-test.sh --inside "$3"
}

newer() { # DEB NEW: the same package as a later version, with a program whose bytes differ.
    local tree=$scratch/newer
    dpkg-deb -R "$1" "$tree"
    sed -i 's/^Version: .*/&+next/' "$tree/DEBIAN/control"
    echo >>"$tree/usr/bin/loligo"
    rm "$tree/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$tree" "$2" >/dev/null
    rm -rf "$tree"
}

image() {
    local layout=$scratch/layout root=$scratch/image manifest layer digest size
    mkdir -p "$layout" "$root"
    tar -C "$layout" -xf "$scratch"/made/loligo-*-oci.tar
    same "$(jq -r .imageLayoutVersion "$layout/oci-layout")" 1.0.0
    manifest=$layout/blobs/sha256/$(jq -r '.manifests[0].digest' "$layout/index.json" | cut -d : -f 2)
    jq -r '.manifests[0] | "\(.digest) \(.size)"' "$layout/index.json" >"$scratch/blobs"
    jq -r '(.config, .layers[]) | "\(.digest) \(.size)"' "$manifest" >>"$scratch/blobs"
    while read -r digest size; do
        same "sha256:$(sha256sum <"$layout/blobs/sha256/${digest#*:}" | cut -d ' ' -f 1)" "$digest"
        same "$(stat -c %s "$layout/blobs/sha256/${digest#*:}")" "$size"
    done <"$scratch/blobs"
    layer=$layout/blobs/sha256/$(jq -r '.layers[0].digest' "$manifest" | cut -d : -f 2)
    same "sha256:$(gzip -dc "$layer" | sha256sum | cut -d ' ' -f 1)" \
        "$(jq -r '.rootfs.diff_ids[0]' "$layout/blobs/sha256/$(jq -r .config.digest "$manifest" | cut -d : -f 2)")"
    tar -C "$root" -xzf "$layer"
    enter "$root" /usr/bin/loligo up --data /data/home --mount /mnt --daemon | grep -q . || die "up fails in the image"
    enter "$root" /usr/bin/loligo fsck --data /data/home >/dev/null || die "the file system of the image is not sound"
    ok "the image: sums, and up in it"
}

same_bytes() {
    (umask 077 && TMPDIR=$scratch/elsewhere TZ=Asia/Tokyo LANG=C.UTF-8 LOLIGO=$program "$LOLIGO_TOP/scripts/package.sh" "$scratch/again" 2>/dev/null)
    cmp "$scratch/made/SHA256SUMS" "$scratch/again/SHA256SUMS" || die "two runs give different packages: $(diff "$scratch/made/SHA256SUMS" "$scratch/again/SHA256SUMS")"
    (cd "$scratch/again" && sha256sum --check --quiet SHA256SUMS)
    ok "two runs give the same bytes"
}

case ${1:-} in
--enter)
    shift
    entered "$@"
    ;;
--inside)
    "inside_$2"
    exit 0
    ;;
esac
[ "$(id -u)" = 0 ] && have unshare && fuse_usable || { skipped packages "root and mounts are needed" && exit 77; }
"$LOLIGO_TOP/scripts/setup.sh" package
have mmdebstrap || { skipped packages "mmdebstrap is not there: apt-get install mmdebstrap" && exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-package-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/packages" "$scratch/elsewhere"
if [ -n "${LOLIGO_PACKAGES:-}" ]; then cp -r "$LOLIGO_PACKAGES" "$scratch/made"; else "$LOLIGO_TOP/scripts/package.sh" "$scratch/made"; fi
program=${LOLIGO:-$(echo "$(target_dir)"/package-build/*/release/loligo)}
cp "$scratch"/made/loligo_*.deb "$scratch/packages/old.deb"
cp "$scratch"/made/loligo-*.rpm "$scratch/packages/loligo.rpm"
cp "$scratch"/made/loligo-*-linux.tar.gz "$scratch/packages/loligo.tar.gz"
newer "$scratch/packages/old.deb" "$scratch/packages/new.deb"
[ $# -gt 0 ] || set -- bookworm trixie rpm tarball image same
for part in "$@"; do
    say "== $part"
    case $part in
    bookworm | trixie) debian "$part" "$scratch/$part" deb ;;
    rpm) debian bookworm "$scratch/rpm" rpm ;;
    tarball) debian bullseye "$scratch/tarball" tarball ;;
    image) image ;;
    same) same_bytes ;;
    *) die "no such part: $part; parts: bookworm trixie rpm tarball image same" ;;
    esac
done
say "all of it came true"
