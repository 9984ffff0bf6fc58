"""The subcommands of `brokerwire`: one module each, which parses its flags and does its work.

A library that only one of them needs (rich, the agent, the web server) is imported when it runs.
"""
