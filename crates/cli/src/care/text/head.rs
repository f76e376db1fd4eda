//! First and last line of a dump.

use super::VERSION;

/// First line of a dump: its counts, so that a reader can tell how far it has come and whether all was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Lines of each kind.
    pub inodes: u64,
    pub entries: u64,
    pub xattrs: u64,
    pub inline: u64,
    /// Files whose data is in objects, and so not in the dump, and its size.
    pub objects: u64,
    pub object_bytes: u64,
    /// Inode numbers below this may have been used, of rank 0's range.
    pub next_ino: u64,
}

const MARK: &str = "loligo-dump";

impl Head {
    fn fields(&mut self) -> [(&'static str, &mut u64); 7] {
        [
            ("inodes", &mut self.inodes),
            ("entries", &mut self.entries),
            ("xattrs", &mut self.xattrs),
            ("inline", &mut self.inline),
            ("objects", &mut self.objects),
            ("object-bytes", &mut self.object_bytes),
            ("next-ino", &mut self.next_ino),
        ]
    }

    /// The line.
    pub fn render(mut self) -> String {
        let fields = self.fields().map(|(name, n)| format!("{name}={n}"));
        format!("{MARK} {VERSION} {}", fields.join(" "))
    }

    /// Reads the line; the error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Head, String> {
        let mut words = line.split(' ');
        if words.next() != Some(MARK) {
            return Err(format!("this is no dump: it does not begin with `{MARK}`"));
        }
        match words.next().and_then(|word| word.parse::<u32>().ok()) {
            Some(VERSION) => {}
            Some(found) if found > VERSION => {
                return Err(format!("the dump has version {found}, this program knows {VERSION}; use a newer loligo"));
            }
            _ => return Err("the version of the dump cannot be read".to_string()),
        }
        let mut head = Head::default();
        for (name, n) in head.fields() {
            let value = words.next().and_then(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
            *n = value.ok_or_else(|| format!("`{name}=NUMBER` is missing in the first line"))?;
        }
        match words.next() {
            None => Ok(head),
            Some(word) => Err(format!("`{word}` is not known in the first line")),
        }
    }
}

/// Last line of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Lines before this one.
    pub lines: u64,
    /// CRC-32C of all bytes before it.
    pub crc: u32,
}

impl Tail {
    /// The line.
    pub fn render(self) -> String {
        format!("end lines={} crc32c={:08x}", self.lines, self.crc)
    }

    /// Reads the line.
    pub fn parse(line: &str) -> Option<Tail> {
        let mut words = line.split(' ');
        let (end, lines, crc) = (words.next()?, words.next()?, words.next()?);
        if end != "end" || words.next().is_some() {
            return None;
        }
        let crc = crc.strip_prefix("crc32c=").filter(|digits| digits.len() == 8)?;
        Some(Tail { lines: lines.strip_prefix("lines=")?.parse().ok()?, crc: u32::from_str_radix(crc, 16).ok()? })
    }
}
