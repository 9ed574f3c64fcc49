//! The text of headers: what we make of it before a compiler sees it.

use std::path::Path;
use xla_ffi_abi::header::Source;

pub(crate) fn attack(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let unit = Source::from_text(Path::new("fuzzed.h"), text.into_owned()).unit();
    let (includes, rest): (Vec<&str>, Vec<&str>) = unit
        .lines()
        .partition(|line| line.starts_with("#include \""));
    assert_eq!(includes.len(), 2, "the names and the header");
    // Nothing of the header stands there but names: three lines a macro.
    for macros in rest.chunks(3) {
        let name = macros[0].strip_prefix("#ifdef ").expect("a macro");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "{name:?}"
        );
        assert!(
            macros[1].contains(&format!("= ({name}) ")),
            "{:?}",
            macros[1]
        );
        assert_eq!(macros[2], "#endif");
    }
}
