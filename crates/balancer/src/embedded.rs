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

fn stem(file: &'static str) -> &'static str {
    file.split_once('.').map_or(file, |(stem, _)| stem)
}

/// Name and text of the one with this name, which is its file's without the ending.
pub fn shipped(name: &str) -> Option<(&'static str, &'static str)> {
    embedded().iter().map(|(file, text)| (stem(file), *text)).find(|(stem, _)| *stem == name)
}

/// Names of all, ours first.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    embedded().iter().map(|(file, _)| stem(file))
}
