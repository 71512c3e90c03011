//! Whether a program can be accelerated, by what its file says.
//!
//! The library reaches a program through the dynamic loader, and its system calls through
//! the C library. A program that has neither, or may not have them changed, is left alone.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A dynamically linked program of this machine.
    Fine,
    /// Linked without a dynamic loader.
    Static,
    /// A Go program: it calls the kernel by itself.
    Go,
    /// The loader ignores what is preloaded, for safety.
    Privileged(&'static str),
    /// Another architecture, or word size.
    Foreign(String),
    /// Another C library.
    OtherLibrary(String),
    /// A script, and what is the matter with its interpreter.
    Script(PathBuf, Box<Verdict>),
    /// The file could not be read: no opinion.
    Unknown,
}

impl Verdict {
    /// Why it is not accelerated, for people.
    pub fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Fine | Self::Unknown => return None,
            Self::Static => "it is statically linked, so nothing can be preloaded (programs \
                             that it starts are accelerated, if they are dynamically linked)"
                .to_owned(),
            Self::Go => "it is a Go program, which calls the kernel past the C library".to_owned(),
            Self::Privileged(what) => {
                format!("it has {what}, so the dynamic loader ignores what is preloaded")
            }
            Self::Foreign(what) => format!("it is for {what}"),
            Self::OtherLibrary(loader) => {
                format!("it uses another C library (its loader is {loader})")
            }
            Self::Script(interpreter, verdict) => {
                let reason = verdict.reason()?;
                format!("it is a script for {}: {reason}", interpreter.display())
            }
        })
    }

    /// Whether the library may be named to its loader: others would complain, or fail.
    pub fn may_preload(&self) -> bool {
        match self {
            Self::Foreign(_) | Self::OtherLibrary(_) => false,
            Self::Script(_, verdict) => verdict.may_preload(),
            _ => true,
        }
    }
}

/// Scripts that name scripts: as many as the kernel follows.
const DEPTH_MAX: u32 = 5;

/// Looks at a program's file.
pub fn examine(path: &Path) -> Verdict {
    examine_to(path, DEPTH_MAX).unwrap_or(Verdict::Unknown)
}

/// What is wrong with a file as a library for programs of this machine.
pub fn no_library(path: &Path) -> Option<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    let mut head = [0; 64];
    if read_up_to(&mut file, &mut head).is_none() || !head.starts_with(b"\x7fELF") {
        return Some("it is no library".to_owned());
    }
    match elf(&file, &head)? {
        Verdict::Foreign(what) => Some(format!("it is for {what}")),
        _ => None,
    }
}

fn examine_to(path: &Path, depth: u32) -> Option<Verdict> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 256];
    let len = read_up_to(&mut file, &mut head)?;
    let head = &head[..len];
    if let Some(line) = head.strip_prefix(b"#!") {
        return script(line, depth.checked_sub(1)?);
    }
    if !head.starts_with(b"\x7fELF") {
        // Given to the shell, which is a program like others.
        return Some(Verdict::Fine);
    }
    Some(privileges(path, &file).unwrap_or(elf(&file, head)?))
}

fn read_up_to(file: &mut File, into: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        match file.read(&mut into[len..]).ok()? {
            0 => return Some(len),
            more => len += more,
        }
    }
}

fn script(line: &[u8], depth: u32) -> Option<Verdict> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let mut interpreter = PathBuf::from(words.next()?);
    if interpreter.file_name().is_some_and(|name| name == "env") {
        let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
        interpreter = super::program::find_program(named?.as_ref()).ok()?;
    }
    let verdict = examine_to(&interpreter, depth)?;
    Some(match verdict {
        Verdict::Fine => Verdict::Fine,
        other => Verdict::Script(interpreter, Box::new(other)),
    })
}

fn privileges(path: &Path, file: &File) -> Option<Verdict> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let about = file.metadata().ok()?;
    let own = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if about.mode() & SET_USER != 0 && about.uid() != own.0 {
        return Some(Verdict::Privileged("the set-user-id bit"));
    }
    if about.mode() & SET_GROUP == SET_GROUP && about.gid() != own.1 {
        return Some(Verdict::Privileged("the set-group-id bit"));
    }
    let mut value = [0_u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok();
    (capable && own.0 != 0).then_some(Verdict::Privileged("file capabilities"))
}

/// Numbers of one byte order and word size.
struct Numbers {
    little: bool,
    wide: bool,
}

