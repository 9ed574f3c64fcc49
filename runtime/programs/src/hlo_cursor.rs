//! A position in HLO text, with errors that contain the line number.

use super::ValueShape;
use xla_ffi_runtime::{Error, Result};

/// A position in HLO text. Every function first skips white space and comments `/*…*/` and `// …`.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

/// Returns true if a character is part of a word.
fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns an error with the line number of this position.
    #[cold]
    pub(super) fn wrong(&self, why: impl Into<String>) -> Error {
        let line = 1 + self.text[..self.at].matches('\n').count();
        let why: String = why.into();
        Error::invalid_argument(format!("HLO text, line {line}: {why}"))
    }

    #[cold]
    fn expected(&self, what: &str) -> Error {
        let rest: String = self.rest().chars().take(20).collect();
        let rest = rest.lines().next().unwrap_or_default();
        self.wrong(match rest {
            "" => format!("expected {what}, got the end of the line"),
            rest => format!("expected {what}, got {rest:?}"),
        })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let end = match self.rest() {
                rest if rest.starts_with("/*") => rest.find("*/").map(|end| end + 2),
                rest if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
                _ => return,
            };
            let Some(end) = end else { return };
            self.at += end;
        }
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// Returns true if the text `what` is next.
    pub(super) fn peek(&mut self, what: &str) -> bool {
        self.skip();
        self.rest().starts_with(what)
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        let comes = self.peek(what);
        if comes {
            self.at += what.len();
        }
        comes
    }

    pub(super) fn expect(&mut self, what: &str) -> Result<()> {
        match self.eat(what) {
            true => Ok(()),
            false => Err(self.expected(&format!("{what:?}"))),
        }
    }

    /// Reads a word: letters, digits and `_-.`.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str> {
        self.skip();
        let rest = self.rest();
        let length = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.expected(what));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// Reads a name: a word, with or without a leading `%`.
    pub(super) fn name(&mut self, what: &str) -> Result<&'t str> {
        let _ = self.eat("%");
        self.word(what)
    }

    pub(super) fn number(&mut self, what: &str) -> Result<usize> {
        let before = self.at;
        let word = self.word(what)?;
        word.parse().map_err(|_| {
            self.at = before;
            self.expected(what)
        })
    }

    /// Reads the text from an opening bracket to its closing bracket, including both brackets.
    pub(super) fn balanced(&mut self) -> Result<&'t str> {
        self.skip();
        let start = self.at;
        let mut open = 0_usize;
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None => {
                    self.at = start;
                    return Err(self.wrong("a bracket is not closed"));
                }
                Some('"') => {
                    self.string()?;
                    continue;
                }
                Some('(' | '{' | '[' | '<') => open += 1,
                // The arrow `->` of a function type is not a bracket.
                Some('-') if rest.starts_with("->") => self.at += 1,
                Some(')' | '}' | ']' | '>') if open > 0 => open -= 1,
                _ if open == 0 => return Err(self.expected("a bracket")),
                Some(_) => {}
            }
            self.at += rest.chars().next().map_or(0, char::len_utf8);
            if open == 0 {
                return Ok(&self.text[start..self.at]);
            }
        }
    }

    /// Skips the value of an attribute and returns its text.
    pub(super) fn value(&mut self) -> Result<&'t str> {
        self.skip();
        let start = self.at;
        if self.peek("\"") {
            self.string()?;
        } else if ["{", "(", "["].iter().any(|bracket| self.peek(bracket)) {
            self.balanced()?;
        } else {
            self.name("a value")?;
        }
        Ok(&self.text[start..self.at])
    }

    /// Returns true if a shape is next; false if a name is next.
    pub(super) fn shape_comes(&mut self) -> bool {
        if self.peek("(") {
            return true;
        }
        let rest = self.rest();
        let word = rest.find(|letter| !is_word(letter)).unwrap_or(0);
        word > 0 && rest[word..].starts_with('[')
    }

    pub(super) fn shape(&mut self) -> Result<ValueShape> {
        self.skip();
        let start = self.at;
        if self.peek("(") {
            self.balanced()?;
        } else {
            self.word("a shape")?;
            if self.rest().starts_with('[') {
                self.balanced()?;
                if self.rest().starts_with('{') {
                    self.balanced()?;
                }
            }
        }
        let text = &self.text[start..self.at];
        ValueShape::parse(text).map_err(|error| self.wrong(error.to_string()))
    }

    /// Reads a quoted string with the escapes of C, and returns its bytes.
    pub(super) fn string(&mut self) -> Result<Vec<u8>> {
        self.expect("\"")?;
        let mut bytes = vec![];
        let mut rest = self.rest().bytes().enumerate();
        loop {
            let (at, byte) = rest
                .next()
                .ok_or_else(|| self.wrong("the string has no end"))?;
            let escaped = match byte {
                b'"' => {
                    self.at += at + 1;
                    return Ok(bytes);
                }
                b'\\' => rest.next().map(|(_, byte)| byte),
                _ => {
                    bytes.push(byte);
                    continue;
                }
            };
            bytes.push(match escaped {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(byte @ (b'"' | b'\\' | b'\'')) => byte,
                Some(first @ b'0'..=b'7') => {
                    let mut value = u32::from(first - b'0');
                    let digits = rest.clone().map(|(_, byte)| byte).take(2);
                    let digits: Vec<u8> = digits
                        .take_while(|byte| (b'0'..=b'7').contains(byte))
                        .collect();
                    for digit in digits {
                        value = 8 * value + u32::from(digit - b'0');
                        let _ = rest.next();
                    }
                    u8::try_from(value)
                        .map_err(|_| self.wrong("an octal escape does not fit in a byte"))?
                }
                Some(other) => {
                    let other = char::from(other);
                    return Err(
                        self.wrong(format!("'\\{}' is not an escape", other.escape_default()))
                    );
                }
                None => return Err(self.wrong("the string has no end")),
            });
        }
    }

    /// Reads the text before the next comma, bracket or blank.
    pub(super) fn element(&mut self) -> Result<&'t str> {
        self.skip();
        let rest = self.rest();
        let ends = |letter: char| letter.is_whitespace() || ",{}()".contains(letter);
        let length = rest.find(ends).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.expected("a value"));
        }
        self.at += length;
        Ok(&rest[..length])
    }
}
