//! Ids, operations, answers, events, attributes, errors and limits: the words every other crate speaks.
