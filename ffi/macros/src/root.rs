//! Properties of the crate that uses the macros: its name for `xla-ffi`, its crate name, and its
//! crate types.

use std::path::Path;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};

/// Replaces `::xla_ffi` if Cargo.toml renames it: `my_ffi = { package = "xla-ffi", … }`.
pub(crate) fn renamed(tokens: TokenStream) -> TokenStream {
    match name() {
        Some(name) => replace(tokens, &name),
        None => tokens,
    }
}

fn replace(tokens: TokenStream, name: &str) -> TokenStream {
    // The number of colons before a token, and whether these colons continue a path.
    let (mut colons, mut in_path) = (0, false);
    let replaced = tokens.into_iter().map(|token| match token {
        TokenTree::Punct(colon) if colon.as_char() == ':' => {
            colons += 1;
            TokenTree::Punct(colon)
        }
        other => {
            let starts = colons == 3 || colons == 2 && !in_path;
            (colons, in_path) = (
                0,
                matches!(&other, TokenTree::Ident(ident) if is_of_path(ident)),
            );
            match other {
                TokenTree::Ident(ident) if starts && ident == "xla_ffi" => {
                    TokenTree::Ident(Ident::new(name, ident.span()))
                }
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), replace(group.stream(), name));
                    inner.set_span(group.span());
                    TokenTree::Group(inner)
                }
                other => other,
            }
        }
    });
    replaced.collect()
}

/// Returns true if `::` after `ident` continues a path; after `impl` or `as`, `::` starts a new
/// path.
fn is_of_path(ident: &Ident) -> bool {
    let text = ident.to_string();
    ["crate", "self", "super", "Self"].contains(&text.as_str())
        || syn::parse_str::<Ident>(&text).is_ok()
}

fn name() -> Option<String> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let read = |folder: &Path| std::fs::read_to_string(folder.join("Cargo.toml")).ok();
    let own = read(Path::new(&folder))?;
    if has_key(&own, "xla-ffi") {
        return None;
    }
    // Dependency names that the crate inherits are in its workspace's manifest.
    let mut manifests = Path::new(&folder).ancestors().filter_map(read);
    let name =
        manifests.find_map(|text| names(&text).into_iter().find(|name| has_key(&own, name)))?;
    Some(name.replace('-', "_"))
}

/// Returns the names of dependencies whose package is `xla-ffi`.
fn names(manifest: &str) -> Vec<String> {
    let (mut names, mut table) = (Vec::new(), "");
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            table = line.trim_end_matches(']');
            continue;
        }
        let line = line.replace(' ', "");
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let package = "package=\"xla-ffi\"";
        if line.starts_with(package) {
            names.extend(table.rsplit('.').next().map(str::to_owned));
        } else if value.contains(package)
            || (key.ends_with(".package") && value.starts_with("\"xla-ffi\""))
        {
            names.extend(key.split('.').next().map(str::to_owned));
        }
    }
    names
}

/// Returns true if a line or a table of the manifest has the key `key`.
fn has_key(manifest: &str, key: &str) -> bool {
    manifest.lines().map(str::trim).any(|line| {
        let table = line.strip_suffix(&format!(".{key}]"));
        let rest = line.strip_prefix(key).map(str::trim_start);
        table.is_some() || rest.is_some_and(|rest| rest.starts_with(['=', '.']))
    })
}

/// Returns the crate types of this compilation: `cdylib`, `rlib` …
pub(crate) fn crate_types() -> Vec<String> {
    let mut kinds = Vec::new();
    let mut args = std::env::args();
    while let Some(arg) = args.next() {
        if let Some(kind) = arg.strip_prefix("--crate-type=") {
            kinds.push(kind.to_owned());
        } else if arg == "--crate-type" {
            kinds.extend(args.next());
        }
    }
    kinds
}

pub(crate) fn crate_name() -> String {
    std::env::var("CARGO_CRATE_NAME")
        .or_else(|_| std::env::var("CARGO_PKG_NAME"))
        .unwrap_or_else(|_| "library".to_owned())
        .replace('-', "_")
}
