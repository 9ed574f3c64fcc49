//! Runs a C++ compiler over a header's translation unit.

use crate::header::{Error, FLAT, SUBJECT, Source};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Address space that a compiler may take: a header needs some hundred megabytes.
const MEMORY: libc::rlim_t = 4 << 30;

/// Compiles the unit in `folder` to a library with debug information and gives its bytes.
pub(crate) fn debug_library(
    source: &Source,
    folder: &Path,
    limit: Duration,
) -> Result<Vec<u8>, Error> {
    let compiler = find().ok_or_else(|| {
        Error::Missing("no C++ compiler is there (looked for $CXX, g++, clang++, c++)".to_owned())
    })?;
    // Upstream's table has slots named as their types, which GCC takes from C++ only where `extern "C"` stands around: a
    // copy in a namespace has none, and Clang reads it.
    let said = match compile(&compiler, &[], source, folder, limit) {
        Err(Error::Parse { messages, .. }) if messages.contains("changes meaning of") => {
            compile(&compiler, &["-fpermissive"], source, folder, limit)
        }
        other => other,
    };
    said.and_then(|library| Ok(std::fs::read(library)?))
}

fn compile(
    compiler: &str,
    flags: &[&str],
    source: &Source,
    folder: &Path,
    limit: Duration,
) -> Result<PathBuf, Error> {
    let library = folder.join("unit.so");
    let mut command = start(compiler);
    command
        .args([
            "-std=c++17",
            "-w",
            "-g",
            "-O0",
            "-fPIC",
            "-shared",
            "-nodefaultlibs",
        ])
        .args(flags)
        // Types that nothing uses are what we came for.
        .arg("-fno-eliminate-unused-debug-types")
        // What the linker would compress or split, this reader would not see.
        .args(["-gz=none", "-gno-split-dwarf"])
        .arg("-o")
        .arg(&library)
        .arg(folder.join("unit.cc"));
    for define in source.defines() {
        command.arg(format!("-D{define}"));
    }
    for include in source.includes() {
        command.arg("-I").arg(include);
    }
    command.arg("-I").arg(folder.join(FLAT));
    let (succeeded, messages) = run(command, limit)?;
    if !succeeded {
        let subject = folder.join(SUBJECT).display().to_string();
        let messages = messages.replace(&subject, &source.path().display().to_string());
        let mut lines: Vec<&str> = messages
            .lines()
            .filter(|line| line.contains("error"))
            .take(10)
            .collect();
        if lines.is_empty() {
            lines = messages.lines().take(3).collect();
        }
        if lines.is_empty() {
            lines.push("the compiler failed and said nothing");
        }
        let messages: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        return Err(Error::Parse {
            path: source.path().to_owned(),
            messages: messages.trim_end().to_owned(),
        });
    }
    Ok(library)
}

/// The compiler to use; `CXX` decides where it is set.
fn find() -> Option<String> {
    let candidates = match std::env::var("CXX") {
        Ok(compiler) if !compiler.is_empty() => vec![compiler],
        _ => ["g++", "clang++", "c++"].map(str::to_owned).to_vec(),
    };
    candidates.into_iter().find(|compiler| {
        start(compiler)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// The folder of the headers that the compiler brings, `stdbool.h` for instance.
pub(crate) fn own_headers() -> Option<String> {
    let output = start(&find()?)
        .arg("-print-file-name=include")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    let folder = folder.trim();
    Path::new(folder).is_dir().then(|| folder.to_owned())
}

/// A command for a compiler that may be named with arguments, as in `CXX="ccache g++"`.
fn start(compiler: &str) -> Command {
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(compiler));
    command.args(words);
    command
}

/// Runs `command` under the time limit; gives whether it succeeded and what it said.
fn run(mut command: Command, limit: Duration) -> Result<(bool, String), Error> {
    let what = command.get_program().to_string_lossy().into_owned();
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and makes calls alone that are safe to make there.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            limit_time(limit);
            limit_memory()
        });
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .process_group(0)
        .spawn()
        .map_err(|error| Error::Missing(format!("cannot run {what}: {error}")))?;
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            // A compiler that talks without end is cut off here and stopped by the clock.
            let _ = stderr.by_ref().take(1 << 20).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            stop(&mut child);
            return Err(Error::Time {
                what,
                seconds: limit.as_secs(),
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    let messages = reader.join().unwrap_or_default();
    Ok((status.success(), messages))
}

/// Runs in the child before the compiler does: nobody looks at the clock for it when this process has been killed.
fn die_with(parent: u32) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a signal when the thread that started the child ends, which waits for it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if std::os::unix::process::parent_id() != parent {
            // It died before the line above.
            return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    let _ = parent;
    Ok(())
}

/// Runs in the child before the compiler does: what the driver starts does not die with it, and ends by this at the latest.
fn limit_time(limit: Duration) {
    // The clock of this process comes first where there is one.
    let seconds = limit.as_secs().saturating_add(5);
    let limit = libc::rlimit {
        rlim_cur: seconds,
        rlim_max: seconds,
    };
    // SAFETY: reads one struct, and limits the calling process alone. Where it is refused the clock is left.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
}

/// Runs in the child before the compiler does.
fn limit_memory() -> std::io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: MEMORY,
        rlim_max: MEMORY,
    };
    // SAFETY: reads one struct, and limits the calling process alone.
    let outcome = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    // Not every system takes this limit; the clock is the other.
    if outcome == 0 || !cfg!(target_os = "linux") {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Ends the compiler driver and the compiler that it started.
fn stop(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: kill touches no memory; the child leads a process group of its own and has not
        // been waited for, so the number cannot mean anyone else.
        unsafe {
            libc::kill(-group, libc::SIGKILL);
        }
    }
    let _ = child.wait();
}
