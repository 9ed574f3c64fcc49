//! What reading a library's file tells. Nothing is run: asking handlers for metadata runs them, so it
//! is the caller's work, in a child process; [`Answer`](crate::Answer) brings the outcome here.

use crate::candidate::{Candidate, Use};
use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::library::{self, Facts, Surroundings};
use crate::link;
use crate::manifest::{self, Manifest};
use crate::release;
use crate::{description, exported, threads};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xla_ffi_abi::model::{Abi, Header, Struct};
use xla_ffi_abi::snapshot::Snapshot;
use xla_ffi_abi::{dwarf, snapshot};
use xla_ffi_sys::Revision;

/// What reading the file tells.
#[derive(Debug)]
pub struct Examination {
    /// The file.
    pub path: PathBuf,
    /// The facts of the file.
    pub facts: Facts,
    /// Its manifests.
    pub manifests: Vec<Manifest>,
    /// The revisions whose header it was compiled with, as its debug information shows.
    pub compiled_with: Vec<Revision>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Reads the library at `path` without running it.
    ///
    /// # Errors
    /// [`library::Error`] when the file is no library.
    pub fn of(path: &Path) -> Result<Self, library::Error> {
        Self::of_bytes(path, &library::bytes(path)?)
    }

    /// The same for the bytes of a file that lies, or would, at `path`: what it needs is looked for from there.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_bytes(path: &Path, whole: &[u8]) -> Result<Self, library::Error> {
        let parts = library::parts(path, whole)?;
        let facts = library::read_parts(path, &parts)?;
        let mut findings = Vec::new();
        machine(&facts, &mut findings);
        let surroundings = Surroundings::of(path, &facts);
        link::findings(path, &facts, &surroundings, &mut findings);
        // `read_parts` has refused a file without one.
        let bytes = parts.first().map_or(whole, |part| part.bytes);
        let manifests = match manifest::read(bytes) {
            Ok(manifests) => manifests,
            Err(error) => {
                findings.push(
                    Finding::failure(
                        Problem::Manifest,
                        "its manifest cannot be read",
                        error.to_string(),
                    )
                    .fix("build the library again; a loader that reads manifests refuses this one"),
                );
                Vec::new()
            }
        };
        exports(&manifests, &facts, &mut findings);
        description::findings(&manifests, &mut findings);
        exported::findings(&manifests, &facts, &mut findings);
        threads::findings(&facts, bytes, &mut findings);
        let compiled_with = compiled_with(bytes, &mut findings);
        Ok(Self {
            path: path.to_owned(),
            facts,
            manifests,
            compiled_with,
            findings,
        })
    }

    /// Adds what its glibc means for the releases that it is to run with.
    pub fn judge_glibc(&mut self, versions: &[&str]) {
        let floor = self.facts.floor("GLIBC_");
        let finding = floor.and_then(|floor| release::about_glibc(&floor, versions));
        self.findings.extend(finding);
    }

    /// Adds what user data that its handlers take means for the releases that they are to run with.
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

    /// The handlers that the manifest names, and those that the user names: each with the symbols
    /// of its stages.
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

    /// One handler, by its name in the manifest or by the symbols of its stages.
    #[must_use]
    pub fn candidate(&self, name: &str, stages: &[(String, String)]) -> Candidate {
        match self.declared().find(|handler| handler.name == name) {
            Some(handler) => self.described(handler),
            None => self.undescribed(name, stages.to_vec()),
        }
    }

    /// A handler as its manifest describes it. Of one that it does not describe nothing but the stages is known: what
    /// it does not say there it does not deny.
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
                Some(state) => Use::Yes(format!("the manifest names its type, {}", state.ty)),
                None => Use::No,
            },
            future: if handler.is_async {
                Use::Yes("the manifest says async".to_owned())
            } else {
                Use::No
            },
            // Its own registration is part of what it answers.
            has_types: true,
            ..undescribed
        }
    }

    /// A handler of which nothing but its symbols is known.
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

    /// Whether handlers made with the C++ headers use a type, told by the types of their
    /// `xla::ffi::Handler<…>`, whose functions stay visible in a stripped library.
    fn usage(&self, mangled: &str) -> Use {
        // Constructors and destructors of one type count once; other stages have no such context.
        let handlers: BTreeSet<&str> = self
            .facts
            .names
            .iter()
            .filter(|name| name.starts_with("_ZN3xla3ffi7HandlerILNS0_14ExecutionStageE3E"))
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

/// That it is for another machine, which explains whatever else does not work here.
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
            format!("it is built for {}{others}", facts.machine),
            format!(
                "this machine is {}: nothing of it runs here",
                library::here()
            ),
        )
        .about(Subject::Machine)
        .fix("judge it where it runs; --no-run judges its file alone"),
    );
}

