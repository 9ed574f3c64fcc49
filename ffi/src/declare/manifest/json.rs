//! JSON, put together at compile time.

use crate::param::text::Text;

impl<const N: usize> Text<N> {
    pub(super) const fn string(self, text: &str) -> Self {
        self.byte(b'"').escaped(text).byte(b'"')
    }

    pub(super) const fn escaped(mut self, text: &str) -> Self {
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

    pub(super) const fn boolean(self, value: bool) -> Self {
        self.raw(if value { "true" } else { "false" })
    }

    /// A comma where something went before.
    pub(super) const fn comma(self, first: bool) -> Self {
        if first { self } else { self.byte(b',') }
    }
}
