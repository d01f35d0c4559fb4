//! CUBPT.
