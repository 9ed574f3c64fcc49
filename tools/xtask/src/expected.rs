//! The expected cells of the matrix, `tests/jax/expected.txt`.
//!
//! ```text
//! [rust, c]
//! stateless = ok
//! run id = absent before r4 "0.5.1"
//! nested = absent before r2 "Unsupported"; absent jaxlib 0.4.35..0.4.36 "passes no"
//! ```
//! A rule consists of a cell and one of these conditions:
//!
//! - `before rN`, `from rN`, or `rA..rB` with both ends included;
//! - the same with `jaxlib X.Y.Z` instead of a revision;
//! - `on HOST [X.Y.Z]` for a host other than jaxlib;
//! - nothing, which matches everywhere.
//!
//! The first rule whose condition matches applies; if no rule matches, the cell is `ok`. For an absent feature, the
//! error message must contain the quoted text.

use crate::uv;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use xla_ffi_sys::Revision;

/// The outcome of one feature on one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    /// The feature works on the runtime.
    Ok,
    /// The runtime lacks the feature, and a clear error reports this.
    Absent,
    /// The test does not apply, because the library's language or headers lack the feature.
    Moot,
    /// The runtime rejects the handler's registration.
    Refused,
    /// The result or error of the call is wrong.
    Wrong,
    /// The process crashes or hangs.
    Crash,
    /// `Wrong` or `Crash`, depending on the contents of memory that the test cannot control. This cell is only
    /// expected, never measured.
    Broken,
}

impl Cell {
    const ALL: [(Self, &str); 7] = [
        (Self::Ok, "ok"),
        (Self::Absent, "absent"),
        (Self::Moot, "moot"),
        (Self::Refused, "refused"),
        (Self::Wrong, "wrong"),
        (Self::Crash, "crash"),
        (Self::Broken, "broken"),
    ];

    /// Returns the word for the cell in `expected.txt`.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns true if a measured cell matches the expected cell.
    pub(crate) fn is_expected(self, expected: Self) -> bool {
        self == expected || (expected == Self::Broken && matches!(self, Self::Wrong | Self::Crash))
    }

    /// Returns the cell for a word in `expected.txt`.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(_, name)| *name == word);
        known.map(|(cell, _)| cell)
    }
}

/// A host with its version and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runtime {
    /// The name of the host's package, such as `jaxlib`.
    pub(crate) host: String,
    /// The version of the host's package, as text.
    pub(crate) version: String,
    numbers: Vec<u32>,
    /// The ABI revision of the host.
    pub(crate) revision: Revision,
}

impl Runtime {
    /// Returns the runtime for the jaxlib version `version`.
    pub(crate) fn of(version: &str) -> Result<Self> {
        let numbers = uv::version_numbers(version)?;
        let revision = Revision::of_jaxlib(version).with_context(|| {
            let oldest = Revision::ALL[0].first_jaxlib();
            format!("jaxlib {version} is older than {oldest}, the first with this ABI")
        })?;
        Ok(Self {
            host: "jaxlib".to_owned(),
            version: version.to_owned(),
            numbers,
            revision,
        })
    }

    /// Returns the runtime for a host other than jaxlib.
    pub(crate) fn of_host(name: &str, version: &str, revision: Revision) -> Self {
        Self {
            host: name.to_owned(),
            version: version.to_owned(),
            numbers: vec![],
            revision,
        }
    }

    /// Returns the heading of the runtime's column.
    pub(crate) fn label(&self) -> String {
        if self.host == "jaxlib" {
            return self.version.clone();
        }
        format!("{} {}", self.host, self.version)
    }
}

#[derive(Clone, Debug)]
struct Rule {
    cell: Cell,
    /// The text that the error message must contain.
    words: String,
    /// The condition of the rule, as written in the file.
    place: String,
}

impl Rule {
    fn parse(text: &str) -> Result<Self> {
        let (text, words) = match text.split_once('"') {
            Some((text, words)) => {
                let words = words.strip_suffix('"');
                (text.trim(), words.context("words end with a quote")?)
            }
            None => (text, ""),
        };
        let (cell, place) = text.split_once(' ').unwrap_or((text, ""));
        let rule = Self {
            cell: Cell::parse(cell).with_context(|| format!("{cell:?} is not a cell"))?,
            words: words.to_owned(),
            place: place.to_owned(),
        };
        ensure!(
            (rule.cell == Cell::Absent) != words.is_empty(),
            "{text:?}: what is absent, and that alone, says so in some words"
        );
        // The condition is evaluated once, so that an invalid condition is an error in reading the file.
        rule.holds(&Runtime::of("0.4.31")?)?;
        Ok(rule)
    }

