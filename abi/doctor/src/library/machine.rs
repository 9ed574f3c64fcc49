//! Machines: a system and a processor. A library is for one, or its parts are for several.

use serde::Serialize;
use std::fmt;

/// A system that jaxlib is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// ELF.
    #[default]
    Linux,
    /// Mach-O.
    MacOs,
    /// PE.
    Windows,
}

/// A processor that jaxlib is built for: 64 bits, the least significant byte first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Processor {
    /// Intel's and AMD's.
    #[default]
    X86_64,
    /// Arm's.
    Aarch64,
}

/// What a library is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// The system.
    pub system: System,
    /// The processor.
    pub processor: Processor,
}

impl Machine {
    /// The machine that this program runs on, where it is one of these.
    #[must_use]
    pub fn current() -> Option<Self> {
        let system = match std::env::consts::OS {
            "linux" => System::Linux,
            "macos" => System::MacOs,
            "windows" => System::Windows,
            _ => return None,
        };
        let processor = match std::env::consts::ARCH {
            "x86_64" => Processor::X86_64,
            "aarch64" => Processor::Aarch64,
            _ => return None,
        };
        Some(Self { system, processor })
    }

    /// Whether libraries of this machine run here.
    #[must_use]
    pub fn is_current(self) -> bool {
        Self::current() == Some(self)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processor = match self.processor {
            Processor::X86_64 => "x86-64",
            Processor::Aarch64 => "AArch64",
        };
        let system = match self.system {
            System::Linux => "Linux",
            System::MacOs => "macOS",
            System::Windows => "Windows",
        };
        write!(f, "{processor} {system}")
    }
}

impl Serialize for Machine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The machine that this program runs on, in words.
#[must_use]
pub fn here() -> String {
    match Machine::current() {
        Some(machine) => machine.to_string(),
        None => format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
    }
}
