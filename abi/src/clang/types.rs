//! Converts libclang's types to the model's notation.

use crate::header::Source;
use crate::model::{
    Enum, FUNCTION, Field, PREFIX, Struct, bit_field, complex, function, integer, pointer_to,
    qualified, with_fields, with_values,
};
use clang::{Entity, EntityKind, Type, TypeKind};
use std::cell::Cell;

/// Returns the namespaces that contain a declaration, such as `acme::ffi`. Inline namespaces are omitted.
pub(super) fn scope(of: Entity<'_>) -> String {
    let parents = std::iter::successors(of.get_semantic_parent(), Entity::get_semantic_parent);
    let named =
        parents.filter(|one| one.get_kind() == EntityKind::Namespace && !one.is_inline_namespace());
    let mut names: Vec<String> = named.filter_map(|one| one.get_name()).collect();
    names.reverse();
    names.join("::")
}

/// The largest nesting depth of types.
const DEPTH: usize = 32;

pub(super) fn size_of(ty: Type<'_>) -> u64 {
    ty.get_sizeof().unwrap_or(0) as u64
}

/// The largest number of types of a header that are converted. Types that contain each other twice expand
/// exponentially: a kilobyte of header can contain billions of types.
pub(super) const MOST: usize = 1 << 16;

/// Converts the types of one header to the model's notation, with upstream's names.
pub(super) struct Types<'s> {
    pub(super) source: &'s Source,
    /// The number of types that may still be converted before the limit is reached.
    pub(super) left: Cell<usize>,
    /// Whether a type was omitted because it is nested too deeply.
    pub(super) too_deep: Cell<bool>,
}

