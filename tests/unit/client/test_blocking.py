"""The blocking client leaves nothing behind when it is closed."""

import asyncio

import pytest

from hanse.client import Client


def test_closing_ends_what_still_runs_on_its_loop(capfd: pytest.CaptureFixture[str]) -> None:
    client = Client("127.0.0.1:1")

    async def leave_behind() -> "asyncio.Task[None]":
        return asyncio.create_task(asyncio.sleep(3_600))

    left = client._run(leave_behind())
    client.close()
    assert left.cancelled()
    del left
    assert capfd.readouterr().err == ""


def test_a_loop_that_runs_already_is_in_nobodys_way() -> None:
    async def in_a_notebook() -> None:
        with Client("127.0.0.1:1"):
            pass

    asyncio.run(in_a_notebook())
