"""Say what is missing before an environment is made, in words rather than a traceback."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (that is what this file is for)
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(
        f"brokerwire needs Python 3.11 or later, this is {found}; set PYTHON=/path/to/python3.11"
    )
try:
    import ensurepip  # noqa: F401  (Debian has it in a package of its own)
except ImportError:
    sys.exit("Python cannot make environments here: apt-get install python3-venv")
