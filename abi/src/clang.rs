//! Reads headers with libclang, in this process and without a time limit: a caller that reads headers it does not
//! trust does so in a process of its own.

mod types;

use crate::header::{Declared, Error, FLAT, PROBE, SUBJECT, Source, UNIT, put};
use crate::model::{Abi, FUNCTION, PREFIX};
use clang::diagnostic::Severity;
use clang::{Clang, Entity, EntityKind, EvaluationResult, Index, Linkage};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use types::{Budget, MOST, enum_layout, tag};

/// The library allows one instance a process at a time.
static LIBCLANG: Mutex<()> = Mutex::new(());

/// The wheel of libclang brings no headers of its own, and a hermetic parse is the better one: the
/// two that every `c_api.h` includes, in the words of the compiler's built-in macros.
const STDDEF: &str = "#pragma once
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#define NULL __null
#define offsetof(type, field) __builtin_offsetof(type, field)
";
const STDINT: &str = "#pragma once
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
";

impl Source {
    /// Reads the header's layouts with libclang.
    ///
    /// # Errors
    /// [`Error`] if libclang is missing or rejects the header, or if the header does not declare XLA's FFI.
    pub fn read(&self) -> Result<Abi, Error> {
        let folder = self.scratch()?;
        let mut found = read(self, folder.path())?;
        // Their values are enumerators of the translation unit, not of the header.
        found
            .own
            .extend(self.own_macros().into_iter().map(|(name, _)| name));
        let path = self.path().to_owned();
        let abi = found.subject(self.path())?;
        if abi.is_empty() {
            return Err(Error::Foreign { path });
        }
        Ok(abi)
    }
}

/// The folder of the headers that the system's compiler brings, `stdbool.h` for instance.
fn compiler_headers() -> Option<String> {
    let compilers = ["g++", "clang++", "c++"].map(str::to_owned);
    let mut compilers = std::env::var("CXX").ok().into_iter().chain(compilers);
    compilers.find_map(|compiler| {
        let mut words = compiler.split_whitespace();
        let mut command = Command::new(words.next()?);
        let said = command.args(words).arg("-print-file-name=include").output();
        let folder = String::from_utf8(said.ok()?.stdout).ok()?.trim().to_owned();
        Path::new(&folder).is_dir().then_some(folder)
    })
}

