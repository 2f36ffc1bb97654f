//! What stands for what: operators for operators, values for what a function gives back.

use syn::{BinOp, GenericArgument, PathArguments, ReturnType, Type};

/// What a function might give back that does nothing.
pub(super) fn of(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, kind) => of_type(kind),
    }
}

fn of_type(kind: &Type) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(ToString::to_string).collect();
    let path = match kind {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return owned(&["()"]),
        Type::Path(path) => &path.path,
        _ => return Vec::new(),
    };
    let Some(last) = path.segments.last() else { return Vec::new() };
    match &last.ident.to_string()[..] {
        "bool" => owned(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => owned(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => owned(&["0", "1"]),
        "Option" => owned(&["None"]),
        "Vec" => owned(&["Vec::new()"]),
        "Result" => match &last.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(GenericArgument::Type(good)) => {
                    of_type(good).iter().map(|value| format!("Ok({value})")).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The sign of an operator, and the one that stands for it.
pub(super) fn other_operator(operator: &BinOp) -> (&'static str, &'static str) {
    match operator {
        BinOp::Lt(_) => ("<", "<="),
        BinOp::Le(_) => ("<=", "<"),
        BinOp::Gt(_) => (">", ">="),
        BinOp::Ge(_) => (">=", ">"),
        BinOp::Eq(_) => ("==", "!="),
        BinOp::Ne(_) => ("!=", "=="),
        BinOp::And(_) => ("&&", "||"),
        BinOp::Or(_) => ("||", "&&"),
        BinOp::Add(_) => ("+", "-"),
        BinOp::Sub(_) => ("-", "+"),
        BinOp::Mul(_) => ("*", "/"),
        BinOp::Div(_) => ("/", "*"),
        BinOp::Rem(_) => ("%", "/"),
        BinOp::BitXor(_) => ("^", "|"),
        BinOp::BitAnd(_) => ("&", "|"),
        BinOp::BitOr(_) => ("|", "&"),
        BinOp::Shl(_) => ("<<", ">>"),
        BinOp::Shr(_) => (">>", "<<"),
        BinOp::AddAssign(_) => ("+=", "-="),
        BinOp::SubAssign(_) => ("-=", "+="),
        BinOp::MulAssign(_) => ("*=", "/="),
        BinOp::DivAssign(_) => ("/=", "*="),
        BinOp::RemAssign(_) => ("%=", "/="),
        BinOp::BitXorAssign(_) => ("^=", "|="),
        BinOp::BitAndAssign(_) => ("&=", "|="),
        BinOp::BitOrAssign(_) => ("|=", "&="),
        BinOp::ShlAssign(_) => ("<<=", ">>="),
        BinOp::ShrAssign(_) => (">>=", "<<="),
        _ => ("", ""),
    }
}

/// Whether an operator changes what stands left of it.
pub(super) fn is_assignment(operator: &BinOp) -> bool {
    let (sign, _) = other_operator(operator);
    sign.ends_with('=') && !matches!(sign, "<=" | ">=" | "==" | "!=")
}

/// The verb that stands for one which is called with so many arguments.
pub(super) fn other_verb(verb: &str, arguments: usize) -> Option<&'static str> {
    let other = match (verb, arguments) {
        ("min", 1) => "max",
        ("max", 1) => "min",
        ("any", 1) => "all",
        ("all", 1) => "any",
        ("is_some", 0) => "is_none",
        ("is_none", 0) => "is_some",
        ("is_ok", 0) => "is_err",
        ("is_err", 0) => "is_ok",
        ("is_some_and", 1) => "is_none_or",
        ("is_none_or", 1) => "is_some_and",
        ("first", 0) => "last",
        ("last", 0) => "first",
        ("push_front", 1) => "push_back",
        ("push_back", 1) => "push_front",
        ("pop_front", 0) => "pop_back",
        ("pop_back", 0) => "pop_front",
        ("position", 1) => "rposition",
        ("rposition", 1) => "position",
        ("max_by_key", 1) => "min_by_key",
        ("min_by_key", 1) => "max_by_key",
        ("div_ceil", 1) => "/",
        _ => return None,
    };
    Some(other)
}
