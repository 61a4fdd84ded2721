"""The console: a web page that shows the federation as it is, and the little HTTP API under it.

It is one more caller of the API's services, with the permissions of whoever looks: it has no view of its own and
writes nothing that a command could not. What it adds is form: figures by column, changes instead of repetitions,
pages instead of everything, so that a thousand pools and a hundred thousand jobs stay light.
"""
