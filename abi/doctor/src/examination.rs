//! Examines a library's file without loading or running the library.
//!
//! Metadata calls run handlers, so callers of this module make the calls in a child process and store the outcome in
//! [`Answer`](crate::Answer).

use crate::candidate::{Candidate, Use};
use crate::finding::{Finding, Problem, Subject};
use crate::library::{self, Facts, Provided, Surroundings};
use crate::link;
use crate::manifest::{self, Manifest};
use crate::release;
use crate::{description, exported, threads};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use xla_ffi_abi::model::{Abi, Header, Struct};
use xla_ffi_abi::snapshot::Snapshot;
use xla_ffi_abi::{dwarf, snapshot};
use xla_ffi_sys::Revision;

/// The prefix of names in error messages of XLA's C++ headers. A library that contains this text was built with these
/// headers.
const HEADERS: &str = "XLA_FFI_";

/// The result of reading a library's file.
#[derive(Debug)]
pub struct Examination {
    /// The path of the library.
    pub path: PathBuf,
    /// The facts read from the file.
    pub facts: Facts,
    /// The manifests in the file.
    pub manifests: Vec<Manifest>,
    /// The revisions of the ABI headers that the library was compiled with, according to its debug information.
    pub compiled_with: Vec<Revision>,
    /// Whether the file contains messages of XLA's C++ headers, which shows that the library was built with these
    /// headers.
    pub uses_headers: bool,
    /// The names of required libraries that were not found.
    pub missing: Vec<String>,
    /// The findings about the file.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Reads the library at `path` without running the library.
    ///
    /// # Errors
    /// [`library::Error`] if the file is not a library.
    pub fn of(path: &Path) -> Result<Self, library::Error> {
        Self::with(path, &Provided::default(), |_, _| None)
    }

    /// Reads the library at `path` without running the library. `provided` contains libraries of the user's process
    /// that this machine's dynamic linker does not find.
    ///
    /// The function `provider` receives the name of a library that is missing on this machine, and this library's
    /// RPATH. The result is the package that provides the missing library on the user's machine.
    ///
    /// # Errors
    /// [`library::Error`] if the file is not a library.
    pub fn with(
        path: &Path,
        provided: &Provided,
        provider: impl Fn(&str, &[String]) -> Option<String>,
    ) -> Result<Self, library::Error> {
        let bytes = library::bytes(path)?;
        let file = File::open(path).map_err(|source| library::Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::read(path, &bytes, file, provided, provider)
    }

    /// Reads the library in `bytes` without running the library. Required libraries are searched as if the file were at
    /// `path`.
    ///
    /// # Errors
    /// [`library::Error`] if the bytes are not a library.
    pub fn of_bytes(path: &Path, whole: &[u8]) -> Result<Self, library::Error> {
        Self::read(path, whole, whole, &Provided::default(), |_, _| None)
    }

    fn read(
        path: &Path,
        whole: &[u8],
        file: impl Read,
        provided: &Provided,
        provider: impl Fn(&str, &[String]) -> Option<String>,
    ) -> Result<Self, library::Error> {
        let parts = library::parts(path, whole)?;
        let facts = library::read_parts(path, &parts)?;
        let mut findings = Vec::new();
        machine(&facts, &mut findings);
        let surroundings = Surroundings::of(path, &facts, provided);
        link::findings(path, &facts, &surroundings, provider, &mut findings);
        // The list is not empty, because `read_parts` returns an error for an empty list.
        let bytes = parts.first().map_or(whole, |part| part.bytes);
        let manifests = match manifest::read(bytes) {
            Ok(manifests) => manifests,
            Err(error) => {
                findings.push(
                    Finding::failure(
                        Problem::Manifest,
                        "has an unreadable manifest",
                        error.to_string(),
                    )
                    .fix("rebuild the library, because loaders that read manifests refuse it"),
                );
                Vec::new()
            }
        };
        exports(&manifests, &facts, &mut findings);
        description::findings(&manifests, &mut findings);
        exported::findings(&manifests, &facts, &mut findings);
        let texts: Vec<&str> = threads::texts().chain([HEADERS]).collect();
        let texts = library::texts(file, &texts);
        threads::findings(&facts, &texts, &mut findings);
        let compiled_with = compiled_with(bytes, &mut findings);
        Ok(Self {
            path: path.to_owned(),
            facts,
            manifests,
            compiled_with,
            uses_headers: texts.contains(HEADERS),
            missing: surroundings.missing.into_keys().collect(),
            findings,
        })
    }

    /// Returns true if required libraries are missing on this machine, but packages on the user's machine provide all
    /// of them.
    #[must_use]
    pub fn lacks_only_provided(&self) -> bool {
        let mut missing = self
            .findings
            .iter()
            .filter(|finding| finding.problem == Problem::MissingLibrary);
        !self.missing.is_empty() && missing.all(|finding| !finding.is_proved_failure())
    }

    /// Adds a finding about the glibc that the library requires, compared with the glibc that these jaxlib releases
    /// require.
    pub fn judge_glibc(&mut self, versions: &[&str]) {
        let floor = self.facts.highest("GLIBC_");
        let finding = floor.and_then(|floor| release::about_glibc(floor, versions));
        self.findings.extend(finding);
    }

    /// Adds findings about handlers that need user data, which some of the given jaxlib releases do not support.
    pub fn judge_user_data(&mut self, versions: &[&str]) {
        let takes =
            |handler: &&manifest::Handler| handler.context.iter().any(|what| what == "user_data");
        let found: Vec<Finding> = self
            .declared()
            .filter(takes)
            .filter_map(|handler| release::about_user_data(&handler.name, versions))
            .collect();
        self.findings.extend(found);
    }

    /// Returns the handlers of the manifest and the handlers in `named`. Each item of `named` is a handler's name with
    /// the names and symbols of its stages.
    #[must_use]
    pub fn candidates(&self, named: &[(String, Vec<(String, String)>)]) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = self
            .declared()
            .map(|handler| self.described(handler))
            .collect();
        for (name, stages) in named {
            let known = candidates.iter().any(|candidate| {
                candidate.name == *name
                    || stages.iter().all(|stage| candidate.stages.contains(stage))
            });
            if !known {
                candidates.push(self.candidate(name, stages));
            }
        }
        candidates
    }

