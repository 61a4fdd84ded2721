"""Pure conversions between the public API's messages and the model: `…_to_wire`, `…_from_wire`, and to JSON.

What comes in is parsed fully or refused with the path of the field that is wrong; nothing is repaired silently, and
nothing behind this package handles a message of the API as if it were a value of the model.
"""
