//! Compiles a firewall to an artefact.

use weir_artefact::manifest::{self, Manifest};
use weir_artefact::{
    Artefact, ArtefactRulesetTexts, CompiledForm, Deviation, IpsetTexts, LoadFootprint, sha256_hex,
};
use weir_model::{Chain, Family, Firewall, IpSet, SharedName};
use weir_passes::{CheckedPassesResult, passes};
use weir_syntax::{ipset, iptables};

use crate::compile_options::{CompileError, CompileOptions, FractionDoneFn};
use crate::{
    form_passes, form_rule_coverage, iptables_counter_credit, kernel_memory, load_scripts, nft,
    text_round_trip,
};

/// Compiles a firewall to a form that is equal to it.
///
/// # Errors
/// [`CompileError::Unsupported`] if the form cannot say something,
/// [`CompileError::PassChangesMeaning`] and [`CompileError::NotEquivalent`] if the form is not
/// equal, [`CompileError::ReadBackMismatch`] if its text does not read back as it,
/// [`CompileError::InvalidOption`] if an option makes no sense.
pub fn compile(
    firewall: &Firewall,
    form: CompiledForm,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<Artefact, CompileError> {
    if let Some(levels) = &options.tree_level_prefix_lengths {
        let rise = levels.windows(2).all(|w| w[0] < w[1]);
        if !rise || levels.iter().any(|&l| l == 0 || l > 127) {
            return Err(CompileError::InvalidOption(
                "levels must be increasing prefix lengths, such as 8,16,24".to_owned(),
            ));
        }
    }
    match form {
        CompiledForm::Linear | CompiledForm::Tree | CompiledForm::Ipset => {
            compile_iptables_form(firewall, form, options, progress)
        }
        CompiledForm::Nft => compile_nft_artefact(firewall, options, progress),
    }
}

fn compile_iptables_form(
    firewall: &Firewall,
    form: CompiledForm,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<Artefact, CompileError> {
    let id = hash_compilation_inputs(firewall, form, options);
    let names = form_passes::select_pass_names(form, options)?;
    let run = form_passes::run_form_passes(firewall, &names, options, (form, &id), progress)?;
    let checked = form_passes::build_equality_check_record(&run.pass_reports, options);
    let CheckedPassesResult {
        firewall: after,
        generated_sets: own,
        compiled_rule_runs: compiled,
        unchanged_rules: kept,
        deviations: by_passes,
        ..
    } = run;
    progress("writing", 0.0);
    let mut after = after;
    add_artefact_id_chains(&mut after, &id);
    text_round_trip::check_iptables_text_round_trip(&after)
        .map_err(|what| CompileError::ReadBackMismatch { form, what })?;
    let contents = render_artefact_texts(&after, None, &firewall.sets, &own);
    let mut counters =
        iptables_counter_credit::build_iptables_form_credit_map(firewall, &after, &own);
    let summed = iptables_counter_credit::extract_summed_counter_groups(
        &mut counters,
        firewall,
        &after,
        &own,
    );
    let mut deviations = list_deviations_of_ipv6_sets(form, &own);
    deviations.extend(by_passes);
    let manifest = Manifest {
        version: manifest::MANIFEST_VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form,
        tools: load_scripts::list_required_tools(&LoadFootprint::from_texts(&contents)),
        files: Vec::new(),
        memory_bytes: kernel_memory::estimate_kernel_bytes(&after, options.target_machine_cpus),
        share: match form {
            CompiledForm::Linear => Default::default(),
            _ => form_rule_coverage::compute_iptables_form_coverage(
                firewall,
                &after,
                &kept,
                &options.programs_with_rewritable_chains,
                &form_passes::default_passes_not_among(form, &names),
            ),
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

fn compile_nft_artefact(
    firewall: &Firewall,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<Artefact, CompileError> {
    let id = hash_compilation_inputs(firewall, CompiledForm::Nft, options);
    let names = form_passes::select_pass_names(CompiledForm::Nft, options)?;
    let (maps, before): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|n| *n == passes::FOLD_INTO_VERDICT_MAP_PASS_NAME);
    let run = form_passes::run_form_passes(
        firewall,
        &before,
        options,
        (CompiledForm::Nft, &id),
        progress,
    )?;
    let mut made =
        nft::compile_nft_after_passes(firewall, &run, !maps.is_empty(), options, progress)?;
    let summed = iptables_counter_credit::extract_summed_counter_groups(
        &mut made.counters,
        firewall,
        &run.firewall,
        &[],
    );
    let mut checked = form_passes::build_equality_check_record(&run.pass_reports, options);
    checked.packets += made.equality_check.packets;
    checked.passes.append(&mut made.equality_check.passes);
    progress("writing", 0.0);
    let printed = |what| CompileError::ReadBackMismatch { form: CompiledForm::Nft, what };
    let kept = made.iptables_tables_with_hooks_left();
    text_round_trip::check_iptables_text_round_trip(&kept).map_err(printed)?;
    let contents =
        render_artefact_texts(&kept, Some(made.nft_text), &firewall.sets, &run.generated_sets);
    let manifest = Manifest {
        version: manifest::MANIFEST_VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: CompiledForm::Nft,
        tools: load_scripts::list_required_tools(&LoadFootprint::from_texts(&contents)),
        files: Vec::new(),
        memory_bytes: made.memory_bytes
            + kernel_memory::estimate_kernel_bytes(&kept, options.target_machine_cpus),
        compiled: made.compiled_rule_runs,
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
fn add_artefact_id_chains(firewall: &mut Firewall, id: &str) {
    let name: SharedName = format!("weir:{id}").into();
    for table in
        [&mut firewall.v4, &mut firewall.v6].into_iter().flatten().flat_map(|r| &mut r.tables)
    {
        if table.chain(&name).is_none() {
            table.chains.push(Chain::new(name.clone(), None));
        }
    }
}

/// Eight hexadecimal digits that only this ruleset in this form, made so, has.
fn hash_compilation_inputs(
    firewall: &Firewall,
    form: CompiledForm,
    options: &CompileOptions,
) -> String {
    let mut text = format!(
        "{} {form} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        options.tree_level_prefix_lengths,
        options.cost
    );
    text += &format!(" {:?} {:?}\n", options.passes, options.skipped_passes);
    for ruleset in firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, false));
    }
    text.push_str(&ipset::print(&firewall.sets));
    sha256_hex(text.as_bytes())[..8].to_owned()
}

/// The texts of a form: its rules and nft tables, and the sets of the user and of passes, if its
/// rules use any.
fn render_artefact_texts(
    rules: &Firewall,
    nft: Option<String>,
    user: &[IpSet],
    own: &[(Family, IpSet)],
) -> ArtefactRulesetTexts {
    let mut contents = ArtefactRulesetTexts { nft, ..ArtefactRulesetTexts::default() };
    for ruleset in rules.rulesets() {
        // What went to nft as a whole leaves a ruleset without tables.
        if contents.nft.is_none() || !ruleset.tables.is_empty() {
            *contents.rules_text_mut(ruleset.family) = Some(iptables::print(ruleset, false));
        }
    }
    contents.sets = (!rules.sets.is_empty()).then(|| {
        let own: Vec<IpSet> = own.iter().map(|(_, s)| s.clone()).collect();
        let names = user.iter().chain(&own).flat_map(|s| [&*s.name, "\n"]).collect();
        IpsetTexts { user: ipset::print(user), generated: ipset::print(&own), names }
    });
    contents
}

fn list_deviations_of_ipv6_sets(form: CompiledForm, own: &[(Family, IpSet)]) -> Vec<Deviation> {
    let by_sets = form == CompiledForm::Ipset && own.iter().any(|(f, _)| *f == Family::V6);
    by_sets.then_some(Deviation::MalformedExtensionHeaders).into_iter().collect()
}
