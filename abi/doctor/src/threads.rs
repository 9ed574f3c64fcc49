//! Findings about thread pools that a library has in addition to the host's.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use std::collections::BTreeSet;

/// A known thread pool, and the evidence that a library contains the pool.
struct Pool {
    name: &'static str,
    /// The environment variable or function that limits the pool's size.
    limit: &'static str,
    /// Prefixes of the file names of the pool's libraries.
    files: &'static [&'static str],
    /// Prefixes of the pool's symbols in libraries that link the pool statically.
    symbols: &'static [&'static str],
    /// Texts that are in the files of libraries that contain the pool, even if the symbols are stripped.
    text: &'static [&'static str],
}

const POOLS: [Pool; 6] = [
    Pool {
        name: "GNU OpenMP (libgomp)",
        limit: "OMP_NUM_THREADS",
        files: &["libgomp"],
        symbols: &["GOMP_parallel"],
        text: &["libgomp: "],
    },
    Pool {
        name: "LLVM's or Intel's OpenMP",
        limit: "OMP_NUM_THREADS",
        files: &["libomp.so", "libomp-", "libiomp5"],
        symbols: &["__kmpc_fork_call"],
        text: &[],
    },
    Pool {
        name: "OpenBLAS",
        limit: "OPENBLAS_NUM_THREADS",
        files: &["libopenblas", "libscipy_openblas"],
        symbols: &["openblas_set_num_threads", "openblas_get_num_threads"],
        text: &["OPENBLAS_NUM_THREADS"],
    },
    Pool {
        name: "Intel MKL",
        limit: "MKL_NUM_THREADS",
        files: &["libmkl_"],
        symbols: &["MKL_Set_Num_Threads", "mkl_serv_"],
        text: &["MKL_NUM_THREADS"],
    },
    Pool {
        name: "TBB",
        limit: "tbb::global_control",
        files: &["libtbb.so", "libtbb-", "libtbb12"],
        symbols: &["_ZN3tbb6detail2r1"],
        text: &[],
    },
    Pool {
        name: "rayon",
        limit: "`ThreadPool::rayon` in Rust, RAYON_NUM_THREADS",
        files: &[],
        symbols: &["_ZN10rayon_core"],
        text: &["RAYON_NUM_THREADS"],
    },
];

/// Returns the prefixes of symbols that identify thread pools.
pub(crate) fn symbols() -> impl Iterator<Item = &'static str> {
    POOLS.iter().flat_map(|pool| pool.symbols).copied()
}

/// Returns the texts that identify thread pools.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    POOLS.iter().flat_map(|pool| pool.text).copied()
}

/// Adds findings about the library's thread pools. `texts` contains the texts returned by [`texts`] that the file
/// contains.
pub(crate) fn findings(facts: &Facts, texts: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
    for pool in &POOLS {
        let begins =
            |text: &str, starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
        let file = facts.needs.iter().find(|name| begins(name, pool.files));
        let symbol = || facts.names.iter().find(|name| begins(name, pool.symbols));
        let text = || pool.text.iter().find(|text| texts.contains(*text));
        let why = if let Some(file) = file {
            format!("it is linked to {file}")
        } else if let Some(symbol) = symbol() {
            let symbol: String = symbol.chars().take(60).collect();
            format!("it contains the symbol {symbol}")
        } else if let Some(text) = text() {
            format!("it contains the text {text:?}")
        } else {
            continue;
        };
        findings.push(
            Finding::risk(Problem::Threads,
                format!(
                    "has its own thread pool, {}, so that more threads than processors may run",
                    pool.name
                ),
                why,
            )
            .fix(format!(
                "use the host's thread pool (`ThreadPool` in Rust, `xffi_schedule` in C, `ffi::ThreadPool` in C++), or \
                 limit the library's own pool ({})",
                pool.limit
            )),
        );
    }
}
