//! Golden console sessions: documents whose commands are run and whose output is compared.
//!
//! A session is a Markdown file. Its blocks are run in order, in a separate folder:
//!
//! - ` ```console `: lines that begin with `$ ` are commands for `sh -c`; a line that ends in `\`
//!   continues in the next. The lines up to the next command are its expected output, standard
//!   output and errors together. A status other than 0 is a last line `[status N]`. A line `...`
//!   matches any number of lines.
//! - ` ```LANGUAGE file=NAME `: writes the block to a file of that name.
//!
//! A block whose output contains fences has a longer fence itself.
//!
//! Everything else is for the reader. The folder has a link `examples` to the repository's
//! examples. Durations and the folder's path are masked on both sides
//! ([`mask_durations_and_paths`]). With `WEIR_BLESS=1` the file is
//! rewritten with the actual output.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mask_durations_and_paths;

/// A command of a session that printed something else than the document shows.
#[derive(Debug)]
pub struct ConsoleDifference {
    /// The document.
    pub file: PathBuf,
    /// Line of the command, from 1.
    pub line: usize,
    /// The command.
    pub command: String,
    /// What the document shows.
    pub expected: String,
    /// The actual output.
    pub actual: String,
}

impl fmt::Display for ConsoleDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: $ {}", self.file.display(), self.line, self.command)?;
        writeln!(f, "--- the document shows\n{}", self.expected)?;
        writeln!(f, "--- the command prints\n{}", self.actual)?;
        write!(f, "(`cargo xtask bless` takes over what it prints)")
    }
}

impl std::error::Error for ConsoleDifference {}

/// Runs a session. `programs` goes first on the path; `env` is added to the environment.
///
/// Colours are off (`NO_COLOR=1`), the language is `C.UTF-8`, the width is that of 80 columns.
///
/// # Errors
/// The first command that prints something else than the document shows.
///
/// # Panics
/// Where the document cannot be read, or has no command: then it would prove nothing.
pub fn run_console_session(
    file: &Path,
    programs: &Path,
    env: &[(&str, &str)],
) -> Result<(), Box<ConsoleDifference>> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let folder = ConsoleTempFolder::new();
    let (blessed, differences) = run_markdown_to_corrected_text(file, &text, &|command| {
        folder.run_step(command, programs, env)
    });
    let has_commands = text.lines().any(|l| l.starts_with("$ "));
    assert!(has_commands, "{}: no command in a ```console block", file.display());
    if crate::is_blessing_golden_files() {
        if blessed != text {
            std::fs::write(file, blessed).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
        return Ok(());
    }
    differences.into_iter().next().map_or(Ok(()), |d| Err(Box::new(d)))
}

/// What the session does: commands return what they print, files return nothing.
type ConsoleStepRunner<'a> = &'a dyn Fn(ConsoleStep<'_>) -> String;

enum ConsoleStep<'a> {
    RunCommand(&'a str),
    WriteFile { name: &'a str, text: &'a str },
}

/// Plays all blocks; the document as it would be right, and where it is not.
fn run_markdown_to_corrected_text(
    file: &Path,
    text: &str,
    sh: ConsoleStepRunner<'_>,
) -> (String, Vec<ConsoleDifference>) {
    let mut blessed = String::new();
    let mut differences = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        blessed.push_str(line);
        let info = line.trim_start_matches('`');
        // As in Markdown: a longer fence holds shorter ones.
        let fence = &line[..line.len() - info.len()];
        let info = info.trim();
        if fence.len() < 3 || info.is_empty() {
            continue;
        }
        let mut body = String::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with(fence)) {
            body.push_str(line);
        }
        if info == "console" {
            let block = ConsoleBlock { file, first_line_number: at + 2, body: &body };
            blessed.push_str(&block.run_commands_to_corrected_body(sh, &mut differences));
        } else {
            let name = info.split(' ').find_map(|word| word.strip_prefix("file="));
            if let Some(name) = name {
                sh(ConsoleStep::WriteFile { name, text: &body });
            }
            blessed.push_str(&body);
        }
        if let Some((_, fence)) = lines.next() {
            blessed.push_str(fence);
        }
    }
    (blessed, differences)
}

struct ConsoleBlock<'a> {
    file: &'a Path,
    /// Line of the body's first line, from 1.
    first_line_number: usize,
    body: &'a str,
}

impl ConsoleBlock<'_> {
    /// Runs the commands of the block; the body as it would be right.
    fn run_commands_to_corrected_body(
        &self,
        sh: ConsoleStepRunner<'_>,
        differences: &mut Vec<ConsoleDifference>,
    ) -> String {
        let mut blessed = String::new();
        let mut lines = self.body.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let Some(mut command) = line.strip_prefix("$ ").map(str::to_owned) else {
                // Text before the first command: a remark.
                blessed.push_str(line);
                blessed.push('\n');
                continue;
            };
            let mut shown = format!("{line}\n");
            while command.ends_with('\\') {
                let Some((_, more)) = lines.next() else { break };
                command = format!("{command}\n{more}");
                shown = format!("{shown}{more}\n");
            }
            let mut expected = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with("$ ")) {
                expected.push(line);
            }
            let actual = sh(ConsoleStep::RunCommand(&command));
            blessed.push_str(&shown);
            if is_expected_output(&expected, &actual) {
                expected.iter().for_each(|line| blessed.extend([line, "\n"]));
            } else {
                blessed.push_str(&actual);
                differences.push(ConsoleDifference {
                    file: self.file.to_owned(),
                    line: self.first_line_number + at,
                    command,
                    expected: expected.join("\n"),
                    actual: actual.trim_end().to_owned(),
                });
            }
        }
        blessed
    }
}

