"""The readers of files that others wrote, and small sound files of every format, which `tools.fuzz` damages.

The program makes all files itself.
"""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from tools import mutations
from tools.mutations import Mutation


class Target(NamedTuple):
    """A reader.

    Attributes:
        write: makes sound files in a folder, and gives those that are to be damaged, one of them at a time.
        read: what the project does with the folder. Reasons that it returns, instead of raising them, are given back.
        mutate: how a file is damaged.
    """

    write: Callable[[Path], list[Path]]
    read: Callable[[Path], Iterable[str]]
    mutate: Mutation


def _read_mesh(suffix: str) -> Callable[[Path], Iterable[str]]:
    def read(folder: Path) -> Iterable[str]:
        from niso.geometry.mesh.files import read_mesh
        from niso.geometry.mesh.surface import check

        path = folder / f"mesh{suffix}"
        check(read_mesh(path), path.name)
        return ()

    return read


def _write_off(folder: Path) -> list[Path]:
    from niso.geometry.mesh.files import write_off
    from niso.geometry.mesh.surface import icosphere

    write_off(folder / "mesh.off", icosphere(1))
    return [folder / "mesh.off"]


def _write_obj(folder: Path) -> list[Path]:
    from niso.geometry.mesh.surface import icosphere

    vertices, faces = icosphere(1)
    lines = [*(f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in vertices), "vt 0 0", "vn 0 0 1", "usemtl one"]
    lines += [f"f {a + 1}/1/1 {b + 1}//1 {c - len(vertices)}" for a, b, c in faces]
    (folder / "mesh.obj").write_text("\n".join(lines) + "\n")
    return [folder / "mesh.obj"]


