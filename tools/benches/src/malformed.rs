//! Tests that Rust, C and C++ reject the same frames with the same codes.
//!
//! The tests make the comparisons of the benchmark, without the measurements.

mod agreement;
#[expect(dead_code, reason = "the comparison uses the rest")]
mod cases;
mod frame;
mod handlers;
#[macro_use]
mod host;

use agreement::{Checks, Handler};
use cases::CASES;
use frame::{Attrs, Frame};
use host::{Call, Sink};
use libloading::Library;
use std::process::Command;
use xla_ffi_testing::compiler::{compiler, file_name};
use xla_ffi_testing::{once, root, target_folder};

exported!("malformed__");

/// Builds and loads one of the benchmark's sources. Without a compiler, reports a skip and returns `None`.
fn open(source: &str, test: &str) -> Option<Library> {
    let is_cpp = source.ends_with(".cc");
    let include = root().join("include");
    let path = root().join("tools/benches/c").join(source);
    let folder = target_folder().join("tmp/malformed");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let out = folder.join(file_name(&source.replace('.', "_")));
    let mut command = Command::new(compiler(is_cpp, test)?);
    command
        .arg(if is_cpp { "-std=c++17" } else { "-std=c11" })
        .args(["-fPIC", "-shared", "-I"])
        .args([&include, &path]);
    once::compile(&mut command, &[&include, &path], Some(&out)).expect("it builds");
    // SAFETY: the library is part of this project and has no initializers with side effects.
    Some(unsafe { Library::new(out) }.expect("it loads"))
}

fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: the sources export handlers and `bench_sink` with the requested types.
    *unsafe { library.get::<T>(name.as_bytes()) }.expect("it is exported")
}

/// Returns the Rust, C and C++ versions of a handler that accepts any number of operands or attributes.
fn of_many(name: &str, test: &str) -> Option<[(&'static str, Call); 3]> {
    let [Some(c), Some(cpp)] = ["header.c", "scale.cc"].map(|source| open(source, test)) else {
        return None;
    };
    // The libraries are never unloaded, because the returned handlers are code in them.
    let [c, cpp] = [c, cpp].map(|library| &*Box::leak(Box::new(library)));
    Some([
        ("Rust", exported(name)),
        ("C", symbol(c, name)),
        ("C++", symbol(cpp, name)),
    ])
}

/// Returns true if a handler accepts a frame.
fn accepts(handler: Call, frame: &Frame) -> bool {
    // SAFETY: the frame is complete, and its host still exists.
    let error = unsafe { handler(frame.raw) };
    if !error.is_null() {
        // SAFETY: the benchmark's host created the error, and no code uses the error again.
        unsafe { host::destroy(error) };
    }
    error.is_null()
}

/// Tests that overlaps are found if a call has many operands, which are sorted instead of compared in pairs.
#[test]
fn many_operands_clash_where_two_of_them_do() {
    let test = "many_operands_clash_where_two_of_them_do";
    let Some(handlers) = of_many("args_rets", test) else {
        return;
    };
    for (what, moved, is_refused) in [
        ("nothing", None, [false; 3]),
        ("two arguments", Some((30, 5)), [false; 3]),
        ("a result and another", Some((79, 41)), [true; 3]),
        (
            "a result and an argument",
            Some((60, 7)),
            [true, false, false],
        ),
    ] {
        let frame = frame::frame(&host::with_seed(1), 40, 40, Attrs::numbers(&[]));
        let all: Vec<_> = frame.operands().collect();
        if let Some((one, other)) = moved {
            let (one, other) = (all[one], all[other]);
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            let data = unsafe { (*other).data };
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            unsafe { (*one).data = data };
        }
        for ((language, handler), is_refused) in handlers.into_iter().zip(is_refused) {
            let accepted = accepts(handler, &frame);
            assert_eq!(accepted, !is_refused, "{language}, {what}");
        }
    }
}

#[test]
fn attributes_are_found_in_any_order() {
    let test = "attributes_are_found_in_any_order";
    let Some(handlers) = of_many("attributes", test) else {
        return;
    };
    for count in [1_usize, 32, 33, 1000] {
        let names: Vec<&'static str> = (0..count)
            .map(|index| &*format!("a{index:04}").leak())
            .collect();
        let entries = Attrs::numbers(&names).0;
        let options = Attrs::dictionary("options", Attrs(entries));
        let frame = frame::frame(&host::with_seed(1), 0, 0, options);
        // SAFETY: the list of names has `count` elements, is never freed, and has no other user.
        let names = unsafe { std::slice::from_raw_parts_mut(entries.names, count) };
        // SAFETY: the list of values has `count` elements, is never freed, and has no other user.
        let values = unsafe { std::slice::from_raw_parts_mut(entries.attrs, count) };
        for turn in [0, count / 3] {
            names.rotate_left(turn);
            values.rotate_left(turn);
            for (language, handler) in handlers {
                assert!(accepts(handler, &frame), "{language}, {count} from {turn}");
            }
        }
        // SAFETY: the name is valid, and no other code accesses the name concurrently.
        unsafe { (*names[count / 2]).len -= 1 };
        for (language, handler) in handlers {
            assert!(
                !accepts(handler, &frame),
                "{language}, another name of {count}"
            );
        }
    }
}

#[test]
fn the_same_frames_are_refused_with_the_same_codes() {
    let test = "the_same_frames_are_refused_with_the_same_codes";
    let [Some(c), Some(cpp)] = ["header.c", "decode.cc"].map(|source| open(source, test)) else {
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
    println!("{frames} malformed frames");
    assert!(frames > 500, "only {frames} malformed frames");
}
