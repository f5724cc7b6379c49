//! Commands in a namespace of this machine.

use std::collections::BTreeMap;
use std::io;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use weir_kernel::Namespace;

/// Runs a command by `sh -ec` inside a namespace to its end; how long it took.
///
/// What it starts is in the namespace too, so it ends with the session at the latest.
pub(crate) fn time_shell_command_in_namespace(
    namespace: &Namespace,
    text: &str,
    variables: &BTreeMap<String, String>,
) -> io::Result<(Duration, Output)> {
    let mut command = namespace.command("sh");
    command.args(["-ec", text]).envs(variables);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = command.spawn()?.wait_with_output()?;
    Ok((begun.elapsed(), output))
}

/// While it exists, processes that the current thread starts have priority over the machine's other
/// work, as far as possible without real-time priority: a load takes longer than a real-time burst
/// may.
pub(crate) struct HighPriorityGuard(i32);

impl HighPriorityGuard {
    pub(crate) fn raise_priority() -> HighPriorityGuard {
        let before = getpriority_process(None).unwrap_or(0);
        // Where it is refused the load is timed as any other process.
        let _ = setpriority_process(None, -20);
        HighPriorityGuard(before)
    }
}

impl Drop for HighPriorityGuard {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.0);
    }
}
