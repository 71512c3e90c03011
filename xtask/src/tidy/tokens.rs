//! The words and signs of a source's code, without comments, strings and tests.

use super::lex::{Lexed, is_word};

/// One word or sign of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// An identifier without `r#`, a number, `::`, or a single sign.
    pub(crate) text: String,
    /// The line, counted from 0.
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// An identifier or a keyword.
    pub(crate) fn is_identifier(&self) -> bool {
        self.text
            .chars()
            .next()
            .is_some_and(|c| is_word(c) && !c.is_numeric())
    }
}

/// The tokens of all lines that are not only for tests.
pub(crate) fn tokens(lexed: &Lexed) -> Vec<Token> {
    let mut found = Vec::new();
    for (line, text) in lexed.lines.iter().enumerate() {
        if text.in_test {
            continue;
        }
        let code = text.code.as_str();
        let mut at = 0;
        while let Some(c) = code[at..].chars().next() {
            let rest = &code[at..];
            let len = if is_word(c) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                c.len_utf8()
            };
            let token = &rest[..len];
            at += len;
            if c.is_whitespace() {
                continue;
            }
            if token == "r" && code[at..].starts_with('#') {
                // A raw identifier: its name follows.
                at += 1;
                continue;
            }
            // A lifetime is no name of an item.
            if c == '\'' {
                let name = code[at..].find(|c| !is_word(c));
                at += name.unwrap_or(code.len() - at);
                continue;
            }
            found.push(Token {
                text: token.to_owned(),
                line,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_signs() {
        let lexed = Lexed::new(
            "fn f<'a>(x: &'a str) -> crate::a::B { 'c' } // crate::x\n#[cfg(test)]\nuse crate::y;\nr#type \"crate::z\"",
        );
        let found: Vec<_> = tokens(&lexed).into_iter().map(|t| t.text).collect();
        assert_eq!(
            found.join(" "),
            "fn f < > ( x : & str ) - > crate :: a :: B { } type \" \""
        );
    }
}
