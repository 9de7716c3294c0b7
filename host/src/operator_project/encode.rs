//! A core module, as a compiler makes it, becomes a component. The contract between the two is embedded in the module by the
//! SDK; only debug information is dropped, names stay for backtraces.

use anyhow::Context;

/// Wraps `module`.
///
/// # Errors
/// It is no module, or it does not hold what its world asks for.
pub fn encode(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let module = without_debug_sections(module).context("it is no WebAssembly module")?;
    wit_component::ComponentEncoder::default().validate(true).module(&module)?.encode()
}

/// The module without its custom sections `.debug_…`; none where it is no module.
fn without_debug_sections(module: &[u8]) -> Option<Vec<u8>> {
    const PREAMBLE: usize = 8;
    let mut kept = module.get(..PREAMBLE).filter(|start| start.starts_with(b"\0asm"))?.to_vec();
    let mut rest = &module[PREAMBLE..];
    while let Some((&id, after)) = rest.split_first() {
        let mut body = after;
        let length = usize::try_from(dataflow::key::take_varint(&mut body)?).ok()?;
        let whole = 1 + (after.len() - body.len()) + length;
        let content = body.get(..length)?;
        if id != CUSTOM || !is_debug(content) {
            kept.extend_from_slice(&rest[..whole]);
        }
        rest = &rest[whole..];
    }
    Some(kept)
}

const CUSTOM: u8 = 0;

fn is_debug(mut content: &[u8]) -> bool {
    let length = dataflow::key::take_varint(&mut content).and_then(|length| usize::try_from(length).ok());
    length.and_then(|length| content.get(..length)).is_some_and(|name| name.starts_with(b".debug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_sections_go_and_all_else_stays() {
        let custom = |name: &str| {
            let mut section = vec![0, 1 + name.len() as u8, name.len() as u8];
            section.extend_from_slice(name.as_bytes());
            section
        };
        let head = b"\0asm\x01\0\0\0";
        let module = [head.as_slice(), &custom("name"), &custom(".debug_info"), &[1, 1, 0]].concat();
        let expected = [head.as_slice(), &custom("name"), &[1, 1, 0]].concat();
        assert_eq!(without_debug_sections(&module), Some(expected));
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(encode(b"not wasm").unwrap_err().to_string().contains("no WebAssembly module"));
        assert!(encode(b"\0asm\x01\0\0\0\x01\xff").is_err());
    }
}
