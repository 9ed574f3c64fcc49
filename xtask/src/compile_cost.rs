//! What a file of C++ handlers costs to compile: seconds and bytes of the object file, with our
//! headers and with XLA's own.

use crate::{ui, uv};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::cost;

/// The sources, small ones first, how often each is compiled (the lowest time counts), and how much of upstream's time
/// ours may take.
const SOURCES: [(&str, u32, f64); 5] = [
    ("benches/c/one_handler.cc", 9, 1.0),
    ("benches/c/rms_norm.cc", 9, 0.70),
    ("tests/cpp/operands.cc", 2, 1.0),
    ("tests/cpp/attributes.cc", 2, 1.0),
    ("tests/cpp/forms.cc", 2, 1.0),
];

/// The C++ suite, what both headers have of it, whose files are compiled once each, without optimisation; and how much of
/// upstream's time ours may take in all.
const SUITE: &str = "tests/cpp";
const SHARED: &str = "-DXLA_FFI_SUITE_SHARED";
const SUITE_LIMIT: f64 = 0.85;

const COMPILERS: [&str; 2] = ["g++", "clang++"];

/// Seconds of processors, and bytes.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    bytes: u64,
}

/// Compiles each source with each compiler and both kinds of headers, in turns; where ours cost more.
pub(crate) fn run(root: &Path, out: &Path, upstream: &str) -> Result<Vec<String>> {
    let ours = root.join("include");
    let theirs = match uv::headers(upstream) {
        Ok(include) => include,
        Err(error) => {
            ui::note(format_args!(
                "compile: no headers of jaxlib {upstream}: {error:#}"
            ));
            return Ok(vec![]);
        }
    };
    println!("\n-O2, lowest of several: processor time and bytes of the object file");
    println!(
        "{:26}{:9}{:>10}{:>12}{:>12}{:>14}",
        "source", "compiler", "ours, s", "upstream, s", "ours, B", "upstream, B"
    );
    let (mut misses, mut rows) = (vec![], vec![]);
    let (here, missing): (Vec<_>, Vec<_>) = COMPILERS.into_iter().partition(|name| works(name));
    for compiler in missing {
        ui::note(format_args!("compile: {compiler} is not installed"));
    }
    for (source, times, limit) in SOURCES {
        for compiler in &here {
            let mut best = [None; 2];
            for _ in 0..times {
                for (include, best) in [&ours, &theirs].into_iter().zip(&mut best) {
                    let cost = compile(root, out, compiler, "-O2", source, include)?;
                    *best = Some(best.map_or(cost, |best: Cost| Cost {
                        seconds: best.seconds.min(cost.seconds),
                        bytes: cost.bytes,
                    }));
                }
            }
            let [Some(ours), Some(theirs)] = best else {
                continue;
            };
            println!(
                "{source:26}{compiler:9}{:>10.2}{:>12.2}{:>12}{:>14}",
                ours.seconds, theirs.seconds, ours.bytes, theirs.bytes
            );
            misses.extend(judge(source, compiler, ours, theirs, limit));
            rows.push(serde_json::json!({
                "source": source, "compiler": compiler,
                "seconds": ours.seconds, "upstream_seconds": theirs.seconds,
                "bytes": ours.bytes, "upstream_bytes": theirs.bytes,
            }));
        }
    }
    println!("\n-O0, every file of {SUITE} once: processor time");
    for compiler in &here {
        let (mut ours_seconds, mut theirs_seconds) = (0.0, 0.0);
        for entry in fs::read_dir(root.join(SUITE))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".cc") {
                let source = format!("{SUITE}/{name}");
                ours_seconds += compile(root, out, compiler, "-O0", &source, &ours)?.seconds;
                theirs_seconds += compile(root, out, compiler, "-O0", &source, &theirs)?.seconds;
            }
        }
        println!("{SUITE:26}{compiler:9}{ours_seconds:>10.2}{theirs_seconds:>12.2}");
        misses.extend(slow(
            SUITE,
            compiler,
            ours_seconds,
            theirs_seconds,
            SUITE_LIMIT,
        ));
        rows.push(serde_json::json!({
            "source": SUITE, "compiler": compiler,
            "seconds": ours_seconds, "upstream_seconds": theirs_seconds,
        }));
    }
    let path = out.join("compile.json");
    let report = serde_json::json!({ "sources": rows });
    fs::write(&path, format!("{report:#}\n")).with_context(|| path.display().to_string())?;
    Ok(misses)
}

/// Where ours cost more than they may.
fn judge(source: &str, compiler: &str, ours: Cost, theirs: Cost, limit: f64) -> Vec<String> {
    let mut misses = vec![];
    misses.extend(slow(source, compiler, ours.seconds, theirs.seconds, limit));
    if ours.bytes > theirs.bytes {
        misses.push(format!(
            "{source}, {compiler}: an object of {} bytes, with upstream's headers of {}",
            ours.bytes, theirs.bytes
        ));
    }
    misses
}

/// Whether ours take more of upstream's time than they may.
fn slow(source: &str, compiler: &str, ours: f64, theirs: f64, limit: f64) -> Option<String> {
    (ours > limit * theirs).then(|| {
        format!(
            "{source}, {compiler}: compiled in {ours:.2} s, with upstream's headers in {theirs:.2} s, at most {limit} of that"
        )
    })
}

/// Compiles one source once.
fn compile(
    root: &Path,
    out: &Path,
    compiler: &str,
    level: &str,
    source: &str,
    include: &Path,
) -> Result<Cost> {
    let object = out.join("cost.o");
    let paths = [include, &root.join(source), &object].map(|path| path.display().to_string());
    let [include, path, to] = paths.each_ref().map(String::as_str);
    let flags = [
        level,
        SHARED,
        "-std=c++17",
        "-fPIC",
        "-w",
        "-pthread",
        "-c",
        "-isystem",
    ];
    let arguments = [&[compiler], &flags[..], &[include, path, "-o", to]].concat();
    let (output, cost) = cost::shell("\"$@\"", &arguments, |_| {});
    ensure!(
        output.status.success(),
        "{compiler} cannot compile {source}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Cost {
        seconds: cost.computed.as_secs_f64(),
        bytes: fs::metadata(&object)?.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Cost, judge};

    #[test]
    fn more_seconds_or_bytes_are_a_miss_each() {
        let cost = |seconds, bytes| Cost { seconds, bytes };
        let judged = |seconds, bytes, limit| {
            judge("a.cc", "g++", cost(seconds, bytes), cost(1.0, 10), limit).len()
        };
        assert_eq!(judged(1.0, 10, 1.0), 0);
        assert_eq!(judged(1.1, 10, 1.0), 1);
        assert_eq!(judged(0.71, 10, 0.7), 1);
        assert_eq!(judged(1.1, 11, 1.0), 2);
    }
}
