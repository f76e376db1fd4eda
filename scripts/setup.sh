#!/usr/bin/env bash
# Installs what is missing on a Debian machine. Asks nothing, and does nothing where nothing is missing.
# usage: scripts/setup.sh [build|test|bench|package]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

mode=${1:-build}
# What nothing can be built or mounted without ...
needed=(git make g++ libclang-dev fuse3)
# ... and what single checks use: without one of these its check is skipped, and says so.
case $mode in
build) wanted=() ;;
test) wanted=(attr acl sqlite3 rsync stress-ng fio procps ceph-mon ceph-osd ceph-mgr ceph-common librados2) ;;
bench) wanted=(bindfs) ;;
package) needed+=(rpm jq xz-utils binutils dpkg) wanted=(mmdebstrap) ;;
*) die "unknown mode '$mode'; usage: scripts/setup.sh [build|test|bench|package]" ;;
esac

# installed PACKAGE: by dpkg's word, or by the program that it is wanted for (a machine may have another build of it).
installed() {
    case $1 in
    git | make | g++ | sqlite3 | rsync | stress-ng | fio | bindfs | ceph-mon | ceph-osd | ceph-mgr) have "$1" && return 0 ;;
    ceph-common) have ceph && have ceph-authtool && return 0 ;;
    rpm) have rpmbuild && return 0 ;;
    jq | mmdebstrap) have "$1" && return 0 ;;
    xz-utils) have xz && return 0 ;;
    binutils) have objcopy && return 0 ;;
    dpkg) have dpkg-deb && return 0 ;;
    fuse3) have fusermount3 && return 0 ;;
    attr) have setfattr && have getfattr && return 0 ;;
    acl) have setfacl && have getfacl && return 0 ;;
    procps) have pkill && return 0 ;;
    # Both halves: the library, and the headers that belong to the compiler (without them bindgen finds no stddef.h).
    libclang-dev)
        compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null &&
            compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' >/dev/null && return 0
        ;;
    esac
    have dpkg-query && dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

missing_of() {
    local package
    for package in "$@"; do installed "$package" || echo "$package"; done
}

apt() {
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo -n)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" </dev/null >&2
}

packages() {
    mapfile -t missing < <(missing_of "${needed[@]}")
    mapfile -t optional < <(missing_of "${wanted[@]}")
    [ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || return 0

    local all=("${missing[@]}" "${optional[@]}")
    say "missing: ${all[*]}"
    if ! have apt-get; then
        cannot "this is not a Debian machine"
    elif [ "$(id -u)" != 0 ] && ! { have sudo && sudo -n true 2>/dev/null; }; then
        cannot "you are not root, and sudo wants a password or is not there"
    else
        retry 3 apt update -q || say "apt-get update failed; trying with the lists that are there"
        retry 2 apt install -qy --no-install-recommends "${all[@]}" || one_by_one "${all[@]}"
    fi
    mapfile -t missing < <(missing_of "${needed[@]}")
    [ ${#missing[@]} = 0 ] || die "cannot build without: ${missing[*]}. As root: apt-get install ${missing[*]}"
    mapfile -t optional < <(missing_of "${wanted[@]}")
    [ ${#optional[@]} = 0 ] || say "warning: not installed, the checks that use them will be skipped: ${optional[*]}"
}

# One package that cannot be had must not take the others with it.
one_by_one() {
    local package
    for package in "$@"; do apt install -qy --no-install-recommends "$package" || say "could not install $package"; done
}

cannot() {
    say "cannot install packages: $1. As root: apt-get install ${missing[*]} ${optional[*]}"
    [ ${#missing[@]} = 0 ] || exit 1
}

toolchain() {
    have cargo && have rustc || die "no Rust toolchain found (looked for cargo and rustc in PATH and ~/.cargo/bin).
  Install it:  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    local wanted_version have_version
    wanted_version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$LOLIGO_TOP/Cargo.toml" | head -n 1)
    have_version=$(rustc --version | awk '{ print $2 }')
    [ "$(printf '%s\n%s\n' "$wanted_version" "${have_version%%-*}" | sort -V | head -n 1)" = "$wanted_version" ] ||
        die "rustc $have_version is too old, $wanted_version is needed. Update it:  rustup update stable"
    [ "$mode" = test ] || return 0
    local part
    for part in rustfmt clippy; do
        case $part in rustfmt) cargo fmt --version ;; clippy) cargo clippy --version ;; esac >/dev/null 2>&1 && continue
        if have rustup; then retry 3 rustup component add "$part" >&2 || true; fi
    done
}

packages
toolchain
