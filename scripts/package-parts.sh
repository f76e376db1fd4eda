# Sourced by scripts/package.sh: one function for each package. They share its variables version, arch, commit and SOURCE_DATE_EPOCH, and
# read the directory WORK: the program `loligo`, `loligo.debug`, the installed tree in `tree`; packages go to WORK/out.
# shellcheck shell=bash disable=SC2154

SIZE_MAX=$((40 << 20))
# glibc of the oldest supported systems: Debian 11, Ubuntu 20.04; newer ones have RHEL 9 and SUSE 15.6 or later.
GLIBC_MAX=2.31
LIBRARIES='libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libgcc_s.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'
SUMMARY="POSIX file system whose directories choose their own rules"
HOMEPAGE="https://github.com/loligo-fs/loligo"

# split_symbols PROGRAM WORK
split_symbols() {
    objcopy --only-keep-debug --compress-debug-sections "$1" "$2/loligo.debug"
    objcopy --strip-all --remove-section=.comment "$1" "$2/loligo"
    (cd "$2" && objcopy --add-gnu-debuglink=loligo.debug loligo)
    chmod 755 "$2/loligo"
    chmod 644 "$2/loligo.debug"
    local size
    size=$(stat -c %s "$2/loligo")
    [ "$size" -le "$SIZE_MAX" ] || die "the program has $size bytes without symbols, more than $SIZE_MAX"
}

# checked_glibc PROGRAM: prints the oldest glibc that it runs on.
checked_glibc() {
    local needed library glibc
    needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
    for library in $needed; do
        case " $LIBRARIES " in
        *" $library "*) ;;
        *) die "the program needs $library, which not every system has; it must be linked as scripts/old-glibc.sh says" ;;
        esac
    done
    # Weak symbols are looked for at run time.
    glibc=$(objdump -T "$1" | grep -F '*UND*' | grep -v ' w ' | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
    glibc=${glibc#GLIBC_}
    [ "$(printf '%s\n' "$glibc" "$GLIBC_MAX" | sort -V | tail -n 1)" = "$GLIBC_MAX" ] ||
        die "the program needs glibc $glibc, more than $GLIBC_MAX; it must be linked as scripts/old-glibc.sh says"
    echo "$glibc"
}

# stage WORK TREE: installs everything below TREE, as the .deb has it.
stage() {
    local tree=$2 share=$2/usr/share
    install -D -m 755 "$1/loligo" "$tree/usr/bin/loligo"
    mkdir -p "$tree/usr/sbin" "$share/man/man8" "$share/doc/loligo"
    ln -s ../bin/loligo "$tree/usr/sbin/mount.loligo"
    ln -s ../bin/loligo "$tree/usr/sbin/mount.fuse.loligo"
    install -d "$tree/usr/lib/systemd/system"
    sed 's#/usr/local/bin/#/usr/bin/#' deploy/loligo-server@.service >"$tree/usr/lib/systemd/system/loligo-server@.service"
    install -D -m 644 deploy/sysusers.conf "$tree/usr/lib/sysusers.d/loligo.conf"
    install -D -m 644 deploy/example.env "$tree/etc/loligo/example.env"

    "$1/loligo" man "$share/man/man1"
    install -m 644 packaging/mount.loligo.8 "$share/man/man8/"
    ln -s mount.loligo.8.gz "$share/man/man8/mount.fuse.loligo.8.gz"
    mkdir -p "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "$1/loligo" completions bash >"$share/bash-completion/completions/loligo"
    "$1/loligo" completions zsh >"$share/zsh/vendor-completions/_loligo"
    "$1/loligo" completions fish >"$share/fish/vendor_completions.d/loligo.fish"

    copyright >"$share/doc/loligo/copyright"
    licences >"$share/doc/loligo/third-party-licences"
    install -m 644 CHANGELOG.md "$share/doc/loligo/changelog"
    gzip -9n "$share/doc/loligo/changelog" "$share/doc/loligo/third-party-licences"
    find "$share/man" -type f -exec gzip -9n {} +
    find "$tree" -type d -exec chmod 755 {} +
    find "$tree" -type f ! -path '*/bin/*' -exec chmod 644 {} +
}

copyright() {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: loligo\nSource: %s\n\n' "$HOMEPAGE"
    printf 'Files: *\nCopyright: The authors of Loligo\nLicense: Apache-2.0\n'
    printf ' On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.\n'
    printf ' Licences of the libraries that are linked in: third-party-licences.gz.\n'
}

# components: the crates that the program contains, as JSON of cargo, sorted.
components() {
    cargo metadata --format-version 1 --locked --offline --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" | jq '
        (.resolve.nodes | map({key: .id, value: .}) | from_entries) as $nodes
        | (.packages | map({key: .id, value: .}) | from_entries) as $packages
        | def grow: . as $known
            | ([.[] | $nodes[.].deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg] + $known | unique) as $more
            | if ($more | length) == ($known | length) then . else $more | grow end;
        [.packages[] | select(.name == "loligo-cli") | .id] | grow | map($packages[.]) | sort_by(.name, .version)'
}

# licences: the texts of all licences of libraries, which those want in each copy.
licences() {
    local name manifest file
    components | jq -r '.[] | select(.source != null) | "\(.name) \(.version) (\(.license // "see below"))\t\(.manifest_path)"' |
        while IFS=$'\t' read -r name manifest; do
            printf '==== %s\n' "$name"
            find "$(dirname "$manifest")" -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \) ! -name '*.rs' | sort |
                while read -r file; do
                    printf -- '---- %s\n' "$(realpath --relative-to "$(dirname "$manifest")" "$file")"
                    cat "$file"
                done
        done
}

