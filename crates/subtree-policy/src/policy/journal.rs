//! Keys of a policy for the data journal: its mode, and the threshold of mode `selective`. Not here: acting on them.

use loligo_types::limits::PATCH_BYTES_MAX;

/// Key of the mode.
pub(super) const KEY: &str = "journal";
/// Key of the threshold.
pub(super) const THRESHOLD_KEY: &str = "journal_threshold";

const KIB: u32 = 1024;

/// Description of valid thresholds, for errors.
pub(super) fn threshold_expected() -> String {
    format!("a size from \"1B\" to \"{}\" with one of the units B, KiB", shown(PATCH_BYTES_MAX as u32))
}

/// Reads a threshold: a whole number with a unit; bytes.
pub(super) fn threshold_of(text: &str) -> Option<u32> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim_start() {
        "B" => 1,
        "KiB" | "K" | "k" => KIB,
        _ => return None,
    };
    let bytes = number.parse::<u32>().ok()?.checked_mul(factor)?;
    (1..=PATCH_BYTES_MAX as u32).contains(&bytes).then_some(bytes)
}

/// A threshold as it stands in a document.
pub(super) fn shown(bytes: u32) -> String {
    match bytes.is_multiple_of(KIB) {
        true => format!("{}KiB", bytes / KIB),
        false => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_read_as_it_is_shown() {
        for bytes in [1, 100, 1024, 1025, 65536, PATCH_BYTES_MAX as u32] {
            assert_eq!(threshold_of(&shown(bytes)), Some(bytes));
        }
        assert_eq!(threshold_of("4 KiB"), Some(4096));
    }

    #[test]
    fn zero_above_the_limit_and_without_unit_are_no_thresholds() {
        for text in
            ["0B", "0KiB", "257KiB", "262145B", "64", "", "KiB", "-1B", "1.5KiB", "1MiB", "99999999999KiB", "4kB"]
        {
            assert_eq!(threshold_of(text), None, "{text}");
        }
    }
}
