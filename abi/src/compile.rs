//! Runs a C++ compiler over a header's translation unit.

use crate::header::{Error, FLAT, SUBJECT, Source};
use crate::tool::{self, Ended, Failure, Limits};
use crate::watch::Watcher;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Address space that a compiler may take: a header needs some hundred megabytes.
const MEMORY: u64 = 4 << 30;
/// Bytes of messages that are read.
const MESSAGES: u64 = 1 << 20;
/// How long a compiler may take to say what it is.
const ASKED: Duration = Duration::from_secs(20);
/// What a compiler says that has come to no end with a header, none of which is a word about its text: GCC's driver of the
/// compiler that it started, both of their memory.
const BROKE_DOWN: [&str; 7] = [
    "out of memory",
    "virtual memory exhausted",
    "Cannot allocate memory",
    "std::bad_alloc",
    "internal compiler error",
    "terminated program",
    "error: clang frontend command failed",
];

/// Compiles the unit in `folder` to a library with debug information and gives its bytes.
pub(crate) fn debug_library(
    source: &Source,
    folder: &Path,
    watcher: &Watcher,
) -> Result<Vec<u8>, Error> {
    let compiler = Compiler::find(folder, source.time_limit(), watcher).ok_or_else(|| {
        Error::Missing("no C++ compiler is there (looked for $CXX, g++, clang++, c++)".to_owned())
    })?;
    // Upstream's table has slots named as their types, which GCC takes from C++ only where `extern "C"` stands around: a
    // copy in a namespace has none, and Clang reads it.
    let said = match compiler.compile(&[], source) {
        Err(Error::Parse { messages, .. }) if messages.contains("changes meaning of") => {
            compiler.compile(&["-fpermissive"], source)
        }
        other => other,
    };
    said.and_then(|library| Ok(std::fs::read(library)?))
}

/// A compiler that runs in a folder of its own.
struct Compiler<'a> {
    /// As it is named, with arguments perhaps: `ccache g++`.
    name: String,
    folder: &'a Path,
    limit: Duration,
    watcher: &'a Watcher,
}

impl<'a> Compiler<'a> {
    /// The compiler to use; `CXX` decides where it is set.
    fn find(folder: &'a Path, limit: Duration, watcher: &'a Watcher) -> Option<Self> {
        let candidates = match std::env::var("CXX") {
            Ok(compiler) if !compiler.is_empty() => vec![compiler],
            _ => ["g++", "clang++", "c++"].map(str::to_owned).to_vec(),
        };
        let found = candidates.into_iter().find(|compiler| {
            let said = ask(compiler, "--version", watcher);
            said.is_some_and(|said| said.status.success())
        });
        found.map(|name| Self {
            name,
            folder,
            limit,
            watcher,
        })
    }

    /// What messages call it.
    fn shown(&self) -> &str {
        self.name.split_whitespace().next().unwrap_or(&self.name)
    }

    fn compile(&self, flags: &[&str], source: &Source) -> Result<PathBuf, Error> {
        let library = self.folder.join("unit.so");
        let ended = self.run(flags, source, "unit.cc", &library)?;
        if ended.status.success() && library.is_file() {
            return Ok(library);
        }
        let messages = self.messages(&ended, source, 10);
        let parse = |messages| Error::Parse {
            path: source.path().to_owned(),
            messages,
        };
        let broke_down = BROKE_DOWN.iter().any(|words| messages.contains(words));
        // One that tells where an error stands has read that far.
        if !broke_down && messages.lines().any(tells_a_place) {
            return Err(parse(messages));
        }
        // What it cannot do with an empty file is no word about the header.
        let (empty, nothing) = ("empty.cc", self.folder.join("empty.so"));
        std::fs::write(self.folder.join(empty), "")?;
        let alone = self.run(&[], source, empty, &nothing)?;
        if !alone.status.success() || !nothing.is_file() {
            return Err(Error::Missing(format!(
                "the C++ compiler {} compiles nothing: {}",
                self.shown(),
                self.messages(&alone, source, 3).replace('\n', "; ").trim()
            )));
        }
        let mut lines = messages.lines();
        let line = lines.find(|line| BROKE_DOWN.iter().any(|words| line.contains(words)));
        Err(match line {
            Some(line) => Error::BrokeDown {
                path: source.path().to_owned(),
                what: self.shown().to_owned(),
                why: line.trim().to_owned(),
            },
            None => parse(messages),
        })
    }

