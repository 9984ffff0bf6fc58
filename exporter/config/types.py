"""Types of settings that are not written as plain numbers or text."""

from __future__ import annotations

__all__ = ["BrokerId", "FileMode", "Form", "Port", "Size", "Url"]

from enum import Enum, auto
from typing import Annotated


class Form(Enum):
    """How a value is written where its Python type does not say it; `config.values` reads it."""

    SIZE = auto()
    PORT = auto()
    BROKER_ID = auto()
    FILE_MODE = auto()
    URL = auto()


Size = Annotated[int, Form.SIZE]
Port = Annotated[int, Form.PORT]
BrokerId = Annotated[int, Form.BROKER_ID]
FileMode = Annotated[int, Form.FILE_MODE]
Url = Annotated[str, Form.URL]
