//! What a file of C++ handlers costs to compile with our headers and with XLA's own.

use crate::uv;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::cost;

/// The sources, and how much of upstream's time and bytes ours may take.
const SOURCES: [(&str, f64); 5] = [
    ("benches/c/one_handler.cc", 1.0),
    ("benches/c/rms_norm.cc", 0.70),
    ("tests/cpp/operands.cc", 1.0),
    ("tests/cpp/attributes.cc", 1.0),
    ("tests/cpp/forms.cc", 1.0),
];

/// How often each is compiled: the lowest time counts.
const TIMES: usize = 3;

/// Compiles each source with each compiler and both kinds of headers, in turns; returns where ours cost more.
pub(crate) fn run(root: &Path, out: &Path, upstream: &str) -> Result<Vec<String>> {
    let headers = [root.join("include"), uv::headers(upstream)?];
    println!(
        "\n-O2, lowest of {TIMES}: processor time in s, and bytes of the object file; ours and upstream's"
    );
    let mut misses = vec![];
    for (source, limit) in SOURCES {
        for compiler in ["g++", "clang++"].into_iter().filter(|name| works(name)) {
            let mut seconds = [f64::INFINITY; 2];
            let mut bytes = [0; 2];
            for turn in 0..2 * TIMES {
                let which = turn % 2;
                let object = out.join("cost.o");
                let paths = [&headers[which], &root.join(source), &object];
                let [include, file, to] = paths.map(|path| path.to_string_lossy());
                let flags = "-O2 -DXLA_FFI_SUITE_SHARED -std=c++17 -fPIC -w -pthread -c -isystem";
                let command = format!("\"$1\" {flags} \"$2\" \"$3\" -o \"$4\"");
                let (output, cost) =
                    cost::shell(&command, &[compiler, &include, &file, &to], |_| {});
                let said = String::from_utf8_lossy(&output.stderr);
                ensure!(
                    output.status.success(),
                    "{compiler} cannot compile {source}: {said}"
                );
                seconds[which] = seconds[which].min(cost.computed.as_secs_f64());
                bytes[which] = fs::metadata(&object)?.len();
            }
            let line = format!("{source:26}{compiler:9}{seconds:10.2?}{bytes:12?}");
            println!("{line}");
            if seconds[0] > limit * seconds[1] || bytes[0] > bytes[1] {
                misses.push(format!(
                    "{line}: at most {limit} of upstream's time, and its bytes"
                ));
            }
        }
    }
    Ok(misses)
}
