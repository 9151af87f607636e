package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

func TestShellDir(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 TOOL-16 the folder of a shell is an event, which the next call begins from", func(t *testing.T) {
		t.Parallel()
		texts := []string{"mkdir -p sub/deep && cd sub", "cd deep; exit 3", "pwd", "cd ../..; cd /", "pwd"}
		h := &received{planned: func(req llm.Request) llm.Answer {
			if n := req.Meta.Turn; n <= len(texts) {
				input, err := json.Marshal(map[string]string{"command": texts[n-1]})
				if err != nil {
					t.Error(err)
				}
				return llm.Answer{Calls: []llm.Call{{ID: "a", Name: "bash", Input: input}}}
			}
			return llm.Answer{Text: "done"}
		}}
		w := newWorld(t)
		w.ports.Models = h
		w.agent(events.Agent{Name: "walker", Model: "heard/x", Tools: []string{"bash"}}, "")
		w.start()
		w.task(events.Task{ID: "walk", Agent: "walker", Task: "walk"})
		s := w.ended("walk")
		if s.ToolCallHistory.Len() != len(texts) {
			t.Fatalf("%d calls, %+v", s.ToolCallHistory.Len(), s.Result)
		}
		for i, want := range []string{"sub", "sub/deep", "", "", ""} {
			if r := s.ToolCallHistory.At(i); r.Dir != want {
				t.Errorf("call %d: dir %q, want %q: %+v", i, r.Dir, want, r)
			}
		}
		for i, end := range map[int]string{2: "/sub/deep\n", 4: "/sub/deep\n"} {
			if r := s.ToolCallHistory.At(i); !strings.HasSuffix(r.Result, end) {
				t.Errorf("call %d: %q, want %q", i, r.Result, end)
			}
		}
	})
}