    /// Returns the manifest's handler with this name. If the manifest has no such handler, returns a handler with the
    /// given stages.
    #[must_use]
    pub fn candidate(&self, name: &str, stages: &[(String, String)]) -> Candidate {
        match self.declared().find(|handler| handler.name == name) {
            Some(handler) => self.described(handler),
            None => self.undescribed(name, stages.to_vec()),
        }
    }

    /// Returns a candidate for a handler of the manifest. If the manifest does not describe the handler, only its
    /// stages are known.
    fn described(&self, handler: &manifest::Handler) -> Candidate {
        let stages = handler.stages.iter();
        let stages = stages.map(|(stage, symbol)| (stage.to_owned(), symbol.to_owned()));
        let undescribed = self.undescribed(&handler.name, stages.collect());
        if !handler.described {
            return undescribed;
        }
        Candidate {
            floor: handler.floor_revision(),
            state: match &handler.state {
                Some(state) => {
                    Use::Yes(format!("the manifest declares state of type {}", state.ty))
                }
                None => Use::No,
            },
            future: if handler.is_async {
                Use::Yes("the manifest declares the handler async".to_owned())
            } else {
                Use::No
            },
            // Handlers with a description in the manifest register the types of their state themselves.
            has_types: true,
            ..undescribed
        }
    }

    /// Returns a candidate for a handler of which only the name and the symbols are known.
    fn undescribed(&self, name: &str, stages: Vec<(String, String)>) -> Candidate {
        Candidate {
            name: name.to_owned(),
            stages,
            floor: None,
            state: self.usage("5StateI"),
            future: self.usage("6Future"),
            has_types: false,
            answers: Vec::new(),
        }
    }

    fn declared(&self) -> impl Iterator<Item = &manifest::Handler> {
        self.manifests
            .iter()
            .flat_map(|manifest| &manifest.handlers)
    }

    /// Returns whether the C++ handlers use the type with the mangled name `mangled`. Symbols of `xla::ffi::Handler<…>`
    /// remain in a stripped library, and contain the types as template arguments.
    fn usage(&self, mangled: &str) -> Use {
        // The class of each handler has several constructors and destructors, so names are compared up to the
        // constructor's code. Only classes for the execute stage count, so that each handler counts once.
        let handlers: BTreeSet<&str> = self
            .facts
            .names
            .iter()
            .filter(|name| name.starts_with(library::CXX_HANDLER))
            .filter_map(|name| Some(&name[..name.rfind("C1E").or_else(|| name.rfind("D0Ev"))?]))
            .collect();
        let using: Vec<&&str> = handlers
            .iter()
            .filter(|name| name.contains(mangled))
            .collect();
        let Some(first) = using.first() else {
            return if handlers.is_empty() {
                Use::Unknown
            } else {
                Use::No
            };
        };
        let short: String = first.chars().take(80).collect();
        let why = format!(
            "{} of the {} C++ handlers in the library: symbol {short}…",
            using.len(),
            handlers.len()
        );
        if using.len() == handlers.len() {
            Use::Yes(why)
        } else {
            Use::Perhaps(why)
        }
    }
}

/// Adds a finding if the library is for a machine other than this one, because this explains other findings.
fn machine(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.machine.is_current() {
        return;
    }
    let others: Vec<String> = facts.others.iter().map(ToString::to_string).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        some => format!(" and {}", some.join(" and ")),
    };
    findings.push(
        Finding::failure(
            Problem::OtherMachine,
            format!("the library is built for {}{others}", facts.machine),
            format!(
                "this machine is {}, so the library was not run",
                library::here()
            ),
        )
        .about(Subject::Machine)
        .fix("run the doctor on that machine, or read only the file with --no-run"),
    );
}

