"""A function as an engine: what it is given, what it may return, and how it fails."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

from pytest_quant import Dataset, Model
from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.data import inputs_of
from pytest_quant.errors import BuildError, DataError, ModelError, QuantError, UsageError
from pytest_quant.host import INTERRUPT
from pytest_quant.measure.steps import Steps
from pytest_quant.spec import EngineSpec, Signature
from tests.support.measuring import numbers

BATCH: Feeds = {"(batch)": numbers(3, 2)}


def opened(call: Callable[[Any], object], data: Dataset | None = None) -> Engine:
    """Open a function as the mark of a check would, with the inputs of the data."""
    model = Model.from_callable(call, name="net")
    if data is not None:
        model = Model(model.name, call=call, signature=Signature(inputs_of(data), ()))
    spec = EngineSpec("callable", "", None, model)
    return get_backend("callable").open(spec, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("samples", "given"),
    [
        (numbers(3, 2), numbers(3, 2)),
        (["a", "bc", ""], ["a", "bc", ""]),
        ({"x": numbers(3, 2), "prompt": ["a", "bc", ""]}, {"x": numbers(3, 2), "prompt": ["a", "bc", ""]}),
        ([(sample, 0) for sample in numbers(3, 2)], numbers(3, 2)),
    ],
)
def test_a_batch_has_the_form_of_the_data(samples: Any, given: Any) -> None:
    """A dict where the data is one, else the array; texts are a list, however the data is read."""
    seen: list[Any] = []

    def call(batch: Any) -> Any:
        seen.append(batch)
        return np.zeros(3)

    is_pairs = isinstance(samples, list) and isinstance(samples[0], tuple)
    data = Dataset.from_iterable(samples) if is_pairs else Dataset.from_arrays(samples)
    engine = opened(call, data)
    columns = samples if isinstance(samples, dict) else {"(batch)": given}
    feeds = {name: np.asarray(values, object if isinstance(values, list) else None) for name, values in columns.items()}
    engine.run(feeds)
    engine.prepare(feeds)()
    for batch in seen:
        if isinstance(given, np.ndarray):
            np.testing.assert_array_equal(batch, given)
        elif isinstance(given, dict):
            np.testing.assert_array_equal(batch.pop("x"), given["x"])
            assert batch == {"prompt": given["prompt"]}
        else:
            assert batch == given
    assert len(seen) == 2
    with pytest.raises(DataError):
        engine.run({"other": numbers(3, 2)})


def _return(value: object, _: object) -> object:
    return value


def streaming(call: Callable[[Any], object]) -> Engine:
    """Open a function that gives tokens."""
    model = Model.from_callable(call, name="net", streams=True)
    return get_backend("callable").open(EngineSpec("callable", "", None, model), None)  # type: ignore[arg-type]


PROMPT: Feeds = {"(batch)": np.array(["a b"], object)}


def test_a_stream_is_one_text_and_its_tokens_have_times() -> None:
    """The output is what they are together; each is timed from the start of the run."""

    def tokens(prompts: list[str]) -> Iterator[str]:
        for word in prompts[0].split():
            time.sleep(0.01)
            yield word

    engine = streaming(tokens)
    assert engine.run(PROMPT)["output"].tolist() == ["ab"]
    run = engine.prepare_tokens(PROMPT)
    assert run is not None
    first_ns, second_ns = run()
    assert 10e6 <= first_ns <= second_ns - 10e6
    assert opened(lambda batch: batch).prepare_tokens(PROMPT) is None


@pytest.mark.parametrize(
    ("returned", "words"),
    [("text", "str in place of an iterator"), (3, "int in place of an iterator"), ([1], "expected str instance")],
)
def test_what_is_no_stream(returned: object, words: str) -> None:
    """The letters of a text are no tokens."""
    with pytest.raises(BuildError, match=words):
        streaming(lambda _: returned).run(PROMPT)


def test_what_it_may_return() -> None:
    """An array, texts, or a dict; the outputs are known after a run, and belong to the caller."""
    memory = numbers(3, 2)
    may_return: list[tuple[object, str, str]] = [
        (memory, "output", "float32"),
        (["a", "b", "c"], "output", "object"),
        (np.array(["a", "b", "c"]), "output", "object"),
        ({"logits": memory.tolist()}, "logits", "float64"),
    ]
    for returned, name, dtype in may_return:
        engine = opened(partial(_return, returned))
        assert not engine.signature.outputs
        (array,) = engine.run(BATCH).values()
        assert [(each.name, each.dtype) for each in engine.signature.outputs] == [(name, dtype)]
        assert array.dtype == np.dtype(dtype)
        assert not np.shares_memory(array, memory)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "NoneType of object"),
        ([b"a", b"b", b"c"], r"list of \|S1"),
        ([[1], [1, 2], [3]], "list: setting an array element"),
        (numbers(2, 2), r"shape \(2, 2\)"),
        (1.0, r"shape \(\)"),
        (["a", "b"], r"shape \(2,\)"),
        (np.array(["a", 1, None], object), "ndarray of object"),
    ],
)
def test_what_is_no_output(returned: object, words: str) -> None:
    """The message says what came, and what is allowed for so many samples."""
    with pytest.raises(ModelError, match=rf"net returns no output 'output'(.|\n)*got: {words}(.|\n)*batch of 3"):
        opened(lambda _: returned).run(BATCH)


def test_outputs_that_change_from_run_to_run() -> None:
    """They would be compared with nothing."""
    names = iter("ab")
    engine = opened(lambda batch: {next(names): batch})
    engine.run(BATCH)
    with pytest.raises(ModelError, match=r"other outputs than before(.|\n)*got: b\n(.|\n)*allowed: a"):
        engine.run(BATCH)


def test_an_exception_is_ours_in_runs_and_in_timed_ones() -> None:
    """With its type and its text; an error of this package stays what it is."""

    def refuses(_: object) -> object:
        raise ConnectionError("no route")

    engine = opened(refuses)
    for run in (lambda: engine.run(BATCH), engine.prepare(BATCH)):
        with pytest.raises(BuildError, match=r"callable net failed(.|\n)*ConnectionError: no route"):
            run()


def bounded(call: Callable[[Any], object], limit_s: float) -> Engine:
    """Open a function whose runs have an end."""
    engine = opened(call)
    engine.watch = Steps(lambda _: None, limit_s, end=lambda _: pytest.fail("the process was ended")).watch
    return engine


def test_a_call_that_never_ends() -> None:
    """A wait in the system is interrupted as a loop is; the engine can run again, and nothing is pending."""

    def loops(_: object) -> None:
        while True:
            pass

    for call in (lambda _: time.sleep(60), loops):
        engine = bounded(call, 0.1)
        with pytest.raises(BuildError, match=r"a run of callable of net did not end within 0\.1 s"):
            engine.run(BATCH)
    assert bounded(lambda batch: batch, 60.0).run(BATCH)["output"].shape == (3, 2)


def test_an_interrupt_of_the_user_is_no_timeout() -> None:
    """Ctrl-C ends the run of pytest."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(interrupted).run(BATCH)


