"""Which node of which client a socket is, by byte counts. Pure: values in, values out."""
