"""What the commands of one story share: the federation, the jobs by the names that the story gives them."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from google.protobuf.message import Message

from hanse.model.errors import HanseError
from hanse.model.ids import JobId
from hanse.model.lifecycle import JobState
from tests.scenarios.words import Line, Misread, matches
from tests.scenarios.world import StoryWorld


@dataclass(slots=True)
class Stage:
    """See the module.

    Attributes:
        jobs: by name, in the order in which they were asked for.
    """

    world: StoryWorld
    jobs: dict[str, JobId] = field(default_factory=dict)
    requests: int = 0

    def call(self, name: str, job: JobId) -> None:
        """Give a job its name, unless it has one: a request that is repeated names the same jobs."""
        if job not in self.jobs.values():
            self.jobs[name] = job

    def job(self, line: Line, at: int = 0) -> JobId:
        """The job that a command names."""
        return self.job_of(line, line.word(at, "a job"))

    def job_of(self, line: Line, name: str) -> JobId:
        """The job of that name."""
        if name not in self.jobs:
            raise Misread(f"line {line.number}: no job {name} was submitted")
        return self.jobs[name]

    def named(self, pattern: str) -> dict[str, JobId]:
        """Jobs by glob."""
        return {name: job for name, job in self.jobs.items() if matches(name, pattern)}

    def states(self, pattern: str) -> Iterator[tuple[str, JobState | None]]:
        """Jobs by glob with their states as stored; None for those that nobody stored."""
        return ((name, self.world.view.states.get(job)) for name, job in self.named(pattern).items())

    def request_id(self, line: Line) -> str:
        """The id that the command gives its call, or one of its own."""
        self.requests += 1
        return line.named.get("id", f"req-{self.requests}")

    async def order(self, method: str, request: Message) -> list[str]:
        """A call that is repeated until it is answered; what it shows is its refusal."""
        try:
            await self.world.ask(method, request)
        except HanseError as error:
            return [refusal(error)]
        return []


def refusal(error: HanseError) -> str:
    """A refusal as one line."""
    where = f" at {error.path}" if error.path else ""
    return f"refused {error.reason}{where}: {error.message}"


Act = Callable[[Stage, Line], Awaitable[list[str]]]
"""Does one command; what it shows."""
