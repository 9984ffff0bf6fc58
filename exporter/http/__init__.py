"""HTTP, both ways: the bounded client, and the server with TLS, users and limits."""
