//! Names of programs and instructions.

use std::collections::BTreeSet;
use xla_ffi_runtime::DType;

/// Why HLO's parser would not take this name; `None` where it does.
pub(super) fn illegal(name: &str) -> Option<&'static str> {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Some("names begin with an ASCII letter or '_'");
    }
    if !name.chars().all(word) {
        return Some("names are made of ASCII letters, digits, '_', '-' and '.'");
    }
    let is_type = DType::all().any(|dtype| dtype.name() == name);
    if is_type || matches!(name, "opaque" | "tuple_type" | "true" | "false") {
        return Some("the word means something else in HLO; append '_'");
    }
    None
}

/// The names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Takes a name; `false` when it is taken.
    pub(super) fn reserve(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Takes `wanted` or, where that is taken, a longer name.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.reserve(&name) {
            name.push('_');
        }
        name
    }
}
