"""Makes testdata/xlmr: an XLM-RoBERTa reranker with random weights, a Unigram tokenizer, and what transformers computes.

    pip install torch transformers tokenizers safetensors
    python make_xlmr.py
"""
import json
import os

import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "xlmr")
torch.manual_seed(3)
pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), ("\u2581the", -3.0), ("ing", -3.5), ("\u2581read", -4.0)]
pieces += [(c, -6.0 - i / 10) for i, c in enumerate("abcdefghijklmnopqrstuvwxyzäß.,?")]
t = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
t.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), " ")])
t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
t.add_special_tokens([AddedToken(w, special=True, normalized=False) for w in ("<s>", "<pad>", "</s>", "<unk>")])
t.add_special_tokens([AddedToken("<mask>", special=True, normalized=False, lstrip=True)])
t.post_processor = processors.TemplateProcessing(
    single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
t.save(os.path.join(DIR, "tokenizer.json"))
with open(os.path.join(DIR, "tokenizer_config.json"), "w") as f:
    json.dump({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
               "cls_token": "<s>", "mask_token": {"content": "<mask>"}}, f)

c = XLMRobertaConfig(vocab_size=t.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                     max_position_embeddings=34, type_vocab_size=1, num_labels=1, initializer_range=0.3, pad_token_id=1)
m = XLMRobertaForSequenceClassification(c).eval()
for name, p in m.named_parameters():
    if name.endswith(".bias"):
        torch.nn.init.normal_(p, 0, 0.2)
m.classifier.out_proj.weight.data *= 10  # scores that differ
m.save_pretrained(DIR)
cases = []
for q, d in [("reading the", "a book."), ("is it ß?", "no, the  rëading"), ("a", "the the the the the")]:
    ids = t.encode(q, d).ids
    with torch.no_grad():
        score = m(torch.tensor([ids])).logits[0, 0].item()
    cases.append({"query": q, "document": d, "query_ids": t.encode(q).ids, "ids": ids, "score": score})
with open(os.path.join(DIR, "expected.json"), "w") as f:
    json.dump(cases, f, ensure_ascii=False)
