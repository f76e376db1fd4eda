//! Table tests of extended attributes, policies, ACLs and capabilities. Not of their bytes: those are the journal's.

use crate::testing::script::check;

#[test]
fn a_pin_is_roots_to_set_on_directories_and_is_not_listed() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 create /f 644
        1000 setxattr /d loligo.policy.pin 1 = Perm
        0 setxattr /d loligo.policy.pin x = Invalid
        0 setxattr /f loligo.policy.pin 1 = NotDir
        0 setxattr /d loligo.policy.pin 1,2
        1000 getxattr /d loligo.policy.pin = 1,2
        0 listxattr /d =
        1000 removexattr /d loligo.policy.pin = Perm
        0 removexattr /d loligo.policy.pin
        0 getxattr /d loligo.policy.pin = NoData
        0 setxattr /d loligo.policy.other 1 = Perm
        ",
    );
}

#[test]
fn floors_and_ceilings_are_roots_to_set_change_and_take_away() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        1000 setxattr /d loligo.policy.subtree floor.durability='local' = Perm
        1000 setxattr /d loligo.policy.subtree ceiling.decouple=false = Perm
        1000 setxattr /d loligo.policy.subtree ceiling.decouple=true
        0 setxattr /d loligo.policy.subtree floor.durability='local'
        1000 setxattr /d loligo.policy.subtree floor.durability='none' = Perm
        1000 setxattr /d loligo.policy.subtree blind=true = Perm
        1000 removexattr /d loligo.policy.subtree = Perm
        1000 getxattr /d loligo.policy.subtree = floor.durability='local'
        0 setxattr /d loligo.policy.subtree blind=true
        1000 removexattr /d loligo.policy.subtree
        ",
    );
}

#[test]
fn a_directory_is_balanced_by_none_or_by_whatever_can_be_the_name_of_a_policy() {
    check(
        "
        0 mkdir /d 755
        0 setxattr /d loligo.policy.balancer a/b = Invalid
        0 setxattr /d loligo.policy.balancer -x = Invalid
        0 setxattr /d loligo.policy.balancer none
        0 setxattr /d loligo.policy.balancer fill_and_spill
        1000 getxattr /d loligo.policy.balancer = fill_and_spill
        1000 setxattr /d loligo.policy.balancer none = Perm
        0 removexattr /d loligo.policy.balancer
        0 getxattr /d loligo.policy.balancer = NoData
        ",
    );
}

#[test]
fn what_a_subtree_promises_is_its_owners_to_say_on_directories_and_is_not_listed() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 create /f 644
        1001 setxattr /d loligo.policy.subtree preset='batchfs' = Perm
        0 setxattr /f loligo.policy.subtree preset='batchfs' = NotDir
        1000 getxattr /d loligo.policy.subtree = NoData
        1000 setxattr /d loligo.policy.subtree preset='batchfs' replace = NoData
        1000 setxattr /d loligo.policy.subtree preset='batchfs'
        1000 setxattr /d loligo.policy.subtree preset='hdfs' create = Exists
        1001 getxattr /d loligo.policy.subtree = preset='batchfs'
        0 listxattr /d =
        0 setxattr /d loligo.policy.subtree preset='hdfs'
        1000 mkdir /d/e 755
        0 getxattr /d/e loligo.policy.subtree = NoData
        1001 removexattr /d loligo.policy.subtree = Perm
        1000 removexattr /d loligo.policy.subtree
        1000 removexattr /d loligo.policy.subtree = NoData
        ",
    );
}

#[test]
fn the_history_of_a_policy_is_nobodys_to_set_is_not_listed_and_stays_when_the_policy_is_taken_away() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 getxattr /d loligo.policy.subtree.history = NoData
        0 setxattr /d loligo.policy.subtree.history x = Perm
        1000 setxattr /d loligo.policy.subtree preset='batchfs'
        1000 removexattr /d loligo.policy.subtree.history = Perm
        0 removexattr /d loligo.policy.subtree.history = Perm
        1000 setxattr /d user.a 1
        1000 listxattr /d = user.a
        1000 removexattr /d user.a
        1000 removexattr /d loligo.policy.subtree
        1000 listxattr /d =
        1000 removexattr /d loligo.policy.subtree = NoData
        0 setxattr /d loligo.policy.subtree.history x = Perm
        0 rmdir /d
        ",
    );
}