/// Symbols that the manifest names and the library does not export; handlers without a manifest.
fn exports(manifests: &[Manifest], facts: &Facts, findings: &mut Vec<Finding>) {
    for manifest in manifests {
        let stages = manifest.handlers.iter().flat_map(|handler| {
            handler.stages.iter().map(|(stage, symbol)| {
                let what = format!("stage {stage} names the symbol {symbol}, which");
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
                        "the manifest and the dynamic symbol table disagree",
                    )
                    .about(subject)
                    .fix("do not strip exported symbols; check the linker's version script"),
                );
            }
        }
        if let Some(register) = &manifest.register {
            if !facts.exports.contains(register) {
                findings.push(Finding::new(
                    Confidence::Proved,
                    Severity::Risk,
                    Problem::NotExported,
                    format!("the registration entry point {register} is not exported"),
                    "the manifest and the dynamic symbol table disagree",
                ));
            }
        }
    }
    let is_empty = |manifest: &Manifest| manifest.handlers.is_empty() && manifest.legacy.is_empty();
    if manifests.iter().all(is_empty) {
        let has = match manifests {
            [] => "it has no manifest",
            _ => "its manifest lists none",
        };
        let candidates: Vec<&str> = facts
            .functions
            .iter()
            .map(String::as_str)
            .filter(|name| !name.starts_with('_'))
            .take(12)
            .collect();
        let exported = if candidates.is_empty() {
            "it exports no function that could be one".to_owned()
        } else {
            format!("it exports {}", candidates.join(", "))
        };
        findings.push(
            Finding::new(
                Confidence::Unknown,
                Severity::Note,
                Problem::UnknownHandlers,
                "which of its functions are handlers",
                format!("{has}; {exported}"),
            )
            .fix("name handlers with --handler SYMBOL; they are then asked for their metadata"),
        );
    }
}

/// The revisions whose structs the debug information shows.
fn compiled_with(bytes: &[u8], findings: &mut Vec<Finding>) -> Vec<Revision> {
    let units = match dwarf::read_library(bytes) {
        Ok(units) => units,
        Err(error) => {
            findings.push(Finding::new(
                Confidence::Unknown,
                Severity::Note,
                Problem::Header,
                "which header it was compiled with",
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
            Finding::new(
                Confidence::Proved,
                Severity::Risk,
                Problem::Header,
                format!("{strange} of its compilation units know layouts that no jaxlib shipped"),
                "its debug information, compared with every known revision",
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
            format!("compiled with layouts of {range}"),
            "its debug information",
        ));
    }
    revisions
}

/// Whether every complete struct of the main header that a unit knows is as in the snapshot, and every one of an
/// extension's header as in one of its editions.
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
            // A struct of a later revision, or another layout of this one.
            Some(_) => return false,
            None if is_extensions(name, layout) => {}
            None if name.ends_with("_Args") || name == "XLA_FFI_TypeInfo" => return false,
            None => {}
        }
    }
    shared > 0
}
