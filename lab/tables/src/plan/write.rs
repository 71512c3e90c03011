//! Plans as texts: whole, to be shown and kept with a result; and short, to begin one's own.

use std::fmt::Write;

use super::{BuiltIn, Plan};
use crate::parameters;

/// Where comments are broken.
const COLUMNS: usize = 90;

impl Plan {
    /// The whole plan, each input and parameter with its comment and what was changed marked.
    /// Read as a plan, it gives the same run.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        comment(
            &mut out,
            &format!("{}: {}", self.name, self.experiment.question),
        );
        out.push_str("#\n");
        comment(
            &mut out,
            "The whole plan: every input and every parameter. What is left out of a plan keeps \
             the value that it has here.",
        );
        out.push('\n');
        if let Some(title) = &self.title {
            let _ = writeln!(out, "title = {}", quoted(title));
        }
        let _ = writeln!(out, "system = {}", quoted(self.system.name()));
        let _ = writeln!(out, "experiment = {}", quoted(self.experiment.name));
        let _ = writeln!(out, "seed = {}", self.seed);
        let _ = writeln!(out, "replications = {}", self.replications);
        let described = !self.system.sections().is_empty();
        for (name, text) in [("inputs", &self.inputs), ("parameters", &self.parameters)] {
            if described && name == "parameters" {
                // The network's own tables stand by themselves.
                let _ = write!(out, "\n{}", self.marked("", text));
                continue;
            }
            let _ = write!(
                out,
                "\n[{name}]\n{}",
                section(name, &self.marked(name, text))
            );
        }
        out
    }

    fn marked(&self, name: &str, text: &str) -> String {
        let mut text = text.to_owned();
        for change in &self.changes {
            let key = match name {
                // A network's keys stand by themselves.
                "" => Some(change.key.as_str()),
                name => change
                    .key
                    .strip_prefix(name)
                    .and_then(|key| key.strip_prefix('.')),
            };
            if let Some(key) = key {
                let was = change.was.split_whitespace().collect::<Vec<_>>().join(" ");
                text = parameters::remark(&text, key, &format!("changed, was {was}"));
            }
        }
        text
    }

    /// A plan to begin one's own with, in the file `name`: head and inputs to be changed in
    /// place, parameters by their names, with what to do with all that.
    #[must_use]
    pub fn starter(&self, file: &str) -> String {
        let mut out = String::new();
        let stem = file.strip_suffix(".toml").unwrap_or(file);
        let begun = BuiltIn {
            system: self.system,
            experiment: self.experiment,
            described: None,
        };
        comment(
            &mut out,
            &format!(
                "{file}: a plan for `barewire lab`, begun from {}.",
                begun.name()
            ),
        );
        out.push_str("#\n");
        comment(&mut out, self.experiment.question);
        let _ = write!(
            out,
            "#
#   barewire lab run {file}             runs it
#   barewire lab run {file} -o {stem}     and keeps tables and plan in the folder {stem}
#   barewire lab plot {stem}                 and draws them
#   barewire lab show {file}            everything that it runs with
#
# Quantities are text with their units: \"30 us\", \"1 Gbit/s\", \"4 KiB\". Every key of this
# file and all commands are in docs/laboratory.md.

# What its results are headed with.
title = {}

# Whose model is asked, and what: `barewire lab list`.
system = {}
experiment = {}

# The same seed gives the same result on every machine.
seed = {}

# Runs, each with a seed of its own. From 2 on, results are means with 95 % confidence
# intervals.
replications = {}

",
            quoted(self.title.as_deref().unwrap_or(stem)),
            quoted(self.system.name()),
            quoted(self.experiment.name),
            self.seed,
            self.replications
        );
        self.starter_with(&mut out);
        let inputs = section("inputs", &self.marked("inputs", &self.inputs));
        let _ = write!(
            out,
            "\n# What the experiment is run with. A line that is left out keeps the value that it \
             has here.\n[inputs]\n{inputs}"
        );
        self.starter_parameters(&mut out);
        out
    }

    fn starter_with(&self, out: &mut String) {
        out.push_str("# Files, beside this one, whose [inputs] and [parameters] come before these");
        let names: Vec<&str> = self.system.fragments().iter().map(|it| it.0).collect();
        if names.is_empty() {
            out.push_str(":\n# with = [\"my-host.toml\"]\n");
            return;
        }
        out.push_str(";\n");
        comment(
            out,
            &format!(
                "or built in for {}: {}.",
                self.system.name(),
                names.join(", ")
            ),
        );
        let _ = writeln!(out, "# with = [{}]", quoted(names[0]));
    }

    fn starter_parameters(&self, out: &mut String) {
        if !self.system.sections().is_empty() {
            let _ = write!(
                out,
                "\n# The network: hosts, their cards, what is between them, and what runs on it.\n\n{}",
                self.parameters
            );
            return;
        }
        let name = self.system.name();
        let _ = write!(
            out,
            "\n# The parameters of {name} are its own but for those given here: take the # away and\n\
             # change the value. Their sources: `barewire lab show {name}`.\n[parameters]\n"
        );
        // A text that the experiment has read is TOML.
        for parameter in parameters::list(&self.parameters).unwrap_or_default() {
            let key = &parameter.key;
            let changed = |change: &&super::Changed| change.key == format!("parameters.{key}");
            let is_changed = self.changes.iter().any(|change| changed(&change));
            let is_of_list = key.split('.').any(|part| part.parse::<usize>().is_ok());
            if !parameter.value.contains('\n') && !is_of_list {
                let mark = if is_changed { "" } else { "# " };
                let _ = writeln!(out, "{mark}{key} = {}", parameter.value);
            }
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A comment, in lines of [`COLUMNS`].
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

/// A text as it stands below `[name]`: its own headings with that name in front. Where that
/// goes wrong, as with lists that look like headings, the values without comments.
fn section(name: &str, text: &str) -> String {
    let mut below = String::new();
    for line in text.trim_matches('\n').lines() {
        match heading(line) {
            Some((brackets, rest)) => {
                let _ = writeln!(below, "{brackets}{name}.{rest}");
            }
            None => {
                let _ = writeln!(below, "{line}");
            }
        }
    }
    let is = toml::from_str::<toml::Table>(&format!("[{name}]\n{below}"));
    let wanted = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let as_wanted =
        |is: &toml::Table| is.get(name).and_then(toml::Value::as_table) == Some(&wanted);
    if is.as_ref().is_ok_and(as_wanted) {
        return below;
    }
    let whole = toml::Table::from_iter([(name.to_owned(), toml::Value::Table(wanted))]);
    let plain = toml::to_string(&whole).unwrap_or_default();
    let own = format!("[{name}]\n");
    plain.strip_prefix(&own).unwrap_or(&plain).to_owned()
}

/// The brackets of a heading and what follows them, if the line is one.
fn heading(line: &str) -> Option<(&'static str, &str)> {
    let (brackets, rest) = match line.strip_prefix("[[") {
        Some(rest) => ("[[", rest),
        None => ("[", line.strip_prefix('[')?),
    };
    let name = rest.split(']').next().unwrap_or_default();
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"' ".contains(c);
    (!name.is_empty() && name.chars().all(is_key)).then_some((brackets, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_get_the_name_in_front_and_comments_stay() {
        let text = "# all\na = 1 # [x]\n\n# of r\n[r] # here\nb = [\n  [1],\n]\n[[m]]\nc = 2\n";
        assert_eq!(
            section("p", text),
            "# all\na = 1 # [x]\n\n# of r\n[p.r] # here\nb = [\n  [1],\n]\n[[p.m]]\nc = 2\n"
        );
    }

    #[test]
    fn values_are_right_even_where_a_list_looks_like_a_heading() {
        let text = "a = [\n[1]\n]\n[r]\nb = \"x\"\n";
        let whole: toml::Table = toml::from_str(&format!("[p]\n{}", section("p", text))).unwrap();
        assert_eq!(whole["p"], toml::from_str::<toml::Value>(text).unwrap());
    }
}
