"""Trains small vocabularies of every family and records what the reference implementations make of difficult texts.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3
    venv/bin/python make_vectors.py          # writes *.json beside this file

The texts are our own. Each file has the vocabulary in GGUF's spelling and a list of cases: text, ids, and for pairs the segment ids.
"""
import base64, json, os, random, tempfile
import sentencepiece as spm
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))

CORPUS = """The warehouse opens at seven and closes at half past nine; visitors sign the register and wear a badge.
Don't leave the pumps running: they'll overheat, and we've had to replace 3 of them since 2019. I'm told it's the valve.
HTTPServer parses JSON, XML and CSV; parseURL() returns nil, err when len(b) == 0 || b[0] != '{'.
func (s *Store) Put(ctx context.Context, key string, value []byte) error { return s.db.Exec(ctx, q, key, value) }
    if x > 10 and y < 20:
        print("total:", x + y)   # 1,234.56 EUR + 19 % VAT = 1,469.13 EUR

Die Prüfung fand am 3. März statt; Größe, Übermut und Straße sind schöne Wörter. Das Gerät läuft ungefähr 24 Stunden.
L'élève a oublié son cahier à l'école, où la fenêtre était déjà fermée. Ça va? Où est la forêt?
El niño comió piñas y mañana irá al colegio. ¿Cuánto cuesta? ¡Qué bien!
Быстрая лиса прыгает через ленивую собаку. Ёжик и йод. ПРИВЕТ, Мир!
Η γρήγορη αλεπού πηδά πάνω από το σκυλί. ΟΔΟΣ ΣΟΦΙΑΣ.
素早い茶色の狐が怠け者の犬を飛び越える。機械学習は面白いです。カタカナとひらがな。
敏捷的棕色狐狸跳过了懒狗。今天天气很好,我们去公园吧。
빠른 갈색 여우가 게으른 개를 뛰어넘는다. 안녕하세요 세계.
الثعلب البني السريع يقفز فوق الكلب الكسول. ١٢٣٤
השועל החום המהיר קופץ מעל הכלב העצלן.
तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। १२३
İstanbul'da IĞDIR ve Şırnak güzeldir. Ǆ ǅ ǆ ʰʲ ªº
😀 😃👍🏽 👩‍👩‍👧‍👦 🇨🇭 ½ ² ③ Ⅷ x² + y² = z²
pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism
tel. +49 30 901820, mail: info@example.org, https://example.org/a/b?x=1&y=2#frag
"""

