"""`hanse status`: how the whole federation is, at a glance."""

from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import session_of


def status(server: ServerOption = None, output: OutputOption = None) -> None:
    """Show replicas, pools, who holds which queues, conflicts and refusals of the last minute, and what is degraded.

    \b
    hanse status
    hanse status -o json | jq -r '.degraded[]'
    """
    from hanse.cli.show.status import status_page
    from hanse.wire.json import message_to_json

    session = session_of(server, output)
    found = session.ask(lambda client: client.status())
    session.say(message_to_json(found), lambda paper: status_page(found, paper))
