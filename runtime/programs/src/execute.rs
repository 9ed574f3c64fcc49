//! Compiles programs for the embedded runtime, and runs compiled programs.

mod values;

use self::values::{
    Place, Places, address, alias_sources, operand_layouts, placeholder, places, read, starts,
    to_row_major,
};
use super::custom_call::Config;
use super::instruction::Kind;
use super::instruction::live;
use super::on_plugin::OnPlugin;
use super::{Called, CustomCall, Options, Program, ValueShape};
use std::ffi::c_void;
use std::sync::Arc;
use values::to_layout;
use xla_ffi_runtime::__programs::Poison;
use xla_ffi_runtime::legacy::{Invocation, Target};
use xla_ffi_runtime::{
    Call, Error, ErrorCode, Executable, Result, Revision, Runtime, Shape, Tensor, Tree, Unwritten,
};

/// Runs a custom call of a program.
enum Runner {
    Typed(Executable),
    Legacy(Target),
}

/// A compiled program, whose targets are resolved. It can run many times, also on several threads at once.
pub struct Compiled {
    program: Program,
    options: Options,
    /// The program in a PJRT plugin, if XLA runs it. The following fields are then not used.
    on_plugin: Option<OnPlugin>,
    /// The runner of each instruction; `None` if the instruction is not a call or does not have to run.
    runners: Vec<Option<Runner>>,
    live: Vec<bool>,
    /// For each leaf of the result, the call and the leaf that the call writes; `None` if no call writes the leaf.
    places: Vec<Option<Place>>,
}

impl Program {
    /// Compiles the program for the CPU: finds the targets in a runtime and runs the instantiate stages of typed
    /// handlers. The compiled program keeps the handlers' state.
    ///
    /// As in XLA, a call without side effects does not run if its results are unused or only empty arrays of them are
    /// used. The targets of such calls are not looked up.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing target, and errors from instantiate stages.
    pub fn compile(&self, runtime: &Runtime) -> Result<Compiled> {
        self.compile_with(runtime, Options::new())
    }