# make_deb WORK GLIBC
make_deb() {
    local tree=$1/deb architecture script
    architecture=$(dpkg --print-architecture)
    cp -a "$1/tree" "$tree"
    mkdir -p "$tree/DEBIAN"
    for script in postinst prerm postrm; do
        { printf '#!/bin/sh\nset -e\n' && cat packaging/steps.sh "packaging/deb/$script"; } >"$tree/DEBIAN/$script"
        chmod 755 "$tree/DEBIAN/$script"
    done
    (cd "$tree" && find etc -type f | sort | sed 's#^#/#') >"$tree/DEBIAN/conffiles"
    (cd "$tree" && find usr -type f | sort | xargs -d '\n' md5sum) >"$tree/DEBIAN/md5sums"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: loligo
Version: $version
Architecture: $architecture
Maintainer: The authors of Loligo <loligo@invalid>
Installed-Size: $(du -sk --apparent-size "$1/tree" | cut -f 1)
Depends: libc6 (>= $2), libgcc-s1 | libgcc1, fuse3, passwd
Suggests: librados2 (>= 16)
Section: admin
Priority: optional
Homepage: $HOMEPAGE
Description: $SUMMARY
 Loligo is a POSIX file system with many metadata servers, on a disk of one
 machine or on a Ceph cluster. Each directory has its own rules of consistency,
 durability and placement. The package has the program for servers, mounts
 (FUSE) and administration.
CONTROL
    find "$tree/DEBIAN" -type f ! -name 'p*' -exec chmod 644 {} +
    # One thread: with several the bytes depend on their number.
    dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$tree" "$1/out/loligo_${version}_$architecture.deb" >&2
}

