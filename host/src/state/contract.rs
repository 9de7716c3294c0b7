//! What every state backend must pass.