    /// Compiles the program like [`Program::compile`], with options: for example a platform, a form of tuples, or XLA
    /// as the host.
    ///
    /// # Errors
    /// The errors of [`Program::compile`]; on XLA, errors of the plugin and of its compiler.
    pub fn compile_with(&self, runtime: &Runtime, options: Options) -> Result<Compiled> {
        if let Some(client) = &options.client {
            return Ok(Compiled {
                on_plugin: Some(OnPlugin::compile(self, runtime, &options, client)?),
                program: self.clone(),
                options,
                runners: vec![],
                live: vec![],
                places: vec![],
            });
        }
        let live = live(self);
        let runners = self
            .inner
            .instructions
            .iter()
            .zip(&live)
            .map(|(instruction, &live)| match &instruction.kind {
                Kind::CustomCall(call) if live => runner(runtime, &options, call)
                    .map(Some)
                    .map_err(|error| within(error, &instruction.name)),
                _ => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        let mut places = places(self);
        if runtime.revision() < Revision::R5 {
            // On hosts before r5, the runtime converts packed elements, and therefore does not write them to memory
            // of the caller.
            for (place, leaf) in places.iter_mut().zip(self.result().leaves()) {
                *place = place.filter(|_| !leaf.shape().dtype().is_packed());
            }
        }
        Ok(Compiled {
            on_plugin: None,
            places,
            program: self.clone(),
            options,
            runners,
            live,
        })
    }
}

/// Adds the instruction's name to an error's message. Messages of handlers are not changed.
fn within(error: Error, instruction: &str) -> Error {
    if error.is_from_handler() {
        return error;
    }
    error.within(format_args!("instruction '{instruction}'"))
}

fn runner(runtime: &Runtime, options: &Options, call: &CustomCall<usize>) -> Result<Runner> {
    match &call.config {
        Config::Attributes(attributes) => Ok(Runner::Typed(
            runtime
                .find(&call.target, options.platform_name())?
                .instantiate(attributes)?,
        )),
        Config::Opaque(_) => runtime
            .find_legacy(&call.target, options.platform_name(), call.api_version)
            .map(Runner::Legacy),
    }
}

impl Compiled {
    /// Returns the program that was compiled.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs the program with one value per parameter. All arrays are row-major, also if the program's layouts differ.
    ///
    /// An argument without other owners is donated: a call whose output aliases the argument writes to its memory.
    /// Other aliased arguments are copied before the call.
    ///
    /// # Errors
    /// Errors for arguments that do not match the parameters, with the parameter's name, and the error of the first
    /// failing call. No later call runs, and no results are returned.
    pub fn run(&self, arguments: impl IntoIterator<Item = Tree<Tensor>>) -> Result<Tree<Tensor>> {
        self.execute(arguments, Places::new(), |call| call)
    }

    /// Runs the program like [`Compiled::run`]. If possible, calls write the leaves of the result to the tensors in
    /// `results`, in pre-order, and these tensors are returned. `context` is used as in [`Compiled::run_with`]; XLA
    /// ignores it.
    ///
    /// Some leaves are returned in a new tensor, which the caller must copy. These are parameters, constants, leaves
    /// in an operand's memory, leaves that are not row-major or occur twice in the result, and leaves without a
    /// tensor. The same applies to packed elements on hosts before r5, and to all leaves on XLA. After a failure, the
    /// tensors' contents are unspecified.
    ///
    /// # Errors
    /// The errors of [`Compiled::run`]; errors for tensors that have clones, or whose shape differs from that of
    /// their leaf.
    pub fn run_into(
        &self,
        arguments: impl IntoIterator<Item = Tree<Tensor>>,
        results: impl IntoIterator<Item = Option<Tensor>>,
        context: impl FnMut(Call) -> Call,
    ) -> Result<Tree<Tensor>> {
        let mut places = Places::new();
        let leaves = self.program.result().leaves();
        for ((result, leaf), place) in results.into_iter().zip(leaves).zip(&self.places) {
            let Some(tensor) = result else { continue };
            if tensor.shape() != leaf.shape() {
                return Err(Error::invalid_argument(format!(
                    "a tensor {} is given for {} of the result",
                    tensor.shape(),
                    leaf.shape()
                )));
            }
            if let Some(place) = place {
                places.insert(*place, tensor);
            }
        }
        self.execute(arguments, places, context)
    }

    /// Runs the program like [`Compiled::run`]. `context` changes the call of each typed handler, for example its run
    /// id, user data or time limit.
    ///
    /// # Errors
    /// The errors of [`Compiled::run`]; `UNIMPLEMENTED` on XLA, which creates the contexts of its calls (use
    /// [`pjrt::Launch`](super::pjrt::Launch) for the values that XLA supports).
    pub fn run_with(
        &self,
        arguments: impl IntoIterator<Item = Tree<Tensor>>,
        context: impl FnMut(Call) -> Call,
    ) -> Result<Tree<Tensor>> {
        if self.on_plugin.is_some() {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                "a real XLA makes the contexts of its calls itself: pjrt::Launch sets what it takes",
            ));
        }
        self.execute(arguments, Places::new(), context)
    }

