//! What a file of C++ handlers costs to compile: seconds and bytes of the object file, with our
//! headers and with XLA's own.

use crate::{ui, wheel};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The sources, small ones first, and how often each is compiled; the lowest time counts.
const SOURCES: [(&str, u32); 5] = [
    ("benches/c/one_handler.cc", 5),
    ("benches/c/rms_norm.cc", 5),
    ("tests/cpp/operands.cc", 2),
    ("tests/cpp/attributes.cc", 2),
    ("tests/cpp/forms.cc", 2),
];

const COMPILERS: [&str; 2] = ["g++", "clang++"];

/// Seconds and bytes.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    bytes: u64,
}

/// Compiles each source with each compiler and both kinds of headers, in turns; where ours cost more.
pub(crate) fn run(root: &Path, out: &Path, upstream: &str) -> Result<Vec<String>> {
    let ours = root.join("include");
    let theirs = match wheel::headers(upstream) {
        Ok(include) => include,
        Err(error) => {
            ui::note(format_args!(
                "compile: no headers of jaxlib {upstream}: {error:#}"
            ));
            return Ok(vec![]);
        }
    };
    println!("\n-O2, lowest of several: seconds and bytes of the object file");
    println!(
        "{:26}{:9}{:>10}{:>12}{:>12}{:>14}",
        "source", "compiler", "ours, s", "upstream, s", "ours, B", "upstream, B"
    );
    let (mut misses, mut rows) = (vec![], vec![]);
    for (source, times) in SOURCES {
        for compiler in COMPILERS {
            let mut best = [None; 2];
            for _ in 0..times {
                for (include, best) in [&ours, &theirs].into_iter().zip(&mut best) {
                    let Some(cost) = compile(root, out, compiler, source, include)? else {
                        ui::note(format_args!("compile: {compiler} is not installed"));
                        continue;
                    };
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
            misses.extend(judge(source, compiler, ours, theirs));
            rows.push(serde_json::json!({
                "source": source, "compiler": compiler,
                "seconds": ours.seconds, "upstream_seconds": theirs.seconds,
                "bytes": ours.bytes, "upstream_bytes": theirs.bytes,
            }));
        }
    }
    let path = out.join("compile.json");
    let report = serde_json::json!({ "sources": rows });
    fs::write(&path, format!("{report:#}\n")).with_context(|| path.display().to_string())?;
    Ok(misses)
}

/// Where ours cost more.
fn judge(source: &str, compiler: &str, ours: Cost, theirs: Cost) -> Vec<String> {
    let mut misses = vec![];
    if ours.seconds > theirs.seconds {
        misses.push(format!(
            "{source}, {compiler}: compiled in {:.2} s, with upstream's headers in {:.2} s",
            ours.seconds, theirs.seconds
        ));
    }
    if ours.bytes > theirs.bytes {
        misses.push(format!(
            "{source}, {compiler}: an object of {} bytes, with upstream's headers of {}",
            ours.bytes, theirs.bytes
        ));
    }
    misses
}

/// Compiles one source once; `None` where there is no such compiler.
fn compile(
    root: &Path,
    out: &Path,
    compiler: &str,
    source: &str,
    include: &Path,
) -> Result<Option<Cost>> {
    let object = out.join("cost.o");
    let mut command = Command::new(compiler);
    command
        .args(["-std=c++17", "-O2", "-fPIC", "-w", "-c", "-isystem"])
        .arg(include)
        .arg(root.join(source))
        .arg("-o")
        .arg(&object);
    let start = Instant::now();
    let status = match command.status() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        status => status.context(compiler.to_owned())?,
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{compiler} cannot compile {source}");
    let bytes = fs::metadata(&object)?.len();
    Ok(Some(Cost { seconds, bytes }))
}

#[cfg(test)]
mod tests {
    use super::{Cost, judge};

    #[test]
    fn more_seconds_or_bytes_are_a_miss_each() {
        let cost = |seconds, bytes| Cost { seconds, bytes };
        assert!(judge("a.cc", "g++", cost(1.0, 10), cost(1.0, 10)).is_empty());
        assert_eq!(judge("a.cc", "g++", cost(1.1, 10), cost(1.0, 10)).len(), 1);
        assert_eq!(judge("a.cc", "g++", cost(1.1, 11), cost(1.0, 10)).len(), 2);
    }
}
