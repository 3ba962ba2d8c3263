"""The data of a check as the user gives it: arrays, an iterable or a loader; it is read when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_quant.errors import UsageError
from pytest_quant.spec.model import BatchAxes, read_batch_axes


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples to evaluate on, and disjoint samples to calibrate with.

    Use a constructor: `from_arrays`, `from_iterable`, `from_loader`, `placeholder`, or `of` for anything.

    Attributes
    ----------
    kind : how `inputs` is read.
    inputs : ``arrays``: an array (n, ...) or a dict of them by input name;
        ``iterable``: a re-iterable of ``(inputs, label)``, one sample each, without a batch axis;
        ``loader``: a torch ``DataLoader`` of ``(inputs, labels)`` batches.
    labels : ``arrays`` only: one for each sample, or ``None``.
    calibration : ``None``, data of the same form without labels, a count, or a share of the samples.
    name : of the data in messages.
    batch_axes : batch axes by the name of an input or an output, in the model's input and in its array here; ``None``
        for one without a batch axis. Axes that are not named are detected.
    stands_in : the samples only stand in for real ones, see `placeholder`.
    label : ``loader`` only: the key of the labels in a batch that is a dict; ``None`` for batches of a pair.
    groups : ``arrays`` only: the group of each sample, or ``None``.
    """

    kind: Literal["arrays", "iterable", "loader"]
    inputs: object = field(repr=False)
    labels: object | None = field(default=None, repr=False)
    calibration: object | None = field(default=None, repr=False)
    name: str = "quant_data"
    batch_axes: BatchAxes = ()
    stands_in: bool = False
    label: str | None = None
    groups: object | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Reject a calibration count or share outside its range, and a `Dataset` in place of its samples."""
        amount = self.calibration
        if isinstance(amount, Dataset):
            raise UsageError("Dataset: calibration is a Dataset", fix="give its arrays: calibration=images")
        is_count = isinstance(amount, int) and not isinstance(amount, bool) and amount >= 1
        is_share = isinstance(amount, float) and 0.0 < amount < 1.0
        if isinstance(amount, (int, float)) and not is_count and not is_share:
            raise UsageError(
                "Dataset: calibration is no count and no share of the samples",
                value=repr(amount),
                allowed="an int of at least 1, a count, or a float strictly between 0 and 1, a share",
                fix="write calibration=100, or 0.1 for a tenth of the samples",
            )

    @classmethod
    def from_arrays(
        cls,
        inputs: object,
        labels: object | None = None,
        calibration: object | None = None,
        *,
        groups: object | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
    ) -> Dataset:
        """Samples held in memory.

        Parameters
        ----------
        inputs : an array (n, ...), or a dict of arrays (n, ...) by input name. An input of the model that has no
            batch axis, such as a sampling rate, takes one array of the model's own shape for all samples, or one
            with an axis of samples in front.
        labels : one for each sample: an array (n, ...), or a list of texts, lists, dicts or arrays, which reach a
            `Metric` as they are; a dict of arrays (n, ...) is one dict for each sample. ``None``: then only agreement
            and tensor metrics can be limited.
        calibration : arrays of the same form; or an int, a count; or a float strictly between 0 and 1, a
            share. Count and share take evenly spaced samples out of the evaluation set.
        groups : a text or an integer for each sample, as its speaker, scene or language. `max_drop` may limit the drop
            of each; where it does not, samples of one group depend on each other, and intervals are for other groups.
        batch_axes : the batch axis, ``{"state": 1}``, in the model's input or output of that name and in its array
            here; ``None`` for one without a batch axis. Needed only where it is not detected correctly.
        """
        axes = read_batch_axes("Dataset", batch_axes)
        return cls("arrays", inputs, labels, calibration, batch_axes=axes, groups=groups)

    @classmethod
    def from_iterable(
        cls,
        samples: Iterable[object],
        calibration: object | None = None,
        *,
        batch_axes: Mapping[str, int | None] | None = None,
    ) -> Dataset:
        """Samples that are streamed.

        Parameters
        ----------
        samples : a re-iterable of ``(inputs, label)``, which gives the same samples in the same order each time. Inputs
            have no batch axis. A label is a number, an array, or any value made of text, numbers, arrays, lists, tuples
            and dicts.
        calibration : another such iterable, a count or a share, as in `from_arrays`.
        batch_axes : as in `from_arrays`, for the model's inputs and outputs only.
        """
        return cls("iterable", samples, None, calibration, batch_axes=read_batch_axes("Dataset", batch_axes))

    @classmethod
    def from_loader(
        cls,
        loader: Iterable[object],
        calibration: object | None = None,
        *,
        label: str | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
    ) -> Dataset:
        """Samples of a torch ``DataLoader``.

        Parameters
        ----------
        loader : yields ``(inputs, labels)`` batches and does not shuffle. Labels are a tensor (n, ...), a list with one
            for each sample, or a dict of such, which is split into one dict for each sample.
        calibration : another ``DataLoader``, a count or a share, as in `from_arrays`.
        label : the key of the labels where a batch is a dict that has them beside the inputs, ``"labels"`` for example.
        batch_axes : as in `from_arrays`.
        """
        axes = read_batch_axes("Dataset", batch_axes)
        return cls("loader", loader, None, calibration, batch_axes=axes, label=label)

    @classmethod
    def placeholder(cls, inputs: object, calibration: object | None = None) -> Dataset:
        """Samples that stand in for real ones until somebody writes those, random numbers for example.

        Engines are built, proven and timed on them. No limit on accuracy is judged: each is INCONCLUSIVE and says that
        real samples are missing, and so is a check without such a limit.

        Parameters
        ----------
        inputs, calibration : as in `from_arrays`, which takes the labels too once there are some.
        """
        return cls("arrays", inputs, None, calibration, stands_in=True)

    @classmethod
    def from_fixture(cls, value: object, name: str = "quant_data") -> Dataset:
        """Return the value of the fixture `name` as a `Dataset` that messages call by that name.

        A `Dataset` is returned with its own name, if it has one. ``(inputs, labels)``, a dict and an array are read by
        `from_arrays`, a torch ``DataLoader`` by `from_loader`, any other iterable by `from_iterable`.

        Raises
        ------
        UsageError : `value` is none of these.
        """
        if isinstance(value, Dataset):
            return replace(value, name=name) if value.name == "quant_data" else value
        if any(base.__name__ == "DataLoader" for base in type(value).__mro__):
            return cls("loader", value, name=name)
        if isinstance(value, tuple) and len(value) == 2:
            return cls("arrays", value[0], value[1], name=name)
        if isinstance(value, dict) or hasattr(value, "__array__"):
            return cls("arrays", value, name=name)
        if isinstance(value, Iterable):
            return cls("iterable", value, name=name)
        raise UsageError(
            f"{name} must give a Dataset",
            value=type(value).__name__,
            allowed="a Dataset, (inputs, labels) arrays, an iterable of (inputs, label), or a torch DataLoader",
            fix="return pytest_quant.Dataset.from_arrays(inputs, labels, calibration=100)",
        )
