//! Which methods a public server offers: the namespaces it was given, and nothing else.

use super::{
    CLIENT_VERSION, Context, args::Arguments, debug, eth, forms::Data, pool, reth, testing,
};
use crate::cli::values::{ModuleList, RpcNamespace};
use alloy_primitives::keccak256;
use jsonrpsee::{Methods, RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// The methods of `list`.
pub(super) fn methods(
    context: &Arc<Context>,
    list: &ModuleList,
) -> Result<Methods, RegisterMethodError> {
    let mut methods = Methods::new();
    for namespace in &list.0 {
        let context = context.clone();
        match namespace {
            RpcNamespace::Eth => methods.merge(eth::public_module(context)?)?,
            RpcNamespace::Net => methods.merge(net(context)?)?,
            RpcNamespace::Web3 => methods.merge(web3(context)?)?,
            RpcNamespace::Reth => methods.merge(reth::public_module(context)?)?,
            RpcNamespace::Testing => methods.merge(testing::module(context)?)?,
            RpcNamespace::Txpool => methods.merge(pool::module(context)?)?,
            RpcNamespace::Debug => methods.merge(debug::module(context)?)?,
            RpcNamespace::Admin => methods.merge(admin(context)?)?,
            RpcNamespace::Rpc => methods.merge(rpc(list)?)?,
            RpcNamespace::Unserved(_) => {}
        }
    }
    Ok(methods)
}

fn net(context: Arc<Context>) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_method("net_version", |_, context, _| {
        Ok::<_, ErrorObjectOwned>(context.chain.chain_spec().chain_id().to_string())
    })?;
    module.register_method("net_listening", |_, _, _| Ok::<_, ErrorObjectOwned>(false))?;
    module.register_method("net_peerCount", |_, _, _| Ok::<_, ErrorObjectOwned>("0x0"))?;
    Ok(module)
}

fn web3(context: Arc<Context>) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_method("web3_clientVersion", |_, _, _| {
        Ok::<_, ErrorObjectOwned>(CLIENT_VERSION)
    })?;
    module.register_method("web3_sha3", |params, _, _| {
        let mut arguments = Arguments::new(&params);
        let Data(data) = arguments.next("data")?;
        arguments.end()?;
        Ok::<_, ErrorObjectOwned>(keccak256(&data))
    })?;
    Ok(module)
}

/// What the node says of itself. It has no network, so it has no address and no peers.
fn admin(context: Arc<Context>) -> Result<RpcModule<Context>, RegisterMethodError> {
    let mut module = RpcModule::from_arc(context);
    module.register_method("admin_nodeInfo", |_, context, _| {
        let chain = context.chain.chain_spec();
        let head = context.chain.head();
        Ok::<_, ErrorObjectOwned>(json!({
            "name": CLIENT_VERSION,
            "protocols": { "eth": {
                "network": chain.chain_id(),
                "genesis": chain.genesis_hash(),
                "head": head.hash,
                "config": chain.genesis().config,
            } },
        }))
    })?;
    module.register_method("admin_peers", |_, _, _| {
        Ok::<_, ErrorObjectOwned>(Vec::<()>::new())
    })?;
    Ok(module)
}

fn rpc(list: &ModuleList) -> Result<RpcModule<()>, RegisterMethodError> {
    let served = list
        .0
        .iter()
        .filter(|name| !matches!(name, RpcNamespace::Unserved(_)));
    let versions: BTreeMap<_, _> = served.map(|namespace| (namespace.name(), "1.0")).collect();
    let mut module = RpcModule::new(());
    module.register_method("rpc_modules", move |_, (), _| {
        Ok::<_, ErrorObjectOwned>(versions.clone())
    })?;
    Ok(module)
}
