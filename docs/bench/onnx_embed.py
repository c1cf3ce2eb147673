#!/usr/bin/env python3
"""Tokens per second of an ONNX encoder in onnxruntime: 16 passages of 256 tokens, as `ragd bench --work embed` measures them.

    python3 -m venv venv && venv/bin/pip install numpy onnxruntime
    venv/bin/python docs/bench/onnx_embed.py bge-small-en-v1.5.onnx [--threads 2] [--rounds 4] [--int8]

It prints one line of JSON, which is what --embed-against reads:

    ragd bench --work embed --embed-against 'venv/bin/python docs/bench/onnx_embed.py bge-small-en-v1.5.onnx'

--int8 quantizes the weights first (dynamic quantization, needs `pip install onnx`, too); the file is written beside the model.
"""
import argparse
import json
import os
import time

import numpy
import onnxruntime

arguments = argparse.ArgumentParser()
arguments.add_argument("model")
arguments.add_argument("--threads", type=int, default=os.cpu_count())
arguments.add_argument("--rounds", type=int, default=4)
arguments.add_argument("--int8", action="store_true")
args = arguments.parse_args()

name = f"onnxruntime {'.'.join(onnxruntime.__version__.split('.')[:2])}"
if args.int8:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = args.model.removesuffix(".onnx") + ".int8.onnx"
    if not os.path.exists(small):
        quantize_dynamic(args.model, small, weight_type=QuantType.QInt8)
    args.model, name = small, name + " int8"

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = args.threads
session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])

PASSAGES, TOKENS = 16, 256
ids = numpy.random.default_rng(1).integers(1000, 20000, (PASSAGES, TOKENS), dtype=numpy.int64)
inputs = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
inputs = {i.name: inputs[i.name] for i in session.get_inputs()}


def embed():
    hidden = session.run(None, inputs)[0]
    pooled = hidden if hidden.ndim == 2 else hidden[:, 0]  # the first token, as BGE does
    return pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True)


embed()  # touches the memory
rates = []
for _ in range(args.rounds):
    begin = time.perf_counter()
    embed()
    rates.append(PASSAGES * TOKENS / (time.perf_counter() - begin))
print(json.dumps({"name": name, "tokens_per_second": round(float(numpy.median(rates)), 1)}))
