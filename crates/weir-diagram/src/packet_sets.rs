//! Sets of packets as boolean functions: the order of bits, the tests of rules and the elements of
//! ipsets as functions, packets as bits and back, regions in words.

pub(crate) mod corner_case;
pub(crate) mod device_name_classes;
pub(crate) mod free_variable;
pub(crate) mod hook_context;
pub(crate) mod ipset_masks_and_leaves;
pub(crate) mod ipset_membership;
pub(crate) mod match_and_field_descriptions;
pub(crate) mod packet_bit_codec;
pub(crate) mod packet_share;
pub(crate) mod packet_space;
pub(crate) mod possible_packets;
pub(crate) mod presence_and_field_predicates;
pub(crate) mod region;
pub(crate) mod set_match_options;
pub(crate) mod sorted_ipset_elements;
pub(crate) mod test_lowering;
pub(crate) mod variable_layout;
pub(crate) mod witness;
