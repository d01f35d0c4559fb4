//! Error types whose messages stand with their variants.

/// An enum of errors: `#[error(..)]` before a variant has what `write!` takes, and names the variant's fields; `#[kind(..)]` is its
/// [`ErrorKind`](crate::ErrorKind). Variants in `transparent` are other errors, whose messages are theirs; their kind is a function of
/// them.
///
/// A derive would be a compiler plug-in, and its parser a seventh of what a user's first build compiles.
#[doc(hidden)]
#[macro_export]
macro_rules! errors {
    (
        $(#[$enum_attribute:meta])*
        pub enum $Error:ident {$(
            $(#[doc = $doc:literal])*
            #[error($($message:tt)*)]
            #[kind($Kind:ident)]
            $Variant:ident $({$(
                $(#[doc = $field_doc:literal])*
                $field:ident: $Field:ty,
            )*})?,
        )*}
        transparent {$(
            $(#[doc = $other_doc:literal])*
            $(#[cfg($cfg:meta)])?
            #[kind($kind:expr)]
            $Other:ident($Source:ty),
        )*}
    ) => {
        $(#[$enum_attribute])*
        pub enum $Error {
            $(
                $(#[doc = $doc])*
                $Variant $({$(
                    $(#[doc = $field_doc])*
                    $field: $Field,
                )*})?,
            )*
            $(
                $(#[doc = $other_doc])*
                $(#[cfg($cfg)])?
                $Other($Source),
            )*
        }

        impl $Error {
            /// What kind of error it is.
            pub fn kind(&self) -> $crate::ErrorKind {
                match self {
                    $(Self::$Variant { .. } => $crate::ErrorKind::$Kind,)*
                    $($(#[cfg($cfg)])? Self::$Other(other) => {
                        let kind: fn(&$Source) -> $crate::ErrorKind = $kind;
                        kind(other)
                    })*
                }
            }
        }

        impl ::core::fmt::Display for $Error {
            #[allow(unused_variables, reason = "not every field is in its message")]
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {
                    $(Self::$Variant $({$($field),*})? => write!(f, $($message)*),)*
                    $($(#[cfg($cfg)])? Self::$Other(other) => ::core::fmt::Display::fmt(other, f),)*
                }
            }
        }

        impl ::core::error::Error for $Error {
            fn source(&self) -> Option<&(dyn ::core::error::Error + 'static)> {
                match self {
                    $($(#[cfg($cfg)])? Self::$Other(other) => ::core::error::Error::source(other),)*
                    _ => None,
                }
            }
        }
    };
}
