//! Texts that are too large in some way, or not what they seem to be; values that a set stores in
//! another form.

use std::fmt::Write as _;

use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::{Diagnostic, render_diagnostics};

fn errors(text: &str) -> Vec<Diagnostic> {
    parse(text, &ParserSettings::default()).expect_err("the text is refused")
}

fn addresses(count: u32) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("10.0.{}.{}", i >> 8, i & 255)).collect();
    all.join(",")
}

#[test]
fn address_lists_expand_up_to_a_limit_per_table() {
    let line = |count| format!("-A FORWARD -s {0} -d {0} -j DROP\n", addresses(count));
    let table = |lines: &str| format!("*filter\n{lines}COMMIT\n");
    let parsed = parse(&table(&line(300)), &ParserSettings::default()).expect("90000 rules");
    assert_eq!(parsed.rules_with_table_and_chain().count(), 90_000);
    let text = table(&line(3000));
    let [error] = &errors(&text)[..] else { panic!("one error") };
    assert!(error.message.contains("stand for 9000000 rules"), "{}", error.message);
    assert_eq!(error.line_number(&text), 2);
    assert!(error.help.as_deref().is_some_and(|help| help.contains("ipset")));
    let text = table(&line(300).repeat(3));
    let [error] = &errors(&text)[..] else { panic!("one error") };
    assert!(error.message.contains("after 180000 of lines before it"), "{}", error.message);
    assert_eq!(error.line_number(&text), 4);
}

#[test]
fn a_word_of_any_length_gives_a_short_message() {
    let text = format!("*filter\n:{} -\nCOMMIT\n", "ä".repeat(250_000));
    let errors = errors(&text);
    let rendered = render_diagnostics(&errors, "rules", &text, false);
    assert!(rendered.len() < 5_000, "{} bytes", rendered.len());
    assert!(errors[0].message.contains(" bytes)…"), "{}", errors[0].message);
    // The control: a word that fits is shown whole.
    let name = "c".repeat(40);
    let mut text = String::new();
    write!(text, "*filter\n:{name} -\nCOMMIT\n").expect("a string");
    assert!(self::errors(&text)[0].message.contains(&name));
}

#[test]
fn a_byte_order_mark_is_named_and_the_rest_is_read() {
    let text = "*filter\n-A FORWARD -j DROP\nCOMMIT\n";
    assert!(parse(text, &ParserSettings::default()).is_ok());
    let [error] = &errors(&format!("\u{feff}{text}"))[..] else { panic!("one error") };
    assert_eq!(error.message, "the text begins with a byte order mark");
    assert!(error.help.as_deref().is_some_and(|help| help.contains("sed -i")));
    let sets = "create s hash:ip\n";
    assert!(weir_syntax::ipset::parse(sets).is_ok());
    let in_sets = weir_syntax::ipset::parse(&format!("\u{feff}{sets}")).expect_err("a mark");
    let policy = "drop all iif wan0 tcp dport 22\n";
    assert!(weir_syntax::policy::parse_policy(policy).is_ok());
    let in_policy =
        weir_syntax::policy::parse_policy(&format!("\u{feff}{policy}")).expect_err("a mark");
    for errors in [in_sets, in_policy] {
        let [again] = &errors[..] else { panic!("one error: {errors:?}") };
        assert_eq!(again.message, error.message);
    }
}

/// `hash_ipmark4_uadt` in net/netfilter/ipset/ip_set_hash_ipmark.c: `e.mark &= h->markmask`.
#[test]
fn ipset_marks_are_stored_masked_by_markmask() {
    let printed = |mask: &str| {
        let text = format!("create s hash:ip,mark{mask}\nadd s 192.0.2.1,0x1f\n");
        weir_syntax::ipset::print(&weir_syntax::ipset::parse(&text).expect("a set"))
    };
    assert!(printed("").contains("add s 192.0.2.1,0x0000001f"), "{}", printed(""));
    let masked = printed(" markmask 0xf0");
    assert!(masked.contains("add s 192.0.2.1,0x00000010"), "{masked}");
}
