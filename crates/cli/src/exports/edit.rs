//! Changes of the clients of an export in the text of a configuration. Everything else in the text
//! stays as it is, with its comments and its layout.

use server::config::{AccessWord, Network, SquashWord};
use server::{Anonymous, Export};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::toml_list::push;

/// Indentation of an entry in a list that is written anew.
const INDENT: &str = "\n    ";

/// The wanted rights of a network. An existing entry keeps what is `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    pub(super) network: Network,
    pub(super) access: AccessWord,
    pub(super) squash: Option<SquashWord>,
    pub(super) anonymous: Option<Anonymous>,
}

/// Reason why a text cannot be edited, as the end of a sentence.
type Unfit = &'static str;

/// The text with these networks among the clients of a volume. A volume without clients of its own
/// gets those of this machine, which had access before.
///
/// # Errors
/// See [`Unfit`].
pub(super) fn allow(text: &str, volume: &str, rights: &[Rights]) -> Result<String, Unfit> {
    edit(text, volume, |clients| {
        for one in rights {
            clients.set(one);
        }
    })
}

/// The text without these networks among the clients of a volume.
///
/// # Errors
/// See [`Unfit`].
pub(super) fn deny(text: &str, volume: &str, networks: &[Network]) -> Result<String, Unfit> {
    edit(text, volume, |clients| clients.retain(|network| !networks.contains(&network)))
}

/// The text with no clients of a volume.
///
/// # Errors
/// See [`Unfit`].
pub(super) fn deny_all(text: &str, volume: &str) -> Result<String, Unfit> {
    let mut document = parse(text)?;
    section(&mut document, volume)?.insert("clients", Item::Value(Array::new().into()));
    Ok(document.to_string())
}

/// The line of each network among the clients of a volume.
pub(super) fn lines(text: &str, volume: &str) -> Vec<(Network, usize)> {
    let Ok(document) = toml_edit::Document::parse(text) else { return Vec::new() };
    let section = document.get("exports").and_then(|exports| exports.get(volume));
    let Some(clients) = section.and_then(|section| section.get("clients")) else {
        return Vec::new();
    };
    let place = |entry: &dyn TableLike| {
        let start = entry.get("network")?.span()?.start;
        Some((network_of(entry)?, text[..start].matches('\n').count() + 1))
    };
    match clients {
        Item::Value(Value::Array(array)) => {
            let tables = array.iter().filter_map(Value::as_inline_table);
            tables.filter_map(|table| place(table)).collect()
        }
        Item::ArrayOfTables(tables) => tables.iter().filter_map(|table| place(table)).collect(),
        _ => Vec::new(),
    }
}

fn parse(text: &str) -> Result<DocumentMut, Unfit> {
    text.parse().map_err(|_| "it is no TOML")
}

/// A network as the rules know it.
fn parse_network(text: &str) -> Option<Network> {
    text.parse().ok().map(Network::trunc)
}

/// Changes the clients of a volume.
fn edit(text: &str, volume: &str, change: impl FnOnce(&mut Clients)) -> Result<String, Unfit> {
    let mut document = parse(text)?;
    let section = section(&mut document, volume)?;
    if !section.contains_key("clients") {
        section.insert("clients", Item::Value(this_machine().into()));
    }
    let mut clients = match section.get_mut("clients") {
        Some(Item::Value(Value::Array(array))) => Clients::List(array),
        Some(Item::ArrayOfTables(tables)) => Clients::Tables(tables),
        _ => return Err("its clients are no list"),
    };
    change(&mut clients);
    Ok(document.to_string())
}

/// The section of a volume, which is added if it is missing.
fn section<'a>(
    document: &'a mut DocumentMut,
    volume: &str,
) -> Result<&'a mut dyn TableLike, Unfit> {
    let is_first = document.as_table().is_empty();
    let exports = document.entry("exports").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true); // it has no line of its own
        Item::Table(table)
    });
    let is_inline = exports.is_inline_table();
    let exports = exports.as_table_like_mut().ok_or("its exports are no table")?;
    let section = exports.entry(volume).or_insert_with(|| {
        if is_inline {
            return Item::Value(InlineTable::new().into());
        }
        let mut table = Table::new();
        table.decor_mut().set_prefix(if is_first { "" } else { "\n" });
        Item::Table(table)
    });
    section.as_table_like_mut().ok_or("its section is no table")
}

/// The rules that are in force without any, as a list of one line for each.
fn this_machine() -> Array {
    let mut array = Array::new();
    for rule in Export::loopback().rules() {
        let (access, squash) = (AccessWord::ReadWrite, Some(SquashWord::None));
        let network = Network(rule.network);
        let rights = Rights { network, access, squash, anonymous: None };
        array.push_formatted(Value::from(entry_of(&rights)).decorated(INDENT, ""));
    }
    array.set_trailing("\n");
    array.set_trailing_comma(true);
    array
}

