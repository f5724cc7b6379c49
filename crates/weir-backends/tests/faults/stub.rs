//! A program that replaces a tool: it fails, kills the script or does something else at given
//! calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::world::{Ended, World};

/// The tool that changes rules.
pub const RESTORE: &str = "iptables-legacy-restore";
/// Kills the script that called.
pub const KILL: &str = "kill -s KILL $PPID; exit";

/// A program that is a tool but for some of its calls. Calls are told by a part of their arguments,
/// which stand between blanks, with one before the first and one after the last.
pub struct Stub {
    tool: &'static str,
    body: String,
}

impl Stub {
    /// It is the tool at every call.
    pub fn of(tool: &'static str) -> Stub {
        Stub { tool, body: format!("exec {tool} \"$@\"") }
    }

    /// At calls with `part` it runs shell text first; it is the tool afterwards, unless the text
    /// ends it.
    pub fn instead(self, part: &str, text: &str) -> Stub {
        let Stub { tool, body } = self;
        Stub { tool, body: format!("case \" $* \" in *'{part}'*) {text};; esac\n{body}") }
    }

    /// At all other calls it runs shell text.
    pub fn unless(self, part: &str, text: &str) -> Stub {
        let Stub { tool, body } = self;
        Stub { tool, body: format!("case \" $* \" in *'{part}'*) ;; *) {text};; esac\n{body}") }
    }

    /// At calls that begin with `part` it runs shell text when the tool has done its work.
    pub fn after(self, part: &str, text: &str) -> Stub {
        let Stub { tool, body } = self;
        let done = format!("{tool} \"$@\" || exit; {text}; exit 0");
        Stub { tool, body: format!("case \" $* \" in '{part}'*) {done};; esac\n{body}") }
    }

    /// Writes the program; its path.
    pub fn write(&self, world: &World, name: &str) -> String {
        let path = world.path(name);
        fs::write(&path, format!("#!/bin/sh\n{}\n", self.body)).expect("the program is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
        path.display().to_string()
    }
}

/// Runs a script with variables that name its tools.
pub fn run_with(world: &World, line: &str, variables: &[(&str, &str)]) -> Ended {
    let mut command = world.command("sh");
    command.args(world.words(line)).envs(variables.iter().copied());
    Ended::of(&command.output().expect("sh runs"))
}
