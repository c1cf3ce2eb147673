#!/usr/bin/env python3
"""Prints the numbers of TestYarn: pip install transformers torch; python3 yarn.py"""
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, max_position_embeddings=512)
config.rope_parameters = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 512}
inv_freq, scale = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
plain = 1 / 10000.0 ** (torch.arange(0, 16, 2).float() / 16)
print([round(x, 6) for x in (plain / inv_freq).tolist()], round(scale, 7))
