//! Changes of the settings of a volume in the text of `volume.toml`. Everything else in the text
//! stays as it is, with its comments and its layout.

use duramen_settings::Settings;
use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

use crate::toml_list::push;

/// The text, which holds the settings `old`, with the settings `new`; `None` if it cannot be
/// edited so.
pub(crate) fn edited(text: &str, old: &Settings, new: &Settings) -> Option<String> {
    let parse = |text: &str| text.parse::<DocumentMut>().ok();
    let mut document = parse(text)?;
    // A setting has several notations, so two plain texts are compared, and not the file.
    let [old, changed] = [old, new].map(|settings| parse(&settings.to_text()));
    change(document.as_table_mut(), old?.as_table(), changed?.as_table());
    let text = document.to_string();
    let is_right = Settings::parse(&text).is_ok_and(|parsed| parsed == *new);
    is_right.then_some(text)
}

/// Changes the keys of a table whose values differ between two plain tables.
fn change(table: &mut dyn TableLike, old: &dyn TableLike, new: &dyn TableLike) {
    for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        table.remove(key);
    }
    for (key, wanted) in new.iter() {
        let before = old.get(key);
        if before.is_some_and(|before| before.to_string() == wanted.to_string()) {
            continue;
        }
        let Some(there) = table.get_mut(key) else {
            table.insert(key, wanted.clone());
            continue;
        };
        let before = before.and_then(Item::as_table_like);
        match (there.as_table_like_mut(), before, wanted.as_table_like()) {
            (Some(there), Some(before), Some(wanted)) => change(there, before, wanted),
            _ => change_value(there, wanted),
        }
    }
}

/// Changes a value, which keeps the comments around it, and those in it if it is a list.
fn change_value(there: &mut Item, wanted: &Item) {
    match (there.as_value_mut(), wanted.as_value()) {
        (Some(Value::Array(list)), Some(Value::Array(wanted))) => change_list(list, wanted),
        (Some(there), Some(wanted)) => {
            let decor = there.decor().clone();
            *there = wanted.clone();
            *there.decor_mut() = decor;
        }
        _ => *there = wanted.clone(),
    }
}

/// Removes the texts that are not wanted from a list, and adds the missing ones.
fn change_list(list: &mut Array, wanted: &Array) {
    let has = |list: &Array, text: Option<&str>| list.iter().any(|one| one.as_str() == text);
    list.retain(|one| has(wanted, one.as_str()));
    for one in wanted.iter().filter_map(Value::as_str) {
        if !has(list, Some(one)) {
            push(list, one);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use duramen_settings::RaidSettings;

    use super::*;

    const TEXT: &str = r#"# my volume
engine = "ffs"
policy = 'log' # the safe one
log_size = 8_388_608

[raid]
# bought in May
set = "00112233445566778899aabbccddeeff"
members = [
    "/dev/a", # the left one
    "/dev/b", # the right one
]
spare_after_s = 120 # patience
"#;

    fn changed(change: impl FnOnce(&mut Settings)) -> String {
        let old = Settings::parse(TEXT).expect("settings");
        let mut new = old.clone();
        change(&mut new);
        edited(TEXT, &old, &new).expect("a text like that can be edited")
    }

    fn raid(settings: &mut Settings) -> &mut RaidSettings {
        settings.raid.as_mut().expect("it is there")
    }

    #[test]
    fn what_does_not_change_stays_as_it_was_written() {
        assert_eq!(changed(|_| ()), TEXT);
        let text = changed(|settings| settings.log_size = Some(16 << 20));
        assert_eq!(text, TEXT.replace("8_388_608", "16777216"));
    }

    #[test]
    fn a_list_keeps_the_comments_of_its_other_disks() {
        let text = changed(|settings| raid(settings).members.push("/dev/c".into()));
        let more = "# the right one\n    \"/dev/c\",\n";
        assert_eq!(text, TEXT.replace("# the right one\n", more));
        let text = changed(|settings| raid(settings).members.retain(|it| it.ends_with("b")));
        assert!(!text.contains("/dev/a") && text.contains("# the right one"), "{text}");
        assert!(text.contains("# bought in May") && text.contains("# patience"), "{text}");
    }

    #[test]
    fn a_key_is_added_and_removed() {
        let spares: Vec<PathBuf> = vec!["/dev/z".into()];
        let text = changed(|settings| raid(settings).spares = spares.clone());
        assert!(text.contains("/dev/z") && text.starts_with("# my volume\n"), "{text}");
        let old = Settings::parse(&text).expect("settings");
        let mut new = old.clone();
        raid(&mut new).spares.clear();
        let again = edited(&text, &old, &new).expect("it can be edited");
        assert!(!again.contains("/dev/z") && again.contains("# the left one"), "{again}");
        let text = changed(|settings| settings.raid = None);
        assert!(!text.contains("[raid]") && text.contains("# the safe one"), "{text}");
    }
}
