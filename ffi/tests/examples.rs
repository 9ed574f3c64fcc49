//! Every public item of this crate, the macros that it hands on among them, has an example that
//! runs and asserts something.
//!
//! The sources are read with `syn`. An item is public when `lib.rs` says `pub use` of it, or when it
//! stands in a public module. Its example is a block of code in its documentation that
//! `cargo test --doc` runs; a method may also be used in an example of its type, or of another
//! method there, or say which item has one. What a `macro_rules` makes has the documentation of its invocation and of its body.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, TraitItem, UseTree, Visibility};

/// Methods whose names say it all.
const PLAIN: [&str; 2] = ["len", "is_empty"];

const ASSERTIONS: [&str; 3] = ["assert!(", "assert_eq!(", "assert_ne!("];

/// Crates whose items are described where they are made.
const FOREIGN: [&str; 4] = [
    "xla_ffi_sys",
    "xla_ffi_runtime",
    "xla_ffi_programs",
    "cudarc",
];

/// Modules that are looked at on their own: they have names that stand elsewhere for something else.
const APART: [(&str, Examples); 2] = [("legacy", Examples::Run), ("cuda", Examples::Compile)];

/// What an example has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Examples {
    /// Run, and assert something.
    #[default]
    Run,
    /// Compile: what they show needs a device. `cuda_examples/` run there, and on a stand-in for the
    /// driver.
    Compile,
}

/// The macros' crate. A derive macro has the name of its trait, so macros are kept apart.
const MACROS: &str = "xla_ffi_macros";

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("doc") && attr.meta.to_token_stream().to_string().contains("hidden")
    })
}

/// The string literals among the tokens, those within `concat!` too.
fn strings(tokens: TokenStream) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            TokenTree::Literal(literal) => {
                if let Ok(literal) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    text.push_str(&literal.value());
                }
            }
            TokenTree::Group(group) => text.push_str(&strings(group.stream())),
            _ => {}
        }
    }
    text
}

fn docs(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    lines
        .map(|attr| strings(attr.meta.to_token_stream()) + "\n")
        .collect()
}

/// The blocks of code that do what examples have to.
fn examples(docs: &str, kind: Examples) -> String {
    let mut examples = String::new();
    let mut block: Option<(bool, String)> = None;
    for line in docs.lines() {
        match (line.trim_start().strip_prefix("```"), &mut block) {
            (None, None) => {}
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (Some(language), None) => {
                let runs = match language.trim() {
                    "" | "rust" | "should_panic" | "standalone_crate" => true,
                    "no_run" => kind == Examples::Compile,
                    _ => false,
                };
                block = Some((runs, String::new()));
            }
            (Some(_), Some(_)) => {
                if let Some((true, text)) = block.take()
                    && (kind == Examples::Compile
                        || ASSERTIONS.iter().any(|name| text.contains(name)))
                {
                    examples.push_str(&text);
                }
            }
        }
    }
    examples
}

/// Whether `word` stands in `text`, not as a part of a longer word.
fn mentions(text: &str, word: &str) -> bool {
    let inside = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(inside) && !text[start + word.len()..].starts_with(inside)
    })
}

/// What is known of a name.
#[derive(Default)]
struct Entry {
    docs: String,
    /// Public methods with their documentation.
    methods: BTreeMap<String, String>,
}

impl Entry {
    fn method(&mut self, name: String, docs: &str) {
        self.methods.entry(name).or_default().push_str(docs);
    }

    fn merge(&mut self, other: &Self) {
        self.docs.push_str(&other.docs);
        for (name, docs) in &other.methods {
            self.method(name.clone(), docs);
        }
    }
}

