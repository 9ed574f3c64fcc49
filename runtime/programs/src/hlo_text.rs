//! Parses programs from HLO text: the inverse of [`Program::to_hlo`].

use super::custom_call::Config;
use super::hlo_cursor::Cursor;
use super::{ApiVersion, Builder, CustomCall, Op, Program, Schedule, ValueShape, hlo_literal};
use std::collections::BTreeMap;
use xla_ffi_runtime::{Attributes, Error, ErrorCode, Result, Tensor};

/// Attributes of instructions that have no effect on the computation and are skipped.
const UNREAD: [&str; 3] = ["metadata", "frontend_attributes", "origin"];

impl Program {
    /// Parses the text of an HLO module, as XLA and [`Program::to_hlo`] print it.
    ///
    /// This function supports the instructions of this crate's programs: `parameter`, `constant`, `tuple`,
    /// `get-tuple-element`, `after-all` without operands, and `custom-call` with all attributes. From the module's
    /// head, only the name is read.
    ///
    /// ```
    /// use xla_ffi_programs::Program;
    ///
    /// let program = Program::from_hlo(
    ///     "HloModule twice\n\nENTRY %main (x: f32[2]) -> f32[2] {\n  %x = f32[2]{0} parameter(0)\n  \
    ///      ROOT %y = f32[2]{0} custom-call(%x), custom_call_target=\"twice\"\n}\n",
    /// )?;
    /// assert_eq!(program.targets()[0].0, "twice");
    /// let error = Program::from_hlo("HloModule m\nENTRY e {\n  ROOT r = f32[] add(a, b)\n}").unwrap_err();
    /// assert!(error.message().contains("line 3: 'r' is an 'add'"), "{error}");
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the line of a syntax error, or with all mistakes that [`Builder::build`] finds.
    /// `UNIMPLEMENTED` for other instructions and attributes; XLA accepts them in StableHLO
    /// ([`Client::compile`](super::pjrt::Client::compile)).
    pub fn from_hlo(text: &str) -> Result<Self> {
        let mut cursor = Cursor::new(text);
        cursor.expect("HloModule")?;
        let name = cursor.word("the module's name")?.to_owned();
        while cursor.eat(",") {
            cursor.word("an attribute of the module")?;
            cursor.expect("=")?;
            cursor.value()?;
        }
        let mut computations = BTreeMap::new();
        let mut entry = None;
        while !cursor.is_done() {
            let is_entry = cursor.eat("ENTRY ");
            let own = cursor.name("a computation's name")?.to_owned();
            if !cursor.peek("{") {
                // The computation's head is skipped, because the instructions repeat its parameters and result.
                cursor.balanced()?;
                cursor.expect("->")?;
                cursor.shape()?;
            }
            let called = if is_entry { &name } else { &own };
            let program = computation(&mut cursor, called, &computations)?;
            if is_entry {
                entry = Some(program.clone());
            }
            computations.insert(own, program);
        }
        entry.ok_or_else(|| cursor.wrong("the module has no ENTRY computation"))
    }
}

/// Parses the instructions between the braces of a computation, and builds the program.
fn computation(
    cursor: &mut Cursor<'_>,
    name: &str,
    computations: &BTreeMap<String, Program>,
) -> Result<Program> {
    let mut builder = Builder::new(name);
    let mut ops: BTreeMap<String, Op> = BTreeMap::new();
    let mut root = None;
    cursor.expect("{")?;
    while !cursor.eat("}") {
        let is_root = cursor.eat("ROOT ");
        let name = cursor.name("an instruction's name")?.to_owned();
        cursor.expect("=")?;
        let instruction = Instruction {
            name: &name,
            shape: cursor.shape()?,
            opcode: cursor.word("an opcode")?,
        };
        let op = instruction.read(cursor, &mut builder, &ops, computations)?;
        builder.set_name(op, name.as_str());
        if is_root {
            root = Some(op);
        }
        ops.insert(name, op);
    }
    let root = root.ok_or_else(|| cursor.wrong(format!("'{name}' has no ROOT")))?;
    Ok(builder.build(root)?)
}

/// The name, shape and opcode of an instruction, parsed from its text before the operands.
struct Instruction<'a> {
    name: &'a str,
    shape: ValueShape,
    opcode: &'a str,
}

