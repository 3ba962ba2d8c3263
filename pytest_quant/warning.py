"""The one warning this package gives."""


class InconclusiveWarning(UserWarning):
    """A limit could not be judged: too much noise, too few samples, or not measurable here."""
