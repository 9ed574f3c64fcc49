//! A cursor for parsers, and parse errors with positions in the text.

use std::fmt;
use std::ops::Range;
use xla_ffi_sys::{Error, ErrorCode};

/// A parse error: the text, the byte range of the error, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    span: Range<usize>,
    message: String,
}

impl ParseError {
    pub(crate) fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        // The message quotes the input. Control characters are escaped, so that the message is a single line and
        // cannot control a terminal.
        let printable = |letter: char| match letter.is_control() {
            true => letter.escape_default().to_string(),
            false => letter.into(),
        };
        Self {
            text: text.to_owned(),
            span,
            message: message.into().chars().map(printable).collect(),
        }
    }

    /// Returns the byte range of the error in the text.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the reason of the error.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // For a long text, the message shows only the part around the error.
        let shown = |from: usize, to: usize| {
            self.text[from..to]
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
        };
        let floor = |mut at: usize| {
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let at = floor(self.span.start.min(self.text.len()));
        let from = floor(at.saturating_sub(40));
        let to = floor((at + 40).min(self.text.len()));
        writeln!(f, "{} (at byte {at})", self.message)?;
        let lead = if from > 0 { "…" } else { "" };
        let trail = if to < self.text.len() { "…" } else { "" };
        writeln!(f, "  {lead}{}{trail}", shown(from, to).collect::<String>())?;
        let indent = lead.chars().count() + shown(from, at).count();
        write!(f, "  {}^", " ".repeat(indent))
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Self::new(ErrorCode::InvalidArgument, error.to_string()).with_source(error)
    }
}

/// A position in a text, with functions that consume the text.
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(crate) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Skips white space, then consumes `literal` if it is next. Returns true if `literal` was consumed.
    pub(crate) fn eat(&mut self, literal: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(literal);
        if found {
            self.at += literal.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, literal: &str, what: &str) -> Result<(), ParseError> {
        if self.eat(literal) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{literal}' {what}")))
    }

    /// Consumes and returns the characters before the first character for which `keep` returns false.
    pub(crate) fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    pub(crate) fn unexpected(&self, expected: &str) -> ParseError {
        let came = match self.peek() {
            Some(c) => format!("'{c}'"),
            None => "the end".to_owned(),
        };
        self.error(
            self.at..self.at + 1,
            format!("expected {expected}, got {came}"),
        )
    }

    pub(crate) fn error(&self, span: Range<usize>, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, span, message)
    }
}