TEXTS = [
    "", " ", "  ", "     ", "\n", "\n\n", "\t", "\r\n", "a", "\u00a0", "\u3000 \u2009x", " \n \n x", "x \n", "x\n ", "x  \n  y", "a\r\rb\r\n\n c",
    "hello world", " hello world", "hello world   ", "hello   world", "a  b   c    d\te\t\tf", "\thello\n\tworld", "  leading", "tail \t ",
    "I'm you're he's we'll they've I'd don't", "DON'T 'S 'Ll 'RE WE'VE o'clock 'tis ''s 's's x's\u2019s", "'", "''", "'l", "'r", "it'sa", "'T'd",
    "1234567890 3.14159 1,000,000 0x1F 2026-11-30T04:44:21Z", "a1b22c333d4444", " 12 345", "  7", "\n8", "1  2", "x 1", "x  1", "x\t1 \t22",
    "٣٤٥٦ १२३४ ²³¼ Ⅷ③", "½x ²y",
    "func (s *Store) Put(key string) error {\n\treturn nil\n}\n", '{"id":42,"tags":["a","b"],"n":{"x":null,"y":-1.5e-3}}', "if (a&&b) || !c { x[i]++ } // done\n",
    "!!!???...---___***~~~```", "...\n\n...", " ...\n", "?/\n/x", "path/to/file //x\r\n/", "$5 + €6 = £7", "#tag @user %d &amp;", "-- \n--", "a-b--c", "(x)(y)", " ( x ) ",
    "HelloWorld XMLHttpRequest iPhone", "CamelCaseÄÖÜßtest", "ÉCOLE école École", "ABCdefGHIjkl", "ǅungla Ǆ ǆ", "ʰʲaBʰ Aʰ!", "ªº A\u0301B", "ПРИВЕТ Мир приветМир", "ΟΔΟΣ ΣΟΦΙΑΣ Σ",
    "Cafe\u0301 A\u030angstro\u0308m e\u0302\u0301", "Café Ångström ế", "\u0301x \u0301", " \u0301", "!\u0301!", "a\u0301\u0301\u0301 b", "İstanbul IĞDIR ıI",
    "机器学习とNLPを使って、한국어も処理する。", "今天天气很好。", "カタカナ ひらがな", "안녕하세요 세계", "漢字\u3000漢字", "\uf900\u4e00x\u3400y\U00020000z",
    "العربية עברית mixed English, \u0664100", "तेज भूरी लोमड़ी", "ก็น้ำ", "\u0e01\u0e33",
    "👩‍👩‍👧‍👦 family 👨🏽‍🚀", "🇨🇭🇫🇷🏴󠁧󠁢󠁳󠁣󠁴󠁿", "😀😃😄", "x😀y 😀 z", "\u200b\u200dx\u2060y", "\ufeffbom", "soft\u00adhyphen", "zero\u200bwidth",
    "a\x00b\x01c\x7fd", "\x1b[31mred\x1b[0m", "\x85next\x0bline\x0c", "\u2028\u2029", "\ufffd", "a\ufffdb", "\U0010ffff\ue000", "\u0378",
    "<|im_start|>user\nhi<|im_end|>\n", "<s>x</s>", "[CLS] a [SEP] b [MASK] [UNK]", "</s", "<0x0A>", "<unk>", "▁x ▁▁ y▁", "Ġhello Ċ ##ing",
    "pneumonoultramicroscopicsilicovolcanoconiosis" * 3, "a" * 100, "a" * 101, "ab" * 60 + " c", "é" * 101, " " * 40 + "x", "x" + "\n" * 40, "-" * 70, "9" * 20,
    "ﬁne ﬂow ＡＢＣ １２３ ㌔ ㍿ ℃ Å", "①②③", "x\u0338 ≠ ≠", "\u1100\u1161\u11a8 각", "ｶﾞ ガ", "Straße STRASSE ẞ", "“quotes” ‘single’ «fr» „de“", "tschüß—na gut…",
    "Über-größe; naïve coöperation", "don’t won’t", "5'10\" 3′4″", "C++ C# F# .NET", "e.g. i.e. etc.", "U.S.A. U.K.", "100%", "x=y", "\\n\\t", "a_b_c", "~/.bashrc", "`code`",
]


def random_texts(n, seed=7):
    """Strings over a small alphabet of troublemakers: every short combination of classes turns up."""
    alphabet = list("aZ0 9\n\r\t.'-/sStdré") + ["  ", "'s", "'LL", "Ä", "ß", "ǅ", "ʰ", "漢", "か", "한", "\u0301", "٣", "²", "😀", "\u00a0", "\u3000", "_", "the", " and", "İ", "ю", "Ю"]
    rng = random.Random(seed)
    return ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 14))) for _ in range(n)]


ALL = TEXTS + random_texts(150)


def write(name, vocabulary, cases):
    with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
        f.write('{"vocabulary": ' + json.dumps(vocabulary, ensure_ascii=True) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=True) for c in cases))
        f.write("\n]}\n")
    print(name, len(vocabulary["tokens"]), "tokens", len(cases), "cases")


# ---- byte-level BPE: one vocabulary per pre-tokenizer ----

