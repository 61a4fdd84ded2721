"""Page tokens are opaque, belong to one listing, and never break the server."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.api.v1 import job_service_pb2, queue_service_pb2
from hanse.apiserver.pages import PageToken, filter_hash, page_size, read_token, write_token
from hanse.model.errors import InvalidArgument

REQUEST = job_service_pb2.ListJobsRequest(queue="q", labels={"a": "b", "c": "d"})


def test_a_token_comes_back_whatever_the_size_of_the_page() -> None:
    token = PageToken(filter_hash(REQUEST), 7, "state/abc")
    again = job_service_pb2.ListJobsRequest(page_size=9)
    again.MergeFrom(REQUEST)
    assert read_token(write_token(token), again) == token


def test_the_first_page_needs_none() -> None:
    assert read_token("", REQUEST) == PageToken(filter_hash(REQUEST), 0, "")


@pytest.mark.parametrize(
    "other",
    [
        job_service_pb2.ListJobsRequest(),
        queue_service_pb2.ListQueuesRequest(),
        job_service_pb2.ListJobsRequest(queue="p"),
    ],
)
def test_a_token_of_another_listing_is_refused(other: job_service_pb2.ListJobsRequest) -> None:
    with pytest.raises(InvalidArgument):
        read_token(write_token(PageToken(filter_hash(REQUEST), 7, "x")), other)


@pytest.mark.parametrize(
    "token", [PageToken("", 1, "x"), PageToken(filter_hash(REQUEST), -1, "x"), PageToken(filter_hash(REQUEST), 1, "")]
)
def test_tokens_that_nobody_wrote(token: PageToken) -> None:
    with pytest.raises(InvalidArgument):
        read_token(write_token(token), REQUEST)


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_text_is_refused_in_our_own_words(text: str) -> None:
    if not text:
        return
    with pytest.raises(InvalidArgument) as refused:
        read_token(text, REQUEST)
    assert refused.value.reason == "PAGE_TOKEN_INVALID"


def test_sizes_of_pages() -> None:
    assert [page_size(n, default=10, most=50) for n in (0, 1, 50, 99)] == [10, 1, 50, 50]
    with pytest.raises(InvalidArgument):
        page_size(-1, default=10, most=50)
