#!/usr/bin/env bash
# Real programs on DIR: each check is a function below, named for what it does; every one works in a directory of its
# own and compares what came out. A check whose tools are missing is skipped by name; the last lines are a summary.
# usage: scripts/suite-tools.sh DIR [check...]     environment: CHECK_SECONDS, the bound of one check (300);
# STRESSOR_SECONDS, that of one stressor (40); STRESSOR_RUN, how many seconds one stressor works (2); SUITE_OTHER, the same directory DIR through another mount: what each check has
# made is compared there, and removed there
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

CHECKS=(git_history git_project c_build sqlite_journals rsync_tree tar_tree copy_and_remove file_locks xattrs acls
    stressors sparse_files renames hard_links special_files long_names concurrent_appends open_after_unlink fio_verify)

# ---- what the checks share; in a check, `set -e` is on, $work is a fresh directory on DIR and $off one beside it ----

SKIP=77
skip() { say "  skipped: $*" && exit $SKIP; }
need() { for program in "$@"; do have "$program" || skip "$program is not installed"; done; }
fail() { say "  wrong: $*" && exit 1; }
# same A B WHAT: two words must be equal.
same() { [ "$1" = "$2" ] || fail "$3: got '$1', expected '$2'"; }
# refused CMD...: the command must fail.
refused() { if "$@" >/dev/null 2>&1; then fail "not refused: $*"; fi; }
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
# modes: kind, mode, size, mtime and target of everything below $1.
modes() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %s %Ts %l\n' | sed -E 's/^(.* d [0-7]+) [0-9]+ /\1 /' | sort); }

