//! Checks the name of a project's library. The name must be valid and unused in Rust, C, CMake, Python and the linker.

use anyhow::{Result, bail};
use std::path::Path;

/// Names that a library cannot have, because programs or languages already use them. Each list of names has a
/// description.
const TAKEN: &[(&str, &str)] = &[
    (
        "a crate that the project needs",
        "alloc core proc_macro std test xla_ffi xla_ffi_runtime",
    ),
    (
        "a Python package that the project needs",
        "jax jaxlib numpy pytest",
    ),
    ("a Python keyword", KEYWORDS),
    ("a module of Python's standard library", MODULES),
    (
        "a target of CMake",
        "all clean depend edit_cache help install list_install_components package rebuild_cache",
    ),
    (
        "a macro of C compilers or of the C library",
        "errno linux stderr stdin stdout unix",
    ),
];

const KEYWORDS: &str = "\
    and as assert async await break class continue def del elif else except finally for from global if \
    import in is lambda nonlocal not or pass raise return try while with yield";

/// The modules of Python's standard library, version 3.11.
const MODULES: &str = "\
    abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii \
    bisect builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys \
    compileall concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes curses \
    dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno \
    faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass \
    gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect \
    io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math \
    mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers \
    opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib \
    poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue \
    quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex \
    shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants \
    sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog \
    tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token tokenize \
    tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu \
    uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile \
    zipimport zlib zoneinfo";

/// Returns the name of the library for a project folder. Returns an error if the name cannot be used.
pub(super) fn library_name(path: &Path) -> Result<String> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let name = name.replace('-', "_");
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|first| first.is_ascii_lowercase());
    // Package indexes refuse projects whose names end with `_`.
    let ends = !name.ends_with('_');
    if !begins || !ends || !bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    {
        bail!(
            "'{}' is not a valid library name: use lower-case letters, digits, '_' and '-', starting with a letter and \
             ending with a letter or digit",
            path.display()
        );
    }
    let mut taken = TAKEN.iter();
    if let Some((by, _)) = taken.find(|(_, names)| names.split(' ').any(|taken| taken == name)) {
        bail!("'{name}' is already {by}; choose a different name");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(library_name(Path::new("a/my-op2")).unwrap(), "my_op2");
        for bad in ["2op", "My", "a b", "", "..", "é", "my_", "my-", "_"] {
            let error = library_name(Path::new(bad)).unwrap_err().to_string();
            assert!(
                error.contains("is not a valid library name"),
                "{bad}: {error}"
            );
        }
        for (taken, by) in [
            ("test", "crate"),
            ("xla-ffi", "crate"),
            ("jax", "package"),
            ("class", "keyword"),
            ("random", "module"),
            ("install", "CMake"),
            ("unix", "macro"),
        ] {
            let error = library_name(Path::new(taken)).unwrap_err().to_string();
            assert!(error.contains(by), "{taken}: {error}");
        }
        let words = TAKEN.iter().flat_map(|(_, names)| names.split(' '));
        assert!(words.into_iter().all(|word| !word.is_empty()));
    }
}
