//! The nft form: native nftables with verdict maps.
//!
//! Each iptables table of each family becomes one nft table with base chains at the same hooks and
//! priorities, user-defined chains under their names, and a `counter` for every rule. Runs of rules
//! that test one value become one lookup ([`class`]); their other tests stay in the chain that the
//! lookup leads to. If later fragments can occur (conntrack is not in use, so nothing reassembles
//! them), a test of the fragment offset precedes the first test of a transport header, because nft
//! would read a fragment's payload as ports.
//!
//! What nft cannot express is refused by name. A hook that needs it stays in iptables, as prefix
//! trees of chains, which the manifest lists; if no hook remains, there is no such form. The same
//! applies to a hook that enters a chain of Docker, kube-proxy, firewalld or ufw, because these
//! programs continue to edit it in iptables.

mod agree;
mod class;
mod cond;
mod credit;
mod emit;
mod form;
mod host;
mod item;
mod names;
mod objects;
mod places;
mod proof;
mod share;
mod table;
pub mod to_iptables;

use std::collections::HashMap;

use weir_artefact::manifest::{CompiledRun, Kept, Share};
use weir_artefact::{Checked, CheckedPass, Deviation, Evidence, Form};
use weir_model::effect::needs_conntrack;
use weir_model::nft::{self, Credit};
use weir_model::programs::Program;
use weir_model::{CreditMap, Family, Firewall, RuleId, RuleIds, RuleIndex, Ruleset, Span, tool};
use weir_passes::check::{self, CheckOptions};
use weir_passes::{CheckedRun, Context, Pass as _, passes};

use crate::form::{CompileError, CompileOptions, ProgressFn, Refusal};
use crate::steps;

pub use self::agree::check;
use self::emit::Compiled;
pub use self::form::{Moved, NftForm};
use self::places::places;
use self::table::{DEPTH_MAX, TablePlan};

