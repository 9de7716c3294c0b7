//! Which world a component fits, told from its type alone: before it is compiled, and with a hint where it does not fit.

use super::component::LoadError;
use wit_component::DecodedWasm;

/// The package that host and guest share.
const PACKAGE: &str = "millstream:operator";
const VERSION: &str = "0.1.0";

/// The worlds of the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    Processor,
    Aggregator,
}

impl World {
    fn imports(self) -> &'static [&'static str] {
        match self {
            Self::Processor => &["types", "state", "log", "metrics"],
            Self::Aggregator => &["types", "log", "metrics"],
        }
    }
}

/// The world of `bytes`.
pub(super) fn of(bytes: &[u8]) -> Result<World, LoadError> {
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => {
            return Err(LoadError::NotAComponent(
                "a core WebAssembly module: `millstream build` makes a component of it".into(),
            ));
        }
        Some([0, b'a', b's', b'm', ..]) => {}
        _ => return Err(LoadError::NotAComponent("not WebAssembly: it does not begin with `\\0asm`".into())),
    }
    let decoded = wit_component::decode(bytes).map_err(|error| LoadError::NotAComponent(format!("{error:#}")))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(LoadError::NotAComponent("a WIT package without code".into()));
    };
    let world = &resolve.worlds[world];
    let names = |items: &wit_parser::IndexMap<wit_parser::WorldKey, wit_parser::WorldItem>| -> Vec<String> {
        items.keys().map(|key| resolve.name_world_key(key)).collect()
    };
    let exports = names(&world.exports);
    let fits = match (exports.contains(&ours("processing")), exports.contains(&ours("aggregation"))) {
        (true, false) => World::Processor,
        (false, true) => World::Aggregator,
        (true, true) => {
            return Err(LoadError::World(
                "exports both `processing` and `aggregation`: one component, one world".into(),
            ));
        }
        (false, false) => return Err(LoadError::World(no_world(&exports))),
    };
    let foreign: Vec<String> = names(&world.imports)
        .into_iter()
        .filter(|import| !fits.imports().iter().any(|&name| *import == ours(name)))
        .map(|import| format!("`{import}` ({})", hint(&import, fits)))
        .collect();
    if foreign.is_empty() { Ok(fits) } else { Err(LoadError::ForeignImports(foreign.join(", "))) }
}

fn ours(interface: &str) -> String {
    format!("{PACKAGE}/{interface}@{VERSION}")
}

fn no_world(exports: &[String]) -> String {
    let other = exports.iter().find(|export| export.starts_with(PACKAGE));
    match other {
        Some(other) => format!("exports `{other}`; this host speaks version {VERSION}"),
        None if exports.is_empty() => "exports nothing".into(),
        None => format!("exports only `{}`", exports.join("`, `")),
    }
}

fn hint(import: &str, world: World) -> &'static str {
    match import.split_once('/').map_or(import, |(package, _)| package) {
        "wasi:sockets" | "wasi:http" => "operators have no network: take what is needed as an input",
        "wasi:filesystem" => "operators have no files: pass data as config or as an input",
        package if package.starts_with("wasi:") => {
            "no WASI in operators: in Rust build for wasm32-unknown-unknown as `millstream build` does, in Python \
             `componentize-py --stub-wasi`, in JavaScript `disableFeatures: [http, fetch-event, stdio, random, clocks]`"
        }
        PACKAGE if world == World::Aggregator => "aggregators have no state of their own",
        PACKAGE => "not of this version of the package",
        _ => "nothing but the imports of `operator.wit` can be linked",
    }
}
