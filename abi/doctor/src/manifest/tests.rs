use super::*;
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

const PAYLOAD: &str = r#"{"library": "l", "sdk": "0.1.0", "register": "l__xla_ffi_register",
    "later": 1,
    "handlers": [{"name": "h", "platforms": ["cpu"], "stages": {"execute": "l__h"},
    "args": [{"name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null}],
    "rets": [{"name": "x", "kind": "buffer", "dtypes": null, "rank": 2, "inout": true}],
    "attrs": [{"name": "eps", "type": "f32", "optional": true, "default": 1e-5}],
    "async": true, "state": {"type": "S"}, "floor": "r1"}]}"#;

fn bytes(payload: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload.as_bytes());
    bytes
}

fn both(first: &str, second: &str) -> Vec<u8> {
    let mut section = bytes(first);
    section.resize(section.len().next_multiple_of(16) + 16, 0);
    section.extend(bytes(second));
    section
}

/// Returns a section with two manifests, each of a different library.
fn twice() -> Vec<u8> {
    both(
        PAYLOAD,
        &PAYLOAD.replacen(r#""library": "l""#, r#""library": "m""#, 1),
    )
}

#[test]
fn records_of_one_library_are_joined() {
    let part = |library: &str, handler: &str| {
        format!(
            r#"{{"library": {library}, "handlers": [{{"name": "{handler}", "platforms": ["cpu"],
            "stages": {{"execute": "{handler}"}}, "described": false, "floor": "r0"}}]}}"#
        )
    };
    for library in [r#""l""#, "null"] {
        let joined = read_section(&both(&part(library, "g"), PAYLOAD), 0).unwrap();
        let names: Vec<_> = joined[0]
            .handlers
            .iter()
            .map(|handler| &*handler.name)
            .collect();
        assert_eq!((joined.len(), names), (1, vec!["g", "h"]));
        assert_eq!(joined[0].register.as_deref(), Some("l__xla_ffi_register"));
        assert!(!joined[0].handlers[0].described);
    }
    let error = |section: &[u8]| read_section(section, 0).unwrap_err().to_string();
    assert!(error(&both(PAYLOAD, PAYLOAD)).contains("listed twice"));
    assert!(error(&bytes(&part("null", "g"))).contains("names no library"));
    let mut three = twice();
    three.resize(three.len().next_multiple_of(16), 0);
    three.extend(bytes(&part("null", "g")));
    assert!(error(&three).contains("name 2"));
    let mut old = bytes(&part("null", "g"));
    old[8] = 1;
    assert!(error(&old).contains("version 1"));
    let bare = PAYLOAD.replacen(r#""attrs""#, r#""atrs""#, 1);
    assert!(error(&bytes(&bare)).contains("no \"attrs\"; in C, add XFFI_ATTRS()"));
}