/// The text of a `macro_rules`: the documentation of what it makes.
fn body(tokens: TokenStream, entry: &mut Entry) {
    let mut docs = String::new();
    let mut public = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                let text = group.stream().to_string();
                if text.starts_with("doc") {
                    docs.push_str(&strings(group.stream()));
                    docs.push('\n');
                }
            }
            TokenTree::Group(group) => {
                body(group.stream(), entry);
                // Behind `pub` it says how far.
                public = false;
                if group.delimiter() == Delimiter::Brace {
                    docs.clear();
                }
            }
            TokenTree::Ident(word) if word == "pub" => public = true,
            TokenTree::Ident(word) if public && word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    entry.method(name.to_string(), &docs);
                }
            }
            TokenTree::Ident(word) if public && (word == "struct" || word == "enum") => {
                entry.docs.push_str(&docs);
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => {
                (docs, public) = (String::new(), false);
            }
            _ => {}
        }
    }
}

/// An invocation: the names in it, each with the documentation before it.
fn invocation(tokens: TokenStream, names: &mut Vec<(String, String)>) {
    let mut docs = String::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                docs.push_str(&strings(group.stream()));
                docs.push('\n');
            }
            TokenTree::Ident(name) => names.push((name.to_string(), std::mem::take(&mut docs))),
            _ => {}
        }
    }
}

/// The names that a `use` brings in, with the crate or module they come from.
fn leaves(tree: &UseTree, root: Option<&str>, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => {
            let ident = path.ident.to_string();
            leaves(&path.tree, Some(root.unwrap_or(&ident)), found);
        }
        UseTree::Name(name) => {
            found.push((root.unwrap_or_default().to_owned(), name.ident.to_string()));
        }
        UseTree::Rename(name) => {
            let root = root.map_or_else(|| name.ident.to_string(), str::to_owned);
            found.push((root, name.rename.to_string()));
        }
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| leaves(tree, root, found)),
        UseTree::Glob(_) => panic!("`pub use …::*`: the names have to be written out"),
    }
}

/// The items of a crate.
#[derive(Default)]
struct Sources {
    kind: Examples,
    /// Whether this is one of the modules that are looked at on their own.
    alone: bool,
    entries: BTreeMap<String, Entry>,
    macro_bodies: BTreeMap<String, Entry>,
    public: BTreeSet<String>,
}

impl Sources {
    /// A file that is the crate's root or a public module: what it makes public.
    fn door(&mut self, file: &syn::File) {
        for item in &file.items {
            let (visibility, attrs, name) = match item {
                Item::Use(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                    self.reexport(item);
                    continue;
                }
                Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
                Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
                Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
                Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
                Item::Type(item) => (&item.vis, &item.attrs, &item.ident),
                Item::Const(item) => (&item.vis, &item.attrs, &item.ident),
                _ => continue,
            };
            if is_public(visibility) && !is_hidden(attrs) {
                self.public.insert(name.to_string());
            }
        }
    }

    fn reexport(&mut self, item: &syn::ItemUse) {
        let mut names = Vec::new();
        leaves(&item.tree, None, &mut names);
        for (root, name) in names {
            let apart = !self.alone && APART.iter().any(|(module, _)| *module == root);
            if apart || FOREIGN.contains(&root.as_str()) || FOREIGN.contains(&name.as_str()) {
                continue;
            }
            let name = if root == MACROS {
                format!("macro {name}")
            } else {
                name
            };
            self.entry(&name).docs.push_str(&docs(&item.attrs));
            self.public.insert(name);
        }
    }

    /// A `macro_rules` of this crate's root, wherever it stands.
    fn exported(&mut self, item: &syn::ItemMacro) {
        let Some(name) = &item.ident else { return };
        let exports = |attr: &Attribute| attr.path().is_ident("macro_export");
        if item.attrs.iter().any(exports) && !is_hidden(&item.attrs) {
            let name = format!("macro {name}");
            self.entry(&name).docs.push_str(&docs(&item.attrs));
            self.public.insert(name);
        }
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        self.entries.entry(name.to_owned()).or_default()
    }