/// Whether the output is what is expected, up to masks, line ends and `...`.
fn is_expected_output(expected: &[&str], actual: &str) -> bool {
    let masked = |line: &str| mask_durations_and_paths(line.trim_end(), &[]);
    let expected: Vec<_> = expected.iter().map(|l| masked(l)).collect();
    let actual: Vec<_> = actual.lines().map(masked).collect();
    lines_match_with_ellipsis(&expected, &actual)
}

fn lines_match_with_ellipsis(expected: &[String], actual: &[String]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, None) => true,
        (Some((line, rest)), _) if line == "..." => {
            (0..=actual.len()).any(|skipped| lines_match_with_ellipsis(rest, &actual[skipped..]))
        }
        (Some((e, expected)), Some((a, actual))) => {
            e == a && lines_match_with_ellipsis(expected, actual)
        }
        _ => false,
    }
}

/// A folder of its own for one session, removed after it.
struct ConsoleTempFolder(PathBuf);

impl ConsoleTempFolder {
    fn new() -> ConsoleTempFolder {
        static NEXT_FOLDER_NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NEXT_FOLDER_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-console-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap_or_else(|e| panic!("create {}: {e}", path.display()));
        let examples = std::os::unix::fs::symlink(
            crate::testdata::repository_root().join("examples"),
            path.join("examples"),
        );
        examples.unwrap_or_else(|e| panic!("link {}/examples: {e}", path.display()));
        ConsoleTempFolder(path)
    }

    fn run_step(&self, step: ConsoleStep<'_>, programs: &Path, env: &[(&str, &str)]) -> String {
        let command = match step {
            ConsoleStep::RunCommand(command) => command,
            ConsoleStep::WriteFile { name, text } => {
                let is_name = !name.contains('/') && name != "..";
                assert!(is_name, "file={name}: a name, not a path");
                std::fs::write(self.0.join(name), text).expect("a writable temporary folder");
                return String::new();
            }
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.0)
            .env("PATH", format!("{}:{path}", programs.display()))
            .envs([("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8"), ("COLUMNS", "80")])
            .envs(env.iter().copied())
            .output()
            .expect("a shell");
        let folder = self.0.display().to_string();
        let mut text = String::from_utf8_lossy(&output.stdout).replace(&folder, "[dir]");
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match output.status.code() {
            Some(0) => {}
            Some(code) => text.push_str(&format!("[status {code}]\n")),
            None => text.push_str("[killed]\n"),
        }
        text
    }
}

impl Drop for ConsoleTempFolder {
    fn drop(&mut self) {
        // A leftover folder does no harm; panicking in a drop would hide the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(text: &str) -> (String, Vec<ConsoleDifference>) {
        let folder = ConsoleTempFolder::new();
        run_markdown_to_corrected_text(Path::new("x.md"), text, &|step| {
            folder.run_step(step, Path::new("/nonexistent"), &[])
        })
    }

    fn agrees_with(text: &str) -> bool {
        let (blessed, differences) = played(text);
        assert!(!differences.is_empty() || blessed == text, "{blessed}");
        differences.is_empty()
    }

    #[test]
    fn output_is_compared_exactly() {
        assert!(agrees_with("```console\n$ echo a; echo b >&2\na\nb\n```\n"));
        assert!(!agrees_with("```console\n$ echo a; echo b\na\n```\n"));
        assert!(!agrees_with("```console\n$ echo a\na\nb\n```\n"));
        assert!(!agrees_with("```console\n$ echo a\n```\n"));
    }

    #[test]
    fn a_nonzero_exit_status_is_an_output_line() {
        assert!(agrees_with("```console\n$ echo a; exit 3\na\n[status 3]\n```\n"));
        assert!(!agrees_with("```console\n$ echo a; exit 3\na\n```\n"));
        assert!(!agrees_with("```console\n$ echo a\na\n[status 3]\n```\n"));
    }

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(agrees_with("```console\n$ seq 5\n1\n...\n5\n```\n"));
        assert!(agrees_with("```console\n$ seq 2\n1\n...\n2\n```\n"));
        assert!(!agrees_with("```console\n$ seq 5\n1\n...\n4\n```\n"));
    }

    #[test]
    fn a_longer_fence_holds_shorter_ones() {
        assert!(agrees_with("````console\n$ printf 'a\\n```\\nb\\n'\na\n```\nb\n````\n"));
        assert!(!agrees_with("````console\n$ printf 'a\\n```\\nb\\n'\na\n```\nc\n````\n"));
    }

    #[test]
    fn blocks_share_a_folder_and_files() {
        let text = "```text file=a.txt\nhello\n```\nwords\n```console\n$ cat a.txt\nhello\n\
                    $ echo x > b\n```\n```console\n$ cat \\\n  b\nx\n$ pwd\n[dir]\n\
                    $ ls examples/README.md\nexamples/README.md\n```\n";
        assert!(agrees_with(text));
    }

    #[test]
    fn different_durations_are_not_a_difference() {
        assert!(agrees_with("```console\n$ echo done in 3 ms\ndone in 712.4 s\n```\n"));
    }

    #[test]
    fn blocks_of_other_languages_are_not_run() {
        assert!(agrees_with("```sh\n$ exit 1\n```\n"));
    }

    #[test]
    fn blessing_replaces_only_differing_output() {
        let text = "a\n```console\n$ echo 1\n1\n$ echo 2\nwrong\n$ seq 9\n...\n9\n```\nb\n";
        let (blessed, differences) = played(text);
        assert_eq!(blessed, text.replace("wrong", "2"));
        assert_eq!((differences.len(), differences[0].line), (1, 5));
        let shown = differences[0].to_string();
        assert!(shown.contains("x.md:5: $ echo 2") && shown.contains("wrong"), "{shown}");
    }
}