#[test]
fn transformations_are_read_and_judged() {
    let with = |key: &str, value: &str| {
        let text = format!(r#""{key}": {value}, "async": true"#);
        let any_rank = PAYLOAD.replacen(r#""rank": 2"#, r#""rank": null"#, 1);
        parse(any_rank.replacen(r#""async": true"#, &text, 1).as_bytes())
    };
    let said = with("gradient", r#"{"vjp": "b", "residuals": ["x"]}"#).unwrap();
    assert_eq!(
        said.handlers[0].gradient.as_ref().unwrap().vjp.as_deref(),
        Some("b")
    );
    for batch in [r#""none""#, r#"["leading"]"#, r#"{"handler": "b"}"#] {
        assert!(with("batch", batch).unwrap().handlers[0].batch.is_some());
    }
    for (key, value, told) in [
        ("gradient", r#"{"vjp": "b", "jvp": "c"}"#, "one of"),
        ("gradient", "{}", "one of"),
        ("gradient", r#"{"vjp": "b", "transpose": "c"}"#, "transpose"),
        ("gradient", r#"{"linear": true, "forward": "c"}"#, "forward"),
        ("residuals", r#"["x"]"#, "outside of its gradient"),
        ("batch", r#""sometimes""#, "sometimes"),
        ("batch", r#"["leading", "shared"]"#, "each argument"),
    ] {
        let error = with(key, value).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    for layout in [r#""diagonal""#, "[0, 0]", "[0]"] {
        let text = format!(r#""rank": 2, "layout": {layout}, "inout": true"#);
        let payload = PAYLOAD.replacen(r#""rank": 2, "inout": true"#, &text, 1);
        let error = parse(payload.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("layout"), "{error}");
    }
}

#[test]
fn a_section_may_hold_several() {
    let manifests = read_section(&twice(), 0x1000).unwrap();
    assert_eq!(manifests.len(), 2);
    let handler = &manifests[1].handlers[0];
    assert!(handler.is_async && handler.rets[0].inout);
    assert_eq!(handler.floor_revision(), Some(Revision::R1));
    assert_eq!(
        handler.stages.iter().collect::<Vec<_>>(),
        [("execute", "l__h")]
    );
}

#[test]
fn the_stages_are_those_of_the_abi() {
    let known = XLA_FFI_ExecutionStage::ENUM.values.iter();
    let known = known.filter_map(|stage| XLA_FFI_ExecutionStage(stage.value).lower_name());
    let named: serde_json::Map<String, serde_json::Value> =
        known.map(|name| (name.to_owned(), name.into())).collect();
    let stages: Stages = serde_json::from_value(named.clone().into()).unwrap();
    assert!(stages.iter().all(|(name, symbol)| name == symbol));
    assert_eq!(stages.iter().count(), named.len());
}

#[test]
fn what_lies_between_is_zero() {
    let mut section = twice();
    let hole = bytes(PAYLOAD).len();
    section[hole] = 7;
    assert!(matches!(
        read_section(&section, 0),
        Err(Error::Magic { at, .. }) if at == hole
    ));
    // If the section starts at an odd address, the address of the second manifest is not a multiple of 16.
    assert!(matches!(
        read_section(&twice(), 8),
        Err(Error::Magic { at: 0, .. })
    ));
}

#[test]
fn lies_are_told() {
    let mut long = bytes(PAYLOAD);
    long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read_section(&long, 0), Err(Error::Length { .. })));
    let mut newer = bytes(PAYLOAD);
    newer[8] = 3;
    assert!(matches!(
        read_section(&newer, 0),
        Err(Error::Version { found: 3 })
    ));
    assert!(matches!(read_section(&[0; 32], 0), Err(Error::Empty)));
    assert!(matches!(
        read_section(&bytes(PAYLOAD)[..10], 0),
        Err(Error::Magic { .. })
    ));
    for (from, to, told) in [
        (r#""execute": "l__h""#, r#""prepare": "p""#, "execute"),
        (r#""l__h""#, r#""""#, "names no symbol"),
        (
            r#""execute": "l__h""#,
            r#""execute": "l__h", "initialise": "l__h""#,
            "the unknown stage \"initialise\"; expected one of instantiate,",
        ),
        (r#""r1""#, r#""new""#, "floor"),
        (r#""r1""#, r#""r1234""#, "floor"),
        (r#""type": "f32""#, r#""type": "[[f32]]""#, "[[f32]]"),
        (r#""type": "f32""#, r#""type": "[str]""#, "[str]"),
        (
            r#""attrs": ["#,
            r#""attrs": [{"name": "k", "type": "i8"}, {"name": "k", "type": "i8"}, "#,
            "\"k\" is described twice",
        ),
        (
            r#""attrs": ["#,
            r#""attrs": [{"name": "lo", "type": "i8", "from": "k"}, {"name": "k", "type": "i8"}, "#,
            "\"lo\" is in \"k\", which is of type i8",
        ),
        (
            r#""args": ["#,
            r#""args": [{"name": "v", "kind": "buffer", "variadic": true}, "#,
            "\"v\" is variadic",
        ),
        (r#""kind": "buffer""#, r#""kind": "array""#, "array"),
        (
            r#""rets": [{"name": "x""#,
            r#""rets": [{"name": "y""#,
            "inout",
        ),
    ] {
        let payload = PAYLOAD.replacen(from, to, 1);
        assert_ne!(payload, PAYLOAD);
        let error = parse(payload.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn null_says_what_nothing_says() {
    let absent = parse(PAYLOAD.as_bytes()).unwrap();
    for key in ["doc", "open_attrs", "traits", "gradient", "batch"] {
        let payload = PAYLOAD.replacen(r#""floor""#, &format!(r#""{key}": null, "floor""#), 1);
        assert_eq!(parse(payload.as_bytes()).unwrap(), absent, "{key}");
    }
    let stage = PAYLOAD.replacen(r#""execute""#, r#""prepare": null, "execute""#, 1);
    let operand = PAYLOAD.replacen(r#""rank": 2"#, r#""rank": 2, "layout": null"#, 1);
    for payload in [stage, operand] {
        assert_eq!(parse(payload.as_bytes()).unwrap(), absent);
    }
}
