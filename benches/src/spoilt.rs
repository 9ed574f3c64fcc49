//! Rust, C and C++ refuse the same frames with the same codes: all that the benchmark compares, here without its
//! timing, on the handlers as it has them.

mod agreement;
#[expect(dead_code, reason = "the comparison uses the rest")]
mod cases;
#[macro_use]
mod exported;
mod frame;
mod handlers;
mod host;

use agreement::{Checks, Handler, Sink};
use cases::CASES;
use libloading::Library;
use std::process::Command;
use xla_ffi_testing::compiler::{compiler, file_name};
use xla_ffi_testing::{once, root, target_folder};

exported!("spoilt__");

/// One of the benchmark's sources as a library; `None`, told, where there is no compiler.
fn open(source: &str) -> Option<Library> {
    let test = "the_same_frames_are_refused_with_the_same_codes";
    let is_cpp = source.ends_with(".cc");
    let include = root().join("include");
    let path = root().join("benches/c").join(source);
    let folder = target_folder().join("tmp/spoilt");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let out = folder.join(file_name(&source.replace('.', "_")));
    let mut command = Command::new(compiler(is_cpp, test)?);
    command
        .arg(if is_cpp { "-std=c++17" } else { "-std=c11" })
        .args(["-fPIC", "-shared", "-I"])
        .args([&include, &path]);
    once::compile(&mut command, &[&include, &path], Some(&out)).expect("it builds");
    // SAFETY: a library of this project: loading it runs no code of its own.
    Some(unsafe { Library::new(out) }.expect("it loads"))
}

fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: the sources export handlers and `bench_sink`, of the types that they are asked for as.
    *unsafe { library.get::<T>(name.as_bytes()) }.expect("it is exported")
}

#[test]
fn the_same_frames_are_refused_with_the_same_codes() {
    let [Some(c), Some(cpp)] = ["header.c", "decode.cc"].map(open) else {
        return;
    };
    let host = host::with_seed(1);
    let (mut frames, mut wrong) = (0, vec![]);
    for case in &CASES {
        let foreign = |name, library: &Library| Handler {
            name,
            call: symbol(library, case.symbol),
            sink: symbol(library, "bench_sink"),
            checks: Checks::ButCoincidence,
        };
        let handlers = [
            Handler {
                name: "Rust",
                call: exported(case.symbol),
                sink: handlers::bench_sink as Sink,
                checks: Checks::All,
            },
            foreign("C", &c),
            foreign("C++", &cpp),
        ];
        match agreement::judge(case, &handlers, &host) {
            Ok(count) => frames += count,
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{frames} spoilt frames");
    assert!(frames > 500, "only {frames} spoilt frames");
}
