//! How the headers compile: without a warning, without exceptions, hidden, and never mixed by
//! accident.

mod cpp_support;

use cpp_support::{Headers, compilers, folder, sources, upstream_headers};
use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_build");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

/// The examples with this extension.
fn examples(extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c_examples");
    let files = std::fs::read_dir(folder).expect("c_examples");
    let found: Vec<PathBuf> = files
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|is| is == extension))
        .collect();
    assert!(!found.is_empty(), "no .{extension} in c_examples");
    found
}

/// Runs a program; its stderr where it fails.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!(
            "{command:?}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

#[test]
fn sources_compile_without_a_warning() {
    let compilers = compilers("sources_compile_without_a_warning");
    let compile = |standard: &str| {
        for compiler in &compilers {
            // The build script compiles the examples as C++17.
            let examples = if standard == "-std=c++20" {
                examples("cc")
            } else {
                vec![]
            };
            for source in sources().into_iter().chain(examples) {
                let mut command = Command::new(compiler);
                command.args([standard, "-fsyntax-only"]).args(STRICT);
                let done = run(command.args(Headers::Ours.flags()).arg(&source));
                done.unwrap_or_else(|e| panic!("{e}"));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| compile("-std=c++20"));
        compile("-std=c++17");
    });
}

#[test]
fn c_sources_compile_without_a_warning() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = examples("c");
    sources.push(root.join("c_examples/cmake_project/my_calls_c.c"));
    for compiler in ["gcc", "clang"] {
        if !cpp_support::works(compiler) {
            cpp_support::skip(
                "c_sources_compile_without_a_warning",
                &format!("no {compiler}"),
            );
            continue;
        }
        for standard in ["-std=c99", "-std=c11", "-std=c17"] {
            for source in &sources {
                let mut command = Command::new(compiler);
                command.args([standard, "-fsyntax-only", "-Wstrict-prototypes"]);
                command.arg("-Wmissing-prototypes").args(STRICT);
                let done = run(command.args(Headers::Ours.flags()).arg(source));
                done.unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}

/// Two buffers and an attribute, checked: no more than 25 lines of C.
#[test]
fn a_handler_in_c_is_short() {
    let text = include_str!("../c_examples/cmake_project/my_calls_c.c");
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines < 25, "{lines} lines");
}

#[test]
fn headers_need_no_exceptions_and_no_rtti() {
    let text = "#include \"xla/ffi/api/ffi.h\"\n\
        #include \"xla/ffi/api/record_api.h\"\n\
        #include \"xla/ffi/api/collectives_api.h\"\n\
        namespace ffi = xla::ffi;\n\
        static ffi::Future Later(ffi::AnyBuffer, ffi::ThreadPool pool, int64_t, ffi::Dictionary) {\n\
          ffi::Promise promise; ffi::Future future(promise);\n\
          pool.Schedule([promise]() mutable { promise.SetAvailable(); }); return future; }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>()\n\
          .Ctx<ffi::ThreadPool>().Attr<int64_t>(\"n\").Attr<ffi::Dictionary>(\"d\"));\n";
    let source = out("plain.cc");
    std::fs::write(&source, text).expect("the target folder");
    for compiler in compilers("headers_need_no_exceptions_and_no_rtti") {
        let mut command = Command::new(compiler);
        command.args([
            "-std=c++17",
            "-fno-exceptions",
            "-fno-rtti",
            "-O1",
            "-c",
            "-o",
        ]);
        command
            .arg(out("plain.o"))
            .args(STRICT)
            .args(Headers::Ours.flags());
        run(command.arg(&source)).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn nothing_of_the_headers_is_exported() {
    for compiler in compilers("nothing_of_the_headers_is_exported") {
        let library = out(&format!("exports-{compiler}.so"));
        let mut command = Command::new(compiler);
        // Default visibility: the headers have to hide their functions by themselves.
        command.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-pthread"]);
        command
            .args(Headers::Ours.flags())
            .arg(folder().join("defects.cc"))
            .arg("-o")
            .arg(&library);
        run(&mut command).unwrap_or_else(|e| panic!("{e}"));
        let nm = ["nm", "llvm-nm"]
            .into_iter()
            .find(|program| cpp_support::works(program));
        let Some(nm) = nm else {
            cpp_support::skip("nothing_of_the_headers_is_exported", "no nm");
            return;
        };
        let symbols = run(Command::new(nm)
            .args(["-D", "--defined-only"])
            .arg(&library))
        .unwrap_or_else(|e| panic!("{e}"));
        let names: Vec<&str> = symbols
            .lines()
            .filter_map(|line| line.split(' ').nth(2))
            .collect();
        assert!(names.contains(&"bound_twice"), "the handler is exported");
        // What the standard library makes of our types is named after them; functions of ours
        // begin with their namespace.
        let ours: Vec<&&str> = names
            .iter()
            .filter(|name| name.starts_with("_ZN3xla3ffi") || name.starts_with("_ZNK3xla3ffi"))
            .collect();
        assert!(ours.is_empty(), "{compiler}: exported: {ours:?}");
    }
}

#[test]
fn two_kinds_of_headers_in_one_source_are_refused() {
    let Some(upstream) = upstream_headers("two_kinds_of_headers_in_one_source_are_refused") else {
        return;
    };
    let ours = Path::new(env!("SDK_INCLUDE_DIR"));
    let header = |folder: &Path, name: &str| {
        format!(
            "#include \"{}\"\n",
            folder.join("xla/ffi/api").join(name).display()
        )
    };
    for compiler in compilers("two_kinds_of_headers_in_one_source_are_refused") {
        for (first, second) in [(upstream.as_path(), ours), (ours, upstream.as_path())] {
            let source = out("mixed.cc");
            // The first comes whole; of the second one asks for what the first has not got.
            let name = if first == ours { "api.h" } else { "ffi.h" };
            let text = header(first, name) + &header(second, "ffi.h");
            std::fs::write(&source, text).expect("the target folder");
            let mut command = Command::new(compiler);
            command
                .args(["-std=c++17", "-fsyntax-only", "-w", "-I"])
                .arg(first);
            let error = run(command.arg(&source)).expect_err("two kinds in one source");
            assert!(
                error.contains("#error") || error.contains("error:"),
                "{error}"
            );
            let why = if first == ours {
                "cannot be included together"
            } else {
                "keep one of"
            };
            assert!(error.contains(why), "{error}");
        }
    }
}

/// A handler from our headers, one from XLA's own and one in plain C in one library.
#[test]
fn both_kinds_of_headers_in_one_library() {
    use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage, Tensor};
    let Some(upstream) = upstream_headers("both_kinds_of_headers_in_one_library") else {
        return;
    };
    let Some(compiler) = compilers("both_kinds_of_headers_in_one_library")
        .first()
        .copied()
    else {
        return;
    };
    let source = out("add.cc");
    let text = "#include \"xla/ffi/api/ffi.h\"\n\
        namespace ffi = xla::ffi;\n\
        static ffi::Error Add(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y, float by) {\n\
          for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + by;\n\
          return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, Add, ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>()\n\
          .Ret<ffi::BufferR1<ffi::F32>>().Attr<float>(\"by\"));\n";
    std::fs::write(&source, text).expect("the target folder");
    let mut objects = vec![];
    for (name, headers) in [
        ("ours", Headers::Ours),
        ("theirs", Headers::Upstream(upstream)),
    ] {
        let object = out(&format!("add_{name}.o"));
        let mut command = Command::new(compiler);
        command
            .args(["-std=c++17", "-O1", "-fPIC", "-w", "-c", "-o"])
            .arg(&object);
        command
            .arg(format!("-DNAME=add_{name}"))
            .args(headers.flags());
        run(command.arg(&source)).unwrap_or_else(|e| panic!("{e}"));
        objects.push(object);
    }
    let library = out("both.so");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-o"]).arg(&library).args(&objects);
    run(&mut command).unwrap_or_else(|e| panic!("{e}"));
    let runtime = Runtime::new(Revision::NEWEST);
    let both = runtime.open(&library).expect("it loads");
    for (symbol, twice) in [("add_ours", "add_theirs"), ("add_theirs", "add_ours")] {
        for name in [symbol, twice] {
            let handler = both
                .handler(name, &[(Stage::Execute, name)])
                .expect("it registers");
            let attributes = Attributes::parse("{by = 2.0 : f32}").expect("attributes");
            let outcome = handler
                .instantiate(&attributes)
                .expect("it instantiates")
                .call()
                .arg(Tensor::from_slice([2], &[1.0_f32, 2.0]).expect("a tensor"))
                .ret(Shape::new(DType::F32, [2]).expect("a shape"))
                .run()
                .expect("it runs");
            assert_eq!(outcome.rets[0].to_vec::<f32>(), Some(vec![3.0, 4.0]));
        }
    }
}
