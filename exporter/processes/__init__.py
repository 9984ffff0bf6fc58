"""The processes on this host: who owns a socket, client groups, pods, network namespaces."""
