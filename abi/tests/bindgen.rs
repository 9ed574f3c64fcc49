//! Compares the structs and enumerators that bindgen generates from the headers of each available jaxlib with those of
//! `ffi-sys`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use syn::{Expr, GenericArgument, Item, Lit, PathArguments, ReturnType, Stmt, Type};
use xla_ffi_abi::declared::{EDITIONS, Edition, witnesses};
use xla_ffi_abi::dwarf::read_mirror;
use xla_ffi_abi::emit::{Language, emit};
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_abi::model::Header;
use xla_ffi_sys::JAXLIBS;
use xla_ffi_testing::headers::{api_folder, folder_or_skip};
use xla_ffi_testing::{root, skip};

/// The declarations that bindgen generated from a header.
#[derive(Default)]
struct Bindings {
    /// The numbers in bindgen's layout checks, such as `Size of X`, `Alignment of X` or `Offset of field: X::f`.
    layouts: BTreeMap<String, u64>,
    /// The name and type of each field, by the name of the struct.
    structs: BTreeMap<String, Vec<(String, Type)>>,
    aliases: BTreeMap<String, Type>,
    constants: BTreeMap<String, i64>,
}

fn number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(value) => value.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(negative) => number(&negative.expr).map(|value| -value),
        _ => None,
    }
}

/// Parses a layout check of bindgen, such as `["Size of X"][size_of::<X>() - 24usize];`.
fn layout(statement: &Stmt) -> Option<(String, u64)> {
    let Stmt::Expr(Expr::Index(assertion), _) = statement else {
        return None;
    };
    let (Expr::Array(what), Expr::Binary(difference)) = (&*assertion.expr, &*assertion.index)
    else {
        return None;
    };
    let Some(Expr::Lit(what)) = what.elems.first() else {
        return None;
    };
    let Lit::Str(what) = &what.lit else {
        return None;
    };
    Some((what.value(), number(&difference.right)?.try_into().ok()?))
}

/// Returns the folder in which the compiler keeps its own headers.
fn standard_headers() -> String {
    let output = Command::new("cc").arg("-print-file-name=include").output();
    let folder = output.expect("a compiler's headers").stdout;
    String::from_utf8(folder).unwrap().trim().to_owned()
}

impl Bindings {
    fn of(header: &Path, include: &Path) -> Self {
        let standard = standard_headers();
        let text = bindgen::Builder::default()
            .header(header.display().to_string())
            .clang_args(["-xc++", "-std=c++17", "-isystem", &standard, "-I"])
            .clang_arg(include.display().to_string())
            .prepend_enum_name(false)
            .generate()
            .unwrap()
            .to_string();
        let mut found = Self::default();
        for item in syn::parse_file(&text).unwrap().items {
            match item {
                Item::Struct(one) => {
                    let fields = one.fields.into_iter();
                    let fields =
                        fields.filter_map(|field| Some((field.ident?.to_string(), field.ty)));
                    found
                        .structs
                        .insert(one.ident.to_string(), fields.collect());
                }
                Item::Type(one) => {
                    found.aliases.insert(one.ident.to_string(), *one.ty);
                }
                Item::Const(one) => match &*one.expr {
                    Expr::Block(block) => {
                        found
                            .layouts
                            .extend(block.block.stmts.iter().filter_map(layout));
                    }
                    other => {
                        let value = number(other);
                        found
                            .constants
                            .extend(value.map(|value| (one.ident.to_string(), value)));
                    }
                },
                _ => {}
            }
        }
        found
    }

