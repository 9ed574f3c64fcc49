//! Builds wheels for tests: valid wheels, as from a build backend, or deliberately invalid wheels.

use std::io::Write;
use std::path::{Path, PathBuf};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Default metadata, for tests that do not depend on the metadata.
const METADATA: &str =
    "Metadata-Version: 2.4\nName: mine\nVersion: 1.0\nLicense-Expression: MIT\n\nText.\n";

/// A wheel under construction.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// File name without `.whl`.
    name: String,
    members: Vec<(String, Vec<u8>)>,
    links: Vec<(String, String)>,
}

impl Wheel {
    /// Returns a wheel with this name (without `.whl`) and matching metadata.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut parts = name.splitn(3, '-');
        let (project, version) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let tag = parts.next().unwrap_or_default();
        let folder = format!("{project}-{version}.dist-info");
        let wheel = format!("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n");
        let named = Self {
            name: name.to_owned(),
            members: Vec::new(),
            links: Vec::new(),
        };
        named
            .member(&format!("{folder}/METADATA"), METADATA.as_bytes())
            .member(&format!("{folder}/WHEEL"), wheel.as_bytes())
            .member(&format!("{folder}/licenses/LICENSE"), b"As you like.\n")
    }

    /// Adds a file and replaces any file with the same name.
    #[must_use]
    pub fn member(mut self, name: &str, bytes: &[u8]) -> Self {
        self = self.without(name);
        self.members.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, name: &str, to: &str) -> Self {
        self.links.push((name.to_owned(), to.to_owned()));
        self
    }

    /// Removes a file.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.members.retain(|(known, _)| known != name);
        self
    }

    /// Packs the wheel with a list of its files, and returns its path.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    #[must_use]
    pub fn pack(mut self, folder: &Path) -> PathBuf {
        let mut parts = self.name.splitn(3, '-');
        let (project, version) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let record = format!("{project}-{version}.dist-info/RECORD");
        if !self.members.iter().any(|(name, _)| *name == record) {
            let names = self.members.iter().map(|(name, _)| name);
            let names = names.chain(self.links.iter().map(|(name, _)| name));
            let mut lines: String = names.map(|name| format!("{name},,\n")).collect();
            lines.push_str(&format!("{record},,\n"));
            self = self.member(&record, lines.as_bytes());
        }
        let path = folder.join(format!("{}.whl", self.name));
        let file = std::fs::File::create(&path).expect("the test's folder");
        let mut zip = ZipWriter::new(file);
        let options = SimpleFileOptions::default();
        for (name, bytes) in &self.members {
            zip.start_file(name.as_str(), options).expect("a member");
            zip.write_all(bytes).expect("a member's bytes");
        }
        for (name, to) in &self.links {
            zip.add_symlink(name.as_str(), to.as_str(), options)
                .expect("a link");
        }
        zip.finish().expect("the archive's end");
        path
    }
}
