//! One module a verb. A verb owns what it prints and its exit codes; code for two verbs goes to `library`,
//! `settings` or `say`, looks at the machine to the crate `vcm-inspect`.

pub mod bounds;
pub mod check;
pub mod compare;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod enable;
pub mod lab;
pub mod man;
pub mod orders;
pub mod profile;
pub mod record;
pub mod replay;
pub mod run;
pub mod serve;
pub mod stat;
pub mod top;
pub mod trace;
