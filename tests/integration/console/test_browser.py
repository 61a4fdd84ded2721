"""The console in a real browser over a real federation: what people see, and what their keys do."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from hanse.api.v1 import job_pb2
from hanse.client import Client
from hanse.client.submission import Submission
from tests.integration.console.pages import CHROMIUM, PATIENCE_MS, Browsing, Running, chromium, gang, started, up
from tests.integration.processes import free_port

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")

NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"
LOAD_FAILED = "Failed to load resource"
TOKEN = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up")
    with started(up(folder), folder) as running:
        yield running


@pytest.fixture
def browsing(browser: Browser) -> Iterator[Browsing]:
    found = Browsing(browser)
    yield found
    for close in found.close:
        close()
    assert found.complaints == []


@pytest.fixture
def hanse(federation: Running) -> Iterator[Client]:
    """A client; what a test leaves is cancelled."""
    with Client(federation.address) as client:
        yield client
        for job in list(client.jobs()):
            if job.status.state < job_pb2.JOB_STATE_SUCCEEDED:
                client.cancel(job.id)
        for job in list(client.jobs()):
            client.wait(job.id, until="done", timeout_s=20)


def only(submission: Submission) -> str:
    [job] = submission.jobs
    return str(job.id)


def live(page: Page) -> None:
    """Until the page follows."""
    expect(page.locator("#live")).to_have_text("live", timeout=PATIENCE_MS)


def picture(page: Page) -> str:
    """What the map's canvas shows."""
    return str(page.locator(".mapwrap canvas").evaluate("canvas => canvas.toDataURL()"))


def figure(page: Page, label: str) -> str:
    return page.locator(".totals .figure", has_text=label).locator("b").inner_text()


def changed(page: Page, before: str) -> str:
    """The map, once it looks different."""
    page.wait_for_function("was => document.querySelector('.mapwrap canvas').toDataURL() !== was", arg=before)
    return picture(page)


# ---- what is seen --------------------------------------------------------------------------------------------


def test_the_map_shows_the_pools_and_follows_what_starts_and_ends(
    federation: Running, browsing: Browsing, hanse: Client
) -> None:
    page = browsing.page(federation.url)
    live(page)
    expect(page.locator(".mapwrap")).to_have_attribute("data-pools", "2")
    expect(page.locator(".mapwrap")).to_have_attribute("data-drawn", "2")
    assert figure(page, "gangs") == "0"
    empty = picture(page)
    job = only(hanse.submit(gang("seen", 8)))
    expect(page.locator(".totals .figure", has_text="gangs").locator("b")).to_have_text("1")
    full = changed(page, empty)
    expect(page.locator(".feed li[data-kind=RUNNING]").first).to_contain_text("seen running")
    hanse.cancel(job)
    expect(page.locator(".totals .figure", has_text="gangs").locator("b")).to_have_text("0")
    changed(page, full)
    page.locator(".mapwrap").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#spoken")).to_contain_text(re.compile(r"iowa: \d+ of 256 GPUs free"))
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("iowa")
    expect(page.locator(".legend.under")).to_contain_text("broken")  # the agent told of its racks
    expect(page.locator(".table").first).to_contain_text("8 \N{MULTIPLICATION SIGN} h100")


def test_the_page_of_a_running_gang_has_its_life_its_places_its_ranks_and_its_log(
    federation: Running, browsing: Browsing, hanse: Client
) -> None:
    job = only(hanse.submit(gang("runs", 6, level="block")))
    hanse.wait(job, until="running", timeout_s=20)
    page = browsing.page(f"{federation.url}/#/jobs/{job}")
    expect(page.locator("h1")).to_have_text("runs")
    for word in ("submitted", "bound", "placed", "started", "running", "now"):
        expect(page.locator("svg.line text", has_text=re.compile(f"^{word}$"))).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("is RUNNING in iowa")
    expect(page.locator(".ranks").first).to_contain_text("4 hosts")
    expect(page.locator(".ranks").first).to_contain_text("0\N{EN DASH}3")
    expect(page.locator("canvas[data-pool=iowa]")).to_be_visible()
    page.locator("details.more summary").click()
    expect(page.locator("details.more .ranks div")).to_have_count(6)
    expect(page.locator(".timeline li[data-kind=RUNNING]")).to_be_visible()
    expect(page.locator(".logs div").first).to_be_visible()
    page.keyboard.press("l")
    expect(page.locator(".logs")).to_be_focused()


