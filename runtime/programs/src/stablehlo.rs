//! Prints programs as StableHLO, for compilers that accept MLIR.

use super::builder::Names;
use super::custom_call::Config;
use super::hlo::unprintable;
use super::instruction::leaves;
use super::instruction::{Instruction, Kind};
use super::literal::{self, mlir_dictionary, mlir_string};
use super::{ArrayShape, CustomCall, Program, Schedule, ValueShape};
use std::fmt::Write;
use xla_ffi_runtime::{Result, Tree};

impl Program {
    /// Prints the program as an MLIR module in the StableHLO dialect. The function `main` has one argument per array
    /// of the parameters and one result per array of the result, in pre-order. XLA flattens the tuples of a program's
    /// parameters and result in the same way, and so does PJRT.
    ///
    /// The operands and results of calls may be tuples. A call with a schedule is printed in the MHLO dialect,
    /// because StableHLO has no schedules; XLA accepts both dialects. Only calls have layouts: the program's
    /// arguments and results are row-major.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for programs that StableHLO cannot express. This concerns one-bit integers, tokens of a call
    /// with a schedule, several called computations of one call, and attributes without MLIR syntax. `UNIMPLEMENTED`
    /// for layouts of operands that are tuples, and of results that are nested tuples.
    pub fn to_stablehlo(&self) -> Result<String> {
        let computations = self.computations();
        let mut text = format!("module @{} {{\n", self.name());
        for (computation, name) in &computations {
            computation.function(&mut text, Some(name), &computations)?;
        }
        self.function(&mut text, None, &computations)?;
        text.push_str("}\n");
        Ok(text)
    }

    /// Writes a function of the module. The function of the program is always called `main`.
    fn function(
        &self,
        text: &mut String,
        name: Option<&str>,
        computations: &[(Self, String)],
    ) -> Result<()> {
        let mut names = Names::default();
        for instruction in &self.inner.instructions {
            names.reserve(&instruction.name);
        }
        let mut printer = Printer {
            program: self,
            computations,
            names,
            lines: String::new(),
        };
        let mut arguments = vec![];
        for &index in &self.inner.parameters {
            let parameter = self.instruction(index);
            let wide = printer.kind(parameter, &parameter.shape)?;
            match &parameter.shape {
                Tree::Tuple(_) if name.is_none() => {
                    printer.taken_apart(parameter, &mut arguments)?;
                }
                _ => arguments.push(format!("%{}: {wide}", parameter.name)),
            }
        }
        for instruction in &self.inner.instructions {
            printer.instruction(instruction)?;
        }
        let root = self.instruction(self.inner.root);
        let results = match name {
            Some(_) => vec![(format!("%{}", root.name), printer.kind(root, &root.shape)?)],
            None => printer.results(root)?,
        };
        let kinds: Vec<_> = results.iter().map(|(_, kind)| kind.as_str()).collect();
        let values: Vec<_> = results.iter().map(|(value, _)| value.as_str()).collect();
        let (visibility, name) = match name {
            Some(name) => ("private", name),
            None => ("public", "main"),
        };
        let _ = writeln!(
            text,
            "  func.func {visibility} @{name}({}) -> ({}) {{",
            arguments.join(", "),
            kinds.join(", ")
        );
        text.push_str(&printer.lines);
        if results.is_empty() {
            text.push_str("    return\n  }\n");
        } else {
            let (values, kinds) = (values.join(", "), kinds.join(", "));
            let _ = writeln!(text, "    return {values} : {kinds}\n  }}");
        }
        Ok(())
    }
}

