//! Lists in a TOML text that a person has laid out.

use toml_edit::{Array, RawString, Value};

/// Adds an entry behind the last one, on a line of its own if that one has one.
pub(crate) fn push(array: &mut Array, entry: impl Into<Value>) {
    let entry = entry.into();
    let last = array.len().checked_sub(1).and_then(|last| array.get_mut(last));
    let Some(last) = last else { return array.push(entry) };
    let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or("").to_owned();
    let prefix = text(last.decor().prefix());
    let Some((_, indent)) = prefix.rsplit_once('\n') else { return array.push(entry) };
    // A comment behind the last entry stays on its line.
    let behind = text(last.decor().suffix());
    last.decor_mut().set_suffix("");
    let behind = behind + array.trailing().as_str().unwrap_or("");
    let (comment, end) = behind.rsplit_once('\n').unwrap_or((behind.as_str(), ""));
    let (prefix, end) = (format!("{comment}\n{indent}"), format!("\n{end}"));
    array.push_formatted(entry.decorated(prefix, ""));
    array.set_trailing(end);
    array.set_trailing_comma(true);
}
