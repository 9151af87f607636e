package cli_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestReplInterrupt presses Ctrl+C while a model that streams is in the middle of its answer.
func TestReplInterrupt(t *testing.T) {
	t.Parallel()
	frames := func(text string) []string {
		var out []string
		for _, data := range []string{`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"output_tokens":1}}}`,
			fmt.Sprintf(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%q}}`, text),
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`} {
			out = append(out, "data: "+data+"\n\n")
		}
		return out
	}
	server := llmtest.Serve(t, llmtest.Stuck(frames("Half of the answer.\n")[:2]...), llmtest.Stream(frames("The rest of it.")...))
	d := newDesk(t)
	putFile(t, filepath.Join(d.dir, "agents", "streamer.prompt"), strings.Replace(agent("streamer", "read"), "scripted/streamer", "anthropic/m", 1))
	d.up(func(c *service.Config) { c.AnthropicKey, c.AnthropicBaseURL = secret.New(llmtest.Key), server.URL })
	tm := d.terminal("repl", "streamer", "--session", "cut")
	at := tm.sees(0, "› ")
	t.Run("SESS-17 LIFE-3 Ctrl+C keeps what the model said so far in the log, with its tokens, and stops the run", func(t *testing.T) {
		tm.types("ask it\r")
		at = tm.sees(at, "Half of the answer.")
		tm.types("\x03")
		at = tm.sees(at, "stopping")
		at = tm.sees(at, "✗")
		at = tm.sees(at, "› ")
		s := decode[run.State](t, d.want(0, nil, "inspect", "last", "--json").out)
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || s.Turns().Len() != 1 {
			t.Fatalf("%s %+v, %d turns", s.Status, s.Result, s.Turns().Len())
		}
		if said := s.Turns().At(0); !said.Interrupted || !strings.HasPrefix(said.Text, "Half of the answer.") || said.OutputTokens == 0 || s.Tokens.Total() == 0 {
			t.Errorf("%+v, %d tokens", said, s.Tokens.Total())
		}
	})
	t.Run("SESS-17 the next input goes on from it: the model reads once what it had said", func(t *testing.T) {
		tm.types("go on\r")
		at = tm.sees(at, "The rest of it.")
		tm.sees(at, "› ")
		asked := string(server.Last())
		if strings.Count(asked, "Half of the answer.") != 1 || !strings.Contains(asked, "A person interrupted this answer here") {
			t.Error(asked)
		}
	})
}
