package llmtest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

// examImages asks with results that are pictures: each is sent once, with the result that it is of or in what the user
// says directly after the results, and in the same bytes each time.
func examImages(t *testing.T, d Dialect) {
	one, two, three := []byte("\x89PNG one"), []byte("\xff\xd8\xff two"), []byte("\x89PNG three")
	ask := func(t *testing.T, after ...llm.Message) (Request, string) {
		t.Helper()
		s := Serve(t, Stream(frames(d, answer())...))
		q := question()
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: "other", Calls: []llm.Call{
			{ID: "c1", Name: "read", Input: []byte(`{"path":"a.png"}`)}, {ID: "c2", Name: "list", Input: []byte(`{}`)},
			{ID: "c3", Name: "shots", Input: []byte(`{}`)}, {ID: "c4", Name: "shots", Input: []byte(`{}`)}}},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{
				{CallID: "c1", Name: "read", Output: "a.png: a picture", Images: []llm.Image{{MediaType: "image/png", Data: one}}},
				{CallID: "c2", Name: "list", Output: "x.go"},
				{CallID: "c3", Name: "shots", Images: []llm.Image{{MediaType: "image/jpeg", Data: two}}},
				{CallID: "c4", Name: "shots", Output: "half of it", Failed: true,
					Images: []llm.Image{{MediaType: "image/png", Data: three}}}}})
		q.Messages = append(q.Messages, after...)
		m := model(t, d, s)
		for range 2 {
			if _, err := m.Ask(t.Context(), q, nil); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(s.Body(0), s.Body(1)) {
			t.Errorf("PRMT-8 the same history gave another request:\n%s\n%s", s.Body(0), s.Body(1))
		}
		return request(t, d, s.Body(0)), string(s.Body(0))
	}
	want := fmt.Sprintf("image/png %q image/jpeg %q image/png %q ", one, two, three)
	seen := func(all []llm.Image) (out string) {
		for _, i := range all {
			out += fmt.Sprintf("%s %q ", i.MediaType, i.Data)
		}
		return out
	}
	for name, after := range map[string][]llm.Message{
		"and nothing else":       nil,
		"and what is said then":  {{Role: llm.User, Text: "what do you see?"}},
		"and the answer to them": {{Role: llm.Assistant, Provider: "other", Text: "a cat"}, {Role: llm.User, Text: "go on"}},
	} {
		t.Run("PLUS-2 LOOP-16 results that are images are shown, "+name, func(t *testing.T) {
			t.Parallel()
			h, body := ask(t, after...)
			at := -1
			for i, m := range h.Messages {
				if len(m.Results) > 0 {
					at = i
				}
			}
			if at < 0 || len(h.Messages[at].Results) != 4 {
				t.Fatalf("got no four results: %s", body)
			}
			var got []llm.Image
			for i, r := range h.Messages[at].Results {
				if text := []string{"a.png: a picture", "x.go", "", "half of it"}[i]; r.Output != text || r.Failed != (i == 3) {
					t.Errorf("result %d: got %q, failed %v, want %q", i, r.Output, r.Failed, text)
				}
				got = append(got, r.Images...)
			}
			got = append(got, h.Messages[at].Images...)
			if at+1 < len(h.Messages) && h.Messages[at+1].Role == llm.User {
				got = append(got, h.Messages[at+1].Images...)
			}
			if seen(got) != want {
				t.Errorf("got %s, want %s: %s", seen(got), want, body)
			}
			for _, data := range [][]byte{one, two, three} {
				if n := strings.Count(body, base64.StdEncoding.EncodeToString(data)); n != 1 {
					t.Errorf("an image is sent %d times, want once: %s", n, body)
				}
			}
			for _, m := range after {
				if !strings.Contains(body, m.Text) {
					t.Errorf("%q is lost: %s", m.Text, body)
				}
			}
		})
	}
}

// DataURL reads an image of a data URL; ok is false where it is none.
func DataURL(url string) (i llm.Image, ok bool) {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	b, err := base64.StdEncoding.DecodeString(data)
	return llm.Image{MediaType: head, Data: b}, ok && err == nil && strings.HasPrefix(url, "data:")
}