#[test]
fn what_is_no_policy_of_a_subtree_is_refused() {
    check(
        "
        0 mkdir /d 755
        0 setxattr /d loligo.policy.subtree batchfs = Invalid
        0 setxattr /d loligo.policy.subtree preset='nfs' = Invalid
        0 setxattr /d loligo.policy.subtree consistency='stream' = Invalid
        0 setxattr /d loligo.policy.subtree pipeline='volatile_apply' = Invalid
        0 setxattr /d loligo.policy.subtree #*4097 = Invalid
        0 getxattr /d loligo.policy.subtree = NoData
        0 setxattr /d loligo.policy.subtree #*4096
        ",
    );
}

#[test]
fn a_placement_is_the_owners_to_set_and_tells_how_a_directory_places_others() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 create /f 644
        0 getxattr /d loligo.policy.placement = NoData
        0 getxattr /d loligo.dir.placement = subtree
        0 getxattr /f loligo.dir.placement = NoData
        1001 setxattr /d loligo.policy.placement giga = Perm
        1000 setxattr /d loligo.policy.placement inherited = Invalid
        1000 setxattr /d loligo.policy.placement Giga = Invalid
        0 setxattr /f loligo.policy.placement giga = NotDir
        1000 setxattr /d loligo.policy.placement giga replace = NoData
        1000 setxattr /d loligo.policy.placement giga = xattrs=false
        1000 setxattr /d loligo.policy.placement subtree create = Exists
        1001 getxattr /d loligo.policy.placement = giga
        1001 getxattr /d loligo.dir.placement = giga
        0 listxattr /d =
        1001 removexattr /d loligo.policy.placement = Perm
        1000 removexattr /d loligo.policy.placement
        1000 removexattr /d loligo.policy.placement = NoData
        0 getxattr /d loligo.dir.placement = subtree
        ",
    );
}

#[test]
fn lookup_leases_are_the_owners_to_allow_and_are_passed_on_unless_it_says_otherwise() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 mkdir /d/before 755
        0 create /f 644
        0 getxattr /d loligo.policy.lookup_lease = NoData
        1001 setxattr /d loligo.policy.lookup_lease 1s = Perm
        1000 setxattr /d loligo.policy.lookup_lease 2s = Invalid
        1000 setxattr /d loligo.policy.lookup_lease off = Invalid
        0 setxattr /f loligo.policy.lookup_lease 1s = NotDir
        1000 setxattr /d loligo.policy.lookup_lease 1s replace = NoData
        1000 setxattr /d loligo.policy.lookup_lease 1s = xattrs=false
        1000 setxattr /d loligo.policy.lookup_lease rate create = Exists
        1001 getxattr /d loligo.policy.lookup_lease = 1000ms
        1000 mkdir /d/sub 755
        0 getxattr /d/sub loligo.policy.lookup_lease = 1000ms
        0 getxattr /d/before loligo.policy.lookup_lease = NoData
        1000 removexattr /d/sub loligo.policy.lookup_lease
        1000 removexattr /d/sub loligo.policy.lookup_lease = NoData
        1001 removexattr /d loligo.policy.lookup_lease = Perm
        0 setxattr /d loligo.policy.lookup_lease depth
        0 getxattr /d loligo.policy.lookup_lease = depth
        ",
    );
}

