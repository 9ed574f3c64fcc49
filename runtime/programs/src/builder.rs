//! Builds programs: a builder adds instructions one after the other, and verifies the program at the end.

use super::custom_call::Config;
use super::custom_call::Op;
use super::diagnostic::{Diagnostic, ProgramError, Rule};
use super::instruction::{Instruction, Kind};
use super::{ArrayShape, CustomCall, MAX_DEPTH, MAX_NODES, Program, ValueShape, verify};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use xla_ffi_runtime::{Attributes, DType, Tensor, Tree};

static BUILDERS: AtomicU64 = AtomicU64::new(1);

/// Builds a program. [`Builder::build`] reports all mistakes together, each with the instruction's name. Instructions
/// can only use earlier instructions, so a program has no cycles.
///
/// ```
/// use xla_ffi_runtime::DType;
/// use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Rule, ValueShape};
///
/// let mut b = Builder::new("do_it");
/// let p0 = b.parameter(0, ValueShape::array(DType::F32, [128])?, "p0");
/// let p1 = b.parameter(1, ValueShape::array(DType::F32, [2048])?, "p1");
/// let shape = ValueShape::array(DType::F32, [2048])?;
/// let call = CustomCall::legacy(ApiVersion::Original, "do_custom_call", [p0, p1], shape);
/// let root = b.custom_call(call);
/// let program = b.build(root)?;
/// assert_eq!(program.result().to_string(), "f32[2048]{0}");
///
/// let mut b = Builder::new("broken");
/// let p1 = b.parameter(1, ValueShape::token(), "p1");
/// let element = b.get_tuple_element(p1, 3);
/// let error = b.build(element).unwrap_err();
/// assert!(error.breaks(Rule::ParameterGap) && error.breaks(Rule::NotATuple));
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    id: u64,
    name: String,
    instructions: Vec<Draft>,
    diagnostics: Vec<(usize, Rule, String)>,
}

/// An instruction before its program is verified.
#[derive(Debug)]
struct Draft {
    name: Option<String>,
    /// The shape of the instruction; `None` if it is unknown because of a mistake. Mistakes that depend on an unknown
    /// shape are not reported.
    shape: Option<ValueShape>,
    kind: Kind,
}

