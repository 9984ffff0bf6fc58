"""What is played to promtool is judged by it: quiet figures raise nothing, waste does."""

from __future__ import annotations

import pytest

from tests.rules.test_promtool import promtool  # noqa: F401 - the fixture
from tools.replay_trace import Trace, replay

BEGUN = 1_700_000_000.0
TARGET = 'job="brokerwire",instance="here:1"'
OF_CLIENT = (
    f'{TARGET},client_id="p",client_kind="producer",process="java",broker_id="1",broker="b:1"'
)


@pytest.mark.parametrize(("zombies", "alert"), [(0.0, None), (2.0, "KafkaClientZombieConnections")])
def test_a_play_is_silent_or_names_what_fires(promtool, zombies, alert):  # noqa: F811
    frames = [
        {
            f"up{{{TARGET}}}": 1.0,
            f"brokerwire_last_poll_timestamp_seconds{{{TARGET}}}": BEGUN + 5.0 * n,
            f'kafka_client_connections{{{OF_CLIENT},class="data"}}': 1.0,
            f'kafka_client_connections{{{OF_CLIENT},class="zombie"}}': zombies,
        }
        for n in range(24)
    ]
    told = replay(promtool, Trace(5.0, BEGUN, frames), 900)
    if alert is None:
        assert told == ""
    else:
        assert alert in told
