//! Options that every order has. Not here: orders that have more to say (`--wait`, `--no-wait`).

use clap::Args;

/// Options of an order: a command that changes something.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Order {
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the change as JSON.
    #[arg(long)]
    pub json: bool,
}
