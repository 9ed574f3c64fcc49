//! A single custom call on XLA. This module builds the program of the call.

use super::client::Client;
use crate::{Builder, CustomCall, Program, ValueShape};
use std::ffi::c_void;
use std::time::Duration;
use xla_ffi_runtime::{Attributes, DType, Error, ErrorCode, Result, Ret, Shape, Tensor, Tree};
/// A call of a registered handler on XLA; the counterpart of [`xla_ffi_runtime::Call`].
#[must_use = "a call does nothing before it is run"]
pub struct Call {
    client: Client,
    target: String,
    attributes: Attributes,
    arguments: Vec<Tensor>,
    rets: Vec<Ret>,
    user_data: Vec<(i64, *mut c_void)>,
    launch_id: i32,
    limit: Option<Duration>,
}

impl Client {
    /// Returns a call, without operands, of the handler that is registered as `target`.
    pub fn call(&self, target: impl Into<String>) -> Call {
        Call::new(self.clone(), target.into())
    }
}

impl Call {
    pub(super) fn new(client: Client, target: String) -> Self {
        Self {
            client,
            target,
            attributes: Attributes::new(),
            arguments: vec![],
            rets: vec![],
            user_data: vec![],
            launch_id: 0,
            limit: None,
        }
    }

    /// Sets the attributes of the call.
    pub fn attributes(mut self, attributes: &Attributes) -> Self {
        self.attributes = attributes.clone();
        self
    }

    /// Adds an argument. A tensor of type token becomes a token of the program.
    pub fn arg(mut self, argument: Tensor) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Adds several arguments, like [`Call::arg`].
    pub fn args(mut self, arguments: impl IntoIterator<Item = Tensor>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Adds a result. A result from a shape gets new memory; for other memory, see [`Ret`].
    pub fn ret(mut self, ret: impl Into<Ret>) -> Self {
        self.rets.push(ret.into());
        self
    }

    /// Adds a result in the memory of a copy of the argument with this index.
    pub fn ret_alias(mut self, argument: usize) -> Self {
        self.rets.push(Ret::Alias(argument));
        self
    }

    /// Sets the run id, the number of the execution; see [`super::Launch::launch_id`].
    pub fn launch_id(mut self, id: i32) -> Self {
        self.launch_id = id;
        self
    }

    /// Sets the time limit of the execution; see [`super::Launch::time_limit`].
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Adds an object to the user data of the execution; see [`super::Launch::user_data`].
    ///
    /// # Safety
    /// The object must have the type `type_id`, be usable from any thread, and outlive the execution, even after its
    /// time limit.
    pub unsafe fn user_data(mut self, type_id: i64, object: *const c_void) -> Self {
        self.user_data.push((type_id, object.cast_mut()));
        self
    }

    /// Returns the program of the call: a parameter for each argument other than tokens, the call, and its results.
    /// The call is declared to have a side effect, so that XLA does not remove it if its results are empty.
    ///
    /// # Errors
    /// The mistakes that the [`Builder`] finds in the call.
    pub fn program(&self) -> Result<Program> {
        let mut builder = Builder::new("call");
        let mut operands = vec![];
        let mut parameters = 0;
        for argument in &self.arguments {
            operands.push(if is_token(argument.shape()) {
                builder.token()
            } else {
                parameters += 1;
                let name = format!("arg{}", operands.len());
                builder.parameter(parameters - 1, value(argument.shape())?, name)
            });
        }
        let mut shapes = self
            .rets
            .iter()
            .map(|ret| match ret {
                Ret::New(shape) => value(shape),
                Ret::Alias(argument) => self
                    .arguments
                    .get(*argument)
                    .ok_or_else(|| {
                        Error::invalid_argument(format!("the call has no argument {argument}"))
                    })
                    .and_then(|argument| value(argument.shape())),
                _ => Err(Error::new(
                    ErrorCode::Unimplemented,
                    "a plugin's results are in its own memory or in that of an argument",
                )),
            })
            .collect::<Result<Vec<_>>>()?;
        let single = shapes.len() == 1;
        let shape = match shapes.pop() {
            Some(shape) if single => shape,
            last => Tree::tuple(shapes.into_iter().chain(last)),
        };
        let mut call = CustomCall::ffi(self.target.as_str(), operands, shape)
            .attributes(self.attributes.clone())
            .with_side_effect();
        for (index, ret) in self.rets.iter().enumerate() {
            if let Ret::Alias(argument) = ret {
                let output = if single { vec![] } else { vec![index] };
                call = call.alias(output, *argument, []);
            }
        }
        let root = builder.custom_call(call);
        Ok(builder.build(root)?)
    }

    /// Compiles the program, which runs the handler's instantiate stage, and runs the program once.
    ///
    /// # Errors
    /// The errors of [`Client::compile`] and [`super::Launch::run`].
    pub fn run(self) -> Result<Vec<Tensor>> {
        let loaded = self.client.compile(self.program()?.to_stablehlo()?)?;
        let buffers = self
            .arguments
            .iter()
            .filter(|argument| !is_token(argument.shape()))
            .map(|argument| self.client.upload(argument))
            .collect::<Result<Vec<_>>>()?;
        let mut launch = loaded
            .launch()
            .args(&buffers)
            .launch_id(self.launch_id)
            .time_limit(self.limit);
        for (type_id, object) in self.user_data {
            // SAFETY: guaranteed by the caller of `user_data`.
            launch = unsafe { launch.user_data(type_id, object) };
        }
        let results = launch.run()?;
        results.iter().map(super::Buffer::download).collect()
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

fn is_token(shape: &Shape) -> bool {
    shape.dtype() == DType::Token
}

fn value(shape: &Shape) -> Result<ValueShape> {
    if is_token(shape) {
        Ok(ValueShape::token())
    } else {
        ValueShape::array(shape.dtype(), shape.dims())
    }
}
