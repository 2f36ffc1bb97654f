//! Settings from the host for the guest's first process: a file of shell variables.

use std::fmt::Write;

/// Shell assignments, each value quoted so that it reaches the guest unchanged.
#[derive(Debug, Default)]
pub(super) struct Settings(String);

impl Settings {
    /// Adds `name='value'`.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        writeln!(self.0, "{name}={}", quote(value)).expect("writing to a string succeeds");
    }

    /// Adds the positional parameters.
    pub(super) fn set_arguments(&mut self, arguments: &[String]) {
        self.0.push_str("set --");
        for argument in arguments {
            self.0.push(' ');
            self.0.push_str(&quote(argument));
        }
        self.0.push('\n');
    }

    /// The file's text.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// Quotes `text` as one word of the shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_set() {
        let arguments = ["it's", "", "$HOME `x`\n\\"].map(str::to_owned);
        let mut settings = Settings::default();
        settings.set("export", "/a b'c");
        settings.set_arguments(&arguments);
        let program = format!("{}printf '%s|' \"$export\" \"$@\"", settings.text());
        let output = Command::new("sh").args(["-c", &program]).output().unwrap();
        let expected = format!("/a b'c|{}|", arguments.join("|"));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
