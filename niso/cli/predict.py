"""`niso predict RUN DATA`: the classes of observations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import OBSERVED, Command, ModelName, check_observed
from niso.errors import InputError, counted, one_line, some_of
from niso.files.paths import check_place

if TYPE_CHECKING:
    import numpy as np

    from niso.data.pairs.observations import Observed

PRINTED = 20
"""Observations whose class is printed."""


@dataclass(frozen=True)
class Options(Command):
    """Classify observations by the model of a finished run whose data had labels.

    The .npz file holds `predicted` (n,), the most probable label of each, `probabilities` (n, classes) and `classes`,
    the labels that these are of; `names` of pictures, and of frames, CLIP/NUMBER; `label`, where DATA has it or is
    pictures, videos or prepared shapes in folders of classes. Then the share that is predicted right of those whose
    class the model knows is printed, too.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso predict runs/mine pictures": "a folder of pictures",
        "niso predict runs/mine x.npz -o mine.npz": "an array file",
    }

    run: ModelName
    data: Annotated[Path, Positional, arg(metavar="DATA", help=OBSERVED)]
    out: Annotated[Path, arg(aliases=["-o"])] = Path("predicted.npz")
    """The .npz file to write."""

    def __post_init__(self) -> None:
        check_observed(self.run, self.out, "predicted", self.data)

    def __call__(self) -> None:
        import numpy as np

        from niso.data.pairs.table import as_array
        from niso.files.writing import write_arrays
        from niso.loading import load

        check_place(self.out, "--out", file=True)
        fitted = load(self.run)
        if not fitted.classes:
            raise InputError(f"{self.run} has no classifier: train on observations with labels, or give another run")
        observed = fitted.read(self.data)
        probabilities = fitted.probabilities(np.asarray(observed.values))
        classes = as_array(fitted.classes)
        arrays = {"predicted": classes[probabilities.argmax(1)], "probabilities": probabilities, "classes": classes}
        write_arrays(self.out, arrays | observed.arrays())
        _print(observed, arrays["predicted"], probabilities)
        if observed.label is not None:
            print(_compared(observed.label.tolist(), arrays["predicted"].tolist(), fitted.classes))
        print(f"{counted(len(probabilities), 'observation')} in {self.out}")


def _print(observed: Observed, predicted: np.ndarray, probabilities: np.ndarray) -> None:
    """The classes of the first observations."""
    for row, (label, most) in enumerate(zip(predicted[:PRINTED], probabilities.max(1), strict=False)):
        print(f"{one_line(observed.names[row]) if observed.names else row}: {one_line(str(label))} ({most:.3f})")
    if len(predicted) > PRINTED:
        print(f"… and {len(predicted) - PRINTED:,} more")


def _compared(labels: Sequence[Any], predicted: Sequence[Any], classes: Sequence[Any]) -> str:
    """The share of predictions that are right, of the observations whose label is a class of the model, and that of
    naming their most frequent label; labels that are no such class are named."""
    from niso.data.pairs.table import is_missing

    known = {_word(name) for name in classes}
    given = zip(labels, predicted, strict=True)  # folders of classes may have any name
    pairs = [(_word(label), _word(most)) for label, most in given if _word(label) in known or not is_missing(label)]
    right = [label == most for label, most in pairs if label in known]
    frequent = max(Counter(label for label, _ in pairs if label in known).values(), default=0)
    unknown = sorted({label for label, _ in pairs if label not in known})
    lines = list[str]()
    if unknown:
        few = some_of([*map(str, classes)])
        lines.append(f"DATA has labels that the model does not know: {some_of(unknown)}; it knows {few}")
    if right:
        which = "with a label" + " that the model knows" * bool(unknown)
        of = f" of the {len(right):,} {which}" if len(right) < len(labels) else ""
        share, most = (f"{count / len(right):.1%}" for count in (sum(right), frequent))
        lines.append(f"{share}{of} are of the class that DATA gives; {most} have the most frequent one")
    elif not unknown:
        lines.append("no observation of DATA has a label")
    return "\n".join(lines)


def _word(label: Any) -> str:
    """A label to be compared: whole floats, as beside missing values, and booleans are the same classes as integers."""
    from niso.data.pairs.table import composed_word

    if isinstance(label, bool) or (isinstance(label, float) and label.is_integer()):
        label = int(label)
    return str(composed_word(label))
