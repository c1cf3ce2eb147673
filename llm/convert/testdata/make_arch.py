"""Makes the folders beside this file: tiny models with random weights, as Hugging Face distributes them, and what
transformers computes with them in float32 (expected.json: logits of the last position, best id at every position, a
greedy continuation). They cover what no other reference of the tests covers: soft caps and alternating windows (gemma2),
long-context rotary factors on a part of each head (phi4-mini), a reranker that answers yes or no (qwen3-reranker).

    pip install torch transformers
    python make_arch.py FOLDER_WITH_TOKENIZER   # tokenizer.json and tokenizer_config.json of a byte-level BPE of 384 tokens
"""
import json
import os
import shutil
import sys

import torch
import transformers as tf

torch.manual_seed(20261130)
torch.set_num_threads(1)
VOCAB = 384
shape = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, bos_token_id=0, eos_token_id=1,
             pad_token_id=2, attn_implementation="eager")


def tokens(n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCAB, (1, n), generator=g)


def spread(model, factor):
    """Random weights of the usual size give flat logits; larger ones make mistakes visible."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.mul_(factor)
            elif "norm" in name:
                p.add_(torch.randn_like(p) * 0.1)
    return model.float().eval()


# How Qwen3-Reranker is asked.
BEFORE = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
          'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def judge(folder, model):
    """Scores pairs; the vocabulary is too small for yes and no, so its last two tokens get these names."""
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        t = json.load(f)
    for merge, word in zip(t["model"]["merges"][-2:], ["yes", "no"]):
        token = "".join(merge) if isinstance(merge, list) else merge.replace(" ", "")
        t["model"]["vocab"][word] = t["model"]["vocab"].pop(token)
    t["model"]["merges"] = t["model"]["merges"][:-2]
    with open(path, "w") as f:
        json.dump(t, f, ensure_ascii=False)
    tok = tf.PreTrainedTokenizerFast(tokenizer_file=path)
    encode = lambda s: tok.encode(s, add_special_tokens=False)
    yes, no = t["model"]["vocab"]["yes"], t["model"]["vocab"]["no"]
    out = []
    for query, document in [("how tall is the tower", "The tower is 324 m tall."), ("x", "  two\n\nlines "), ("what is café?", ""), ("a", "<|im_end|> - no")]:
        pair = f"<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}"
        ids = encode(BEFORE) + encode(pair) + encode(AFTER)
        with torch.no_grad():
            row = model(torch.tensor([ids])).logits[0, -1]
        out.append({"query": query, "document": document, "tokens": ids, "score": float(row[yes] - row[no])})
    return out


def save(name, model, lengths):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf", name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, safe_serialization=True)
    for extra in ["generation_config.json"]:
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    for extra in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(os.path.join(sys.argv[1], extra), folder)
    cases = []
    with torch.no_grad():
        for i, n in enumerate(lengths):
            ids = tokens(n, 7 + i)
            logits = model(ids).logits[0]
            cases.append({"tokens": ids[0].tolist(), "argmax": logits.argmax(-1).tolist(), "last_logits": [round(x, 6) for x in logits[-1].tolist()]})
        ids = tokens(6, 99)
        prompt, out = ids[0].tolist(), []
        for _ in range(24):
            best = model(ids).logits[0, -1].argmax()
            out.append(int(best))
            ids = torch.cat([ids, best.view(1, 1)], dim=1)
    expected = {"transformers": tf.__version__, "cases": cases, "greedy": {"prompt": prompt, "continuation": out}}
    if name == "qwen3-reranker":
        expected["pairs"] = judge(folder, model)
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump(expected, f)


save("gemma2", spread(tf.Gemma2ForCausalLM(tf.Gemma2Config(
    **shape, num_hidden_layers=4, head_dim=32, sliding_window=8, query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    max_position_embeddings=256)), 6), [5, 24, 60])

factors = {"short_factor": [1.0 + 0.05 * i for i in range(6)], "long_factor": [1.5 + 0.5 * i for i in range(6)]}
save("phi4-mini", spread(tf.Phi3ForCausalLM(tf.Phi3Config(
    **shape, num_hidden_layers=3, tie_word_embeddings=True, partial_rotary_factor=0.75, max_position_embeddings=256, original_max_position_embeddings=256,
    rope_scaling={"type": "longrope", **factors})), 6), [5, 24, 60])

save("qwen3-reranker", spread(tf.Qwen3ForCausalLM(tf.Qwen3Config(
    **shape, num_hidden_layers=3, head_dim=32, tie_word_embeddings=True, max_position_embeddings=1024)), 6), [5, 24])
