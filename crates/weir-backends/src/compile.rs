//! From a firewall to an artefact.

use weir_artefact::manifest::{self, Manifest};
use weir_model::{Chain, Family, Firewall, IpSet, Name};
use weir_passes::{CheckedRun, passes};
use weir_syntax::{ipset, iptables};

use crate::artefact::{Artefact, ArtefactFile, sha256};
use crate::form::{CompileError, CompileOptions, Form, Progress};
use crate::load::{self, Touched};
use crate::{counters, memory, nft, read_back, share, steps};

/// Compiles a firewall to a form that is equal to it, with the scripts that load it.
///
/// # Errors
/// [`CompileError::Unsupported`] where the form cannot say something, [`CompileError::Pass`] and
/// [`CompileError::Differs`] where the form is not equal, [`CompileError::Printed`] where its text
/// does not read back as it, [`CompileError::Option`] where an option makes no sense.
pub fn compile(
    firewall: &Firewall,
    form: Form,
    options: &CompileOptions,
    progress: &mut Progress<'_>,
) -> Result<Artefact, CompileError> {
    if let Some(levels) = &options.levels {
        let rise = levels.windows(2).all(|w| w[0] < w[1]);
        if !rise || levels.iter().any(|&l| l == 0 || l > 127) {
            return Err(CompileError::Option(
                "levels must be prefix lengths that rise, such as 8,16,24".to_owned(),
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
    progress: &mut Progress<'_>,
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
    let touched = Touched::by_iptables(&after);
    let mut files = Vec::new();
    for ruleset in after.rulesets() {
        let name = format!("{}.rules", counters::tool(ruleset.family));
        files.push(ArtefactFile::text(&name, iptables::print(ruleset, false)));
    }
    if touched.sets {
        files.extend(set_files(firewall, &own));
    }
    files.extend(load::scripts(form, &id, &touched));
    let mut counters = counters::credit_map(firewall, &after, &own);
    let summed = counters::take_summed(&mut counters, firewall, &after, &own);
    let mut deviations = deviations(form, &own);
    deviations.extend(by_passes.into_iter().map(str::to_owned));
    let manifest = Manifest {
        version: manifest::VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: form.to_string(),
        tools: touched.tools(),
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
    Ok(Artefact::new(files, manifest))
}

fn by_nft(
    firewall: &Firewall,
    options: &CompileOptions,
    progress: &mut Progress<'_>,
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
    let mut touched = Touched::by_iptables(&kept);
    touched.nft = made.tables();
    touched.v4_emptied = made.emptied(Family::V4);
    touched.v6_emptied = made.emptied(Family::V6);
    let mut files = vec![ArtefactFile::text("ruleset.nft", made.text)];
    for ruleset in kept.rulesets().filter(|r| !r.tables.is_empty()) {
        let name = format!("{}.rules", counters::tool(ruleset.family));
        files.push(ArtefactFile::text(&name, iptables::print(ruleset, false)));
    }
    if touched.sets {
        files.extend(set_files(firewall, &run.own));
    }
    files.extend(load::scripts(Form::Nft, &id, &touched));
    let manifest = Manifest {
        version: manifest::VERSION,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: Form::Nft.to_string(),
        tools: touched.tools(),
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
    Ok(Artefact::new(files, manifest))
}

/// Marks every table with an empty chain, so that the kernel itself says which artefact is in
/// force: the mark comes and goes with the rules, in one transaction.
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

/// The user's sets, weir's own, and the names of both, for the scripts.
fn set_files(firewall: &Firewall, own: &[(Family, IpSet)]) -> [ArtefactFile; 3] {
    let own: Vec<IpSet> = own.iter().map(|(_, s)| s.clone()).collect();
    let names: String = firewall.sets.iter().chain(&own).flat_map(|s| [&*s.name, "\n"]).collect();
    [
        ArtefactFile::text("user.ipset", ipset::print(&firewall.sets)),
        ArtefactFile::text("weir.ipset", ipset::print(&own)),
        ArtefactFile::text("names.ipset", names),
    ]
}

fn deviations(form: Form, own: &[(Family, IpSet)]) -> Vec<String> {
    if form == Form::Ipset && own.iter().any(|(f, _)| *f == Family::V6) {
        return vec![
            "an IPv6 packet with malformed extension headers is dropped when a rule looks at its \
             protocol; rules that became sets look at it for more addresses than before"
                .to_owned(),
        ];
    }
    Vec::new()
}
