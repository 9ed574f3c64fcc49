//! Reads headers with libclang, in the calling process and without a time limit.
//!
//! Headers from untrusted sources can crash or hang libclang, so read them in a child process.

mod types;

use crate::header::{Declared, Error, FLAT, Language, PROBE, Places, SUBJECT, Source, UNIT, put};
use crate::model::{Abi, FUNCTION, PREFIX, function_of};
use clang::diagnostic::Severity;
use clang::{Clang, Entity, EntityKind, EvaluationResult, Index, Linkage};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use types::{MOST, Types, scope};

/// A lock that allows only one instance of libclang at a time, as libclang requires.
static LIBCLANG: Mutex<()> = Mutex::new(());

/// This project's `<stddef.h>`, which every `c_api.h` includes. It uses only macros built into the compiler, so results
/// do not depend on installed headers.
const STDDEF: &str = "#pragma once
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifdef __cplusplus
#define NULL __null
#else
#define NULL ((void*)0)
#endif
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
typedef __INTMAX_TYPE__ intmax_t;
typedef __UINTMAX_TYPE__ uintmax_t;
#define INT8_MAX __INT8_MAX__
#define INT8_MIN (-__INT8_MAX__ - 1)
#define UINT8_MAX __UINT8_MAX__
#define INT16_MAX __INT16_MAX__
#define INT16_MIN (-__INT16_MAX__ - 1)
#define UINT16_MAX __UINT16_MAX__
#define INT32_MAX __INT32_MAX__
#define INT32_MIN (-__INT32_MAX__ - 1)
#define UINT32_MAX __UINT32_MAX__
#define INT64_MAX __INT64_MAX__
#define INT64_MIN (-__INT64_MAX__ - 1)
#define UINT64_MAX __UINT64_MAX__
#define INTPTR_MAX __INTPTR_MAX__
#define UINTPTR_MAX __UINTPTR_MAX__
#define PTRDIFF_MAX __PTRDIFF_MAX__
#define SIZE_MAX __SIZE_MAX__
#define INT64_C(number) number##LL
#define UINT64_C(number) number##ULL
";

const STDARG: &str = "#pragma once
typedef __builtin_va_list va_list;
#define va_start(list, last) __builtin_va_start(list, last)
#define va_end(list) __builtin_va_end(list)
#define va_arg(list, type) __builtin_va_arg(list, type)
#define va_copy(to, from) __builtin_va_copy(to, from)
";
const STDBOOL: &str = "#pragma once
#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
";
const LIMITS: &str = "#pragma once
#define CHAR_BIT __CHAR_BIT__
#define SCHAR_MAX __SCHAR_MAX__
#define SCHAR_MIN (-__SCHAR_MAX__ - 1)
#define UCHAR_MAX (__SCHAR_MAX__ * 2 + 1)
#define SHRT_MAX __SHRT_MAX__
#define SHRT_MIN (-__SHRT_MAX__ - 1)
#define USHRT_MAX (__SHRT_MAX__ * 2 + 1)
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1L)
#define ULONG_MAX (__LONG_MAX__ * 2UL + 1UL)
#define LLONG_MAX __LONG_LONG_MAX__
#define LLONG_MIN (-__LONG_LONG_MAX__ - 1LL)
#define ULLONG_MAX (__LONG_LONG_MAX__ * 2ULL + 1ULL)
";

/// Standard headers that libclang's wheel lacks. The headers in `freestanding` are used only if no compiler is
/// installed.
const HEADERS: [(&str, &str); 7] = [
    ("standard/stddef.h", STDDEF),
    ("standard/stdint.h", STDINT),
    ("standard/cstddef", "#include <stddef.h>\n"),
    ("standard/cstdint", "#include <stdint.h>\n"),
    ("freestanding/stdarg.h", STDARG),
    ("freestanding/stdbool.h", STDBOOL),
    ("freestanding/limits.h", LIMITS),
];

impl Source {
    /// Reads the header's layouts with libclang.
    ///
    /// # Errors
    /// [`Error`] if libclang is missing or rejects the header, or if the header does not declare XLA's FFI.
    pub fn read(&self) -> Result<Abi, Error> {
        Ok(self.read_with_places()?.0)
    }

    /// Reads the header's layouts, and the names and lines of its declarations.
    ///
    /// # Errors
    /// [`Error`] under the same conditions as for [`Source::read`].
    pub fn read_with_places(&self) -> Result<(Abi, Places), Error> {
        let folder = self.scratch()?;
        let mut found = read(self, folder.path())?;
        // The values of the header's macros are read as enumerators of the translation unit. The names of the macros
        // are therefore added to the names that the header declares.
        found
            .own
            .extend(self.own_macros().into_iter().map(|(name, _)| name));
        let path = self.path().to_owned();
        let places = std::mem::take(&mut found.places);
        let abi = found.subject(self.path())?;
        if abi.is_empty() {
            return Err(Error::Foreign { path });
        }
        Ok((abi, places))
    }
}

