package history_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// sizeOf is what messages take, in bytes.
func sizeOf(all []llm.Message) (n int) {
	for _, m := range all {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Input)
		}
		for _, r := range m.Results {
			n += len(r.Output)
		}
	}
	return n
}

func TestTold(t *testing.T) {
	t.Parallel()
	t.Run("SESS-7 LOOP-7 a newest part that is too long by itself is told in part, and what is told is one that a provider takes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := blobs(t)
			messages := talk(t, b)
			ref, err := history.Put(t.Context(), b, events.Part{Run: "r", Messages: messages})
			if err != nil {
				t.Fatal(err)
			}
			limit := rapid.IntRange(40, 400).Draw(t, "limit")
			all, err := history.ToMessages(t.Context(), b, &ref, int64(limit))
			told := llm.FromHistory(all)
			if err != nil {
				t.Fatal(err)
			}
			if n := sizeOf(told); n > limit+200 { // the words about what is left out
				t.Fatalf("%d bytes are told, the limit is %d", n, limit)
			}
			if len(told) == 0 || told[0].Role != llm.User || told[0].Text == "" {
				t.Fatalf("it begins with %+v", told)
			}
			for i, m := range told {
				if (m.Role == llm.ToolResults) != (i > 0 && len(told[i-1].Calls) > 0) || len(m.Calls) > 0 && (i+1 == len(told) || len(told[i+1].Results) != len(m.Calls)) {
					t.Fatalf("message %d of %d: %+v", i, len(told), m)
				}
			}
		})
	})
	t.Run("SESS-7 the newest words of a long input are those that are told", func(t *testing.T) {
		t.Parallel()
		b := blobs(t)
		messages := []events.Message{{Role: events.RoleUser, Content: "read all"}}
		for i := range 40 {
			id := fmt.Sprint("c", i)
			messages = append(messages, events.Message{Role: events.RoleAssistant, Calls: []events.MessageCall{{ID: id, Name: "page", Input: []byte("{}")}}},
				events.Message{Role: events.RoleTool, Results: []events.MessageResult{{CallID: id, Name: "page", Output: strings.Repeat("word ", 60)}}})
		}
		messages = append(messages, events.Message{Role: events.RoleAssistant, Content: "The answer is 42."})
		ref, err := history.Put(t.Context(), b, events.Part{Run: "r", Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		all, err := history.ToMessages(t.Context(), b, &ref, 1000)
		told := llm.FromHistory(all)
		if err != nil || len(told) < 4 || sizeOf(told) > 1200 || !strings.Contains(told[0].Text, "left out") || told[len(told)-1].Text != "The answer is 42." {
			t.Fatalf("%d messages of %d bytes, %v", len(told), sizeOf(told), err)
		}
	})
}

func TestOfCrossings(t *testing.T) {
	t.Parallel()
	begun := func() *runtest.Builder {
		b := runtest.New("main", "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		return b
	}
	faulty := func(n int, text, reason string) *events.TurnFinishedData {
		d := runtest.Turn(n, "a", text)
		d.OutputFault, d.FinishReason = "does not fit the schema", reason
		return d
	}
	told := func(t *testing.T, b *runtest.Builder) []events.Message {
		t.Helper()
		all, err := history.Of(b.State())
		for i := range all {
			all[i].Provider = "" // of a task's own history, which may not speak in a provider's name
		}
		if err == nil {
			err = history.CheckGiven(all)
		}
		if err != nil {
			t.Fatalf("%v: %+v", err, all)
		}
		return all
	}
	t.Run("DLV-9 LOOP-12 an answer that was fixed stands with what was said of it, so that no two answers follow each other", func(t *testing.T) {
		t.Parallel()
		b := begun()
		b.Append(faulty(1, "no document", events.FinishDone), runtest.Turn(2, "a", "{}"))
		all := told(t, b)
		if len(all) != 4 || all[1].Content != "no document" || !strings.Contains(all[2].Content, "does not fit") || !all[2].Metadata.Note || all[3].Content != "{}" {
			t.Fatalf("%+v", all)
		}
	})
	t.Run("LOOP-12 an answer that says nothing is left out, and what was said of it", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", " \n"} {
			b := begun()
			b.Append(faulty(1, text, events.FinishEmpty), runtest.Turn(2, "a", "here"))
			if all := told(t, b); len(all) != 2 || all[1].Content != "here" || strings.Contains(all[0].Content, "harness") {
				t.Errorf("%+v", all)
			}
		}
	})
}
