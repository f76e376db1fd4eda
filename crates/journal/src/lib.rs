//! Record and segment bytes, the writer and the reader: what makes an acknowledged change last.
