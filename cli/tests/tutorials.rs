//! Follows `docs/first-handler.md` once per language, as a new user does. Runs every command in order, writes every
//! file, and compares every output with the page. `pip` and CMake need a package index. Instead of these steps, the
//! compiler builds the library, which is copied into the package. `cargo xtask ship` runs the real steps.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::{Block, blocks, compiler, page, root, skip};

/// A simulated user who follows a page, in a separate folder.
struct Newcomer {
    folder: PathBuf,
    language: &'static str,
    /// The source file that the page describes, and the path of the library that is built from the file.
    source: &'static str,
    library: &'static str,
    /// The output of all commands since the previous output on the page.
    said: String,
}

fn assert_success(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

impl Newcomer {
    fn says(&mut self, output: &Output) {
        self.said += &String::from_utf8_lossy(&output.stdout);
        self.said += &String::from_utf8_lossy(&output.stderr);
    }

    fn build(&self) {
        let library = self.folder.join(self.library);
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        if self.language == "rust" {
            // The test uses the target folder and profile of this workspace, in which dependencies are already
            // compiled.
            let output = Command::new(env!("CARGO"))
                .args(["build", "--offline"])
                .env("CARGO_TARGET_DIR", xla_ffi_testing::target_folder())
                .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
                .current_dir(&self.folder)
                .output()
                .unwrap();
            assert_success(&output);
            let built = xla_ffi_testing::target_folder().join("debug/libsmoothing.so");
            std::fs::copy(built, library).unwrap();
            return;
        }
        let compiler = if self.language == "c" { "gcc" } else { "g++" };
        let output = Command::new(compiler)
            .args([
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fPIC",
                "-shared",
                "-fvisibility=hidden",
                "-I",
            ])
            .arg(root().join("include"))
            .arg(self.folder.join(self.source))
            .arg("-o")
            .arg(library)
            .output()
            .unwrap();
        assert_success(&output);
    }

    /// Runs a Python program that can import the new package and the package `xla_ffi`. Returns its output.
    fn python(&self, python: &std::ffi::OsStr, program: &str) -> String {
        let (package, loader) = (self.folder.join("python"), root().join("python"));
        let output = Command::new(python)
            .args(["-c", program])
            .env(
                "PYTHONPATH",
                format!("{}:{}", package.display(), loader.display()),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("JAX_PLATFORMS", "cpu")
            .output()
            .unwrap();
        assert_success(&output);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a line of a shell block. Skips a line whose comment names other languages.
    fn runs(&mut self, line: &str) {
        let (line, languages) = line.split_once("  # ").unwrap_or((line, ""));
        let line = line.trim_end();
        let name = ["Rust", "C", "C++"][["rust", "c", "cpp"]
            .iter()
            .position(|it| *it == self.language)
            .unwrap()];
        if !languages.is_empty() && !languages.split(", ").any(|it| it.trim() == name) {
            return;
        }
        if line.starts_with("lib=") {
            assert_eq!(line, format!("lib={}", self.library));
            return;
        }
        if line.starts_with("pip install 'xla-ffi[tools]'") {
            return;
        }
        if line == "pip install ." {
            let package = self.folder.join("python/smoothing/libsmoothing.so");
            std::fs::copy(self.folder.join(self.library), package).unwrap();
            return;
        }
        if let Some(folder) = line.strip_prefix("cd ") {
            self.folder.push(folder);
            return;
        }
        if line.starts_with("cargo build") || line.starts_with("cmake ") {
            return self.build();
        }
        let Some(arguments) = line.strip_prefix("xla-ffi ") else {
            panic!("nobody knows how to try {line:?}");
        };
        let script = format!("exec \"$0\" {arguments}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_xla-ffi")])
            .current_dir(&self.folder)
            .env("lib", self.library)
            .env("XLA_FFI_SDK", root())
            .output()
            .unwrap();
        assert_eq!(
            output.status.success(),
            !line.contains("s32[5]") && !line.contains("reach = -1"),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        if line.starts_with("xla-ffi run") {
            self.says(&output);
        }
    }
}

/// Follows the page in one language. Reports a skip if a required tool is missing.
fn follow(test: &str, language: &'static str, source: &'static str, library: &'static str) {
    let needs = match language {
        "c" => Some("gcc"),
        "cpp" => Some("g++"),
        _ => None,
    };
    if let Some(compiler) = needs.filter(|compiler| !compiler::works(compiler)) {
        return skip(test, &format!("{compiler} is not there"));
    }
    let page = page("first-handler.md");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("first-{language}"));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let mut newcomer = Newcomer {
        folder,
        language,
        source,
        library,
        said: String::new(),
    };
    let mut answers = 0;
    for block in blocks(&page) {
        match block.language.as_str() {
            "sh" => block.text.lines().for_each(|line| newcomer.runs(line)),
            "text" => {
                if newcomer.said == "no JAX" {
                    continue;
                }
                assert_eq!(
                    newcomer.said, block.text,
                    "the output in docs/first-handler.md, in {language}"
                );
                newcomer.said.clear();
                answers += 1;
            }
            "python" if block.text.lines().count() == 1 => {
                let package = newcomer.folder.join("python/smoothing/__init__.py");
                let text = std::fs::read_to_string(&package).unwrap();
                let above = "scale = lib.scale\n";
                assert!(text.contains(above), "{text}");
                let text = text.replace(above, &format!("{above}{}", block.text));
                std::fs::write(package, text).unwrap();
            }
            "python" => {
                let Some(python) = std::env::var_os("XLA_FFI_PYTHON") else {
                    skip(
                        test,
                        "XLA_FFI_PYTHON is not set (`cargo xtask test` sets it): not tried in JAX",
                    );
                    newcomer.said = "no JAX".to_owned();
                    continue;
                };
                let said = newcomer.python(&python, &block.text);
                newcomer.said += &said;
            }
            other if other == language => {
                std::fs::write(newcomer.folder.join(source), &block.text).unwrap();
            }
            _ => {}
        }
    }
    assert!(answers >= 2, "{answers} answers were compared");
    newcomer.said.clear();
    porting(test, language, &mut newcomer);
}

/// Returns the text after applying a diff: its added and unchanged lines.
fn changed(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('-'));
    let plain = lines.map(|line| line.strip_prefix(['+', ' ']).unwrap_or(line));
    plain.flat_map(|line| [line, "\n"]).collect()
}

