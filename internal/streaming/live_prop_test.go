package streaming

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lines is a publisher that remembers.
type lines struct{ seen [][]byte }

func (l *lines) Publish(_ string, data []byte) { l.seen = append(l.seen, slices.Clone(data)) }

// A watcher who joins at any time, loses any live message and asks whenever it likes hears every byte once and in
// order.
func TestJoinersHearEveryByteOnce(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-8 a late watcher of .live gets the text so far, without a gap or a repetition", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			out := &lines{}
			feed := New(out)
			s := feed.Open("r", About{Step: "s", Turn: 1, Attempt: 1})
			var received, said strings.Builder
			done := 0
			j := NewJoiner(func(p Piece) {
				if p.Missed || p.Again {
					t.Fatalf("missed %t, again %t of a stream whose services answer", p.Missed, p.Again)
				}
				received.WriteString(p.Content)
				if p.Done {
					done++
				}
			})
			taken := 0 // how much of what was published has been delivered or lost
			watching := false
			deliver := func(t *rapid.T) {
				for ; taken < len(out.seen); taken++ {
					if watching && rapid.IntRange(0, 3).Draw(t, "lost") > 0 {
						j.Take(out.seen[taken])
					}
				}
			}
			answer := func(t *rapid.T) {
				watching = true
				parts := feed.SoFar("r")
				if rapid.Bool().Draw(t, "backwards") {
					slices.Reverse(parts)
				}
				for _, p := range parts {
					j.Take(p)
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"say": func(t *rapid.T) {
					text := rapid.StringMatching(`[a-zäöü😀 ]{1,40}`).Draw(t, "text")
					event := rapid.SampledFrom([]string{Token, Thinking}).Draw(t, "event")
					s.Write(event, "", text)
					said.WriteString(text)
				},
				"deliver": deliver,
				"answer":  answer,
			})
			s.Done(nil)
			deliver(t)
			answer(t)
			if done != 1 || j.Waiting() {
				t.Fatalf("%d ends, waiting %t", done, j.Waiting())
			}
			var whole strings.Builder
			again := NewJoiner(func(p Piece) { whole.WriteString(p.Content) })
			for _, p := range feed.SoFar("r") {
				again.Take(p)
			}
			if whole.String() != said.String() {
				t.Fatalf("so far is %q, said was %q", whole.String(), said.String())
			}
			if received.String() != said.String() {
				t.Fatalf("heard %q, said %q", received.String(), said.String())
			}
			s.Close()
			if left := feed.SoFar("r"); left != nil {
				t.Fatalf("%d parts are kept of a stream that was closed", len(left))
			}
		})
	})
}

// Strangers may say anything on a live subject.
func FuzzTake(f *testing.F) {
	for _, m := range []Message{{ID: "a", At: -1}, {ID: "a", At: 1 << 62, Content: "x"}, {ID: "a", Content: "x", N: 1, Done: true}} {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		n := 0
		j := NewJoiner(func(p Piece) { n += len(p.Content) })
		j.Take(one)
		j.Take(other)
		j.Take(one)
		j.GiveUp()
		if n > len(one)+len(other) || j.Waiting() {
			t.Fatalf("%d bytes heard of %d, waiting %t", n, len(one)+len(other), j.Waiting())
		}
	})
}
