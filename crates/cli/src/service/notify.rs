//! Messages of a service to the manager that started it (systemd's `Type=notify`, sd_notify(3)): that it is ready, what it does, that it
//! stops. Without one, nothing. Not here: when that is so. A manager is told at a path only; the names without a file (`@...`) of old ones are not known to
//! the crate `sd-notify`.

use sd_notify::NotifyState;

/// It does what it was started for, and what that is.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(line(status))]);
}

/// Tells the current work.
pub fn status(status: &str) {
    tell(&[NotifyState::Status(line(status))]);
}

/// It stops.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// A status is one line.
fn line(status: &str) -> &str {
    status.lines().next().unwrap_or_default()
}

fn tell(news: &[NotifyState<'_>]) {
    // A manager that does not listen any more is no reason to do anything else.
    if let Err(error) = sd_notify::notify(news) {
        tracing::debug!("NOTIFY_SOCKET: {error}");
    }
}
