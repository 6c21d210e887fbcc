"""Short words for content."""

from __future__ import annotations

from pathlib import Path

from niso.files.digests import PIECE, digest, digest_of_files


def test_a_digest_tells_where_parts_end() -> None:
    assert digest(b"ab", b"c") == digest(b"ab", b"c") != digest(b"a", b"bc")


def test_a_word_for_files_changes_with_what_they_hold(tmp_path: Path) -> None:
    files = [tmp_path / "small", tmp_path / "large"]
    files[0].write_bytes(b"abc")
    files[1].write_bytes(bytes(5 * PIECE))
    word = digest_of_files(files, tmp_path)
    assert len(word) == 32 and word == digest_of_files(files)
    for file, place in [(files[0], 1), *((files[1], place) for place in (0, 5 * PIECE // 2, 5 * PIECE - 1))]:
        kept = file.read_bytes()
        file.write_bytes(kept[:place] + b"x" + kept[place + 1 :])
        changed = digest_of_files(files)
        assert changed != word and changed[:16] == word[:16]  # which is of names and sizes
        file.write_bytes(kept)
    assert digest_of_files(files) == word
    files[0].write_bytes(b"abcd")
    assert digest_of_files(files)[:16] != word[:16]
    assert digest_of_files(files[:1])[16:] != digest_of_files([files[0].rename(tmp_path / "other")])[:16]
