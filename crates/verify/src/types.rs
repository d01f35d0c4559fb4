//! From the names of types, as cases have them, to the types.

/// An expression over the value type of a name.
macro_rules! with_value {
    ($value:expr, |$v:ident| $body:expr) => {
        match $value {
            "u32" => {
                type $v = u32;
                $body
            }
            "u64" => {
                type $v = u64;
                $body
            }
            other => unreachable!("no case has values of type {other}"),
        }
    };
}
pub(crate) use with_value;

/// An expression over the key and the value type of two names.
macro_rules! with_types {
    ($key:expr, $value:expr, |$k:ident, $v:ident| $body:expr) => {
        match $key {
            "u32" => {
                type $k = u32;
                crate::types::with_value!($value, |$v| $body)
            }
            "u64" => {
                type $k = u64;
                crate::types::with_value!($value, |$v| $body)
            }
            "i32" => {
                type $k = i32;
                crate::types::with_value!($value, |$v| $body)
            }
            "i64" => {
                type $k = i64;
                crate::types::with_value!($value, |$v| $body)
            }
            other => unreachable!("no case has keys of type {other}"),
        }
    };
}
pub(crate) use with_types;
