//! Sets of ipset: encoding the model as netlink messages, and decoding.
//!
//! [`load_sets`] creates sets like `ipset restore`, with many elements per message; [`read_sets`]
//! reads them into the model, like the output of `ipset save`. Parts of an element or a set that
//! the encoder does not know are refused by name.
//!
//! To add a type of set: [`ipset_encoder`] writes its attributes, [`ipset_decoder`] reads them, and
//! its revision goes to [`ipset_encoder::LATEST_KNOWN_TYPE_REVISIONS`].

pub(crate) mod ipset_decoder;
pub(crate) mod ipset_encoder;

use weir_kernel::ipset_error::IpsetError;
use weir_kernel::ipset_socket::{ElementChange, IpsetListingItem, IpsetSocket};
use weir_kernel::netlink::attribute::MalformedNetlink;
use weir_model::IpSet;
use weir_model::ipset::SetStorage;
use weir_syntax::ipset::print_element;

use self::ipset_decoder::{DecodedSet, UnknownIpsetPart};
use self::ipset_encoder::{
    EncodableElement, find_unencodable_word, identify_with_latest_known_revision, put_element,
    put_set_options,
};
use crate::ApplyError;

/// Creates sets with their elements, lists after the sets that they contain.
///
/// # Errors
/// If a set exists, or has a part that the encoder does not know; [`ApplyError::SetElement`] names
/// an element that the kernel refuses. In case of an error, sets created by this call are
/// destroyed.
pub fn load_sets(socket: &mut IpsetSocket, sets: &[IpSet]) -> Result<(), ApplyError> {
    for set in sets {
        check_elements_are_encodable(set)?;
    }
    let is_list = |set: &&IpSet| set.kind.storage == SetStorage::List;
    let mut created: Vec<&str> = Vec::with_capacity(sets.len());
    for set in sets.iter().filter(|set| !is_list(set)).chain(sets.iter().filter(is_list)) {
        let identity = identify_with_latest_known_revision(socket, set);
        let made = identity.and_then(|identity| {
            Ok(socket.create_set(&identity, |data| put_set_options(data, set))?)
        });
        let filled = made.and_then(|()| {
            created.push(&set.name);
            change_set_elements(socket, set, ElementChange::Add)
        });
        if let Err(error) = filled {
            for name in created.iter().rev() {
                // The first error is reported. A list releases its members immediately only if it
                // is flushed.
                let _ = socket.flush_set(name);
                let _ = socket.destroy_set(name);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Adds or deletes the elements of a set of the model.
///
/// # Errors
/// As [`load_sets`]; elements before the refused one are changed.
pub fn change_set_elements(
    socket: &mut IpsetSocket,
    set: &IpSet,
    change: ElementChange,
) -> Result<(), ApplyError> {
    check_elements_are_encodable(set)?;
    let type_name = ipset_encoder::type_name(set);
    let elements = set.elements.iter().map(|element| EncodableElement { set, element });
    socket
        .change_elements(change, &set.name, &type_name, elements, put_element)
        .map_err(|error| describe_refused_element(set, error))
}

/// Checks that [`load_sets`] knows all parts of the elements of a set.
///
/// # Errors
/// [`ApplyError::UnencodableSetElement`] names the first that it does not know.
pub fn check_elements_are_encodable(set: &IpSet) -> Result<(), ApplyError> {
    let unknown = set
        .elements
        .iter()
        .find_map(|element| find_unencodable_word(set, element).map(|word| (element, word)));
    match unknown {
        None => Ok(()),
        Some((element, word)) => Err(ApplyError::UnencodableSetElement {
            set: set.name.clone(),
            element: print_element(set, element),
            word,
            span: element.span,
        }),
    }
}

fn describe_refused_element(set: &IpSet, error: IpsetError) -> ApplyError {
    let index = match &error {
        IpsetError::Refused { element_index, .. } => *element_index,
        _ => None,
    };
    match index.and_then(|index| set.elements.get(index)) {
        None => error.into(),
        Some(element) => ApplyError::SetElement {
            element: print_element(set, element),
            span: element.span,
            source: Box::new(error),
        },
    }
}

/// Reads sets with their elements, all of them or one, as `ipset save` lists them.
///
/// # Errors
/// If the set does not exist, or a set has a type or an attribute that weir does not know.
pub fn read_sets(socket: &mut IpsetSocket, name: Option<&str>) -> Result<Vec<IpSet>, ApplyError> {
    let mut decoded = socket
        .fold_sets(name, DecodedIpsetListing::default, |listing, part| listing.add_part(part))?;
    if let Some(unknown) = decoded.undecoded.take() {
        return Err(ApplyError::UndecodableSet { set: unknown.set, attribute: unknown.attribute });
    }
    Ok(decoded.sets.into_iter().map(DecodedSet::into_set).collect())
}

/// The sets decoded from a listing.
#[derive(Default)]
struct DecodedIpsetListing {
    sets: Vec<DecodedSet>,
    undecoded: Option<UnknownIpsetPart>,
}

impl DecodedIpsetListing {
    fn add_part(&mut self, part: IpsetListingItem<'_>) -> Result<(), MalformedNetlink> {
        if self.undecoded.is_some() {
            return Ok(());
        }
        match part {
            IpsetListingItem::Header(identity, attributes) => {
                match DecodedSet::from_header(&identity, attributes)? {
                    Ok(set) => self.sets.push(set),
                    Err(undecoded) => self.undecoded = Some(undecoded),
                }
            }
            IpsetListingItem::Element(attributes) => {
                if let Some(set) = self.sets.last_mut()
                    && let Err(undecoded) = set.add_element(attributes)?
                {
                    self.undecoded = Some(undecoded);
                }
            }
        }
        Ok(())
    }
}
