//! The modules of one crate: which file each lies in, what it defines and re-exports, and the paths
//! that its code writes.

use anyhow::{Context, Result};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree};

/// A module by the names that lead to it from the crate's root.
type Name = Vec<String>;

/// One module.
#[derive(Default)]
struct Module {
    file: PathBuf,
    defines: BTreeSet<String>,
    /// What `use` brings in: a name, or `*`, with the path behind it.
    uses: Vec<(String, Vec<String>)>,
    /// The paths that begin with `crate` or `super`.
    paths: BTreeSet<Vec<String>>,
}

/// The modules of a crate.
pub(super) struct Modules(BTreeMap<Name, Module>);

impl Modules {
    /// Reads a crate, file by file, from its root file.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut modules = Self(BTreeMap::new());
        let folder = root.parent().context("a root file has a folder")?;
        modules.file(vec![], root, folder)?;
        Ok(modules)
    }

    fn file(&mut self, name: Name, path: &Path, folder: &Path) -> Result<()> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        self.items(name, &file.items, path, folder)
    }

    /// The items of a module whose children's files lie in `folder`.
    fn items(&mut self, name: Name, items: &[Item], path: &Path, folder: &Path) -> Result<()> {
        let mut module = Module {
            file: path.to_owned(),
            ..Module::default()
        };
        let mut children = vec![];
        for item in items {
            if is_test(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(child) => children.push(child),
                Item::Use(tree) => {
                    branches(&tree.tree, &mut vec![], &mut module.uses);
                }
                other => {
                    module.defines.extend(defined(other));
                    scan(other.to_token_stream(), &mut module.paths);
                }
            }
        }
        let written = module.uses.iter().map(|(_, path)| path.clone());
        module
            .paths
            .extend(written.filter(|path| path[0] == "crate" || path[0] == "super"));
        self.0.insert(name.clone(), module);
        for child in children {
            let ident = child.ident.to_string();
            let mut inner = name.clone();
            inner.push(ident.clone());
            match &child.content {
                Some((_, items)) => self.items(inner, items, path, &folder.join(&ident))?,
                None => {
                    let flat = folder.join(format!("{ident}.rs"));
                    let deep = folder.join(&ident).join("mod.rs");
                    let file = if flat.is_file() { flat } else { deep };
                    self.file(inner, &file, &folder.join(&ident))?;
                }
            }
        }
        Ok(())
    }

    /// From file to file, by the paths that are written.
    pub(super) fn arrows(&self) -> BTreeSet<(PathBuf, PathBuf)> {
        let mut arrows = BTreeSet::new();
        for (name, module) in &self.0 {
            for path in &module.paths {
                if let Some(to) = self.leads(name, path, &mut BTreeSet::new())
                    && to != module.file
                {
                    arrows.insert((module.file.clone(), to));
                }
            }
        }
        arrows
    }

    /// The file in which the thing lies that `path`, written in module `at`, names.
    fn leads(
        &self,
        at: &Name,
        path: &[String],
        seen: &mut BTreeSet<(Name, Name)>,
    ) -> Option<PathBuf> {
        // Modules that bring in all of each other lead nowhere.
        if !seen.insert((at.clone(), path.to_vec())) {
            return None;
        }
        let mut place = at.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                place = vec![];
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            _ => {}
        }
        while let Some((first, behind)) = rest.split_first()
            && first == "super"
        {
            place.pop()?;
            rest = behind;
        }
        while let Some((first, behind)) = rest.split_first() {
            let mut inner = place.clone();
            inner.push(first.clone());
            if !self.0.contains_key(&inner) {
                break;
            }
            place = inner;
            rest = behind;
        }
        let module = self.0.get(&place)?;
        let Some(wanted) = rest.first() else {
            return Some(module.file.clone());
        };
        if module.defines.contains(wanted) {
            return Some(module.file.clone());
        }
        for (name, target) in &module.uses {
            if name == wanted {
                return self.leads(&place, target, seen);
            }
        }
        for (_, target) in module.uses.iter().filter(|(name, _)| name == "*") {
            let mut target = target.clone();
            target.push(wanted.clone());
            if let Some(file) = self.leads(&place, &target, seen) {
                return Some(file);
            }
        }
        // A macro's own name, or something of another crate that the module brings in.
        None
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && {
            let text = attribute.meta.to_token_stream().to_string();
            text == "cfg (test)" || text.starts_with("cfg (all (test")
        }
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item gives to its module.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The leaves of a `use`: the name that each brings in, and its whole path.
fn branches(tree: &UseTree, path: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            branches(&part.tree, path, leaves);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                branches(tree, path, leaves);
            }
        }
        UseTree::Glob(_) => leaves.push(("*".to_owned(), path.clone())),
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((path.last().cloned().unwrap_or_default(), path.clone()));
        }
        UseTree::Name(name) => {
            let ident = name.ident.to_string();
            let whole = path.iter().cloned().chain([ident.clone()]).collect();
            leaves.push((ident, whole));
        }
        UseTree::Rename(rename) => {
            let whole = path
                .iter()
                .cloned()
                .chain([rename.ident.to_string()])
                .collect();
            leaves.push((rename.rename.to_string(), whole));
        }
    }
}

