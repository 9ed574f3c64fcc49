//! The folder `NAME-VERSION.dist-info` of a wheel.

use super::Error;
use super::archive::{Archive, Member};
use std::collections::BTreeSet;

/// What a wheel's metadata says.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// `dist-info` folders; a wheel has one.
    pub(super) folders: Vec<String>,
    /// `WHEEL`.
    pub(super) wheel: Option<Headers>,
    /// `METADATA`.
    pub(super) metadata: Option<Headers>,
    /// The files that `RECORD` lists.
    pub(super) recorded: Option<BTreeSet<String>>,
}

/// Lines `Name: value` up to an empty one.
#[derive(Debug)]
pub(super) struct Headers(Vec<(String, String)>);

impl Metadata {
    pub(super) fn read(archive: &mut Archive, members: &[Member]) -> Result<Self, Error> {
        let folders: BTreeSet<&str> = members
            .iter()
            .filter_map(|member| member.name.split_once('/'))
            .map(|(folder, _)| folder)
            .filter(|folder| folder.ends_with(".dist-info"))
            .collect();
        let mut read = Self {
            folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
            ..Self::default()
        };
        let [folder] = read.folders.as_slice() else {
            return Ok(read);
        };
        let mut text = |file: &str| {
            let name = format!("{folder}/{file}");
            let member = members.iter().find(|member| member.name == name);
            member.map(|member| archive.text(member)).transpose()
        };
        read.wheel = text("WHEEL")?.as_deref().map(Headers::of);
        read.metadata = text("METADATA")?.as_deref().map(Headers::of);
        read.recorded = text("RECORD")?.as_deref().map(recorded);
        Ok(read)
    }

    /// The folder, where there is one.
    pub(super) fn folder(&self) -> Option<&str> {
        match self.folders.as_slice() {
            [folder] => Some(folder),
            _ => None,
        }
    }
}

impl Headers {
    fn of(text: &str) -> Self {
        let lines = text.lines().take_while(|line| !line.is_empty());
        let pairs = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        Self(pairs.collect())
    }

    /// The values of a name, written in small letters.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named =
            move |(known, value): &'a (String, String)| (known == name).then_some(value.as_str());
        self.0.iter().filter_map(named)
    }

    /// Whether a name has a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all(name).any(|value| !value.is_empty())
    }
}

/// The first column of a table in CSV.
fn recorded(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let first = lines.map(|line| match line.strip_prefix('"') {
        Some(rest) => {
            let quoted = rest.split("\",").next().unwrap_or_default();
            quoted.replace("\"\"", "\"")
        }
        None => line.split(',').next().unwrap_or_default().to_owned(),
    });
    first.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let headers = Headers::of("Tag: py3-none-any\nTag: b\nLicense: \n\nTag: c\n");
        assert_eq!(
            headers.all("tag").collect::<Vec<_>>(),
            ["py3-none-any", "b"]
        );
        assert!(!headers.has("license"));
        let table =
            recorded("a/b.py,sha256=x,3\n\"a,\"\"b.py\",sha256=y,1\na.dist-info/RECORD,,\n");
        let table: Vec<&str> = table.iter().map(String::as_str).collect();
        assert_eq!(table, ["a,\"b.py", "a.dist-info/RECORD", "a/b.py"]);
    }
}