/// Compiles a firewall to nft.
///
/// # Errors
/// [`CompileError::Unsupported`] with every rule that nft cannot say, where no hook is left for
/// nft; [`CompileError::Differs`] if the check finds a packet that is treated in another way.
pub fn compile(
    firewall: &Firewall,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<NftForm, CompileError> {
    let run = steps::run(firewall, &[], options, "nft", progress)?;
    compile_run(firewall, &run, true, options, progress)
}

/// Compiles what passes made of a firewall; runs become verdict maps where `maps`.
pub(crate) fn compile_run(
    original: &Firewall,
    run: &CheckedRun,
    maps: bool,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<NftForm, CompileError> {
    let firewall = &run.firewall;
    let mut builder = Builder {
        maps,
        compiled: run.compiled.clone(),
        barriers: run.kept.clone(),
        ..Builder::default()
    };
    for ruleset in firewall.rulesets() {
        progress(&format!("nft: {} rules", tool(ruleset.family)), 0.0);
        let original = original.ruleset(ruleset.family).expect("passes keep the families");
        builder.ruleset(ruleset, original, options);
    }
    if builder.moved.is_empty() {
        let refusals = builder.refusals;
        return Err(CompileError::Unsupported { form: Form::Nft, refusals });
    }
    if options.strict && builder.share.left > 0 {
        let (share, refusals) = (builder.share, builder.refusals);
        return Err(CompileError::Mixture { form: Form::Nft, share, refusals });
    }
    let stays = builder.kept_as_it_is.clone();
    let mut form = builder.form(firewall, options);
    let refusals = objects::lost(firewall, &form.kept());
    if !refusals.is_empty() {
        return Err(CompileError::Unsupported { form: Form::Nft, refusals });
    }
    form.deviations.extend(run.deviations.iter().cloned());
    let mut step = CheckedPass {
        pass: passes::FOLD_INTO_VERDICT_MAP.to_owned(),
        evidence: Evidence::Trusted,
        rules_before: form.share.in_form,
        rules_after: form
            .ruleset
            .tables
            .iter()
            .flat_map(|t| &t.chains)
            .map(|c| c.rules.len() as u64)
            .sum(),
        tried_before: None,
        tried_after: None,
    };
    if !options.trust {
        progress("nft: check", 0.3);
        form.checked = check(firewall, &form, options, progress)?;
        form.checked.packets += check_rest(stays, &form.rest, options, progress)?;
        progress("nft: proof", 0.9);
        let packets = form.checked.packets;
        step.evidence = match proof::unproven(firewall, &form)? {
            None => Evidence::Proven(packets),
            Some(why) => Evidence::Packets(packets, why),
        };
    }
    form.checked.passes.push(step);
    Ok(form)
}

/// Compares what stays in iptables with what it was; how many packets were compared.
fn check_rest(
    before: Vec<Ruleset>,
    after: &Firewall,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<u64, CompileError> {
    if before.iter().all(|r| r.rules().next().is_none()) {
        return Ok(0);
    }
    let mut was = Firewall { sets: after.sets.clone(), ..Firewall::default() };
    for ruleset in before {
        match ruleset.family {
            Family::V4 => was.v4 = Some(ruleset),
            Family::V6 => was.v6 = Some(ruleset),
        }
    }
    let check = CheckOptions { seed: options.seed, packets: options.check_packets };
    let checked = check::equal(&was, &[after], &check, check::through(&was, after), progress)
        .map_err(|example| CompileError::Differs { form: Form::Nft, example })?;
    Ok(checked.packets)
}

#[derive(Default)]
struct Builder {
    /// Runs become verdict maps.
    maps: bool,
    ruleset: nft::Ruleset,
    rest: Firewall,
    moved: Vec<Moved>,
    compiled: Vec<CompiledRun>,
    barriers: Vec<Kept>,
    share: Share,
    refusals: Vec<Refusal>,
    counters: CreditMap,
    stateful: bool,
    /// What stays in iptables, before it was shortened.
    kept_as_it_is: Vec<Ruleset>,
    /// Families without conntrack.
    guarded: Vec<Family>,
}

impl Builder {
    fn ruleset(&mut self, ruleset: &Ruleset, original: &Ruleset, options: &CompileOptions) {
        let family = ruleset.family;
        let places = places(original);
        for place in places.values() {
            self.counters.0.entry(place.clone()).or_default();
        }
        let guard = !ruleset.rules().any(|(_, _, r)| needs_conntrack(r));
        if guard {
            self.guarded.push(family);
        }
        let mut rest = ruleset.clone();
        for (at, table) in ruleset.tables.iter().enumerate() {
            let mut plan = TablePlan::new(table, family, &options.programs);
            self.refuse(&plan, ruleset);
            let mut is_deep = false;
            match emit(&plan, guard, self.maps) {
                _ if plan.moved.is_empty() => {}
                Ok((written, runs)) => {
                    self.note_runs(runs, &places);
                    self.moved.push(Moved {
                        family,
                        table: table.name,
                        name: written.name.clone(),
                        hooks: plan.moved.clone(),
                        whole: plan.all_moved(),
                    });
                    self.ruleset.tables.push(written);
                }
                Err(depth) => {
                    let why = format!(
                        "calls nested {depth} chains deep; nft allows {DEPTH_MAX}: all of {} stays",
                        table.name
                    );
                    let rule = format!("{}/{}", tool(family), table.name);
                    self.refusals.push(Refusal {
                        family,
                        place: rule.clone(),
                        what: format!("calls nested {depth} chains deep (nft allows {DEPTH_MAX})"),
                        cure: None,
                        span: Span::NONE,
                    });
                    plan.moved.clear();
                    share::add(&mut self.share, &plan, Some(&why));
                    self.barriers.push(Kept { rule, why });
                    is_deep = true;
                }
            }
            if !is_deep {
                share::add(&mut self.share, &plan, None);
            }
            rest.tables[at] = plan.rest();
            credit::stays(&mut self.counters, &plan);
        }
        self.kept_as_it_is.push(rest.clone());
        let rest = self.shortened(rest, original, options);
        credit::kept(&mut self.counters, &rest, &places);
        credit::moved(&mut self.counters, &self.ruleset, family, &places);
        match family {
            Family::V4 => self.rest.v4 = Some(rest),
            Family::V6 => self.rest.v6 = Some(rest),
        }
    }

    /// What stays in iptables, as prefix trees of chains.
    fn shortened(
        &mut self,
        rest: Ruleset,
        original: &Ruleset,
        options: &CompileOptions,
    ) -> Ruleset {
        if rest.rules().next().is_none() {
            return rest;
        }
        let (options, places) = (steps::pass_options(options, "nft"), RuleIds::of(original));
        let context = Context { options: &options, places: &places, sets: &[] };
        let made = passes::chain_tree::ChainTree.run(&rest, &context);
        self.compiled.extend(made.compiled);
        made.ruleset
    }

    /// Notes what nft cannot say, and what stays in iptables for it.
    fn refuse(&mut self, plan: &TablePlan<'_>, ruleset: &Ruleset) {
        let (family, table) = (ruleset.family, plan.table);
        let stays: Vec<&str> = table
            .name
            .hooks()
            .iter()
            .filter(|h| plan.base(**h).is_some() && !plan.moved.contains(h))
            .map(|h| h.chain())
            .collect();
        for refused in &plan.refused {
            let number = Some(refused.number);
            let chain = refused.chain.clone();
            let place = RuleId { family, table: table.name, chain, number }.to_string();
            let span = table
                .chain(&refused.chain)
                .map_or(Span::NONE, |c| c.rules[refused.number as usize - 1].span);
            self.refusals.push(Refusal {
                family,
                place: place.clone(),
                what: refused.why.clone(),
                cure: None,
                span,
            });
            let why = format!(
                "nft cannot express {}; {} of {} stays in iptables",
                refused.why,
                stays.join(", "),
                table.name
            );
            self.barriers.push(Kept { rule: place, why });
        }
        self.foreign(plan, &stays.join(", "));
        for (hook, why) in &plan.tied {
            let rule = format!("{}/{}/{}", tool(family), table.name, hook.chain());
            self.barriers.push(Kept { rule, why: format!("stays in iptables: {why}") });
        }
    }

    /// Notes which chains other programs keep, a line per program.
    fn foreign(&mut self, plan: &TablePlan<'_>, stays: &str) {
        let (family, table) = (plan.family, plan.table.name);
        for program in Program::ALL {
            let mut chains = plan.foreign.iter().filter(|(_, p)| *p == program).map(|(c, _)| c);
            let Some(first) = chains.next() else { continue };
            let place = format!("{}/{table}/{first}", tool(family));
            let all = match chains.count() {
                0 => format!("a chain that {program} keeps in iptables"),
                more => format!("chains that {program} keeps in iptables, this and {more} more"),
            };
            self.refusals.push(Refusal {
                family,
                place: place.clone(),
                what: all.clone(),
                cure: Some(format!(
                    "--programs {program} copies them, without the program being aware of it"
                )),
                span: Span::NONE,
            });
            let why = match stays {
                "" => format!("{all}: {table} keeps them"),
                stays => format!("{all}; {stays} of {table} stays there"),
            };
            self.barriers.push(Kept { rule: place, why });
        }
    }

    fn note_runs(&mut self, runs: Vec<Compiled>, places: &HashMap<RuleIndex, String>) {
        for run in runs {
            let first = match run.first {
                Some(Credit::Rule(id)) => places.get(&id).cloned().unwrap_or_default(),
                _ => String::new(),
            };
            let rules = run.rules as u32;
            self.compiled.push(CompiledRun { first, rules, into: run.into });
        }
    }

    fn form(mut self, firewall: &Firewall, options: &CompileOptions) -> NftForm {
        self.rest.sets = firewall.sets.clone();
        let statements = self.ruleset.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
        self.stateful = statements
            .flat_map(|r| &r.statements)
            .any(|s| matches!(s, nft::Statement::Opaque(o) if o.text.starts_with("limit")));
        NftForm {
            text: weir_syntax::nft::print(&self.ruleset),
            memory_bytes: credit::memory_bytes(&self.ruleset, options.cpus),
            deviations: self.deviations(),
            ruleset: self.ruleset,
            rest: self.rest,
            moved: self.moved,
            compiled: self.compiled,
            barriers: self.barriers,
            share: self.share,
            counters: self.counters,
            checked: Checked::default(),
        }
    }

    fn deviations(&self) -> Vec<Deviation> {
        let mut out = vec![Deviation::TruncatedHeader, Deviation::TcpFragment];
        if self.moved.iter().any(|m| !self.guarded.contains(&m.family)) {
            out.push(Deviation::LaterFragment);
        }
        if self.stateful {
            out.push(Deviation::LimitResolution);
        }
        out
    }
}

/// The table with its runs; without them if chains would be nested too deeply, or if they are not
/// wanted. The depth if even that does not help.
fn emit(
    plan: &TablePlan<'_>,
    guard: bool,
    maps: bool,
) -> Result<(nft::Table, Vec<Compiled>), usize> {
    let mut deepest = 0;
    for runs in [true, false].into_iter().filter(|runs| maps || !runs) {
        let (written, compiled) = plan.emit(guard, runs);
        deepest = table::depth(&written);
        if deepest <= DEPTH_MAX {
            return Ok((written, compiled));
        }
    }
    Err(deepest)
}