/// The `crate::…` and `super::…` paths among tokens; `$crate` belongs to whoever uses the macro.
fn scan(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => scan(group.stream(), paths),
            TokenTree::Ident(start) if start == "crate" || start == "super" => {
                let inner = match &tokens[..index] {
                    [.., TokenTree::Punct(one), TokenTree::Punct(two)] if two.as_char() == ':' => {
                        one.as_char() == ':' && one.spacing() == Spacing::Joint
                    }
                    [.., TokenTree::Punct(mark)] => mark.as_char() == '$',
                    _ => false,
                };
                if !inner && let Some(path) = follow(&tokens[index..]) {
                    paths.insert(path);
                }
            }
            _ => {}
        }
    }
}

/// The path that begins with the first token; `None` where nothing follows it, as in `pub(crate)`.
fn follow(tokens: &[TokenTree]) -> Option<Vec<String>> {
    let mut path = vec![];
    let mut rest = tokens;
    while let Some((TokenTree::Ident(ident), behind)) = rest.split_first() {
        path.push(ident.to_string());
        match behind {
            [TokenTree::Punct(one), TokenTree::Punct(two), more @ ..]
                if one.as_char() == ':' && two.as_char() == ':' =>
            {
                rest = more;
            }
            _ => break,
        }
    }
    (path.len() > 1).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let modules = Modules::read(&folder.path().join("lib.rs")).unwrap();
        let shown = |path: PathBuf| {
            let path = path.strip_prefix(folder.path()).unwrap();
            path.display().to_string()
        };
        let arrows = modules.arrows().into_iter();
        arrows.map(|(from, to)| (shown(from), shown(to))).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.to_owned(), to.to_owned())
    }

    #[test]
    fn paths_lead_through_re_exports_to_the_file_that_defines() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use a::{Thing, inner::Deep};"),
            ("a.rs", "pub mod inner; pub struct Thing; pub use inner::*;"),
            (
                "a/inner.rs",
                "pub struct Deep; pub struct Far; fn f(_: super::Thing) {}",
            ),
            (
                "b.rs",
                "use crate::{Deep, a::Far as F}; fn f() { vec![crate::Thing]; }",
            ),
        ]);
        let want = [
            pair("a/inner.rs", "a.rs"),
            pair("b.rs", "a/inner.rs"),
            pair("b.rs", "a.rs"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn modules_that_bring_in_all_of_each_other_are_gone_through_once() {
        let files: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
        let root: String = files
            .iter()
            .map(|name| format!("mod {name}; pub use {name}::*;"))
            .collect();
        let paths: Vec<String> = files.iter().map(|name| format!("{name}.rs")).collect();
        let mut all = vec![("lib.rs", root.as_str())];
        all.extend(paths.iter().map(|path| {
            let text = "use crate::*; fn f(_: crate::Nowhere) {}";
            (path.as_str(), text)
        }));
        assert!(arrows(&all).iter().all(|(_, to)| to == "lib.rs"));
    }

    #[test]
    fn tests_and_names_of_other_crates_are_no_arrows() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use other::Thing;"),
            (
                "a.rs",
                "pub struct S; #[cfg(test)] mod tests { use crate::b::T; }",
            ),
            (
                "b.rs",
                "pub(crate) struct T; macro_rules! m { () => { $crate::a::S } } fn f(_: crate::Thing) {}",
            ),
        ]);
        assert_eq!(found, []);
    }
}
