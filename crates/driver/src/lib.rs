//! Sockets, threads and disks around the machines: the server and the client a program uses.
