package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/server"
	"ragd/store"
)

// sdk is the official client of OpenAI, on a server over everything that is real but the size of the models.
func sdk(t *testing.T) openai.Client {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	secret := makeKey(t, db, store.Key{Name: "sdk", Actions: []string{server.Read, server.Write}})
	return openai.NewClient(option.WithBaseURL(h.url+"/v1"), option.WithAPIKey(secret), option.WithMaxRetries(0), option.WithHTTPClient(h.client))
}

func hello(p openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	p.Model = "ragd"
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage("Say hello to the 人事部 😀.")}
	return p
}

func TestOpenAISDKChat(t *testing.T) {
	c := sdk(t)
	models := c.Models.ListAutoPaging(t.Context())
	require.True(t, models.Next())
	require.NotEmpty(t, models.Current().ID)
	require.NoError(t, models.Err())

	ask := hello(openai.ChatCompletionNewParams{MaxCompletionTokens: openai.Int(12), Temperature: openai.Float(0.8), Seed: openai.Int(7), Logprobs: openai.Bool(true), TopLogprobs: openai.Int(3)})
	whole, err := c.Chat.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, "assistant", string(whole.Choices[0].Message.Role))
	require.NotEmpty(t, whole.SystemFingerprint)
	tokens := whole.Choices[0].Logprobs.Content
	require.NotEmpty(t, tokens)
	var spelled []byte
	for _, token := range tokens {
		require.LessOrEqual(t, token.Logprob, 0.0)
		require.Len(t, token.TopLogprobs, 3)
		for _, b := range token.Bytes {
			spelled = append(spelled, byte(b))
		}
	}
	require.True(t, strings.HasPrefix(strings.ToValidUTF8(string(spelled), "\uFFFD"), whole.Choices[0].Message.Content), "the tokens spell the text, and perhaps the end")
	require.EqualValues(t, whole.Usage.PromptTokens+whole.Usage.CompletionTokens, whole.Usage.TotalTokens)

	again, err := c.Chat.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, whole.Choices[0].Message.Content, again.Choices[0].Message.Content, "the same seed")
	require.Positive(t, again.Usage.PromptTokensDetails.CachedTokens)

	ask.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), ask)
	var sum openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, sum.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, whole.Choices[0].Message.Content, sum.Choices[0].Message.Content)
	require.Equal(t, whole.Choices[0].FinishReason, sum.Choices[0].FinishReason)
	require.Equal(t, whole.Usage.TotalTokens, sum.Usage.TotalTokens)
	require.Len(t, sum.Choices[0].Logprobs.Content, len(tokens))

	schema := map[string]any{"type": "object", "properties": map[string]any{"warm": map[string]any{"type": "boolean"}, "city": map[string]any{"type": "string", "maxLength": 8}},
		"required": []string{"warm", "city"}, "additionalProperties": false}
	formed, err := c.Chat.Completions.New(t.Context(), hello(openai.ChatCompletionNewParams{Seed: openai.Int(1), ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "weather", Schema: schema, Strict: openai.Bool(true)}}}}))
	require.NoError(t, err)
	var weather struct {
		Warm *bool
		City *string
	}
	require.NoError(t, json.Unmarshal([]byte(formed.Choices[0].Message.Content), &weather), formed.Choices[0].Message.Content)
	require.NotNil(t, weather.Warm)
	require.NotNil(t, weather.City)

	_, err = c.Chat.Completions.New(t.Context(), hello(openai.ChatCompletionNewParams{N: openai.Int(99)}))
	var refused *openai.Error
	require.True(t, errors.As(err, &refused))
	require.Equal(t, 400, refused.StatusCode)
	require.Equal(t, "n", refused.Param)
	require.Equal(t, "invalid_request", refused.Code)
	require.NotEmpty(t, refused.Message)
	_, err = c.Chat.Completions.New(t.Context(), hello(openai.ChatCompletionNewParams{}), option.WithAPIKey("ragd_wrong"))
	require.True(t, errors.As(err, &refused))
	require.Equal(t, 401, refused.StatusCode)

	vectors, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "ragd", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"parental leave", "travel costs"}}})
	require.NoError(t, err)
	require.Len(t, vectors.Data, 2)
	require.Len(t, vectors.Data[1].Embedding, 64)
	require.EqualValues(t, 1, vectors.Data[1].Index)
}

