"""`niso export`: in a process of its own, for the check of types, on in this suite, does not go with exports."""

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import niso as library
from niso import export as exporting
from niso.cli.export import Options
from niso.data.pairs.scaling import Scaling
from niso.errors import InputError
from niso.export import Decode, Encode, frozen
from niso.spectrum import FixedSpectrum
from tests.fixtures import Result

GUIDE = Path(__file__).parents[2] / "docs/how-to/trained-models.md"


COMMAND = """
import contextlib, io, json
from niso.cli.main import main
out, err = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    try:
        main({words})
    except SystemExit as stop:
        status = int(stop.code or 0)
print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


@pytest.fixture
def export(outside):
    """Calls `niso export`."""

    def call(*words):
        return Result(*json.loads(outside(COMMAND.format(words=["export", *map(str, words)]))))

    return call


@pytest.fixture
def observed():
    """Pairs of observations, in batches of other sizes than that of the export."""
    return [np.random.default_rng(n).integers(256, size=(2, n, 3, 8, 8)).astype(np.float32) for n in (1, 5)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A saved model that tells two classes apart."""
    images = np.random.default_rng(0).integers(256, size=(20, 3, 8, 8)).astype(np.uint8)
    few = {"steps": 2, "rank": 4, "batch_size": 4, "latent_channels": 4, "evaluation_pairs": 8, "progress": False}
    labels = np.array(["cat", "dog"])[np.arange(20) % 2]
    fitted = library.fit(images, transform="rotation", label=labels, head={"steps": 2}, **few)
    return fitted.save(tmp_path_factory.mktemp("classifier") / "model")