/// Returns the folder with the headers of the system's compiler, such as `stdbool.h`; `None` without a compiler.
fn compiler_headers() -> Option<&'static str> {
    static FOLDER: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let compilers = ["g++", "clang++", "c++"].map(str::to_owned);
        let mut compilers = std::env::var("CXX").ok().into_iter().chain(compilers);
        compilers.find_map(|compiler| {
            let mut words = compiler.split_whitespace();
            let mut command = Command::new(words.next()?);
            let said = command.args(words).arg("-print-file-name=include").output();
            let folder = String::from_utf8(said.ok()?.stdout).ok()?.trim().to_owned();
            Path::new(&folder).is_dir().then_some(folder)
        })
    };
    FOLDER.get_or_init(find).as_deref()
}

/// Reads the header by parsing the translation unit in `folder`.
fn read(source: &Source, folder: &Path) -> Result<Declared, Error> {
    let [standard, freestanding] = ["standard", "freestanding"].map(|name| folder.join(name));
    std::fs::create_dir(&standard)?;
    std::fs::create_dir(&freestanding)?;
    for (name, text) in HEADERS {
        std::fs::write(folder.join(name), text)?;
    }

    let _one = LIBCLANG.lock().unwrap_or_else(PoisonError::into_inner);
    let clang = Clang::new().map_err(|why| {
        let first = why.lines().next().unwrap_or_default();
        Error::Missing(first.to_owned())
    })?;
    let index = Index::new(&clang, false, false);
    let [language, standard_of] = match source.spoken() {
        Language::C => ["-xc", "-std=c11"],
        Language::Cpp => ["-xc++", "-std=c++17"],
    };
    let mut arguments = vec![
        language.to_owned(),
        standard_of.to_owned(),
        "-w".to_owned(),
        "-ferror-limit=0".to_owned(),
        "-isystem".to_owned(),
        standard.display().to_string(),
        "-idirafter".to_owned(),
        freestanding.display().to_string(),
    ];
    // If a compiler is installed, standard headers that this project does not provide are read from the compiler's
    // folder.
    if let Some(folder) = compiler_headers() {
        arguments.extend(["-isystem".to_owned(), folder.to_owned()]);
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
            language: source.spoken(),
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
            language: source.spoken(),
            messages: messages.join("\n"),
        });
    }
    let mut found = Declared {
        places: source.places(),
        ..Declared::default()
    };
    let types = Types {
        source,
        left: Cell::new(MOST),
        too_deep: Cell::new(false),
    };
    declarations(unit.get_entity(), &types, &mut found);
    for name in not_numbers {
        found.abi.constants.remove(&name);
    }
    if types.too_deep.get() {
        return Err(Error::Deep);
    }
    if types.left.get() == 0 {
        return Err(Error::Endless {
            path: source.path().to_owned(),
        });
    }
    Ok(found)
}

fn declarations(parent: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    for entity in parent.get_children() {
        match entity.get_kind() {
            // Blocks `extern "C" { … }` have one of the first two kinds, depending on the version of libclang.
            EntityKind::LinkageSpec | EntityKind::UnexposedDecl | EntityKind::Namespace => {
                declarations(entity, types, found);
            }
            EntityKind::EnumDecl => enumeration(entity, types, found),
            EntityKind::StructDecl | EntityKind::ClassDecl | EntityKind::UnionDecl => {
                record(entity, types, found);
                // In C, declarations nested in a struct have file scope.
                declarations(entity, types, found);
            }
            EntityKind::TypedefDecl | EntityKind::TypeAliasDecl => typedef(entity, types, found),
            EntityKind::FunctionDecl => prototype(entity, types, found),
            EntityKind::VarDecl => variable(entity, types, found),
            _ => {}
        }
    }
}

/// Records the line of a declaration and its name as written in the header or in an included file.
fn note(name: &str, entity: Entity<'_>, found: &mut Declared) {
    // The line of a declaration that a macro expands to is the line of the expansion.
    let place = entity
        .get_location()
        .map(|one| one.get_expansion_location());
    let file = place.and_then(|place| place.file);
    let is_own = file.is_some_and(|file| file.get_path().ends_with(SUBJECT));
    let line = place.map(|place| place.line).filter(|_| is_own);
    let written = entity.get_name().unwrap_or_default();
    found.places.note(name.to_owned(), &written, line);
    if is_own && !name.contains('.') {
        found.own.insert(name.to_owned());
    }
}

/// Records the lines of the fields of a struct or union, including the fields of unnamed structs and unions in it.
fn note_fields(name: &str, record: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    for child in record.get_children() {
        match (child.get_kind(), child.get_name()) {
            (EntityKind::FieldDecl, Some(field)) => {
                let field = types.source.upstream_field(&field);
                note(&format!("{name}.{field}"), child, found);
            }
            (EntityKind::UnionDecl | EntityKind::StructDecl, _) => {
                note_fields(name, child, types, found);
            }
            _ => {}
        }
    }
}