func TestOpenAISDKDocuments(t *testing.T) {
	c := sdk(t)
	const text = "Employees get 30 days of paid leave. 😀 Ask the office for more."
	file, err := c.Files.New(t.Context(), openai.FileNewParams{File: openai.File(strings.NewReader(text), "leave 😀.txt", "text/plain"), Purpose: openai.FilePurposeAssistants})
	require.NoError(t, err)
	require.Equal(t, "leave 😀.txt", file.Filename)
	content, err := c.Files.Content(t.Context(), file.ID)
	require.NoError(t, err)
	read, err := io.ReadAll(content.Body)
	require.NoError(t, err)
	require.NoError(t, content.Body.Close())
	require.Equal(t, text, string(read))

	vs, err := c.VectorStores.New(t.Context(), openai.VectorStoreNewParams{Name: openai.String("handbook")})
	require.NoError(t, err)
	put, err := c.VectorStores.Files.NewAndPoll(t.Context(), vs.ID, openai.VectorStoreFileNewParams{FileID: file.ID}, 50)
	require.NoError(t, err)
	require.Equal(t, openai.VectorStoreFileStatusCompleted, put.Status)
	vs, err = c.VectorStores.Get(t.Context(), vs.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, vs.FileCounts.Completed)
	found, err := c.VectorStores.Search(t.Context(), vs.ID, openai.VectorStoreSearchParams{Query: openai.VectorStoreSearchParamsQueryUnion{OfString: openai.String("days of paid leave")}, MaxNumResults: openai.Int(1)})
	require.NoError(t, err)
	require.Equal(t, file.ID, found.Data[0].FileID)
	require.Contains(t, found.Data[0].Content[0].Text, "30 days")

	question := responses.ResponseNewParams{Model: "ragd", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("How many days of paid leave do employees get?")},
		Tools: []responses.ToolUnionParam{responses.ToolParamOfFileSearch([]string{vs.ID})}, Include: []responses.ResponseIncludable{responses.ResponseIncludableFileSearchCallResults}}
	answered, err := c.Responses.New(t.Context(), question)
	require.NoError(t, err)
	require.Equal(t, responses.ResponseStatusCompleted, answered.Status)
	require.Equal(t, "file_search_call", answered.Output[0].Type)
	require.Equal(t, file.ID, answered.Output[0].AsFileSearchCall().Results[0].FileID)
	for _, note := range answered.Output[1].AsMessage().Content[0].Annotations {
		require.Equal(t, file.ID, note.AsFileCitation().FileID)
	}
	stream := c.Responses.NewStreaming(t.Context(), question)
	var kinds []string
	var streamed string
	for stream.Next() {
		event := stream.Current()
		kinds = append(kinds, event.Type)
		if event.Type == "response.output_text.delta" {
			streamed += event.AsResponseOutputTextDelta().Delta
		}
		if event.Type == "response.completed" {
			require.Equal(t, answered.OutputText(), event.AsResponseCompleted().Response.OutputText())
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "response.created", kinds[0])
	require.Equal(t, "response.completed", kinds[len(kinds)-1])
	require.NotEmpty(t, streamed)

	cited, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "ragd", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("How many days of paid leave?")}},
		option.WithJSONSet("corpora", []string{"*"}))
	require.NoError(t, err)
	runes := []rune(cited.Choices[0].Message.Content)
	for _, note := range cited.Choices[0].Message.Annotations {
		require.LessOrEqual(t, int(note.URLCitation.EndIndex), len(runes))
		require.True(t, strings.HasPrefix(note.URLCitation.URL, "/v1/passages/"))
	}

	gone, err := c.VectorStores.Delete(t.Context(), vs.ID)
	require.NoError(t, err)
	require.True(t, gone.Deleted)
	_, err = c.Files.Delete(t.Context(), file.ID)
	require.NoError(t, err)
	_, err = c.VectorStores.Get(t.Context(), vs.ID)
	var refused *openai.Error
	require.True(t, errors.As(err, &refused))
	require.Equal(t, 404, refused.StatusCode)
}
