package inspect

// KVBytesPerToken is what one token leaves in the cache: a key and a value per layer and key-value head.
func KVBytesPerToken(layers, kvHeads, headDim, bytesPerValue int) int64 {
	return 2 * int64(layers) * int64(kvHeads) * int64(headDim) * int64(bytesPerValue)
}

// KVBytes is the cache of whole sequences.
func KVBytes(perToken int64, tokens, sequences int) int64 {
	return perToken * int64(tokens) * int64(sequences)
}

// TokenPasses is how many tokens run through the model to write n tokens: each once with a cache, the whole text again for
// every token without one.
func TokenPasses(n int, cached bool) int64 {
	if cached {
		return int64(n)
	}
	return int64(n) * int64(n+1) / 2
}

// AttentionScores is how many scores one head computes over n tokens when every token looks at every token.
func AttentionScores(n int) int64 { return int64(n) * int64(n) }

// DecodeSeconds is the least time for one token: every weight has to come out of memory once.
func DecodeSeconds(weightBytes int64, bytesPerSecond float64) float64 {
	return float64(weightBytes) / bytesPerSecond
}

// WeightBytes is the size of parameters at so many bits each, scales not counted.
func WeightBytes(parameters int64, bits int) int64 { return parameters * int64(bits) / 8 }

// Step is the distance of two neighbouring values when the largest weight gets the last of the positive levels.
func Step(largest float64, levels int) float64 { return largest / float64(levels) }

// PrefillShare is the part of a prompt's multiplications that attention takes. Each of n tokens multiplies with all matrix
// weights once; token i scores and mixes i keys and values of width heads*headDim in every layer.
func PrefillShare(matrixWeights int64, layers, heads, headDim, n int) float64 {
	matrices := float64(matrixWeights) * float64(n)
	attention := 2 * float64(layers) * float64(heads*headDim) * float64(TokenPasses(n, false))
	return attention / (attention + matrices)
}