    /// Returns a Rust type in the model's notation. The function `enums` returns true for names of enumerations.
    fn spell(&self, ty: &Type, enums: &dyn Fn(&str) -> bool) -> String {
        let spell = |ty: &Type| self.spell(ty, enums);
        match ty {
            Type::Ptr(pointer) => {
                let to = spell(&pointer.elem);
                match pointer.const_token {
                    Some(_) => format!("*const {to}"),
                    None => format!("*mut {to}"),
                }
            }
            Type::BareFn(function) => {
                let inputs = function.inputs.iter().map(|input| spell(&input.ty));
                let inputs = inputs.collect::<Vec<_>>().join(", ");
                match &function.output {
                    ReturnType::Default => format!("fn({inputs})"),
                    ReturnType::Type(_, result) => format!("fn({inputs}) -> {}", spell(result)),
                }
            }
            Type::Path(path) => {
                let last = path.path.segments.last().unwrap();
                if let PathArguments::AngleBracketed(inside) = &last.arguments {
                    let Some(GenericArgument::Type(inside)) = inside.args.first() else {
                        panic!("{last:?}");
                    };
                    return spell(inside);
                }
                let name = last.ident.to_string();
                match (name.as_str(), self.aliases.get(&name)) {
                    ("c_void", _) => "void".to_owned(),
                    ("c_char", _) => "char".to_owned(),
                    ("c_int", _) => "i32".to_owned(),
                    ("c_uint", _) => "u32".to_owned(),
                    ("usize", _) => "u64".to_owned(),
                    (_, Some(target)) if !enums(&name) => spell(target),
                    _ => name,
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn bindgen_reads_what_ffi_sys_declares() {
    let test = "bindgen_reads_what_ffi_sys_declares";
    let Some(headers) = folder_or_skip(test) else {
        return;
    };
    if let Err(why) = clang::Clang::new() {
        return skip(test, &why);
    }
    let mut fields = 0;
    for version in witnesses(&JAXLIBS) {
        let folder = api_folder(&headers, version);
        for header in Header::ALL {
            let path = folder.join(header.file_name());
            if !path.is_file() {
                continue;
            }
            let declared = Edition::of_jaxlib(header, version).unwrap().declared();
            let found = Bindings::of(&path, folder.ancestors().nth(3).unwrap());
            let is_enum = |name: &str| {
                name.starts_with("XLA_FFI_")
                    && !name.ends_with("_Traits")
                    && matches!(found.aliases.get(name), Some(Type::Path(path)) if path.path.segments.last().unwrap().ident == "c_uint")
            };
            for (name, layout) in &declared.structs {
                let at = format!("jaxlib {version} {name}");
                let size = |what: &str| found.layouts.get(what).copied();
                assert_eq!(size(&format!("Size of {name}")), Some(layout.size), "{at}");
                assert_eq!(
                    size(&format!("Alignment of {name}")),
                    Some(layout.align),
                    "{at}"
                );
                let told = found.structs[name].iter().map(|(field, ty)| {
                    let offset = size(&format!("Offset of field: {name}::{field}"));
                    (
                        field.trim_end_matches('_').to_owned(),
                        offset,
                        found.spell(ty, &is_enum),
                    )
                });
                let expected = layout.fields.iter().map(|field| {
                    let name = field.name.trim_end_matches('_').to_owned();
                    (name, Some(field.offset), field.ty.clone())
                });
                assert_eq!(
                    told.collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>(),
                    "{at}"
                );
                fields += layout.fields.len();
            }
            let values = declared.enums.values().flat_map(|layout| &layout.values);
            for (name, value) in values {
                assert_eq!(
                    found.constants.get(name),
                    Some(value),
                    "jaxlib {version} {name}"
                );
            }
            // The headers of extensions include the main header, so this check is made only for the main header.
            if header == Header::Main {
                let complete = found
                    .layouts
                    .keys()
                    .filter_map(|what| what.strip_prefix("Size of "));
                let unknown: Vec<_> = complete
                    .filter(|name| {
                        name.starts_with("XLA_FFI_") && !declared.structs.contains_key(*name)
                    })
                    .collect();
                assert!(unknown.is_empty(), "jaxlib {version}: {unknown:?}");
            }
        }
    }
    assert!(fields > 200, "there are no headers");
}

/// Tests that the default output of bindgen is a valid mirror. The generated test compiles, and the debug information
/// passes `abi check`.
#[test]
fn the_default_output_of_bindgen_is_a_mirror() {
    let test = "the_default_output_of_bindgen_is_a_mirror";
    if let Err(why) = clang::Clang::new() {
        return skip(test, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let names = Names::parse(r#"{ "enumerators": "bindgen" }"#).unwrap();
    for header in Header::ALL {
        let path = root().join("include/xla/ffi/api").join(header.file_name());
        let abi = EDITIONS.iter().rfind(|edition| edition.header == header);
        let abi = abi.unwrap().declared();
        let mirror = bindgen::Builder::default()
            .header(path.display().to_string())
            .clang_args(["-xc++", "-std=c++17", "-isystem", &standard_headers(), "-I"])
            .clang_arg(root().join("include").display().to_string())
            .generate()
            .unwrap()
            .to_string();
        let check = emit(&abi, "newest", &names, Language::Rust);
        let used = abi.structs.keys().map(|name| format!("*const {name}, "));
        let user = format!(
            "#[unsafe(no_mangle)] pub extern \"C\" fn user(_: ({})) {{}}\n",
            used.collect::<String>()
        );
        let build = |check: &str| {
            let text = format!("#![allow(warnings)]\n{mirror}\n{check}\n{user}");
            std::fs::write(folder.path().join("mirror.rs"), text).unwrap();
            let output = Command::new("rustc")
                .args([
                    "--edition=2024",
                    "--crate-type=cdylib",
                    "-g",
                    "mirror.rs",
                    "-olibmirror.so",
                ])
                .current_dir(folder.path())
                .output();
            output.unwrap()
        };
        let output = build(&check);
        assert!(
            output.status.success(),
            "{header}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let wrong = check.replacen("() == ", "() == 1 + ", 1);
        assert!(wrong != check && !build(&wrong).status.success());
        let library = std::fs::read(folder.path().join("libmirror.so")).unwrap();
        let layouts = read_mirror(&library, &Layout::of(&abi, &names)).unwrap();
        for layout in layouts {
            let told = layout.compare(&abi, &names);
            assert_eq!(
                (told.judged, told.mistakes),
                (abi.structs.len(), Vec::new()),
                "{header}"
            );
            // bindgen writes enumerators as constants, so no enumeration is compared.
            assert_eq!(told.absent, abi.enums.keys().cloned().collect::<Vec<_>>());
        }
    }
}