def test_what_ignores_ctrl_c_is_ended_all_the_same() -> None:
    """As a program in the background of a shell does; the handlers of both signals are those of before."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.getsignal(INTERRUPT)
    try:
        with pytest.raises(BuildError, match="did not end within"):
            bounded(lambda _: time.sleep(60), 0.1).run(BATCH)
        assert signal.getsignal(INTERRUPT) == before[1]
    finally:
        signal.signal(signal.SIGINT, before[0])


def test_what_does_not_run_cannot_be_ended() -> None:
    """Then the step ends the process, as it does for any engine."""
    assert not opened(lambda batch: batch)._stop()


def test_a_signal_that_comes_late_hits_the_run() -> None:
    """Whoever sends it is waited for, so that nothing after the run is interrupted."""

    def late(held: threading.Event) -> None:
        with engine._lock:  # type: ignore[attr-defined]
            held.set()
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)

    def call(batch: Any) -> Any:
        held = threading.Event()
        threading.Thread(target=late, args=(held,)).start()
        held.wait()
        return batch

    engine, before = opened(call), signal.getsignal(INTERRUPT)
    with pytest.raises(TimeoutError):
        engine.run(BATCH)
    assert (signal.getsignal(INTERRUPT), engine._stop()) == (before, False)


def test_signals_at_any_moment_never_end_the_process() -> None:
    """By default they would: a thread sends them in quick succession, while runs begin and end."""
    runs = 0

    def call(batch: Any) -> Any:
        nonlocal runs
        runs += 1
        while runs % 100 == 0:  # until it is interrupted
            pass
        return batch

    engine, done = opened(call), threading.Event()

    def stop() -> None:
        while not done.wait(1e-5):
            engine._stop()

    thread = threading.Thread(target=stop)
    thread.start()
    ended = 0
    try:
        while runs < 2000:
            with suppress(TimeoutError):
                engine.run(BATCH)
                ended += 1
    finally:
        done.set()
        thread.join()
    assert ended <= 1980


def test_another_thread_is_not_interrupted() -> None:
    """Python runs handlers in the main thread only."""
    answers: list[bool] = []
    engine = opened(lambda batch: answers.append(engine._stop()) or batch)  # type: ignore[func-returns-value]
    thread = threading.Thread(target=engine.run, args=(BATCH,))
    thread.start()
    thread.join()
    assert answers == [False]


def test_nothing_is_known_of_one_without_a_version() -> None:
    """With one the name and the place of the function count too: two functions may have one version."""
    backend, model = get_backend("callable"), Model.from_callable(numbers, version="7")
    (of_reference,) = backend.ingredients(EngineSpec("callable", "", None, model)).items()
    assert of_reference == ("model", "tests.support.measuring.numbers as numbers, version 7")
    candidate = EngineSpec("callable", "int4", "given", model, quantized=Model.from_callable(abs, version="8"))
    (of_candidate,) = backend.ingredients(candidate).items()
    assert of_candidate == ("quantized model", "builtins.abs as abs, version 8")
    assert backend.ingredients(EngineSpec("callable", "", None, Model.from_callable(numbers))) == {}


def test_a_name_that_says_nothing_is_left_to_the_fixture() -> None:
    """A lambda's, as that of a file called model.onnx."""
    assert Model.from_callable(lambda batch: batch).name == "model"
    assert Model.from_callable(opened).name == "opened"


@pytest.mark.parametrize("refused", [lambda: Model.from_callable(3), lambda: Model.from_callable(abs, version=1)])  # type: ignore[arg-type]
def test_what_is_no_function(refused: Callable[[], object]) -> None:
    """It is refused where it is written."""
    with pytest.raises(UsageError, match="takes a function and the text of its version"):
        refused()


def test_a_file_is_no_function() -> None:
    """The message says what to write, or that another backend reads it."""
    with pytest.raises(QuantError, match=r"model 'net' is none(.|\n)*net\.onnx"):
        get_backend("callable").signature(Model.from_onnx("net.onnx"))
