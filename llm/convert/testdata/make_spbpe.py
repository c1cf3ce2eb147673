"""Makes spbpe/: tokenizer.json files of BPE over characters with byte fallback, with and without a space in front, and the ids
that the tokenizers package gives for awkward texts (cases.json).

    pip install tokenizers
    python make_spbpe.py
"""
import json
import os

from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spbpe")
os.makedirs(here, exist_ok=True)
corpus = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps; the fox runs away, faster and faster.",
    "In the harbour the boats are tied to the pier, and the water is as still as glass in the morning light.",
    "Numbers such as 12, 345 and 6,789 appear in texts, and so do dates like 2024-05-01.",
    "def mean(values):\n    return sum(values) / len(values)\n\n",
    "Über den Dächern der Städte fliegen größere Vögel; ça va très bien.",
] * 4
texts = [
    "", " ", "  ", "a", " the fox", "the  fox", "The quick brown fox", "the\nfox\n\n", "\tfoo", "über größere", "日本語 text", "👍🏽 ok", "x" * 50, " " * 20,
    "a\u00a0b", "e\u0301", "<s> is text", "faster and faster and faster", "▁odd▁", "12,345", "sleeps; runs", "\x00\x01", "return sum(values)", "…",
]
for name, prefix in [("prefix", True), ("plain", False)]:
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [normalizers.Prepend("▁")] if prefix else []
    t.normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", "▁")])
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    j = json.loads(t.to_str())
    vocab = j["model"]["vocab"]
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    folder = os.path.join(here, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False)
    # Control tokens in text are for the caller to allow; the vectors are of plain text.
    cases = [{"text": x, "ids": t.encode(x).ids} for x in texts if "<s>" not in x]
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, ensure_ascii=False, indent=0)