@pytest.mark.slow
def test_programs_of_torch_give_the_same(classifier, tmp_path, observed, refused, export):
    done = export(classifier, "-o", tmp_path / "out")
    assert done.status == 0 and done.err == "", done.err
    paths = [tmp_path / "out" / f"{name}.pt2" for name in ("encode", "decode", "map", "predict")]
    lines = done.out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == list(map(str, paths))
    assert lines[-1] == f"{paths[-1]}: float32 (batch, 3, 8, 8) → (batch, 2) of cat, dog"
    fitted = library.load(classifier)
    programs = [torch.export.load(path) for path in paths]
    encode, decode, solve, predict = (program.module() for program in programs)
    for x, tx in observed:
        a = fitted.encode(x)
        np.testing.assert_allclose(encode(torch.from_numpy(x)).numpy(), a, atol=1e-5)
        np.testing.assert_allclose(decode(torch.from_numpy(a)).numpy(), fitted.decode(a), atol=1e-3)
        tau = solve(torch.from_numpy(x), torch.from_numpy(tx)).numpy()
        np.testing.assert_allclose(tau, fitted.map(x, tx), atol=1e-4)
        found = predict(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(found, fitted.probabilities(x), atol=1e-5)
    for path, program in zip(paths, programs, strict=True):  # no traces of how they were made, and no examples
        assert b"export.py" not in path.read_bytes() and program.example_inputs is None
    imported = re.findall(r"after `(import [a-z.]+)`", f"{Options.__doc__}{GUIDE.read_text(encoding='utf-8')}")
    assert len(imported) == 2 and len(set(imported)) == 1  # all that a process of its own needs, by help and guide
    load = f"{imported[0]}; import torch; torch.export.load({str(tmp_path / 'out' / 'map.pt2')!r})"
    subprocess.run([sys.executable, "-c", load], check=True, timeout=300)
    assert "holds .pt2 files already" in refused("export", classifier, "-o", tmp_path / "out")
    words = "programs are written to a folder, leave out .onnx, and give --format onnx"
    assert words in refused("export", classifier, "-o", tmp_path / "mine.onnx")


SOLVE = """
from pathlib import Path
import torch
import niso
from niso.export import Solve, content_of
for model in {models!r}:
    fitted = niso.load(model)
    x = torch.randn(2, 2, *fitted.shape)
    Path(f"{{model}}.pt2").write_bytes(content_of("map", Solve(fitted), tuple(x), False, "pt2"))
"""


@pytest.mark.slow
def test_maps_between_latents_are_exported(tmp_path, outside):
    """Of the method without a basis, and also where there are more channels than points, or fewer."""
    few = {"steps": 2, "batch_size": 4, "evaluation_pairs": 8, "progress": False, "method": "niso-no-basis"}
    x = np.random.default_rng(0).standard_normal((2, 20, 8, 2)).astype(np.float32)
    models = {
        str(tmp_path / f"model{channels}"): library.fit(*x, latent_channels=channels, **few) for channels in (4, 32)
    }
    for model, fitted in models.items():
        fitted.save(Path(model))
    outside(SOLVE.format(models=list(models)))
    for model, fitted in models.items():
        solve = torch.export.load(f"{model}.pt2").module()
        for count in (1, 5):
            tau = solve(*torch.from_numpy(x[:, :count]))
            np.testing.assert_allclose(tau.numpy(), fitted.map(*x[:, :count]), atol=1e-4)


BRANCHING = """
import contextlib, io, torch
from niso.errors import InputError
from niso.export import content_of

class Branching(torch.nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x

with contextlib.redirect_stderr(io.StringIO()) as err:
    try:
        content_of("map", Branching(), (torch.ones(2, 3),), False, "pt2")
    except InputError as refusal:
        print(str(refusal).count("\\n"), refusal)
print(repr(err.getvalue()))
"""


@pytest.mark.slow
def test_what_torch_cannot_export_is_said_in_one_line(outside):
    """Without the graph that torch writes to stderr."""
    refusal, err = outside(BRANCHING).splitlines()
    assert refusal.startswith("0 map of this model cannot be exported as pt2 (Could not ") and err == "''"


@pytest.mark.slow
def test_programs_take_any_number_of_channels_where_the_model_does(finished_once, tmp_path, outside):
    fitted = library.load(finished_once)
    points, _ = fitted.shape
    made = f"print(*export(niso.load({str(finished_once)!r}), Path({str(tmp_path)!r}), 'pt2').values())"
    printed = outside(f"import niso\nfrom pathlib import Path\nfrom niso.export import export\n{made}")
    assert f"float32 (batch, {points}, channels), (batch, {points}, channels) → " in printed
    encode, solve = (torch.export.load(tmp_path / f"{name}.pt2").module() for name in ("encode", "map"))
    for channels in (1, 300):
        x, tx = torch.randn(2, 3, points, channels)
        torch.testing.assert_close(encode(x), fitted.encode(x))
        torch.testing.assert_close(solve(x, tx), fitted.map(x, tx), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_programs_of_onnx_give_the_same(classifier, tmp_path, observed, export):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    done = export(classifier, "--format", "onnx", "-o", tmp_path)
    assert done.status == 0 and done.err == "", done.err
    fitted = library.load(classifier)
    programs = [onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("encode", "decode", "predict")]
    encode, decode, predict = programs
    for axes in (part for each in programs for part in (*each.get_inputs(), *each.get_outputs())):
        assert axes.shape[0] == "batch" and all(isinstance(size, int) for size in axes.shape[1:])
    names = [[part.name for part in (*each.get_inputs(), *each.get_outputs())] for each in programs]
    assert names == [["x", "a"], ["a", "x"], ["x", "probabilities"]]
    assert not any(b"export.py" in path.read_bytes() for path in tmp_path.iterdir())
    for x, _ in observed:
        a = fitted.encode(x)
        there = encode.run(["a"], {"x": x})[0]
        np.testing.assert_allclose(there, a, atol=1e-5 * max(1, abs(a).max()))
        back = decode.run(["x"], {"a": a})[0]
        np.testing.assert_allclose(back, fitted.decode(a), atol=1e-5 * 255)
        found = predict.run(["probabilities"], {"x": x})[0]
        np.testing.assert_allclose(found, fitted.probabilities(x), atol=1e-5)


def test_programs_scale_each_channel_by_its_own_numbers_and_clip(model_folder, observed):
    """As maps of shapes are."""
    fitted, (x, _) = library.load(model_folder), observed[1]
    fitted.units = replace(fitted.units, scaling=Scaling((50.0, 100.0, 150.0), (20.0, 80.0, 320.0)), clip=0.5)
    a = Encode(fitted)(torch.from_numpy(x))
    np.testing.assert_allclose(a.numpy(), fitted.encode(x), atol=1e-5)
    np.testing.assert_allclose(Decode(fitted)(a).detach().numpy(), fitted.decode(a.numpy()), atol=1e-3)


def test_programs_of_double_precision_hold_values_far_from_zero(model_folder):
    """Days since −4712, say, which single precision rounds to quarters."""
    fitted = library.load(model_folder)
    fitted.method.model.double()
    fitted.units = replace(fitted.units, scaling=Scaling((2450000.37,), (0.1,)), range=None)
    x = 2450000.37 + 0.1 * np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    a = fitted.encode(x)
    np.testing.assert_allclose(Encode(fitted).double()(torch.from_numpy(x)).numpy(), a, atol=1e-5)
    np.testing.assert_allclose(Decode(fitted).double()(torch.from_numpy(a)).numpy(), fitted.decode(a), atol=1e-6)
    fitted.method.model.half()
    assert fitted.dtype == torch.float32


def test_what_onnxruntime_cannot_run_is_refused(monkeypatch):
    """As convolutions in float64, of which it has none."""

    class Runtime:
        @staticmethod
        def InferenceSession(*_, **__):
            raise RuntimeError("NOT_IMPLEMENTED : no implementation for Conv(11)")

    monkeypatch.setitem(sys.modules, "onnxruntime", Runtime)
    with pytest.raises(InputError, match=r"cannot run encode .*no implementation for Conv.*choose --format pt2"):
        exporting._check_same(b"", "encode", torch.nn.Identity(), ())


def test_packages_that_torch_cannot_use_are_named(model_folder, monkeypatch):
    def exported(*_, **__):
        raise ImportError("No module named 'onnxscript._framework_apis.torch_9_0'")

    monkeypatch.setattr(torch.export, "export", exported)
    words = r"do not fit \(No module named .*torch_9_0'\): pip install onnx 'onnxscript>=0.6' onnxruntime$"
    with pytest.raises(InputError, match=words):
        exporting.content_of("encode", Encode(library.load(model_folder)), (torch.zeros(2, 3, 8, 8),), False, "onnx")


def test_the_graph_has_names_of_axes_and_no_traces():
    """As exporters call axes, and a graph that needs no library."""

    def part(*sizes):
        dims = [SimpleNamespace(dim_param=size if isinstance(size, str) else "") for size in sizes]
        cleared = list[str]()
        kind = SimpleNamespace(tensor_type=SimpleNamespace(shape=SimpleNamespace(dim=dims)))
        return SimpleNamespace(type=kind, dims=dims, cleared=cleared, ClearField=cleared.append)

    x, a, inner, node, graph = part("s77", 16, "s53"), part("s77", 4, "s53"), part("s77", "u0"), part(), part()
    graph.__dict__.update(input=[x], output=[a], value_info=[inner], node=[node], initializer=[])
    exporting._tidy(graph)
    assert [dim.dim_param for dim in a.dims] == ["batch", "", "channels"]
    assert [dim.dim_param for dim in inner.dims] == ["batch", "u0"]
    assert all(each.cleared == ["metadata_props"] for each in (x, a, inner, node, graph))


def test_the_model_that_is_exported_stays_as_it_is(model_folder):
    method = library.load(model_folder).method
    method.model.train().requires_grad_(True)
    method.precision = precision = lambda: torch.autocast("cpu")
    spectrum = method.model.spectrum
    copied = frozen(method)
    assert method.model.spectrum is spectrum and method.precision is precision and method.model.training
    assert all(parameter.requires_grad for parameter in method.model.parameters())
    assert not copied.model.training and not any(parameter.requires_grad for parameter in copied.model.parameters())
    assert isinstance(copied.model.spectrum, FixedSpectrum) and copied.precision is nullcontext
    for part, same in zip(copied.spectrum(), method.spectrum(), strict=True):
        assert torch.equal(part, same)


@pytest.mark.parametrize("has_maps", [True, False])
def test_a_map_is_exported_where_the_method_has_maps(model_folder, tmp_path, monkeypatch, has_maps):
    monkeypatch.setattr(exporting, "content_of", lambda name, *_: name.encode())
    fitted = library.load(model_folder)
    fitted.method.has_maps = has_maps
    written = exporting.export(fitted, tmp_path, "pt2")
    assert [path.name for path in written] == ["encode.pt2", "decode.pt2", "map.pt2"][: 3 if has_maps else 2]
    assert [path.read_text() for path in written] == [path.stem for path in written]
    x, a = "(batch, 3, 8, 8)", "(batch, 4, 4)"
    takes = {"encode": f"{x} → {a}", "decode": f"{a} → {x}", "map": f"{x}, {x} → (batch, 4, 4)"}
    assert written == {path: f"float32 {takes[path.stem]}" for path in written}


def test_an_export_that_was_cut_off_is_made_again(model_folder, tmp_path, monkeypatch, niso, refused):
    """After each of its files but the last."""
    monkeypatch.setattr(exporting, "content_of", lambda *_: b"")
    real, out = exporting.write_atomically, tmp_path / "out"
    for whole in (1, 2):
        written = list[Path]()

        def full(path, content, written=written, whole=whole):
            if len(written) == whole:
                raise OSError(28, "No space left on device")
            real(path, content)
            written.append(path)

        monkeypatch.setattr(exporting, "write_atomically", full)
        assert "No space left on device" in refused("export", model_folder, "-o", out)
        assert sorted(out.iterdir()) == sorted(written)
    monkeypatch.setattr(exporting, "write_atomically", real)
    assert niso("export", model_folder, "-o", out).status == 0
    assert "holds .pt2 files already" in refused("export", model_folder, "-o", out)


def test_what_programs_take_has_the_axis_of_channels(tmp_path, monkeypatch, niso):
    """Also where the observations have none."""
    monkeypatch.setattr(exporting, "content_of", lambda *_: b"")
    x = np.random.default_rng(0).standard_normal((20, 2, 32)).astype(np.float32)
    few = {"steps": 3, "rank": 4, "batch_size": 4, "evaluation_pairs": 8, "progress": False}
    model = library.fit(x[:, 0], x[:, 1], **few).save(tmp_path / "model")
    status, said, _ = niso("export", model, "-o", tmp_path / "out")
    channels = library.load(model).encode(x[:, 0]).shape[2]
    assert status == 0
    assert f"encode.pt2: float32 (batch, 32, 1) → (batch, 4, {channels})\n" in said


def test_values_too_far_from_zero_for_single_precision_are_refused(model_folder, tmp_path):
    fitted = library.load(model_folder)
    fitted.units = replace(fitted.units, scaling=Scaling((1e8,) * 3, (2.0,) * 3))
    with pytest.raises(InputError, match="train on values less their mean"):
        exporting.export(fitted, tmp_path, "pt2")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(refused, model_folder, tmp_path, monkeypatch):
    assert "--format: unknown value 'onx'; did you mean onnx" in refused("export", model_folder, "--format", "onx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.chdir(tmp_path)
    assert "pip install onnx 'onnxscript>=0.6' onnxruntime" in refused("export", model_folder, "--format", "onnx")
    assert not list(tmp_path.iterdir())
