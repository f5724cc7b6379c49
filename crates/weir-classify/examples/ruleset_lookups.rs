//! Compiles chains of rulesets to look-ups, reports what they are, and compares them with the
//! interpreter on packets, in every engine that takes them.
//!
//! `ruleset_lookups [--packets N] [--engine NAME]... [--hook HOOK]... FILE|demo...`: `demo` is the
//! access network of `weir example`. Chains are those of the filter table at the hooks (FORWARD).
//! Ends with 1 at the first packet that differs.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use weir_classify::ruleset::{FlattenLimits, LookupProgram, LookupStructures};
use weir_classify::{BuildLimits, Engine};
use weir_example::{IspOptions, generate_isp_ruleset};
use weir_model::{Family, Firewall, Hook, Packet, TableName};
use weir_review::lookup_walk::find_differing_packet;
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

struct Options {
    packet_count: usize,
    engines: Vec<Engine>,
    hooks: Vec<Hook>,
    files: Vec<String>,
}

fn main() -> Result<()> {
    let options = parse_options()?;
    for file in &options.files {
        let (v4, v6) = match file.as_str() {
            "demo" => {
                let made = generate_isp_ruleset(&IspOptions::default());
                (made.v4, Some(made.v6))
            }
            path => (std::fs::read_to_string(path).with_context(|| format!("read {path}"))?, None),
        };
        for (text, family) in
            [Some((v4, None)), v6.map(|text| (text, Some(Family::V6)))].into_iter().flatten()
        {
            let settings = ParserSettings { family, ..ParserSettings::default() };
            let Ok(ruleset) = parse(&text, &settings) else {
                println!("{file}: not a ruleset that weir reads");
                continue;
            };
            let firewall = match ruleset.family {
                Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
                Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
            };
            for &hook in &options.hooks {
                compare_lookups_of_chain_with_interpreter(file, &firewall, hook, &options)?;
            }
        }
    }
    Ok(())
}

fn parse_options() -> Result<Options> {
    let mut options =
        Options { packet_count: 100_000, engines: vec![], hooks: vec![], files: vec![] };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--packets" => options.packet_count = value()?.parse()?,
            "--engine" => {
                let name = value()?;
                let engine = Engine::from_name(&name).with_context(|| format!("engine {name}"))?;
                options.engines.push(engine);
            }
            "--hook" => {
                let name = value()?;
                let hook = Hook::from_chain_name(&name).with_context(|| format!("hook {name}"))?;
                options.hooks.push(hook);
            }
            _ => options.files.push(arg),
        }
    }
    if options.files.is_empty() {
        bail!("usage: ruleset_lookups [--packets N] [--engine NAME] [--hook HOOK] FILE|demo...");
    }
    if options.engines.is_empty() {
        options.engines = Engine::ALL.to_vec();
    }
    if options.hooks.is_empty() {
        options.hooks = vec![Hook::Forward];
    }
    Ok(options)
}

fn compare_lookups_of_chain_with_interpreter(
    file: &str,
    firewall: &Firewall,
    hook: Hook,
    options: &Options,
) -> Result<()> {
    let ruleset = firewall.rulesets().next().context("a ruleset")?;
    let family = ruleset.family;
    let chain = (TableName::Filter, hook.chain_name());
    let start = Instant::now();
    let program = match LookupProgram::compile(firewall, family, chain, FlattenLimits::default()) {
        Ok(program) => program,
        Err(error) => {
            println!("{file} {family:?} {hook:?}: {error}");
            return Ok(());
        }
    };
    println!("{file} {family:?} {hook:?}: compiled in {:.2} s", start.elapsed().as_secs_f64());
    print_lookup_program_statistics(&program);
    let journey_kind = match hook {
        Hook::Output => JourneyKind::Output,
        Hook::Input => JourneyKind::Input,
        _ => JourneyKind::Forward,
    };
    let traffic = TrafficOptions {
        max_packets: options.packet_count,
        journey_kind,
        ..TrafficOptions::default()
    };
    let packets: Vec<Packet> =
        generate_boundary_and_random_packets(ruleset, &firewall.sets, &traffic);
    println!("  {} packets", packets.len());
    let interpreter = Interpreter::new(firewall);
    let mut built = Vec::new();
    for &engine in &options.engines {
        let start = Instant::now();
        match LookupStructures::build(&program, engine, &BuildLimits::default()) {
            Ok(structures) => {
                let (name, seconds) = (engine.name(), start.elapsed().as_secs_f64());
                println!("  {name}: built in {seconds:.2} s, {} bytes", structures.memory_bytes());
                built.push(structures);
            }
            Err(error) => println!("  {}: refused: {error}", engine.name()),
        }
    }
    let start = Instant::now();
    let mut oracle = SeededOracle(1);
    let differing =
        find_differing_packet(&program, &built, &interpreter, hook, &packets, &mut oracle);
    if let Some(differing) = &differing {
        println!("{:#?}\n{differing:#?}", packets[differing.packet_index]);
    }
    ensure!(differing.is_none(), "look-ups differ from the interpreter");
    let seconds = start.elapsed().as_secs_f64();
    println!("  equal: {} packets, {} engines, {seconds:.0} s", packets.len(), built.len());
    Ok(())
}

fn print_lookup_program_statistics(program: &LookupProgram<'_>) {
    let (rules, evaluated) =
        (program.reachable_rule_count(), program.rules_evaluated_after_lookup());
    let stretches: Vec<_> = program.chains().iter().flat_map(|c| &c.stretches).collect();
    let filters: usize = stretches.iter().map(|s| s.filters.filter_count()).sum();
    let words = stretches.iter().map(|s| s.key_layout.schema().word_count()).max();
    let judged = rules - evaluated.len();
    println!(
        "  {rules} rules, {judged} ({:.1} %) by look-ups alone, {} evaluated; {} stretches in {} \
         chains, {filters} filters over up to {} words",
        100.0 * judged as f64 / rules.max(1) as f64,
        evaluated.len(),
        stretches.len(),
        program.chains().len(),
        words.unwrap_or(0),
    );
    let mut reasons = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (place, reason) in evaluated {
        let id = program.rule_id(place).to_string();
        reasons.entry(reason.to_string()).or_default().push(id);
    }
    for (reason, rules) in reasons {
        let first = rules.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        println!("  {} {reason}: {first}", rules.len());
    }
}
