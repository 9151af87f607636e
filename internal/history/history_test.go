package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func blobs(t interface{ Fatal(...any) }) kernel.Blobs {
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return st.Blobs()
}

var text = rapid.StringOf(rapid.RuneFrom([]rune("ab <>&\"\\\n\tüλ\u2028😀")))

// talk draws a conversation that a provider takes, with everything that a message may hold.
func talk(t *rapid.T, b kernel.Blobs) []events.Message {
	ref := func(data string) *events.Ref {
		r, err := b.Put(context.Background(), "text", []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	var all []events.Message
	for i := range rapid.IntRange(1, 4).Draw(t, "inputs") {
		all = append(all, events.Message{Role: events.RoleUser, Content: "ask " + text.Draw(t, "asked"), Metadata: events.MessageMeta{Run: fmt.Sprint("r", i)}})
		for turn := range rapid.IntRange(0, 3).Draw(t, "turns") {
			m := events.Message{Role: events.RoleAssistant, Content: text.Draw(t, "said"), Provider: "anthropic", Metadata: events.MessageMeta{Turn: turn + 1}}
			if rapid.Bool().Draw(t, "long") {
				m.ContentRef = ref("whole " + m.Content)
			}
			raw, _ := json.Marshal(map[string]string{"thinking": text.Draw(t, "raw")})
			if m.Raw = raw; rapid.Bool().Draw(t, "raw apart") {
				m.Raw, m.RawRef = nil, ref(string(raw))
			}
			r := events.Message{Role: events.RoleTool}
			for c := range rapid.IntRange(1, 3).Draw(t, "calls") {
				input, _ := json.Marshal(map[string]string{"path": text.Draw(t, "path")})
				call := events.MessageCall{ID: fmt.Sprintf("c%d-%d-%d", i, turn, c), Name: "read", Input: input}
				if rapid.Bool().Draw(t, "input apart") {
					call.Input, call.InputRef = nil, ref(string(input))
				}
				m.Calls = append(m.Calls, call)
				r.Results = append(r.Results, events.MessageResult{CallID: call.ID, Name: "read", Output: text.Draw(t, "output"), Failed: rapid.Bool().Draw(t, "failed")})
			}
			all = append(all, m, r)
		}
		all = append(all, events.Message{Role: events.RoleAssistant, Content: "answer " + text.Draw(t, "answer")})
	}
	return all
}

// toModel are messages as a model is sent them.
func toModel(ctx context.Context, b history.Getter, all []events.Message) ([]llm.Message, error) {
	whole, err := history.Whole(ctx, b, all)
	return llm.FromHistory(whole), err
}

// plain makes the bytes of JSON compare by what they say.
func plain(t *rapid.T, all []llm.Message) []llm.Message {
	for i := range all {
		all[i].Raw = same(t, all[i].Raw)
		for c := range all[i].Calls {
			all[i].Calls[c].Input = same(t, all[i].Calls[c].Input)
		}
	}
	return all
}

func same(t *rapid.T, raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(v)
	return b
}

// accepted fails where messages do not stand in an order that every provider takes.
func accepted(t *rapid.T, all []llm.Message) {
	for i, m := range all {
		var calls []llm.Call
		before := llm.Role("")
		if i > 0 {
			calls, before = all[i-1].Calls, all[i-1].Role
		}
		ok := len(m.Results) == len(calls)
		switch m.Role {
		case llm.User:
			ok = ok && (i == 0 || before != llm.User)
		case llm.Assistant:
			ok = ok && (before == llm.User || before == llm.ToolResults)
		case llm.ToolResults:
			ok = ok && before == llm.Assistant && len(calls) > 0
		}
		for j := range m.Results {
			ok = ok && m.Results[j].CallID == calls[j].ID
		}
		if !ok {
			t.Fatalf("message %d of %d, %s after %s, is out of its place", i, len(all), m.Role, before)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	t.Run("SESS-10 TEST-12ab a history that was saved part by part, also twice, is loaded and sent without loss", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := blobs(t)
			var newest *events.Ref
			var want []events.Message
			for fence := range rapid.IntRange(1, 4).Draw(t, "runs") {
				p := events.Part{Session: "s", Run: fmt.Sprint("r", fence), Fence: uint64(fence + 1), Prev: newest, Messages: talk(t, b)}
				want = append(want, p.Messages...)
				for range rapid.IntRange(1, 2).Draw(t, "times") { // the second time is one whose word was lost
					ref, err := history.Put(t.Context(), b, p)
					if err != nil {
						t.Fatal(err)
					}
					newest, p.Prev = &ref, &ref
				}
			}
			parts, more, err := history.Load(t.Context(), b, newest, nil)
			if err != nil || more {
				t.Fatal(more, err)
			}
			got := history.Messages(parts)
			direct, err := toModel(t.Context(), b, want)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := toModel(t.Context(), b, got)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(plain(t, loaded), plain(t, direct)) {
				t.Fatalf("got %+v, want %+v", loaded, direct)
			}
			for i, m := range direct { // and nothing of what was stored apart is missing
				if want[i].ContentRef != nil && !strings.HasPrefix(m.Text, "whole ") || want[i].RawRef != nil && m.Raw == nil || len(m.Calls) != len(want[i].Calls) || len(m.Results) != len(want[i].Results) {
					t.Fatalf("%+v became %+v", want[i], m)
				}
			}
		})
	})
	t.Run("SESS-9 the parts stand in the order of their locks, whichever was stored first", func(t *testing.T) {
		t.Parallel()
		b := blobs(t)
		var newest *events.Ref
		for _, fence := range []uint64{2, 1, 3} {
			ref, err := history.Put(t.Context(), b, events.Part{Run: fmt.Sprint(fence), Fence: fence, Prev: newest, Messages: []events.Message{{Role: "user", Content: fmt.Sprint(fence)}}})
			if err != nil {
				t.Fatal(err)
			}
			newest = &ref
		}
		parts, _, err := history.Load(t.Context(), b, newest, nil)
		if err != nil || len(parts) != 3 || parts[0].Run != "1" || parts[1].Run != "2" || parts[2].Run != "3" {
			t.Errorf("%+v %v", parts, err)
		}
	})
	t.Run("SESS-7 a model is told the newest of a history that is too long, and that there was more", func(t *testing.T) {
		t.Parallel()
		b := blobs(t)
		var newest *events.Ref
		for i := range 4 {
			ref, err := history.Put(t.Context(), b, events.Part{Run: fmt.Sprint("r", i), Fence: uint64(i), Prev: newest, Messages: []events.Message{
				{Role: events.RoleUser, Content: fmt.Sprint("ask ", i)}, {Role: events.RoleAssistant, Content: strings.Repeat("x", 150<<10)}}})
			if err != nil {
				t.Fatal(err)
			}
			newest = &ref
		}
		all, err := history.ToMessages(t.Context(), b, newest, history.MaxMessages)
		told := llm.FromHistory(all)
		if err != nil || len(told) != 4 || !strings.HasSuffix(told[0].Text, "ask 2") || !strings.Contains(told[0].Text, "left out") || told[2].Text != "ask 3" {
			t.Fatalf("%d messages, %v", len(told), err)
		}
	})
	t.Run("SESS-7 LOOP-7 also where the newest input alone is too long, the next one has room", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			b := blobs(t)
			all := talk(t, b)
			ref, err := history.Put(context.Background(), b, events.Part{Run: "r", Fence: 1, Messages: all})
			if err != nil {
				t.Fatal(err)
			}
			size := history.Size(events.Part{Messages: all})
			limit := rapid.Int64Range(0, size).Draw(t, "limit")
			shown, err := history.ToMessages(context.Background(), b, &ref, limit)
			told := llm.FromHistory(shown)
			if err != nil {
				t.Fatal(err)
			}
			accepted(t, told)
			var last int64 // the newest input and its answer
			for i := len(all) - 1; last == 0; i-- {
				if all[i].Role == events.RoleUser {
					last = history.Size(events.Part{Messages: []events.Message{all[i], all[len(all)-1]}})
				}
			}
			var got int64
			for _, m := range told {
				got += int64(len(m.Text))
				for _, c := range m.Calls {
					got += int64(len(c.Name) + len(c.Input))
				}
				for _, r := range m.Results {
					got += int64(len(r.Output))
				}
			}
			if most := max(limit, last) + 120; got > most { // the word about it takes some
				t.Fatalf("%d bytes are told, want at most %d", got, most)
			}
			if cut := strings.Contains(told[0].Text, "left out"); !cut && len(told) < len(all) {
				t.Fatalf("%d of %d messages are told, and nothing says so; limit %d of %d", len(told), len(all), limit, size)
			}
		})
	})
	t.Run("SESS-10 a part that is gone is an error, not a shorter history", func(t *testing.T) {
		t.Parallel()
		b := blobs(t)
		ref, err := history.Put(t.Context(), b, events.Part{Run: "r", Prev: &events.Ref{SHA256: strings.Repeat("0", 64), Size: 3}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := history.Load(t.Context(), b, &ref, nil); err == nil {
			t.Error("no error")
		}
	})
}

func TestOf(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-12 PLUS-2 the history of any run, wherever it stands, is one that every provider takes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("demo", "r")
			for range rapid.IntRange(1, 60).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
			}
			s := b.State()
			all, err := history.Of(s)
			if err != nil {
				t.Fatal(err)
			}
			for i := range all { // what is stored apart counts as said, and ids of random histories repeat
				m := &all[i]
				m.Raw, m.RawRef, m.Provider = nil, nil, ""
				if m.Role == events.RoleUser && strings.TrimSpace(m.Content) == "" || m.Role == events.RoleAssistant && m.ContentRef != nil {
					m.Content = "x"
				}
				m.ContentRef = nil
				for c := range m.Calls {
					m.Calls[c].ID, m.Calls[c].Input, m.Calls[c].InputRef = fmt.Sprint(c), json.RawMessage("{}"), nil
				}
				for r := range m.Results {
					m.Results[r].CallID = fmt.Sprint(r)
				}
			}
			if len(all) > events.MaxGiven {
				all = nil
			}
			if err := history.CheckGiven(all); err != nil {
				t.Fatalf("%v\n%+v", err, all)
			}
		})
	})
}