    /// Compiles one file of the folder.
    fn run(
        &self,
        flags: &[&str],
        source: &Source,
        unit: &str,
        library: &Path,
    ) -> Result<Ended, Error> {
        let mut command = start(&self.name);
        command
            .args([
                "-std=c++17",
                "-w",
                "-g",
                "-O0",
                "-fPIC",
                "-shared",
                "-nodefaultlibs",
            ])
            .args(flags)
            // Types that nothing uses are what we came for.
            .arg("-fno-eliminate-unused-debug-types")
            // What the linker would compress or split, this reader would not see.
            .args(["-gz=none", "-gno-split-dwarf"])
            .arg("-o")
            .arg(library)
            .arg(self.folder.join(unit))
            .env("LC_ALL", "C")
            // What it leaves behind where it is stopped goes with the folder.
            .env("TMPDIR", self.folder);
        for define in source.defines() {
            command.arg(format!("-D{define}"));
        }
        for include in source.includes() {
            command.arg("-I").arg(include);
        }
        command.arg("-I").arg(self.folder.join(FLAT));
        let limits = Limits {
            time: self.limit,
            bytes: MESSAGES,
            memory: Some(MEMORY),
        };
        let what = || self.shown().to_owned();
        tool::run(&mut command, limits, self.watcher).map_err(|failure| match failure {
            Failure::Start(why) => Error::Missing(format!("cannot run {}: {why}", what())),
            Failure::Time(limit) => Error::Time {
                what: what(),
                seconds: limit.as_secs(),
            },
            Failure::Lost(why) => Error::Missing(format!("cannot run {}: {why}", what())),
        })
    }

    /// What it says of errors, in so many lines at most.
    fn messages(&self, ended: &Ended, source: &Source, most: usize) -> String {
        let said = String::from_utf8_lossy(&ended.stderr);
        let subject = self.folder.join(SUBJECT).display().to_string();
        let said = said.replace(&subject, &source.path().display().to_string());
        let mut lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("error") || line.contains("out of memory"))
            .take(most)
            .collect();
        if lines.is_empty() {
            lines = said.lines().take(3).collect();
        }
        let nothing = match ended.status.success() {
            true => "the compiler ended well and wrote nothing".to_owned(),
            false => format!("the compiler failed with {} and said nothing", ended.status),
        };
        if lines.is_empty() {
            lines.push(&nothing);
        }
        let messages: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        messages.trim_end().to_owned()
    }
}

/// Whether a line of messages has an error with the number of the line that it stands in.
fn tells_a_place(line: &str) -> bool {
    let kinds = [": error: ", ": fatal error: "];
    let mut places = kinds.iter().filter_map(|kind| line.split_once(kind));
    places.any(|(place, _)| {
        let number = place.rsplit_once(':').map(|(_, number)| number);
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

/// What a compiler says of itself.
fn ask(compiler: &str, question: &str, watcher: &Watcher) -> Option<Ended> {
    let limits = Limits {
        time: ASKED,
        bytes: MESSAGES,
        memory: Some(MEMORY),
    };
    tool::run(start(compiler).arg(question), limits, watcher).ok()
}

/// The folder of the headers that the compiler brings, `stdbool.h` for instance.
pub(crate) fn own_headers() -> Option<String> {
    let watcher = Watcher::start(None);
    let nowhere = Path::new("");
    let compiler = Compiler::find(nowhere, ASKED, &watcher)?;
    let said = ask(&compiler.name, "-print-file-name=include", &watcher)?;
    let folder = String::from_utf8(said.stdout).ok()?;
    let folder = folder.trim();
    Path::new(folder).is_dir().then(|| folder.to_owned())
}

/// A command for a compiler that may be named with arguments, as in `CXX="ccache g++"`.
fn start(compiler: &str) -> Command {
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(compiler));
    command.args(words);
    command
}