/// Reads the header whose translation unit is in `folder`.
fn read(source: &Source, folder: &Path) -> Result<Declared, Error> {
    let standard = folder.join("standard");
    std::fs::create_dir(&standard)?;
    std::fs::write(standard.join("stddef.h"), STDDEF)?;
    std::fs::write(standard.join("stdint.h"), STDINT)?;
    std::fs::write(standard.join("cstddef"), "#include <stddef.h>\n")?;
    std::fs::write(standard.join("cstdint"), "#include <stdint.h>\n")?;

    let _one = LIBCLANG.lock().unwrap_or_else(PoisonError::into_inner);
    let clang = Clang::new().map_err(|why| {
        let first = why.lines().next().unwrap_or_default();
        Error::Missing(first.to_owned())
    })?;
    let index = Index::new(&clang, false, false);
    let mut arguments = vec![
        "-xc++".to_owned(),
        "-std=c++17".to_owned(),
        "-w".to_owned(),
        "-ferror-limit=0".to_owned(),
        "-isystem".to_owned(),
        standard.display().to_string(),
    ];
    // Other headers of the language come from the system's compiler, if there is one.
    if source.includes_more() {
        if let Some(folder) = compiler_headers() {
            arguments.extend(["-isystem".to_owned(), folder]);
        }
    }
    for define in source.defines() {
        arguments.push(format!("-D{define}"));
    }
    for include in source.includes() {
        arguments.push(format!("-I{}", include.display()));
    }
    arguments.push(format!("-I{}", folder.join(FLAT).display()));
    let unit = index
        .parser(folder.join(UNIT))
        .arguments(&arguments)
        .skip_function_bodies(true)
        .parse()
        .map_err(|error| Error::Parse {
            path: source.path().to_owned(),
            messages: error.to_string(),
        })?;
    let (mut messages, mut not_numbers) = (Vec::new(), Vec::new());
    for diagnostic in unit.get_diagnostics() {
        if diagnostic.get_severity() < Severity::Error {
            continue;
        }
        let place = diagnostic.get_location().get_presumed_location();
        let expanded = diagnostic.get_location().get_expansion_location();
        let in_unit = expanded
            .file
            .is_some_and(|file| file.get_path().ends_with(UNIT));
        match source.probe_at(expanded.line).filter(|_| in_unit) {
            Some(name) => not_numbers.push(name),
            None => {
                let file = match place.0.ends_with(SUBJECT) {
                    true => source.path().display().to_string(),
                    false => place.0,
                };
                let text = diagnostic.get_text();
                messages.push(format!("  {file}:{}:{}: {text}", place.1, place.2));
            }
        }
    }
    messages.truncate(10);
    if !messages.is_empty() {
        return Err(Error::Parse {
            path: source.path().to_owned(),
            messages: messages.join("\n"),
        });
    }
    let mut found = Declared::default();
    let budget = Budget {
        left: Cell::new(MOST),
        too_deep: Cell::new(false),
    };
    declarations(unit.get_entity(), &budget, &mut found);
    for name in not_numbers {
        found.abi.constants.remove(&name);
    }
    // Those of a copy in a namespace are other symbols anyway.
    if !source.namespaces().is_empty() {
        found.abi.links.clear();
    }
    if budget.too_deep.get() {
        return Err(Error::Deep);
    }
    if budget.left.get() == 0 {
        return Err(Error::Endless {
            path: source.path().to_owned(),
        });
    }
    Ok(found)
}

fn declarations(parent: Entity<'_>, budget: &Budget, found: &mut Declared) {
    for entity in parent.get_children() {
        match entity.get_kind() {
            // `extern "C" { … }`, under the name that the version of libclang gives it.
            EntityKind::LinkageSpec | EntityKind::UnexposedDecl | EntityKind::Namespace => {
                declarations(entity, budget, found);
            }
            EntityKind::EnumDecl => enumeration(entity, found),
            EntityKind::StructDecl | EntityKind::ClassDecl | EntityKind::UnionDecl => {
                record(entity, budget, found);
                // In C what is declared within is as much the header's as what stands before.
                declarations(entity, budget, found);
            }
            EntityKind::TypedefDecl | EntityKind::TypeAliasDecl => typedef(entity, budget, found),
            EntityKind::FunctionDecl => prototype(entity, budget, found),
            EntityKind::VarDecl => variable(entity, budget, found),
            _ => {}
        }
    }
}

/// Whether the declaration stands in the header itself, macros of it included.
fn is_in_subject(entity: Entity<'_>) -> bool {
    entity
        .get_location()
        .and_then(|location| location.get_expansion_location().file)
        .is_some_and(|file| file.get_path().ends_with(SUBJECT))
}

/// Notes a name that the header declares itself, and not what it includes.
fn note(name: &str, entity: Entity<'_>, found: &mut Declared) {
    if is_in_subject(entity) {
        found.own.insert(name.to_owned());
    }
}

fn record(entity: Entity<'_>, budget: &Budget, found: &mut Declared) {
    let Some((ty, name)) = entity
        .get_type()
        .and_then(|ty| Some((ty, tag(ty)?)))
        .filter(|(_, name)| name.starts_with(PREFIX))
    else {
        return;
    };
    if !entity.is_definition() {
        return;
    }
    let layout = budget.layout(ty, 0);
    note(&name, entity, found);
    put(&mut found.abi.structs, &mut found.twice, name, layout);
}

