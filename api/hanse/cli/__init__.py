"""The `hanse` command: a thin reader of arguments over the SDK, and pure functions that draw what the server says.

    main        runs the app; every failure becomes one line (or one JSON object) and an exit code
    app         the list of commands, in the groups in which the help shows them
    commands    one function for each command: ask the SDK, hand the answer to `show`
    show        pure: messages in, text out. Everything that is drawn is drawn there, and tested as golden text
    demo        the story that `make demo` tells, from the same answers and drawings

Rules: exit 0 / 1 / 2 / 3 as `failures` says; results on stdout, everything else on stderr; JSON and YAML carry the
same facts as the tables, whole; a table fits 80 columns, needs no colour, no UTF-8 and no terminal. Help must come
in less than 0.3 s, so a command imports what it needs when it runs, and this package imports nothing.
"""
