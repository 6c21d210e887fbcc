"""Which pictures there are in a folder."""

from PIL import Image

from niso.data.pictures import pictures_in
from niso.data.video.posed_folders import frame_folder


def test_hidden_files_and_folders_are_passed_over(tmp_path):
    for name in ("2.png", "10.png", "._2.png", ".thumbnails/2.png", "more/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    shown = [tmp_path / name for name in ("2.png", "10.png", "more/1.png")]
    assert pictures_in(tmp_path) == shown and frame_folder(tmp_path).images == shown[:2]
