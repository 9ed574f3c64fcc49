//! Texts that a command line names: lists of findings, maps of names, layouts, snapshots. Pipes are welcome, and a device
//! without an end is told.

use anyhow::{Context, bail};
use std::io::Read;
use std::path::Path;

/// Bytes of such a text at most; the largest that there are have a few hundred thousand.
const MOST: u64 = 64 << 20;

/// The text of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut text = String::new();
    let length = file.take(MOST + 1).read_to_string(&mut text);
    if length.with_context(cannot)? as u64 > MOST {
        bail!("{shown} has more than {} MiB", MOST >> 20);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    #[cfg(unix)]
    #[test]
    fn a_device_without_an_end_is_told() {
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "/dev/zero has more than 64 MiB");
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
        let error = read(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "cannot read /nowhere");
    }
}
