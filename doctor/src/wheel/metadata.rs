//! The folder `NAME-VERSION.dist-info` of a wheel.

use super::Error;
use super::archive::{Archive, Member};
use std::collections::{BTreeMap, BTreeSet};

/// What a wheel's metadata says.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// `dist-info` folders; a wheel has one.
    pub(super) folders: Vec<String>,
    /// `WHEEL`.
    pub(super) wheel: Option<Headers>,
    /// `METADATA`.
    pub(super) metadata: Option<Headers>,
    /// The files that `RECORD` lists, and what it says of each.
    pub(super) recorded: Option<BTreeMap<String, Recorded>>,
}

/// What `RECORD` says of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Its hash by SHA-256, as `RECORD` spells one; `None` where there is no hash or one of another kind.
    pub(super) sha256: Option<String>,
    pub(super) bytes: Option<u64>,
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
        // What begins with a blank goes on with the line before.
        let lines = lines.filter(|line| !line.starts_with([' ', '\t']));
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

/// A table in CSV of a name, a hash and a number of bytes.
fn recorded(text: &str) -> BTreeMap<String, Recorded> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let rows = lines.map(|line| {
        let (name, rest) = match line.strip_prefix('"') {
            Some(rest) => {
                let (quoted, rest) = rest.split_once("\",").unwrap_or((rest, ""));
                (quoted.replace("\"\"", "\""), rest)
            }
            None => {
                let (name, rest) = line.split_once(',').unwrap_or((line, ""));
                (name.to_owned(), rest)
            }
        };
        let (hash, bytes) = rest.split_once(',').unwrap_or((rest, ""));
        let sha256 = hash.trim_matches('"').strip_prefix("sha256=");
        let recorded = Recorded {
            sha256: sha256.map(|hash| hash.trim_end_matches('=').to_owned()),
            bytes: bytes.trim_matches('"').parse().ok(),
        };
        (name, recorded)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let headers = Headers::of("Tag: py3-none-any\nTag: b\nLicense: \n  Tag: d\n\nTag: c\n");
        assert_eq!(
            headers.all("tag").collect::<Vec<_>>(),
            ["py3-none-any", "b"]
        );
        assert!(!headers.has("license"));
        let table = recorded(
            "a/b.py,sha256=x,3\n\"a,\"\"b.py\",sha256=y=,1\na.dist-info/RECORD,,\nc,md5=z,\n",
        );
        let row = |sha256: Option<&str>, bytes| Recorded {
            sha256: sha256.map(str::to_owned),
            bytes,
        };
        let wanted = [
            ("a,\"b.py", row(Some("y"), Some(1))),
            ("a.dist-info/RECORD", Recorded::default()),
            ("a/b.py", row(Some("x"), Some(3))),
            ("c", Recorded::default()),
        ];
        let wanted = wanted.map(|(name, recorded)| (name.to_owned(), recorded));
        assert_eq!(table, BTreeMap::from(wanted));
    }
}
