//! `testing_buildBlockV1`: builds a block from given transactions without moving the head.
//!
//! Source: execution-apis, `testing/testing_buildBlockV1.yaml` (positional form), and reth 1.x
//! (one object). Both answer in the shape of `engine_getPayloadV5`.

use super::{
    Context,
    args::Arguments,
    engine::envelope,
    error::{from_build, from_read, internal, invalid_params},
};
use crate::engine::{BuildRequest, gas_limit_towards};
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::PayloadAttributes;
use jsonrpsee::{
    RpcModule,
    core::RegisterMethodError,
    types::{ErrorObjectOwned, Params},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// The object form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildBlock {
    parent_block_hash: B256,
    payload_attributes: PayloadAttributes,
    transactions: Option<Vec<Bytes>>,
    extra_data: Option<Bytes>,
}

/// The methods of the namespace.
pub(super) fn module(context: Arc<Context>) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_async_method("testing_buildBlockV1", |params, context, _| async move {
        let request = parse(&params)?;
        let (form, request) = request;
        let request = BuildRequest {
            parent_hash: request.parent_block_hash,
            attributes: request.payload_attributes,
            transactions: request.transactions,
            extra_data: request
                .extra_data
                .or_else(|| context.options.extra_data.clone()),
            gas_limit: gas_limit(form, request.parent_block_hash, &context)?,
        };
        let built = match form {
            Form::Object => context.engine.build_block(request).await,
            Form::Positional => context.engine.build_exactly(request).await,
        };
        let built = built.map_err(from_build)?;
        envelope(5, built).map_err(|problem| internal(format!("encode the block: {problem}")))
    })?;
    Ok(module)
}

/// How a block is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As reth 1.x takes it: the parent's gas limit, and what cannot be included may be left out.
    Object,
    /// As the specification writes it: the builder's gas limit, and every transaction or none.
    Positional,
}

fn gas_limit(form: Form, parent: B256, context: &Context) -> Result<Option<u64>, ErrorObjectOwned> {
    if form == Form::Object {
        return Ok(None);
    }
    let parent = context.chain.block_by_hash(parent).map_err(from_read)?;
    let target = context.options.gas_limit_target;
    Ok(parent.map(|parent| gas_limit_towards(parent.block.header.gas_limit, target)))
}

/// Reads either form: they differ in whether the first parameter is an object.
fn parse(params: &Params<'_>) -> Result<(Form, BuildBlock), ErrorObjectOwned> {
    let mut arguments = Arguments::new(params);
    let first: &RawValue = arguments.next("parentBlockHash")?;
    if first.get().starts_with('{') {
        arguments.end()?;
        return serde_json::from_str(first.get())
            .map(|request| (Form::Object, request))
            .map_err(|problem| invalid_params(format!("parameter 1: {problem}")));
    }
    let parent_block_hash = serde_json::from_str(first.get())
        .map_err(|problem| invalid_params(format!("parameter 1 (parentBlockHash): {problem}")))?;
    let request = BuildBlock {
        parent_block_hash,
        payload_attributes: arguments.next("payloadAttributes")?,
        transactions: arguments.optional("transactions")?,
        extra_data: arguments.optional("extraData")?,
    };
    arguments.end()?;
    Ok((Form::Positional, request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::bytes;

    const HASH: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";
    const ATTRIBUTES: &str = r#"{"timestamp":"0xc","prevRandao":"0x0000000000000000000000000000000000000000000000000000000000000000","suggestedFeeRecipient":"0x0000000000000000000000000000000000000000","withdrawals":[]}"#;

    fn read(json: &str) -> Result<BuildBlock, ErrorObjectOwned> {
        parse(&Params::new(Some(json))).map(|(_, request)| request)
    }

    #[test]
    fn both_forms_say_the_same() {
        for json in [
            format!(r#"["{HASH}",{ATTRIBUTES},["0x01"],"0x02"]"#),
            format!(
                r#"[{{"parentBlockHash":"{HASH}","payloadAttributes":{ATTRIBUTES},"transactions":["0x01"],"extraData":"0x02"}}]"#
            ),
        ] {
            let request = read(&json).unwrap();
            assert_eq!(request.parent_block_hash, HASH.parse::<B256>().unwrap());
            assert_eq!(request.payload_attributes.timestamp, 12);
            assert_eq!(request.transactions, Some(vec![bytes!("01")]));
            assert_eq!(request.extra_data, Some(bytes!("02")));
        }
    }

    #[test]
    fn transactions_and_extra_data_may_be_null_or_left_out() {
        for json in [
            format!(r#"["{HASH}",{ATTRIBUTES},null,null]"#),
            format!(r#"["{HASH}",{ATTRIBUTES}]"#),
            format!(r#"[{{"parentBlockHash":"{HASH}","payloadAttributes":{ATTRIBUTES}}}]"#),
        ] {
            let request = read(&json).unwrap();
            assert_eq!(
                (request.transactions, request.extra_data),
                (None, None),
                "{json}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for json in [
            "[]",
            "[{}]",
            r#"["0x12"]"#,
            &format!(r#"["{HASH}"]"#),
            &format!(r#"["{HASH}",{ATTRIBUTES},[],null,1]"#),
        ] {
            assert_eq!(
                read(json).err().map(|error| error.code()),
                Some(-32602),
                "{json}"
            );
        }
    }
}
