//! What can be broken in a source: the list of its mutants.
//!
//! | kind | for example |
//! |---|---|
//! | an operator | `<` becomes `<=`, `&&` becomes `\|\|`, `+` becomes `-` |
//! | a verb | `min` becomes `max`, `any` becomes `all`, `a.div_ceil(b)` becomes `a / b` |
//! | a promise | a write that goes through becomes a plain one |
//! | a literal of a comparison | the step in the direction in which its operator does not go |
//! | an end of a range | `0..=n` ends one sooner, `0..n` one later, `0..n` begins one later |
//! | a negation | `!x` becomes `x` |
//! | a condition | that of an `if`, of a guard or of a `while` is always true, or false |
//! | a statement | a call or an assignment is left out |
//! | an order | a statement comes behind the next one, where one of them waits |
//! | a body | a function does nothing and gives back `()`, `true`, `Ok(0)`, `None` |
//!
//! What only tests have is left alone, and so is what the compiler computes, what is `unsafe`, what
//! is in a macro, words for people, room that is made beforehand, and what stands in a planted bug
//! or asks for one.
//!
//! A mutant is a few insertions. The source stays as it is between them, and no insertion has more
//! than one line, so that lines keep their numbers.

use std::ops::{Range, RangeInclusive};

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprCall, ExprIf, ExprMethodCall, ExprRange,
    ExprUnary, ExprWhile, FnArg, Item, Lit, Pat, RangeLimits, ReturnType, Safety, Signature, Stmt,
    Type, UnOp,
};

use super::values;
use crate::Result;
use crate::failure::While;

/// Stands in an insertion for the question whether the mutant is the one that is tried.
pub(super) const SWITCH: &str = "$is";
/// Names are no longer than this, in letters of the source.
const LONGEST: usize = 60;

/// One change to the sources that the tests should notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// `FILE:LINE:COLUMN: WHAT`.
    pub(super) name: String,
    /// Its file, from the top of the repository.
    pub(super) file: String,
    /// Its first line, from 1.
    pub(super) line: usize,
    /// What is changed, without the place: that moves.
    pub(super) what: String,
    /// The text of its first line, without the blanks around it.
    pub(super) source: String,
    /// The lines that it is about.
    pub(super) lines: RangeInclusive<usize>,
    /// The bytes of the innermost function around it.
    pub(super) function: Range<usize>,
    /// What is inserted.
    pub(super) edits: Vec<Edit>,
}

/// One insertion, or two that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Something in front of a piece of the source, and something behind it.
    Around { range: Range<usize>, before: String, after: &'static str },
    /// Something between two letters.
    At { at: usize, text: String },
}

/// What is in one source.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) mutants: Vec<Mutant>,
    /// The names of modules in other files that only tests have.
    pub(super) tests: Vec<String>,
}

