//! What the test classes share: the program under test and seeded chance. The classes lie beside `src`, each a program of its
//! own; README.md says which promise is tested where.

pub mod chance; // seeded, printed, repeatable
pub mod guests; // components that misbehave
pub mod object_server; // a real S3 server
pub mod program; // the `millstream` binary, built from this tree
