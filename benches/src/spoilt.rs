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

use agreement::{Checks, Handler};
use cases::CASES;
use frame::{Attrs, Frame};
use host::{Call, Sink};
use libloading::Library;
use std::process::Command;
use xla_ffi_sys::XLA_FFI_Buffer;
use xla_ffi_testing::compiler::{compiler, file_name};
use xla_ffi_testing::{once, root, target_folder};

exported!("spoilt__");

/// One of the benchmark's sources as a library; `None`, told, where there is no compiler.
fn open(source: &str, test: &str) -> Option<Library> {
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

/// The handlers of operands and attributes in any number: Rust's, C's and C++'s.
fn of_many(name: &str, test: &str) -> Option<[(&'static str, Call); 3]> {
    let [Some(c), Some(cpp)] = ["scale.c", "scale.cc"].map(|source| open(source, test)) else {
        return None;
    };
    // They stay loaded.
    let [c, cpp] = [c, cpp].map(|library| &*Box::leak(Box::new(library)));
    Some([
        ("Rust", exported(name)),
        ("C", symbol(c, name)),
        ("C++", symbol(cpp, name)),
    ])
}

/// Whether a handler accepts a frame.
fn accepts(handler: Call, frame: &Frame) -> bool {
    // SAFETY: a frame of a live host.
    let error = unsafe { handler(frame.raw) };
    if !error.is_null() {
        // SAFETY: the error came from our host.
        unsafe { host::destroy(error) };
    }
    error.is_null()
}

/// Where a buffer of 32-bit elements lies, and its dimensions.
fn region(buffer: *mut XLA_FFI_Buffer) -> (usize, usize, [i64; 2]) {
    // SAFETY: a buffer of our own.
    let dims = unsafe { (*buffer).dims };
    // SAFETY: it has two dimensions.
    let dims = unsafe { dims.cast::<[i64; 2]>().read() };
    // SAFETY: a buffer of our own.
    let start = unsafe { (*buffer).data } as usize;
    (start, start + 4 * (dims[0] * dims[1]) as usize, dims)
}

#[test]
fn many_operands_clash_where_two_of_them_do() {
    let test = "many_operands_clash_where_two_of_them_do";
    let Some(handlers) = of_many("args_rets", test) else {
        return;
    };
    let mut random = frame::Random(1);
    // Frames that nobody refuses, Rust alone, and all.
    let mut found = [0; 3];
    for seed in 0..900 {
        let (args, rets) = (random.below(60), 1 + random.below(60));
        let frame = frame::frame(&host::with_seed(seed), args, rets, Attrs::numbers(&[]));
        let all: Vec<_> = frame.operands().collect();
        for _ in 0..random.below(4) {
            let (one, other) = (random.below(all.len()), random.below(all.len()));
            // In half of the cases an argument and a result in one place.
            let (one, other) = match (random.below(2), args) {
                (0, 1..) => (one % args, args + other % rets),
                _ => (one, other),
            };
            let (one, other) = (all[one], all[other]);
            // SAFETY: a buffer of our own, which nobody reads yet.
            let data = unsafe { (*other).data };
            // SAFETY: as above.
            unsafe { (*one).data = data };
            let dims = [[4, 4], [4, 4], [4, 4], [2, 8], [0, 4], [1, 3]][random.below(6)];
            // SAFETY: as above.
            let to = unsafe { (*one).dims };
            // SAFETY: it has two dimensions, which nobody reads yet.
            unsafe { to.cast::<[i64; 2]>().write(dims) };
        }
        let (mut alias, mut clash) = (false, false);
        for (place, ret) in all.iter().enumerate().skip(args) {
            for (other, one) in all[..place].iter().enumerate() {
                let (ret, one) = (region(*ret), region(*one));
                let shares = ret.0.max(one.0) < ret.1.min(one.1);
                let declared = other < args && ret == one;
                alias |= shares && declared;
                clash |= shares && !declared;
            }
        }
        for (language, handler) in handlers {
            let is_refused = clash || (alias && language == "Rust");
            assert_eq!(accepts(handler, &frame), !is_refused, "{language}, {seed}");
        }
        found[if clash { 2 } else { usize::from(alias) }] += 1;
    }
    assert!(found.iter().all(|&count| count > 100), "{found:?}");
}

#[test]
fn attributes_are_found_in_any_order() {
    let test = "attributes_are_found_in_any_order";
    let Some(handlers) = of_many("attributes", test) else {
        return;
    };
    for count in [1_usize, 31, 32, 33, 64, 1000] {
        let names: Vec<&'static str> = (0..count)
            .map(|index| &*format!("a{index:04}").leak())
            .collect();
        let entries = Attrs::numbers(&names).0;
        let options = Attrs::dictionary("options", Attrs(entries));
        let frame = frame::frame(&host::with_seed(1), 0, 0, options);
        let judge = |what: &str, expected: bool| {
            for (language, handler) in handlers {
                let accepted = accepts(handler, &frame);
                assert_eq!(accepted, expected, "{language}, {what} of {count}");
            }
        };
        judge("sorted names", true);
        // SAFETY: the lists of names and values, as long as that, which live for ever and which nobody else has.
        let names = unsafe { std::slice::from_raw_parts_mut(entries.names, count) };
        // SAFETY: as above.
        let values = unsafe { std::slice::from_raw_parts_mut(entries.attrs, count) };
        names.reverse();
        values.reverse();
        judge("names in the wrong order", true);
        names.rotate_left(count / 3);
        values.rotate_left(count / 3);
        judge("names in no order", true);
        let name = names[count / 2];
        // SAFETY: the span of a name, which nobody reads meanwhile.
        unsafe { (*name).len -= 1 };
        judge("names, one of which is another,", false);
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
    println!("{frames} spoilt frames");
    assert!(frames > 500, "only {frames} spoilt frames");
}