    fn holds(&self, runtime: &Runtime) -> Result<bool> {
        let words: Vec<&str> = self.place.split_whitespace().collect();
        let (place, rest) = match *words.as_slice() {
            [] => return Ok(true),
            ["on", host] => return Ok(runtime.host == host),
            ["on", host, version] => {
                return Ok(runtime.host == host && runtime.version == version);
            }
            [place @ ("before" | "from"), ref rest @ ..] => (place, rest),
            ref rest => ("", rest),
        };
        let (own, rest, in_jaxlibs) = match *rest {
            ["jaxlib", rest] => (runtime.numbers.clone(), rest, true),
            [rest] => (vec![runtime.revision as u32], rest, false),
            _ => bail!("{:?} is not understood", self.place),
        };
        let number = |text: &str| match in_jaxlibs {
            true => uv::version_numbers(text),
            false => {
                let revision = Revision::from_name(text);
                let revision = revision.with_context(|| format!("{text:?} is not a revision"))?;
                Ok(vec![revision as u32])
            }
        };
        let (first, last) = rest.split_once("..").unwrap_or((rest, rest));
        let (first, last) = (number(first)?, number(last)?);
        Ok(match place {
            "before" => own < first,
            "from" => own >= first,
            _ => own >= first && own <= last,
        })
    }
}

/// The contents of `expected.txt`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    rules: BTreeMap<(String, String), Vec<Rule>>,
}

impl Expected {
    /// Parses the text of `expected.txt`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut expected = Self::default();
        let mut libraries: Vec<String> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = || format!("line {}", index + 1);
            if line.is_empty() {
            } else if let Some(inner) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                libraries = inner
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .collect();
            } else {
                let (feature, rules) = line.split_once(" = ").with_context(at)?;
                let rules = rules
                    .split(';')
                    .map(|rule| Rule::parse(rule.trim()))
                    .collect::<Result<Vec<_>>>();
                let rules = rules.with_context(at)?;
                if libraries.is_empty() {
                    bail!("{}: no library is named before it", at());
                }
                for library in &libraries {
                    let key = (library.clone(), feature.trim().to_owned());
                    if expected.rules.insert(key, rules.clone()).is_some() {
                        bail!("{}: {feature:?} is there twice for {library}", at());
                    }
                }
            }
        }
        Ok(expected)
    }

    /// Returns the expected cell of a feature, and the text that its error message must contain. Returns `None` if the
    /// file does not list the feature.
    pub(crate) fn cell(
        &self,
        library: &str,
        feature: &str,
        runtime: &Runtime,
    ) -> Option<(Cell, &str)> {
        let rules = self.rules.get(&(library.to_owned(), feature.to_owned()))?;
        let holds = |rule: &&Rule| rule.holds(runtime).unwrap_or(false);
        let rule = rules.iter().find(holds);
        Some(rule.map_or((Cell::Ok, ""), |rule| (rule.cell, &*rule.words)))
    }

    /// Returns every feature that the file lists for a library.
    pub(crate) fn features(&self, library: &str) -> impl Iterator<Item = &str> {
        self.rules
            .keys()
            .filter(move |(of, _)| of == library)
            .map(|(_, feature)| feature.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_holds_decides() {
        let text = "[a]\nx = wrong r1..r2; absent from jaxlib 0.8.0 \"b\"; moot on two\n";
        let expected = Expected::parse(text).unwrap();
        let two = Runtime::of_host("two", "2.1", Revision::R7);
        for (runtime, cell) in [
            (Runtime::of("0.4.31").unwrap(), Cell::Ok),
            (Runtime::of("0.4.36").unwrap(), Cell::Wrong),
            (Runtime::of("0.10.2").unwrap(), Cell::Absent),
            (two, Cell::Moot),
        ] {
            assert_eq!(
                expected.cell("a", "x", &runtime).unwrap().0,
                cell,
                "{runtime:?}"
            );
        }
        assert!(Expected::parse("[a]\nx = absent r1").is_err());
    }
}
