"""Makes the ONNX models in this folder and what ONNX Runtime computes with them.

    pip install numpy onnx onnxruntime
    python make_onnx.py

encoder.onnx       a BERT encoder with random weights (1 layer, hidden 32, 2 heads) as torch.onnx names and lays it out
reranker_int8.onnx the same with pooler and classifier (2 layers), dynamically quantized by ONNX Runtime's own tool
tokenizer.json     WordPiece, 40 words
expected.json      last hidden states and scores from ONNX Runtime
"""
import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

rng = np.random.default_rng(7)
H, HEADS, FFN, CTX = 32, 2, 64, 16
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(97 + i) for i in range(26)] + ["##" + c for c in "abcdefghi"]


def build(layers, head, path):
    nodes, inits, n = [], [], [0]

    def const(name, x):
        inits.append(numpy_helper.from_array(np.asarray(x), name))
        return name

    def op(kind, *inputs, **attributes):
        n[0] += 1
        out = f"/t/{n[0]}_output_0"
        nodes.append(helper.make_node(kind, list(inputs), [out], name=f"/t/{kind}_{n[0]}", **attributes))
        return out

    def weight(*shape):
        return (rng.normal(size=shape) * 0.3).astype(np.float32)

    def dense(x, name, i, o):
        w = const(f"onnx::MatMul_{n[0]}", weight(i, o))  # transposed and renamed, as the exporter does
        return op("Add", const(name + ".bias", weight(o)), op("MatMul", x, w))

    def layer_norm(x, name):
        mean = op("ReduceMean", x, axes=[-1])
        d = op("Sub", x, mean)
        var = op("ReduceMean", op("Mul", d, d), axes=[-1])
        y = op("Div", d, op("Sqrt", op("Add", var, const(f"eps_{n[0]}", np.float32(1e-12)))))
        y = op("Mul", y, const(name + ".weight", 1 + weight(H)))
        return op("Add", y, const(name + ".bias", weight(H)))

    pre = "bert." if head else ""
    e = pre + "embeddings."
    x = op("Gather", const(e + "word_embeddings.weight", weight(len(WORDS), H)), "input_ids")
    x = op("Add", x, op("Gather", const(e + "token_type_embeddings.weight", weight(2, H)), "token_type_ids"))
    length = op("Gather", op("Shape", "input_ids"), const("one", np.int64(1)))
    rows = op("Range", const("zero", np.int64(0)), length, const("step", np.int64(1)))
    x = op("Add", x, op("Gather", const(e + "position_embeddings.weight", weight(CTX, H)), rows))
    x = layer_norm(x, e + "LayerNorm")
    split = const("split", np.array([0, 0, HEADS, H // HEADS], np.int64))
    join = const("join", np.array([0, 0, H], np.int64))
    for i in range(layers):
        p = f"{pre}encoder.layer.{i}."
        q, k, v = (op("Reshape", dense(x, p + "attention.self." + r, H, H), split) for r in ("query", "key", "value"))
        q, v = (op("Transpose", a, perm=[0, 2, 1, 3]) for a in (q, v))
        s = op("MatMul", q, op("Transpose", k, perm=[0, 2, 3, 1]))
        s = op("Softmax", op("Div", s, const(f"root_{i}", np.float32(np.sqrt(H // HEADS)))), axis=-1)
        a = op("Reshape", op("Transpose", op("MatMul", s, v), perm=[0, 2, 1, 3]), join)
        x = layer_norm(op("Add", dense(a, p + "attention.output.dense", H, H), x), p + "attention.output.LayerNorm")
        h = dense(x, p + "intermediate.dense", H, FFN)
        g = op("Erf", op("Div", h, const(f"sqrt2_{i}", np.float32(np.sqrt(2)))))
        g = op("Mul", op("Mul", h, op("Add", g, const(f"uno_{i}", np.float32(1)))), const(f"half_{i}", np.float32(0.5)))
        x = layer_norm(op("Add", dense(g, p + "output.dense", FFN, H), x), p + "output.LayerNorm")
    out, shape = x, ["b", "t", H]
    if head:
        first = op("Gather", x, const("first", np.int64(0)), axis=1)
        w, b = const("bert.pooler.dense.weight", weight(H, H)), const("bert.pooler.dense.bias", weight(H))
        pooled = op("Tanh", op("Gemm", first, w, b, transB=1))
        w, b = const("classifier.weight", weight(1, H)), const("classifier.bias", weight(1))
        out, shape = op("Gemm", pooled, w, b, transB=1), ["b", 1]
    nodes[-1].output[0] = out = "logits" if head else "last_hidden_state"
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in ("input_ids", "token_type_ids")]
    graph = helper.make_graph(nodes, "g", ids, [helper.make_tensor_value_info(out, TensorProto.FLOAT, shape)], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


def run(path, ids, types):
    s = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return s.run(None, {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)})[0][0]


build(1, False, "encoder.onnx")
build(2, True, "reranker.onnx")
quantize_dynamic("reranker.onnx", "reranker_int8.onnx", weight_type=QuantType.QInt8, per_channel=True)
os.remove("reranker.onnx")
cases = [([2, 5, 6, 7, 3], [0] * 5), ([2, 30, 11, 3, 12, 13, 39, 3], [0] * 4 + [1] * 4), ([2, 3], [0, 0])]
with open("expected.json", "w") as f:
    json.dump([{"ids": i, "types": t, "hidden": run("encoder.onnx", i, t).round(6).tolist(),
                "score": float(run("reranker_int8.onnx", i, t)[0])} for i, t in cases], f)
with open("tokenizer.json", "w") as f:
    json.dump({
        "added_tokens": [{"id": i, "content": w, "special": True} for i, w in enumerate(WORDS[:5])],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": {w: i for i, w in enumerate(WORDS)}},
    }, f)