impl Instruction<'_> {
    fn read(
        &self,
        cursor: &mut Cursor<'_>,
        builder: &mut Builder,
        ops: &BTreeMap<String, Op>,
        computations: &BTreeMap<String, Program>,
    ) -> Result<Op> {
        let op = match self.opcode {
            "parameter" => {
                cursor.expect("(")?;
                let number = cursor.number("the parameter's number")?;
                cursor.expect(")")?;
                builder.parameter(number, self.shape.clone(), self.name)
            }
            "constant" => {
                cursor.expect("(")?;
                let tensor = self.array(cursor)?;
                cursor.expect(")")?;
                builder.constant(tensor)
            }
            "tuple" => {
                let operands = operands(cursor, ops)?;
                builder.tuple(operands)
            }
            "after-all" => {
                let operands = operands(cursor, ops)?;
                if !operands.is_empty() {
                    return Err(self.unknown(cursor, "an 'after-all' with operands"));
                }
                builder.token()
            }
            "get-tuple-element" => {
                let operands = operands(cursor, ops)?;
                let [tuple] = operands[..] else {
                    return Err(cursor.wrong("a 'get-tuple-element' has one operand"));
                };
                cursor.expect(",")?;
                cursor.expect("index")?;
                cursor.expect("=")?;
                builder.get_tuple_element(tuple, cursor.number("an index")?)
            }
            "custom-call" => {
                let operands = operands(cursor, ops)?;
                let mut call = self.custom_call(cursor, operands, computations)?;
                if is_row_major(&call, builder) {
                    // The layouts are the default layouts. StableHLO cannot express them for tuples, so they are
                    // removed.
                    call.operand_layouts = None;
                }
                builder.custom_call(call)
            }
            other => return Err(self.unknown(cursor, format!("an '{other}'"))),
        };
        while cursor.eat(",") {
            let attribute = cursor.word("an attribute")?;
            self.skip(cursor, attribute)?;
        }
        match builder.shape(op) {
            Some(shape) if !shape.is_compatible(&self.shape) => {
                Err(cursor.wrong(format!("'{}' is {shape}, not {}", self.name, self.shape)))
            }
            _ => Ok(op),
        }
    }

    /// Skips an attribute that has no effect; any other attribute is an error.
    fn skip(&self, cursor: &mut Cursor<'_>, attribute: &str) -> Result<()> {
        if !UNREAD.contains(&attribute) {
            return Err(self.unknown(cursor, format!("one with '{attribute}'")));
        }
        cursor.expect("=")?;
        cursor.value().map(|_| ())
    }

    #[cold]
    fn unknown(&self, cursor: &Cursor<'_>, what: impl std::fmt::Display) -> Error {
        let why = format!(
            "'{}' is {what}: programs here are parameters, constants, tuples and custom calls; give \
             a real XLA the program as StableHLO",
            self.name
        );
        Error::new(
            ErrorCode::Unimplemented,
            cursor.wrong(why).message().to_owned(),
        )
    }

    /// Reads an array of the instruction's shape.
    fn array(&self, cursor: &mut Cursor<'_>) -> Result<Tensor> {
        match self.shape.leaf() {
            Some(leaf) => hlo_literal::read(cursor, leaf.shape()),
            None => Err(self.unknown(cursor, "a constant tuple")),
        }
    }

    /// Parses the attributes after a custom call's operands.
    fn custom_call(
        &self,
        cursor: &mut Cursor<'_>,
        operands: Vec<Op>,
        computations: &BTreeMap<String, Program>,
    ) -> Result<CustomCall> {
        let shape = self.shape.clone();
        let mut call = CustomCall::legacy(ApiVersion::Original, "", operands, shape);
        while cursor.eat(",") {
            let attribute = cursor.word("an attribute")?;
            if UNREAD.contains(&attribute) {
                self.skip(cursor, attribute)?;
                continue;
            }
            cursor.expect("=")?;
            match attribute {
                "custom_call_target" => call.target = text(cursor)?,
                "operand_layout_constraints" => {
                    let shapes = list(cursor, Cursor::shape)?;
                    call = call.operand_layouts(shapes);
                }
                "called_computations" | "to_apply" => {
                    let names = if cursor.peek("{") {
                        list(cursor, |cursor| {
                            Ok(cursor.name("a computation")?.to_owned())
                        })?
                    } else {
                        vec![cursor.name("a computation")?.to_owned()]
                    };
                    for name in names {
                        let called = computations.get(&name).ok_or_else(|| {
                            cursor.wrong(format!(
                                "computation '{name}' is not defined before this one, which calls it"
                            ))
                        })?;
                        call = call.called_computation(called.clone());
                    }
                }
                "custom_call_has_side_effect" => match cursor.word("true or false")? {
                    "true" => call = call.with_side_effect(),
                    "false" => {}
                    other => return Err(cursor.wrong(format!("'{other}' is not true or false"))),
                },
                "literal" => {
                    let shape = cursor.shape()?;
                    let Some(leaf) = shape.leaf() else {
                        return Err(self.unknown(cursor, "one with a tuple as literal"));
                    };
                    call = call.literal(hlo_literal::read(cursor, leaf.shape())?);
                }
                "output_to_operand_aliasing" => {
                    for (output, operand, index) in list(cursor, alias)? {
                        call = call.alias(output, operand, index);
                    }
                }
                "schedule" => {
                    let name = cursor.word("a schedule")?;
                    let mut all = (0..=2).filter_map(Schedule::from_raw);
                    let schedule = all.find(|schedule| schedule.name() == name);
                    call = call.schedule(
                        schedule
                            .ok_or_else(|| cursor.wrong(format!("'{name}' is not a schedule")))?,
                    );
                }
                "api_version" => {
                    let name = cursor.word("an API version")?;
                    call.api_version = ApiVersion::from_name(name)
                        .ok_or_else(|| cursor.wrong(format!("'{name}' is not an API version")))?;
                }
                "backend_config" if cursor.peek("{") => {
                    let dictionary = cursor.balanced()?;
                    let attributes = Attributes::parse(dictionary)
                        .map_err(|error| cursor.wrong(error.to_string()))?;
                    call.config = Config::Attributes(attributes);
                }
                "backend_config" => call.config = Config::Opaque(cursor.string()?),
                other => return Err(self.unknown(cursor, format!("one with '{other}'"))),
            }
        }
        Ok(call)
    }
}

