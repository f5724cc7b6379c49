//! What weir loads `ipset save` prints, and what `ipset restore` loads weir reads.

use weir_apply::ApplyError;
use weir_apply::ipsets::{change_set_elements, load_sets, read_sets};
use weir_kernel::ipset_error::IpsetError;
use weir_kernel::ipset_socket::ElementChange;
use weir_model::ipset::SetStorage;

use crate::every_type::SET_TEXTS;
use crate::tool_sets::{
    ToolSets, comparable_listing, has_initval, parse_sets, without_places_and_seconds,
    without_seconds,
};

#[test]
fn sets_of_every_type_are_loaded_as_the_tool_loads_them_and_read_as_it_lists_them() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsall");
    let mut compared = 0;
    for text in SET_TEXTS {
        if !tools.restore_if_type_exists(text) {
            continue;
        }
        compared += 1;
        let theirs = tools.save();
        let listed = parse_sets(&theirs);
        let read = read_sets(&mut tools.socket, None).expect("known sets");
        let read = without_places_and_seconds(read);
        assert_eq!(read, without_places_and_seconds(listed.clone()), "{text}");
        assert!(read.iter().any(|set| !set.elements.is_empty()), "{text}");
        tools.destroy_all();

        // From the text, as a person writes it.
        load_sets(&mut tools.socket, &parse_sets(text)).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(comparable_listing(&tools.save()), comparable_listing(&theirs), "{text}");
        tools.destroy_all();

        // From the listing, which has the initial value: the same text, in the same order.
        load_sets(&mut tools.socket, &listed).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(without_seconds(&tools.save()), without_seconds(&theirs), "{text}");
        let is_hash = listed.iter().any(|set| set.kind.storage == SetStorage::Hash);
        assert_eq!(is_hash, listed.iter().any(has_initval), "{text}");
        tools.destroy_all();
    }
    // Kernels without hash:ip,mac, hash:mac, hash:ip,mark, hash:net,net, hash:net,port,net have less.
    assert!(compared + 6 >= SET_TEXTS.len(), "{compared} texts");
}

#[test]
fn revisions_are_those_that_the_tool_chooses() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsrev");
    let list = |tools: &ToolSets| {
        let listed = tools.namespace.run_command(&["ipset", "list", "-t"], b"").expect("a list");
        let listed = String::from_utf8(listed).expect("UTF-8");
        let lines = listed.lines().filter(|l| l.starts_with("Type") || l.starts_with("Revision"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for text in SET_TEXTS {
        if !tools.restore_if_type_exists(text) {
            continue;
        }
        let theirs = list(&tools);
        assert_eq!(theirs.len() % 2, 0, "{theirs:?}");
        tools.destroy_all();
        load_sets(&mut tools.socket, &parse_sets(text)).expect("known sets");
        assert_eq!(list(&tools), theirs, "{text}");
        tools.destroy_all();
    }
}

#[test]
fn elements_in_several_messages_arrive_and_are_read_in_full() {
    if weir_testkit::skip_without_root() {
        return;
    }
    use std::fmt::Write as _;
    let mut tools = ToolSets::new("setsmany");
    let mut text = String::from("create s hash:ip,port comment maxelem 131072\n");
    for number in 0..40_000u32 {
        let (high, low) = (number >> 8, number & 255);
        let _ = writeln!(text, "add s 10.1.{high}.{low},udp:{number} comment \"element {number}\"");
    }
    let sets = parse_sets(&text);
    load_sets(&mut tools.socket, &sets).expect("known sets");
    let saved = tools.save();
    assert_eq!(saved.lines().count(), 40_001);
    let read = read_sets(&mut tools.socket, Some("s")).expect("it is there");
    let listed = without_places_and_seconds(parse_sets(&saved));
    assert_eq!(without_places_and_seconds(read), listed);
    change_set_elements(&mut tools.socket, &sets[0], ElementChange::Delete).expect("all are there");
    assert_eq!(tools.save().lines().count(), 1);
}

#[test]
fn a_refused_element_is_named_and_sets_of_the_call_are_destroyed() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsfull");
    tools.restore("create kept hash:ip\n");
    let kept = tools.save();
    let elements: String =
        (0..5000).map(|i| format!("add s 10.0.{}.{}\n", i / 250, i % 250 + 1)).collect();
    let text = format!("create first hash:ip\ncreate s hash:ip\n{elements}");
    load_sets(&mut tools.socket, &parse_sets(&text)).expect("they fit");
    for name in ["s", "first"] {
        tools.socket.destroy_set(name).expect("it is there");
    }
    let mut sets = parse_sets(&text);
    // The kernel counts by regions of the table: it may take some more than the maximum.
    sets[1].options = vec![weir_model::SetOption::MaxElem(64)];
    let refused = load_sets(&mut tools.socket, &sets).expect_err("too many");
    let ApplyError::SetElement { element, span, .. } = &refused else { panic!("{refused}") };
    let line = text[span.byte_range().expect("a place")].trim_end();
    assert_eq!(line, format!("add s {element}"));
    assert!(refused.to_string().contains("larger maxelem"), "{refused}");
    assert_eq!(tools.save(), kept);

    // The kernel says which element it is: the third of these.
    let mut sets = parse_sets("create s hash:ip\nadd s 192.0.2.1\nadd s 192.0.2.2\n");
    let elements = std::sync::Arc::make_mut(&mut sets[0].elements);
    elements.push(elements[0].clone());
    let refused = load_sets(&mut tools.socket, &sets).expect_err("one is there already");
    let ApplyError::SetElement { source, .. } = &refused else { panic!("{refused}") };
    let IpsetError::Refused { element_index, .. } = &**source else { panic!("{refused}") };
    assert_eq!(*element_index, Some(2));
    assert_eq!(tools.save(), kept);
}

#[test]
fn members_of_a_refused_list_are_destroyed_with_it() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setslist");
    let mut sets = parse_sets("create a hash:ip\ncreate s list:set\nadd s a\n");
    load_sets(&mut tools.socket, &sets).expect("known sets");
    tools.destroy_all();
    let elements = std::sync::Arc::make_mut(&mut sets[1].elements);
    elements.push(elements[0].clone());
    load_sets(&mut tools.socket, &sets).expect_err("a member twice");
    assert_eq!(tools.save(), "");
}

