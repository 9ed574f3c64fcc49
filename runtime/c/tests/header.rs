//! Tests of the headers `runtime.h`, `program.h`, `pjrt.h` and `invocation.h`, which are written by hand. The headers
//! must declare exactly the items that the Rust code defines, and document each function.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{repository, skip};

const HEADERS: [&str; 4] = ["runtime.h", "program.h", "pjrt.h", "invocation.h"];

fn headers() -> String {
    let folder = repository().join("include/xla_ffi");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    HEADERS.map(text).concat()
}

/// Returns `text` without the lines of its macros.
fn without_macros(text: &str) -> String {
    let mut macro_goes_on = false;
    let kept = text.split_inclusive('\n').filter(|line| {
        let is_macro = macro_goes_on || line.starts_with('#');
        macro_goes_on = is_macro && line.trim_end().ends_with('\\');
        !is_macro
    });
    kept.collect()
}

/// Appends the files in a folder and its subfolders to `found`.
fn sources_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources_in(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Returns the C declarations of the Rust code, from cbindgen.
fn bindings() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Both,
        documentation: false,
        no_includes: true,
        usize_is_size_t: true,
        ..cbindgen::Config::default()
    };
    config.function.args = cbindgen::Layout::Horizontal;
    let mut builder = cbindgen::Builder::new().with_config(config);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("public");
    std::fs::create_dir_all(&folder).unwrap();
    let mut sources = vec![];
    sources_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut sources,
    );
    for (number, path) in sources.iter().enumerate() {
        if path.file_name().is_some_and(|name| name != "lib.rs") {
            // cbindgen omits items that are not public, so the items of this crate are made public in a copy.
            let text = std::fs::read_to_string(path).unwrap();
            let text = text.replace("pub(crate) ", "pub ");
            // The names of the copies contain numbers, because files in different folders may have the same name.
            let copy = folder.join(format!("{number}.rs"));
            std::fs::write(&copy, text.replace("pub(super) ", "pub ")).unwrap();
            builder = builder.with_src(copy);
        }
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// Returns all C identifiers in `text`, in order.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Returns the names of the functions in `text`. Its other declarations are structs, typedefs and macros.
fn functions(text: &str) -> Vec<&str> {
    let code = text
        .split("/*")
        .map(|piece| piece.split_once("*/").map_or(piece, |(_, code)| code));
    let declarations = code.flat_map(|code| code.split(';'));
    declarations
        .filter_map(|declaration| {
            // The opening brace of `extern "C"` may precede the declaration.
            let declaration = declaration.rsplit('{').next()?.trim();
            let (head, _) = declaration.split_once('(')?;
            words(head)
                .last()
                .filter(|name| name.starts_with("xffi_rt_"))
        })
        .collect()
}

/// Returns the structs in `text` and the names of their fields.
fn structs(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let bodies = text.split("typedef struct ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once(" {")?;
        let (body, _) = rest.split_once(&format!("}} {name};"))?;
        Some((name, body))
    });
    bodies
        .map(|(name, body)| {
            let code = body
                .split("/*")
                .map(|piece| piece.split_once("*/").map_or(piece, |(_, code)| code));
            let fields = code.flat_map(|code| code.split(';'));
            (
                name,
                fields
                    .filter_map(|field| words(field.split('[').next()?).last())
                    .collect(),
            )
        })
        .collect()
}

/// Returns the macros in `text` that are numbers, with their values.
fn numbers(text: &str) -> BTreeMap<&str, &str> {
    let defined = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let pairs = defined.filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, value)| (name, value.split("/*").next().unwrap_or("").trim()))
        .filter(|(_, value)| value.trim_matches(['(', ')']).parse::<i64>().is_ok())
        .collect()
}

