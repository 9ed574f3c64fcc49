//! Maps of JSON in which a name stands once: of two things of one name the last would be taken, and the other one lost.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

struct Distinct<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Distinct<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((name, value)) = access.next_entry::<String, V>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("{name:?} stands there twice")));
            }
            map.insert(name, value);
        }
        Ok(map)
    }
}

/// Reads a map, for `deserialize_with`.
pub(crate) fn map<'de, V, D>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Distinct(PhantomData))
}
