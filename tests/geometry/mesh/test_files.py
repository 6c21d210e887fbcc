import struct

import numpy as np
import pytest

from niso.errors import InputError
from niso.geometry.mesh.files import read_mesh
from niso.geometry.mesh.surface import Mesh, check, face_areas, icosphere

SPHERE = icosphere(1)
COUNT, FACES = len(SPHERE.vertices), len(SPHERE.faces)
SOUP = Mesh(SPHERE.vertices[SPHERE.faces].reshape(-1, 3), np.arange(3 * FACES).reshape(-1, 3))


def rows(values, first: str = "", offset: int = 0, after: str = "") -> str:
    return "".join(first + " ".join(repr(v + offset) for v in row) + after + "\n" for row in values.tolist())


def off(mesh: Mesh = SPHERE) -> str:
    head = f"OFF\n# a comment\n\n{len(mesh.vertices)} {FACES} 0\n"
    return f"{head}{rows(mesh.vertices)}{rows(mesh.faces, '3 ', after=' 255 0 0')}"


def obj(mesh: Mesh = SPHERE) -> str:
    corners = "".join("f " + " ".join(f"{v + 1}/7/{v + 1}" for v in face) + "\n" for face in mesh.faces.tolist())
    return f"# a comment\no thing\n{rows(mesh.vertices, 'v ')}vn 0 0 1\n{corners}"


def ply_header(kind: str, coordinate: str = "double", extra: str = "") -> str:
    axes = "".join(f"property {coordinate} {axis}\n" for axis in "xyz")
    return (
        f"ply\nformat {kind} 1.0\ncomment made by hand, up to end_header\nelement vertex {COUNT}\n{axes}{extra}"
        f"element face {FACES}\nproperty list uchar int vertex_indices\nend_header\n"
    )


def ply_text() -> str:
    header = ply_header("ascii", extra="property uchar red\n")
    return header + rows(SPHERE.vertices, after=" 255") + rows(SPHERE.faces, "3 ")


def ply_binary(order: str) -> bytes:
    vertices = np.zeros(COUNT, dtype=[("at", order + "f8", 3), ("red", "u1")])
    vertices["at"] = SPHERE.vertices
    faces = np.zeros(FACES, dtype=[("count", "u1"), ("corners", order + "i4", 3)])
    faces["count"], faces["corners"] = 3, SPHERE.faces
    header = ply_header({"<": "binary_little_endian", ">": "binary_big_endian"}[order], extra="property uchar red\n")
    return header.encode() + vertices.tobytes() + faces.tobytes()


def stl_text(mesh: Mesh = SPHERE) -> str:
    """Coordinates of 0 have either sign, as programs write them."""
    lines = ["solid thing # 1"]
    for number, face in enumerate(mesh.faces.tolist()):
        corners = [" ".join(repr(x or (-1) ** number * 0.0) for x in mesh.vertices[v].tolist()) for v in face]
        lines += ["facet normal 0 0 1", "outer loop", *(f"  vertex {at}" for at in corners), "endloop", "endfacet"]
    return "\n".join([*lines, "endsolid thing", ""])


def stl_binary(header: bytes = bytes(80), mesh: Mesh = SPHERE) -> bytes:
    corners = mesh.vertices[mesh.faces].reshape(-1, 9).tolist()
    return header + struct.pack("<I", len(corners)) + b"".join(struct.pack("<12fH", 0, 0, 1, *at, 7) for at in corners)


FILES = {
    "a.off": off(),
    "header-on-one-line.OFF": off().replace("OFF\n# a comment\n\n", "OFF "),
    "on-one-line.off": f"OFF {COUNT} {FACES} 0 {rows(SPHERE.vertices)}{rows(SPHERE.faces, '3 ')}".replace("\n", " "),
    "a-word-a-line.off": f"OFF\n{COUNT} {FACES} 0\n"
    + f"{rows(SPHERE.vertices)}{rows(SPHERE.faces, '3 ')}".replace(" ", "\n"),
    "windows.off": off().replace("\n", "\r\n"),
    "a.obj": obj(),
    "text.ply": ply_text(),
    "little.ply": ply_binary("<"),
    "big.ply": ply_binary(">"),
    "soup.off": off(SOUP),
    "soup.obj": obj(SOUP),
    "text.stl": stl_text(),
    "upper-case.STL": stl_text().upper(),
    "windows.stl": stl_text().replace("\n", "\r\n"),
    "binary.stl": stl_binary(),
    "solid.stl": stl_binary(b"solid from a program".ljust(80)),
}


