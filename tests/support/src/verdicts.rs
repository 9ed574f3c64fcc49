//! Libraries built with upstream's headers of each revision, and their outcomes on real jaxlibs.
//!
//! `cargo xtask verdicts` measures the table `tests/jax/verdicts.txt`.

use crate::compiler::compiler;
use crate::headers::Headers;
use crate::once;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_sys::{JAXLIBS, Revision};

/// The source of the libraries.
const SOURCE: &str = "tests/fixtures/upstream/verdicts.cc";

/// The kind of a library's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A handler that uses only its operands.
    Stateless,
    /// A handler that creates state in the instantiate stage.
    Stateful,
    /// A handler that completes after it returns.
    Async,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Stateless, Self::Stateful, Self::Async];

    /// Returns the symbol of the handler's execute stage.
    #[must_use]
    pub const fn handler(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Stateful => "stateful",
            Self::Async => "async",
        }
    }

    /// Returns true if a revision's headers support this kind.
    #[must_use]
    pub fn is_in(self, revision: Revision) -> bool {
        self != Self::Async || revision >= Revision::R2
    }

    fn symbols(self) -> &'static str {
        match self {
            Self::Stateful => {
                "stateful; stateful_instantiate; factor_type_id; factor_type_info; factor_delete"
            }
            Self::Stateless | Self::Async => self.handler(),
        }
    }
}

/// Returns the releases that provide the headers: the first listed release of each revision.
#[must_use]
pub fn headers() -> Vec<&'static str> {
    let first = |revision: Revision| {
        let mut listed = JAXLIBS.into_iter();
        listed.find(|version| Revision::of_jaxlib(version) == Some(revision))
    };
    Revision::ALL.into_iter().filter_map(first).collect()
}

/// Builds the library of a kind with a release's headers in `folder`.
///
/// Without a compiler, reports a skip and returns `None`.
///
/// # Panics
/// Panics if the library does not compile.
#[must_use]
pub fn library(folder: &Path, test: &str, headers: &Headers, kind: Kind) -> Option<PathBuf> {
    let compiler = compiler(true, test)?;
    std::fs::create_dir_all(folder).expect("the target folder");
    let version = &headers.version;
    let object = folder.join(format!("verdicts-{version}.o"));
    let source = crate::root().join(SOURCE);
    let mut command = Command::new(&compiler);
    command
        .args(["-std=c++17", "-O2", "-DNDEBUG", "-w", "-fPIC"])
        // The source is compiled only once per release, so the linker must drop the code of other kinds.
        .args(["-ffunction-sections", "-fdata-sections"])
        .arg(format!("-DREVISION={}", headers.revision as u32))
        .arg("-isystem")
        .arg(&headers.include)
        .arg("-c")
        .arg(&source);
    once::compile(
        &mut command,
        &[&source, &headers.include.join("xla/ffi/api")],
        Some(&object),
    )
    .unwrap_or_else(|said| panic!("{said}"));
    let name = kind.handler();
    let map = folder.join(format!("{name}.map"));
    let text = format!("{{ global: {}; local: *; }};\n", kind.symbols());
    if std::fs::read_to_string(&map).is_ok_and(|known| known != text) || !map.exists() {
        std::fs::write(&map, text).expect("the target folder");
    }
    let out = folder.join(format!("libverdicts-{version}-{name}.so"));
    let mut command = Command::new(&compiler);
    command
        .args(["-shared", "-pthread", "-Wl,--gc-sections"])
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg(&object);
    once::compile(&mut command, &[&object, &map], Some(&out))
        .unwrap_or_else(|said| panic!("{said}"));
    Some(out)
}

/// The outcome of a case on a jaxlib.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The result is correct.
    Works,
    /// The runtime rejects the handler or its type.
    Refused,
    /// The call returns an error.
    Fails,
    /// The result is wrong.
    Wrong,
    /// The process crashes or hangs.
    Crash,
    /// The outcome differs between runs, because it depends on memory contents.
    Varies,
}

impl End {
    const ALL: [Self; 6] = [
        Self::Works,
        Self::Refused,
        Self::Fails,
        Self::Wrong,
        Self::Crash,
        Self::Varies,
    ];

    /// Returns the outcome's word in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Refused => "refused",
            Self::Fails => "fails",
            Self::Wrong => "wrong",
            Self::Crash => "crash",
            Self::Varies => "varies",
        }
    }

    /// Returns the outcome for a word in the table, if the word is known.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.name() == name)
    }
}

