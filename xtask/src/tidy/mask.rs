//! Blanks out what is not code, so that rules can search text without parsing Rust: comments, the insides of string
//! and character literals, and on request the bodies of `#[cfg(test)]` items. Lines and columns stay where they were.
//! Not a lexer: it knows just enough of the language to find where those begin and end.

/// The code of `source`: comments and literals are blanked, line breaks kept.
pub fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at + 1),
            b'r' | b'b' | b'c' if !continues_word(bytes, at) => match raw_string_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match char_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out[at..end]);
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Like [`code`], and without the items that exist in tests only.
pub fn code_outside_tests(source: &str) -> String {
    let mut out = code(source).into_bytes();
    let mut from = 0;
    while let Some(found) = find(&out[from..], b"#[cfg(test)]") {
        let start = from + found;
        let end = item_end(&out, start);
        blank(&mut out[start..end]);
        from = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn blank(part: &mut [u8]) {
    part.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    find(&bytes[at..], b"\n").map_or(bytes.len(), |length| at + length)
}

/// Block comments nest in Rust.
fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        match &bytes[at..(at + 2).min(bytes.len())] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// `at` is behind the opening quote.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `r"..."`, `br#"..."#`, `b"..."` and their like, if `at` begins one.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut next = at;
    while next < at + 2 && matches!(bytes.get(next), Some(b'r' | b'b' | b'c')) {
        next += 1;
    }
    let raw = bytes[at..next].contains(&b'r');
    let hashes = bytes[next..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(next + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    let inside = next + hashes + 1;
    if !raw {
        return Some(string_end(bytes, inside));
    }
    let mut closing = vec![b'"'];
    closing.extend(std::iter::repeat_n(b'#', hashes));
    Some(find(&bytes[inside..], &closing).map_or(bytes.len(), |length| inside + length + closing.len()))
}

/// The end of a character literal, or nothing where the quote opens a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at + 1) == Some(&b'\\') {
        // Behind the escaped character, which may itself be a quote.
        return find(bytes.get(at + 3..)?, b"'").map(|length| at + 3 + length + 1);
    }
    // One character of one to four bytes, then the closing quote.
    let width = match bytes.get(at + 1)? {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + width + 2)
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// The end of the item that begins at `at` (with its attributes): its closing brace, or the first `;` before any brace.
fn item_end(code: &[u8], at: usize) -> usize {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (offset, byte) in code[at..].iter().enumerate() {
        match byte {
            b'[' | b'(' => brackets += 1,
            b']' | b')' => brackets = brackets.saturating_sub(1),
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 && brackets == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}