    fn item(&mut self, item: &Item) {
        let (attrs, name) = match item {
            Item::Struct(item) => (&item.attrs, &item.ident),
            Item::Enum(item) => (&item.attrs, &item.ident),
            Item::Const(item) => (&item.attrs, &item.ident),
            Item::Type(item) => (&item.attrs, &item.ident),
            Item::Fn(item) => (&item.attrs, &item.sig.ident),
            Item::Trait(item) => {
                for method in &item.items {
                    if let TraitItem::Fn(method) = method
                        && !is_hidden(&method.attrs)
                    {
                        let name = method.sig.ident.to_string();
                        let docs = docs(&method.attrs);
                        self.entry(&item.ident.to_string()).method(name, &docs);
                    }
                }
                (&item.attrs, &item.ident)
            }
            Item::Impl(item) if item.trait_.is_none() => return self.methods(item),
            Item::Macro(item) => {
                match &item.ident {
                    Some(name) => {
                        let entry = self.macro_bodies.entry(name.to_string()).or_default();
                        body(item.mac.tokens.clone(), entry);
                        self.exported(item);
                    }
                    None => self.made(&item.mac),
                }
                return;
            }
            // What is documented where it gets its name.
            Item::Use(item) => {
                let docs = docs(&item.attrs);
                if docs.is_empty() {
                    return;
                }
                let mut names = Vec::new();
                leaves(&item.tree, None, &mut names);
                for (_, name) in names {
                    self.entry(&name).docs.push_str(&docs);
                }
                return;
            }
            _ => return,
        };
        let docs = docs(attrs);
        self.entry(&name.to_string()).docs.push_str(&docs);
    }

    fn methods(&mut self, block: &syn::ItemImpl) {
        let syn::Type::Path(path) = &*block.self_ty else {
            return;
        };
        let Some(owner) = path.path.segments.last() else {
            return;
        };
        let entry = self.entry(&owner.ident.to_string());
        for item in &block.items {
            if let ImplItem::Fn(method) = item
                && is_public(&method.vis)
                && !is_hidden(&method.attrs)
            {
                entry.method(method.sig.ident.to_string(), &docs(&method.attrs));
            }
        }
    }

    /// What an invocation of a macro of the crate makes.
    fn made(&mut self, call: &syn::Macro) {
        let Some(name) = call.path.segments.last() else {
            return;
        };
        let Some(body) = self.macro_bodies.remove(&name.ident.to_string()) else {
            return;
        };
        let mut names = Vec::new();
        invocation(call.tokens.clone(), &mut names);
        for (name, docs) in names {
            let entry = self.entry(&name);
            entry.docs.push_str(&docs);
            entry.merge(&body);
        }
        self.macro_bodies.insert(name.ident.to_string(), body);
    }

    /// The examples of the item that the documentation names for one.
    fn elsewhere(&self, docs: &str) -> String {
        let named = docs.split("`] has an example").next().unwrap_or_default();
        let named = named.rsplit("[`").next().unwrap_or_default();
        self.entries
            .get(named)
            .map_or_else(String::new, |entry| examples(&entry.docs, self.kind))
    }

    /// What has no example.
    fn lacking(&self) -> Vec<String> {
        let mut lacking = Vec::new();
        for name in &self.public {
            let Some(entry) = self.entries.get(name) else {
                lacking.push(format!("{name}: not found"));
                continue;
            };
            if examples(&entry.docs, self.kind).is_empty() {
                lacking.push(name.clone());
            }
            let page: String = std::iter::once(&entry.docs)
                .chain(entry.methods.values())
                .map(|docs| examples(docs, self.kind))
                .collect();
            for (method, docs) in &entry.methods {
                if !PLAIN.contains(&method.as_str())
                    && !mentions(&page, method)
                    && !mentions(&self.elsewhere(docs), method)
                {
                    lacking.push(format!("{name}::{method}"));
                }
            }
        }
        lacking
    }
}

fn parse(path: &Path) -> syn::File {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
}

