//! A modest lexer: splits each line of Rust into code and comment, with the
//! insides of strings and characters blanked, and marks what is only for tests.
//!
//! It knows nested block comments, raw, byte and C strings of any number of
//! `#`, and characters against lifetimes. It does not know macros: what a macro
//! makes is seen only where it is written.

/// A source, line by line.
#[derive(Debug)]
pub(crate) struct Lexed {
    pub(crate) lines: Vec<Line>,
}

/// One line, its two parts told apart.
#[derive(Debug, Default, Clone)]
pub(crate) struct Line {
    /// The code, in its columns; strings are emptied, comments left out.
    pub(crate) code: String,
    /// The text of the comments on this line, with their slashes.
    pub(crate) comment: String,
    /// Whether the line belongs to an item that only tests compile.
    pub(crate) in_test: bool,
}

impl Line {
    /// A line with a comment and nothing else.
    pub(crate) fn is_only_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }

    /// A line that begins with an attribute.
    pub(crate) fn is_attribute(&self) -> bool {
        let code = self.code.trim_start();
        code.starts_with("#[") || code.starts_with("#![")
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.code.trim().is_empty() && self.comment.is_empty()
    }
}

/// Where a character stands.
#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { hashes: Option<usize> },
}

impl Lexed {
    pub(crate) fn new(text: &str) -> Self {
        let mut lines = split(text);
        mark_tests(&mut lines);
        Self { lines }
    }

    /// Lines above `line`, nearest first, with their numbers.
    pub(crate) fn above(&self, line: usize) -> impl Iterator<Item = &Line> {
        self.lines[..line].iter().rev()
    }
}

fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut i = 0;
    while i < chars.len() {
        if chars[i] == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            i += 1;
            continue;
        }
        let Some(line) = lines.last_mut() else { break };
        let taken;
        (taken, state) = match state {
            State::Code => take_code(&chars, i, line),
            State::LineComment => {
                line.comment.push(chars[i]);
                (1, state)
            }
            State::BlockComment { depth } => take_block_comment(&chars, i, depth, line),
            State::Text { hashes: None } => take_text(&chars, i, line),
            State::Text {
                hashes: Some(hashes),
            } => take_raw_text(&chars, i, hashes, line),
        };
        i += taken;
    }
    lines
}

/// Takes what stands at `i` into `line`: how many characters, and what follows them.
fn take_code(chars: &[char], i: usize, line: &mut Line) -> (usize, State) {
    let (c, next) = (chars[i], chars.get(i + 1));
    if c == '/' && next == Some(&'/') {
        return (0, State::LineComment);
    }
    if c == '/' && next == Some(&'*') {
        line.comment.push_str("/*");
        return (2, State::BlockComment { depth: 1 });
    }
    if let Some(prefix) = raw_string_at(chars, i) {
        line.code.push('"');
        let hashes = Some(prefix.hashes);
        return (prefix.len, State::Text { hashes });
    }
    if c == '\'' {
        if let Some(len) = char_literal_len(&chars[i..]) {
            line.code.push_str("' '");
            return (len, State::Code);
        }
    }
    line.code.push(c);
    match c {
        '"' => (1, State::Text { hashes: None }),
        _ => (1, State::Code),
    }
}

fn take_block_comment(chars: &[char], i: usize, depth: usize, line: &mut Line) -> (usize, State) {
    let (taken, depth) = match (chars[i], chars.get(i + 1)) {
        ('*', Some('/')) => (2, depth - 1),
        ('/', Some('*')) => (2, depth + 1),
        _ => (1, depth),
    };
    line.comment.extend(&chars[i..i + taken]);
    match depth {
        0 => (taken, State::Code),
        _ => (taken, State::BlockComment { depth }),
    }
}

fn take_text(chars: &[char], i: usize, line: &mut Line) -> (usize, State) {
    let text = State::Text { hashes: None };
    match (chars[i], chars.get(i + 1)) {
        ('\\', Some(&next)) if next != '\n' => (2, text),
        ('"', _) => {
            line.code.push('"');
            (1, State::Code)
        }
        _ => (1, text),
    }
}

fn take_raw_text(chars: &[char], i: usize, hashes: usize, line: &mut Line) -> (usize, State) {
    let mut behind = chars[i + 1..].iter().take(hashes);
    let is_whole = chars.len() - i > hashes;
    if chars[i] == '"' && is_whole && behind.all(|&c| c == '#') {
        line.code.push('"');
        return (hashes + 1, State::Code);
    }
    let hashes = Some(hashes);
    (1, State::Text { hashes })
}

struct RawPrefix {
    hashes: usize,
    len: usize,
}

/// `r"`, `r#"`, `br##"`, `cr"` at `i`, if an identifier does not end there.
fn raw_string_at(chars: &[char], i: usize) -> Option<RawPrefix> {
    if i > 0 && is_word(chars[i - 1]) {
        return None;
    }
    let mut at = i;
    if matches!(chars[at], 'b' | 'c') {
        at += 1;
    }
    if chars.get(at) != Some(&'r') {
        return None;
    }
    at += 1;
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    at += hashes;
    (chars.get(at) == Some(&'"')).then_some(RawPrefix {
        hashes,
        len: at + 1 - i,
    })
}

