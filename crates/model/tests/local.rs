//! The model against the file system that holds the temporary directory: is the model itself right?

use loligo_model::posix::Posix;
use loligo_model::{Reference, run_with, steps};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs of random steps; the seed is in the name of a failure.
fn runs(count: u8, length: usize, mut each: impl FnMut(u8, &[loligo_model::Step])) {
    for seed in 0..count {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let steps = steps(length).new_tree(&mut runner).expect("the strategy rejects nothing").current();
        each(seed, &steps);
    }
}

#[test]
fn the_model_agrees_with_the_local_file_system() {
    // SAFETY: asks who we are.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not root: acting as several users is not possible; nothing was compared");
        return;
    }
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|t| t.trim() == "1");
    runs(30, 300, |seed, steps| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("our own directory");
        let outcome = std::thread::scope(|scope| {
            let compare = || {
                let mut level = Posix::enter(dir.path()).expect("root may change its root");
                run_with(Reference::new().with_protected_hardlinks(protected), &mut level, steps)
            };
            scope.spawn(compare).join().expect("the comparison itself does not panic")
        });
        if let Err(mismatch) = outcome {
            panic!("seed {seed}: {mismatch}");
        }
    });
}