/// A new entry of the list.
fn entry_of(rights: &Rights) -> InlineTable {
    let mut entry = InlineTable::new();
    entry.insert("network", rights.network.to_string().into());
    fill(&mut entry, rights);
    entry
}

/// The network of an entry, as the rules know it.
fn network_of(entry: &dyn TableLike) -> Option<Network> {
    parse_network(entry.get("network")?.as_str()?)
}

/// Writes the rights of a network into its entry, but not the network. Present values keep their
/// comments.
fn fill(entry: &mut dyn TableLike, rights: &Rights) {
    let mut set = |key: &str, value: Value| match entry.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => drop(entry.insert(key, Item::Value(value))),
    };
    set("access", rights.access.word().into());
    if let Some(squash) = rights.squash {
        set("squash", squash.word().into());
    }
    if let Some(Anonymous { uid, gid }) = rights.anonymous {
        set("anonymous_uid", i64::from(uid).into());
        set("anonymous_gid", i64::from(gid).into());
    }
}

/// The clients of a volume, in either notation.
enum Clients<'a> {
    /// `clients = [{ ... }, { ... }]`.
    List(&'a mut Array),
    /// `[[exports.NAME.clients]]`.
    Tables(&'a mut ArrayOfTables),
}

impl Clients<'_> {
    /// Sets the rights of a network, in its entry or in a new one.
    fn set(&mut self, rights: &Rights) {
        let is_its = |entry: &dyn TableLike| network_of(entry) == Some(rights.network);
        match self {
            Self::List(array) => {
                let is_found =
                    |value: &Value| value.as_inline_table().is_some_and(|entry| is_its(entry));
                let index = array.iter().position(is_found);
                let found = index.and_then(|index| array.get_mut(index));
                match found.and_then(Value::as_inline_table_mut) {
                    Some(entry) => {
                        let keys = entry.len();
                        fill(entry, rights);
                        if entry.len() > keys {
                            entry.fmt(); // the blank before the brace belongs to the last value
                        }
                    }
                    None => push(array, entry_of(rights)),
                }
            }
            Self::Tables(tables) => {
                let index = tables.iter().position(|table| is_its(table));
                if let Some(table) = index.and_then(|index| tables.get_mut(index)) {
                    return fill(table, rights);
                }
                let mut table = Table::new();
                table.insert("network", Item::Value(rights.network.to_string().into()));
                fill(&mut table, rights);
                tables.push(table);
            }
        }
    }

    /// Removes the entries of all other networks.
    fn retain(&mut self, mut keeps: impl FnMut(Network) -> bool) {
        let mut keeps = |entry: &dyn TableLike| network_of(entry).is_none_or(&mut keeps);
        match self {
            Self::List(array) => {
                array.retain(|value| value.as_inline_table().is_none_or(|entry| keeps(entry)));
            }
            Self::Tables(tables) => tables.retain(|table| keeps(table)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use server::Config;

    use super::*;

    fn rights(network: &str, access: AccessWord) -> Rights {
        let network = network.parse().expect("a network");
        Rights { network, access, squash: None, anonymous: None }
    }

    fn networks(all: &[&str]) -> Vec<Network> {
        all.iter().map(|network| network.parse().expect("a network")).collect()
    }

    /// The text with one more client, which may write.
    fn allowed(text: &str, network: &str) -> String {
        allow(text, "data", &[rights(network, AccessWord::ReadWrite)]).expect("it is fit")
    }

    /// A text of TOML, with `'` for the quotes.
    fn toml(text: &str) -> String {
        text.replace('\'', "\"")
    }

    #[test]
    fn a_new_section_keeps_the_access_of_this_machine() {
        let section = toml(
            "[exports.data]\nclients = [\n    { network = '127.0.0.0/8', access = 'rw', squash = \
             'none' },\n    { network = '::1', access = 'rw', squash = 'none' },\n    { network = \
             '10.0.0.5', access = 'rw' },\n]\n",
        );
        assert_eq!(allowed("", "10.0.0.5"), section);
        let before = toml("# all of it\nlisten = '0.0.0.0:2049' # here\n\n[limits]\ncalls = 5\n");
        assert_eq!(allowed(&before, "10.0.0.5"), format!("{before}\n{section}"));
    }

    #[test]
    fn a_new_entry_has_the_layout_of_those_before_it_and_comments_stay() {
        let head = toml(
            "# rules\n[exports.data] # ours\nclients = [\n  # the office\n  { network = \
             '10.1.0.0/16', access = 'ro' },",
        );
        let new = toml("  { network = '10.0.0.5', access = 'rw' },\n");
        for (last, end) in [(" # by cable\n", "]\n"), ("\n  # end\n", "]\n"), ("\n", "  ]\n")] {
            let end = toml(&format!("{end}durability = 'durable' # so\n"));
            let text = format!("{head}{last}{end}");
            assert_eq!(allowed(&text, "10.0.0.5"), format!("{head}{last}{new}{end}"));
        }
        let entry = "{ network = '10.0.0.5', access = 'rw' }";
        let line = "[exports.data]\nclients = [{ network = '::1', access = 'ro' }] # one\n";
        let changed = toml(&line.replace("}]", &format!("}}, {entry}]")));
        assert_eq!(allowed(&toml(line), "10.0.0.5"), changed);
        let changed = toml(&format!("[exports.data]\nclients = [{entry}]\n"));
        assert_eq!(allowed("[exports.data]\nclients = []\n", "10.0.0.5"), changed);
    }

    #[test]
    fn the_entry_of_a_network_is_changed_and_not_doubled() {
        let text = toml(
            "[exports.data]\nclients = [{ network = '10.1.2.3/8', access = 'ro', squash = 'all' \
             }]\n",
        );
        assert_eq!(allowed(&text, "10.0.0.0/8"), text.replace("ro", "rw"));
        let anonymous = Some(Anonymous { uid: 1000, gid: 100 });
        let squash = Some(SquashWord::Root);
        let rights = Rights { squash, anonymous, ..rights("10.0.0.0/8", AccessWord::ReadOnly) };
        let changed = allow(&text, "data", &[rights]).expect("it is fit");
        let more = "\"root\", anonymous_uid = 1000, anonymous_gid = 100 }";
        assert_eq!(changed, text.replace("\"all\" }", more));
    }

    #[test]
    fn entries_may_be_tables() {
        let head = "[[exports.data.clients]]\n";
        let one = toml(&format!("{head}network = '10.0.0.0/8'\naccess = 'ro' # read\n"));
        let other = toml(&format!("\n{head}network = '10.0.0.5'\naccess = 'rw'\n"));
        assert_eq!(allowed(&one, "10.0.0.5"), format!("{one}{other}"));
        assert_eq!(allowed(&one, "10.0.0.0/8"), one.replace("\"ro\"", "\"rw\""));
        let both = format!("{one}{other}");
        let left = deny(&both, "data", &networks(&["10.0.0.5"])).expect("it is fit");
        assert_eq!(left.trim_end(), one.trim_end());
        let none = deny_all(&both, "data").expect("it is fit");
        assert_eq!(none.trim(), "[exports.data]\nclients = []");
    }

    #[test]
    fn a_network_is_removed_and_all_are_and_the_rest_stays() {
        let text = toml(
            "[exports.data]\nclients = [ # who\n    { network = '10.0.0.5', access = 'ro' },\n    \
             { network = '::1', access = 'rw' }, # self\n]\ndurability = 'durable'\n",
        );
        let left = deny(&text, "data", &networks(&["10.0.0.5"])).expect("it is fit");
        assert!(!left.contains("10.0.0.5") && left.contains("{ network = \"::1\""), "{left}");
        assert!(left.contains("# self\n]\ndurability"), "{left}");
        let none = deny_all(&text, "data").expect("it is fit");
        assert_eq!(none, "[exports.data]\nclients = []\ndurability = \"durable\"\n");
        let none = deny_all("", "my data").expect("it is fit");
        assert_eq!(none, "[exports.\"my data\"]\nclients = []\n");
        let this_machine = deny("", "data", &networks(&["::1"])).expect("it is fit");
        assert!(this_machine.contains("127.0.0.0/8") && !this_machine.contains("::1"));
    }

    #[test]
    fn sections_may_be_inline_or_dotted() {
        for text in [
            "exports = { data = { clients = [{ network = '::1', access = 'ro' }] } }\n",
            "exports.data.clients = [{ network = '::1', access = 'ro' }]\n",
            "[exports]\ndata = { clients = [{ network = '::1', access = 'ro' }] }\n",
            "exports = {}\n",
            "[exports.other]\nclients = []\n",
            "[exports.data]\ndurability = 'delayed'\n",
        ] {
            let changed = allowed(&toml(text), "10.0.0.5");
            let config = Config::parse(&changed, Path::new("x")).expect(&changed);
            let exports = config.exports().expect("rules");
            for address in ["10.0.0.5", "::1"] {
                let rule = exports.rule("data", address.parse().expect("an address"));
                assert!(rule.is_some_and(|rule| rule.writable || address == "::1"), "{changed}");
            }
        }
        assert!(allow("exports = 5", "data", &[]).is_err());
        assert!(allow("[exports.data]\nclients = 5", "data", &[]).is_err());
    }

    #[test]
    fn each_network_is_found_on_its_line() {
        let text = toml(
            "\n[exports.data]\nclients = [\n  { network = '10.1.2.3/8', access = 'ro' },\n\n  { \
             access = 'ro', network = '::1' },\n]\n",
        );
        let found = lines(&text, "data").into_iter();
        let found: Vec<_> = found.map(|(network, line)| (network.to_string(), line)).collect();
        assert_eq!(found, [("10.0.0.0/8".to_owned(), 4), ("::1".to_owned(), 6)]);
        assert_eq!(lines(&text, "other"), []);
        let tables = toml("[[exports.data.clients]]\naccess = 'ro'\nnetwork = '::1'\n");
        assert_eq!(lines(&tables, "data")[0].1, 3);
    }
}