#[test]
fn expected_entries_are_the_owners_to_set_and_cut_the_directory_at_once() {
    check(
        "
        0 mkdir /d 755
        0 chown /d 1000 1000
        0 create /f 644
        0 getxattr /d loligo.dir.frags = 1
        0 getxattr /d loligo.dir.frag_entries = 4
        0 getxattr /f loligo.dir.frags = NoData
        1001 setxattr /d loligo.policy.expected_entries 100 = Perm
        1000 setxattr /d loligo.policy.expected_entries 0 = Invalid
        1000 setxattr /d loligo.policy.expected_entries many = Invalid
        1000 setxattr /d loligo.policy.expected_entries 1099511627777 = Invalid
        0 setxattr /f loligo.policy.expected_entries 100 = NotDir
        1000 getxattr /d loligo.policy.expected_entries = NoData
        1000 setxattr /d loligo.policy.expected_entries 64 replace = NoData
        1000 setxattr /d loligo.policy.expected_entries 64 = xattrs=false
        1000 setxattr /d loligo.policy.expected_entries 64 create = Exists
        1001 getxattr /d loligo.policy.expected_entries = 64
        0 getxattr /d loligo.dir.frags = 16
        0 listxattr /d =
        0 mkdir /d/e 755
        0 getxattr /d/e loligo.policy.expected_entries = NoData
        0 getxattr /d/e loligo.dir.frags = 1
        1000 setxattr /d loligo.policy.expected_entries 8
        0 getxattr /d loligo.dir.frags = 2
        1000 setxattr /d loligo.policy.expected_entries 1099511627776
        0 getxattr /d loligo.dir.frags = 16777216
        1001 removexattr /d loligo.policy.expected_entries = Perm
        1000 removexattr /d loligo.policy.expected_entries
        1000 removexattr /d loligo.policy.expected_entries = NoData
        0 getxattr /d loligo.dir.frags = 1
        ",
    );
}

#[test]
fn a_directory_splits_and_merges_with_its_entries() {
    check(
        "
        0 mkdir /d 755
        0 mkdir /o 755
        0 create /d/a 644
        0 create /d/b 644
        0 mkdir /d/c 755
        0 symlink /d/e a
        0 getxattr /d loligo.dir.frags = 1
        0 link /d/a /d/f
        0 getxattr /d loligo.dir.frags = 2
        0 rename /d/a /d/b # not less than one in each
        0 rename /d/e /o/e
        0 rename /d/f /o/f
        0 getxattr /d loligo.dir.frags = 2
        0 unlink /d/b
        0 getxattr /d loligo.dir.frags = 1
        0 getxattr /o loligo.dir.frags = 1
        ",
    );
}

#[test]
fn user_names_on_files_and_directories() {
    check(
        "
        0 create /f 644
        0 chown /f 1000 1000
        1000 setxattr /f user.a 1 = xattrs=true
        1000 getxattr /f user.a = 1
        1000 setxattr /f user.a 2 create = Exists
        1000 setxattr /f user.b 2 replace = NoData
        1000 setxattr /f user.b 2
        1001 setxattr /f user.c 2 = Access
        1001 getxattr /f user.a = 1
        1001 listxattr /f = user.a user.b
        1000 removexattr /f user.a = xattrs=true
        1000 removexattr /f user.a = NoData
        1000 removexattr /f user.b = xattrs=false
        0 symlink /l f
        0 setxattr /l user.a 1 = Perm
        0 getxattr /l user.a = NoData
        0 mkdir /t 1777
        1000 setxattr /t user.a 1 = Perm # sticky: the owner only
        0 setxattr /t user.a 1
        ",
    );
}

#[test]
fn trusted_and_security_are_roots() {
    check(
        "
        0 create /f 666
        1000 setxattr /f trusted.a 1 = Perm
        0 setxattr /f trusted.a 1
        1000 getxattr /f trusted.a = NoData
        0 getxattr /f trusted.a = 1
        0 listxattr /f = trusted.a
        1000 setxattr /f security.x 1 = Perm
        0 setxattr /f security.capability cap
        1000 getxattr /f security.capability = cap
        0 chown /f 5 5
        0 getxattr /f security.capability = NoData
        0 getxattr /f trusted.a = 1
        ",
    );
}

#[test]
fn names_and_sizes_have_limits() {
    check(
        "
        0 create /f 666
        0 setxattr /f other.a 1 = NotSupported
        0 setxattr /f user. 1 = Invalid
        0 setxattr /f user.a x*65536
        0 setxattr /f user.b x*65537 = TooBig
        0 setxattr /f user.c x*65536
        0 setxattr /f user.d x*65536
        0 setxattr /f user.e x*65536 = NoSpace
        0 setxattr /f a*256 1 = Range
        ",
    );
}