def test_the_page_of_a_gang_that_waits_says_why_and_what_would_help(
    federation: Running, browsing: Browsing, hanse: Client
) -> None:
    job = only(hanse.submit(gang("waits", 12, queue="vision")))
    page = browsing.page(f"{federation.url}/#/jobs/{job}")
    expect(page.locator(".chip", has_text="pending").first).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("waits")
    expect(page.locator("h2", has_text="what would help")).to_be_visible()
    assert page.locator(".pools [data-pool]").count() == 2
    expect(page.locator("svg.line text", has_text=re.compile("^waits$"))).to_be_visible()
    page.keyboard.press("q")
    expect(page.locator("tr[aria-selected=true]")).to_contain_text("vision")
    expect(page.locator(".card", has_text="Waits in vision")).to_contain_text("96")
    expect(page.locator(".card", has_text="Waits in vision").locator("a", has_text="waits")).to_be_visible()


# ---- what keys do --------------------------------------------------------------------------------------------


def test_a_job_is_found_and_cancelled_by_keys_alone(federation: Running, browsing: Browsing, hanse: Client) -> None:
    jobs = {name: only(hanse.submit(gang(name, 1))) for name in ("keep-me", "stop-me")}
    for job in jobs.values():
        hanse.wait(job, until="running", timeout_s=20)
    page = browsing.page(federation.url)
    live(page)
    page.keyboard.press("/")
    page.keyboard.type("stop-")
    expect(page.locator(".palette li[aria-selected=true]")).to_contain_text("stop-me")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("stop-me")
    expect(page.locator(".chip", has_text="running").first).to_be_visible()
    page.keyboard.press("x")
    expect(page.locator("dialog")).to_contain_text("Cancel stop-me?")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert hanse.job(jobs["stop-me"]).status.state == job_pb2.JOB_STATE_RUNNING
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    expect(page.locator(".title .chip", has_text="cancelled")).to_be_visible()
    assert hanse.wait(jobs["stop-me"], until="done", timeout_s=20).status.state == job_pb2.JOB_STATE_CANCELLED
    assert hanse.job(jobs["keep-me"]).status.state == job_pb2.JOB_STATE_RUNNING


def test_a_list_is_walked_by_keys_and_the_chosen_job_cancelled(
    federation: Running, browsing: Browsing, hanse: Client
) -> None:
    for name in ("first", "second", "third"):
        hanse.wait(only(hanse.submit(gang(name, 1))), until="running", timeout_s=20)
    page = browsing.page(f"{federation.url}/#/jobs?states=RUNNING,STOPPING")
    expect(page.locator(".vrow")).to_have_count(3)
    page.keyboard.press("j")
    name = page.locator(".vrow[aria-selected=true] a").inner_text()
    page.keyboard.press("x")
    expect(page.locator("dialog")).to_contain_text(name)
    page.keyboard.press("Enter")
    expect(page.locator(".vrow", has_text=name).locator(".chip", has_text="cancelled")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).not_to_have_text(name)


def test_a_pool_is_cordoned_with_a_reason_and_uncordoned(
    federation: Running, browsing: Browsing, hanse: Client
) -> None:
    page = browsing.page(f"{federation.url}/#/pools/oslo")
    expect(page.locator("h1")).to_have_text("oslo")
    page.keyboard.press("c")
    page.keyboard.type(NASTY)
    page.keyboard.press("Enter")
    expect(page.locator(".title")).to_contain_text(NASTY)
    assert hanse.pool("oslo").cordon_reason == NASTY
    page.keyboard.press("f")
    expect(page.locator(".feed")).to_contain_text(NASTY)
    assert page.locator("img, script:not([src])").count() == 0
    page.goto(f"{federation.url}/#/pools/oslo")
    expect(page.locator("#uncordon")).to_be_visible()
    page.keyboard.press("u")
    expect(page.locator("#cordon")).to_be_visible()
    assert not hanse.pool("oslo").cordoned


def test_keys_are_listed_and_close_again(federation: Running, browsing: Browsing) -> None:
    page = browsing.page(federation.url)
    live(page)
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_contain_text("cancel a job")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    for key, heading in (("q", "Queues"), ("n", "What is degraded")):
        page.keyboard.press(key)
        expect(page.locator("h2", has_text=heading).first).to_be_visible()
    page.keyboard.press("Backspace")
    expect(page.locator("h2", has_text="Queues").first).to_be_visible()


