//! Texts that a command line names: lists of findings, maps of names, layouts, snapshots. Pipes that are open are welcome,
//! and a device without an end is told. And what a command may write to.

use anyhow::{Context, bail};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Bytes of such a text at most; the largest that there are have a few hundred thousand.
const MOST: u64 = 64 << 20;

/// The text of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let shown = crate::words::shown(path);
    let cannot = || format!("cannot read {shown}");
    check_opens(path)?;
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut text = String::new();
    let length = file.take(MOST + 1).read_to_string(&mut text);
    if length.with_context(cannot)? as u64 > MOST {
        bail!("{shown} has more than {} MiB", MOST >> 20);
    }
    Ok(text)
}

/// Refuses a pipe with a name: opening it waits for somebody at its other end, for good where nobody comes. Standard input
/// and output, and what a shell puts for `<(…)` and `>(…)`, are open already.
pub(crate) fn check_opens(path: &Path) -> anyhow::Result<()> {
    let is_open = ["/dev", "/proc"].iter().any(|open| path.starts_with(open));
    if !is_open && std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        bail!(
            "{}: it is not a regular file but a pipe, which would be waited for",
            crate::words::shown(path)
        );
    }
    Ok(())
}

/// Refuses to write to a file that the command reads.
///
/// # Errors
/// `out` is one of `inputs`, under this or another name, or a pipe with a name.
pub(crate) fn keep<'p>(
    out: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    check_opens(out)?;
    // What is not there is nothing to lose; a device is what it is afterwards.
    let Some(own) = std::fs::metadata(out)
        .ok()
        .filter(std::fs::Metadata::is_file)
    else {
        return Ok(());
    };
    let is_out = |input: &&Path| {
        std::fs::metadata(input)
            .is_ok_and(|other| (own.dev(), own.ino()) == (other.dev(), other.ino()))
    };
    match inputs.into_iter().find(is_out) {
        None => Ok(()),
        Some(_) => bail!(
            "{} is read by this command: write to another file",
            crate::words::shown(out)
        ),
    }
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