S, L = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
U, W = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
P = r"[^\r\n\p{L}\p{N}]?"
PRE = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [S + "|" + L + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL],
    "qwen2": [S + "|" + L + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL],
    "qwen35": [S + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL],
    "gpt-4o": [P + U + "*" + W + "+" + S + "?|" + P + U + "+" + W + "*" + S + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL],
    "tekken": [P + U + "*" + W + "+|" + P + U + "+" + W + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL],
}


def bpe(pre):
    tok = Tokenizer(models.BPE(ignore_merges=pre in ("llama-bpe", "tekken")))
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in PRE[pre]]
    tok.pre_tokenizer = pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    special = ["<|begin|>", "<|im_start|>", "<|im_end|>"]
    tok.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=640, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(tok.to_str())["model"]
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])]
    vocabulary = dict(model="gpt2", pre=pre, tokens=tokens, merges=[" ".join(m) if isinstance(m, list) else m for m in model["merges"]],
                      types=[3 if t in special else 1 for t in tokens], bos=0, eos=2)
    if pre in ("llama-bpe", "tekken"):
        # a token no merge leads to: ignore_merges takes it all the same
        vocabulary["tokens"].append("visitors")
        vocabulary["types"].append(1)
        j = json.loads(tok.to_str())
        j["model"]["vocab"]["visitors"] = len(tokens) - 1
        tok = Tokenizer.from_str(json.dumps(j))
    plain = json.loads(tok.to_str())
    plain["added_tokens"] = []  # text is text
    plain = Tokenizer.from_str(json.dumps(plain))
    cases = []
    for text in ALL + ["visitors", "visitors visitors"]:
        case = dict(text=text, ids=plain.encode(text, add_special_tokens=False).ids)
        special_ids = tok.encode(text, add_special_tokens=False).ids
        if special_ids != case["ids"]:
            case["special"] = special_ids
        cases.append(case)
    write("bpe-" + pre, vocabulary, cases)


# ---- WordPiece ----

def wordpiece(name, lowercase, strip):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # Half of the corpus' rarest letters stay out of the alphabet, so that unknown words occur.
    tok.train_from_iterator([CORPUS], trainers.WordPieceTrainer(vocab_size=560, limit_alphabet=190, special_tokens=special, show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    hf = [t for t, _ in sorted(tok.get_vocab().items(), key=lambda kv: kv[1])]
    gguf = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in hf]
    j = json.loads(tok.to_str())
    j["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(j))
    cases = []
    for text in ALL:
        e = plain.encode(text, add_special_tokens=False)
        cases.append(dict(text=text, ids=e.ids))
    pairs = [("Where is the register?", "Visitors sign the register and wear a badge."), ("pumps", "the pumps " * 20), ("", "x"), ("x", "")]
    for limit, these in ((64, pairs), (24, pairs[:2])):
        for q, d in these:
            plain.enable_truncation(limit, strategy="only_second")
            e = plain.encode(q, d)
            cases.append(dict(query=q, text=d, limit=limit, ids=e.ids, types=e.type_ids))
    vocabulary = dict(model="bert", tokens=gguf, types=[3 if t in special else 1 for t in hf], unk=1, cls=2, sep=3, pad=0, mask=4)
    write("wordpiece-" + name, vocabulary, cases)


# ---- SentencePiece and Unigram ----

def sentencepiece(name, model_type, **options):
    with tempfile.TemporaryDirectory() as tmp:
        corpus = os.path.join(tmp, "corpus.txt")
        with open(corpus, "w", encoding="utf-8") as f:
            f.write(CORPUS)
        prefix = os.path.join(tmp, "m")
        spm.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, model_type=model_type, minloglevel=2, num_threads=1, **options)
        sp = spm.SentencePieceProcessor(model_file=prefix + ".model")
        proto = open(prefix + ".model", "rb").read()
    n = sp.get_piece_size()
    types = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 5 if sp.is_unused(i) else
             4 if sp.id_to_piece(i) in options.get("user_defined_symbols", []) else 1 for i in range(n)]
    vocabulary = dict(model="t5" if model_type == "unigram" else "llama", tokens=[sp.id_to_piece(i) for i in range(n)],
                      scores=[sp.get_score(i) for i in range(n)], types=types,
                      bos=1, eos=2, unk=0, add_space_prefix=options.get("add_dummy_prefix", True))
    if model_type == "unigram":
        vocabulary["remove_extra_whitespaces"] = options.get("remove_extra_whitespaces", True)
        vocabulary["charsmap"] = base64.b64encode(charsmap(proto)).decode()
    cases = []
    for text in ALL:
        if "\x00" in text or "\u2581" in text:
            continue  # sentencepiece cannot take the first and treats the second as a space
        cases.append(dict(text=text, ids=sp.encode(text)))
    write(name, vocabulary, cases)


