package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/personal"
	"ragd/retrieve"
	"ragd/store"
)

// What a corpus does about personal data: what is read out, what is taken in.
func TestPersonalData(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	text := "Write to jane@acme.org today."
	passages := []ingest.Passage{{Text: text, End: len(text), Language: "en", Personal: []string{"email"}}}
	save := func(path string) (*ingest.Job, error) {
		_, _ = receive(t, s, path, text+path)
		job := claim(t, s)
		require.NoError(t, s.SaveDocument(ctx, job, &ingest.Document{Text: text}))
		return job, s.SavePassages(ctx, job, passages)
	}
	job, err := save("a")
	require.NoError(t, err)
	require.NoError(t, s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}))
	require.NoError(t, s.Publish(ctx, job))
	require.EqualValues(t, 1, count(t, s, `SELECT count(*) FROM document_versions v JOIN passages p ON p.version = v.id WHERE v.personal = '{email}' AND p.personal = '{email}'`))
	d, err := s.DocumentByPath(ctx, "", "c", "a")
	require.NoError(t, err)
	require.Equal(t, []string{"email"}, d.Personal)
	live, err := s.LivePassages(ctx, "", d.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"email"}, live[0].Personal)
	read := func() (string, string) {
		hits, err := s.Lexical(ctx, "write today", 1, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, hits, 1)
		e, err := s.Excerpt(ctx, hits[0].ID, 10, retrieve.Filter{})
		require.NoError(t, err)
		return e.Text, e.Around
	}
	got, around := read()
	require.Equal(t, []string{text, text}, []string{got, around})
	require.NoError(t, s.SetPersonalData(ctx, "", "c", personal.Mask))
	got, around = read()
	require.Equal(t, []string{"Write to ****@****.*** today.", "Write to ****@****.*** today."}, []string{got, around})

	require.NoError(t, s.SetPersonalData(ctx, "", "c", personal.Refuse))
	job, err = save("b")
	var refused *ingest.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, ingest.PersonalData, refused.Class)
	require.Contains(t, refused.Message, "(email)")
	require.NoError(t, s.Fail(ctx, job, ingest.Failure{Class: refused.Class, Message: refused.Message}))
	require.EqualValues(t, 1, count(t, s, `SELECT count(*) FROM document_texts`), "nothing is left of the text that was refused")
	require.ErrorIs(t, s.SetPersonalData(ctx, "", "other", personal.Keep), store.ErrNotFound)
	require.Error(t, s.SetPersonalData(ctx, "", "c", "burn"))
}

func TestBoxes(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	receive(t, s, "a.pdf", "content")
	job := claim(t, s)
	text := "two words"
	require.NoError(t, s.SaveDocument(ctx, job, &ingest.Document{Text: text, Geometry: ingest.Geometry{Pages: []ingest.PageGeometry{{Number: 3, Width: 612, Height: 792,
		Words: []ingest.Word{{Start: 0, End: 3, Box: ingest.Rect{X0: 10, Y0: 20, X1: 30, Y1: 32}}, {Start: 4, End: 9, Box: ingest.Rect{X0: 33, Y0: 20, X1: 60, Y1: 32}}}}}}}))
	require.NoError(t, s.SavePassages(ctx, job, []ingest.Passage{{Text: text, End: len(text)}}))
	require.NoError(t, s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}))
	d, err := s.DocumentByPath(ctx, "", "c", "a.pdf")
	require.NoError(t, err)
	_, err = s.Boxes(ctx, "", d.ID, 0, 9)
	require.ErrorIs(t, err, store.ErrNotFound, "not live yet")
	require.NoError(t, s.Publish(ctx, job))
	got, err := s.Boxes(ctx, "", d.ID, 0, 9)
	require.NoError(t, err)
	require.Equal(t, []ingest.PageBoxes{{Page: 3, Width: 612, Height: 792, Boxes: []ingest.Rect{{X0: 10, Y0: 20, X1: 60, Y1: 32}}}}, got)
	_, err = s.Boxes(ctx, "other", d.ID, 0, 9)
	require.ErrorIs(t, err, store.ErrNotFound)
}
