#!/usr/bin/env bash
# Boots other Linux kernels (Debian's packages) in a virtual machine, over this machine's files (read only, changes in memory), and runs the
# tests of the mount in it: with the kernels that people have, not with the one that is here. Builds nothing: see --profile.
# usage: scripts/kernels.sh [--profile ci] [--shell COMMAND] [KERNEL...]
#        KERNEL: a package (linux-image-6.12-amd64), a .deb, or `6.1`, `6.12` (the default: both). Needs root for apt and 9p.
#        --shell COMMAND: runs this in the machine instead of the tests. LOLIGO_KVM=1: with the processor's help.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

profile=ci command=
while [ $# -gt 0 ]; do
    case $1 in
    --profile) profile=$2 && shift 2 ;;
    --shell) command=$2 && shift 2 ;;
    --*) die "unknown option '$1'; usage: scripts/kernels.sh [--profile ci] [--shell COMMAND] [KERNEL...]" ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || set -- 6.1 6.12
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod; do
    have "${tool%%:*}" || apt-get install -y "${tool##*:}" >/dev/null || die "${tool%%:*} is missing: install ${tool##*:}"
done
cache=$LOLIGO_CACHE/kernels
mkdir -p "$cache"
built=$(target_dir)/$profile

# package_of KERNEL: the file with its package.
package_of() {
    local name=$1 real
    case $name in
    *.deb) realpath "$name" && return ;;
    6.1) name=linux-image-amd64 ;;
    [0-9]*) name=linux-image-$name-amd64 ;;
    esac
    # The name stands for the newest of its line.
    real=$(apt-cache depends "$name" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    (cd "$cache" && apt-get -q download "${real:-$name}" >/dev/null 2>&1) || [ -n "$(compgen -G "$cache/${real:-$name}_*.deb")" ] ||
        die "apt has no package $name (run apt-get update)"
    compgen -G "$cache/${real:-$name}_*.deb" | sort -V | tail -n 1
}

# boot DEB: its kernel, with what is in $run as the first program after this machine's root is there.
boot() {
    local deb=$1 dir=$cache/$(basename "$1" .deb) version
    [ -d "$dir/boot" ] || { dpkg-deb -x "$deb" "$dir.new" && rm -rf "$dir" && mv "$dir.new" "$dir"; }
    # Newer packages have their modules below usr.
    [ -d "$dir/lib" ] || ln -s usr/lib "$dir/lib"
    version=$(basename "$dir"/lib/modules/*)
    depmod -b "$dir" "$version"
    local root
    root=$(mktemp -d "${TMPDIR:-/tmp}/loligo-kernel.XXXXXX")
    mkdir -p "$root"/{bin,dev,proc,sys,modules,lower,upper,new}
    cp "$(command -v busybox)" "$root/bin/busybox"
    : >"$root/modules/order"
    for module in virtio_pci 9p 9pnet_virtio overlay fuse loop ext4; do
        modprobe -d "$dir" -S "$version" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r file; do
            grep -qx "$(basename "$file" .xz)" "$root/modules/order" && continue
            case $file in
            *.xz) xz -dc "$file" >"$root/modules/$(basename "$file" .xz)" ;;
            *) cp "$file" "$root/modules/" ;;
            esac
            basename "$file" .xz >>"$root/modules/order"
        done
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc; busybox mount -t sysfs sys /sys; busybox mount -t devtmpfs dev /dev
while read -r m; do busybox insmod /modules/$m; done </modules/order
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /lower || echo "no 9p"
busybox mount -t tmpfs -o size=80% tmpfs /upper; busybox mkdir /upper/u /upper/w
busybox mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /new || echo "no overlay"
for d in proc sys dev; do busybox mount --move /$d /new/$d; done
busybox mount -t tmpfs tmpfs /new/tmp; busybox mount -t tmpfs tmpfs /new/run
busybox mkdir -p /new/dev/pts /new/dev/shm; busybox mount -t devpts devpts /new/dev/pts; busybox mount -t tmpfs shm /new/dev/shm
busybox cp /run.sh /new/run/loligo-run.sh
busybox ifconfig lo up
busybox chroot /new /bin/bash /run/loligo-run.sh </new/dev/null
echo "LOLIGO-KERNEL-STATUS $?"
busybox poweroff -f
INIT
    chmod +x "$root/init"
    cp "$run" "$root/run.sh"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.img"
    # Without LOLIGO_KVM=1 the processor is emulated: that works everywhere, also in a machine that is virtual itself.
    local accel=tcg cpu=max
    [ -n "${LOLIGO_KVM:-}" ] && accel=kvm cpu=host,arch-capabilities=off
    say "booting Linux $version ($accel)"
    local log=$cache/$version.log
    timeout "${LOLIGO_KERNEL_SECONDS:-1800}" qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp 2 -m 6G -nographic -no-reboot -nodefaults -serial stdio \
        -kernel "$dir/boot/vmlinuz-$version" -initrd "$root.img" -append "console=ttyS0 quiet panic=-1" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null 2>&1 | tee "$log" || true
    rm -rf "$root" "$root.img"
    grep -q 'LOLIGO-KERNEL-STATUS 0' "$log" || { say "Linux $version: FAILED; log: $log"; return 1; }
    say "Linux $version: ok"
}

# test_binary PATTERN: the newest test program of that name.
test_binary() { find "$built/deps" -maxdepth 1 -name "$1-*" ! -name '*.d' -perm -u+x -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2; }

run=$(mktemp)
trap 'rm -f "$run"' EXIT
{
    echo 'set -e; export HOME=/root LOLIGO_REQUIRE_MOUNT=1 RUST_BACKTRACE=0 TERM=dumb'
    printf 'export PATH=%q\n' "$PATH"
    echo 'uname -r; ulimit -n 65536; mkdir -p /tmp/t; export TMPDIR=/tmp/t'
    if [ -n "$command" ]; then
        printf '%s\n' "$command"
    else
        for suite in mount:names mount:mechanics mount:pages e2e:two_mounts e2e:shared_files; do
            binary=$(test_binary "${suite#*:}")
            [ -n "$binary" ] || die "no test program ${suite#*:} in $built/deps: cargo build --profile $profile --tests --examples"
            printf 'cd %q; %q --test-threads 2\n' "$LOLIGO_TOP/crates/${suite%:*}" "$binary"
        done
    fi
} >"$run"
failed=0
for kernel in "$@"; do boot "$(package_of "$kernel")" || failed=1; done
exit $failed