#[test]
fn an_element_that_is_there_or_missing_is_refused_unless_it_may_be_replaced() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsexist");
    let sets = parse_sets("create s hash:net timeout 0\nadd s 192.0.2.0/24 timeout 60000\n");
    load_sets(&mut tools.socket, &sets).expect("new");
    let again = change_set_elements(&mut tools.socket, &sets[0], ElementChange::Add);
    assert!(again.expect_err("it is there").to_string().contains("192.0.2.0/24"));
    change_set_elements(&mut tools.socket, &sets[0], ElementChange::AddOrReplace)
        .expect("replaced");
    change_set_elements(&mut tools.socket, &sets[0], ElementChange::Delete).expect("deleted");
    let again = change_set_elements(&mut tools.socket, &sets[0], ElementChange::Delete);
    assert!(again.expect_err("it is gone").to_string().contains("192.0.2.0/24"));
}

#[test]
fn sets_are_swapped_renamed_flushed_and_destroyed() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsswap");
    tools.restore("create a hash:ip\nadd a 192.0.2.1\ncreate b hash:ip\ncreate c hash:net\n");
    let socket = &mut tools.socket;
    socket.swap_sets("a", "b").expect("of one type");
    let refused = socket.swap_sets("a", "c").expect_err("another type");
    assert!(refused.to_string().contains("different types"), "{refused}");
    let missing = socket.swap_sets("a", "nowhere").expect_err("no such set");
    assert!(matches!(missing, IpsetError::Refused { .. }), "{missing}");
    socket.rename_set("b", "renamed").expect("a free name");
    assert!(tools.save().contains("add renamed 192.0.2.1"));
    tools.socket.flush_set("renamed").expect("it is there");
    assert!(!tools.save().contains("add "));
    tools.socket.destroy_set("renamed").expect("it is there");
    let missing = tools.socket.destroy_set("renamed").expect_err("it is gone");
    assert!(missing.is_missing_set(), "{missing}");
}

#[test]
fn a_word_that_the_encoder_does_not_know_is_refused_by_name() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolSets::new("setsword");
    let mut sets = parse_sets("create s hash:ip\nadd s 192.0.2.1\n");
    load_sets(&mut tools.socket, &sets).expect("known words");
    tools.destroy_all();
    std::sync::Arc::make_mut(&mut sets[0].elements)[0].other_words = vec!["colour".to_owned()];
    let refused = load_sets(&mut tools.socket, &sets).expect_err("an unknown word");
    assert!(refused.to_string().contains("does not know colour"), "{refused}");
    assert_eq!(tools.save(), "");
}