    fn execute(
        &self,
        arguments: impl IntoIterator<Item = Tree<Tensor>>,
        mut places: Places,
        mut context: impl FnMut(Call) -> Call,
    ) -> Result<Tree<Tensor>> {
        let mut arguments: Vec<_> = arguments.into_iter().map(Some).collect();
        self.check(&arguments)?;
        if let Some(on_plugin) = &self.on_plugin {
            return on_plugin.run(&self.program, arguments.into_iter().flatten());
        }
        let instructions = &self.program.inner.instructions;
        let mut uses = self.uses();
        let mut values: Vec<Option<Tree<Tensor>>> = Vec::with_capacity(instructions.len());
        for (index, instruction) in instructions.iter().enumerate() {
            if uses[index] == 0 && self.runners[index].is_none() {
                values.push(None);
                continue;
            }
            let value = match &instruction.kind {
                Kind::Parameter(number) => arguments.get_mut(*number).and_then(Option::take),
                Kind::Constant(tensor) => Some(Tree::Leaf(tensor.clone())),
                Kind::Token => Some(Tree::Leaf(Tensor::zeros(Shape::token())?)),
                Kind::Tuple(operands) => Some(Tree::tuple(
                    operands
                        .iter()
                        .map(|&operand| read(&mut values, &mut uses, operand)),
                )),
                Kind::GetTupleElement { operand, element } => {
                    match read(&mut values, &mut uses, *operand) {
                        Tree::Tuple(elements) => elements.into_iter().nth(*element),
                        leaf => Some(leaf),
                    }
                }
                Kind::CustomCall(call) => {
                    let mut operands = || {
                        let operands = call.operands.iter();
                        let values = operands.map(|&at| read(&mut values, &mut uses, at));
                        values.collect()
                    };
                    let mut place = |leaf: usize| places.remove(&(index, leaf));
                    let result = match &self.runners[index] {
                        // The call does not run, because no array with elements of its result is used.
                        None => placeholder(&instruction.shape),
                        Some(Runner::Typed(executable)) => {
                            self.typed(executable, call, operands(), &mut place, &mut context)
                        }
                        Some(Runner::Legacy(target)) => {
                            self.legacy(target, call, operands(), &mut place)
                        }
                    };
                    Some(result.map_err(|error| within(error, &instruction.name))?)
                }
            };
            // Values without further uses are freed immediately.
            values.push(value.filter(|_| uses[index] > 0));
        }
        Ok(read(&mut values, &mut uses, self.program.inner.root))
    }

    /// Returns the number of uses of each value, by instructions that run or whose value is used.
    fn uses(&self) -> Vec<usize> {
        let instructions = &self.program.inner.instructions;
        let mut uses = vec![0; instructions.len()];
        uses[self.program.inner.root] = 1;
        for (index, instruction) in instructions.iter().enumerate().rev() {
            let runs = match instruction.kind {
                Kind::CustomCall(_) => self.live[index],
                _ => uses[index] > 0,
            };
            if runs {
                for &operand in instruction.kind.operands() {
                    uses[operand] += 1;
                }
            }
        }
        uses
    }

    fn check(&self, arguments: &[Option<Tree<Tensor>>]) -> Result<()> {
        let parameters = self.program.parameters();
        if parameters.len() != arguments.len() {
            return Err(Error::invalid_argument(format!(
                "program '{}' has {} parameters, got {} arguments",
                self.program.name(),
                parameters.len(),
                arguments.len()
            )));
        }
        for ((name, shape), argument) in parameters.zip(arguments.iter().flatten()) {
            let came = argument.map(|tensor| super::ArrayShape::new(tensor.shape().clone()));
            if !came.is_compatible(shape) {
                return Err(Error::invalid_argument(format!(
                    "parameter '{name}' of program '{}': expected {}, got {}",
                    self.program.name(),
                    shape.without_layouts(),
                    came.without_layouts()
                )));
            }
        }
        Ok(())
    }

    fn typed(
        &self,
        executable: &Executable,
        call: &CustomCall<usize>,
        operands: Vec<Tree<Tensor>>,
        place: &mut impl FnMut(usize) -> Option<Tensor>,
        context: &mut impl FnMut(Call) -> Call,
    ) -> Result<Tree<Tensor>> {
        let mut frame = executable.call().unwritten(self.options.unwritten);
        if let Some(limit) = self.options.limit {
            frame = frame.time_limit(limit);
        }
        if let Some(device) = &self.options.device {
            frame = frame.on_device(device);
        }
        if !call.called.is_empty() || call.literal.is_some() {
            frame = frame.called_computation(Arc::new(Called {
                computations: call.called.clone(),
                literal: call.literal.clone(),
            }));
        }
        let laid_out = operand_layouts(call, &operands);
        let starts = starts(&operands);
        frame = frame.args(arguments(operands, &laid_out)?);
        let mut sources = alias_sources(call, &starts, &laid_out).into_iter();
        for (number, leaf) in call.shape.leaves().enumerate() {
            frame = match (sources.next().flatten(), place(number)) {
                (Some(argument), _) => frame.ret_alias(argument),
                (None, Some(tensor)) => frame.ret_in(tensor),
                (None, None) => frame.ret(leaf.shape().clone()),
            };
        }
        // The closure is called after the operands are added, so operands that it adds follow them.
        let results = context(frame).run()?.rets;
        if let Some(device) = &self.options.device {
            device.stream.stream().synchronize()?;
        }
        to_row_major(call, results)
    }