/// A row of the table: a release's headers, a case, and the outcome on each jaxlib of the table, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The release that provides the library's headers.
    pub headers: String,
    /// `stateless`, `stateful` (with an unregistered type), `registered` (with a registered type) or
    /// `async`.
    pub case: String,
    /// One outcome per jaxlib; `None` if it was not measured.
    pub ends: Vec<Option<End>>,
}

/// The measured table of outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The jaxlibs, oldest first.
    pub jaxlibs: Vec<String>,
    /// The glibc version that each jaxlib's wheel requires.
    pub glibc: Vec<String>,
    /// The rows, in the order of the file.
    pub rows: Vec<Row>,
}

/// Returns the path of the committed table.
#[must_use]
pub fn path() -> PathBuf {
    crate::root().join("tests/jax/verdicts.txt")
}

impl Table {
    /// Returns the committed table.
    ///
    /// # Panics
    /// Panics if the table cannot be read.
    #[must_use]
    pub fn committed() -> Self {
        let text = std::fs::read_to_string(path()).expect("tests/jax/verdicts.txt");
        Self::parse(&text).unwrap_or_else(|what| panic!("tests/jax/verdicts.txt: {what}"))
    }

    /// Parses a table.
    ///
    /// # Errors
    /// Returns the line that is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(list) = line.strip_prefix("jaxlibs ") {
                table.jaxlibs = list.split_whitespace().map(str::to_owned).collect();
                table.glibc = vec![String::new(); table.jaxlibs.len()];
                continue;
            }
            if let Some(told) = line.strip_prefix("glibc: ") {
                table
                    .glibc(told)
                    .ok_or_else(|| format!("not understood: {line}"))?;
                continue;
            }
            table
                .row(line)
                .ok_or_else(|| format!("not understood: {line}"))?;
        }
        Ok(table)
    }

    /// Parses `WORD FIRST..LAST, …` to words and ranges of indices.
    fn runs<'a>(&self, told: &'a str) -> Option<Vec<(&'a str, std::ops::RangeInclusive<usize>)>> {
        let at = |version: &str| self.jaxlibs.iter().position(|known| known == version);
        told.split(", ")
            .map(|part| {
                let (word, range) = part.split_once(' ')?;
                let (first, last) = range.split_once("..").unwrap_or((range, range));
                let places = at(first)?..=at(last)?;
                (!places.is_empty()).then_some((word, places))
            })
            .collect()
    }

    fn glibc(&mut self, told: &str) -> Option<()> {
        for (glibc, places) in self.runs(told)? {
            self.glibc[places].fill(glibc.to_owned());
        }
        Some(())
    }

    fn row(&mut self, line: &str) -> Option<()> {
        let (what, told) = line.split_once(": ")?;
        let (headers, case) = what.split_once(' ')?;
        let mut ends = vec![None; self.jaxlibs.len()];
        for (end, places) in self.runs(told)? {
            ends[places].fill(Some(End::from_name(end)?));
        }
        self.rows.push(Row {
            headers: headers.to_owned(),
            case: case.to_owned(),
            ends,
        });
        Some(())
    }

    /// Returns the table as the text of its file, with equal neighbouring cells combined.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# What real jaxlibs do with libraries that were built with upstream's headers: measured by\n\
             # `cargo xtask verdicts`, which writes this file. docs/maintaining/new-jaxlib.md says how to read it.\n",
        );
        let _ = writeln!(text, "jaxlibs {}", self.jaxlibs.join(" "));
        let told = |cell: &String| (!cell.is_empty()).then(|| cell.clone());
        self.write_runs(&mut text, "glibc", &self.glibc, told);
        for row in &self.rows {
            let name = format!("{} {}", row.headers, row.case);
            let told = |end: &Option<End>| end.map(|end| end.name().to_owned());
            self.write_runs(&mut text, &name, &row.ends, told);
        }
        text
    }

    /// Writes one line of the table, with equal neighbouring cells combined.
    fn write_runs<T: PartialEq>(
        &self,
        text: &mut String,
        name: &str,
        cells: &[T],
        told: impl Fn(&T) -> Option<String>,
    ) {
        let mut runs = Vec::new();
        let mut start = 0;
        for run in cells.chunk_by(|one, next| one == next) {
            let (first, last) = (&self.jaxlibs[start], &self.jaxlibs[start + run.len() - 1]);
            if let Some(word) = told(&run[0]) {
                runs.push(match run.len() {
                    1 => format!("{word} {first}"),
                    _ => format!("{word} {first}..{last}"),
                });
            }
            start += run.len();
        }
        let _ = writeln!(text, "{name}: {}", runs.join(", "));
    }
}