struct Printer<'a> {
    program: &'a Program,
    computations: &'a [(Program, String)],
    names: Names,
    lines: String,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        self.lines += "    ";
        self.lines += line;
        self.lines.push('\n');
    }

    /// Returns the MLIR type of an instruction's value.
    fn kind(&self, instruction: &Instruction, shape: &ValueShape) -> Result<String> {
        match shape {
            Tree::Leaf(leaf) if leaf.is_token() => Ok("!stablehlo.token".to_owned()),
            Tree::Leaf(leaf) => literal::tensor_type(leaf.dtype(), leaf.dims()).ok_or_else(|| {
                let why = format!("{} is not an element type there", leaf.dtype());
                unprintable("StableHLO", &instruction.name, &why)
            }),
            Tree::Tuple(elements) => {
                let kinds = elements
                    .iter()
                    .map(|element| self.kind(instruction, element))
                    .collect::<Result<Vec<_>>>()?;
                Ok(format!("tuple<{}>", kinds.join(", ")))
            }
        }
    }

    /// Writes a parameter that is a tuple: its arrays become arguments of the function, and are combined into the
    /// tuple.
    fn taken_apart(&mut self, parameter: &Instruction, arguments: &mut Vec<String>) -> Result<()> {
        let mut paths = vec![];
        leaves(&parameter.shape, &mut vec![], &mut |path| {
            paths.push(path.to_vec());
        });
        let mut values = vec![];
        for (path, leaf) in paths.iter().zip(parameter.shape.leaves()) {
            let path: Vec<_> = path.iter().map(usize::to_string).collect();
            let value = format!(
                "%{}",
                self.names
                    .unique(&format!("{}.{}", parameter.name, path.join(".")))
            );
            let kind = self.kind(parameter, &Tree::Leaf(leaf.clone()))?;
            arguments.push(format!("{value}: {kind}"));
            values.push(value);
        }
        let mut values = values.into_iter();
        self.put_together(parameter, &parameter.shape, &mut values, true)?;
        Ok(())
    }

    /// Writes the instructions that combine arrays into tuples, inner tuples first, and returns the name of the
    /// outermost value.
    fn put_together(
        &mut self,
        parameter: &Instruction,
        shape: &ValueShape,
        values: &mut impl Iterator<Item = String>,
        outermost: bool,
    ) -> Result<String> {
        let Tree::Tuple(elements) = shape else {
            return Ok(values.next().unwrap_or_default());
        };
        let elements = elements
            .iter()
            .map(|element| self.put_together(parameter, element, values, false))
            .collect::<Result<Vec<_>>>()?;
        let name = if outermost {
            parameter.name.clone()
        } else {
            self.names.unique(&format!("{}.tuple", parameter.name))
        };
        self.tuple(
            &format!("%{name}"),
            &elements,
            &self.kind(parameter, shape)?,
        );
        Ok(format!("%{name}"))
    }

    fn tuple(&mut self, value: &str, elements: &[String], kind: &str) {
        // The complete form is used for an empty tuple, because MLIR cannot parse its short form.
        if elements.is_empty() {
            self.line(&format!("{value} = \"stablehlo.tuple\"() : () -> {kind}"));
        } else {
            let elements = elements.join(", ");
            self.line(&format!("{value} = stablehlo.tuple {elements} : {kind}"));
        }
    }

    fn element(&mut self, value: &str, tuple: &str, element: usize, from: &str, to: &str) {
        self.line(&format!(
            "{value} = stablehlo.get_tuple_element {tuple}[{element}] : ({from}) -> {to}"
        ));
    }

    /// Returns the names and types of the arrays in the program's result.
    fn results(&mut self, root: &Instruction) -> Result<Vec<(String, String)>> {
        let mut results = vec![];
        self.take_apart(root, &root.shape, &format!("%{}", root.name), &mut results)?;
        Ok(results)
    }

    fn take_apart(
        &mut self,
        root: &Instruction,
        shape: &ValueShape,
        value: &str,
        results: &mut Vec<(String, String)>,
    ) -> Result<()> {
        let kind = self.kind(root, shape)?;
        let Tree::Tuple(elements) = shape else {
            results.push((value.to_owned(), kind));
            return Ok(());
        };
        for (index, element) in elements.iter().enumerate() {
            let name = self.names.unique(&format!("{}.{index}", &value[1..]));
            let to = self.kind(root, element)?;
            self.element(&format!("%{name}"), value, index, &kind, &to);
            self.take_apart(root, element, &format!("%{name}"), results)?;
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<()> {
        let value = format!("%{}", instruction.name);
        let kind = self.kind(instruction, &instruction.shape)?;
        let program = self.program;
        let operands: Vec<_> = instruction
            .kind
            .operands()
            .iter()
            .map(|&operand| format!("%{}", program.instruction(operand).name))
            .collect();
        match &instruction.kind {
            Kind::Parameter(_) => {}
            Kind::Constant(tensor) => {
                let text = literal::mlir(tensor).unwrap_or_default();
                self.line(&format!("{value} = stablehlo.constant {text}"));
            }
            Kind::Token => self.line(&format!("{value} = stablehlo.create_token : {kind}")),
            Kind::Tuple(_) => self.tuple(&value, &operands, &kind),
            Kind::GetTupleElement { operand, element } => {
                let tuple = program.instruction(*operand);
                let from = self.kind(tuple, &tuple.shape)?;
                self.element(&value, &operands[0], *element, &from, &kind);
            }
            Kind::CustomCall(call) => {
                let kinds = call
                    .operands
                    .iter()
                    .map(|&operand| self.kind(instruction, &program.instruction(operand).shape))
                    .collect::<Result<Vec<_>>>()?;
                let attributes = self.call_attributes(instruction, call)?;
                let dialect = dialect(call.schedule);
                let token = |kind: &String| kind.contains("!stablehlo.token");
                if dialect == "mhlo" && kinds.iter().chain([&kind]).any(token) {
                    let why = "a call with a schedule takes and gives no tokens there";
                    return Err(unprintable("StableHLO", &instruction.name, why));
                }
                let target = mlir_string(call.target.as_bytes());
                self.line(&format!(
                    "{value} = {dialect}.custom_call @{target}({}) {{{}}} : ({}) -> {kind}",
                    operands.join(", "),
                    attributes.join(", "),
                    kinds.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn call_attributes(
        &self,
        instruction: &Instruction,
        call: &CustomCall<usize>,
    ) -> Result<Vec<String>> {
        let refuse = |why: &str| unprintable("StableHLO", &instruction.name, why);
        let mut attributes = vec![format!("api_version = {} : i32", call.api_version as i32)];
        attributes.push(match &call.config {
            Config::Opaque(opaque) => format!("backend_config = {}", mlir_string(opaque)),
            Config::Attributes(dictionary) => {
                let text = mlir_dictionary(dictionary).map_err(|why| refuse(&why))?;
                format!("backend_config = {text}")
            }
        });
        if call.side_effect {
            attributes.push("has_side_effect = true".to_owned());
        }
        if call.called.len() > 1 {
            return Err(refuse("XLA exports one called computation a call"));
        }
        if !call.called.is_empty() {
            let names: Vec<_> = call
                .called
                .iter()
                .filter_map(|called| self.computations.iter().find(|(known, _)| known.is(called)))
                .map(|(_, name)| format!("@{name}"))
                .collect();
            attributes.push(format!("called_computations = [{}]", names.join(", ")));
        }
        let dialect = dialect(call.schedule);
        if !call.aliases.is_empty() {
            let aliases: Vec<_> = call
                .aliases
                .iter()
                .map(|alias| {
                    format!(
                        "#{dialect}.output_operand_alias<output_tuple_indices = {:?}, \
                         operand_index = {}, operand_tuple_indices = {:?}>",
                        alias.output, alias.operand, alias.operand_index
                    )
                })
                .collect();
            attributes.push(format!("output_operand_aliases = [{}]", aliases.join(", ")));
        }
        let said = call.operand_layouts.is_some();
        let operands = match &call.operand_layouts {
            Some(operands) => operands
                .iter()
                .map(|shape| shape.leaf().map(layout))
                .collect(),
            // XLA chooses the layouts of a call without layouts, so row-major layouts are written explicitly if
            // possible.
            None => call
                .operands
                .iter()
                .map(|&operand| {
                    let array = self.program.instruction(operand).shape.leaf()?;
                    Some(layout(&ArrayShape::new(array.shape().clone())))
                })
                .collect::<Option<Vec<_>>>(),
        };
        let results = match &call.shape {
            Tree::Leaf(leaf) => Some(vec![layout(leaf)]),
            Tree::Tuple(elements) => elements
                .iter()
                .map(|element| element.leaf().map(layout))
                .collect::<Option<Vec<_>>>(),
        };
        match (operands, results) {
            (Some(operands), Some(results)) => {
                attributes.push(format!("operand_layouts = [{}]", operands.join(", ")));
                attributes.push(format!("result_layouts = [{}]", results.join(", ")));
            }
            (None, _) if said => {
                return Err(refuse("it has no layouts of operands that are tuples"));
            }
            (_, None) if said => {
                return Err(refuse(
                    "it has no layouts of results that are nested tuples",
                ));
            }
            _ => {}
        }
        if let Some(found) = &call.literal {
            let text = literal::mlir(found)
                .ok_or_else(|| refuse("the literal's element type does not exist there"))?;
            attributes.push(format!("mhlo.literal = {text}"));
        }
        match call.schedule {
            Schedule::None => {}
            Schedule::Latest => {
                attributes.push("custom_call_schedule = #mhlo<custom_call_schedule LATEST>".into());
            }
            Schedule::Earliest => {
                attributes
                    .push("custom_call_schedule = #mhlo<custom_call_schedule EARLIEST>".into());
            }
        }
        Ok(attributes)
    }
}

/// Returns the dialect of a call. StableHLO has no schedules, so calls with schedules use MHLO.
fn dialect(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::None => "stablehlo",
        Schedule::Latest | Schedule::Earliest => "mhlo",
    }
}

/// Returns the layout of an array as an MLIR attribute.
fn layout(array: &ArrayShape) -> String {
    let order = array.minor_to_major();
    if order.is_empty() {
        "dense<> : tensor<0xindex>".to_owned()
    } else {
        format!("dense<{order:?}> : tensor<{}xindex>", order.len())
    }
}
