//! The command as a user meets it: arguments in, text, exit codes and files out.