/// Returns true if all layouts of a call are row-major, which is the default.
fn is_row_major(call: &CustomCall, builder: &Builder) -> bool {
    let layouts = call.operand_layouts.as_deref().unwrap_or_default();
    let fits = |(layout, op): (&ValueShape, &Op)| {
        let shape = builder.shape(*op);
        layout.is_row_major() && shape.is_some_and(|shape| shape.is_compatible(layout))
    };
    call.shape.is_row_major()
        && layouts.len() == call.operands.len()
        && layouts.iter().zip(&call.operands).all(fits)
}

/// Reads a quoted string that must be UTF-8.
fn text(cursor: &mut Cursor<'_>) -> Result<String> {
    let bytes = cursor.string()?;
    String::from_utf8(bytes).map_err(|_| cursor.wrong("the string is not UTF-8"))
}

/// Reads a list of items in braces, separated by commas.
fn list<'t, T>(
    cursor: &mut Cursor<'t>,
    mut item: impl FnMut(&mut Cursor<'t>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut items = vec![];
    cursor.expect("{")?;
    if cursor.eat("}") {
        return Ok(items);
    }
    loop {
        items.push(item(cursor)?);
        if cursor.eat("}") {
            return Ok(items);
        }
        cursor.expect(",")?;
    }
}

/// Reads an alias `{1}: (0, {})`: a path in the result, an operand, and a path in the operand.
fn alias(cursor: &mut Cursor<'_>) -> Result<(Vec<usize>, usize, Vec<usize>)> {
    let index = |cursor: &mut Cursor<'_>| list(cursor, |cursor| cursor.number("an index"));
    let output = index(cursor)?;
    cursor.expect(":")?;
    cursor.expect("(")?;
    let operand = cursor.number("an operand's number")?;
    cursor.expect(",")?;
    let inside = index(cursor)?;
    cursor.expect(")")?;
    Ok((output, operand, inside))
}

/// Reads operands in parentheses, each with or without its shape.
fn operands(cursor: &mut Cursor<'_>, ops: &BTreeMap<String, Op>) -> Result<Vec<Op>> {
    let mut found = vec![];
    cursor.expect("(")?;
    if cursor.eat(")") {
        return Ok(found);
    }
    loop {
        if cursor.shape_comes() {
            cursor.shape()?;
        }
        let name = cursor.name("an operand")?;
        let op = ops.get(name).ok_or_else(|| {
            cursor.wrong(format!(
                "instruction '{name}' is not defined before this one"
            ))
        })?;
        found.push(*op);
        if cursor.eat(")") {
            return Ok(found);
        }
        cursor.expect(",")?;
    }
}
