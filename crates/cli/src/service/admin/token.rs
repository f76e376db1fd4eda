//! The token in `DIR/admin.token`, which shows at the admin plane's port that somebody can read the data directory. It stays the same over
//! restarts; who removes the file has a new one made with the next start.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Hexadecimal digits of it.
const DIGITS: usize = 64;

/// A secret.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The one of a data directory, which is made if there is none that only its owner can read.
    pub fn of(data: &Path) -> io::Result<Token> {
        let path = path_in(data);
        let others = match File::open(&path).and_then(|file| file.metadata()) {
            Ok(meta) => meta.mode() & 0o077 != 0,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if others {
            tracing::warn!("{}: others than its owner could read it, so another one is made", path.display());
            std::fs::remove_file(&path)?;
        }
        match Token::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Token::make(&path),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                std::fs::remove_file(&path)?;
                Token::make(&path)
            }
            read => read,
        }
    }

    /// Reads a file of one.
    pub fn read(path: &Path) -> io::Result<Token> {
        let mut text = String::new();
        File::open(path)?.take(4096).read_to_string(&mut text)?;
        let text = text.trim();
        if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(io::Error::new(ErrorKind::InvalidData, "there is no token in it"));
        }
        Ok(Token(text.to_owned()))
    }

    /// Makes one. Of two processes that make it at a time the first one's counts.
    fn make(path: &Path) -> io::Result<Token> {
        let mut bytes = [0; DIGITS / 2];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token = Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        let new = path.with_extension(format!("token.{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            writeln!(file, "{}", token.0)?;
            file.sync_all()?;
            std::fs::hard_link(&new, path)
        };
        let written = write();
        let _ = std::fs::remove_file(&new);
        match written {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Token::read(path),
            written => written.map(|()| token),
        }
    }

    /// True if the token is this. Takes a time that does not tell how much of it is right.
    pub fn is(&self, shown: &str) -> bool {
        let differs = self.0.bytes().zip(shown.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        shown.len() == self.0.len() && differs == 0
    }

    /// As it is shown.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Where it is.
pub fn path_in(data: &Path) -> PathBuf {
    data.join("admin.token")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_anew_if_others_could_read_it_or_it_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = path_in(dir.path());
        let one = Token::of(dir.path()).expect("there is room");
        assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        assert!(Token::of(dir.path()).expect("it is there").is(one.text()));
        assert!(!one.is("") && !one.is(&one.text()[1..]) && !one.is(&format!("{}0", one.text())));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("our own");
        let two = Token::of(dir.path()).expect("there is room");
        assert!(!two.is(one.text()));
        std::fs::write(&path, "x").expect("our own");
        assert!(!Token::of(dir.path()).expect("there is room").is(two.text()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("our own").count(), 1, "nothing is left of making it");
    }
}