    fn legacy(
        &self,
        target: &Target,
        call: &CustomCall<usize>,
        operands: Vec<Tree<Tensor>>,
        place: &mut impl FnMut(usize) -> Option<Tensor>,
    ) -> Result<Tree<Tensor>> {
        let laid_out = operand_layouts(call, &operands);
        let starts = starts(&operands);
        let structure: Vec<Tree<()>> = operands.iter().map(|operand| operand.map(|_| ())).collect();
        let mut arguments = arguments(operands, &laid_out)?;
        let rets = &mut alias_sources(call, &starts, &laid_out)
            .into_iter()
            .zip(call.shape.leaves())
            .enumerate()
            .map(|(number, (source, leaf))| match (source, place(number)) {
                (Some(argument), _) => xla_ffi_runtime::Ret::Alias(argument),
                (None, Some(tensor)) => xla_ffi_runtime::Ret::In(tensor),
                (None, None) => xla_ffi_runtime::Ret::New(leaf.shape().clone()),
            })
            .collect();
        let mut results = vec![];
        Call::operands(&mut arguments, rets, &mut results)?;
        let mut pointers = arguments.iter().map(address);
        let operands: Vec<Tree<*mut c_void>> = structure
            .iter()
            .map(|tree| tree.map(|_| pointers.next().unwrap_or(std::ptr::null_mut())))
            .collect();
        let mut pointers = results.iter().map(address);
        let result = call
            .shape
            .map(|_| pointers.next().unwrap_or(std::ptr::null_mut()));
        let mut invocation = Invocation::new(target, &operands, &result);
        if let Some(form) = self.options.tuples {
            if form.fits(target.signature()) {
                invocation = invocation.form(form);
            }
        }
        if let Config::Opaque(opaque) = &call.config {
            invocation = invocation.opaque(opaque);
        }
        if let Some(device) = &self.options.device {
            invocation = invocation.stream(device.stream.stream());
        }
        let poison = (self.options.unwritten == Unwritten::Refused)
            // SAFETY: only this call uses the tensors.
            .then(|| unsafe { Poison::tensors(&arguments, &results) });
        // SAFETY: the leaves are the addresses of the tensors' memory, which has the program's sizes and stays valid
        // until `run` returns. The registration of the target guarantees that it stays within its operands.
        unsafe { invocation.run() }?;
        for (number, tensor) in arguments.iter().chain(&results).enumerate() {
            let what = format!("operand or result {number} of the call");
            if let Some(finding) = tensor.check_guard(&what) {
                return Err(Error::hazard(finding.hazard, finding.message));
            }
        }
        if let Some(poison) = poison {
            // SAFETY: the call has finished, and the tensors still exist.
            unsafe { poison.check() }
                .map_err(|error| error.within(format_args!("legacy target '{}'", target.name())))?;
        }
        drop(arguments);
        to_row_major(call, results)
    }
}

/// Returns the arrays of all operands, each in the layout in which the target receives it.
fn arguments(operands: Vec<Tree<Tensor>>, layouts: &[ValueShape]) -> Result<Vec<Tensor>> {
    let leaves = operands.into_iter().flat_map(Tree::into_leaves);
    let layouts = layouts.iter().flat_map(Tree::leaves);
    let laid_out = leaves.zip(layouts);
    laid_out
        .map(|(tensor, layout)| to_layout(&tensor, layout))
        .collect()
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("program", &self.program)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Compiled>();
    shared::<Program>();
};
