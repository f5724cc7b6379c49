//! `weir example`: generated rulesets to try things on.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use weir_example::{IspOptions, RulesKind, RulesOptions, isp, rules, rules_nft};

use super::Answer;
use crate::cli::Example;
use crate::terminal;

/// Writes or prints an example.
pub fn run(args: &Example) -> Result<Answer> {
    match args {
        Example::Isp { seed, scale, output } => {
            ensure!(*scale > 0.0 && *scale <= 5.0, "--scale {scale}: above 0, at most 5");
            let example = isp(&IspOptions::scaled(*seed, *scale));
            let Some(dir) = output else { return terminal::print(&example.v4) };
            fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
            let texts = [
                ("isp.rules", Some(example.v4)),
                ("isp.rules6", Some(example.v6)),
                ("isp.ipset", example.ipset),
            ];
            for (name, text) in texts {
                let Some(text) = text else { continue };
                let path = dir.join(name);
                fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
                println!("{}", path.display());
            }
            Ok(Answer::Yes)
        }
        Example::Rules { count, seed, nft } => {
            ensure!(*count <= 200_000, "--count {count}: at most 200,000");
            let kind = RulesKind::Stateless;
            let options = RulesOptions { count: *count, seed: *seed, kind };
            terminal::print(&if *nft { rules_nft(&options) } else { rules(&options) })
        }
    }
}