def written(folder, name: str, content: str | bytes):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def expected(name: str) -> Mesh:
    """The sphere; of soups with vertices in the order of the faces' corners, in binary STL of single precision."""
    if not name.lower().endswith("stl") and "soup" not in name:
        return SPHERE
    order = list(dict.fromkeys(SPHERE.faces.ravel().tolist()))
    kind = np.float64 if isinstance(FILES[name], str) else np.float32
    return Mesh(SPHERE.vertices[order].astype(kind), np.argsort(order)[SPHERE.faces])


@pytest.mark.parametrize("name", FILES)
def test_read_mesh(tmp_path, name):
    mesh = read_mesh(written(tmp_path, name, FILES[name]))
    np.testing.assert_array_equal(mesh.vertices, expected(name).vertices)
    np.testing.assert_array_equal(mesh.faces, expected(name).faces)
    assert (mesh.vertices.dtype, mesh.faces.dtype) == (np.float64, np.int64)


@pytest.mark.parametrize("name", FILES)
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, name):
    content = FILES[name].removeprefix("# a comment\no thing\n") if name == "a.obj" else FILES[name]
    marked = b"\xef\xbb\xbf" + (content if isinstance(content, bytes) else content.encode())
    np.testing.assert_array_equal(read_mesh(written(tmp_path, name, marked)).vertices, expected(name).vertices)


def test_obj_counts_back_from_the_last_vertex(tmp_path):
    lines = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 0 0 1\nf 1 2 -1\n"
    np.testing.assert_array_equal(read_mesh(written(tmp_path, "a.obj", lines)).faces, [[0, 1, 2], [0, 1, 3]])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_obj_are_continued(tmp_path, end):
    lines = end.join(["v 0 0 0", "v 1 \\", " 0 0", "v 0 1 0", "f 1 2\\", "3", ""])
    mesh = read_mesh(written(tmp_path, "a.obj", lines))
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2]])
    np.testing.assert_array_equal(mesh.vertices[1], [1, 0, 0])
    noted = end.join(["v 0 0 0", "v 1 0 0", "v 0 1 0 # C:\\tool\\", "f 1 2 3", ""])
    np.testing.assert_array_equal(read_mesh(written(tmp_path, "b.obj", noted)).faces, [[0, 1, 2]])


@pytest.mark.parametrize("kind", ["normals", "texture", "materials"])
def test_seams_do_not_tear_a_surface_apart(tmp_path, kind):
    """Every corner has its own normal or place in the texture, every other face its own material."""
    corner = {"normals": "{}//{}", "texture": "{}/{}", "materials": "{}"}[kind]
    lines = [f"v {x} {y} {z}" for x, y, z in SPHERE.vertices.tolist()]
    for number, face in enumerate(SPHERE.faces.tolist()):
        lines += [f"usemtl material{number % 2}"] * (kind == "materials")
        lines += [f"vn {number} 1 0", f"vt 0.{number} 0"]
        lines.append("f " + " ".join(corner.format(v + 1, number + 1) for v in face))
    mesh = read_mesh(written(tmp_path, "a.obj", "\n".join(lines)))
    check(mesh)
    np.testing.assert_array_equal(mesh.vertices, SPHERE.vertices)


PYRAMID = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n0 0 1\n"
TRIANGLES = [[0, 1, 2], [0, 2, 3], [0, 1, 4]]


@pytest.mark.parametrize("kind", ["off", "obj", "ply", "binary"])
def test_polygons_become_fans_of_triangles(tmp_path, kind):
    header = (
        "ply\nformat {} 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 2\nproperty list uchar uint vertex_index\nend_header\n"
    )
    points = np.array([line.split() for line in PYRAMID.splitlines()], dtype="<f4")
    lists = b"".join(bytes([len(face)]) + np.array(face, "<u4").tobytes() for face in ([0, 1, 2, 3], [0, 1, 4]))
    content = {
        "off": f"OFF\n5 2 0\n{PYRAMID}4 0 1 2 3\n3 0 1 4\n",
        "obj": "".join(f"v {line}\n" for line in PYRAMID.splitlines()) + "f 1 2 3 4\nf 1 2 5\n",
        "ply": f"{header.format('ascii')}{PYRAMID}4 0 1 2 3\n3 0 1 4\n",
        "binary": header.format("binary_little_endian").encode() + points.tobytes() + lists,
    }[kind]
    mesh = read_mesh(written(tmp_path, f"a.{'ply' if kind == 'binary' else kind}", content))
    np.testing.assert_array_equal(mesh.faces, TRIANGLES)
    np.testing.assert_array_equal(mesh.vertices, points)


