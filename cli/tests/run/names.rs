//! Names that a library or a file brings: terminals and runners of workflows obey none of them, and none begins a line that
//! reads as this program's own.

use crate::*;

/// A library whose manifest this is.
fn described(test: &str, manifest: &str) -> Option<PathBuf> {
    let mut bytes = b"XLAFFIMF\x01\0\0\0".to_vec();
    bytes.extend((manifest.len() as u32).to_le_bytes());
    bytes.extend(manifest.bytes());
    let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
    let source = format!(
        "__attribute__((section(\".xla_ffi_manifest\"), used, aligned(16)))\n\
         const unsigned char manifest[] = {{{}}};\nvoid* l__h(void* frame) {{ return 0 * (long)frame; }}\n",
        bytes.join(",")
    );
    let folder = tmp().join(test);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("escapes.c");
    std::fs::write(&file, source).unwrap();
    shared_library(&folder, test, &file, "escapes", &[])
}

/// Nothing on any stream that a terminal or a workflow's runner takes for a command.
fn is_harmless(out: &Output) -> String {
    let mut all = String::new();
    for stream in [&out.stdout, &out.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap();
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text:?}"
        );
        for line in text.lines() {
            let obeyed = line.trim_start().starts_with("::error::pwn") || line.contains("##[pwn");
            assert!(!obeyed, "{text:?}");
        }
        all += &text;
    }
    all
}

#[test]
fn names_with_control_characters_are_escaped() {
    let test = "names_with_control_characters_are_escaped";
    for (number, (library, handler)) in [
        ("l\\u001b[31m", "h"),
        ("l", "h\\u001b]0;x\\u0007"),
        ("l", "h\\n::error::pwn"),
        ("l\\n::error::pwn", "h"),
    ]
    .into_iter()
    .enumerate()
    {
        let manifest = format!(
            r#"{{"library": "{library}", "sdk": "0", "handlers": [{{"name": "{handler}", "platforms": ["cpu"],
            "stages": {{"execute": "l__h"}}, "args": [], "rets": [], "attrs": [], "floor": "r0"}}]}}"#
        );
        let Some(lib) = described(&format!("{test}{number}"), &manifest) else {
            return;
        };
        for command in ["inspect", "doctor", "run", "check"] {
            is_harmless(&xla_ffi(command, &lib, &[]));
        }
        for form in ["github", "sarif", "json"] {
            is_harmless(&xla_ffi("doctor", &lib, &["--format", form]));
        }
    }
}
