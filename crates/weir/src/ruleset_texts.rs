//! Texts of rulesets: files, standard input, output of commands.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use weir_model::Span;
use weir_syntax::{Diagnostic, render_diagnostics};

/// Name and text of each part.
#[derive(Default)]
pub struct RulesetTexts {
    /// `iptables-save` text, or `ip6tables-save` text that stands alone.
    pub ipv4_or_lone_ipv6: Option<(String, String)>,
    /// `ip6tables-save` text.
    pub ip6: Option<(String, String)>,
    /// `ipset save` text.
    pub sets: Option<(String, String)>,
}

/// What a command prints.
pub fn run_and_capture_stdout(words: &[&str]) -> Result<String> {
    let name = words.join(" ");
    let out = Command::new(words[0]).args(&words[1..]).output().with_context(|| name.clone())?;
    if !out.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("{name} is not UTF-8"))
}

/// Why a directory is not read as a file, and the cure.
fn describe_directory_in_place_of_file(path: &Path) -> String {
    let name = path.display();
    match path.join(weir_artefact::MANIFEST_FILE_NAME).exists() {
        true => format!(
            "{name} is a directory that weir compile wrote, and a file is expected here: give the \
             file that it was compiled from"
        ),
        false => format!("{name} is a directory: give a file in it"),
    }
}

/// Name and text of a file; `-` is standard input.
pub fn read_file_or_stdin(path: &Path) -> Result<(String, String)> {
    let (name, bytes) = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("read standard input")?;
        ("<stdin>".to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        if path.is_dir() {
            bail!("{}", describe_directory_in_place_of_file(path));
        }
        let bytes = fs::read(path).with_context(|| format!("read {name}"))?;
        (name, bytes)
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            // Bytes before the first invalid one are the same in the text that is shown.
            let at = error.utf8_error().valid_up_to() as u32;
            let shown = String::from_utf8_lossy(error.as_bytes());
            let invalid = Diagnostic::new(
                "the text is not UTF-8",
                Span { start: at, end: at + char::REPLACEMENT_CHARACTER.len_utf8() as u32 },
            )
            .with_help("convert it, or remove the invalid byte");
            let rendered = render_diagnostics(&[invalid], &name, &shown, false);
            bail!("{}", rendered.trim_start_matches("error: ").trim_end())
        }
    }
}