/// The files under `folder`, without those of other modules.
fn read(sources: &mut Sources, folder: &Path, without: &[PathBuf]) {
    let mut paths = Vec::new();
    files(folder, &mut paths);
    for path in &paths {
        if !without.iter().any(|module| path.starts_with(module)) {
            parse(path).items.iter().for_each(|item| sources.item(item));
        }
    }
}

#[test]
fn every_public_item_has_an_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Sources::default();
    let root = parse(&folder.join("lib.rs"));
    sources.door(&root);
    for item in &root.items {
        if let Item::Mod(item) = item
            && is_public(&item.vis)
            && !is_hidden(&item.attrs)
            && item.content.is_none()
            && !APART.iter().any(|(module, _)| item.ident == module)
        {
            let name = item.ident.to_string();
            let beside = folder.join(format!("{name}.rs"));
            let within = folder.join(name).join("mod.rs");
            sources.door(&parse(if beside.is_file() { &beside } else { &within }));
        }
    }
    let apart = APART.map(|(module, _)| folder.join(module));
    read(&mut sources, &folder, &apart);
    assert!(sources.public.len() > 80, "{:?}", sources.public);
    let mut lacking = sources.lacking();
    for ((name, kind), module) in APART.iter().zip(&apart) {
        let mut sources = Sources {
            kind: *kind,
            alone: true,
            ..Sources::default()
        };
        sources.door(&parse(&module.join("mod.rs")));
        read(&mut sources, module, &[]);
        assert!(sources.public.len() >= 10, "{name}: {:?}", sources.public);
        let told = sources.lacking().into_iter();
        lacking.extend(told.map(|item| format!("{name}::{item}")));
    }
    assert!(
        lacking.is_empty(),
        "{} public items without an example:\n{}",
        lacking.len(),
        lacking.join("\n")
    );
}

#[test]
fn what_has_no_example_is_told() {
    let file: syn::File = syn::parse_quote! {
        /// ```
        /// assert!(Good::make().used());
        /// ```
        pub struct Good;
        impl Good {
            pub fn make() -> Self { Self }
            pub fn used(self) -> bool { true }
            pub fn forgotten(self) {}
            /// [`One`] has an example.
            pub fn shown(self) {}
            /// [`Two`] has an example.
            pub fn not_shown(self) {}
            fn private(self) {}
        }
        /// ```text
        /// assert
        /// ```
        /// ```no_run
        /// assert!(true);
        /// ```
        /// ```
        /// use it; // but nothing is asserted
        /// ```
        pub fn bad() {}
        pub(crate) fn private() {}
        macro_rules! numbers {
            ($($(#[$meta:meta])* $name:ident;)*) => {
                $($(#[$meta])*
                pub struct $name(u8);
                impl $name {
                    /// ```
                    /// assert!(bits());
                    /// ```
                    pub const fn bits(self) -> u8 { self.0 }
                    pub fn lost(self) {}
                })*
            };
        }
        numbers! {
            /// ```
            /// assert!(Good::make().shown());
            /// ```
            One;
            /// Two.
            Two;
        }
        pub use numbers::{One, Two};
        /// ```no_run
        /// told!();
        /// ```
        #[macro_export]
        macro_rules! told { () => {} }
        #[doc(hidden)]
        #[macro_export]
        macro_rules! hidden { () => {} }
    };
    let lacking = |kind| {
        let mut sources = Sources {
            kind,
            ..Sources::default()
        };
        sources.door(&file);
        file.items.iter().for_each(|item| sources.item(item));
        sources.lacking()
    };
    let always = [
        "Good::forgotten",
        "Good::not_shown",
        "One::lost",
        "Two",
        "Two::lost",
    ];
    assert_eq!(lacking(Examples::Compile), always);
    assert_eq!(
        lacking(Examples::Run),
        [&always[..], &["bad", "macro told"]].concat()
    );
}