# source_of CRATE: its unpacked source in cargo's registry.
source_of() {
    local found
    found=$(compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/src/*/$1-$(locked_version "$1")" | sed -n 1p)
    [ -n "$found" ] || skip "the source of $1 is not in cargo's registry"
    echo "$found"
}

same_tree() {
    diff -r --no-dereference "$1" "$2" >&2 || fail "$2 differs from $1"
    cmp <(sums "$1") <(sums "$2") || fail "checksums of $2 differ from $1"
}

git_setup() {
    need git
    export GIT_CONFIG_GLOBAL="$off/gitconfig" GIT_CONFIG_NOSYSTEM=1
    printf '[user]\n name = Suite\n email = suite@example.org\n[safe]\n directory = *\n[init]\n defaultBranch = main\n[gc]\n autoDetach = false\n[advice]\n detachedHead = false\n' >"$GIT_CONFIG_GLOBAL"
}

# ---- the checks ----

# A repository made commit by commit, with a branch and a merge; cloned, repacked, verified.
check_git_history() {
    git_setup
    git init -q "$work/repo"
    cd "$work/repo"
    local number
    for number in $(seq 1 250); do
        mkdir -p "dir$((number % 17))"
        echo "line $number" >>"dir$((number % 17))/file$((number % 5))"
        head -c $((number * 37)) /dev/zero | tr '\0' "$((number % 10))" >"blob$((number % 23))"
        git add -A
        git commit -q -m "commit $number"
        if [ "$number" = 100 ]; then git branch side; fi
    done
    git checkout -q side
    echo side >side-file
    git add -A && git commit -q -m side
    git checkout -q main
    git merge -q -m merge side
    same "$(git rev-list --count HEAD)" 252 "number of commits"
    git fsck --full --strict
    git clone -q --no-local "$work/repo" "$work/clone"
    git clone -q "$work/repo" "$work/linked"
    git gc -q --aggressive --prune=now
    git fsck --full --strict
    git -C "$work/clone" fsck --full --strict
    same "$(git -C "$work/clone" rev-parse HEAD)" "$(git rev-parse HEAD)" "head of the clone"
    same "$(git -C "$work/linked" status --porcelain | wc -l)" 0 "changes in a fresh clone"
    diff -r --exclude=.git "$work/repo" "$work/clone"
    git -C "$work/clone" checkout -q HEAD~200
    git -C "$work/clone" checkout -q main
    same "$(git -C "$work/clone" status --porcelain | wc -l)" 0 "changes after going back and forth"
}

# This project's own history: clone onto DIR, verify, and clone back.
check_git_project() {
    git_setup
    git -C "$LOLIGO_TOP" rev-parse HEAD >/dev/null 2>&1 || skip "this checkout has no history"
    git clone -q --no-local "$LOLIGO_TOP" "$work/project"
    git -C "$work/project" fsck --full
    git -C "$work/project" gc -q
    git clone -q --no-local "$work/project" "$off/back"
    same "$(git -C "$off/back" rev-parse HEAD)" "$(git -C "$LOLIGO_TOP" rev-parse HEAD)" "head after two clones"
    same_tree_without_git "$work/project" "$off/back"
}
same_tree_without_git() { diff -r --no-dereference --exclude=.git "$1" "$2" || fail "$2 differs from $1"; }

# A C project: build, run, rebuild nothing, rebuild what a header touches.
check_c_build() {
    need cc make
    local lz4
    lz4=$(source_of lz4-sys)
    cp -r "$lz4/liblz4" "$work/lz4"
    chmod -R u+w "$work/lz4"
    cd "$work/lz4/programs"
    make -j2 lz4 >"$off/make.log" 2>&1 || { tail -n 20 "$off/make.log" >&2 && fail "make"; }
    head -c 3000000 /dev/urandom >"$work/random"
    seq 1 400000 >"$work/text"
    local file
    for file in random text; do
        ./lz4 -q -f -9 "$work/$file" "$work/$file.lz4"
        ./lz4 -q -f -d "$work/$file.lz4" "$work/$file.back"
        cmp "$work/$file" "$work/$file.back"
    done
    # Times of files must tell make the truth.
    cd "$work"
    printf 'all: out\nout: in.o\n\tcc -o out in.o\nin.o: in.c in.h\n\tcc -c in.c\n' >Makefile
    echo 'int value(void);' >in.h
    printf '#include "in.h"\nint value(void) { return 0; }\nint main(void) { return value(); }\n' >in.c
    make -s && ./out
    make -q || fail "make wants to build again what is built"
    touch -d '+2 seconds' in.h
    if make -q; then fail "make does not see a newer header"; fi
}

# SQLite in its five journal modes, with two writers at a time (fcntl locks), crash-safe settings, integrity checked.
check_sqlite_journals() {
    need sqlite3
    local mode db
    for mode in delete truncate persist wal memory; do
        db="$work/$mode.db"
        # In WAL mode the index is shared memory, which needs shared writable maps of a file: where the file system
        # refuses those SQLite says so and stays in another mode, and this comparison fails.
        same "$(sqlite3 "$db" "pragma journal_mode=$mode;")" "$mode" "journal mode"
        sqlite3 "$db" "create table t(id integer primary key, who text, body blob); create index by_who on t(who);"
        {
            echo ".timeout 60000"
            echo "pragma journal_mode=$mode;"
            seq 1 60 | sed 's/.*/insert into t(who, body) values("a", randomblob(3000));/'
            echo "begin; delete from t where who = 'none'; insert into t(who) values('rolled back'); rollback;"
        } | sqlite3 "$db" >/dev/null &
        local first=$!
        {
            echo ".timeout 60000"
            echo "pragma journal_mode=$mode;"
            seq 1 60 | sed 's/.*/insert into t(who, body) values("b", randomblob(3000));/'
        } | sqlite3 "$db" >/dev/null
        wait "$first"
        same "$(sqlite3 "$db" "pragma integrity_check;")" ok "integrity in mode $mode"
        same "$(sqlite3 "$db" "select count(*) from t;")" 120 "rows in mode $mode"
        sqlite3 "$db" "update t set body = zeroblob(10) where id % 2; vacuum;"
        same "$(sqlite3 "$db" "pragma integrity_check; select sum(length(body)) from t;" | tr '\n' ' ')" "ok 180600 " "after vacuum in mode $mode"
        cp "$db" "$off/copy.db"
        same "$(sqlite3 "$off/copy.db" "select count(*) from t;")" 120 "rows in a copy of mode $mode"
    done
}

