//! Pools of threads that a library brings, beside the one that its host hands out.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use memchr::memmem;

/// A pool, and how it is known.
struct Pool {
    name: &'static str,
    /// What limits it.
    limit: &'static str,
    /// How the files of the libraries begin that have it.
    files: &'static [&'static str],
    /// How symbols begin that a library defines which has it inside.
    symbols: &'static [&'static str],
    /// What stands in a library that has it inside, stripped or not.
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

/// The pools of a library, each with how it is known.
pub(crate) fn findings(facts: &Facts, bytes: &[u8], findings: &mut Vec<Finding>) {
    for pool in &POOLS {
        let begins =
            |text: &str, starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
        let file = facts.needs.iter().find(|name| begins(name, pool.files));
        let symbol = || facts.names.iter().find(|name| begins(name, pool.symbols));
        let text = || {
            let holds = |text: &&&str| memmem::find(bytes, text.as_bytes()).is_some();
            pool.text.iter().find(holds)
        };
        let why = if let Some(file) = file {
            format!("it is linked to {file}")
        } else if let Some(symbol) = symbol() {
            let symbol: String = symbol.chars().take(60).collect();
            format!("it has the symbol {symbol} inside")
        } else if let Some(text) = text() {
            format!("it has the text {text:?} inside")
        } else {
            continue;
        };
        findings.push(
            Finding::risk(Problem::Threads,
                format!(
                    "it brings threads of its own, {}: with the host's pool more run than there are cores",
                    pool.name
                ),
                why,
            )
            .fix(format!(
                "split the work over the host's pool (`ThreadPool` in Rust, `xffi_schedule` in C, `ffi::ThreadPool` \
                 in C++), or limit the other one ({})",
                pool.limit
            )),
        );
    }
}
