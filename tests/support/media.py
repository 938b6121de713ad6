"""Small images and PDFs, made from nothing."""

import struct
import zlib


def png(width: int, height: int, *, noise: bytes = b"", bits: int = 1) -> bytes:
    """A grey image; *noise* goes into a chunk that nobody looks at."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + b"\x55" * ((width * bits + 7) // 8)
    head = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    body = zlib.compress(row * height, 1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + (chunk(b"teSt", noise) if noise else b"")
        + chunk(b"IDAT", body)
        + chunk(b"IEND", b"")
    )


GIF = bytes.fromhex("47494638396103000200800100ffffff00000021f90401000001002c00000000030002000002038c8f05003b")


def gif(width: int, height: int) -> bytes:
    """Enough of one for its head to be read."""
    return GIF[:6] + struct.pack("<HH", width, height) + GIF[10:]


def jpeg(width: int, height: int, *, before: bytes = b"", frame: int = 0xC0) -> bytes:
    """The segments of one, without what could be shown; *before* stands before the frame."""
    head = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\1" * 9
    tables = b"\xff\xc4" + struct.pack(">H", 4) + b"\1\2"
    size = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return head + before + tables + b"\xff\xff" + bytes([frame]) + size + b"\xff\xda" + b"\0\0" + b"data\xff\xd9"


def webp(kind: bytes, width: int, height: int) -> bytes:
    """The head of one of the three kinds."""
    match kind:
        case b"VP8X":
            body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case b"VP8L":
            body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 5
        case _:
            body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 2
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def pdf(*pages: str, trailer: str = "") -> bytes:
    """A PDF of these pages; a line end in a page is one in its text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[str] = []
    for text in pages:
        shown = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n") if line)
        content = f"BT /F1 12 Tf 72 720 Td {shown}ET"
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {len(objects)} 0 R >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    written = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer}>>\n"
    return written + f"{end}startxref\n{len(written)}\n%%EOF\n".encode()
