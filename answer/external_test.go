package answer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm"
	"ragd/llm/external"
)

func TestMarkingGivesEverySentenceOneMarker(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"none", "Staff get 30 days. Parents get more.", "Staff get 30 days [0]. Parents get more [0]."},
		{"before the full stop", "Staff get 30 days [2]. Parents get more [1].", "Staff get 30 days [2]. Parents get more [1]."},
		{"behind it", "Staff get 30 days. [2] Parents get more. [1]", "Staff get 30 days [2]. Parents get more [1]."},
		{"several", "Staff get 30 days [1, 2]. Parents [1][2] get more.", "Staff get 30 days [1]. Parents get more [1]."},
		{"invented", "Staff get 30 days [9].", "Staff get 30 days [0]."},
		{"words in it", "Staff get 30 days [Document 2].", "Staff get 30 days [2]."},
		{"other brackets", "Staff get 30 days 【2†source】.", "Staff get 30 days [2]."},
		{"list", "You get:\n- 30 days [1]\n- a bonus [2]\n", "You get: [0]\n- 30 days [1]\n- a bonus [2]\n"},
		{"refusal", "The documents do not contain the answer.", Refusal},
		{"refusal with a marker and more", "the documents do not contain the answer [1]. However, one may guess.", Refusal},
		{"brackets of its own", "See array[3] there [a].", "See array there [a] [3]."},
		{"nothing", "", ""},
		{"only markers", "[1] [2]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []int{1, 3, 1000} { // however the text arrives
				m := marking{sources: 3, refusal: Refusal}
				got := ""
				for at := 0; at < len(c.in); at += step {
					got += m.push(c.in[at:min(at+step, len(c.in))])
				}
				got += m.flush(false)
				require.Equal(t, strings.TrimSpace(c.want), strings.TrimSpace(got), "in steps of %d", step)
			}
		})
	}
	m := marking{sources: 1}
	require.Equal(t, "Whole [1]. ", m.push("Whole [1]. And half of a sen")+m.flush(true), "a sentence that was cut off is left out")
}

// remote is an engine whose server answers with a text.
func remote(t *testing.T, text string, prompt *string) *llm.Engine {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body external.Request
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		if prompt != nil {
			*prompt = body.Messages[len(body.Messages)-1].Content
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range strings.SplitAfter(text, " ") {
			b, _ := json.Marshal(word)
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", b)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	e, err := llm.Connect(llm.ExternalConfig{Config: external.Config{URL: s.URL, Model: "big"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func answerOf(t *testing.T, e *llm.Engine, q Question, texts ...string) (*Answer, error) {
	t.Helper()
	for event, err := range New(passagesOf(texts...), e, Config{}).Answer(t.Context(), q) {
		if err != nil {
			return nil, err
		}
		if event.Done != nil {
			return event.Done, nil
		}
	}
	t.Fatal("no answer")
	return nil, nil
}

func TestExternalEngineIsCheckedAfterwards(t *testing.T) {
	const leave, travel = "Every employee gets 30 days of paid leave per year.", "The hotel limit in Oslo is 180 euros per night."
	q := Question{Text: "How many days of paid leave does an employee get?"}
	var prompt string
	// A true statement with a marker that does not exist, an invented number, an invented quotation, and something else.
	a, err := answerOf(t, remote(t, `Every employee gets 30 days of paid leave per year [7]. Every employee gets 45 days of paid leave [1]. `+
		`The text says "leave may be sold to other employees" [1]. Penguins live in Antarctica.`, &prompt), q, leave, travel)
	require.NoError(t, err)
	require.Contains(t, prompt, leave)
	require.True(t, a.Unconstrained)
	require.Equal(t, "Every employee gets 30 days of paid leave per year [1].", a.Text)
	require.Len(t, a.Citations, 1)
	require.Equal(t, leave, a.Citations[0].Quote)
	require.True(t, a.Citations[0].Corrected)
	require.Len(t, a.Statements, 4)
	require.Contains(t, a.Statements[2].Why, "stands in no source")
	for _, s := range a.Statements[1:] {
		require.True(t, s.Removed, s.Text)
	}

	a, err = answerOf(t, remote(t, "The documents do not contain the answer.", nil), q, leave)
	require.NoError(t, err)
	require.True(t, a.Abstained)

	a, err = answerOf(t, remote(t, "Penguins live in Antarctica [1]. They eat fish [1].", nil), q, leave)
	require.NoError(t, err)
	require.True(t, a.Abstained, a.Text)
	require.Empty(t, a.Citations)

	_, err = answerOf(t, remote(t, "x", nil), Question{Text: q.Text, Beams: 3}, leave)
	require.ErrorIs(t, err, llm.ErrNoLogits)
	_, _, err = New(passagesOf(leave), remote(t, "x", nil), Config{}).Replay(t.Context(), a, "")
	require.ErrorIs(t, err, llm.ErrNoLogits)
	_, err = New(passagesOf(leave), remote(t, "x", nil), Config{}).Attribute(t.Context(), a, "")
	require.ErrorIs(t, err, llm.ErrNoLogits)
}

func TestFollowUpsAreRewrittenByAnExternalEngine(t *testing.T) {
	var prompt string
	a, err := answerOf(t, remote(t, "How many days of leave do parents get?", &prompt), Question{Text: "And parents?", History: []Turn{{"How many days of leave do employees get?", "30 [1]."}}},
		"Parents get 40 days of leave.")
	require.NoError(t, err)
	require.Equal(t, "How many days of leave do parents get?", a.Query)
}
