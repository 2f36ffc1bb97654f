//! Just enough of Rust's grammar to distinguish code from comments and literals.

/// `text` with comments and the insides of literals blanked out, every line in its place.
///
/// Each character is replaced by a blank, so columns agree as well. Lifetimes stay, since they are
/// code; a quote starts a character literal only if that literal closes.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (piece, is_blanked) in pieces(text) {
        code.extend(piece.chars().map(|c| if is_blanked && c != '\n' { ' ' } else { c }));
    }
    code
}

/// The literals of `text`, each with the index of its first character.
pub(super) fn literals(text: &str) -> Vec<(usize, &str)> {
    let mut at = 0;
    let mut literals = Vec::new();
    for (piece, is_blanked) in pieces(text) {
        if is_blanked && !piece.starts_with('/') {
            literals.push((at, piece));
        }
        at += piece.chars().count();
    }
    literals
}

/// The comments, literals and other characters of `text`; each with whether it is a comment or
/// literal.
fn pieces(text: &str) -> Vec<(&str, bool)> {
    let characters = text.chars().collect::<Vec<_>>();
    let (mut pieces, mut rest, mut at) = (Vec::new(), text, 0);
    while at < characters.len() {
        let length = skip(&characters, at).max(1);
        let bytes = characters[at..at + length].iter().map(|c| c.len_utf8()).sum();
        let (piece, behind) = rest.split_at(bytes);
        pieces.push((piece, length > 1));
        (rest, at) = (behind, at + length);
    }
    pieces
}

/// The length of the comment or literal that starts at `at`; 0 if none does.
fn skip(characters: &[char], at: usize) -> usize {
    let rest = &characters[at..];
    let within_word = at > 0 && is_word(characters[at - 1]);
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        ['\'', '\\', ..] => quoted(rest, '\''),
        ['\'', _, '\'', ..] => 3,
        ['r', '"' | '#', ..] if !within_word => raw_string(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !within_word => raw_string(rest, 2),
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of a raw string whose `prefix` letters are followed by hashes and a quote; 0 if it is
/// not one, as in `r#type`.
fn raw_string(rest: &[char], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    let opened = prefix + hashes + 1;
    if rest.get(opened - 1) != Some(&'"') {
        return 0;
    }
    let closes = |at: &usize| rest[*at] == '"' && rest[at + 1..].starts_with(&vec!['#'; hashes]);
    (opened..rest.len()).find(closes).map_or(rest.len(), |at| at + 1 + hashes)
}

/// Whether a source file has the tests of another.
pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The code before the tests at the end of a file.
pub(super) fn without_tests(code: &str) -> &str {
    code.find("\n#[cfg(test)]\nmod tests {").map_or(code, |at| &code[..at])
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The words and the single characters of `code`, each with its line from 1.
pub(super) fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match rest.find(|c| !is_word(c)) {
                Some(0) => first.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            };
            tokens.push((index + 1, &rest[..length]));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// A function with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// Its first line, from 1.
    pub(super) line: usize,
    /// Lines from that of its name to that of its closing brace.
    pub(super) length: usize,
}

/// The functions of `code`, nested ones too.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    let tokens = tokens(code);
    let mut functions = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [(line, "fn"), (_, name)] = *pair else { continue };
        if name == "(" {
            continue; // A function's type, not a function.
        }
        if let Some(last) = last_line_of_body(&tokens[at..]) {
            functions.push(Function { name, line, length: last - line + 1 });
        }
    }
    functions
}

/// Last line of the body of the function at the head of `tokens`; `None` without a body.
fn last_line_of_body(tokens: &[(usize, &str)]) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for &(line, token) in tokens {
        match token {
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets -= 1,
            ";" if braces == 0 && brackets == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces -= 1;
                if braces == 0 && brackets == 0 {
                    return Some(line);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "a /* b /* c */ d */ \"e\\\"f\" 'g' '\\'' r#\"h\"i\"# br\"j\" k // l\nm";
        let code = code(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "k", "m"]);
        assert_eq!(code.chars().count(), text.chars().count());
    }

    #[test]
    fn literals_are_told_from_comments() {
        let text = "\u{e4} // \"a\"\nf(\"b\", 'c') /* d */";
        assert_eq!(literals(text), [(11, "\"b\""), (16, "'c'")]);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay() {
        let text = "fn f<'a>(r#type: &'a str) {}";
        assert_eq!(code(text), text);
    }

    #[test]
    fn a_function_is_measured_from_its_name_to_its_brace() {
        let code =
            code("struct S { f: fn(u8) }\nfn long(x: [u8; 2])\n{\n  \"}\";\n  {}\n}\nfn g();\n");
        let long = Function { name: "long", line: 2, length: 5 };
        assert_eq!(functions(&code), [long]);
    }
}
