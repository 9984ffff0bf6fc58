"""The kernel's socket table: netlink, filters, record layouts, destroy events, psutil."""
