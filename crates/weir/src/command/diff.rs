//! `weir diff`: two rulesets, for all packets.

use anyhow::{Context as _, Result, bail};
use weir_artefact::Deviation;
use weir_diagram::{CompareLevel, CompareOptions, CompareScope, Identity, compare};
use weir_model::Rule;
use weir_packet::{Mac, pcap};
use weir_review::{Review, ReviewSide as Named, count, not_covered};

use super::Answer;
use crate::cli::{Diff, Format, Operand};
use crate::json;
use crate::side::{self, DiffOperand};
use crate::terminal::{self, Progress};

/// Where frames go: a locally administered address.
const DESTINATION: Mac = [2, 0, 0, 0, 0, 1];

/// Compares, and says the result of it.
pub fn run(args: &Diff, color: bool) -> Result<Answer> {
    let [name_a, name_b] = &operands(args)?;
    if name_a == "-" && name_b == "-" {
        bail!("standard input can be read only once: name a file for the other");
    }
    let progress = Progress::new();
    progress.show("reading", 0.0);
    let mut a = side::load(name_a, &files(args, 0), color)?;
    let mut b = side::load(name_b, &files(args, 1), color)?;
    let by_nft = [&a, &b].iter().any(|s| !s.tables.tables.is_empty());
    let by_artefact = a.manifest.is_some() || b.manifest.is_some();
    let originals = side::credit(&mut a, &mut b);
    if args.counters && originals.is_none() {
        bail!("--counters needs the same rules on both sides, or an artefact of them");
    }
    let identity = match (&originals, by_artefact) {
        (Some(_), true) => Identity::Credit,
        _ => Identity::Text,
    };
    let (before, after) = (side::whole(&a, &b.firewall)?, side::whole(&b, &a.firewall)?);
    let options = CompareOptions {
        level: if args.verdict { CompareLevel::Verdict } else { CompareLevel::Effects },
        scope: args.hook.map_or(CompareScope::Journey, |h| CompareScope::Hook(h.hook())),
        identity,
        memory_bytes: args.memory << 20,
        steps_max: args.steps.saturating_mul(1_000_000),
        regions: args.regions,
        conntrack: args.conntrack,
        whole: by_nft,
        ..CompareOptions::default()
    };
    progress.show("comparing all packets", 0.1);
    let comparison = compare(&before, &after, &options)?;
    let lines = [&a, &b].map(|side| move |span, family| side.line(span, family));
    let original = |rule: &Rule| {
        let known = originals.as_ref().filter(|_| identity == Identity::Credit)?;
        known.place(*rule.credit.first()?).map(str::to_owned)
    };
    let [of_a, of_b] = &lines;
    let original = &original;
    let sides = [
        Named { name: &a.name, firewall: &before, line: of_a, original },
        Named { name: &b.name, firewall: &after, line: of_b, original },
    ];
    let mut review = Review::of(&comparison, sides, identity);
    if args.verdict {
        review.compared = "verdict";
    }
    if let (true, Some(originals)) = (args.counters, &originals) {
        progress.show("counting", 0.8);
        let place = |id| originals.place(id).unwrap_or_default().to_owned();
        let counters = count(sides, args.packets, args.seed, by_nft, &place);
        review.equal &= counters.differ.is_empty();
        review.counters = Some(counters);
    }
    review.not_compared = left_out(&[&a, &b], by_nft);
    review.not_compared.extend(not_covered(&[&before, &after]));
    drop(progress);
    write_pcap(args, &review)?;
    print(args, &review)?;
    answer(&review)
}

/// Both operands, in the order of the command line.
fn operands(args: &Diff) -> Result<[String; 2]> {
    match (&args.operands[..], args.live) {
        ([a, b], false) => Ok([a.clone(), b.clone()]),
        ([file], true) => {
            let words: Vec<String> =
                std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
            let place = |word: &str| words.iter().position(|w| w == word);
            let (live, file, first) =
                (side::LIVE.to_owned(), file.clone(), place(side::LIVE) < place(file));
            Ok(if first { [live, file] } else { [file, live] })
        }
        _ => bail!("diff needs two operands: files, folders of artefacts, or --live"),
    }
}

/// The files that belong to the operand of that number.
fn files(args: &Diff, number: usize) -> Operand {
    let of = |all: &[std::path::PathBuf]| all.get(number).or(all.first()).cloned();
    Operand {
        ip6: of(&args.ip6),
        ipset: of(&args.ipset),
        live: false,
        variant: args.variant,
        table: None,
        resolve: args.resolve,
    }
}

fn left_out(sides: &[&DiffOperand], by_nft: bool) -> Vec<String> {
    let mut out: Vec<String> = sides.iter().flat_map(|s| s.left_out.clone()).collect();
    if by_nft {
        out.push(format!(
            "packets that nft inherently treats differently: {} (docs/semantics.md, deviations)",
            Deviation::packets()
        ));
    }
    out
}

fn write_pcap(args: &Diff, review: &Review) -> Result<()> {
    let Some(path) = &args.pcap else { return Ok(()) };
    let paths = review.parts.iter().filter_map(|p| p.example.as_ref());
    let frames = paths.map(|p| p.example.itself.to_frame(DESTINATION));
    pcap::write(path, frames).with_context(|| format!("write {}", path.display()))
}

fn print(args: &Diff, review: &Review) -> Result<()> {
    let format = if args.json { Format::Json } else { args.format };
    let text = match format {
        Format::Text => review.text(),
        Format::Json => json::object("diff", review)?,
        Format::Markdown => review.markdown(),
    };
    terminal::print_plain(&text).map(|_| ())
}

fn answer(review: &Review) -> Result<Answer> {
    if review.differs() {
        return Ok(Answer::No);
    }
    if review.is_open() {
        bail!("some paths were not decided: try more --memory or --steps, or a single --hook");
    }
    Ok(Answer::Yes)
}
