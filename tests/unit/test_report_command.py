"""What `report` takes as the address of runbooks."""

from __future__ import annotations

import argparse

import pytest

from spark_rollups.report import command


def runbooks(text):
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return parser.parse_args([f"--runbooks={text}"]).runbooks


def test_the_address_of_runbooks_has_a_place_for_the_name():
    assert runbooks("https://wiki.example/k/{alert}.md") == "https://wiki.example/k/{alert}.md"


@pytest.mark.parametrize(
    "text",
    [
        "https://wiki.example/",
        "javascript:alert(1)//{alert}",
        "https://{alert}/",
        "https://user:word@wiki.example/{alert}",
        "docs/{alert}.md",
    ],
)
def test_an_address_that_no_link_can_use_is_refused(text):
    with pytest.raises(argparse.ArgumentError, match=r"must be a URL with \{alert\}") as refused:
        runbooks(text)
    assert "word" not in str(refused.value)
