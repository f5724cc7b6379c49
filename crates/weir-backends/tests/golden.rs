//! `testdata/backends/iptables`: a ruleset, and the files that each iptables form of it has.

use weir_backends::{CompileOptions, CompiledForm, compile};
use weir_model::Firewall;
use weir_passes::CostModel;
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::testdata;

const CUT: &str = "\n---\n";

/// The data files of a form, and the counters of two of the original rules.
fn forms(rules: &str) -> String {
    let v4 = iptables::parse(rules, &ParserSettings::default()).expect("the case is read");
    let firewall = Firewall { v4: Some(v4), ..Firewall::default() };
    let cost = CostModel {
        jump_ns: 1.0,
        set_ns: 1.0,
        probe_ns: 1.0,
        inlined_group_rules_max: 1,
        ..CostModel::default()
    };
    let options =
        CompileOptions { cost, check_packets_per_family: 2000, ..CompileOptions::default() };
    let mut text = String::new();
    for form in [CompiledForm::Linear, CompiledForm::Tree, CompiledForm::Ipset] {
        let made = compile(&firewall, form, &options, &mut |_, _| {}).expect("it is equal");
        for (kind, file) in made.contents.texts() {
            // The identity changes with the version.
            let file = file.replace(&made.manifest.id, "IDENTITY");
            text += &format!("== {form}: {}\n{file}", kind.file_name());
        }
        for rule in ["iptables/filter/FORWARD/2", "iptables/filter/FORWARD/policy"] {
            let counters = format!("{:?}", made.manifest.counters.0[rule]);
            let counters = counters.replace(&made.manifest.id, "IDENTITY");
            text += &format!("== {form}: counters of {rule}\n{counters}\n");
        }
    }
    text
}

#[test]
fn every_form_matches_its_golden_files() {
    for file in testdata::testdata_files_with_extension("backends/iptables", "txt") {
        let case = std::fs::read_to_string(&file).expect("read the case");
        let (rules, expected) = case.split_once(CUT).unwrap_or((case.trim_end(), ""));
        let text = forms(&format!("{rules}\n"));
        if weir_testkit::is_blessing_golden_files() && text != expected {
            std::fs::write(&file, format!("{rules}{CUT}{text}")).expect("bless the case");
        } else {
            assert_eq!(text, expected, "{} became something else", file.display());
        }
    }
}
