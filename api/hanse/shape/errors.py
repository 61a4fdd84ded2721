"""The one error of this package: bytes that are not a shape."""

from hanse.model.errors import InvalidArgument


class ShapeError(InvalidArgument):
    """The bytes are no canonical shape of a known version; the summary that carried them is to be ignored."""

    default_reason = "SHAPE_INVALID"