def prism(outline, height=1.0):
    """An OFF file of a prism over a polygon, whose caps have all its corners."""
    count = len(outline)
    points = [(x, y, z) for z in (0.0, height) for x, y in outline]
    sides = [(k, (k + 1) % count, count + (k + 1) % count, count + k) for k in range(count)]
    faces = [tuple(reversed(range(count))), tuple(range(count, 2 * count)), *sides]
    lines = [" ".join(map(str, row)) for row in (*points, *((len(face), *face) for face in faces))]
    return "\n".join([f"OFF\n{len(points)} {len(faces)} 0", *lines, ""])


L = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]


@pytest.mark.parametrize("first", range(6))
def test_concave_polygons_do_not_fold_over(tmp_path, first):
    """From four of its corners the fan of an L folds over."""
    mesh = read_mesh(written(tmp_path, "a.off", prism(L[first:] + L[:first])))
    check(mesh)
    assert face_areas(mesh).sum() == pytest.approx(2 * 3 + 8)


@pytest.mark.parametrize("reflex", range(4))
def test_concave_quads_do_not_fold_over(tmp_path, reflex):
    dart = [(0, 0), (3, -1), (1, 0), (3, 1)]
    outline = dart[2 - reflex :] + dart[: 2 - reflex]
    mesh = read_mesh(written(tmp_path, "a.off", prism(outline)))
    check(mesh)
    assert face_areas(mesh).sum() == pytest.approx(2 * 1 + 2 * (10**0.5 + 5**0.5))


def test_a_polygon_that_no_fan_fills_is_refused(tmp_path):
    comb = [(0, 0), (5, 0), (5, 2), (4, 2), (4, 1), (3, 1), (3, 2), (2, 2), (2, 1), (1, 1), (1, 2), (0, 2)]
    with pytest.raises(InputError, match=r"a\.off has concave polygons that are no fans of triangles: triangulate it"):
        read_mesh(written(tmp_path, "a.off", prism(comb)))


def test_corners_on_a_line_and_of_no_vertex_are_left_as_they_are(tmp_path):
    """To a few digits, the third corner lies inside or outside of the edge that it is on."""
    for nudge in (-1e-6, 1e-6):
        outline = [(0, 0), (1, 0), (2, nudge), (3, 0), (3, 3), (0, 3)]
        mesh = read_mesh(written(tmp_path, "a.off", prism(outline)))
        assert mesh.faces[4:8].tolist() == [[6, 7, 8], [6, 8, 9], [6, 9, 10], [6, 10, 11]]
    mesh = read_mesh(written(tmp_path, "a.off", f"OFF\n5 1 0\n{PYRAMID}4 0 1 2 9\n"))
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 9]]


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("obj")])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_files_are_refused(tmp_path, name, share):
    content = FILES[name] if isinstance(FILES[name], bytes) else FILES[name].encode()
    with pytest.raises(InputError, match=r"is truncated: .*; copy or download it again|is damaged: "):
        read_mesh(written(tmp_path, name, content[: int(share * len(content))]))


