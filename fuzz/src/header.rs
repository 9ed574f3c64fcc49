//! The text of headers: what we make of it before a compiler sees it.

use std::path::Path;
use xla_ffi_abi::header::Source;

pub(crate) fn attack(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let unit = Source::from_text(Path::new("fuzzed.h"), text.into_owned()).unit();
    let mut lines = unit.lines();
    assert!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("#include \""))
    );
    // Nothing of the header stands there but names: three lines a macro.
    let rest: Vec<&str> = lines.collect();
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
