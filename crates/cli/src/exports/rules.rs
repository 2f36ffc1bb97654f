//! The rules of a volume, for people and as JSON.

use std::io::Write;
use std::net::IpAddr;

use serde::Serialize;
use server::config::Network;
use server::{Rule, Squash, toml_key};

use super::{Document, edit};
use crate::failure::Failure;

/// A rule. The names are those of the JSON object.
#[derive(Serialize)]
struct RuleObject {
    network: String,
    access: &'static str,
    squash: &'static str,
    anonymous_uid: u32,
    anonymous_gid: u32,
    /// Line of the configuration; null for a rule that is in force without one.
    line: Option<usize>,
}

/// The rules of a volume.
#[derive(Serialize)]
struct ListObject<'a> {
    volume: &'a str,
    configuration: String,
    clients: Vec<RuleObject>,
}

/// The answer about one client.
#[derive(Serialize)]
struct CheckObject<'a> {
    volume: &'a str,
    configuration: String,
    address: IpAddr,
    /// The rule that counts; null if the client may not mount the volume.
    rule: Option<RuleObject>,
}

impl RuleObject {
    fn of(document: &Document, rule: &Rule) -> Self {
        let network = Network(rule.network);
        let lines = edit::lines(&document.text, &document.volume);
        let line = lines.iter().find(|(other, _)| *other == network);
        Self {
            network: network.to_string(),
            access: if rule.writable { "rw" } else { "ro" },
            squash: match rule.squash {
                Squash::None => "none",
                Squash::Root => "root",
                Squash::All => "all",
            },
            anonymous_uid: rule.anonymous.uid,
            anonymous_gid: rule.anonymous.gid,
            line: line.map(|(_, line)| *line),
        }
    }

    /// The rights, as part of a sentence.
    fn rights(&self) -> String {
        let access = if self.access == "rw" { "read and write" } else { "read only" };
        let Self { anonymous_uid: uid, anonymous_gid: gid, .. } = self;
        match self.squash {
            "none" => format!("{access}, no user squashed"),
            "root" => format!("{access}, root squashed to {uid}:{gid}"),
            _ => format!("{access}, all users squashed to {uid}:{gid}"),
        }
    }

    /// The place of the rule.
    fn place(&self, document: &Document) -> String {
        match self.line {
            Some(line) => format!("{}, line {line}", document.path.display()),
            None => format!(
                "no clients in [exports.{}] of {}",
                toml_key(&document.volume),
                document.path.display()
            ),
        }
    }
}

/// Prints the rules of a volume.
///
/// # Errors
/// [`Failure::Output`].
pub(super) fn list(
    document: &Document,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let export = document.exports.of(&document.volume);
    let clients: Vec<_> =
        export.rules().iter().map(|rule| RuleObject::of(document, rule)).collect();
    if is_json {
        let configuration = document.path.display().to_string();
        let list = ListObject { volume: &document.volume, configuration, clients };
        return print(&list, output);
    }
    if clients.is_empty() {
        writeln!(output, "no client may mount /{}", document.volume)?;
    }
    let width = clients.iter().map(|one| one.network.len()).max().unwrap_or(0);
    for one in &clients {
        let (network, rights, place) = (&one.network, one.rights(), one.place(document));
        writeln!(output, "{network:<width$}  {rights}  ({place})")?;
    }
    Ok(())
}

/// Prints what one client may do.
///
/// # Errors
/// [`Failure::Unwell`] if it may do nothing; [`Failure::Output`].
pub(super) fn check(
    document: &Document,
    address: IpAddr,
    is_json: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let volume = &document.volume;
    let rule = document.exports.rule(volume, address);
    let rule = rule.map(|rule| RuleObject::of(document, &rule));
    let is_admitted = rule.is_some();
    if is_json {
        let configuration = document.path.display().to_string();
        print(&CheckObject { volume, configuration, address, rule }, output)?;
    } else if let Some(rule) = rule {
        let (rights, network) = (rule.rights(), &rule.network);
        let place = rule.place(document);
        writeln!(output, "{address} may mount /{volume}: {rights}")?;
        writeln!(output, "rule for {network} ({place})")?;
    } else {
        writeln!(output, "{address} may not mount /{volume}: no rule admits it")?;
    }
    if is_admitted { Ok(()) } else { Err(Failure::Unwell { code: 1 }) }
}

fn print(object: &impl Serialize, output: &mut dyn Write) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(object).expect("all keys are names");
    Ok(writeln!(output, "{text}")?)
}