def test_an_stl_file_is_refused_wherever_it_ends(tmp_path):
    for whole in (stl_binary(), stl_text().removesuffix(" thing\n").encode()):
        for end in range(0, len(whole), len(whole) // 150):
            with pytest.raises(InputError, match=r"is truncated: .*; copy or download it again|is damaged: "):
                read_mesh(written(tmp_path, "a.stl", whole[:end]))


def test_vertices_of_faces_that_share_some_are_not_merged(tmp_path):
    """Equal coordinates may belong to two sides of a slit."""
    lines = off(Mesh(np.concatenate((SOUP.vertices[:3], SPHERE.vertices)), np.append([[0, 1, 2]], SPHERE.faces + 3, 0)))
    mesh = read_mesh(written(tmp_path, "a.off", lines.replace(f" {FACES} 0", f" {FACES + 1} 0")))
    assert len(mesh.vertices) == COUNT + 3


def test_only_equal_corners_of_stl_are_one_vertex(tmp_path):
    (a, b, c), *others = SPHERE.faces.tolist()
    near = np.concatenate((SPHERE.vertices, SPHERE.vertices[[a]] * (1 + 1e-12)))
    torn, sliver = [[COUNT, b, c], *others], [[a, b, COUNT], *SPHERE.faces.tolist()]
    mesh = read_mesh(written(tmp_path, "text.stl", stl_text(Mesh(near, np.array(torn)))))
    assert len(mesh.vertices) == COUNT + 1
    with pytest.raises(InputError, match="is open: it has 4 boundary edges; merge duplicate vertices"):
        check(mesh)
    check(read_mesh(written(tmp_path, "binary.stl", stl_binary(mesh=Mesh(near, np.array(torn))))))
    with pytest.raises(InputError, match="has 1 degenerate face of no area"):  # whose corners are equal in single
        check(read_mesh(written(tmp_path, "sliver.stl", stl_binary(mesh=Mesh(near, np.array(sliver))))))


BROKEN = {
    "a.off": [
        ("", "does not begin with OFF"),
        ("OFF BINARY\n", "does not begin with OFF"),
        ("4OFF\n3 1 0\n", "its points have four coordinates"),
        ("OFF\n", "is truncated: it has no counts"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1\n3 0 1 2\n", "a vertex has fewer than three coordinates"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1\n", "a face has fewer corners than announced"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "is damaged: a face has 2 corners"),
        ("OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n3 0 1 2\n", "is damaged: a face has 2 corners"),
        ("OFF\n3 1 0\n0 0 0\n1 0 x\n0 1 0\n3 0 1 2\n", "is damaged: could not convert"),
    ],
    "a.obj": [
        ("v 0 0 0\nv 1 0 0\nf 1 2 3\n", "is truncated: faces have corners up to 3 and 2 vertices are there"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n", "is truncated: a face has 2 corners"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "a corner 0, where corners are counted from 1"),
        ("v 0 0\n", "a vertex has fewer than three coordinates"),
    ],
    "a.ply": [
        ("OFF\n", "does not begin with ply"),
        ("ply\nformat ascii 1.0\n", "its header has no end"),
        ("ply\nend_header\n", "its header names no format"),
        ("ply\nformat morse 1.0\nend_header\n", "its header has a line 'format morse 1.0'"),
        ("ply\nformat ascii 1.0\nend_header\n", "no element vertex"),
        (ply_text().replace("property double z", "property double w"), "no properties x, y, z"),
        (ply_text().replace("vertex_indices", "corners"), "no property vertex_indices"),
    ],
    "a.stl": [
        ("", "is damaged: it does not begin with solid"),
        ("<html>".ljust(100), "does not begin with solid, the header of the text format, and is not binary"),
        (b"\0" * 83, "is truncated: 0 triangles are announced and 0 are there"),
        (stl_text().replace("endsolid thing", ""), "is truncated: it has no endsolid"),
        (stl_text().replace("endloop", "", 1), "is damaged: a facet has no endloop"),
        ("solid\nfacet\nvertex 0 0 0\nvertex 1 0 0\nendloop\nendsolid", "is damaged: a face has 2 corners"),
        ("solid\nfacet\nvertex 0 0 0\nvertex 1 0\nendloop\nendsolid", "a vertex has fewer than three coordinates"),
        ("solid\nfacet\nvertex 0 0 x\nendloop\nendsolid", "is damaged: could not convert"),
    ],
}


@pytest.mark.parametrize(("name", "content", "message"), [(n, *case) for n, cases in BROKEN.items() for case in cases])
def test_damaged_files_are_refused(tmp_path, name, content, message):
    with pytest.raises(InputError) as caught:
        read_mesh(written(tmp_path, name, content))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_cloud_of_points_is_no_damaged_mesh(tmp_path):
    header = "ply\nformat ascii 1.0\nelement vertex 1\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    for name, content in (("a.ply", f"{header}end_header\n0 0 1\n"), ("a.obj", "v 0 0 1\n")):
        with pytest.raises(InputError, match="is a cloud of 1 point without faces: reconstruct its surface first"):
            check(read_mesh(written(tmp_path, name, content)))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.glb is not a mesh that can be read: choose from .*, \.stl$"):
        read_mesh(tmp_path / "a.glb")
    with pytest.raises(InputError, match=r"a\.off cannot be read: No such file"):
        read_mesh(tmp_path / "a.off")


def test_an_empty_surface_is_read_and_left_to_check(tmp_path):
    mesh = read_mesh(written(tmp_path, "a.off", "OFF\n0 0 0\n"))
    assert mesh.vertices.shape == mesh.faces.shape == (0, 3)
