//! What `daq run` hands to a part that it starts through a command, such as `ssh node1`: over the part's standard input,
//! because neither files nor the environment are sure to be there.
//!
//! ```text
//! barewire-daq 1 SECRET:START BYTES     a line: what lets the part into the run, and the length of the configuration
//! ...                                   the configuration
//! end                                   a line, each time that the run is asked to end (to the manager)
//! ```
//!
//! The input stays open as long as who started the part is there. Its end ends the part: a signal to `ssh` would not
//! reach it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write};

use crate::credential::Credential;
use crate::signals;

/// In place of the path of a configuration.
pub const STANDARD_INPUT: &str = "-";
const MARK: &str = "barewire-daq 1";
const END: &str = "end";
/// What a pipe takes though nobody reads it: a command that hangs must not hang `daq run`.
const TEXT_BYTES_MAX: usize = 60 << 10;

/// Hands a part what it needs.
///
/// # Errors
///
/// The configuration is too long.
pub fn give(to: &mut impl Write, credential: Credential, text: &str) -> io::Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        let problem = format!(
            "the configuration has {} bytes; parts that [start] starts can be handed {TEXT_BYTES_MAX}",
            text.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let message = format!("{MARK} {credential} {}\n{text}", text.len());
    // Of one that has died already the death is seen, with its exit status.
    let _ = to.write_all(message.as_bytes());
    Ok(())
}

/// Asks a part that was started so to end.
pub fn ask_to_end(part: &mut impl Write) {
    let _ = part.write_all(format!("{END}\n").as_bytes());
}

/// Takes what this process was handed: returns the configuration. From now on the process ends when its standard input
/// does.
///
/// # Errors
///
/// Something else is on the standard input.
pub fn take() -> io::Result<String> {
    let mut input = BufReader::new(io::stdin());
    let (credential, text) = read(&mut input)?;
    credential.show();
    std::thread::Builder::new()
        .name("handed".to_owned())
        .spawn(move || {
            for line in input.lines().map_while(Result::ok) {
                if line == END {
                    signals::ask();
                }
            }
            eprintln!("barewire: whoever started this part has gone");
            std::process::exit(2);
        })?;
    Ok(text)
}

fn read(input: &mut impl io::BufRead) -> io::Result<(Credential, String)> {
    let strange = || {
        let problem = "this is not from `barewire daq run`, which starts parts so with the commands of [start]: give \
                       the path of a configuration in place of `-`";
        io::Error::new(io::ErrorKind::InvalidData, problem)
    };
    let mut line = String::new();
    input
        .take(128)
        .read_line(&mut line)
        .map_err(|_| strange())?;
    let words = line.strip_prefix(MARK).ok_or_else(strange)?;
    let (credential, bytes) = words.trim().split_once(' ').ok_or_else(strange)?;
    let credential = Credential::parse(credential).ok_or_else(strange)?;
    let bytes: usize = bytes.parse().map_err(|_| strange())?;
    let mut text = vec![0; bytes.min(TEXT_BYTES_MAX)];
    input.read_exact(&mut text)?;
    let text = String::from_utf8(text).map_err(|_| strange())?;
    Ok((credential, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_taken_and_the_rest_is_left() {
        let credential = Credential {
            secret: 31,
            start: 3,
        };
        let mut pipe = Vec::new();
        give(&mut pipe, credential, "[run]\nseed = 1\n").expect("short");
        ask_to_end(&mut pipe);
        let mut input = &pipe[..];
        let taken = read(&mut input).expect("whole");
        assert_eq!(taken, (credential, "[run]\nseed = 1\n".to_owned()));
        assert_eq!(input, b"end\n");
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(give(&mut pipe, credential, &long).is_err());
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "[run]\n",
            "barewire-daq 1 x:y 3\nabc",
            "barewire-daq 1 1f:3 9\nabc",
        ] {
            assert!(read(&mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
