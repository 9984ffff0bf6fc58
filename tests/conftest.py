"""What all tests share: the lab's fixtures."""

pytest_plugins = ["tests.lab.fixtures"]
