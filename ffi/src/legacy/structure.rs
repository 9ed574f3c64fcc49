//! How flat operands form the tuples that a function of the original conventions knows.

use std::ffi::c_void;

/// Whether a text is a structure: `_` a leaf, brackets a tuple, commas between, `->` before the
/// result.
#[must_use]
pub const fn is_structure(text: &str) -> bool {
    let text = text.as_bytes();
    let mut at = blank(text, 0);
    let mut first = true;
    while at < text.len() && text[at] != b'-' {
        if !first {
            if text[at] != b',' {
                return false;
            }
            at = blank(text, at + 1);
        }
        first = false;
        let Some(behind) = node(text, at) else {
            return false;
        };
        at = blank(text, behind);
    }
    if at + 1 >= text.len() || text[at + 1] != b'>' {
        return false;
    }
    match node(text, blank(text, at + 2)) {
        Some(behind) => blank(text, behind) == text.len(),
        None => false,
    }
}

/// Where the next letter stands.
pub(super) const fn blank(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    at
}

/// Where a node ends.
const fn node(text: &[u8], at: usize) -> Option<usize> {
    if at >= text.len() {
        return None;
    }
    if text[at] == b'_' {
        return Some(at + 1);
    }
    if text[at] != b'(' {
        return None;
    }
    let mut at = blank(text, at + 1);
    if at < text.len() && text[at] == b')' {
        return Some(at + 1);
    }
    loop {
        let Some(behind) = node(text, at) else {
            return None;
        };
        at = blank(text, behind);
        if at >= text.len() {
            return None;
        }
        match text[at] {
            b')' => return Some(at + 1),
            b',' => at = blank(text, at + 1),
            _ => return None,
        }
    }
}

/// Builds the pointers of one call from its leaves. The text is a structure ([`is_structure`]).
pub(super) struct Builder<'a, Leaf> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    /// The arrays of all tuples.
    pub(super) slots: &'a mut [*mut c_void],
    pub(super) used: usize,
    /// Every node in pre-order.
    pub(super) list: &'a mut [*mut c_void],
    pub(super) listed: usize,
    /// The leaf of a number.
    pub(super) leaf: Leaf,
    pub(super) leaves: usize,
    /// Where the first slot lies for the function: in `slots` itself, or in device memory.
    pub(super) base: *mut *mut c_void,
}

impl<Leaf: Fn(usize) -> Option<*mut c_void>> Builder<'_, Leaf> {
    fn blank(&mut self) -> u8 {
        self.at = blank(self.text, self.at);
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Reads the operands up to the arrow; `false` where there are too few leaves. With `roots` the
    /// list has the roots alone.
    pub(super) fn operands(&mut self, roots: bool) -> Option<()> {
        let mut count = 0;
        loop {
            match self.blank() {
                b'-' => {
                    self.at += 2;
                    return Some(());
                }
                b',' => self.at += 1,
                _ => {
                    let address = self.node()?;
                    if roots {
                        *self.list.get_mut(count)? = address;
                        count += 1;
                        self.listed = count;
                    }
                }
            }
        }
    }

    /// Reads a node and says where it lies.
    pub(super) fn node(&mut self) -> Option<*mut c_void> {
        let place = self.listed;
        self.listed += 1;
        let address = match self.blank() {
            b'_' => {
                self.at += 1;
                self.leaves += 1;
                (self.leaf)(self.leaves - 1)?
            }
            _ => self.tuple()?,
        };
        *self.list.get_mut(place)? = address;
        Some(address)
    }

    fn tuple(&mut self) -> Option<*mut c_void> {
        self.at += 1;
        let first = self.used;
        let count = elements(self.text, self.at);
        self.used += count;
        for index in 0..count {
            if self.blank() == b',' {
                self.at += 1;
            }
            let address = self.node()?;
            *self.slots.get_mut(first + index)? = address;
        }
        self.blank();
        self.at += 1;
        Some(self.base.wrapping_add(first).cast())
    }
}

/// Elements of the tuple whose opening bracket lies before `at`.
pub(super) fn elements(text: &[u8], at: usize) -> usize {
    let (mut count, mut depth) = (0, 0_usize);
    for byte in &text[at..] {
        match byte {
            b'_' if depth == 0 => count += 1,
            b'(' => {
                count += usize::from(depth == 0);
                depth += 1;
            }
            b')' if depth == 0 => break,
            b')' => depth -= 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_told_from_other_texts() {
        for text in [
            "-> _",
            "_ -> ()",
            "_, _->_",
            "((_, ()), _) , _ -> (_, ((_)))",
        ] {
            assert!(is_structure(text), "{text}");
        }
        for text in [
            "",
            "_",
            "_ _ -> _",
            "(_ -> _",
            "_) -> _",
            "_ -> _ _",
            "_ ->",
            "_, -> _",
            "(_,) -> _",
            "x -> _",
            "_ - _",
        ] {
            assert!(!is_structure(text), "{text}");
        }
    }

    #[test]
    fn arrays_nest_as_the_text_says() {
        let mut slots = [std::ptr::null_mut(); 16];
        let mut list = [std::ptr::null_mut(); 16];
        let base = slots.as_mut_ptr();
        let mut builder = Builder {
            text: b"(_, ((), _)), _ -> (_)",
            at: 0,
            slots: &mut slots,
            used: 0,
            list: &mut list,
            listed: 0,
            leaf: |index| (index < 4).then(|| std::ptr::without_provenance_mut(100 + index)),
            leaves: 0,
            base,
        };
        builder.operands(false).unwrap();
        let root = builder.node().unwrap();
        assert_eq!((builder.leaves, builder.used, builder.listed), (4, 5, 8));
        let number = |pointer: *mut c_void| pointer as usize;
        let slot = |index: usize| number(base.wrapping_add(index).cast());
        // The pair, its leaf, its inner tuple, the empty one, a leaf; a leaf; the result and its leaf.
        let expected = [slot(0), 100, slot(2), slot(4), 101, 102, slot(4), 103];
        assert_eq!(list.map(number)[..8], expected);
        assert_eq!(slots.map(number)[..5], [100, slot(2), slot(4), 101, 103]);
        assert_eq!(number(root), slot(4));
    }
}