# A large real tree by rsync: in, compared, again (nothing to do), and changed.
check_rsync_tree() {
    need rsync
    local tree
    tree=$(source_of librocksdb-sys)
    rsync -a "$tree/" "$work/tree/"
    same_tree "$tree" "$work/tree"
    cmp <(modes "$tree") <(modes "$work/tree") || fail "modes, sizes or times differ"
    same "$(rsync -a --itemize-changes "$tree/" "$work/tree/" | wc -l)" 0 "files that a second rsync wants to send"
    same "$(rsync -a --checksum --itemize-changes "$tree/" "$work/tree/" | wc -l)" 0 "files whose checksums differ"
    local victim
    victim=$(cd "$tree" && find . -name '*.cc' -size +20k | sort | sed -n 1p)
    printf 'changed' | dd of="$work/tree/$victim" bs=1 seek=777 conv=notrunc status=none
    touch "$work/tree/not-in-the-source"
    rsync -a --checksum --delete "$tree/" "$work/tree/"
    same_tree "$tree" "$work/tree"
}

# The same tree through tar, both ways, with a stream that is longer than any buffer.
check_tar_tree() {
    need tar
    local tree
    tree=$(source_of librocksdb-sys)
    mkdir "$work/out" "$off/out"
    tar -C "$tree" -cf "$work/tree.tar" .
    tar -C "$work/out" -xpf "$work/tree.tar"
    same_tree "$tree" "$work/out"
    tar -C "$work/out" -cf - . | tar -C "$off/out" -xpf -
    same_tree "$tree" "$off/out"
    tar -C "$work/out" --compare -f "$work/tree.tar"
}

# cp -a, find, rm -rf on thousands of files; the tree is empty afterwards.
check_copy_and_remove() {
    local tree files
    tree=$(source_of librocksdb-sys)
    cp -a "$tree" "$work/one"
    cp -a "$work/one" "$work/two"
    same_tree "$work/one" "$work/two"
    cmp <(modes "$work/one") <(modes "$work/two")
    files=$(find "$tree" -type f | wc -l)
    same "$(find "$work/two" -type f | wc -l)" "$files" "files found"
    same "$(find "$work/two" -name '*.h' -delete -print | wc -l)" "$(find "$tree" -name '*.h' | wc -l)" "headers removed"
    chmod -R u+w "$work"
    rm -rf "$work/one" "$work/two"
    same "$(find "$work" | wc -l)" 1 "entries left"
    mkdir "$work/many"
    (cd "$work/many" && seq -f 'file-%.0f' 1 3000 | xargs touch)
    same "$(find "$work/many" -mindepth 1 | wc -l)" 3000 "files in a directory of 3000"
    rm -rf "$work/many"
    [ ! -e "$work/many" ] || fail "rm -rf left the directory"
}

# flock between processes: exclusive, shared, waiting, released by the death of the holder.
check_file_locks() {
    need flock
    local lock="$work/lock" holder
    echo 0 >"$work/count"
    local worker workers=()
    for worker in 1 2 3 4; do
        (for _ in $(seq 1 50); do
            flock "$lock" sh -c 'read -r n <"$0"; echo $((n + 1)) >"$0"' "$work/count"
        done) &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do wait "$worker"; done
    same "$(cat "$work/count")" 200 "a counter under a lock"

    mkfifo "$off/held" "$off/go"
    flock "$lock" sh -c 'echo held >"$0"; read -r _ <"$1"' "$off/held" "$off/go" &
    holder=$!
    read -r _ <"$off/held"
    refused flock -n "$lock" true
    refused flock -n -s "$lock" true
    refused flock -w 0.3 "$lock" true
    echo go >"$off/go"
    wait "$holder"
    flock -n "$lock" true || fail "the lock is not free after its holder ended"
    flock -s "$lock" flock -n -s "$lock" true || fail "two shared locks exclude each other"
    refused flock -s "$lock" flock -n -x "$lock" true

    # A holder that is killed lets go.
    flock -x "$lock" sh -c 'echo held >"$0"; exec sleep 300' "$off/held" &
    holder=$!
    read -r _ <"$off/held"
    refused flock -n "$lock" true
    pkill -KILL -P "$holder" 2>/dev/null || true
    kill -KILL "$holder" 2>/dev/null || true
    wait "$holder" 2>/dev/null || true
    flock -w 10 "$lock" true || fail "the lock of a killed process is still held"
}

