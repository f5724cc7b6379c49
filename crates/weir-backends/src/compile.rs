//! Compiles a firewall to an artefact.

use weir_artefact::manifest::{self, Manifest};
use weir_artefact::{Artefact, Contents, Deviation, Footprint, Form, SetTexts, sha256};
use weir_model::{Chain, Family, Firewall, IpSet, Name};
use weir_passes::{CheckedRun, passes};
use weir_syntax::{ipset, iptables};

use crate::form::{CompileError, CompileOptions, ProgressFn};
use crate::{counters, load, memory, nft, read_back, share, steps};

/// Compiles a firewall to a form that is equal to it.
///
/// # Errors
/// [`CompileError::Unsupported`] if the form cannot say something, [`CompileError::Pass`] and
/// [`CompileError::Differs`] if the form is not equal, [`CompileError::Printed`] if its text does
/// not read back as it, [`CompileError::Option`] if an option makes no sense.
pub fn compile(
    firewall: &Firewall,
    form: Form,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<Artefact, CompileError> {
    if let Some(levels) = &options.levels {
        let rise = levels.windows(2).all(|w| w[0] < w[1]);
        if !rise || levels.iter().any(|&l| l == 0 || l > 127) {
            return Err(CompileError::Option(
                "levels must be increasing prefix lengths, such as 8,16,24".to_owned(),
            ));
        }
    }
    match form {
        Form::Linear | Form::Tree | Form::Ipset => by_iptables(firewall, form, options, progress),
        Form::Nft => by_nft(firewall, options, progress),
    }
}

fn by_iptables(
    firewall: &Firewall,
    form: Form,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<Artefact, CompileError> {
    let id = identity(firewall, form, options);
    let names = steps::names(form, options)?;
    let run = steps::run(firewall, &names, options, &id, progress)?;
    let checked = steps::checked(&run.steps, options);
    let CheckedRun { firewall: after, own, compiled, kept, deviations: by_passes, .. } = run;
    progress("writing", 0.0);
    let mut after = after;
    mark(&mut after, &id);
    read_back::agrees(&after).map_err(|what| CompileError::Printed { form, what })?;
    let contents = contents(&after, None, &firewall.sets, &own);
    let mut counters = counters::credit_map(firewall, &after, &own);
    let summed = counters::take_summed(&mut counters, firewall, &after, &own);
    let mut deviations = deviations(form, &own);
    deviations.extend(by_passes);
    let manifest = Manifest {
        version: manifest::VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form,
        tools: load::tools(&Footprint::of(&contents)),
        files: Vec::new(),
        memory_bytes: memory::estimate(&after, options.cpus),
        share: match form {
            Form::Linear => Default::default(),
            _ => share::of_iptables(firewall, &after, &kept, &options.programs),
        },
        compiled,
        barriers: kept,
        deviations,
        checked,
        counters,
        summed,
        id,
    };
    progress("writing", 1.0);
    Ok(Artefact { contents, manifest })
}

fn by_nft(
    firewall: &Firewall,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<Artefact, CompileError> {
    let id = identity(firewall, Form::Nft, options);
    let names = steps::names(Form::Nft, options)?;
    let (maps, before): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|n| *n == passes::FOLD_INTO_VERDICT_MAP);
    let run = steps::run(firewall, &before, options, &id, progress)?;
    let mut made = nft::compile_run(firewall, &run, !maps.is_empty(), options, progress)?;
    let summed = counters::take_summed(&mut made.counters, firewall, &run.firewall, &[]);
    let mut checked = steps::checked(&run.steps, options);
    checked.packets += made.checked.packets;
    checked.passes.append(&mut made.checked.passes);
    progress("writing", 0.0);
    let printed = |what| CompileError::Printed { form: Form::Nft, what };
    read_back::nft_agrees(&made.ruleset, &made.text).map_err(printed)?;
    let kept = made.kept();
    read_back::agrees(&kept).map_err(printed)?;
    let contents = contents(&kept, Some(made.text), &firewall.sets, &run.own);
    let manifest = Manifest {
        version: manifest::VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: Form::Nft,
        tools: load::tools(&Footprint::of(&contents)),
        files: Vec::new(),
        memory_bytes: made.memory_bytes + memory::estimate(&kept, options.cpus),
        compiled: made.compiled,
        barriers: made.barriers,
        share: made.share,
        deviations: made.deviations,
        checked,
        counters: made.counters,
        summed,
        id,
    };
    progress("writing", 1.0);
    Ok(Artefact { contents, manifest })
}

/// Marks every table with an empty chain, so that the kernel itself says which artefact is in
/// force: the mark is added and removed with the rules, in one transaction.
fn mark(firewall: &mut Firewall, id: &str) {
    let name: Name = format!("weir:{id}").into();
    for table in
        [&mut firewall.v4, &mut firewall.v6].into_iter().flatten().flat_map(|r| &mut r.tables)
    {
        if table.chain(&name).is_none() {
            table.chains.push(Chain::new(name.clone(), None));
        }
    }
}

/// Eight hexadecimal digits that only this ruleset in this form, made so, has.
fn identity(firewall: &Firewall, form: Form, options: &CompileOptions) -> String {
    let mut text =
        format!("{} {form} {:?} {:?}", env!("CARGO_PKG_VERSION"), options.levels, options.cost);
    text += &format!(" {:?} {:?}\n", options.passes, options.without);
    for ruleset in firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, false));
    }
    text.push_str(&ipset::print(&firewall.sets));
    sha256(text.as_bytes())[..8].to_owned()
}

/// The texts of a form: its rules and nft tables, and the sets of the user and of passes, if its
/// rules use any.
fn contents(
    rules: &Firewall,
    nft: Option<String>,
    user: &[IpSet],
    own: &[(Family, IpSet)],
) -> Contents {
    let mut contents = Contents { nft, ..Contents::default() };
    for ruleset in rules.rulesets() {
        // What went to nft as a whole leaves a ruleset without tables.
        if contents.nft.is_none() || !ruleset.tables.is_empty() {
            *contents.rules_mut(ruleset.family) = Some(iptables::print(ruleset, false));
        }
    }
    contents.sets = (!rules.sets.is_empty()).then(|| {
        let own: Vec<IpSet> = own.iter().map(|(_, s)| s.clone()).collect();
        let names = user.iter().chain(&own).flat_map(|s| [&*s.name, "\n"]).collect();
        SetTexts { user: ipset::print(user), own: ipset::print(&own), names }
    });
    contents
}

fn deviations(form: Form, own: &[(Family, IpSet)]) -> Vec<Deviation> {
    let by_sets = form == Form::Ipset && own.iter().any(|(f, _)| *f == Family::V6);
    by_sets.then_some(Deviation::ExtensionHeaders).into_iter().collect()
}