/// How long the character literal is that begins here, if it is none of a
/// lifetime's.
fn char_literal_len(chars: &[char]) -> Option<usize> {
    match (chars.get(1)?, chars.get(2)) {
        ('\\', Some(_)) => {
            let end = chars[3..].iter().position(|&c| c == '\'' || c == '\n')?;
            (chars[3 + end] == '\'').then_some(end + 4)
        }
        (_, Some('\'')) => Some(3),
        _ => None,
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands in `code` with no letter, digit or `_` on either side.
pub(crate) fn find_word(code: &str, word: &str) -> Option<usize> {
    code.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether an attribute makes an item one that only tests compile.
pub(crate) fn is_test_attribute(attribute: &str) -> bool {
    let attribute: String = attribute.split_whitespace().collect();
    let conditional = attribute.contains("[cfg(")
        && find_word(&attribute, "test").is_some()
        && !attribute.contains("not(")
        && !attribute.contains("any(");
    conditional || attribute.contains("#[test]")
}

/// What follows the attributes that a line begins with.
pub(crate) fn after_attributes(code: &str) -> &str {
    let mut rest = code.trim_start();
    while rest.starts_with("#[") || rest.starts_with("#![") {
        let mut depth = 0usize;
        let end = rest.find(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ']' && depth == 0
        });
        match end {
            Some(end) => rest = rest[end + 1..].trim_start(),
            None => return "",
        }
    }
    rest
}

/// Marks the items behind `#[cfg(test)]`, `#[cfg(all(test, ...))]` and
/// `#[test]`, and the whole file behind `#![cfg(test)]`.
fn mark_tests(lines: &mut [Line]) {
    let whole_file = lines
        .iter()
        .any(|line| line.code.trim_start().starts_with("#![") && is_test_attribute(&line.code));
    // The depth of brackets inside the item, once it is known to be a test's.
    let mut item_depth: Option<usize> = None;
    for line in lines {
        if whole_file {
            line.in_test = true;
            continue;
        }
        let code = line.code.trim().to_owned();
        if item_depth.is_none() && code.starts_with("#[") && is_test_attribute(&code) {
            item_depth = Some(0);
        }
        let Some(mut depth) = item_depth else {
            continue;
        };
        line.in_test = true;
        let mut ended = false;
        for c in after_attributes(&code).chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => {
                    depth = depth.saturating_sub(1);
                    ended |= c == '}' && depth == 0;
                }
                ';' if depth == 0 => ended = true,
                _ => {}
            }
        }
        item_depth = if ended && depth == 0 {
            None
        } else {
            Some(depth)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Lexed::new(text)
            .lines
            .into_iter()
            .map(|line| line.code)
            .collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code("let a = \"unsafe\"; // unsafe"), ["let a = \"\"; "]);
        assert_eq!(code("a /* unsafe /* deep */ unsafe */ b"), ["a  b"]);
        assert_eq!(
            code("r#\"unsafe \" \\\"# + br\"\\\" + cr\"x\""),
            ["\"\" + \"\" + \"\""]
        );
        assert_eq!(code("\"a\\\"unsafe\\\\\" b"), ["\"\" b"]);
        assert_eq!(
            code("\"two\nunsafe lines\" b\n// c\nd"),
            ["\"", "\" b", "", "d"]
        );
    }

    #[test]
    fn characters_are_not_lifetimes() {
        assert_eq!(
            code("fn f<'a>(x: &'a str) { '\"' }"),
            ["fn f<'a>(x: &'a str) { ' ' }"]
        );
        assert_eq!(code(r"'\'' '\\' b'\x7f' 'a'"), ["' ' ' ' b' ' ' '"]);
        assert_eq!(code("for x in r { var\"s\" }"), ["for x in r { var\"\" }"]);
    }

    #[test]
    fn comments_are_kept() {
        let lexed = Lexed::new("a // SAFETY: b\n/* c\nd */ e");
        assert_eq!(lexed.lines[0].comment, "// SAFETY: b");
        assert_eq!(lexed.lines[1].comment, "/* c");
        assert_eq!(lexed.lines[2].comment, "d */");
        assert_eq!(lexed.lines[2].code, " e");
    }

    #[test]
    fn words_have_ends() {
        assert_eq!(find_word("forbid(unsafe_code)", "unsafe"), None);
        assert_eq!(find_word("an_unsafe unsafe", "unsafe"), Some(10));
    }

    #[test]
    fn test_items_are_marked() {
        let text = "\
a
#[cfg(test)]
mod tests {
    fn f() { }
}
b
#[cfg(test)]
use x;
c
#[cfg(all(test, barewire_loom))]
#[allow(dead_code)]
fn g() {}
d
#[cfg(not(test))]
e
#[cfg(any(test, x))]
f
#[test]
fn h(a: [u8; 2]) {
    i
}
j";
        let marked: Vec<_> = Lexed::new(text)
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.in_test)
            .map(|(i, _)| i)
            .collect();
        assert_eq!(marked, [1, 2, 3, 4, 6, 7, 9, 10, 11, 17, 18, 19, 20]);
    }

    #[test]
    fn a_whole_file_can_be_a_test() {
        let lexed = Lexed::new("//! Header.\n#![cfg(test)]\nfn f() {}\n");
        assert!(lexed.lines.iter().all(|line| line.in_test));
    }
}
