//! `cargo xtask headers [--check]`: the C headers under `include/`, generated from ffi-sys, and the facts
//! that C++ and Python share with it.
//!
//! cbindgen writes structs and enumerations, from a shadow of ffi-sys without macros; a template
//! writes the rest from the reflection data. Any warning of cbindgen fails the task: an unknown
//! type is only a warning to it, and a broken header to us.

mod facts;
mod source;
mod template;

use anyhow::{Context, Result, bail, ensure};
use cbindgen::{Builder, Config, DocumentationStyle, Language, Style as CStyle};
use source::{Declaration, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use template::{Body, Header};

/// Command line of `headers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail when a committed file is stale instead of writing it.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask has no parent folder")?;
    let files = generate(root)?;
    if args.check {
        return check(root, &files);
    }
    for (path, text) in files {
        let file = root.join(&path);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails where a file below `root` is not what is generated now.
fn check(root: &Path, files: &[(PathBuf, String)]) -> Result<()> {
    let stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| {
            std::fs::read_to_string(root.join(path)).unwrap_or_default() != *text
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    ensure!(
        stale.is_empty(),
        "stale: {}; run `cargo xtask headers` and commit the result",
        stale.join(", ")
    );
    Ok(())
}

/// The files as path under the repository and text.
fn generate(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    WARNINGS.install()?;
    let sources = read_sources(&root.join("ffi-sys/src"))?;
    let shadow: String = sources.iter().map(|(_, source)| source.shadow()).collect();
    let folder = root.join("target/xtask");
    std::fs::create_dir_all(&folder)?;
    let shadow_file = folder.join("shadow.rs");
    std::fs::write(&shadow_file, shadow)?;
    let docs = template::all_docs(&sources);
    let items = Items::read(&shadow_file, &sources)?;
    let headers = Header::ALL.into_iter().map(|header| {
        let body = body(header, &sources, &items)?;
        let path = Path::new("include/xla/ffi/api").join(header.file());
        Ok((path, template::render(header, &body, &docs)))
    });
    let version = crate::install::version(root)?;
    let facts = [
        ("include/xla_ffi/facts.h", facts::c(&version)),
        ("python/xla_ffi/_facts.py", facts::python()),
    ];
    let facts = facts
        .into_iter()
        .map(|(path, text)| Ok((PathBuf::from(path), text)));
    headers.chain(facts).collect()
}

/// The modules of ffi-sys by name, in the order of `lib.rs`, which is the alphabet's.
fn read_sources(folder: &Path) -> Result<Vec<(String, Source)>> {
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if let (Some(stem), Some("rs")) = (
            path.file_stem().and_then(|stem| stem.to_str()),
            path.extension().and_then(|extension| extension.to_str()),
        ) && !matches!(
            stem,
            "lib" | "layout" | "history" | "revision" | "feature" | "legacy" | "cancellation"
        ) {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let source = Source::read(&folder.join(format!("{name}.rs")))?;
            Ok((name, source))
        })
        .collect()
}

fn body(header: Header, sources: &[(String, Source)], items: &Items) -> Result<Body> {
    let mut body = Body::default();
    let mut enums = 0;
    for (module, source) in sources {
        if Header::of_module(module) != header {
            continue;
        }
        for declaration in &source.declarations {
            let name = declaration.name();
            match declaration {
                Declaration::Opaque(_) => body.opaque.push((items.docs(name)?, name.to_owned())),
                Declaration::Struct(_) => body.structs.push(name.to_owned()),
                Declaration::Enum(_) => {
                    enums += 1;
                    let text = items.text(name)?;
                    body.enum_text
                        .push_str(&format!("{text}\ntypedef enum {name} {name};\n\n"));
                }
            }
        }
    }
    ensure!(
        enums == header.enums().len(),
        "{}: ffi-sys declares {enums} enumerations and lists {}",
        header.file(),
        header.enums().len()
    );
    // In cbindgen's order, which puts a struct before those that hold it.
    for name in &items.order {
        if body.structs.contains(name) {
            body.struct_text.push_str(&bare_names(items.text(name)?));
            body.struct_text.push('\n');
        }
    }
    Ok(body)
}

/// cbindgen's output by name.
struct Items {
    texts: BTreeMap<String, String>,
    order: Vec<String>,
}

impl Items {
    /// Runs cbindgen once over everything: it warns of each type that it is told to leave out.
    fn read(shadow: &Path, sources: &[(String, Source)]) -> Result<Self> {
        let mut config = Config {
            language: Language::C,
            style: CStyle::Tag,
            documentation_style: DocumentationStyle::C99,
            usize_is_size_t: true,
            no_includes: true,
            line_length: 100,
            ..Config::default()
        };
        config.export.include = sources
            .iter()
            .flat_map(|(_, source)| &source.declarations)
            .map(|declaration| declaration.name().to_owned())
            .collect();
        let bindings = Builder::new()
            .with_config(config)
            .with_src(shadow)
            .generate()
            .with_context(|| format!("cbindgen cannot read {}", shadow.display()))?;
        let mut text = Vec::new();
        bindings.write(&mut text);
        let warnings = WARNINGS.take();
        ensure!(
            warnings.is_empty(),
            "cbindgen warns:\n{}",
            warnings.join("\n")
        );
        let mut items = Self {
            texts: BTreeMap::new(),
            order: Vec::new(),
        };
        for item in String::from_utf8(text)?.split("\n\n") {
            let Some(name) = item_name(item) else {
                bail!("cbindgen wrote something unknown:\n{item}");
            };
            items.order.push(name.to_owned());
            items.texts.insert(name.to_owned(), item.trim().to_owned());
        }
        Ok(items)
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.texts
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("cbindgen did not write {name}"))
    }

    /// The comment lines before the declaration.
    fn docs(&self, name: &str) -> Result<String> {
        Ok(self
            .text(name)?
            .lines()
            .take_while(|line| line.starts_with("//"))
            .map(|line| format!("{line}\n"))
            .collect())
    }
}

/// The name that an item declares.
fn item_name(item: &str) -> Option<&str> {
    let line = item
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with("//"))?;
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .find(|word| word.starts_with("XLA_FFI_"))
}

/// Fields name types without their tag: every tag has a typedef before the structs.
fn bare_names(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let code = if line.starts_with("struct") || line.trim_start().starts_with("//") {
            line.to_owned()
        } else {
            line.replace("struct XLA_FFI_", "XLA_FFI_")
                .replace("enum XLA_FFI_", "XLA_FFI_")
                .replace("*self_", "*self")
        };
        out.push_str(&code);
        out.push('\n');
    }
    out
}

/// Collects what cbindgen logs.
struct Warnings(Mutex<Vec<String>>);

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

impl Warnings {
    fn install(&'static self) -> Result<()> {
        log::set_logger(self).map_err(|error| anyhow::anyhow!("{error}"))?;
        log::set_max_level(log::LevelFilter::Warn);
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        self.0
            .lock()
            .map(|mut lines| std::mem::take(&mut *lines))
            .unwrap_or_default()
    }
}

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if let Ok(mut lines) = self.0.lock() {
            lines.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_of_the_facts_are_fresh_and_an_edited_one_is_not() {
        let root = crate::jaxlibs::root();
        let mut files = generate(&root).unwrap();
        check(&root, &files).unwrap();
        files[0].1.push(' ');
        assert!(check(&root, &files).is_err());
    }
}
