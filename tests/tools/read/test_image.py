"""Images that are read."""

import base64
import importlib
import importlib.util
import os
import sys
from pathlib import Path

import pytest
import trio

from engine.core.errors import ToolError
from engine.core.messages import ImagePart
from engine.files.read_state import digest, last_read
from engine.tools.builtin.read import Read, read
from engine.tools.call_values import ToolOutput
from engine.tools.read.image import MAX_IMAGE_BYTES, Picture, picture_of
from engine.tools.tool_context import ToolContext
from tests.support.media import GIF, gif, jpeg, png, webp

needs_pillow = pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="pillow is not installed")


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it not be found, as Python itself provides for."""
    monkeypatch.setitem(sys.modules, "PIL", None)


async def run(ctx: ToolContext, path: str) -> ToolOutput:
    return await read(Read(path), ctx)


# ---- what an image is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (png(30, 20), Picture("image/png", 30, 20)),
        (gif(70, 50), Picture("image/gif", 70, 50)),
        (b"GIF87a" + GIF[6:], Picture("image/gif", 3, 2)),
        (jpeg(640, 480), Picture("image/jpeg", 640, 480)),
        (jpeg(640, 480, frame=0xC2), Picture("image/jpeg", 640, 480)),
        (jpeg(9, 8, before=b"\xff\xe1\xff\xff" + b"x" * 65_533), Picture("image/jpeg", 9, 8)),
        (jpeg(9, 8, before=b"\xff\xd0\xff\x01"), Picture("image/jpeg", 9, 8)),
        (webp(b"VP8X", 1_000, 16_000), Picture("image/webp", 1_000, 16_000)),
        (webp(b"VP8L", 1_000, 16_000), Picture("image/webp", 1_000, 16_000)),
        (webp(b"VP8 ", 1_000, 16_000), Picture("image/webp", 1_000, 16_000)),
        (b"BM" + b"\0" * 60, None),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg/>", None),
        (b"", None),
    ],
    ids=range(14),
)
def test_image_is_recognised_by_its_header(data: bytes, picture: Picture | None) -> None:
    assert picture_of(data) == picture


WHOLE = {
    "png": png(30, 20),
    "gif": GIF,
    "jpeg": jpeg(640, 480),
    "webp-x": webp(b"VP8X", 10, 10),
    "webp-l": webp(b"VP8L", 10, 10),
    "webp": webp(b"VP8 ", 10, 10),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_image_that_ends_too_early_is_damaged(name: str) -> None:
    data = WHOLE[name]
    for length in range(12, len(data) - 12):
        picture = picture_of(data[:length])
        assert picture is not None
        assert 0 in {picture.width, picture.height}, length


@pytest.mark.parametrize("name", WHOLE)
def test_no_bytes_are_too_odd(name: str) -> None:
    data = WHOLE[name]
    for at in range(4, min(len(data), 60)):
        for value in (0x00, 0x7F, 0xFF):
            picture_of(data[:at] + bytes([value]) + data[at + 1 :])


# ---- reading one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [png(30, 20), GIF, jpeg(640, 480), webp(b"VP8L", 10, 10)], ids=range(4))
async def test_image_is_attached_under_any_name(ctx: ToolContext, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "notes.txt").write_bytes(data)
    output = await run(ctx, "notes.txt")
    picture = picture_of(data)
    assert picture is not None
    assert output.images == (ImagePart(media_type=picture.media_type, data=base64.b64encode(data).decode()),)
    assert output.text == f"(notes.txt is a {picture} in {len(data):,} bytes, attached)"
    assert output.modify is not None
    assert last_read(output.modify(ctx.shared), tmp_path / "notes.txt") == digest(data)


def test_how_an_image_is_called() -> None:
    assert str(Picture("image/png", 1_920, 1_080)) == "PNG image of 1,920 × 1,080 pixels"


@pytest.mark.parametrize(
    "data", [png(30, 20)[:40], b"GIF89a", jpeg(0, 0), b"\xff\xd8\xff\xd9" + b"\0" * 50], ids=range(4)
)
async def test_a_damaged_image_is_refused(ctx: ToolContext, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ToolError) as raised:
        await run(ctx, "a.png")
    assert str(raised.value) == "a.png begins like an image, but is damaged: no model could look at it."


async def test_too_large_image(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(30, 20))
    os.truncate(tmp_path / "a.png", 60_000_000)
    with pytest.raises(ToolError, match="is an image of 60,000,000 bytes, which is too large to be looked at"):
        await run(ctx, "a.png")


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize("data", [png(2_001, 20), png(8_000, 8)], ids=["large", "at the limit"])
async def test_acceptable_large_image_is_attached_unchanged(ctx: ToolContext, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.png").write_bytes(data)
    assert (await run(ctx, "a.png")).images[0].data == base64.b64encode(data).decode()


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize("data", [png(8_001, 20), png(30, 20, noise=bytes(MAX_IMAGE_BYTES))], ids=["sides", "bytes"])
async def test_a_too_large_image_is_refused_with_advice(ctx: ToolContext, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ToolError, match=r"too large to be looked at\. At most 8,000 .* 3,932,160 bytes .* 'images'"):
        await run(ctx, "a.png")


# ---- smaller ones ----------------------------------------------------------------------------------------------------


def attached(output: ToolOutput) -> tuple[Picture | None, int]:
    (image,) = output.images
    data = base64.b64decode(image.data)
    return picture_of(data), len(data)


@needs_pillow
@pytest.mark.os
@pytest.mark.parametrize(
    ("data", "media_type", "width", "height"),
    [
        (png(4_000, 1_000), "image/png", 2_000, 500),
        (png(9_000, 3), "image/png", 2_000, 1),
        (png(30, 20, noise=bytes(MAX_IMAGE_BYTES)), "image/png", 30, 20),
    ],
    ids=["wide", "a line", "bytes"],
)
async def test_a_large_image_is_scaled_down(
    ctx: ToolContext, tmp_path: Path, data: bytes, media_type: str, width: int, height: int
) -> None:
    (tmp_path / "a.png").write_bytes(data)
    output = await run(ctx, "a.png")
    picture, size = attached(output)
    assert picture == Picture(media_type, width, height)
    assert size <= MAX_IMAGE_BYTES
    assert output.text.endswith(f"; attached is a smaller {picture})")
    assert output.modify is not None


@needs_pillow
@pytest.mark.os
async def test_photos_are_turned_and_scaled_and_stay_photos(ctx: ToolContext, tmp_path: Path) -> None:
    pillow = importlib.import_module("PIL.Image")
    photo = pillow.frombytes("RGB", (3_000, 1_500), os.urandom(3_000 * 1_500 * 3))
    exif = pillow.Exif()
    exif[0x0112] = 6  # the camera was held upright
    photo.save(tmp_path / "a.jpg", "JPEG", quality=95, exif=exif)
    picture, size = attached(await run(ctx, "a.jpg"))
    assert picture == Picture("image/jpeg", 1_000, 2_000)
    assert size <= MAX_IMAGE_BYTES


@needs_pillow
@pytest.mark.os
async def test_incompressible_image_is_still_reduced(ctx: ToolContext, tmp_path: Path) -> None:
    pillow = importlib.import_module("PIL.Image")
    pillow.frombytes("RGBA", (1_900, 1_900), os.urandom(1_900 * 1_900 * 4)).save(tmp_path / "a.png")
    picture, size = attached(await run(ctx, "a.png"))
    assert picture is not None
    assert picture.width == picture.height > 1_000
    assert size <= MAX_IMAGE_BYTES


@needs_pillow
@pytest.mark.os
async def test_unscalable_image_is_refused(ctx: ToolContext, tmp_path: Path) -> None:
    head, rest = png(9_000, 3)[:33], png(9_000, 3)[33:]
    cases = {
        "bomb.png": (png(30_000, 30_000), "it has more than 80,000,000 pixels"),
        "torn.png": (head + b"\0" * 20 + rest[30:], r"\w+"),
        "hollow.jpg": (jpeg(9_000, 9_000), r"\w+"),
    }
    for name, (data, why) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(
            ToolError, match=rf"{name} is a .* too large to be looked at, and it could not be scaled down: {why}"
        ):
            await run(ctx, name)


@needs_pillow
@pytest.mark.os
async def test_cancelled_while_it_is_scaled(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(8_000, 8_000))
    with trio.move_on_after(0.15) as scope:
        await run(ctx, "a.png")
    assert scope.cancelled_caught