# make_rpm WORK: with rpm's own rpmbuild, which finds the needed symbol versions of libraries itself.
make_rpm() {
    local top=$1/rpm tree=$1/rpm/tree script
    mkdir -p "$top/scripts"
    for script in post preun postun; do
        { echo 'set -e' && cat packaging/steps.sh "packaging/rpm/$script"; } >"$top/scripts/$script"
    done
    cp -a "$1/tree" "$tree"
    # Other places than Debian's.
    mkdir -p "$tree/usr/share/zsh/site-functions" "$tree/usr/share/licenses/loligo"
    mv "$tree/usr/share/zsh/vendor-completions/_loligo" "$tree/usr/share/zsh/site-functions/"
    rmdir "$tree/usr/share/zsh/vendor-completions"
    mv "$tree/usr/share/doc/loligo/third-party-licences.gz" "$tree/usr/share/licenses/loligo/"
    install -m 644 LICENSE "$tree/usr/share/licenses/loligo/LICENSE"
    rm "$tree/usr/share/doc/loligo/copyright"
    # rpmbuild reads the times of files; those of later than the commit become the commit's.
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    rpmbuild -bb --quiet --target "$arch-linux" --buildroot "$top/root" \
        --define "_topdir $top" --define "_rpmdir $top/out" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
        --define "_buildhost loligo" --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
        --define "_binary_payload w6.xzdio" --define "_build_id_links none" --define "_unitdir /usr/lib/systemd/system" \
        --define "loligo_version $version" --define "loligo_tree $tree" --define "loligo_scripts $top/scripts" --define "loligo_url $HOMEPAGE" --define "loligo_summary $SUMMARY" \
        --define "__os_install_post %{nil}" --define "debug_package %{nil}" --dbpath "$top/db" packaging/loligo.spec >&2 ||
        die "rpmbuild failed; what it says is above"
    mv "$top/out/"*.rpm "$1/out/"
}

# archive DIR FILE [NAME...]: a tar file that depends on the contents only.
archive() {
    local dir=$1 file=$2
    shift 2
    tar --create --file "$file" --directory "$dir" --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
        --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -- "${@:-.}"
}

# make_tarball WORK: a prefix, for `tar --strip-components=1 -C /usr/local`. Not xz, which a small system lacks.
make_tarball() {
    local name=loligo-$version-$arch-linux
    mkdir "$1/tarball"
    cp -a "$1/tree/usr" "$1/tarball/$name"
    local dir=$1/tarball/$name
    rm -r "$dir/sbin" "$dir/share/man/man8/mount.fuse.loligo.8.gz"
    mkdir -p "$dir/share/zsh/site-functions"
    mv "$dir/share/zsh/vendor-completions/_loligo" "$dir/share/zsh/site-functions/"
    rmdir "$dir/share/zsh/vendor-completions"
    cp deploy/loligo-server@.service "$dir/lib/systemd/system/"
    install -m 644 LICENSE deploy/example.env "$dir/share/doc/loligo/"
    archive "$1/tarball" "$1/tarball.tar" "$name"
    gzip -9n <"$1/tarball.tar" >"$1/out/$name.tar.gz"
}

# make_debug WORK: symbols where gdb looks for them, by the build id.
make_debug() {
    local id place
    id=$(objdump -s -j .note.gnu.build-id "$1/loligo" | awk '/^ / { print $2 $3 $4 $5 }' | tr -d '\n' | cut -c 33-72)
    [[ $id =~ ^[0-9a-f]{40}$ ]] || die "the program has no build id; it must be linked with --build-id=sha1"
    place=usr/lib/debug/.build-id/${id:0:2}
    mkdir -p "$1/debug/$place"
    cp "$1/loligo.debug" "$1/debug/$place/${id:2}.debug"
    archive "$1/debug" "$1/debug.tar" usr
    xz -T1 -2 <"$1/debug.tar" >"$1/out/loligo-$version-$arch-linux-debug.tar.xz"
}

# blob DIR FILE TYPE: moves FILE to the blobs of the image in DIR and prints its descriptor.
blob() {
    local sum size
    sum=$(sha256sum <"$2" | cut -d ' ' -f 1)
    size=$(stat -c %s "$2")
    mv "$2" "$1/blobs/sha256/$sum"
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%s}' "$3" "$sum" "$size"
}

