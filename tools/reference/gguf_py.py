"""A small GGUF version 3 reader and writer for the reference tools: F32 and F16 tensors only.

It trusts its input (our own scripts write it); the checked reader is the C++ one in src/gguf.
"""
import struct

import numpy as np

ALIGNMENT = 32
MAGIC = b"GGUF"
# GGUF value types: name -> (number in the file, struct letter).
SCALARS = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"),
           "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"),
           "f64": (12, "d")}
BY_NUMBER = {number: letter for number, letter in SCALARS.values()}
STRING, ARRAY = 8, 9
TENSOR_TYPES = {0: np.dtype("<f4"), 1: np.dtype("<f2")}


def _pack_string(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _pack_value(kind, value):
    """`kind` is a scalar name, "str", or either in brackets: "[i32]"."""
    if kind == "str":
        return struct.pack("<I", STRING) + _pack_string(value)
    if kind in SCALARS:
        number, letter = SCALARS[kind]
        return struct.pack("<I" + letter, number, value)
    inner = kind.strip("[]")
    if inner == "str":
        body = b"".join(_pack_string(item) for item in value)
        number = STRING
    else:
        number, letter = SCALARS[inner]
        body = struct.pack("<%d%s" % (len(value), letter), *value)
    return struct.pack("<IIQ", ARRAY, number, len(value)) + body


def write_gguf(path, metadata, tensors):
    """metadata: list of (key, kind, value). tensors: list of (name, array), F32 or F16; the array's
    last axis is the contiguous one, so its shape is GGUF's ne reversed."""
    head = [MAGIC, struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, kind, value in metadata:
        head.append(_pack_string(key) + _pack_value(kind, value))
    offset, blobs = 0, []
    for name, array in tensors:
        array = np.ascontiguousarray(array)
        if not np.isfinite(array).all():
            raise ValueError("tensor %s holds non-finite values" % name)
        number = {"float32": 0, "float16": 1}[array.dtype.name]
        shape = array.shape[::-1]
        head.append(_pack_string(name) + struct.pack("<I%dQ" % len(shape), len(shape), *shape))
        head.append(struct.pack("<IQ", number, offset))
        blob = array.tobytes()
        blob += b"\0" * (-len(blob) % ALIGNMENT)
        blobs.append(blob)
        offset += len(blob)
    header = b"".join(head)
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT))
        file.writelines(blobs)


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, letters):
        value = struct.unpack_from("<" + letters, self.data, self.at)
        self.at += struct.calcsize("<" + letters)
        return value if len(value) > 1 else value[0]

    def string(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", errors="surrogateescape")

    def value(self, number):
        if number == STRING:
            return self.string()
        if number != ARRAY:
            return self.take(BY_NUMBER[number])
        inner, count = self.take("IQ")
        if inner == STRING:
            return [self.string() for _ in range(count)]
        values = struct.unpack_from("<%d%s" % (count, BY_NUMBER[inner]), self.data, self.at)
        self.at += struct.calcsize("<%d%s" % (count, BY_NUMBER[inner]))
        return list(values)


def read_gguf(path):
    """Returns (metadata as a dict, tensors as a dict of arrays)."""
    with open(path, "rb") as file:
        cursor = _Cursor(file.read())
    if cursor.data[:4] != MAGIC:
        raise ValueError("%s is not a GGUF file" % path)
    cursor.at = 4
    _, n_tensors, n_keys = cursor.take("IQQ")
    metadata = {}
    for _ in range(n_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.take("I"))
    infos = []
    for _ in range(n_tensors):
        name = cursor.string()
        n_dims = cursor.take("I")
        shape = [cursor.take("Q") for _ in range(n_dims)]
        number, offset = cursor.take("IQ")
        infos.append((name, shape[::-1], TENSOR_TYPES[number], offset))
    base = cursor.at + -cursor.at % metadata.get("general.alignment", ALIGNMENT)
    tensors = {}
    for name, shape, dtype, offset in infos:
        count = int(np.prod(shape))
        tensors[name] = np.frombuffer(cursor.data, dtype, count, base + offset).reshape(shape)
    return metadata, tensors