impl Numbers {
    fn at(&self, bytes: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(size)?)?;
        let shift = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
        Some(match self.little {
            true => bytes.iter().rev().fold(0, shift),
            false => bytes.iter().fold(0, shift),
        })
    }

    /// A number of the word's size, at one place or the other.
    fn word(&self, bytes: &[u8], wide_at: usize, narrow_at: usize) -> Option<u64> {
        match self.wide {
            true => self.at(bytes, wide_at, 8),
            false => self.at(bytes, narrow_at, 4),
        }
    }
}

/// The machines that people may meet (`e_machine`).
const MACHINES: [(u64, &str); 8] = [
    (3, "x86"),
    (8, "MIPS"),
    (21, "PowerPC"),
    (22, "s390"),
    (40, "ARM"),
    (62, "x86-64"),
    (183, "AArch64"),
    (243, "RISC-V"),
];

const SEGMENT_INTERPRETER: u64 = 3;
const SEGMENT_NOTE: u64 = 4;
/// Program headers of more than so many bytes are not looked through.
const HEADERS_MAX: u64 = 1 << 16;

/// Walks the program headers (System V ABI, chapter 5).
fn elf(file: &File, head: &[u8]) -> Option<Verdict> {
    let numbers = Numbers {
        wide: *head.get(4)? == 2,
        little: *head.get(5)? == 1,
    };
    let machine = numbers.at(head, 18, 2)?;
    let (own, own_wide) = own_machine()?;
    if machine != own || numbers.wide != own_wide {
        let known = MACHINES.iter().find(|(number, _)| *number == machine);
        let name = known.map_or_else(|| format!("machine {machine}"), |(_, name)| (*name).into());
        let bits = if numbers.wide { 64 } else { 32 };
        return Some(Verdict::Foreign(format!("{name} of {bits} bits")));
    }
    let table_at = numbers.word(head, 32, 28)?;
    let (size_at, count_at) = if numbers.wide { (54, 56) } else { (42, 44) };
    let size = numbers.at(head, size_at, 2)?;
    let bytes = size.checked_mul(numbers.at(head, count_at, 2)?)?;
    let headers = read_at(file, table_at, bytes.min(HEADERS_MAX))?;
    let mut loader = None;
    for header in headers.chunks_exact(usize::try_from(size).ok().filter(|size| *size > 0)?) {
        let offset = numbers.word(header, 8, 4)?;
        let bytes = numbers.word(header, 32, 16)?.min(HEADERS_MAX);
        match numbers.at(header, 0, 4)? {
            SEGMENT_INTERPRETER => loader = Some(read_at(file, offset, bytes)?),
            SEGMENT_NOTE if has_go_note(&read_at(file, offset, bytes)?) => {
                return Some(Verdict::Go);
            }
            _ => {}
        }
    }
    let Some(loader) = loader else {
        return Some(Verdict::Static);
    };
    let loader = String::from_utf8_lossy(&loader)
        .trim_end_matches('\0')
        .to_owned();
    Some(match loader.contains("musl") != cfg!(target_env = "musl") {
        true => Verdict::OtherLibrary(loader),
        false => Verdict::Fine,
    })
}

fn read_at(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut all = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact_at(&mut all, at).ok()?;
    Some(all)
}

/// What this very program is for.
fn own_machine() -> Option<(u64, bool)> {
    let mut head = [0; 64];
    File::open("/proc/self/exe")
        .ok()?
        .read_exact(&mut head)
        .ok()?;
    let numbers = Numbers {
        wide: head[4] == 2,
        little: head[5] == 1,
    };
    Some((numbers.at(&head, 18, 2)?, numbers.wide))
}

/// The linker of Go leaves a note of owner `Go` with the build's id (type 4).
fn has_go_note(notes: &[u8]) -> bool {
    notes
        .windows(8)
        .any(|bytes| bytes == *b"\x04\0\0\0Go\0\0" || bytes == *b"\0\0\0\x04Go\0\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tests_are_fine() {
        assert_eq!(examine(&std::env::current_exe().unwrap()), Verdict::Fine);
        assert_eq!(examine(Path::new("/no/such/file")), Verdict::Unknown);
    }

    #[test]
    fn any_file_is_borne() {
        let folder = std::env::temp_dir().join(format!("barewire-elf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("program");
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head = &whole[..1024];
        for cut in [0, 2, 4, 5, 18, 20, 31, 54, 63, 64, 200] {
            std::fs::write(&path, &head[..cut]).unwrap();
            examine(&path);
        }
        for at in 4..64 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = head.to_vec();
                bytes[at] = value;
                std::fs::write(&path, &bytes).unwrap();
                examine(&path);
            }
        }
        // A script for itself ends.
        let line = format!("#!{}\n", path.display());
        std::fs::write(&path, line).unwrap();
        assert_eq!(examine(&path), Verdict::Unknown);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