impl Builder {
    /// Creates a builder for a program called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            id: BUILDERS.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            instructions: vec![],
            diagnostics: vec![],
        }
    }

    /// Returns the name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the last instruction; `None` if the builder has no instructions.
    #[must_use]
    pub fn last(&self) -> Option<Op> {
        let index = self.instructions.len().checked_sub(1)?;
        Some(self.op(index))
    }

    /// Returns the instruction at this index; `None` if the index is out of range.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<Op> {
        (index < self.instructions.len()).then(|| self.op(index))
    }

    /// Returns the shape of an instruction; `None` if the instruction belongs to a different builder, or if the shape
    /// is unknown because of a mistake.
    #[must_use]
    pub fn shape(&self, op: Op) -> Option<&ValueShape> {
        if op.builder != self.id {
            return None;
        }
        self.instructions.get(op.index)?.shape.as_ref()
    }

    /// Adds the parameter with index `number`. If `name` is empty, the parameter's name is `parameter.N`.
    pub fn parameter(&mut self, number: usize, shape: ValueShape, name: impl Into<String>) -> Op {
        let name = Some(name.into()).filter(|name| !name.is_empty());
        self.push(name, Some(shape), Kind::Parameter(number))
    }

    /// Adds a constant array. All element types are supported.
    pub fn constant(&mut self, tensor: Tensor) -> Op {
        if tensor.shape().dtype() == DType::Token {
            let message = "a constant is an array, this is a token; use `token`";
            self.report(Rule::Constant, message.to_owned());
        }
        let shape = Tree::Leaf(ArrayShape::new(tensor.shape().clone()));
        self.push(None, Some(shape), Kind::Constant(tensor))
    }

    /// Adds an instruction whose result is a token without dependencies.
    pub fn token(&mut self) -> Op {
        self.push(None, Some(ValueShape::token()), Kind::Token)
    }

    /// Adds a tuple of the given values.
    pub fn tuple(&mut self, elements: impl IntoIterator<Item = Op>) -> Op {
        let elements: Vec<_> = elements.into_iter().collect();
        let indices = self.operands(&elements);
        let shape = indices
            .iter()
            .map(|&index| self.instructions.get(index)?.shape.clone())
            .collect::<Option<Vec<_>>>()
            .filter(|shapes| shapes.len() == elements.len())
            .map(Tree::tuple);
        self.push(None, shape, Kind::Tuple(indices))
    }

    /// Adds an instruction whose result is the element with index `element` of a tuple.
    pub fn get_tuple_element(&mut self, tuple: Op, element: usize) -> Op {
        let operand = self.operands(&[tuple]).first().copied();
        let shape = self.shape(tuple).cloned();
        let shape = match shape {
            None => None,
            Some(Tree::Leaf(leaf)) => {
                let message =
                    format!("element {element} of a tuple is asked for, but {leaf} is not a tuple");
                self.report(Rule::NotATuple, message);
                None
            }
            Some(Tree::Tuple(elements)) if element < elements.len() => {
                elements.into_iter().nth(element)
            }
            Some(Tree::Tuple(elements)) => {
                let message = format!(
                    "element {element} of a tuple of {} is asked for",
                    elements.len()
                );
                self.report(Rule::ElementRange, message);
                None
            }
        };
        let operand = operand.unwrap_or(0);
        self.push(None, shape, Kind::GetTupleElement { operand, element })
    }

    /// Adds a custom call, and returns the instruction of its result.
    pub fn custom_call(&mut self, mut call: CustomCall) -> Op {
        let indices = self.operands(&call.operands);
        let operands: Vec<_> = call
            .operands
            .iter()
            .map(|op| self.shape(*op).cloned())
            .collect();
        if call.api_version == super::ApiVersion::TypedFfi {
            if let Config::Opaque(opaque) = &call.config {
                match typed_attributes(opaque) {
                Ok(attributes) => call.config = Config::Attributes(attributes),
                Err(why) => self.report(
                    Rule::OpaqueWithTypedFfi,
                    format!(
                        "a typed FFI handler takes attributes, but the opaque is not a dictionary of attributes: {why}"
                    ),
                ),
            }
            }
        }
        for (rule, message) in verify::custom_call(&call, &operands) {
            self.report(rule, message);
        }
        let depths = call.called.iter().map(|program| program.inner.depth);
        let depth = depths.max().unwrap_or(0);
        if depth >= MAX_DEPTH {
            self.report(
                Rule::Depth,
                format!("its computations call others {depth} deep, {MAX_DEPTH} is the limit"),
            );
        }
        let (name, shape) = (call.name.take(), call.shape.clone());
        let call = call.with_operands(indices);
        self.push(name, Some(shape), Kind::CustomCall(Box::new(call)))
    }

    /// Sets the name of an instruction. If the instruction belongs to a different builder, [`Builder::build`] reports
    /// a mistake.
    pub fn set_name(&mut self, op: Op, name: impl Into<String>) {
        let name = name.into();
        let own = op.builder == self.id;
        match self.instructions.get_mut(op.index).filter(|_| own) {
            Some(draft) => draft.name = Some(name),
            None => {
                let message = format!("{name:?} names what is not an instruction of this program");
                self.diagnostics
                    .push((usize::MAX, Rule::UnknownOperand, message));
            }
        }
    }

    /// Verifies and returns the program whose result is `root`.
    ///
    /// # Errors
    /// All mistakes in the program, with the instructions' names.
    pub fn build(self, root: Op) -> Result<Program, ProgramError> {
        let mut diagnostics = vec![];
        let mut tell = |instruction: &str, rule: Rule, message: String| {
            diagnostics.push(Diagnostic {
                instruction: instruction.to_owned(),
                rule,
                message,
            });
        };
        if let Some(why) = illegal(&self.name) {
            tell(
                "",
                Rule::Name,
                format!("{:?} is not a name: {why}", self.name),
            );
        }
        let mut names = Names::default();
        for draft in &self.instructions {
            let Some(name) = &draft.name else { continue };
            if let Some(why) = illegal(name) {
                tell(name, Rule::Name, format!("this is not a name: {why}"));
            } else if !names.reserve(name) {
                let message = "another instruction has this name".to_owned();
                tell(name, Rule::UniqueName, message);
            }
        }
        let names: Vec<String> = self
            .instructions
            .iter()
            .enumerate()
            .map(|(index, draft)| match &draft.name {
                Some(name) => name.clone(),
                None => names.unique(&format!("{}.{index}", draft.kind.opcode())),
            })
            .collect();
        for (index, rule, message) in self.diagnostics {
            let name = names.get(index).map_or("", String::as_str);
            tell(name, rule, message);
        }
        verify::parameters(
            self.instructions
                .iter()
                .zip(&names)
                .filter_map(|(draft, name)| match draft.kind {
                    Kind::Parameter(number) => Some((number, name.as_str())),
                    _ => None,
                }),
            &mut tell,
        );
        if root.builder != self.id || root.index >= self.instructions.len() {
            let message = "the root is not an instruction of this program".to_owned();
            tell("", Rule::UnknownRoot, message);
        }
        if !diagnostics.is_empty() {
            return Err(ProgramError {
                program: self.name,
                diagnostics,
            });
        }
        let instructions = self
            .instructions
            .into_iter()
            .zip(names)
            .map(|(draft, name)| Instruction {
                name,
                shape: draft.shape.unwrap_or(Tree::tuple([])),
                kind: draft.kind,
            })
            .collect();
        Ok(Program::new(self.name, instructions, root.index))
    }

    fn op(&self, index: usize) -> Op {
        Op {
            builder: self.id,
            index,
        }
    }

    fn push(&mut self, name: Option<String>, shape: Option<ValueShape>, kind: Kind) -> Op {
        if let Some(shape) = &shape {
            let (depth, nodes) = (shape.depth(), shape.nodes().count());
            if depth > MAX_DEPTH {
                let message = format!("its tuples nest {depth} deep, {MAX_DEPTH} is the limit");
                self.report(Rule::Depth, message);
            }
            if nodes > MAX_NODES {
                let message = format!("its shape has {nodes} nodes, {MAX_NODES} is the limit");
                self.report(Rule::Depth, message);
            }
        }
        let op = self.op(self.instructions.len());
        self.instructions.push(Draft { name, shape, kind });
        op
    }

    /// Records a mistake in the next instruction.
    fn report(&mut self, rule: Rule, message: String) {
        self.diagnostics
            .push((self.instructions.len(), rule, message));
    }

    /// Returns the indices of the next instruction's operands, and records a mistake for unknown operands.
    fn operands(&mut self, ops: &[Op]) -> Vec<usize> {
        let mut indices = vec![];
        for (number, op) in ops.iter().enumerate() {
            if op.builder == self.id && op.index < self.instructions.len() {
                indices.push(op.index);
            } else {
                let message = format!("operand {number} is not an instruction of this program");
                self.report(Rule::UnknownOperand, message);
            }
        }
        indices
    }
}

/// Parses the attributes of a typed handler from an opaque, as XLA's builder does.
fn typed_attributes(opaque: &[u8]) -> Result<Attributes, String> {
    let text = std::str::from_utf8(opaque).map_err(|error| error.to_string())?;
    if text.trim().is_empty() {
        return Ok(Attributes::new());
    }
    Attributes::parse(text).map_err(|error| error.to_string())
}

/// Returns the reason why HLO's parser refuses this name; `None` if it accepts the name.
fn illegal(name: &str) -> Option<&'static str> {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Some("names begin with an ASCII letter or '_'");
    }
    if !name.chars().all(word) {
        return Some("names are made of ASCII letters, digits, '_', '-' and '.'");
    }
    let is_type = DType::all().any(|dtype| dtype.name() == name);
    if is_type || matches!(name, "opaque" | "tuple_type" | "true" | "false") {
        return Some("the word means something else in HLO; append '_'");
    }
    None
}

/// The names of the instructions of a program.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Reserves a name; returns `false` if the name is already in use.
    pub(super) fn reserve(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Reserves and returns `wanted` or, if this name is in use, `wanted` with a suffix.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.reserve(&name) {
            name.push('_');
        }
        name
    }
}