# Extended attributes: set, list, read back bytes, replace, remove, kept by cp -a, refused where they must be.
check_xattrs() {
    need setfattr getfattr
    cd "$work"
    echo data >file
    setfattr -n user.text -v 'some words' file || skip "no user attributes on this file system"
    setfattr -n user.bytes -v 0x00ff10000a file
    setfattr -n user.empty file
    same "$(getfattr --absolute-names -n user.text --only-values file)" 'some words' "a value"
    same "$(getfattr -n user.bytes -e hex file | sed -n 's/^user.bytes=//p')" 0x00ff10000a "bytes of a value"
    same "$(getfattr -d file | grep -c '^user\.')" 3 "attributes listed"
    setfattr -n user.text -v other file
    same "$(getfattr -n user.text --only-values file)" other "a replaced value"
    cp -a file copy
    same "$(getfattr -d -m - copy | grep -v '^#' | sort)" "$(getfattr -d -m - file | grep -v '^#' | sort)" "attributes of cp -a"
    setfattr -x user.bytes file
    refused getfattr -n user.bytes file
    refused setfattr -x user.bytes file
    setfattr -n user.big -v "$(head -c 2000 /dev/zero | tr '\0' x)" file
    same "$(getfattr -n user.big --only-values file | wc -c)" 2000 "length of a long value"
    local number
    for number in $(seq 1 20); do setfattr -n "user.many.$number" -v "$number" file; done
    same "$(getfattr -d -m 'user.many' file | grep -c many)" 20 "attributes of many"
    mv file moved
    same "$(getfattr -n user.text --only-values moved)" other "a value after a rename"
    ln -s moved link
    refused setfattr -h -n user.x -v y link
    mkdir dir && setfattr -n user.dir -v yes dir
    same "$(getfattr -n user.dir --only-values dir)" yes "an attribute of a directory"
    if [ "$(id -u)" = 0 ]; then
        setfattr -n trusted.x -v y moved
        same "$(getfattr -n trusted.x --only-values moved)" y "a trusted attribute"
    fi
}

# POSIX ACLs: stored, inherited, shown, and enforced against another user.
check_acls() {
    need setfacl getfacl
    cd "$work"
    echo secret >file
    chmod 600 file
    setfacl -m u:daemon:r,g:bin:rw file || skip "no ACLs on this file system"
    same "$(getfacl -cp file | tr '\n' ' ' | sed 's/ *$//')" "user::rw- user:daemon:r-- group::--- group:bin:rw- mask::rw- other::---" "an ACL"
    same "$(stat -c %a file)" 660 "the mode shows the mask"
    chmod g-w file
    same "$(getfacl -cp file | grep '^mask')" "mask::r--" "chmod changes the mask"
    mkdir dir
    setfacl -d -m u:daemon:rwx,o::- dir
    (umask 022 && echo x >dir/child && mkdir dir/sub)
    same "$(getfacl -cp dir/child | grep -c '^user:daemon:rwx')" 1 "an inherited entry"
    same "$(getfacl -cp dir/sub | grep -c '^default:user:daemon:rwx')" 1 "an inherited default"
    same "$(stat -c %A dir/child | cut -c8-10)" '---' "others get what the default says"
    cp -a file copy
    same "$(getfacl -cp copy)" "$(getfacl -cp file)" "an ACL kept by cp -a"
    getfacl -R dir >"$off/acls"
    setfacl -R -b dir
    setfacl --restore="$off/acls"
    same "$(getfacl -R dir | sha256sum)" "$(sha256sum <"$off/acls")" "restored ACLs"
    if [ "$(id -u)" = 0 ] && have setpriv; then
        local as_daemon=(setpriv --reuid=daemon --regid=daemon --clear-groups)
        local as_nobody=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
        if ! "${as_daemon[@]}" test -x "$work"; then
            say "  another user cannot reach $work; enforcement was not checked"
            return 0
        fi
        same "$("${as_daemon[@]}" cat "$work/file")" secret "a user whom the ACL lets read"
        refused "${as_daemon[@]}" sh -c "echo x >>'$work/file'"
        refused "${as_nobody[@]}" cat "$work/file"
    fi
    setfacl -b file
    same "$(getfacl -cp file | grep -c daemon)" 0 "entries after removal"
}