#[test]
fn acls_and_the_mode_follow_each_other() {
    check(
        "
        0 create /f 640
        0 chown /f 1000 1000
        1001 setacl /f access u::rwx,g::r-x,o::r-x = Perm
        1000 setacl /f access u::rwx,g::r-x,o::r-- = mode=754 xattrs=false
        1000 setacl /f access u::rw-,u:5:rwx,g::r--,m::rwx,o::--- = mode=670 xattrs=true
        1000 listxattr /f = system.posix_acl_access
        1000 setacl /f access u::rwx = Invalid
        1000 setacl /f default u::rwx,g::r-x,o::r-x = Access
        1000 removexattr /f system.posix_acl_access = xattrs=false mode=670
        1000 getxattr /f system.posix_acl_access = NoData
        0 symlink /l f
        0 setacl /l access u::rwx,g::r-x,o::r-x = NotSupported
        0 mkdir /d 755
        0 setacl /d default u::rwx,g::r-x,o::r-x = xattrs=true
        0 setacl /d default - = xattrs=false
        0 chown /f 1000 2000
        0 chmod /f 2750
        1000 setacl /f access u::rwx,g::r-x,o::r-x = mode=755
        ",
    );
}

#[test]
fn every_change_of_content_or_size_ends_capabilities_roots_too() {
    check(
        "
        0 create /f 6777
        0 setxattr /f security.capability 1
        0 setxattr /f user.a 1
        0 write /f 0 x = mode=6777
        0 getxattr /f security.capability = NoData
        0 getxattr /f user.a = 1
        0 setxattr /f security.capability 1
        1000 write /f 0 x kill = mode=777
        0 getxattr /f security.capability = NoData
        0 setxattr /f security.capability 1
        0 data /f 100 spilled
        0 getxattr /f security.capability = NoData
        0 setxattr /f security.capability 1
        0 chmod /f 6777
        0 data /f - - kill = mode=777
        0 getxattr /f security.capability = NoData
        0 setxattr /f security.capability 1
        0 chmod /f 6777
        0 extend /f 5
        0 stat /f = mode=6777
        0 getxattr /f security.capability = 1
        0 truncate /f 5
        0 getxattr /f security.capability = NoData
        0 setxattr /f security.capability 1
        0 open /f wt
        0 getxattr /f security.capability = NoData
        0 getxattr /f user.a = 1
        ",
    );
}

#[test]
fn capabilities_are_removed_by_those_who_could_end_them_by_a_write() {
    check(
        "
        0 create /f 644
        0 chown /f 1000 2000
        0 setxattr /f security.capability 1
        0 setxattr /f security.other 1
        3000 removexattr /f security.capability = Perm
        2000 removexattr /f security.capability = Perm
        1000 removexattr /f security.other = Perm
        1000 removexattr /f security.capability
        1000 setxattr /f security.capability 1 = Perm
        0 setxattr /f security.capability 1
        0 chmod /f 464
        2000:2000 removexattr /f security.capability # the group may write
        0 setxattr /f security.capability 1
        1000 removexattr /f security.capability # the owner may not write, but could change that
        0 mkdir /d 777
        0 setxattr /d security.capability 1
        1000 removexattr /d security.capability = Perm
        ",
    );
}

#[test]
fn computed_names() {
    check(
        "
        0 mkdir /d 755
        0 mkdir /d/e 755
        0 create /d/e/f 644
        0 getxattr /d loligo.entries = 1
        0 getxattr /d/e loligo.rentries = 1
        0 getxattr /d/e/f loligo.ino = 258
        0 getxattr /d/e/f loligo.layout.object_size = 4194304
        0 getxattr /d/e/f loligo.rbytes = NoData
        0 getxattr /d loligo.nothing = NoData
        0 setxattr /d loligo.ino 3 = Perm
        0 listxattr /d = ok
        ",
    );
}
