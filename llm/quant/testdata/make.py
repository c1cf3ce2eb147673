"""Makes the test vectors in this folder.

    pip install numpy gguf
    python make.py LIBGGML_BASE_SO

decode_TYPE.bin  blocks of random bytes, then the float32 values that gguf.quants.dequantize (NumPy) gives for them
input.f32        1024 float32 values: Gaussian, with zeros, outliers, a constant block and one-sided blocks
encode_TYPE.bin  the bytes that the reference quantizer makes of input.f32: NumPy where the package has one, else
                 quantize_row_TYPE_ref of libggml (llama.cpp's libggml-base.so), whose path is the argument
importance.f32   256 weights; weighted_TYPE.bin the bytes of ggml_quantize_chunk with them for input.f32 as 4 rows of 256
halves.bin       all 65536 halves as float32, then 4096 float32 patterns and the halves and bfloat16s NumPy rounds them to
"""
import ctypes
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

rng = np.random.default_rng(20240917)


def f16(x):
    return np.float16(x).tobytes()


def blocks(t, n=4):
    """Random blocks whose half-precision scales are finite."""
    elems, size = GGML_QUANT_SIZES[t]
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    at = {T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.Q4_1: [0, 2], T.Q5_1: [0, 2]}
    for i in range(n):
        for k in at.get(t, [0]):
            raw[i, k:k + 2] = np.frombuffer(f16(rng.normal() * 10.0 ** rng.integers(-4, 2)), np.uint8)
    return raw


for t in [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS]:
    raw = blocks(t)
    with open(f"decode_{t.name}.bin", "wb") as f:
        f.write(raw.tobytes() + quants.dequantize(raw, t).astype("<f4").tobytes())

x = rng.normal(size=1024).astype(np.float32) * np.float32(0.05)
x[0:32] = 0
x[32:64] = 0.25
x[64:96] = np.abs(x[64:96])
x[96:128] = -np.abs(x[96:128])
x[256:512] *= 1 + 30 * (rng.random(256) < 0.02).astype(np.float32)
x[512:768] += np.float32(0.4)
x.astype("<f4").tofile("input.f32")
for t in [T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]:
    quants.quantize(x.reshape(1, -1), t).tofile(f"encode_{t.name}.bin")
lib = ctypes.CDLL(sys.argv[1])
for t in [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]:
    elems, size = GGML_QUANT_SIZES[t]
    out = np.zeros(len(x) // elems * size, np.uint8)
    getattr(lib, f"quantize_row_{t.name.lower().replace('_k', '_K')}_ref")(
        x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x)))
    out.tofile(f"encode_{t.name}.bin")

bits = rng.integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
bits[:2048] = (bits[:2048] & 0x8FFFFFFF) | 0x38000000  # around the half range, where rounding happens
edge = np.array([0, 0x80000000, 0x33000000, 0x33000001, 0x387FE000, 0x387FFFFF, 0x477FEFFF, 0x477FF000, 0x7F800000,
                 0xFF800000, 0x3F801000, 0x3F803000, 0x7F7FFFFF], np.uint32)
bits[2048:2048 + len(edge)] = edge
bits = np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x3F800000), bits)  # NaN payloads are not compared
v = bits.view(np.float32)
with np.errstate(over="ignore"):
    half = v.astype(np.float16)
with open("halves.bin", "wb") as f:
    f.write(np.arange(65536, dtype=np.uint16).view(np.float16).astype("<f4").tobytes())
    f.write(bits.astype("<u4").tobytes() + half.view(np.uint16).astype("<u2").tobytes())
    f.write(quants.quantize(v, T.BF16).tobytes())

# The same input as 4 rows of 256 with one importance per column, some 0: what ggml_quantize_chunk makes of it.
importance = (rng.normal(size=256) ** 4).astype(np.float32)
importance[17], importance[40:48] = 0, 0
importance.astype("<f4").tofile("importance.f32")
lib.ggml_quantize_chunk.restype = ctypes.c_size_t
for t in [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q4_K, T.Q5_K, T.Q6_K]:
    elems, size = GGML_QUANT_SIZES[t]
    out = np.zeros(len(x) // elems * size, np.uint8)
    lib.ggml_quantize_chunk(ctypes.c_int(t.value), x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                            ctypes.c_int64(4), ctypes.c_int64(256), importance.ctypes.data_as(ctypes.c_void_p))
    out.tofile(f"weighted_{t.name}.bin")