/// Checks `docs/porting.md`. The new code of each diff must compile and run, and the Python programs must print the same
/// output before and after the diff.
fn porting(test: &str, language: &str, newcomer: &mut Newcomer) {
    let page = page("porting.md");
    let blocks = blocks(&page);
    let change = |mark: &str| {
        let all = blocks.iter().filter(|block| block.language == "diff");
        let found = all
            .map(|block| changed(&block.text))
            .find(|text| text.contains(mark));
        found.unwrap_or_else(|| panic!("no change has {mark}"))
    };
    match language {
        "c" => {
            let Some(python) = std::env::var_os("XLA_FFI_PYTHON") else {
                return skip(
                    test,
                    "XLA_FFI_PYTHON is not set (`cargo xtask test` sets it): not tried in JAX",
                );
            };
            let programs: Vec<&Block> = blocks
                .iter()
                .filter(|block| block.language == "python")
                .collect();
            let answer = blocks
                .iter()
                .find(|block| block.language == "text")
                .unwrap();
            assert_eq!(programs.len(), 2);
            for program in programs {
                assert_eq!(
                    newcomer.python(&python, &program.text),
                    answer.text,
                    "{}",
                    program.text
                );
            }
        }
        "cpp" => {
            std::fs::write(
                newcomer.folder.join(newcomer.source),
                change("XLA_FFI_LIBRARY"),
            )
            .unwrap();
            newcomer.build();
            newcomer.runs(
                "xla-ffi run build/libsmoothing.so --handler Scale_ --arg 'f32[2]=1,2' --ret 'f32[2]' --attrs '{factor = 2.0 : f32}'",
            );
            assert!(newcomer.said.contains("[2, 4]"), "{}", newcomer.said);
        }
        _ => {
            std::fs::write(newcomer.folder.join(newcomer.source), change("library!")).unwrap();
            newcomer.build();
            newcomer.runs(
                "xla-ffi run target/release/libsmoothing.so --handler scale --arg 'f32[2]=1,2' --attrs '{factor = 2.0 : f32}'",
            );
            assert!(newcomer.said.contains("[2, 4]"), "{}", newcomer.said);
        }
    }
}

#[test]
fn a_first_handler_in_rust() {
    follow(
        "a_first_handler_in_rust",
        "rust",
        "src/lib.rs",
        "target/release/libsmoothing.so",
    );
}

#[test]
fn a_first_handler_in_c() {
    follow(
        "a_first_handler_in_c",
        "c",
        "src/smoothing.c",
        "build/libsmoothing.so",
    );
}

#[test]
fn a_first_handler_in_cxx() {
    follow(
        "a_first_handler_in_cxx",
        "cpp",
        "src/smoothing.cc",
        "build/libsmoothing.so",
    );
}