fn enumeration(entity: Entity<'_>, found: &mut Declared) {
    let Some(ty) = entity.get_type() else { return };
    let in_subject = is_in_subject(entity);
    match tag(ty) {
        Some(name) if name.starts_with(PREFIX) => {
            // Without its values it still has a size.
            if !entity.is_definition() && entity.get_definition().is_some() {
                return;
            }
            let layout = enum_layout(ty, entity);
            note(&name, entity, found);
            put(&mut found.abi.enums, &mut found.twice, name, layout);
        }
        Some(_) => {}
        None => {
            for (name, value) in enum_layout(ty, entity).values {
                if let Some(name) = name.strip_prefix(PROBE) {
                    found.abi.constants.insert(name.to_owned(), value);
                } else if name.starts_with(PREFIX) {
                    if in_subject {
                        found.own.insert(name.clone());
                    }
                    put(&mut found.abi.constants, &mut found.twice, name, value);
                }
            }
        }
    }
}

fn typedef(entity: Entity<'_>, budget: &Budget, found: &mut Declared) {
    let (Some(name), Some(ty)) = (entity.get_name(), entity.get_typedef_underlying_type()) else {
        return;
    };
    if !name.starts_with(PREFIX) {
        return;
    }
    let target = budget.spell_held(ty, 0);
    note(&name, entity, found);
    let Declared { abi, twice, .. } = found;
    if target == name {
        // Behind a name that is only declared stands no size.
        if ty.get_canonical_type().get_sizeof().is_err() {
            abi.opaque.insert(name);
        }
    } else if let Some(signature) = target.strip_prefix(FUNCTION) {
        put(&mut abi.functions, twice, name, signature.to_owned());
    } else {
        put(&mut abi.aliases, twice, name, target);
    }
}

/// A function that others have; what a header defines itself is nobody's interface.
fn prototype(entity: Entity<'_>, budget: &Budget, found: &mut Declared) {
    let named = entity.get_name().filter(|name| name.starts_with(PREFIX));
    let (Some(name), Some(ty)) = (named, entity.get_type()) else {
        return;
    };
    let is_own = entity.is_definition() || entity.is_inline_function();
    if is_own || entity.get_linkage() != Some(Linkage::External) {
        return;
    }
    note(&name, entity, found);
    if let Some(signature) = budget.spell(ty, 0).strip_prefix(FUNCTION) {
        let (all, twice) = (&mut found.abi.prototypes, &mut found.twice);
        link(&name, entity, &mut found.abi.links);
        put(all, twice, name, signature.to_owned());
    }
}

/// Notes the symbol that something is linked to, where that is not its name: with `asm("other")`, or without `extern "C"`.
fn link(name: &str, entity: Entity<'_>, links: &mut BTreeMap<String, String>) {
    let Some(symbol) = entity.get_mangled_name() else {
        return;
    };
    // What an assembler is to take as it stands begins so.
    let symbol = symbol.trim_start_matches('\u{1}');
    // Some platforms put a line before all of C's.
    if symbol != name && symbol.strip_prefix('_') != Some(name) {
        links.insert(name.to_owned(), symbol.to_owned());
    }
}

/// A variable that others have, or a number under the name of a constant.
fn variable(entity: Entity<'_>, budget: &Budget, found: &mut Declared) {
    let named = entity.get_name().filter(|name| name.starts_with(PREFIX));
    let (Some(name), Some(ty)) = (named, entity.get_type()) else {
        return;
    };
    note(&name, entity, found);
    if !entity.is_definition() && entity.get_linkage() == Some(Linkage::External) {
        link(&name, entity, &mut found.abi.links);
        let (all, twice) = (&mut found.abi.variables, &mut found.twice);
        put(all, twice, name, budget.spell_held(ty, 0));
    } else if ty.get_canonical_type().is_const_qualified() {
        let value = match entity.evaluate() {
            Some(EvaluationResult::SignedInteger(value)) => Some(value),
            Some(EvaluationResult::UnsignedInteger(value)) => Some(value as i64),
            _ => None,
        };
        if let Some(value) = value {
            put(&mut found.abi.constants, &mut found.twice, name, value);
        }
    }
}
