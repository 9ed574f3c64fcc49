//! Tests the commands in docs/ci.md and docs/abi.md. Each command runs in a new folder with the files that the pages
//! name. The command must have the documented exit status, and use less than two seconds of processor time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::{cost, headers, root, skip};

/// A library with a handler that answers with the runtime's version. The handler has an instantiate stage, and a type
/// for its state.
const LIBRARY: &str = r#"
#include "xla/ffi/api/c_api.h"
struct State { static XLA_FFI_TypeId id; };
XLA_FFI_TypeId State::id = {};
extern "C" {
void destroy(void*) {}
XLA_FFI_TypeInfo state_info = {sizeof(XLA_FFI_TypeInfo), nullptr, destroy};
XLA_FFI_Error* run(XLA_FFI_CallFrame* frame) {
  auto* extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version =
        frame->api ? frame->api->api_version.minor_version : 1;
    extension->metadata->traits = 0;
  }
  return nullptr;
}
XLA_FFI_Error* make(XLA_FFI_CallFrame* frame) { return run(frame); }
XLA_FFI_Error* my_op(XLA_FFI_CallFrame* frame) { return run(frame); }
}
"#;

/// The layout that the program of a mirror of revision r9 prints, with the names of the test mirrors.
const LAYOUT: &str = r#"{"structs": {
    "Buffer": {"size": 48, "fields": {"struct_size": {"offset": 0}, "extensions": {"offset": 8}, "kind": {"offset": 16},
        "data": {"offset": 24}, "rank": {"offset": 32}, "dims": {"offset": 40}}}},
    "enums": {"Stage": {"values": {"STAGE_EXECUTE": 3, "STAGE_RECORD": 4}}}}"#;

/// Returns the commands on a page of the documentation: the lines of its shell blocks, and the code in its tables.
fn commands(chapter: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs").join(chapter)).unwrap();
    let mut found = Vec::new();
    let mut is_shell = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell {
            found.push(line.split("  #").next().unwrap().trim().to_owned());
        } else if line.starts_with('|') {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(
                quoted
                    .filter(|word| word.starts_with("xla-ffi "))
                    .map(str::to_owned),
            );
        }
    }
    // Commands for maintainers, and general forms such as `xla-ffi abi …`, are not run.
    found.retain(|line| line.starts_with("xla-ffi ") && !line.contains('…'));
    found
}

fn write(path: PathBuf, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Creates all files that the commands on the pages use.
fn prepare(folder: &Path, headers: &Path) {
    let header = std::fs::read(headers.join("xla/ffi/api/c_api.h")).unwrap();
    for place in ["third_party/xla/ffi/api", "path/to", ".", "old", "new"] {
        write(folder.join(place).join("c_api.h"), &header);
    }
    let mirrors = root().join("cli/tests/mirrors");
    std::fs::copy(mirrors.join("names.json"), folder.join("names.json")).unwrap();
    write(folder.join("my.json"), LAYOUT);
    write(folder.join("library.cc"), LIBRARY);
    let mirror = "#include \"mirror.h\"\nlong uses(Buffer* b, Args* a, Stage s) { return b->rank + a->size + s; }\n";
    write(folder.join("mirror.c"), mirror);
    for (compiler, source, library) in [
        ("g++", "library.cc", "build/libmine.so"),
        ("gcc", "mirror.c", "libmine.so"),
    ] {
        let library = folder.join(library);
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        let output = Command::new(compiler)
            .args(["-shared", "-fPIC", "-w", "-g", "-I"])
            .arg(root().join("include"))
            .arg("-I")
            .arg(&mirrors)
            .arg("-o")
            .args([&library, &folder.join(source)])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for copy in [
        "released/libmine.so",
        "old.so",
        "new.so",
        "build/libother.so",
    ] {
        let library = std::fs::read(folder.join("build/libmine.so")).unwrap();
        write(folder.join(copy), library);
    }
}

#[test]
fn every_line_of_the_book_runs_in_under_two_seconds() {
    let name = "every_line_of_the_book_runs_in_under_two_seconds";
    let Some(all) = headers::all(name) else {
        return;
    };
    // The commands on the pages use the headers of revision r9.
    let r9 = all.iter().find(|headers| headers.revision.name() == "r9");
    let headers = &r9.expect("headers of r9").include;
    if !works("g++") || !works("gcc") {
        return skip(name, "there is no compiler");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_xla-ffi"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), headers);
    let lines: Vec<String> = ["ci.md", "abi.md"].into_iter().flat_map(commands).collect();
    assert!(lines.len() >= 18, "{lines:#?}");
    for line in lines {
        let (output, cost) = cost::shell(&line, &[], |command| {
            command.current_dir(folder.path()).env("PATH", &path);
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        println!(
            "{:>5} ms, {:>5} computed  {line}",
            cost.clock.as_millis(),
            cost.computed.as_millis()
        );
        assert!(
            cost.is_under(Duration::from_secs(2)),
            "{line} takes {cost:?}"
        );
    }
}
