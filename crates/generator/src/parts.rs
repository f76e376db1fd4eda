//! A name cut into numbers and the texts between them. Not here: the meaning of either.

use loligo_balancer::engine::Input;

/// Longest run of digits that is a number: all of these are exact.
const DIGITS_MAX: usize = 15;

/// The parts of a name. Put together again they are the name: digits that print otherwise stay text.
pub(crate) fn of(name: &str) -> Input {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = (1..=DIGITS_MAX).contains(&len) && (len == 1 || !rest.starts_with('0'));
        match rest[..len].parse::<f64>() {
            Ok(number) if is_number => {
                if !text.is_empty() {
                    parts.push(Input::Text(std::mem::take(&mut text)));
                }
                parts.push(Input::Number(number));
                rest = &rest[len..];
            }
            _ => {
                let len = len.max(first.len_utf8());
                text.push_str(&rest[..len]);
                rest = &rest[len..];
            }
        }
    }
    if !text.is_empty() {
        parts.push(Input::Text(text));
    }
    Input::List(parts)
}
