"""Makes reference.json: the type and the SHA-256 of every tensor that llama.cpp's quantize tool writes for a small model.

    pip install numpy gguf
    RAGD_WRITE_WIDE=/some/folder/wide.gguf go test ./llm/quantize -run TestReferenceTool
    python make.py LLAMA_QUANTIZE /some/folder/wide.gguf
"""
import hashlib
import json
import os
import subprocess
import sys

from gguf import GGUFReader

tool, model = sys.argv[1:]
out = {}
for mix in ["F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0"]:
    path = model + "." + mix
    subprocess.run([tool, model, path, mix, "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out[mix] = {t.name: {"type": t.tensor_type.name, "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()} for t in GGUFReader(path).tensors}
    os.remove(path)
with open("reference.json", "w") as f:
    json.dump(out, f, indent=0, sort_keys=True)
    f.write("\n")