# The file-system stressors of stress-ng that verify what they read, each bounded by operations and time.
check_stressors() {
    need stress-ng
    cd "$work"
    local stressor status broken=()
    for stressor in access chmod chown copy-file dentry dir dirdeep dirmany fallocate fcntl filename flock fpunch fsize \
        fstat getdent hdd io iomix link locka lockf lockofd mknod open rename symlink sync-file touch utime xattr; do
        status=0
        timeout --foreground -k 5 "${STRESSOR_SECONDS:-40}" stress-ng --temp-path "$work" --verify --timeout "${STRESSOR_RUN:-2}" --metrics-brief \
            --hdd-bytes 16m --iomix-bytes 16m --fallocate-bytes 16m --copy-file-bytes 128m --sync-file-bytes 8m --dirmany-bytes 4k \
            "--$stressor" 2 </dev/null >"$off/stress.log" 2>&1 || status=$?
        if [ "$status" != 0 ]; then
            broken+=("$stressor (status $status)")
            tail -n 5 "$off/stress.log" >&2
        fi
    done
    [ ${#broken[@]} = 0 ] || fail "stressors: ${broken[*]}"
}

# Offset of the first data in a file, as SEEK_DATA tells.
first_data() {
    perl -e 'open my $f, "<", $ARGV[0] or die; my $at = sysseek($f, 0, 3); print defined $at ? $at + 0 : "none"' "$1"
}

# Holes: sizes, what is allocated, what is read, punched and copied.
check_sparse_files() {
    cd "$work"
    dd if=/dev/urandom of=sparse bs=4096 count=1 seek=2560 status=none
    same "$(stat -c %s sparse)" $((2561 * 4096)) "size of a file with a hole"
    same "$(head -c $((2560 * 4096)) sparse | tr -d '\0' | wc -c)" 0 "bytes in a hole"
    cp --sparse=always sparse copy
    cmp sparse copy
    cp --reflink=auto --sparse=auto sparse copy2
    cmp sparse copy2
    truncate -s 1G huge
    same "$(stat -c %s huge)" $((1 << 30)) "size of a truncated file"
    # Not by st_blocks: that is derived from the size (docs/semantics.md). What is allocated shows in SEEK_DATA.
    same "$(first_data huge)" none "first data of an empty file of 1 GiB"
    same "$(first_data sparse)" $((2560 * 4096)) "first data of a file that begins with a hole"
    printf end | dd of=huge bs=1 seek=$(((1 << 30) - 3)) conv=notrunc status=none
    same "$(tail -c 3 huge)" end "last bytes"
    truncate -s 10 huge
    truncate -s 1000 huge
    same "$(tr -d '\0' <huge | wc -c)" 0 "bytes that come back after shrinking and growing"
    head -c 1000000 /dev/urandom >holes
    cp holes "$off/holes"
    if fallocate --punch-hole --offset 100000 --length 500000 holes 2>/dev/null; then
        dd if=/dev/zero of="$off/holes" bs=1 count=0 seek=0 conv=notrunc status=none
        { head -c 100000 "$off/holes" && head -c 500000 /dev/zero && tail -c 400000 "$off/holes"; } | cmp - holes
        same "$(stat -c %s holes)" 1000000 "size after punching"
    fi
    fallocate --length 2M reserved
    same "$(stat -c %s reserved)" $((2 << 20)) "size after fallocate"
    # A big file, written and read in odd sizes.
    head -c 30000001 /dev/urandom >"$off/big"
    dd if="$off/big" of=big bs=77777 status=none conv=fsync
    cmp "$off/big" big
    dd if=big bs=333333 status=none | cmp - "$off/big"
    head -c 123456 /dev/urandom >"$off/patch"
    dd if="$off/patch" of=big bs=123456 seek=50 conv=notrunc status=none
    dd if="$off/patch" of="$off/big" bs=123456 seek=50 conv=notrunc status=none
    cmp "$off/big" big
}

# Renames: across directories, over files, of directories; from another file system; nothing lost on the way.
check_renames() {
    cd "$work"
    mkdir -p a/b c
    echo one >a/b/file
    mv a/b/file c/moved
    same "$(cat c/moved)" one "a file after mv"
    [ ! -e a/b/file ] || fail "the old name is still there"
    echo two >c/other
    mv -f c/moved c/other
    same "$(cat c/other)" one "a file moved over another"
    mv c a/b/c
    same "$(cat a/b/c/other)" one "a file in a moved directory"
    refused mv a a/b/inside
    mkdir empty full && touch full/x
    mv -T empty a/b/empty && [ -d a/b/empty ] || fail "mv of an empty directory"
    refused mv -T a/b/empty full
    mkdir onto && mv -T full onto
    [ -e onto/x ] || fail "a directory renamed over an empty one lost its entry"
    mv -n a/b/c/other onto/x
    same "$(cat a/b/c/other)" one "mv -n keeps the source"
    echo from >"$off/outside"
    mv "$off/outside" inside && mv inside "$off/back"
    same "$(cat "$off/back")" from "a file moved in and out"
    # A reader must always see one of the two, never none.
    echo 0 >current
    (for number in $(seq 1 300); do echo "$number" >next && mv -f next current; done) &
    local writer=$!
    while kill -0 "$writer" 2>/dev/null; do
        [ -n "$(cat current)" ] || fail "a file that is replaced by rename was seen empty"
    done
    wait "$writer"
    same "$(cat current)" 300 "the last of 300 renames"
}

# Hard links: one inode, its count, its data under every name.
check_hard_links() {
    cd "$work"
    echo data >first
    local number
    for number in $(seq 1 100); do ln first "link$number"; done
    same "$(stat -c %h first)" 101 "link count"
    same "$(stat -c %i link7)" "$(stat -c %i first)" "inode of a link"
    echo more >>link50
    same "$(tail -n 1 first)" more "data through another name"
    chmod 640 link9
    same "$(stat -c %a first)" 640 "mode through another name"
    rm first link{1..99}
    same "$(stat -c %h link100)" 1 "link count at the end"
    same "$(wc -l <link100)" 2 "lines at the end"
    mkdir dir
    refused ln dir dirlink
    ln -s nowhere dangling
    ln dangling second
    same "$(readlink second)" nowhere "a hard link of a symlink"
    same "$(find . -samefile link100 | wc -l)" 1 "names found by inode"
    mkdir tree && echo x >tree/a && ln tree/a tree/b
    cp -a tree copy
    same "$(stat -c %i copy/a)" "$(stat -c %i copy/b)" "links kept by cp -a"
}

# Named pipes, sockets, device nodes, symlinks.
check_special_files() {
    cd "$work"
    mkfifo pipe
    same "$(stat -c %F pipe)" fifo "kind of a pipe"
    (seq 1 10000 >pipe) &
    local writer=$!
    same "$(sha256sum <pipe)" "$(seq 1 10000 | sha256sum)" "what went through a pipe"
    wait "$writer"
    if [ "$(id -u)" = 0 ]; then
        mknod null c 1 3
        same "$(stat -c '%F %t %T' null)" "character special file 1 3" "a device node"
        mknod block b 7 200
        same "$(stat -c '%F %t %T' block)" "block special file 7 c8" "a block device node"
    fi
    ln -s "$(head -c 4000 /dev/zero | tr '\0' y)" long
    same "$(readlink long | wc -c)" 4001 "length of a symlink's target"
    mkdir -p one/two && ln -s ../one/two up && echo hi >one/two/file && ln -s up/../../../one one/loop
    ln -s self self
    refused cat self
    ln -s one/two/file short
    same "$(cat short)" hi "through a symlink"
    rm short
    same "$(cat one/two/file)" hi "the target of a removed symlink"
    chmod 4755 one/two/file
    same "$(stat -c %a one/two/file)" 4755 "setuid"
    mkdir sticky && chmod 3777 sticky
    same "$(stat -c %a sticky)" 3777 "sticky and setgid"
}

# Names at the limits, in every alphabet; deep paths.
check_long_names() {
    cd "$work"
    local longest depth
    longest=$(head -c 255 /dev/zero | tr '\0' n)
    echo x >"$longest"
    same "$(cat "$longest")" x "a name of 255 bytes"
    refused touch "${longest}n"
    refused stat "${longest}n"
    touch -- 'with space' $'new\nline' 'häßlich' '日本語' '*' '-dash' '\' "quote'" $'\x80\xff'
    same "$(find . -mindepth 1 -printf x | wc -c)" 10 "strange names"
    find . -mindepth 1 ! -name "$longest" -delete
    mkdir deep && cd deep
    for depth in $(seq 1 100); do
        mkdir "directory-$depth" && cd "directory-$depth"
    done
    echo bottom >file
    cd "$work"
    same "$(find deep -name file -exec cat {} +)" bottom "a file a hundred levels down"
    rm -rf deep
    refused stat "$(printf 'x/%.0s' $(seq 1 3000))"
    (cd "$work" && touch "$(head -c 254 /dev/zero | tr '\0' n)" && rm -- n*)
    same "$(find . -mindepth 1 | wc -l)" 0 "names left"
}

# Several processes append to one file: every line is whole and there once.
check_concurrent_appends() {
    cd "$work"
    local worker workers=()
    for worker in 1 2 3 4 5 6; do
        (for number in $(seq 1 400); do echo "worker $worker line $number of the log" >>log; done) &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do wait "$worker"; done
    same "$(wc -l <log)" 2400 "lines"
    same "$(sort -u log | wc -l)" 2400 "different lines"
    same "$(grep -c -v -E '^worker [1-6] line [0-9]+ of the log$' log || true)" 0 "torn lines"
}

# A file lives on without a name until it is closed, and its reader sees what is written.
check_open_after_unlink() {
    cd "$work"
    exec 3<>file
    echo before >&3
    rm file
    echo after >&3
    same "$(cat /proc/self/fd/3)" "$(printf 'before\nafter')" "data of a file without a name"
    same "$(stat -L -c %h /proc/self/fd/3)" 0 "its link count"
    echo new >file
    same "$(cat file)" new "a new file of the same name"
    exec 3>&-
    mkdir gone && cd gone && rmdir "$work/gone"
    refused touch here
    cd "$work"
    same "$(find . -mindepth 1 | wc -l)" 1 "entries left"
    # Appending to what another truncates.
    exec 4>>file
    : >file
    echo again >&4
    exec 4>&-
    same "$(cat file)" again "an append after a truncation"
}

# fio writes, reads back and verifies checksums, with each of its engines that works on files: buffered and direct, several jobs.
check_fio_verify() {
    need fio
    cd "$work"
    local engine direct broken=()
    for engine in psync pvsync2 libaio io_uring mmap splice posixaio; do
        for direct in 0 1; do
            # Pages of a map, and those that splice moves, are the cache's: there is no direct form of these two.
            if [ "$direct" = 1 ] && { [ "$engine" = mmap ] || [ "$engine" = splice ]; }; then continue; fi
            if ! timeout -k 5 "${STRESSOR_SECONDS:-40}" fio --name="$engine-$direct" --directory="$work" --ioengine="$engine" --direct="$direct" \
                --rw=randrw --rwmixread=30 --bs=4k,16k --size=3m --numjobs=2 --iodepth=8 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
                --do_verify=1 --fsync=97 --fallocate=none --randseed=$((direct + 7)) --group_reporting </dev/null >"$off/fio.log" 2>&1; then
                # A kernel without io_uring, or one that forbids it, says so; everything else is a fault.
                if [ "$engine" = io_uring ] && grep -qE 'Operation not permitted|Function not implemented' "$off/fio.log"; then
                    say "  io_uring is not allowed here"
                    continue
                fi
                broken+=("$engine direct=$direct")
                tail -n 5 "$off/fio.log" >&2
            fi
        done
    done
    [ ${#broken[@]} = 0 ] || fail "fio: ${broken[*]}"
}

# ---- running them ----

# One check in a process of its own, so that a bound on its time can end it.
if [ "${1:-}" = --one ]; then
    check=$2 work=$3 off=$4
    set -e
    "check_$check"
    exit 0
fi

dir=${1:?usage: scripts/suite-tools.sh DIR [check...]}
shift
[ -d "$dir" ] || die "$dir is not a directory"
dir=$(cd "$dir" && pwd -P)
[ $# -gt 0 ] || set -- "${CHECKS[@]}"
base=$(mktemp -d "$dir/suite.XXXXXX") || die "cannot make a directory in $dir"
beside=$(mktemp -d "${TMPDIR:-/tmp}/suite.XXXXXX")
chmod 755 "$base"
trap 'chmod -R u+rwx "$base" 2>/dev/null; rm -rf "$base" "$beside"' EXIT

# The caller's locale must not change how programs sort and speak.
export LC_ALL=C.UTF-8
umask 022
lines=()
failed=0
for check in "$@"; do
    work="$base/$check" off="$beside/$check"
    mkdir "$work" "$off" || die "cannot make $work"
    started=$SECONDS status=0
    timeout -k 10 "${CHECK_SECONDS:-300}" bash "${BASH_SOURCE[0]}" --one "$check" "$work" "$off" </dev/null >"$beside/log" 2>&1 || status=$?
    if [ "$status" = 0 ] && [ -n "${SUITE_OTHER:-}" ]; then
        # What the programs made is the same through the other mount, which did nothing with it before.
        there="$SUITE_OTHER/${work#"$dir"/}"
        { diff <(modes "$work") <(modes "$there") && diff <(sums "$work") <(sums "$there"); } >>"$beside/log" 2>&1 || {
            echo "  wrong: the other mount shows something else" >>"$beside/log"
            status=1
        }
    fi
    case $status in
    0) word=ok ;;
    "$SKIP") word="skipped:$(sed -n 's/^  skipped://p' "$beside/log" | tail -n 1)" ;;
    124 | 137) word="FAILED: over ${CHECK_SECONDS:-300} s" ;;
    *) word="FAILED with status $status" ;;
    esac
    case $word in
    skipped:*) skipped "$check of the programs on a mount" "${word#skipped: }" ;;
    FAILED*)
        failed=$((failed + 1))
        echo "----- $check: the last it said -----"
        tail -n 25 "$beside/log"
        ;;
    esac
    lines+=("$(printf '%-20s %4d s  %s' "$check" $((SECONDS - started)) "$word")")
    printf '%s\n' "${lines[-1]}"
    chmod -R u+rwx "$work" 2>/dev/null
    if [ -n "${SUITE_OTHER:-}" ]; then
        rm -rf "$SUITE_OTHER/${work#"$dir"/}"
        [ ! -e "$work" ] || { echo "$work is there although the other mount removed it" && failed=$((failed + 1)); }
    fi
    rm -rf "$work" "$off" || { echo "cannot remove $work" && failed=$((failed + 1)); }
done
echo "----- programs: $# checks, $failed failed -----"
printf '%s\n' "${lines[@]}" | grep -v ' ok$'
[ "$failed" = 0 ]
