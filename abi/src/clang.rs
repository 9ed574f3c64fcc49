//! The second witness: a header as libclang sees it.
//!
//! libclang is asked directly instead of through bindgen: bindgen answers in Rust source, which
//! has lost what the model keeps (that an enumeration is one, function types, enumerators without
//! a named enumeration such as STRUCT_SIZE, which file a declaration stands in) and would have to
//! be parsed again. Both load the same library at run time, so nothing is lost in reach.

use crate::compile;
use crate::header::{Declared, Error, FLAT, PROBE, SUBJECT, Source};
use crate::model::{
    CALLED, Enum, FUNCTION, Field, PREFIX, Struct, bit_field, function, integer, pointer_to,
    qualified, with_fields, with_values,
};
use clang::diagnostic::Severity;
use clang::{CallingConvention, Clang, Entity, EntityKind, Index, Linkage, Type, TypeKind};
use std::cell::Cell;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The library allows one instance a process at a time.
static ONE: Mutex<()> = Mutex::new(());

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

/// Reads the header whose translation unit lies in `folder`.
pub(crate) fn read(source: &Source, folder: &Path) -> Result<Declared, Error> {
    let standard = folder.join("standard");
    std::fs::create_dir(&standard)?;
    std::fs::write(standard.join("stddef.h"), STDDEF)?;
    std::fs::write(standard.join("stdint.h"), STDINT)?;
    std::fs::write(standard.join("cstddef"), "#include <stddef.h>\n")?;
    std::fs::write(standard.join("cstdint"), "#include <stdint.h>\n")?;

    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clang = Clang::new().map_err(|why| {
        let first = why.lines().next().unwrap_or_default();
        Error::Missing(format!("libclang is not there ({first})"))
    })?;
    let index = Index::new(&clang, false, false);
    let mut arguments = vec![
        "-xc++".to_owned(),
        "-std=c++17".to_owned(),
        "-w".to_owned(),
        "-ferror-limit=20".to_owned(),
        "-isystem".to_owned(),
        standard.display().to_string(),
    ];
    // Other headers of the language are the compiler's, where there is one.
    if source.includes_more() {
        if let Some(folder) = compile::own_headers() {
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
        .parser(folder.join("unit.cc"))
        .arguments(&arguments)
        .skip_function_bodies(true)
        .parse()
        .map_err(|error| Error::Parse {
            path: source.path().to_owned(),
            messages: error.to_string(),
        })?;
    let messages: Vec<String> = unit
        .get_diagnostics()
        .iter()
        .filter(|diagnostic| diagnostic.get_severity() >= Severity::Error)
        .take(10)
        .map(|diagnostic| {
            let place = diagnostic.get_location().get_presumed_location();
            let file = if place.0.ends_with(SUBJECT) {
                source.path().display().to_string()
            } else {
                place.0
            };
            format!(
                "  {file}:{}:{}: {}",
                place.1,
                place.2,
                diagnostic.get_text()
            )
        })
        .collect();
    if !messages.is_empty() {
        return Err(Error::Parse {
            path: source.path().to_owned(),
            messages: messages.join("\n"),
        });
    }
    let mut found = Declared::default();
    let budget = Budget(Cell::new(MOST));
    declarations(unit.get_entity(), &budget, &mut found);
    if budget.0.get() == 0 {
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
            }
            EntityKind::TypedefDecl | EntityKind::TypeAliasDecl => typedef(entity, budget, found),
            EntityKind::FunctionDecl => prototype(entity, budget, found),
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

/// The name of a record or enumeration; `None` for those that have none.
fn tag(ty: Type<'_>) -> Option<String> {
    let name = ty.get_display_name();
    let name = ["const ", "volatile ", "struct ", "union ", "enum "]
        .iter()
        .fold(name.as_str(), |name, word| {
            name.strip_prefix(word).unwrap_or(name)
        });
    // A copy may stand in a namespace.
    let plain = name.rsplit("::").next().unwrap_or(name);
    (!name.contains(['(', ' '])).then(|| plain.to_owned())
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
    let mut layout = Struct {
        size: size_of(ty),
        align: ty.get_alignof().unwrap_or(0) as u64,
        ..Struct::default()
    };
    budget.fields(ty, 0, 0, &mut layout.fields);
    note(&name, entity, found);
    found.abi.structs.insert(name, layout);
}

/// How deep types are followed.
const DEPTH: usize = 32;

fn size_of(ty: Type<'_>) -> u64 {
    ty.get_sizeof().unwrap_or(0) as u64
}

fn enumeration(entity: Entity<'_>, found: &mut Declared) {
    let Some(ty) = entity.get_type() else { return };
    let in_subject = is_in_subject(entity);
    let values = entity.get_children().into_iter().filter_map(|child| {
        let (signed, _) = child.get_enum_constant_value()?;
        Some((child.get_name()?, signed))
    });
    match tag(ty) {
        Some(name) if name.starts_with(PREFIX) && entity.is_definition() => {
            let values = values.collect();
            let size = size_of(ty);
            note(&name, entity, found);
            found.abi.enums.insert(name, Enum { size, values });
        }
        Some(_) => {}
        None => {
            for (name, value) in values {
                if let Some(name) = name.strip_prefix(PROBE) {
                    found.abi.constants.insert(name.to_owned(), value);
                } else if name.starts_with(PREFIX) {
                    if in_subject {
                        found.own.insert(name.clone());
                    }
                    found.abi.constants.insert(name, value);
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
    let target = budget.spell(ty, 0);
    note(&name, entity, found);
    let abi = &mut found.abi;
    if target == name {
        // Behind a name that is only declared stands no size.
        if ty.get_canonical_type().get_sizeof().is_err() {
            abi.opaque.insert(name);
        }
    } else if let Some(signature) = target.strip_prefix(FUNCTION) {
        abi.functions.insert(name, signature.to_owned());
    } else {
        abi.aliases.insert(name, target);
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
        found.abi.prototypes.insert(name, signature.to_owned());
    }
}

/// How many types may be told of one header: what each of two fields holds holds two of the next, or what a function takes
/// takes functions, so that a kilobyte has billions.
const MOST: usize = 1 << 16;

/// How many may still be.
struct Budget(Cell<usize>);

impl Budget {
    fn spend(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() > 0
    }

    /// The fields of a record that begins at bit `start` of the one that is read. Those of a union or a struct without a name
    /// are the holder's, as in C; bits without a name are a hole.
    fn fields(&self, ty: Type<'_>, start: u64, depth: usize, found: &mut Vec<Field>) {
        if !self.spend() {
            return;
        }
        // The type knows fields that are no entities below its declaration.
        for child in ty.get_canonical_type().get_fields().unwrap_or_default() {
            let Some(field_type) = child.get_type() else {
                continue;
            };
            let bits = start.saturating_add(child.get_offset_of_field().unwrap_or(0) as u64);
            let width = child.get_bit_field_width();
            // libclang tells the place of what has no name.
            let name = child.get_name().filter(|name| !name.contains('('));
            match name.filter(|name| !name.is_empty()) {
                Some(name) => {
                    let mut spelled = self.spell_held(field_type, depth);
                    if let Some(width) = width {
                        spelled = bit_field(spelled, size_of(field_type), width as u64, bits);
                    }
                    found.push(Field {
                        name,
                        ty: spelled,
                        offset: bits / 8,
                        size: size_of(field_type),
                    });
                }
                None if width.is_none() && depth < DEPTH => {
                    self.fields(field_type, bits, depth + 1, found);
                }
                None => {}
            }
        }
    }

    /// A type of which a value is held, with what is in it where the model has no struct or enumeration of its name.
    fn spell_held(&self, ty: Type<'_>, depth: usize) -> String {
        let canonical = ty.get_canonical_type();
        let plain = self.spell(ty, depth);
        // Of a function's type libclang writes the whole name, which has no end that one would wait for.
        let is_ours = || tag(canonical).is_some_and(|name| name.starts_with(PREFIX));
        match canonical.get_kind() {
            TypeKind::ConstantArray => {
                let element = canonical.get_element_type();
                match (element, canonical.get_size()) {
                    (Some(element), Some(count)) if depth < DEPTH => {
                        let held = format!("[{}; {count}]", self.spell_held(element, depth + 1));
                        let is_const = canonical.is_const_qualified();
                        qualified(is_const, canonical.is_volatile_qualified(), held)
                    }
                    _ => plain,
                }
            }
            TypeKind::Record if depth < DEPTH && !is_ours() => {
                let mut inside = Vec::new();
                self.fields(canonical, 0, depth + 1, &mut inside);
                with_fields(&plain, &inside)
            }
            TypeKind::Enum if !is_ours() => {
                let children = canonical
                    .get_declaration()
                    .map(|found| found.get_children());
                let values = children.unwrap_or_default().into_iter();
                with_values(
                    &plain,
                    values
                        .filter_map(|child| {
                            Some((child.get_name()?, child.get_enum_constant_value()?.0))
                        })
                        .collect(),
                )
            }
            _ => plain,
        }
    }

    /// A type in the model's notation.
    fn spell(&self, ty: Type<'_>, depth: usize) -> String {
        if depth > DEPTH || !self.spend() {
            return "…".to_owned();
        }
        let ty = ty.get_canonical_type();
        let bytes = size_of(ty);
        let plain = match ty.get_kind() {
            TypeKind::Void => "void".to_owned(),
            TypeKind::Bool => "bool".to_owned(),
            TypeKind::CharS | TypeKind::CharU => "char".to_owned(),
            TypeKind::SChar
            | TypeKind::Short
            | TypeKind::Int
            | TypeKind::Long
            | TypeKind::LongLong
            | TypeKind::Int128 => integer(bytes, true),
            TypeKind::UChar
            | TypeKind::UShort
            | TypeKind::UInt
            | TypeKind::ULong
            | TypeKind::ULongLong
            | TypeKind::UInt128 => integer(bytes, false),
            TypeKind::Float16 | TypeKind::Float | TypeKind::Double | TypeKind::LongDouble => {
                format!("f{}", 8 * bytes)
            }
            TypeKind::Vector => match (ty.get_element_type(), ty.get_size()) {
                (Some(element), Some(count)) => {
                    format!("vector [{}; {count}]", self.spell(element, depth + 1))
                }
                _ => "vector".to_owned(),
            },
            TypeKind::Pointer => ty.get_pointee_type().map_or_else(
                || "*mut ?".to_owned(),
                |to| pointer_to(&self.spell(to, depth + 1)),
            ),
            TypeKind::LValueReference | TypeKind::RValueReference => {
                ty.get_pointee_type().map_or_else(
                    || "&?".to_owned(),
                    |to| format!("&{}", self.spell(to, depth + 1)),
                )
            }
            TypeKind::FunctionPrototype | TypeKind::FunctionNoPrototype => {
                let mut parameters: Vec<String> = ty
                    .get_argument_types()
                    .unwrap_or_default()
                    .into_iter()
                    .map(|parameter| self.spell(parameter, depth + 1))
                    .collect();
                if ty.is_variadic() {
                    parameters.push("...".to_owned());
                }
                let convention = ty.get_calling_convention();
                if let Some(other) = convention.filter(|one| *one != CallingConvention::Cdecl) {
                    parameters.insert(0, format!("{CALLED}{other:?}"));
                }
                let result = ty
                    .get_result_type()
                    .map_or_else(|| "void".to_owned(), |result| self.spell(result, depth + 1));
                format!("{FUNCTION}{}", function(&parameters, &result))
            }
            TypeKind::ConstantArray | TypeKind::IncompleteArray => {
                let element = ty
                    .get_element_type()
                    .map_or_else(|| "?".to_owned(), |element| self.spell(element, depth + 1));
                match ty.get_size() {
                    Some(count) => format!("[{element}; {count}]"),
                    None => format!("[{element}]"),
                }
            }
            TypeKind::Record | TypeKind::Enum => tag(ty).unwrap_or_else(|| "anonymous".to_owned()),
            _ => match ty.get_display_name() {
                // The bindings have no kind for it.
                name if name.contains("_Complex ") => format!("complex f{}", 4 * bytes),
                name => name,
            },
        };
        qualified(ty.is_const_qualified(), ty.is_volatile_qualified(), plain)
    }
}