def _write_ply(kind: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        from niso.geometry.mesh.surface import icosphere

        vertices, faces = icosphere(1)
        coordinates = "".join(f"property float {axis}\n" for axis in "xyz")
        head = (
            f"ply\nformat {kind} 1.0\ncomment made here\nelement vertex {len(vertices)}\n{coordinates}"
            f"property uchar red\nelement face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
        )
        if kind == "ascii":
            body = "".join(f"{x} {y} {z} 255\n" for x, y, z in vertices)
            content = (head + body + "".join(f"3 {a} {b} {c}\n" for a, b, c in faces)).encode()
        else:
            order = "<" if kind == "binary_little_endian" else ">"
            rows = [struct.pack(f"{order}fffB", *vertex, 255) for vertex in vertices]
            content = head.encode() + b"".join([*rows, *(struct.pack(f"{order}Biii", 3, *face) for face in faces)])
        (folder / "mesh.ply").write_bytes(content)
        return [folder / "mesh.ply"]

    return write


def _write_idx(folder: Path) -> list[Path]:
    from niso.data.digits.mnist import FILES

    paths, pixels = [], np.random.default_rng(0)
    for name in FILES:
        images = "images" in name
        shape = (6, 28, 28) if images else (6,)
        values = pixels.integers(0, 256 if images else 10, shape, dtype=np.uint8)
        content = bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes() + values.tobytes()
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    return paths


def _write_zipped_idx(folder: Path) -> list[Path]:
    paths = []
    for path in _write_idx(folder):
        paths.append(path.with_name(f"{path.name}.gz"))
        paths[-1].write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return paths


def _read_idx(folder: Path) -> Iterable[str]:
    from niso.data.digits.mnist import mnist

    mnist(folder)
    return ()


def _test_set() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    return {
        "img_data": chance.integers(0, 256, (64, 8, 8), dtype=np.uint8),
        "labels": np.repeat(chance.integers(0, 10, 2), 32)[:, None].astype(np.float64),
        "hom_matrices": chance.standard_normal((64, 3, 3)),
    }


def _write_mat(compress: bool) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        from scipy.io import savemat

        savemat(folder / "test.mat", _test_set(), do_compression=compress)
        return [folder / "test.mat"]

    return write


def _write_hdf5(folder: Path) -> list[Path]:
    import h5py

    with h5py.File(folder / "test.mat", "w") as file:
        for name, values in _test_set().items():
            file.create_dataset(name, data=values.transpose(), compression="gzip")
    return [folder / "test.mat"]


def _read_mat(folder: Path) -> Iterable[str]:
    from niso.data.digits.homnist import PublishedTestSet

    for _ in PublishedTestSet(folder / "test.mat").batches(40):
        pass
    return ()


def _write_co3d(folder: Path) -> list[Path]:
    from niso.data.video.co3d import FRAMES, SEQUENCES

    view = {"R": np.eye(3).tolist(), "T": [0.0, 0.0, 1.0], "focal_length": [2.0, 2.0], "principal_point": [0.0, 0.0]}
    frames = [
        {
            "sequence_name": name,
            "frame_number": number,
            "image": {"path": f"cup/{name}/images/{number}.jpg", "size": [30, 40]},
            "viewpoint": {**view, "intrinsics_format": "ndc_isotropic"},
        }
        for name in ("1_2", "3_4")
        for number in range(3)
    ]
    sequences = [
        {"sequence_name": name, "viewpoint_quality_score": score} for name, score in (("1_2", 1.5), ("3_4", 0))
    ]
    (folder / "cup").mkdir()
    paths = [folder / "cup" / FRAMES, folder / "cup" / SEQUENCES]
    for path, content in zip(paths, (frames, sequences), strict=True):
        path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return paths


def _read_co3d(folder: Path) -> Iterable[str]:
    from niso.data.video.co3d import select, sequences
    from niso.data.video.sequences import Refused

    selection = select(folder, quality=1.0)
    found = [entry for entry in sequences(folder, selection) if isinstance(entry, Refused)]
    select(folder, quality=0.5)
    return [*(entry.reason for entry in found), *selection.left_out.values()]


def _write_transforms(folder: Path) -> list[Path]:
    turn = [[0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
    frames = [{"file_path": f"images/{number}.png", "transform_matrix": turn} for number in range(4)]
    camera = {"camera_model": "OPENCV", "fl_x": 50.0, "fl_y": 50.0, "cx": 20.0, "cy": 15.0, "w": 40, "h": 30, "k1": 0.0}
    (folder / "transforms.json").write_text(json.dumps({**camera, "frames": frames}, indent=1))
    _write_frames(folder / "images")
    return [folder / "transforms.json"]


def _write_frames(folder: Path) -> None:
    from PIL import Image

    folder.mkdir()
    for number in range(4):
        Image.new("RGB", (40, 30)).save(folder / f"{number}.png")


def _read_transforms(folder: Path) -> Iterable[str]:
    from niso.data.video.posed_folders import nerfstudio

    return nerfstudio(folder).problems.values()


def _write_colmap(folder: Path) -> list[Path]:
    (folder / "cameras.txt").write_text("# cameras\n1 PINHOLE 40 30 50 50 20 15\n")
    rows = (f"{number} 1 0 0 0 0.1 0 {number} 1 {number}.png\n0 0 -1\n" for number in range(4))
    (folder / "images.txt").write_text("# images\n" + "".join(rows))
    _write_frames(folder / "images")
    return [folder / "cameras.txt", folder / "images.txt"]


def _read_colmap(folder: Path) -> Iterable[str]:
    from niso.data.video.posed_folders import colmap

    return colmap(folder, folder / "images").problems.values()


def _write_settings(folder: Path) -> list[Path]:
    from niso.config import to_yaml
    from niso.experiments import EXPERIMENTS
    from niso.experiments.settings import Settings

    for name in ("torus", "pose"):
        (folder / name).mkdir()
        settings = Settings(name, "quick", EXPERIMENTS.find(name).presets["quick"])
        (folder / name / "config.yaml").write_text(to_yaml(settings.dump()))
    return [folder / name / "config.yaml" for name in ("torus", "pose")]


def _read_settings(folder: Path) -> Iterable[str]:
    from niso.experiments.settings import Settings
    from niso.training.run import Run

    for name in ("torus", "pose"):
        Settings.of(Run.open(folder / name))
    return ()


def _write_checkpoint(folder: Path) -> list[Path]:
    from niso.training import checkpoint

    tensors = {f"model.{name}": value for name, value in torch.nn.Linear(4, 3).state_dict().items()}
    facts = {"step": 3, "seconds": 0.5, "determining": {}, "row": {}}
    checkpoint.save(folder / "pretrain.safetensors", tensors, facts)
    return [folder / "pretrain.safetensors"]


def _read_checkpoint(folder: Path) -> Iterable[str]:
    from niso.config import Optimisation
    from niso.training import checkpoint

    checkpoint.open_phase(folder / "pretrain.safetensors", torch.nn.Linear(4, 3), Optimisation(steps=5))
    return ()


def _write_video(suffix: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        import av

        with av.open(str(folder / f"clip{suffix}"), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
            for number in range(12):
                pixels = np.full((32, 48, 3), 20 * number, np.uint8)
                pixels[number : number + 8, 8:16] = (255, 0, 0)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
            container.mux(stream.encode())
        return [folder / f"clip{suffix}"]

    return write


def _read_video(suffix: str) -> Callable[[Path], Iterable[str]]:
    def read(folder: Path) -> Iterable[str]:
        from niso.data.video.files import count_frames, read_video

        count_frames(folder / f"clip{suffix}")
        for time, _ in read_video(folder / f"clip{suffix}"):
            assert math.isfinite(time)
        return ()

    return read


def _pairs() -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).integers(256, size=(20, 6, 6), dtype=np.uint8)
    return {"x": x, "tx": x[:, ::-1].copy(), "label": np.arange(20) % 2, "group": np.arange(20) // 4}


def _write_npz(compressed: bool) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (np.savez_compressed if compressed else np.savez)(folder / "pairs.npz", **_pairs())
        return [folder / "pairs.npz"]

    return write


def _write_npy(folder: Path) -> list[Path]:
    (folder / "pairs").mkdir()
    for name, values in _pairs().items():
        np.save(folder / "pairs" / f"{name}.npy", values)
    return [folder / "pairs" / "tx.npy", folder / "pairs" / "label.npy"]


def _write_tensors(folder: Path) -> list[Path]:
    from safetensors.numpy import save_file

    save_file(_pairs(), folder / "pairs.safetensors")
    return [folder / "pairs.safetensors"]


def _read_pairs(name: str) -> Callable[[Path], Iterable[str]]:
    def read(folder: Path) -> Iterable[str]:
        from niso.data.pairs.find import find_reader
        from niso.data.pairs.reading import Reading

        path = folder / name
        table = find_reader(path, Reading()).read(path, Reading(), 8)
        for view in table.views.values():
            assert len(view) == len(table) and np.isfinite(view).all()
        return ()

    return read


TARGETS = {
    "off": Target(_write_off, _read_mesh(".off"), mutations.text),
    "obj": Target(_write_obj, _read_mesh(".obj"), mutations.text),
    "ply": Target(_write_ply("ascii"), _read_mesh(".ply"), mutations.text),
    "ply, little-endian": Target(_write_ply("binary_little_endian"), _read_mesh(".ply"), mutations.any_bytes),
    "ply, big-endian": Target(_write_ply("binary_big_endian"), _read_mesh(".ply"), mutations.text),
    "idx": Target(_write_idx, _read_idx, mutations.any_bytes),
    "idx.gz": Target(_write_zipped_idx, _read_idx, mutations.zipped(mutations.any_bytes)),
    "mat": Target(_write_mat(False), _read_mat, mutations.any_bytes),
    "mat, compressed": Target(_write_mat(True), _read_mat, mutations.any_bytes),
    "mat, HDF5": Target(_write_hdf5, _read_mat, mutations.any_bytes),
    "jgz": Target(_write_co3d, _read_co3d, mutations.zipped(mutations.json_nodes)),
    "transforms.json": Target(_write_transforms, _read_transforms, mutations.json_nodes),
    "COLMAP": Target(_write_colmap, _read_colmap, mutations.text),
    "config.yaml": Target(_write_settings, _read_settings, mutations.yaml_nodes),
    "safetensors": Target(_write_checkpoint, _read_checkpoint, mutations.safetensors),
    "npz": Target(_write_npz(False), _read_pairs("pairs.npz"), mutations.any_bytes),
    "npz, compressed": Target(_write_npz(True), _read_pairs("pairs.npz"), mutations.any_bytes),
    "npy": Target(_write_npy, _read_pairs("pairs"), mutations.any_bytes),
    "safetensors of pairs": Target(_write_tensors, _read_pairs("pairs.safetensors"), mutations.safetensors),
    "mp4": Target(_write_video(".mp4"), _read_video(".mp4"), mutations.any_bytes),
    "mkv": Target(_write_video(".mkv"), _read_video(".mkv"), mutations.any_bytes),
}
