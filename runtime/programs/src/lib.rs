//! Programs of custom calls. XLA's term for a program is computation.
//!
//! A [`Builder`] combines parameters, constants, tuples and custom calls into a verified [`Program`]. A program
//! [runs](Program::compile) on the embedded runtime or on [XLA](Options::client). It can be printed as [HLO
//! text](Program::to_hlo) and as [StableHLO](Program::to_stablehlo), and [parsed](Program::from_hlo) from HLO text.
//!
//! ```
//! use xla_ffi_runtime::legacy::Function;
//! use xla_ffi_programs::{ApiVersion, Builder, CustomCall, ValueShape};
//! use xla_ffi_runtime::{DType, Runtime, Tensor, Tree};
//! use std::ffi::c_void;
//!
//! unsafe extern "C" fn tiled_add(out: *mut c_void, ins: *mut *const c_void) {
//!     for i in 0..6 {
//!         // SAFETY: the operands have 3 and 6 numbers, the result has 6.
//!         unsafe {
//!             let b = (*ins).cast::<f32>().add(i % 3).read();
//!             let c = (*ins.add(1)).cast::<f32>().add(i).read();
//!             out.cast::<f32>().add(i).write(b + c);
//!         }
//!     }
//! }
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let mut b = Builder::new("do_it");
//! let p0 = b.parameter(0, ValueShape::array(DType::F32, [3])?, "p0");
//! let p1 = b.parameter(1, ValueShape::array(DType::F32, [6])?, "p1");
//! let shape = ValueShape::array(DType::F32, [6])?;
//! let root = b.custom_call(CustomCall::legacy(ApiVersion::Original, "tiled_add", [p0, p1], shape));
//! let program = b.build(root)?;
//!
//! let runtime = Runtime::default();
//! // SAFETY: the signature is that of `tiled_add`.
//! runtime.register_legacy("tiled_add", "Host", unsafe { Function::cpu(tiled_add) })?;
//! let result = program.compile(&runtime)?.run([
//!     Tree::Leaf(Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0])?),
//!     Tree::Leaf(Tensor::from_slice([6], &[10.0_f32, 20.0, 30.0, 40.0, 50.0, 60.0])?),
//! ])?;
//! let sums = result.leaf().and_then(Tensor::to_vec::<f32>);
//! assert_eq!(sums, Some(vec![11.0, 22.0, 33.0, 41.0, 52.0, 63.0]));
//! # Ok(())
//! # }
//! ```

/// The chapter of the book, whose code runs as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/programs.md")]
mod chapter {}

mod builder;
mod custom_call;
mod diagnostic;
mod execute;
mod hlo;
mod hlo_cursor;
mod hlo_literal;
mod hlo_text;
mod instruction;
mod literal;
mod on_plugin;
mod options;
pub mod pjrt;
mod stablehlo;
mod verify;

pub use builder::Builder;
pub use custom_call::Op;
pub use custom_call::{Alias, Config, CustomCall, Schedule};
pub use diagnostic::{Diagnostic, ProgramError, Rule};
pub use execute::Compiled;
pub use options::{Called, Options};
pub use xla_ffi_runtime::legacy::ApiVersion;
pub use xla_ffi_runtime::{ArrayShape, MAX_DEPTH, MAX_NODES, ValueShape};

use instruction::{Instruction, Kind};
use std::sync::Arc;

/// A verified program. Clones are the same program.
#[derive(Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    instructions: Vec<Instruction>,
    root: usize,
    /// The indices of the parameters' instructions, in the order of the parameters' numbers.
    parameters: Vec<usize>,
    /// The nesting depth of called computations; 1 if the program calls no computation.
    depth: usize,
}

impl Program {
    fn new(name: String, instructions: Vec<Instruction>, root: usize) -> Self {
        let mut parameters: Vec<_> = instructions
            .iter()
            .enumerate()
            .filter_map(|(index, instruction)| match instruction.kind {
                Kind::Parameter(number) => Some((number, index)),
                _ => None,
            })
            .collect();
        parameters.sort_unstable();
        let called = instructions
            .iter()
            .flat_map(|instruction| match &instruction.kind {
                Kind::CustomCall(call) => call.called.as_slice(),
                _ => &[],
            });
        let depth = 1 + called.map(|program| program.inner.depth).max().unwrap_or(0);
        Self {
            inner: Arc::new(Inner {
                name,
                instructions,
                root,
                parameters: parameters.into_iter().map(|(_, index)| index).collect(),
                depth,
            }),
        }
    }

    /// Returns the name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the names and shapes of the parameters, in the order of their numbers.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &ValueShape)> {
        self.inner.parameters.iter().map(|&index| {
            let instruction = self.instruction(index);
            (instruction.name.as_str(), &instruction.shape)
        })
    }

    /// Returns the shape of the program's result.
    #[must_use]
    pub fn result(&self) -> &ValueShape {
        &self.instruction(self.inner.root).shape
    }

    /// Returns the name, HLO opcode and shape of every instruction, in program order.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = (&str, &'static str, &ValueShape)> {
        self.inner.instructions.iter().map(|instruction| {
            (
                instruction.name.as_str(),
                instruction.kind.opcode(),
                &instruction.shape,
            )
        })
    }

    /// Returns the called targets with their API versions, without repetitions, in order.
    #[must_use]
    pub fn targets(&self) -> Vec<(&str, ApiVersion)> {
        let mut targets = vec![];
        for instruction in &self.inner.instructions {
            if let Kind::CustomCall(call) = &instruction.kind {
                let target = (call.target.as_str(), call.api_version);
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
        }
        targets
    }

    fn instruction(&self, index: usize) -> &Instruction {
        &self.inner.instructions[index]
    }

    /// Returns true if both values are clones of the same program.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns all computations that this program calls, directly or indirectly, with unique names. Each computation
    /// precedes its callers. The name `main` is reserved for this program.
    fn computations(&self) -> Vec<(Self, String)> {
        fn visit(
            program: &Program,
            found: &mut Vec<(Program, String)>,
            names: &mut builder::Names,
        ) {
            for instruction in &program.inner.instructions {
                let Kind::CustomCall(call) = &instruction.kind else {
                    continue;
                };
                for called in &call.called {
                    if !found.iter().any(|(known, _)| known.is(called)) {
                        visit(called, found, names);
                        found.push((called.clone(), names.unique(called.name())));
                    }
                }
            }
        }
        let (mut found, mut names) = (vec![], builder::Names::default());
        names.reserve("main");
        visit(self, &mut found, &mut names);
        found
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.inner.name)
            .field("instructions", &self.inner.instructions.len())
            .field("result", &self.result().to_string())
            .finish_non_exhaustive()
    }
}
