//! What a row says beyond the columns that all rows have.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A value of an extra.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Extra {
    /// A count.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// Words.
    Text(String),
    /// Whether something is so.
    Bool(bool),
}

impl Extra {
    /// A number, whole or not.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Text(_) | Self::Bool(_) => None,
        }
    }
}

/// What an extra can be set to; `None` leaves it out.
pub trait IntoExtra {
    /// The extra.
    fn into_extra(self) -> Option<Extra>;
}

macro_rules! into_extra {
    ($($of:ty: $value:ident => $extra:expr;)*) => {
        $(impl IntoExtra for $of {
            fn into_extra(self) -> Option<Extra> {
                let $value = self;
                Some($extra)
            }
        })*
    };
}

into_extra! {
    u32: value => Extra::Integer(value.into());
    u64: value => Extra::Integer(value);
    usize: value => Extra::Integer(value as u64);
    f64: value => Extra::Number(value);
    &str: value => Extra::Text(value.to_owned());
    String: value => Extra::Text(value);
    bool: value => Extra::Bool(value);
}

impl<T: IntoExtra> IntoExtra for Option<T> {
    fn into_extra(self) -> Option<Extra> {
        self.and_then(T::into_extra)
    }
}

/// Extras by name, in the order in which they were set. A name with a dot, `psa.sort`, is a member of an object in the
/// JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extras(pub(crate) Vec<(Cow<'static, str>, Extra)>);

impl Extras {
    pub(crate) fn get(&self, name: &str) -> Option<&Extra> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    pub(crate) fn set(&mut self, name: &'static str, value: Option<Extra>) {
        self.0.retain(|(other, _)| other != name);
        self.0.extend(value.map(|value| (name.into(), value)));
    }

    /// Reads the members of an object; `null` stands for an extra that was not set.
    ///
    /// # Errors
    /// The name of a member that is a list, or an object in an object.
    pub(crate) fn read(&mut self, members: Map<String, Value>, prefix: &str) -> Result<(), String> {
        for (member, value) in members {
            let name = format!("{prefix}{member}");
            let value = match value {
                Value::Null => continue,
                Value::Bool(value) => Extra::Bool(value),
                Value::String(value) => Extra::Text(value),
                Value::Number(value) => match value.as_u64() {
                    Some(value) => Extra::Integer(value),
                    None => Extra::Number(value.as_f64().unwrap_or(f64::NAN)),
                },
                Value::Object(members) if prefix.is_empty() => {
                    self.read(members, &format!("{name}."))?;
                    continue;
                }
                Value::Object(_) | Value::Array(_) => return Err(name),
            };
            self.0.push((name.into(), value));
        }
        Ok(())
    }
}

impl Serialize for Extras {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut objects: Vec<(&str, Map<String, Value>)> = Vec::new();
        for (name, value) in &self.0 {
            let Some((object, member)) = name.split_once('.') else {
                map.serialize_entry(name, value)?;
                continue;
            };
            let value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
            match objects.iter_mut().find(|(other, _)| *other == object) {
                Some((_, members)) => _ = members.insert(member.into(), value),
                None => objects.push((object, [(member.to_owned(), value)].into_iter().collect())),
            }
        }
        for (name, members) in objects {
            map.serialize_entry(name, &members)?;
        }
        map.end()
    }
}
