//! The chapter on C, `docs/c.md`: its code compiles by its own command, its calls run, and its errors are these words.
//! `tests/claims.rs` says which test stands for which sentence.

use std::path::Path;
use std::process::{Command, Output};
use xla_ffi_testing::book::{Block, blocks, page};
use xla_ffi_testing::{compiler, root, skip};

/// What the chapter's promise is given to, and a handler around the lines that it shows.
const BESIDE: [&str; 2] = [
    "#include <pthread.h>\n\
     static void* completes(void* promise) {\n\
       xffi_promise_done((xffi_promise*)promise);\n\
       return NULL;\n\
     }\n\
     static XLA_FFI_Error* later_impl(xffi_call* call) {\n\
       pthread_t thread;\n\
       XLA_FFI_Error* error = xffi_decoded(call);\n\
       if (error != NULL) return error;\n",
    "}\nXFFI_HANDLER(later, later_impl);\n",
];

/// The chapter's blocks of C as one source file.
fn source(blocks: &[Block]) -> String {
    let c: Vec<&str> = blocks
        .iter()
        .filter(|block| block.language == "c")
        .map(|block| block.text.as_str())
        .collect();
    let [handler, state, promise, description] = c[..] else {
        panic!("{} blocks of C", c.len());
    };
    let to_do = "/* give it to a thread, which ends with xffi_promise_done(promise) or xffi_promise_fail(promise, …) */";
    assert!(promise.contains(to_do), "{promise}");
    let gives = "if (pthread_create(&thread, NULL, completes, promise) != 0) abort();\n  pthread_detach(thread);";
    let promise = promise.replace(to_do, gives);
    format!(
        "{handler}{state}{}{promise}{}{description}",
        BESIDE[0], BESIDE[1]
    )
}

/// Runs a line of the chapter in a folder.
fn shell(folder: &Path, line: &str) -> Output {
    let line = match line.strip_prefix("xla-ffi ") {
        Some(arguments) => format!("exec \"$0\" {arguments}"),
        None => line.replace("PREFIX/", &format!("{}/", root().display())),
    };
    Command::new("sh")
        .args(["-c", &line, env!("CARGO_BIN_EXE_xla-ffi")])
        .current_dir(folder)
        .env("XLA_FFI_SDK", root())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

#[test]
fn the_chapter_on_c() {
    let test = "the_chapter_on_c";
    if !compiler::works("cc") {
        return skip(test, "cc is not there");
    }
    let page = page("c.md");
    let blocks = blocks(&page);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chapter-c");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("scale.c"), source(&blocks)).unwrap();
    let mut plain = blocks.iter().filter(|block| block.language.is_empty());
    let commands = &plain.next().expect("the commands").text;
    let told = &plain.next().expect("the errors").text;

    let [compile, run] = commands.lines().collect::<Vec<_>>()[..] else {
        panic!("not two commands: {commands}");
    };
    let strict = compile.replace(
        "-shared",
        "-shared -Wall -Wextra -Werror -Wl,--no-undefined",
    );
    for compile in [compile, &strict] {
        let output = shell(&folder, compile);
        assert!(output.status.success(), "{compile}: {}", said(&output));
    }
    let output = shell(&folder, run);
    assert!(said(&output).contains("[3, 6, 9]"), "{}", said(&output));
    // The attribute's default.
    let run = |handler: &str, rest: &str| {
        let library = format!("xla-ffi run libscale.so --handler {handler} {rest}");
        let output = shell(&folder, &library);
        (output.status.success(), said(&output))
    };
    let by_two = "--arg f32[3]=1,2,3 --ret 'f32[3]'";
    let (_, text) = run("scale", by_two);
    assert!(text.contains("[2, 4, 6]"), "{text}");

    // The command line advises its own users.
    let told = told.replace(
        "a Python float is F64: pass numpy.float32(value) or the like",
        "write `value : f32` or the like",
    );
    let (well, text) = run(
        "scale",
        "--arg s32[3]=1,2,3 --ret 'f32[3]' --attrs '{by = 3.0}'",
    );
    assert!(
        !well && text.contains(told.trim()),
        "{text}\nin the chapter: {told}"
    );
    for (more, words) in [
        ("--arg f32[1]=1", "argument"),
        (
            "--attrs '{bz = 3.0 : f32}'",
            "attribute 'bz': not one that this handler knows",
        ),
    ] {
        let (well, text) = run("scale", &format!("{by_two} {more}"));
        assert!(!well && text.contains(words), "{text}");
    }
    // State, and attributes that a stage does not ask for.
    let stages = "execute=count,instantiate=count_instantiate";
    let (well, text) = run(stages, "--ret 's64[]' --attrs '{start = 5 : i64}'");
    assert!(well && text.contains('5'), "{text}");
    let (well, text) = run("later", "");
    assert!(well, "{text}");

    // The description.
    for command in ["inspect", "doctor --no-run"] {
        let output = shell(&folder, &format!("xla-ffi {command} libscale.so"));
        let text = said(&output);
        assert!(output.status.success() && text.contains("scale"), "{text}");
    }
    exports_and_needs(test, &folder);
}

/// What the library exports is what the macros define, and what it needs is the C library.
fn exports_and_needs(test: &str, folder: &Path) {
    for (program, arguments, wanted) in [
        (
            "nm",
            ["-D", "--defined-only"],
            ["count", "count_instantiate", "later", "scale"].as_slice(),
        ),
        ("readelf", ["-d", "-W"], ["libc.so"].as_slice()),
    ] {
        if !compiler::works(program) {
            skip(test, &format!("{program} is not there"));
            continue;
        }
        let output = Command::new(program)
            .args(arguments)
            .arg(folder.join("libscale.so"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let mut found: Vec<&str> = match program {
            "nm" => text
                .lines()
                .filter_map(|line| line.split(' ').nth(2))
                .collect(),
            _ => text
                .lines()
                .filter(|line| line.contains("(NEEDED)"))
                .filter_map(|line| line.split(['[', ']']).nth(1))
                .map(|name| name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()))
                .collect(),
        };
        found.sort_unstable();
        assert_eq!(found, wanted, "{text}");
    }
}