# make_image WORK: an OCI layout in a tar file with one layer: the program and the libraries that it needs, of this machine. Root mounts
# without fusermount3, so no other program is in it.
make_image() {
    local root=$1/image/root layout=$1/image/layout library created diff layer config manifest
    mkdir -p "$root"/{etc,tmp,usr/bin,var/lib/loligo,var/log,data,mnt} "$layout/blobs/sha256"
    chmod 1777 "$root/tmp"
    install -m 755 "$1/loligo" "$root/usr/bin/loligo"
    ldd "$1/loligo" | grep -o '/[^ ]*' | sort -u | while read -r library; do install -D -m 755 "$library" "$root$library"; done
    install -D -m 644 "$1/tree/usr/share/doc/loligo/copyright" "$root/usr/share/doc/loligo/copyright"
    cp "$1/tree/usr/share/doc/loligo/third-party-licences.gz" "$root/usr/share/doc/loligo/"
    for library in libc6 libgcc-s1; do install -D -m 644 "/usr/share/doc/$library/copyright" "$root/usr/share/doc/$library/copyright"; done
    printf 'root:x:0:0:root:/:/usr/bin/loligo\nloligo:x:999:999:Loligo file system:/var/lib/loligo:/usr/bin/loligo\n' >"$root/etc/passwd"
    printf 'root:x:0:\nloligo:x:999:\n' >"$root/etc/group"
    printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
    archive "$root" "$1/image/layer.tar"
    diff=$(sha256sum <"$1/image/layer.tar" | cut -d ' ' -f 1)
    gzip -9n "$1/image/layer.tar"
    layer=$(blob "$layout" "$1/image/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)
    created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    jq -cn --arg created "$created" --arg arch "$(dpkg --print-architecture)" --arg diff "sha256:$diff" --arg version "$version" --arg commit "$commit" '{
        created: $created, architecture: $arch, os: "linux",
        config: {Entrypoint: ["/usr/bin/loligo"], Cmd: ["help"], Env: ["PATH=/usr/bin"], WorkingDir: "/", StopSignal: "SIGTERM",
            Labels: {"org.opencontainers.image.title": "loligo", "org.opencontainers.image.version": $version,
                "org.opencontainers.image.revision": $commit, "org.opencontainers.image.licenses": "Apache-2.0"}},
        rootfs: {type: "layers", diff_ids: [$diff]}, history: [{created: $created, created_by: "scripts/package.sh"}]}' >"$1/image/config"
    config=$(blob "$layout" "$1/image/config" application/vnd.oci.image.config.v1+json)
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$config" "$layer" >"$1/image/manifest"
    manifest=$(blob "$layout" "$1/image/manifest" application/vnd.oci.image.manifest.v1+json)
    jq -cn --argjson manifest "$manifest" --arg version "$version" \
        '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
          manifests: [$manifest + {annotations: {"org.opencontainers.image.ref.name": $version}}]}' >"$layout/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    archive "$layout" "$1/out/loligo-$version-$arch-oci.tar" blobs index.json oci-layout
}

# make_sbom: CycloneDX 1.5 on stdout. The components of C++ are those of librocksdb-sys (version of RocksDB after the +), mlua-sys (Luau)
# and the compiler's library.
make_sbom() {
    components | jq -S --arg version "$version" --arg commit "$commit" --arg compiler "$(c++ -dumpfullversion)" \
        --arg time "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" '
        def component: {type: "library", name, version, "bom-ref": "pkg:cargo/\(.name)@\(.version)", purl: "pkg:cargo/\(.name)@\(.version)"}
            + (if .license then {licenses: [{expression: (.license | gsub(" */ *"; " OR "))}]} else {} end);
        {bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
         metadata: {timestamp: $time, component: {type: "application", name: "loligo", version: $version, "bom-ref": "loligo",
            licenses: [{expression: "Apache-2.0"}], properties: [{name: "commit", value: $commit}]}},
         components: (map(select(.source != null) | component)
            + [{type: "library", name: "libstdc++", version: $compiler, "bom-ref": "libstdc++",
                licenses: [{expression: "GPL-3.0-or-later WITH GCC-exception-3.1"}]}])}'
}