fn record(entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let tagged = entity.get_type().and_then(|ty| Some((ty, types.tag(ty)?)));
    let is_ours = |name: &String| name.starts_with(PREFIX) && entity.is_definition();
    let Some((ty, name)) = tagged.filter(|(_, name)| is_ours(name)) else {
        return;
    };
    let layout = types.layout(ty, 0);
    note(&name, entity, found);
    note_fields(&name, entity, types, found);
    put(&mut found.abi.structs, &mut found.twice, name, layout);
}

fn enumeration(entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let Some(ty) = entity.get_type() else { return };
    let owner = types.tag(ty);
    // An enumeration without a definition has a size, so its declaration is recorded unless a definition follows.
    if owner.is_some() && !entity.is_definition() && entity.get_definition().is_some() {
        return;
    }
    let layout = types.enum_layout(ty, entity);
    let values = entity.get_children().into_iter();
    let values = values.filter_map(|one| Some((one, types.upstream(one, one.get_name()?))));
    match owner {
        Some(name) if name.starts_with(PREFIX) => {
            note(&name, entity, found);
            for (one, value) in values {
                note(&format!("{name}.{value}"), one, found);
                // Types and messages use the names of enumerators without the enumeration, so these names are also
                // recorded.
                found
                    .places
                    .note(value, &one.get_name().unwrap_or_default(), None);
            }
            put(&mut found.abi.enums, &mut found.twice, name, layout);
        }
        Some(_) => {}
        None => {
            for (one, name) in values {
                let Some(value) = layout.values.get(&name).copied() else {
                    continue;
                };
                if let Some(name) = name.strip_prefix(PROBE) {
                    found.abi.constants.insert(name.to_owned(), value);
                } else if name.starts_with(PREFIX) {
                    note(&name, one, found);
                    put(&mut found.abi.constants, &mut found.twice, name, value);
                }
            }
        }
    }
}

/// Returns upstream's name of a declaration; `None` if it does not belong to the FFI.
fn own(entity: Entity<'_>, types: &Types<'_>) -> Option<String> {
    let name = types.upstream(entity, entity.get_name()?);
    name.starts_with(PREFIX).then_some(name)
}

fn typedef(entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let (Some(name), Some(ty)) = (own(entity, types), entity.get_typedef_underlying_type()) else {
        return;
    };
    let target = types.spell_held(ty, 0);
    note(&name, entity, found);
    let Declared { abi, twice, .. } = found;
    if target == name {
        // A type without a size is only declared, so it is opaque.
        if ty.get_canonical_type().get_sizeof().is_err() {
            abi.opaque.insert(name);
        }
    } else if let Some(signature) = function_of(&target) {
        put(&mut abi.functions, twice, name, signature.to_owned());
    } else {
        put(&mut abi.aliases, twice, name, target);
    }
}

/// Records a function that is declared for linking. Functions that the header itself defines are not part of the ABI.
fn prototype(entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let (Some(name), Some(ty)) = (own(entity, types), entity.get_type()) else {
        return;
    };
    let is_own = entity.is_definition() || entity.is_inline_function();
    if is_own || entity.get_linkage() != Some(Linkage::External) {
        return;
    }
    note(&name, entity, found);
    if let Some(signature) = types.spell(ty, 0).strip_prefix(FUNCTION) {
        link(&name, entity, types, found);
        let (all, twice) = (&mut found.abi.prototypes, &mut found.twice);
        put(all, twice, name, signature.to_owned());
    }
}

/// Records the symbol of a function or variable if it differs from the C name, because of `asm("other")` or a missing
/// `extern "C"`.
fn link(name: &str, entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let (Some(symbol), Some(own)) = (entity.get_mangled_name(), entity.get_name()) else {
        return;
    };
    // libclang puts the character U+0001 before symbols that are set with `asm`.
    let symbol = symbol.trim_start_matches('\u{1}');
    // On some platforms, all C symbols start with an additional underscore. Symbols in the namespace of a copied header
    // always differ from their names, so they are not recorded.
    let is_own = symbol == own || symbol.strip_prefix('_') == Some(&own);
    if !is_own && !types.source.is_namespace(&scope(entity)) {
        let links = &mut found.abi.links;
        links.insert(name.to_owned(), symbol.to_owned());
    }
}

/// Records a variable that is declared for linking, or the value of a constant.
fn variable(entity: Entity<'_>, types: &Types<'_>, found: &mut Declared) {
    let (Some(name), Some(ty)) = (own(entity, types), entity.get_type()) else {
        return;
    };
    note(&name, entity, found);
    if !entity.is_definition() && entity.get_linkage() == Some(Linkage::External) {
        link(&name, entity, types, found);
        let (all, twice) = (&mut found.abi.variables, &mut found.twice);
        put(all, twice, name, types.spell_held(ty, 0));
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