# ---- how it looks, and what it does not do ------------------------------------------------------------------


def test_it_is_dark_or_light_as_the_machine_says_or_as_somebody_chose(
    federation: Running, browsing: Browsing
) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark, light = browsing.page(federation.url), browsing.page(federation.url, scheme="light")
    live(dark)
    live(light)
    assert dark.evaluate(ground) != light.evaluate(ground)
    was = picture(dark)
    dark.keyboard.press("t")
    assert dark.evaluate(ground) == light.evaluate(ground)
    changed(dark, was)
    dark.reload()
    live(dark)
    assert dark.evaluate(ground) == light.evaluate(ground)


def test_names_and_texts_of_users_are_text(federation: Running, browsing: Browsing, hanse: Client) -> None:
    spec = gang("hostile", 1, command=("echo", NASTY))
    spec.labels["note"] = "x" * 63
    job = only(hanse.submit(spec))
    page = browsing.page(f"{federation.url}/#/jobs/{job}")
    expect(page.locator(".facts")).to_contain_text(NASTY)
    for hash_ in (
        f"#/jobs/{NASTY}",
        "#/pools/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "#/queues/%E0%A4%A",
        "#/nowhere",
    ):
        page.goto(f"{federation.url}/{hash_}")
        page.wait_for_timeout(150)
    assert page.locator("main img, main script").count() == 0
    # The browser says of each question for what is not there that it was answered 404.
    browsing.complaints[:] = [said for said in browsing.complaints if "404" not in said and "400" not in said]


def test_two_browsers_see_the_same(federation: Running, browsing: Browsing, hanse: Client) -> None:
    job = only(hanse.submit(gang("shared", 2)))
    hanse.wait(job, until="running", timeout_s=20)
    one, two = (browsing.page(f"{federation.url}/#/jobs/{job}") for _ in range(2))
    for page in (one, two):
        expect(page.locator(".title .chip", has_text="running")).to_be_visible()
    one.locator("#cancel").click()
    one.locator("dialog button[type=submit]").click()
    for page in (one, two):
        expect(page.locator(".title .chip", has_text="cancelled")).to_be_visible()


def test_a_lost_server_is_said_and_found_again(browser: Browser, browsing: Browsing, tmp_path: Path) -> None:
    store, listen, console = f"sqlite:{tmp_path}/s.sqlite", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    arguments = up(tmp_path, store=store, listen=listen, console=console)
    browsing.forgives = LOAD_FAILED
    with started(arguments, tmp_path) as running:
        page = browsing.page(running.url)
        live(page)
        expect(page.locator(".mapwrap")).to_have_attribute("data-pools", "2")
        running.kill()
    expect(page.locator("#banner")).to_contain_text("does not answer")
    expect(page.locator("#live")).to_have_text("not live")
    expect(page.locator(".mapwrap")).to_have_attribute("data-pools", "2")  # what was known is still there
    with started(arguments, tmp_path) as running, Client(running.address) as client:
        live(page)
        expect(page.locator("#banner")).to_be_hidden()
        client.submit(gang("after", 2))
        expect(page.locator(".totals .figure", has_text="gangs").locator("b")).to_have_text("1")


def test_a_token_is_asked_for_where_tokens_are_known(browsing: Browsing, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann {TOKEN}\n")
    arguments = ["global", "--store", f"sqlite:{tmp_path}/s.sqlite", "--listen", "127.0.0.1:0"]
    arguments += ["--console", "127.0.0.1:0", "--tokens-file", str(tokens), "--replica", "r0"]
    browsing.forgives = LOAD_FAILED
    with started(arguments, tmp_path) as running:
        page = browsing.page(running.url)
        expect(page.locator("h1")).to_have_text("Who looks?")
        page.keyboard.type("0123456789wrong")
        page.keyboard.press("Enter")
        expect(page.locator(".login")).to_contain_text("does not know the token")
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        live(page)
        assert TOKEN not in str(page.evaluate("() => JSON.stringify([document.cookie, {...localStorage}])"))
        page.locator("#leave").click()
        expect(page.locator("h1")).to_have_text("Who looks?")
