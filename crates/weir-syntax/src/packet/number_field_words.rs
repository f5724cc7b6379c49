//! The words of the plain fields of the table, which packets and regions of policies share.

use weir_model::field::Layer;
use weir_model::{Family, Field};

/// The plain field of that name; a field that the header of the family lacks has no word.
pub(crate) fn find_number_field(word: &str, layer: Layer, family: Family) -> Option<Field> {
    let name = if word == "hoplimit" { "ttl" } else { word };
    list_number_fields(layer, family).find(|field| field.row().name == name)
}

/// What may follow `ip` and `ip6`, for messages.
pub(crate) fn list_ip_clause_words(family: Family) -> Vec<&'static str> {
    let mut words = vec!["saddr", "daddr"];
    for field in list_number_fields(Layer::Network, family) {
        words.push(field.row().name);
        // Its upper six bits.
        if field == Field::Tos {
            words.push("dscp");
        }
    }
    words.extend(["length", "protocol"]);
    words
}

/// `a, b or c`.
pub(crate) fn join_with_or(words: &[&str]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => words.concat(),
    }
}

fn list_number_fields(layer: Layer, family: Family) -> impl Iterator<Item = Field> {
    Field::freely_settable_number_fields()
        .filter(move |field| field.row().layer == layer && field.bit_width(family) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_field_has_a_word_in_each_family_that_has_it() {
        for family in [Family::V4, Family::V6] {
            for field in Field::freely_settable_number_fields() {
                let row = field.row();
                let expected = (field.bit_width(family) > 0).then_some(field);
                assert_eq!(find_number_field(row.name, row.layer, family), expected, "{family:?}");
                let is_listed = list_ip_clause_words(family).contains(&row.name);
                assert_eq!(is_listed, expected.is_some() && row.layer == Layer::Network);
            }
        }
        assert_eq!(find_number_field("hoplimit", Layer::Network, Family::V6), Some(Field::Ttl));
        assert_eq!(find_number_field("sport", Layer::Transport, Family::V4), None);
    }

    #[test]
    fn the_last_word_of_a_list_follows_or() {
        assert_eq!(join_with_or(&["a", "b", "c"]), "a, b or c");
        assert_eq!((join_with_or(&["a"]), join_with_or(&[])), ("a".to_owned(), String::new()));
    }
}