/// Finds the mutants of a source.
pub(super) fn find(file: &str, text: &str) -> Result<Found> {
    let tree = syn::parse_file(text).while_doing(file)?;
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    let lines = std::iter::once(0).chain(breaks).collect();
    let (scopes, functions, mutants, tests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut finder = Finder { file, text, lines, scopes, functions, mutants, tests };
    finder.visit_file(&tree);
    finder.mutants.sort_by_key(|mutant| mutant.line);
    Ok(Found { mutants: finder.mutants, tests: finder.tests })
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The type or trait around, as it stands in front of a function's name.
    scopes: Vec<String>,
    /// The functions around: name and bytes.
    functions: Vec<(String, Range<usize>)>,
    mutants: Vec<Mutant>,
    tests: Vec<String>,
}

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// A piece of the source in one line, for a name.
    fn told(&self, range: Range<usize>) -> String {
        let words = self.text(range).split_whitespace().collect::<Vec<_>>().join(" ");
        match words.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}...", &words[..at]),
            None => words,
        }
    }

    /// A piece of the source in one line and without comments, to be compiled again.
    fn again(&self, range: Range<usize>) -> String {
        let tokens = self.text(range).parse::<TokenStream>();
        tokens.expect("it is a piece of what was parsed").to_string()
    }

    /// Line and column of a byte, both from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        (line, self.text(self.lines[line - 1]..at).chars().count() + 1)
    }

    /// Notes a mutant of the piece `about`, unless that asks for a planted bug.
    fn note(&mut self, about: Range<usize>, what: &str, edits: Vec<Edit>) {
        if !self.is_planted(about.clone())
            && let Some((name, _)) = self.functions.last()
        {
            let what = format!("{what} in {name}");
            self.note_all(about, what, edits);
        }
    }

    fn note_all(&mut self, about: Range<usize>, what: String, edits: Vec<Edit>) {
        let Some((_, function)) = self.functions.last().cloned() else { return };
        let (line, column) = self.place(about.start);
        let file = self.file.to_owned();
        let source = self.text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        let lines = line..=self.place(about.end).0;
        let name = format!("{file}:{line}:{column}: {what}");
        self.mutants.push(Mutant { name, file, line, what, source, lines, function, edits });
    }

    fn is_planted(&self, range: Range<usize>) -> bool {
        self.text(range).contains("is_planted")
    }

    /// Whether what stands behind a condition is a planted bug.
    fn plants(&self, condition: Range<usize>) -> bool {
        self.is_planted(condition.clone()) && !self.text(condition).contains("!is_planted")
    }

    /// An expression that becomes another.
    fn replace(&mut self, range: Range<usize>, what: &str, with: &str) {
        let before = format!("(if {SWITCH} {{ ({with}) }} else {{ (");
        let edit = Edit::Around { range: range.clone(), before, after: ") })" };
        self.note(range, what, vec![edit]);
    }

    /// A condition that is always true, or always false. One with a `let` cannot stand in another
    /// expression: it is made longer, and what it has beside the `let` is a condition of its own.
    fn condition(&mut self, condition: &Expr, kind: &str, values: &[&str]) {
        let range = bytes(condition);
        let told = self.told(range.clone());
        if !has_let(condition) {
            for value in values {
                let what = format!("replace {kind} {told} with {value}");
                self.replace(range.clone(), &what, value);
            }
            return;
        }
        let edit = Edit::At { at: range.end, text: format!(" && !{SWITCH}") };
        self.note(range, &format!("replace {kind} {told} with false"), vec![edit]);
        let mut operands = vec![condition];
        while let Some(operand) = operands.pop() {
            match operand {
                Expr::Binary(both) if has_let(operand) => {
                    operands.extend([&*both.left, &both.right])
                }
                Expr::Let(_) => {}
                _ if values.contains(&"true") => self.condition(operand, kind, &["true"]),
                _ => {}
            }
        }
    }

    /// A statement that is left out.
    fn leave_out(&mut self, range: Range<usize>, has_end: bool) {
        let what = format!("delete {}", self.told(range.clone()));
        let (before, after) = if has_end { ("", " }") } else { ("(", " })") };
        let before = format!("{before}if !{SWITCH} {{ ");
        self.note(range.clone(), &what, vec![Edit::Around { range, before, after }]);
    }

    /// A statement that comes behind the next one.
    fn put_behind(&mut self, first: Range<usize>, second: Range<usize>) {
        let what = format!("put {} behind the next", self.told(first.clone()));
        let text = format!(" if {SWITCH} {{ {} }}", self.again(first.clone()));
        let before = format!("if !{SWITCH} {{ ");
        let both = first.start..second.end;
        let around = Edit::Around { range: first, before, after: " }" };
        self.note(both.clone(), &what, vec![around, Edit::At { at: both.end, text }]);
    }

    /// What a block whose value is `()` ends with.
    fn unit_block(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.unit_expression(last);
        }
    }

    fn unit_expression(&mut self, expression: &Expr) {
        match expression {
            Expr::If(choice) => {
                if let Some((_, other)) = &choice.else_branch {
                    self.unit_block(&choice.then_branch);
                    self.unit_expression(other);
                }
            }
            Expr::Match(choice) => {
                choice.arms.iter().for_each(|arm| self.unit_expression(&arm.body))
            }
            Expr::Block(block) => self.unit_block(&block.block),
            _ if acts(expression) => self.leave_out(bytes(expression), false),
            _ => {}
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let is_unsafe = matches!(signature.safety, Safety::Unsafe(_));
        if is_test(attributes) || is_unsafe || signature.constness.is_some() {
            return;
        }
        let scope = self.scopes.last().map(|scope| format!("{scope}::")).unwrap_or_default();
        let name = format!("{scope}{}", signature.ident);
        let range = bytes(signature).start..bytes(block).end;
        self.functions.push((name.clone(), range.clone()));
        self.body(&name, range, signature, block);
        if values::of(&signature.output) == ["()"] {
            self.unit_block(block);
        }
        self.visit_block(block);
        self.functions.pop();
    }

    /// A function that gives back at once what others of its type might.
    fn body(&mut self, name: &str, range: Range<usize>, signature: &Signature, block: &Block) {
        let inner = bytes(block).start + 1..bytes(block).end - 1;
        let whole = self.text(inner.clone()).trim().to_owned();
        let (result, gives) = match &signature.output {
            ReturnType::Default => (String::new(), None),
            ReturnType::Type(_, kind) => (format!(" -> {}", self.told(bytes(kind))), Some(kind)),
        };
        let is_unit = gives.is_none_or(|kind| matches!(&**kind, Type::Tuple(_)));
        for value in values::of(&signature.output) {
            if whole == value || (whole.is_empty() && value == "()") {
                continue;
            }
            let result = if is_unit { "" } else { &result };
            let what = format!("replace {name}{result} with {value}");
            let text = format!(" if {SWITCH} {{ return {value}; }}");
            self.note_all(range.clone(), what, vec![Edit::At { at: inner.start, text }]);
        }
        let last = block.stmts.last().filter(|_| block.stmts.len() > 1);
        if let Some(Stmt::Expr(last, None)) = last.filter(|_| gives.is_some() && !is_unit)
            && values::of(&signature.output) == ["Ok(())"]
            && acts(last)
        {
            let told = self.told(bytes(last));
            self.replace(bytes(last), &format!("replace {told} with Ok(())"), "Ok(())");
        }
    }

    /// The ends of a range that move by a step.
    fn ends(&mut self, range: &ExprRange) {
        if let Some(Expr::Lit(start)) = range.start.as_deref()
            && let Some(next) = step(&start.lit, 1)
        {
            let what = format!("replace {} with {next}", self.told(bytes(start)));
            self.replace(bytes(start), &what, &next);
        }
        let Some(end) = range.end.as_deref() else { return };
        let (sign, more) = match range.limits {
            RangeLimits::HalfOpen(_) => ("+", ["..", "..="]),
            RangeLimits::Closed(_) => ("-", ["..=", ".."]),
        };
        let with = format!("({}) {sign} 1", self.again(bytes(end)));
        let [is, becomes] = more;
        self.replace(bytes(end), &format!("replace {is} with {becomes}"), &with);
    }

    /// The literal of a comparison, moved in the direction in which its operator does not move it.
    fn bound(&mut self, comparison: &ExprBinary) {
        let by = match comparison.op {
            BinOp::Lt(_) | BinOp::Ge(_) => -1,
            BinOp::Le(_) | BinOp::Gt(_) => 1,
            _ => return,
        };
        for (side, by) in [(&comparison.right, by), (&comparison.left, -by)] {
            if let Expr::Lit(literal) = &**side
                && let Some(moved) = step(&literal.lit, by)
            {
                let what = format!("replace {} with {moved}", self.told(bytes(literal)));
                self.replace(bytes(literal), &what, &moved);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(item) => self.function(&item.attrs, &item.sig, &item.block),
            Item::Impl(item) if !is_test(&item.attrs) => {
                let itself = self.told(bytes(&item.self_ty));
                let scope = match &item.trait_ {
                    None => itself,
                    Some((path, _)) => {
                        let last = path.segments.last().map(|last| last.ident.to_string());
                        if matches!(last.as_deref(), Some("Debug" | "Display")) {
                            return;
                        }
                        format!("<impl {} for {itself}>", self.told(bytes(path)))
                    }
                };
                self.scopes.push(scope);
                visit::visit_item_impl(self, item);
                self.scopes.pop();
            }
            Item::Trait(item) if !is_test(&item.attrs) => {
                self.scopes.push(item.ident.to_string());
                visit::visit_item_trait(self, item);
                self.scopes.pop();
            }
            Item::Mod(item) => {
                if !is_test(&item.attrs) {
                    visit::visit_item_mod(self, item);
                } else if item.content.is_none() {
                    self.tests.push(item.ident.to_string());
                }
            }
            _ => {}
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let mut before = None;
        for (index, statement) in block.stmts.iter().enumerate() {
            let range = bytes(statement);
            let is_one = match statement {
                Stmt::Expr(expression, Some(_)) => acts(expression),
                Stmt::Local(local) => {
                    let acts = local.init.as_ref().is_some_and(|init| acts(&init.expr));
                    matches!(local.pat, Pat::Wild(_)) && acts
                }
                Stmt::Expr(expression, None) if index + 1 < block.stmts.len() => {
                    self.unit_expression(expression);
                    false
                }
                _ => false,
            };
            if is_one {
                self.leave_out(range.clone(), true);
                let waits = |range: Range<usize>| self.text(range).contains(".await");
                if let Some(before) = before.take()
                    && (waits(range.clone()) || waits(Range::clone(&before)))
                {
                    self.put_behind(before, range.clone());
                }
            }
            before = is_one.then_some(range);
            self.visit_stmt(statement);
        }
    }

    fn visit_expr_binary(&mut self, expression: &'ast ExprBinary) {
        let is_chain = has_let(&expression.left) || has_let(&expression.right);
        let (sign, with) = values::other_operator(&expression.op);
        if !with.is_empty() && !is_chain {
            let left = self.again(bytes(&expression.left));
            let right = self.again(bytes(&expression.right));
            let what = format!("replace {sign} with {with}");
            let place = bytes(&expression.op).start;
            let before = self.mutants.len();
            self.replace(bytes(expression), &what, &format!("({left}) {with} ({right})"));
            self.move_to(before, place);
        }
        self.bound(expression);
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast ExprUnary) {
        let sign = match expression.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => "",
        };
        if !sign.is_empty() {
            let rest = self.again(bytes(&expression.expr));
            self.replace(bytes(expression), &format!("delete {sign}"), &rest);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let verb = call.method.to_string();
        if let Some(with) = values::other_verb(&verb, call.args.len())
            && call.turbofish.is_none()
        {
            let receiver = self.again(bytes(&call.receiver));
            let arguments = self.again(bytes(&call.method).end..bytes(call).end);
            let with_both = match with {
                "/" => format!("({receiver}) / {arguments}"),
                _ => format!("{receiver}.{with}{arguments}"),
            };
            let before = self.mutants.len();
            self.replace(bytes(call), &format!("replace {verb} with {with}"), &with_both);
            self.move_to(before, bytes(&call.method).start);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        // How much room is made at first is nothing that a test could see.
        if !self.told(bytes(&call.func)).ends_with("with_capacity") {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let told = self.told(bytes(path));
        if let Some(before) = told.strip_suffix("Durability::Through") {
            let with = format!("{before}Durability::Plain");
            self.replace(bytes(path), &format!("replace {told} with {with}"), &with);
        }
    }

    fn visit_expr_range(&mut self, range: &'ast ExprRange) {
        self.ends(range);
        visit::visit_expr_range(self, range);
    }

    fn visit_expr_if(&mut self, choice: &'ast ExprIf) {
        self.condition(&choice.cond, "condition", &["true", "false"]);
        self.visit_expr(&choice.cond);
        if !self.plants(bytes(&choice.cond)) {
            if choice.else_branch.is_none() {
                self.unit_block(&choice.then_branch);
            }
            self.visit_block(&choice.then_branch);
        }
        if let Some((_, other)) = &choice.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, turns: &'ast ExprWhile) {
        // One that is always true never ends, which everybody notices.
        self.condition(&turns.cond, "condition", &["false"]);
        self.visit_expr(&turns.cond);
        self.unit_block(&turns.body);
        self.visit_block(&turns.body);
    }

    fn visit_expr_for_loop(&mut self, turns: &'ast syn::ExprForLoop) {
        self.unit_block(&turns.body);
        visit::visit_expr_for_loop(self, turns);
    }

    fn visit_expr_loop(&mut self, turns: &'ast syn::ExprLoop) {
        self.unit_block(&turns.body);
        visit::visit_expr_loop(self, turns);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if let Pat::Guard(guarded) = &arm.pat {
            self.condition(&guarded.guard, "match guard", &["true", "false"]);
            self.visit_expr(&guarded.guard);
            if self.plants(bytes(&guarded.guard)) {
                return;
            }
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_repeat(&mut self, array: &'ast syn::ExprRepeat) {
        self.visit_expr(&array.expr);
    }

    // What has nothing to break, or must not be broken.
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_unsafe(&mut self, _: &'ast syn::ExprUnsafe) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_fn_arg(&mut self, _: &'ast FnArg) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }
}

impl Finder<'_> {
    /// Names the mutants from `first` on by another place: that of an operator.
    fn move_to(&mut self, first: usize, at: usize) {
        let (line, column) = self.place(at);
        let source = self.text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        for mutant in &mut self.mutants[first..] {
            mutant.line = line;
            mutant.name = format!("{}:{line}:{column}: {}", mutant.file, mutant.what);
            mutant.source.clone_from(&source);
        }
    }
}

/// The bytes of a piece of the source.
fn bytes(piece: &impl Spanned) -> Range<usize> {
    piece.span().byte_range()
}

/// Whether something is only there for tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let is = |name: &str| path.is_ident(name);
        is("test")
            || is("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// Whether a condition binds something.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => {
            matches!(both.op, BinOp::And(_)) && (has_let(&both.left) || has_let(&both.right))
        }
        _ => false,
    }
}

/// Whether a statement does something that can be left out.
fn acts(expression: &Expr) -> bool {
    match expression {
        Expr::Call(call) => !makes(&call.func),
        Expr::MethodCall(_) | Expr::Await(_) | Expr::Assign(_) => true,
        Expr::Try(inner) => acts(&inner.expr),
        Expr::Binary(both) => values::is_assignment(&both.op),
        _ => false,
    }
}

/// Whether what is called only makes a value, such as `Ok`.
fn makes(called: &Expr) -> bool {
    let Expr::Path(called) = called else { return false };
    let last = called.path.segments.last().map(|last| last.ident.to_string());
    last.is_some_and(|last| last.starts_with(char::is_uppercase))
}

/// A whole number and `by`, if it is one and does not go below zero.
fn step(literal: &Lit, by: i8) -> Option<String> {
    let Lit::Int(literal) = literal else { return None };
    let moved = literal.base10_parse::<u128>().ok()?.checked_add_signed(by.into())?;
    Some(format!("{moved}{}", literal.suffix()))
}