/// Returns a C program that compiles if the declarations in `bindings` match those of the headers. C allows a
/// repeated function declaration only with the same type. Structs and numbers are compared explicitly.
fn comparison(bindings: &str) -> String {
    let mut source = String::from("#include <stddef.h>\n");
    for name in HEADERS {
        let _ = writeln!(source, "#include \"xla_ffi/{name}\"");
    }
    let mut text = bindings.to_owned();
    for name in structs(bindings).keys() {
        text = text
            .replace(
                &format!("struct {name} {{"),
                &format!("struct rust_{name} {{"),
            )
            .replace(&format!("}} {name};"), &format!("}} rust_{name};"));
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let _ = writeln!(source, "{line}");
    }
    for (name, fields) in structs(bindings) {
        let _ = writeln!(
            source,
            "_Static_assert(sizeof({name}) == sizeof(rust_{name}), \"{name}\");"
        );
        for field in fields {
            let place = format!("offsetof({name}, {field}) == offsetof(rust_{name}, {field})");
            let (theirs, ours) = (
                format!("&(({name}*)0)->{field}"),
                format!("&((rust_{name}*)0)->{field}"),
            );
            let same = format!("_Generic({theirs}, __typeof__({ours}): 1, default: 0)");
            let _ = writeln!(
                source,
                "_Static_assert({place} && {same}, \"{name}.{field}\");"
            );
        }
    }
    for (name, value) in numbers(bindings) {
        let _ = writeln!(source, "_Static_assert({name} == {value}, \"{name}\");");
    }
    source
}

/// Returns the C compiler's errors for the comparison; `None` if no compiler is available.
fn refusal(name: &str, bindings: &str) -> Option<String> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, comparison(bindings)).unwrap();
    let done = Command::new("cc")
        .args([
            "-std=gnu11",
            "-fsyntax-only",
            "-Wall",
            "-Werror",
            "-Iinclude",
        ])
        .arg(&file)
        .current_dir(repository())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.success(), said.is_empty(), "{said}");
    Some(said)
}

#[test]
fn the_headers_declare_what_rust_defines() {
    let (headers, bindings) = (headers(), bindings());
    let names = |text: &str| {
        let text = without_macros(text);
        let named = functions(&text).into_iter().map(str::to_owned);
        let mut names: Vec<_> = named.collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&headers), names(&bindings));
    assert!(names(&headers).len() > 50);
    assert_eq!(structs(&headers), structs(&bindings));
    assert!(structs(&headers).len() == 10);
    assert!(numbers(&headers).keys().eq(numbers(&bindings).keys()));
    let test = "the_headers_declare_what_rust_defines";
    match refusal("declared.c", &bindings) {
        Some(said) => assert!(said.is_empty(), "{said}"),
        None => skip(test, "no cc"),
    }
}

#[test]
fn the_headers_version_is_the_librarys() {
    let told = format!("#define XFFI_RT_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(headers().contains(&told), "{told}");
    let soname = format!("so.{}", env!("CARGO_PKG_VERSION_MAJOR"));
    let build = std::fs::read_to_string(repository().join("runtime/c/build.rs")).unwrap();
    assert!(build.contains(&soname), "{soname}");
}

/// XLA's headers may be included before the headers of this SDK. XLA headers of the newest revision are equivalent.
/// With older XLA headers, bundles are shorter than the runtime expects, so that including a header of this SDK is a
/// compile error.
#[test]
fn headers_of_an_older_xla_are_told() {
    let test = "headers_of_an_older_xla_are_told";
    let Some(all) = xla_ffi_testing::headers::all(test) else {
        return;
    };
    let ours = repository().join("include");
    let minor = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("xla/ffi/api/c_api.h")).unwrap();
        let (_, rest) = text.split_once("#define XLA_FFI_API_MINOR ").unwrap();
        let number = rest.split_whitespace().next().unwrap();
        number.parse::<u32>().unwrap()
    };
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("of_an_older_xla.c");
    for headers in all {
        let is_older = minor(&headers.include) < minor(&ours);
        for (compiler, header) in [
            ("cc", "runtime.h"),
            ("cc", "program.h"),
            ("cc", "pjrt.h"),
            ("cc", "invocation.h"),
            ("c++", "plugin.h"),
            ("c++", "embedded.h"),
        ] {
            let text = format!("#include \"xla_ffi/{header}\"\n");
            std::fs::write(&source, text).unwrap();
            let language = if compiler == "cc" { "c" } else { "c++" };
            let mut command = Command::new(compiler);
            command.args(["-fsyntax-only", "-x", language]).arg(&source);
            command.arg("-I").arg(&headers.include).arg("-I").arg(&ours);
            let Ok(done) = command.output() else {
                skip(test, &format!("no {compiler}"));
                continue;
            };
            let said = String::from_utf8_lossy(&done.stderr);
            let told = said.contains("of an older XLA");
            let what = format!("{header}, {}: {said}", headers.include.display());
            assert_eq!(
                (told, done.status.success()),
                (is_older, !is_older),
                "{what}"
            );
        }
    }
}