def charsmap(proto):
    """The precompiled_charsmap of a serialized ModelProto: field 3 (normalizer_spec), field 2."""
    def fields(b):
        i = 0
        def varint():
            nonlocal i
            v = s = 0
            while True:
                c = b[i]; i += 1
                v |= (c & 127) << s; s += 7
                if c < 128:
                    return v
        while i < len(b):
            key = varint()
            kind = key & 7
            if kind == 2:
                n = varint(); yield key >> 3, b[i:i + n]; i += n
            elif kind == 0:
                yield key >> 3, varint()
            elif kind == 5:
                yield key >> 3, b[i:i + 4]; i += 4
            else:
                yield key >> 3, b[i:i + 8]; i += 8
    for number, value in fields(proto):
        if number == 3:
            for inner, blob in fields(value):
                if inner == 2:
                    return bytes(blob)
    return b""


# ---- Gemma 4's BPE over characters ----

def gemma4():
    tok = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\n]+|[^\n]+"), "isolated")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + ["<0x%02X>" % b for b in range(256)]
    # trained on words, as the real vocabulary was; applied to whole lines
    trained = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    trained.normalizer = tok.normalizer
    trained.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581*[^\u2581\n]+|\u2581+|\n+"), "isolated")
    trained.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=760, limit_alphabet=150, special_tokens=special, show_progress=False))
    j, m = json.loads(tok.to_str()), json.loads(trained.to_str())["model"]
    j["model"]["vocab"], j["model"]["merges"] = m["vocab"], m["merges"]
    tok = Tokenizer.from_str(json.dumps(j))
    tokens = [t for t, _ in sorted(m["vocab"].items(), key=lambda kv: kv[1])]
    types = [6 if t.startswith("<0x") and t in special else 3 if t in special else 1 for t in tokens]
    vocabulary = dict(model="gemma4", tokens=tokens, types=types, merges=[" ".join(x) if isinstance(x, list) else x for x in m["merges"]], bos=2, eos=1, unk=3, pad=0)
    write("gemma4", vocabulary, [dict(text=t, ids=tok.encode(t).ids) for t in ALL])


if __name__ == "__main__":
    for pre in PRE:
        bpe(pre)
    wordpiece("uncased", True, None)
    wordpiece("cased", False, None)
    wordpiece("german", True, False)
    gemma4()
    common = dict(hard_vocab_limit=False, character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False, pad_id=-1)
    sentencepiece("spm-prefix", "bpe", vocab_size=700, byte_fallback=True, **common)
    sentencepiece("spm-noprefix", "bpe", vocab_size=700, byte_fallback=True, add_dummy_prefix=False, **common)
    sentencepiece("unigram", "unigram", vocab_size=420, hard_vocab_limit=False, character_coverage=0.98, normalization_rule_name="nmt_nfkc", pad_id=-1)
    sentencepiece("unigram-plain", "unigram", vocab_size=420, hard_vocab_limit=False, character_coverage=0.98, normalization_rule_name="identity",
                  remove_extra_whitespaces=False, add_dummy_prefix=False, pad_id=-1)
