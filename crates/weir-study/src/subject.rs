//! Subjects: what a study measures, as commands.
//!
//! The laboratory does not know any firewall. A subject declares in `subjects.toml` how a ruleset
//! is loaded, and nothing else is known about it. Commands are run by `sh -ec`, with these
//! variables:
//!
//! | variable | holds |
//! |---|---|
//! | `RULESET` | file of the scenario's ruleset |
//! | `MORE` | file of a few more rules, for `add` |
//! | `DIR` | folder of this subject and ruleset, empty before `prepare` |
//! | `SEED`, `IN`, `OUT` | the run's seed; the firewall's devices |
//! | `TRIAL_SECONDS` | length of a trial |
//! | `CORE` | the core that packets are made on |
//! | an axis in capital letters | the value on it, e.g. `RULES` |
//! | `WEIR` | the weir that runs the study |
//!
//! A command that ends with status 77 says that there is nothing to measure at this point; any
//! other status but 0 ends the run.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::StudyError;
use crate::client_kind::ClientKind;
use crate::connection_path::ConnectionPath;
use crate::program_search_path::ProgramSearchPath;
use crate::toml_text;
use crate::value_rule_tables::SUBJECTS_VALUE_RULES;

/// A way to put a ruleset in force.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// What a reader sees.
    pub title: String,
    /// What it does, one sentence.
    pub about: String,
    /// Loads no rules at all.
    #[serde(default)]
    #[serde(rename = "baseline")]
    pub loads_no_rules: bool,
    /// Made by weir.
    #[serde(default)]
    pub weir: bool,
    /// The way that connections take: through a gateway with two devices unless it says otherwise.
    #[serde(default)]
    pub path: ConnectionPath,
    /// The client in a study of sockets: by default weir's own with sockets.
    #[serde(default)]
    pub client: ClientKind,
    /// Programs that it needs on the `PATH`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Runs once before the trials, outside of any firewall.
    #[serde(default)]
    pub prepare: String,
    /// Runs inside the firewall's namespace before `load`, and is not timed.
    #[serde(default)]
    pub setup: String,
    /// Puts the ruleset in force; runs inside the firewall's namespace, and is timed.
    #[serde(default)]
    pub load: String,
    /// In a study of look-ups, in place of `load`: builds a classifier of the ruleset, looks packets
    /// up, and prints what it measured, as `weir bench classify --json` does for one engine.
    #[serde(default)]
    pub measure: String,
    /// Puts back what was there.
    #[serde(default)]
    pub unload: String,
    /// Prints `dropped N`: the packets that the rules dropped so far.
    #[serde(default)]
    pub count: String,
    /// Runs before `add`, and is not timed; makes room, e.g. in a set that is as large as the
    /// ruleset.
    #[serde(default)]
    pub prepare_add: String,
    /// Adds the rules of `MORE` to those in force, one command each; is timed.
    #[serde(default)]
    pub add: String,
    /// It drops before netfilter sees a packet (tc, XDP): the kernel gives no netfilter reason.
    #[serde(default)]
    pub before_netfilter: bool,
    /// Several cores work at once. Their losses are counted without a lock (`veth_xdp_xmit` in
    /// drivers/net/veth.c), and where two add to the same counter one of them may be lost.
    #[serde(default)]
    #[serde(rename = "many_cores")]
    pub runs_on_several_cores: bool,
    /// Its rules drop everything that the traffic of the study sends.
    #[serde(default)]
    pub drops_all: bool,
    /// Packets per second that a limit accepts of those that must be dropped; 0: none.
    #[serde(default)]
    pub lets_through_pps: u64,
}

/// All subjects of a file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Subjects(pub BTreeMap<String, Subject>);

impl Subjects {
    /// Reads the file that all studies share, and a study's own; one of them may be missing.
    ///
    /// # Errors
    /// With file and line: text that is no TOML, fields that are not known or are missing, a name
    /// that is in both.
    pub fn read_disjoint_shared_and_own(
        shared: &Path,
        own: &Path,
    ) -> Result<(Subjects, String), StudyError> {
        if !own.is_file() || own == shared {
            return Subjects::read_subjects_file(shared);
        }
        let (mut subjects, own_text) = Subjects::read_subjects_file(own)?;
        if !shared.is_file() {
            return Ok((subjects, own_text));
        }
        let (others, shared_text) = Subjects::read_subjects_file(shared)?;
        for (name, subject) in others.0 {
            if subjects.0.insert(name.clone(), subject).is_some() {
                let message = format!("subject `{name}` is in {} already", shared.display());
                let at = toml_text::find_key_offset(&own_text, &[&name]).unwrap_or(0);
                return Err(toml_text::error_at_offset(own, &own_text, at, message));
            }
        }
        Ok((subjects, format!("{shared_text}\n{own_text}")))
    }

    fn read_subjects_file(path: &Path) -> Result<(Subjects, String), StudyError> {
        let text =
            std::fs::read_to_string(path).map_err(StudyError::file_access_error("read", path))?;
        let subjects = toml_text::check_and_deserialize_toml(path, &text, SUBJECTS_VALUE_RULES)?;
        Ok((subjects, text))
    }
}

impl Subject {
    /// What runs for each measurement: `load`, or `measure` in a study of look-ups.
    pub fn measured_command(&self) -> &str {
        if self.load.is_empty() { &self.measure } else { &self.load }
    }

    /// The first program that it needs and that is not on the `PATH`.
    pub fn missing_program_message(&self, programs: &ProgramSearchPath) -> Option<String> {
        let is_missing = |name: &&String| !programs.has_program(name);
        let needed = self.needs.iter().find(is_missing);
        needed.map(|name| format!("{name} is not installed")).or_else(|| {
            let client = self.client.program_name().filter(|name| !programs.has_program(name))?;
            Some(format!("{client} is not installed: `apt-get install {client}`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_client_program_is_reported_with_install_command() {
        let common = "title = 't'\nabout = 'a'\nload = 'true'";
        let text = |client| format!("{common}\nclient = '{client}'");
        let subject = |client| toml::from_str::<Subject>(&text(client)).unwrap();
        let nothing = ProgramSearchPath::new("/nonexistent".as_ref());
        let lacking = subject("wrk-kept").missing_program_message(&nothing).unwrap();
        assert_eq!(lacking, "wrk is not installed: `apt-get install wrk`");
        assert_eq!(subject("stateless").missing_program_message(&nothing), None);
    }
}
