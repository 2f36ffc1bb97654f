//! `duramen config`: the settings of a server's configuration that are in force, and where each
//! comes from. The file is judged as `duramen serve` judges it, and nothing is served.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use server::config::read_text;
use server::{Config, ConfigError, toml_key};
use toml_edit::{Document, TableLike};

use crate::failure::Failure;
use crate::wanted::{VolumeWords, find_all, wanted_of};

/// The configuration of a server that is not told another.
pub(crate) const DEFAULT_FILE: &str = "/etc/duramen/duramen.toml";

pub(crate) const HELP: &str = "\
Each setting is a line: its key, the value that is in force, and the line of the file that says so,
or 'default'. An error is the sentence with which 'duramen serve' would refuse to start. The volumes
are looked for and not opened. Exit codes: 0 no errors; 1 an error in the file or with a volume; 2
volumes that cannot be served together.

Examples:
  duramen config duramen.toml
  duramen config duramen.toml --check --volume disks/data
  duramen config duramen.toml --check && kill -HUP \"$(pidof duramen)\"";

/// The arguments of `duramen config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    /// Configuration file
    #[arg(default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// Judge the file for 'duramen serve VOLUME... --config FILE'; may be repeated [default: the
    /// volumes of the file]
    #[arg(long = "volume", value_name = "VOLUME")]
    volumes: Vec<PathBuf>,
    /// Only check the file
    #[arg(long)]
    check: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A setting. The names are those of the JSON object.
#[derive(Debug, PartialEq, Serialize)]
struct Setting {
    /// Keys from the top of the file, with dots between them.
    key: String,
    value: Value,
    /// Line of the file; null for a default.
    line: Option<usize>,
}

/// Prints the settings.
///
/// # Errors
/// [`Failure`] if the file cannot be read, or a server would refuse it.
pub(crate) fn run(arguments: &ConfigArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let ConfigArguments { file, volumes, check, json: is_json } = arguments;
    let shown = file.display().to_string(); // JSON has no other bytes
    match judge(file, volumes) {
        Ok(_) if *check && !is_json => writeln!(output, "{shown}: no errors")?,
        Ok(settings) if *is_json => {
            let settings = (!check).then_some(settings);
            let object = json!({ "file": shown, "error": null, "settings": settings });
            writeln!(output, "{object:#}")?;
        }
        Ok(settings) => settings.iter().try_for_each(|it| writeln!(output, "{}", line_of(it)))?,
        Err(error) if *is_json => {
            let object = json!({ "file": shown, "error": error.to_string(), "settings": null });
            writeln!(output, "{object:#}")?;
            let code = if matches!(error, Failure::Usage(_)) { 2 } else { 1 };
            return Err(Failure::Unwell { code });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Reads a file as a server does, and looks for its volumes, or for those of a command line. A file
/// without volumes is for some command line.
fn judge(file: &Path, volumes: &[PathBuf]) -> Result<Vec<Setting>, Failure> {
    let read = |source| ConfigError::Read { path: file.to_owned(), source };
    let text = read_text(file).map_err(read)?;
    let config = Config::parse(&text, file)?;
    if !config.volumes.is_empty() || !volumes.is_empty() {
        let words = VolumeWords { volumes, ..VolumeWords::default() };
        let wanted = wanted_of(words, &config.clone().with_paths_of(file))?;
        find_all(&wanted, words)?;
    }
    Ok(settings(&config, &text))
}

/// All settings, in the order of their keys.
fn settings(config: &Config, text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let document = Document::parse(text).ok();
    let value = serde_json::to_value(config).expect("all keys are names");
    flatten(&mut Vec::new(), value, &mut settings, &|keys| {
        let start = place(document.as_ref()?.as_table(), keys)?;
        Some(text[..start].matches('\n').count() + 1)
    });
    settings
}

/// Adds a setting for each leaf. A list is one.
fn flatten(
    keys: &mut Vec<String>,
    value: Value,
    settings: &mut Vec<Setting>,
    line: &dyn Fn(&[String]) -> Option<usize>,
) {
    if let Value::Object(map) = value {
        for (key, value) in map {
            keys.push(key);
            flatten(keys, value, settings, line);
            keys.pop();
        }
        return;
    }
    let key = keys.iter().map(|key| toml_key(key)).collect::<Vec<_>>().join(".");
    settings.push(Setting { key, value, line: line(keys) });
}

/// First byte of a key in the text.
fn place(table: &dyn TableLike, keys: &[String]) -> Option<usize> {
    let (first, rest) = keys.split_first()?;
    let (key, item) = table.get_key_value(first)?;
    match (rest, item.as_array_of_tables()) {
        ([], Some(tables)) => tables.iter().next()?.span().map(|span| span.start),
        ([], None) => key.span().map(|span| span.start),
        _ => place(item.as_table_like()?, rest),
    }
}

fn line_of(setting: &Setting) -> String {
    let value = match &setting.value {
        Value::Null => match setting.key.as_str() {
            "cache" => "a quarter of this machine's memory".to_owned(),
            key if key.ends_with(".clients") => "this machine".to_owned(),
            _ => "none".to_owned(),
        },
        value => inline(value),
    };
    let source = setting.line.map_or("default".to_owned(), |line| format!("line {line}"));
    format!("{} = {value}  # {source}", setting.key)
}

/// A value as the file may have it.
fn inline(value: &Value) -> String {
    let list = |all: Vec<String>| all.join(", ");
    match value {
        Value::Array(values) => format!("[{}]", list(values.iter().map(inline).collect())),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", list(pairs.collect()))
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let config = Config::parse(text, Path::new("duramen.toml")).expect("a good one");
        settings(&config, text).iter().map(line_of).collect()
    }

    #[test]
    fn each_setting_has_its_line_or_is_a_default() {
        let text = "# head\nlisten = '[::1]:2049'\n\n[limits]\n# more\ncalls = 7\n\n\
                    [exports.\"a b\"]\nclients = [\n  { network = '10.0.0.0/8', \
                    access = 'ro' },\n]\n";
        let lines = lines(text);
        for expected in [
            "listen = [\"[::1]:2049\"]  # line 2",
            "limits.calls = 7  # line 6",
            "limits.connections = 1024  # default",
            "cache = a quarter of this machine's memory  # default",
            "trace = none  # default",
            "reply_cache.memory = 100663296  # default",
            "exports.\"a b\".durability = \"durable\"  # default",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
        }
        let clients = lines.iter().find(|line| line.contains("clients")).expect("it is there");
        assert!(clients.starts_with("exports.\"a b\".clients = [{ "), "{clients}");
        assert!(clients.ends_with(" }]  # line 9"), "{clients}");
        assert!(clients.contains("network = \"10.0.0.0/8\""), "{clients}");
    }

    #[test]
    fn tables_of_clients_and_dotted_keys_have_lines_too() {
        let text = "reply_cache.seconds = 5\n[[exports.a.clients]]\nnetwork = '::1'\n\
                    access = 'rw'\n[exports.b]\n";
        let lines = lines(text);
        assert!(lines.contains(&"reply_cache.seconds = 5  # line 1".to_owned()), "{lines:#?}");
        let clients = lines.iter().find(|line| line.starts_with("exports.a.clients"));
        assert!(clients.expect("it is there").ends_with("# line 2"), "{lines:#?}");
        let expected = "exports.b.clients = this machine  # default";
        assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    }
}
