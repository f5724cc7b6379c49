//! From a firewall to an artefact.

use weir_model::manifest::{Checked, CompiledRun, Kept, Manifest};
use weir_model::{Chain, Family, Firewall, IpSet, Name, Ruleset};
use weir_passes::run::Places;
use weir_passes::sets::SetOptions;
use weir_passes::tree::TreeOptions;
use weir_passes::{Rewritten, sets, tree};
use weir_syntax::{ipset, iptables};

use crate::artefact::{Artefact, ArtefactFile, sha256};
use crate::check::{self, CheckOptions};
use crate::form::{CompileError, CompileOptions, Form, Progress};
use crate::load::{self, Touched};
use crate::{counters, memory, nft, read_back};

/// Compiles a firewall to a form that is equal to it, with the scripts that load it.
///
/// # Errors
/// [`CompileError::Unsupported`] where the form cannot say something, [`CompileError::Differs`]
/// where the form is not equal, [`CompileError::Printed`] where its text does not read back as it,
/// [`CompileError::Option`] where an option makes no sense.
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

/// A firewall rewritten as iptables and ipsets.
struct Rewriting {
    after: Firewall,
    own: Vec<(Family, IpSet)>,
    compiled: Vec<CompiledRun>,
    kept: Vec<Kept>,
}

fn by_iptables(
    firewall: &Firewall,
    form: Form,
    options: &CompileOptions,
    progress: &mut Progress<'_>,
) -> Result<Artefact, CompileError> {
    progress("compiling", 0.0);
    let id = identity(firewall, form, options);
    let Rewriting { after, own, compiled, kept } = rewrite(firewall, form, options, &id);
    let checked = if form == Form::Linear {
        Checked::default()
    } else {
        let check = CheckOptions { seed: options.seed, packets: options.check_packets };
        check::equal(firewall, &[&after], &check, check::through(&after), progress)
            .map_err(|example| CompileError::Differs { form, example })?
    };
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
    let deviations = deviations(form, &own);
    let manifest = Manifest {
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: form.to_string(),
        tools: touched.tools(),
        files: Vec::new(),
        memory_bytes: memory::estimate(&after, options.cpus),
        compiled,
        barriers: kept,
        deviations,
        checked,
        counters: counters::credit_map(firewall, &after, &own),
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
    let made = nft::compile(firewall, options, progress)?;
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
        files.extend(set_files(firewall, &[]));
    }
    files.extend(load::scripts(Form::Nft, &id, &touched));
    let manifest = Manifest {
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        form: Form::Nft.to_string(),
        tools: touched.tools(),
        files: Vec::new(),
        memory_bytes: made.memory_bytes + memory::estimate(&kept, options.cpus),
        compiled: made.compiled,
        barriers: made.barriers,
        deviations: made.deviations,
        checked: made.checked,
        counters: made.counters,
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
        format!("{} {form} {:?} {:?}\n", env!("CARGO_PKG_VERSION"), options.levels, options.cost);
    for ruleset in firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, false));
    }
    text.push_str(&ipset::print(&firewall.sets));
    sha256(text.as_bytes())[..8].to_owned()
}

fn rewrite(firewall: &Firewall, form: Form, options: &CompileOptions, id: &str) -> Rewriting {
    let mut out = Rewriting {
        after: firewall.clone(),
        own: Vec::new(),
        compiled: Vec::new(),
        kept: Vec::new(),
    };
    if form == Form::Linear {
        return out;
    }
    let taken: Vec<Name> = firewall.sets.iter().map(|s| s.name.clone()).collect();
    for ruleset in [&mut out.after.v4, &mut out.after.v6].into_iter().flatten() {
        let places = Places::of(ruleset);
        let family = ruleset.family;
        if form == Form::Ipset {
            let letter = if family == Family::V4 { 4 } else { 6 };
            let stem = format!("w{letter}-{id}-");
            let sets = SetOptions { cost: options.cost.clone(), stem, taken: taken.clone() };
            let made = take(ruleset, sets::compile(ruleset, &sets, &places), &mut out.compiled);
            out.kept.extend(made.1);
            out.own.extend(made.0.into_iter().map(|s| (family, s)));
        }
        let shape = TreeOptions { cost: options.cost.clone(), levels: options.levels.clone() };
        let made = take(ruleset, tree::compile(ruleset, &shape, &places), &mut out.compiled);
        for kept in made.1 {
            if !out.kept.contains(&kept) {
                out.kept.push(kept);
            }
        }
    }
    out.after.sets.extend(out.own.iter().map(|(_, s)| s.clone()));
    out
}

/// Puts what a pass made in the ruleset's place; returns its sets and what it kept.
fn take(
    ruleset: &mut Ruleset,
    made: Rewritten,
    compiled: &mut Vec<CompiledRun>,
) -> (Vec<IpSet>, Vec<Kept>) {
    *ruleset = made.ruleset;
    compiled.extend(made.compiled);
    (made.sets, made.kept)
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