impl Types<'_> {
    /// Returns upstream's name of a declaration, or `name` if upstream has no such declaration.
    pub(super) fn upstream(&self, declaration: Entity<'_>, name: String) -> String {
        let scope = scope(declaration);
        self.source.upstream_in(Some(&scope), &name).unwrap_or(name)
    }

    /// Returns the name of a record or enumeration; `None` if it is unnamed.
    pub(super) fn tag(&self, ty: Type<'_>) -> Option<String> {
        let name = ty.get_display_name();
        let name = ["const ", "volatile ", "struct ", "union ", "enum "]
            .iter()
            .fold(name.as_str(), |name, word| {
                name.strip_prefix(word).unwrap_or(name)
            });
        let plain = name.rsplit("::").next().unwrap_or(name).to_owned();
        (!name.contains(['(', ' '])).then(|| match ty.get_declaration() {
            Some(declaration) => self.upstream(declaration, plain),
            None => plain,
        })
    }

    /// Returns the layout of an enumeration, given its type and declaration.
    pub(super) fn enum_layout(&self, ty: Type<'_>, declaration: Entity<'_>) -> Enum {
        let children = declaration.get_children().into_iter();
        let values = children.filter_map(|child| {
            let (signed, _) = child.get_enum_constant_value()?;
            Some((self.upstream(child, child.get_name()?), signed))
        });
        let underlying = declaration.get_enum_underlying_type();
        let signed = underlying.is_some_and(|one| {
            matches!(
                one.get_canonical_type().get_kind(),
                TypeKind::CharS
                    | TypeKind::SChar
                    | TypeKind::Short
                    | TypeKind::Int
                    | TypeKind::Long
                    | TypeKind::LongLong
                    | TypeKind::Int128
            )
        });
        let (size, values) = (size_of(ty), values.collect());
        match declaration.is_definition() {
            true => Enum::new(size, signed, values),
            // The reader of debug information cannot determine the sign of an enumeration that is only declared, so the
            // sign is unknown in both readers.
            false => Enum {
                size,
                signed: None,
                values,
            },
        }
    }

    fn spend(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() > 0
    }

    /// Returns true if types at this nesting depth are read. Otherwise, sets `too_deep`.
    fn can_descend(&self, depth: usize) -> bool {
        let reaches = depth < DEPTH;
        self.too_deep.set(self.too_deep.get() || !reaches);
        reaches
    }

    /// Returns the layout of a struct, class or union.
    pub(super) fn layout(&self, ty: Type<'_>, depth: usize) -> Struct {
        let declaration = ty.get_declaration();
        let mut layout = Struct {
            size: size_of(ty),
            align: ty.get_alignof().unwrap_or(0) as u64,
            is_union: declaration.is_some_and(|one| one.get_kind() == EntityKind::UnionDecl),
            ..Struct::default()
        };
        let children = declaration.map(|one| one.get_children());
        for base in children.unwrap_or_default() {
            let Some(ty) = base.get_type() else { continue };
            if base.get_kind() == EntityKind::BaseSpecifier && self.can_descend(depth) {
                let told = self.spell_held(ty, depth + 1);
                let how = match base.is_virtual_base() {
                    true => "virtual ",
                    false => "",
                };
                layout.bases.push(format!("{how}{told}"));
            }
        }
        self.fields(ty, 0, depth, &mut layout.fields);
        layout
    }

    /// Appends the fields of a record that starts at bit `start` of the outermost record. Fields of unnamed unions and
    /// structs belong to the containing record, as in C. Unnamed bit-fields are holes.
    fn fields(&self, ty: Type<'_>, start: u64, depth: usize, found: &mut Vec<Field>) {
        if !self.spend() {
            return;
        }
        // The children of a declaration do not include all fields, so the fields of the type are read.
        for child in ty.get_canonical_type().get_fields().unwrap_or_default() {
            let Some(field_type) = child.get_type() else {
                continue;
            };
            let bits = start.saturating_add(child.get_offset_of_field().unwrap_or(0) as u64);
            let width = child.get_bit_field_width();
            // libclang returns the source location in brackets as the name of an unnamed entity.
            let name = child.get_name().filter(|name| !name.contains('('));
            match name.filter(|name| !name.is_empty()) {
                Some(name) => {
                    let mut spelled = self.spell_held(field_type, depth);
                    if let Some(width) = width {
                        spelled = bit_field(spelled, size_of(field_type), width as u64, bits);
                    }
                    found.push(Field {
                        name: self.source.upstream_field(&name),
                        ty: spelled,
                        offset: bits / 8,
                        size: size_of(field_type),
                    });
                }
                None if width.is_none() && self.can_descend(depth) => {
                    self.fields(field_type, bits, depth + 1, found);
                }
                None => {}
            }
        }
    }

    /// Returns the text for the type of a value. The text includes the fields or enumerators of a struct or enumeration
    /// that is not part of the model.
    pub(super) fn spell_held(&self, ty: Type<'_>, depth: usize) -> String {
        let canonical = ty.get_canonical_type();
        let plain = self.spell(ty, depth);
        // A closure delays the search for the name, because libclang's name of a function type can be extremely long.
        let is_ours = || {
            self.tag(canonical)
                .is_some_and(|name| name.starts_with(PREFIX))
        };
        match canonical.get_kind() {
            TypeKind::ConstantArray | TypeKind::IncompleteArray => {
                match canonical.get_element_type() {
                    Some(element) if self.can_descend(depth) => {
                        let element = self.spell_held(element, depth + 1);
                        let held = array(&element, canonical.get_size());
                        let is_const = canonical.is_const_qualified();
                        qualified(is_const, canonical.is_volatile_qualified(), held)
                    }
                    _ => plain,
                }
            }
            TypeKind::Record if !is_ours() && self.can_descend(depth) => {
                with_fields(&plain, &self.layout(canonical, depth + 1))
            }
            TypeKind::Enum if !is_ours() => match canonical.get_declaration() {
                Some(declaration) => with_values(&plain, &self.enum_layout(canonical, declaration)),
                None => plain,
            },
            _ => plain,
        }
    }

    /// Returns the text for a type in the model's notation.
    pub(super) fn spell(&self, ty: Type<'_>, depth: usize) -> String {
        // The text `…` is never printed, because headers that exceed the limits are rejected.
        if depth > DEPTH && !self.can_descend(depth) || !self.spend() {
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
                    .map(|parameter| self.spell_held(parameter, depth + 1))
                    .collect();
                if ty.is_variadic() {
                    parameters.push("...".to_owned());
                }
                let result = ty.get_result_type().map_or_else(
                    || "void".to_owned(),
                    |result| self.spell_held(result, depth + 1),
                );
                format!("{FUNCTION}{}", function(&parameters, &result))
            }
            TypeKind::ConstantArray | TypeKind::IncompleteArray => {
                let element = ty
                    .get_element_type()
                    .map_or_else(|| "?".to_owned(), |element| self.spell(element, depth + 1));
                array(&element, ty.get_size())
            }
            TypeKind::Record | TypeKind::Enum => {
                self.tag(ty).unwrap_or_else(|| "anonymous".to_owned())
            }
            _ => {
                let name = ty.get_display_name();
                // libclang's Rust bindings do not expose the parts of complex numbers, so the type's name is parsed.
                match name.split_once("_Complex ") {
                    Some((_, part)) => complex(part, bytes),
                    None => name,
                }
            }
        };
        qualified(ty.is_const_qualified(), ty.is_volatile_qualified(), plain)
    }
}

/// Returns the text for an array type. A `count` of `None` means that the number of elements is unknown.
fn array(element: &str, count: Option<usize>) -> String {
    match count {
        Some(count) => format!("[{element}; {count}]"),
        None => format!("[{element}]"),
    }
}
