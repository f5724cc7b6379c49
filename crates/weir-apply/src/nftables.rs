//! Tables of nf_tables: loads the nft form as one transaction.
//!
//! [`load_ruleset`] creates the tables of a [`Ruleset`] with chains, maps and rules, and deletes
//! tables that they replace, all in one transaction. Rules have the expressions that nft 1.0.6
//! generates from the printed text, and the same user data, so that `nft list ruleset` prints the
//! same. Statements that the encoder does not know are refused by name: such a ruleset is loaded by
//! `nft -f`.
//!
//! - [`nft_table_name`], [`expression_list`], [`userdata`]: expressions in netlink, and the user
//!   data of nft;
//! - [`loaded_value`]: a row for each value that nft can load;
//! - [`test_encoder`], [`opaque_test_encoder`], [`action_encoder`]: statements;
//! - [`set_encoder`], [`table_map_id_allocator`]: unnamed sets and verdict maps;
//! - [`rule_context`], [`rule_encoder`], [`ruleset_encoder`]: rules and rulesets.

mod action_encoder;
mod expression_list;
mod loaded_value;
mod nft_table_name;
mod opaque_test_encoder;
mod rule_context;
mod rule_encoder;
mod ruleset_encoder;
mod set_encoder;
mod table_map_id_allocator;
mod test_encoder;
mod userdata;

use weir_kernel::netlink::NetlinkRequest;
use weir_kernel::netlink::netfilter::NetfilterSubsystem;
use weir_kernel::nft_protocol::{NFT_MSG_DELTABLE, NFTA_TABLE_NAME};
use weir_kernel::nft_socket::{NftCommitError, NftSocket};
use weir_model::nft::Ruleset;

pub use self::nft_table_name::NftTableName;
use self::nft_table_name::nft_family_number;
pub use self::ruleset_encoder::{EncodedNftRuleset, encode_ruleset};
use crate::ApplyError;

/// The request that deletes an existing table with its contents.
///
/// The kernel waits for all readers of a deleted table before it responds.
pub fn delete_table_request(table: &NftTableName) -> NetlinkRequest {
    let family = nft_family_number(table.family);
    let mut request = NetfilterSubsystem::NfTables.new_request(NFT_MSG_DELTABLE, 0, family, 0);
    request.attributes.put_text(NFTA_TABLE_NAME, &table.name);
    request
}

/// Replaces tables by those of a ruleset in one transaction: packets traverse the old tables or the
/// new ones.
///
/// # Errors
/// [`ApplyError::UnencodableNft`] names a statement that the encoder does not know,
/// [`ApplyError::NftRefused`] an object that the kernel refused. In both cases nothing has changed.
pub fn load_ruleset(
    socket: &mut NftSocket,
    ruleset: &Ruleset,
    replaced: &[NftTableName],
) -> Result<(), ApplyError> {
    let generation = socket.read_generation()?;
    let mut encoded = encode_ruleset(ruleset)?;
    let mut requests: Vec<NetlinkRequest> = replaced.iter().map(delete_table_request).collect();
    requests.append(&mut encoded.requests);
    match socket.commit(requests, generation) {
        Ok(()) => Ok(()),
        Err(NftCommitError::Refused(refusal)) => {
            let object = match refusal.request_index.checked_sub(replaced.len()) {
                Some(index) => encoded.describe_request(index, ruleset),
                None => format!("deletion of table {}", replaced[refusal.request_index].name),
            };
            Err(ApplyError::NftRefused { object, source: refusal })
        }
        Err(error) => Err(error.into()),
    }
}
