"""Every alert and recording rule, described once: for rule files and for the agent alike.

Pure data and text; nothing here reads a file or a clock.
"""
