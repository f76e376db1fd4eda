//! The policies that come with Loligo, as text. What each does is told in its own header.

macro_rules! shipped {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../policies/", $file)))),*]
    };
}

/// File name and text of each, ours first.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    shipped![
        "loligo.lua",
        "cephfs.toml",
        "cephfs_overload.lua",
        "greedy_spill.toml",
        "greedy_spill_even.toml",
        "greedy_spill_scalable.lua",
        "fill_and_spill.toml",
        "adaptable_conservative.toml",
        "adaptable_aggressive.toml",
        "adaptable_too_aggressive.toml",
    ]
}

/// The text of the one of this name: that of its file without what is behind the point.
pub fn shipped(name: &str) -> Option<&'static str> {
    let is_it = |file: &str| file.split_once('.').is_some_and(|(stem, _)| stem == name);
    embedded().iter().find(|(file, _)| is_it(file)).map(|(_, text)| *text)
}
