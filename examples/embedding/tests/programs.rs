//! Tests the book's programs in Rust: they run, leak no memory, and match the code in the book.

use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::{rust_examples, skip};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn said(command: &mut Command) -> String {
    let done = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn calls_from_threads() {
    let said = said(&mut Command::new(env!("CARGO_BIN_EXE_embedding")));
    assert!(
        said.contains("`factor`: the program gave this call no user data"),
        "{said}"
    );
    assert!(said.ends_with("100000 calls from 4 threads\n"), "{said}");
}

/// Runs the program under valgrind, with only a few calls because valgrind is slow.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("valgrind_finds_nothing", "no valgrind");
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
        .args(["--errors-for-leak-kinds=definite", "--read-var-info=no"])
        .args([env!("CARGO_BIN_EXE_embedding"), "250"]);
    let said = said(&mut valgrind);
    assert!(said.ends_with("1000 calls from 4 threads\n"), "{said}");
}

/// Runs the server, and replaces the library's file while the server runs.
#[test]
fn a_server_with_deadlines_a_reloaded_library_and_metrics() {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libreloaded.so");
    let copy = |to: &Path| {
        std::fs::copy(rust_examples().join("libexecution.so"), to).expect("a copy");
    };
    copy(&library);
    let server = Command::new(env!("CARGO_BIN_EXE_embedding-server"))
        .arg(&library)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the server starts");
    let next = library.with_extension("next");
    copy(&next);
    std::fs::rename(&next, &library).expect("the file is replaced");
    let done = server.wait_with_output().expect("the server ends");
    assert!(done.status.success());
    let said = String::from_utf8_lossy(&done.stdout);
    let counts: Vec<_> = said
        .lines()
        .filter(|line| line.contains("succeeded"))
        .collect();
    assert_eq!(counts.len(), 2, "{said}");
    let number = |line: &str, before: &str| -> u64 {
        let rest = line.split(before).nth(1).unwrap_or("0");
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let sum = |before: &str| counts.iter().map(|line| number(line, before)).sum::<u64>();
    assert_eq!(sum("in_flight: "), 0, "{said}");
    // There are 1600 requests: 8 threads with 200 requests each. One in a hundred exceeds its
    // deadline.
    assert_eq!(
        sum("succeeded: ") + sum("(DeadlineExceeded, "),
        1600,
        "{said}"
    );
    assert!(sum("(DeadlineExceeded, ") >= 16, "{said}");
}

/// Checks that every code block of the chapter is part of an example program.
#[test]
fn the_chapter_shows_what_runs() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).expect(name);
    let chapter = read("docs/embedding.md") + &read("docs/server.md");
    let sources = [
        (
            "rust",
            [
                "examples/embedding/src/first.rs",
                "examples/embedding/src/main.rs",
                "examples/embedding/src/server.rs",
            ],
        ),
        ("c", ["c_examples/embed_project/first.c"; 3]),
        (
            "cpp",
            [
                "c_examples/embed_project/first.cc",
                "c_examples/embed_project/server.cc",
                "c_examples/embed_project/internal.cc",
            ],
        ),
        ("cmake", ["c_examples/embed_project/CMakeLists.txt"; 3]),
    ];
    let mut shown = 0;
    for (language, files) in sources {
        let texts = files.map(read);
        for block in chapter.split(&format!("```{language}\n")).skip(1) {
            let block = block.split("```").next().expect("its end");
            assert!(texts.iter().any(|text| text.contains(block)), "{block}");
            shown += 1;
        }
    }
    assert_eq!(shown, 9);
}

/// Builds and runs a new project with one dependency, as the start of the chapter describes.
#[test]
fn a_project_of_its_own_with_one_dependency() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tmp.join("my_server");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("src")).expect("the folder");
    let manifest = format!(
        "[package]\nname = \"my_server\"\nedition = \"2024\"\npublish = false\n\
         [dependencies]\nxla-ffi = {{ path = {:?}, features = [\"internal\"] }}\n[workspace]\n",
        repository().join("ffi")
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("the manifest");
    // The new project uses the dependency versions of this checkout's `Cargo.lock`.
    for (from, to) in [
        ("Cargo.lock", "Cargo.lock"),
        ("examples/embedding/src/first.rs", "src/main.rs"),
    ] {
        std::fs::copy(repository().join(from), folder.join(to)).expect(from);
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline"])
        .current_dir(&folder);
    let said = said(
        cargo
            .arg("--target-dir")
            .arg(tmp.parent().expect("the target folder")),
    );
    assert_eq!(said, "Some([2.0, 3.0])\n");
}