/// Adds findings about a missing manifest, and about symbols that the manifest names but the library does not export.
fn exports(manifests: &[Manifest], facts: &Facts, findings: &mut Vec<Finding>) {
    for manifest in manifests {
        let stages = manifest.handlers.iter().flat_map(|handler| {
            handler.stages.iter().map(|(stage, symbol)| {
                let what = format!("the symbol {symbol} of its {stage} stage");
                (Subject::Handler(handler.name.clone()), what, symbol)
            })
        });
        let targets = manifest.legacy.iter().map(|target| {
            let (name, symbol) = (target.name.clone(), target.symbol.as_str());
            (
                Subject::Legacy(name),
                format!("its symbol {symbol}"),
                symbol,
            )
        });
        for (subject, what, symbol) in stages.chain(targets) {
            if !facts.exports.contains(symbol) {
                findings.push(
                    Finding::failure(
                        Problem::NotExported,
                        format!("{what} is not exported"),
                        "the manifest names it, but the dynamic symbol table does not have it",
                    )
                    .about(subject)
                    .fix("export the symbol in the linker's version script, and do not strip it"),
                );
            }
        }
        if let Some(register) = &manifest.register {
            if !facts.exports.contains(register) {
                findings.push(Finding::proved_risk(
                    Problem::NotExported,
                    format!("the registration function {register} is not exported"),
                    "the manifest names it, but the dynamic symbol table does not have it",
                ));
            }
        }
    }
    let is_empty = |manifest: &Manifest| manifest.handlers.is_empty() && manifest.legacy.is_empty();
    if manifests.iter().all(is_empty) {
        let has = match manifests {
            [] => "the library has no manifest",
            _ => "its manifest lists no handlers",
        };
        let candidates: Vec<&str> = facts
            .functions
            .iter()
            .map(String::as_str)
            .filter(|name| !name.starts_with('_'))
            .take(12)
            .collect();
        let exported = if candidates.is_empty() {
            "it exports no functions".to_owned()
        } else {
            format!("it exports {}", candidates.join(", "))
        };
        findings.push(
            Finding::unknown(
                Problem::UnknownHandlers,
                "its handlers are unknown",
                format!("{has}; {exported}"),
            )
            .fix("pass the handlers' symbols with --handler"),
        );
    }
}

/// Returns the revisions of the ABI whose structs are in the debug information.
fn compiled_with(bytes: &[u8], findings: &mut Vec<Finding>) -> Vec<Revision> {
    let units = match dwarf::read_library(bytes) {
        Ok(units) => units,
        Err(error) => {
            findings.push(Finding::unknown(
                Problem::Header,
                "the header that it was compiled with is unknown",
                error.to_string(),
            ));
            return Vec::new();
        }
    };
    let Ok(snapshots) = snapshot::all() else {
        return Vec::new();
    };
    let mut revisions: Vec<Revision> = Vec::new();
    let mut strange = 0;
    for unit in &units {
        let fitting: Vec<Revision> = snapshots
            .iter()
            .filter(|snapshot| snapshot.edition.header == Header::Main)
            .filter(|snapshot| fits(unit, &snapshot.abi, snapshots))
            .map(|snapshot| snapshot.edition.revision)
            .collect();
        strange += usize::from(fitting.is_empty());
        revisions.extend(fitting);
    }
    revisions.sort();
    revisions.dedup();
    if strange > 0 {
        findings.push(
            Finding::proved_risk(
                Problem::Header,
                format!("{strange} of its compilation units use layouts that no jaxlib shipped"),
                "debug information, compared with every known revision",
            )
            .fix("check the header with `xla-ffi abi check --header`"),
        );
    }
    if let (Some(first), Some(last)) = (revisions.first(), revisions.last()) {
        let range = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        findings.push(Finding::note(
            Problem::Header,
            format!("is compiled with layouts of {range}"),
            "debug information",
        ));
    }
    revisions
}

/// Returns true if every complete struct of a compilation unit matches the snapshot of a main header, or a snapshot of
/// an extension's header.
fn fits(unit: &Abi, snapshot: &Abi, snapshots: &[Snapshot]) -> bool {
    let is_extensions = |name: &str, layout: &Struct| {
        let mut others = snapshots
            .iter()
            .filter(|snapshot| snapshot.edition.header != Header::Main);
        others.any(|other| {
            let known = other.abi.structs.get(name);
            known.is_some_and(|known| known.size == layout.size && known.fields == layout.fields)
        })
    };
    let mut shared = 0;
    for (name, layout) in &unit.structs {
        match snapshot.structs.get(name) {
            Some(known) if known.size == layout.size && known.fields == layout.fields => {
                shared += 1;
            }
            Some(_) => return false,
            None if is_extensions(name, layout) => {}
            None if name.ends_with("_Args") || name == "XLA_FFI_TypeInfo" => return false,
            None => {}
        }
    }
    shared > 0
}
