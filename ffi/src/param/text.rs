//! Builds and compares text and JSON at compile time.

pub(crate) const fn same(a: &str, b: &str) -> bool {
    matches!(order(a, b), std::cmp::Ordering::Equal)
}

pub(crate) const fn order(a: &str, b: &str) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return if a[i] < b[i] {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        i += 1;
    }
    if a.len() < b.len() {
        Ordering::Less
    } else if a.len() > b.len() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

/// A text buffer for constant evaluation. Text beyond `N` bytes is only counted.
pub(crate) struct Text<const N: usize> {
    pub(crate) bytes: [u8; N],
    /// The length of the whole text, including bytes that did not fit.
    pub(crate) len: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    pub(crate) const fn byte(mut self, byte: u8) -> Self {
        if self.len < N {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
        self
    }

    pub(crate) const fn raw(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self = self.byte(bytes[i]);
            i += 1;
        }
        self
    }

    pub(crate) const fn number(self, number: usize) -> Self {
        let this = if number >= 10 {
            self.number(number / 10)
        } else {
            self
        };
        this.byte(b'0' + (number % 10) as u8)
    }
}

impl Text<256> {
    /// Panics at compile time with this text as the message, truncated if it is too long.
    #[track_caller]
    pub(crate) const fn fail(&self) -> ! {
        let len = if self.len < 256 { self.len } else { 256 };
        match std::str::from_utf8(self.bytes.split_at(len).0) {
            Ok(text) => panic!("{}", text),
            // The length limit split a multibyte character.
            Err(_) => panic!("this handler does not fit; its names are too long for a message"),
        }
    }
}

impl<const N: usize> Text<N> {
    pub(crate) const fn string(self, text: &str) -> Self {
        self.byte(b'"').escaped(text).byte(b'"')
    }

    pub(crate) const fn escaped(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let hex = b"0123456789abcdef";
        let mut i = 0;
        while i < bytes.len() {
            let byte = bytes[i];
            if byte == b'"' || byte == b'\\' {
                self = self.byte(b'\\').byte(byte);
            } else if byte < 0x20 {
                self = self.raw("\\u00").byte(hex[(byte >> 4) as usize]);
                self = self.byte(hex[(byte & 15) as usize]);
            } else {
                self = self.byte(byte);
            }
            i += 1;
        }
        self
    }

    pub(crate) const fn boolean(self, value: bool) -> Self {
        self.raw(if value { "true" } else { "false" })
    }

    /// Appends a comma unless `first` is true.
    pub(crate) const fn comma(self, first: bool) -> Self {
        if first { self } else { self.byte(b',') }
    }
}
