package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/pkg/events"
)

// told is a conversation in one line.
func told(all []events.Message) string {
	var out []string
	for _, m := range all {
		line := m.Role + ":" + m.Content
		for _, c := range m.Calls {
			line += fmt.Sprintf(" %s=%s%s", c.ID, c.Name, c.Input)
		}
		for _, r := range m.Results {
			line += fmt.Sprintf(" %s=%s(%s)%t", r.CallID, r.Name, r.Output, r.Failed)
		}
		out = append(out, line)
	}
	return strings.Join(out, " | ")
}

func TestRead(t *testing.T) {
	t.Parallel()
	const talk = `{"role":"user","content":"look"},{"role":"assistant","tool_calls":[{"id":"1","name":"read","input":{"path":"a"}}]},` +
		`{"role":"tool","tool_results":[{"call_id":"1","name":"read","output":"text"}]},{"role":"assistant","content":"done","timestamp":"2026-01-02T03:04:05Z"}`
	const want = `user:look | assistant: 1=read{"path":"a"} | tool: 1=read(text)false | assistant:done`
	for _, tc := range []struct{ name, text, want string }{
		{"an array", "[" + talk + "]", want},
		{"an object", `{"session_id":"s","total_tokens":5,"messages":[` + talk + "]}", want},
		{"a result in a message of its own", `[{"role":"user","content":"look"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]},` +
			`{"role":"tool","tool_call_id":"1","name":"read","content":"text"},{"role":"assistant","content":"done"}]`, want},
		{"parts", `[{"role":"system","content":[{"text":"be good"}]},{"role":"user","content":[{"text":"look"}]},{"role":"model","content":[{"toolRequest":{"ref":"1","name":"read","input":{"path":"a"}}}]},` +
			`{"role":"tool","content":[{"toolResponse":{"ref":"1","name":"read","output":"text"}}]},{"role":"model","content":[{"text":"done"}]}]`, want},
		{"parts without references", `[{"role":"user","content":[{"text":"look"}]},{"role":"model","content":[{"toolRequest":{"name":"read"}}]},` +
			`{"role":"tool","content":[{"toolResponse":{"name":"read","output":{"a":1}}}]},{"role":"model","content":[{"text":"done"}]}]`, `user:look | assistant: read=read{} | tool: read=read({"a":1})false | assistant:done`},
		{"messages of one side become one", `[{"role":"user","content":"a"},{"role":"human","content":"b"},{"role":"ai","content":"c"},{"role":"assistant","content":"d"}]`, "user:a\n\nb | assistant:c\n\nd"},
		{"calls and inputs without an answer", `[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","name":"read"},{"id":"2","name":"read"}]},{"role":"tool","tool_call_id":"2","content":"x"}]`,
			"user:a | assistant: 1=read{} 2=read{} | tool: 1=read((the file has no result of this call))true 2=read(x)false | assistant:(This input ended without an answer: the file ends here.)"},
		{"what is not to be believed is left out", `[{"role":"user","content":"a","metadata":{"run":"r","agent":"b"}},{"role":"assistant","content":"b","raw":{"x":1},"provider":"anthropic"}]`, "user:a | assistant:b"},
	} {
		t.Run("SESS-10 SESS-18 "+tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := history.Read([]byte(tc.text))
			if err != nil || told(got) != tc.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, told(got), tc.want)
			}
			for _, m := range got {
				if m.Metadata.Run != "" || m.Raw != nil || m.Provider != "" {
					t.Errorf("%+v", m)
				}
			}
		})
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no JSON", "hello", "not a conversation"},
		{"another kind of JSON", "5", "not a conversation"},
		{"nothing", "[]", "no messages"},
		{"another object", `{"agent":"a"}`, "no messages"},
		{"an unknown role", `[{"role":"boss","content":"a"}]`, `message 1: the role "boss"`},
		{"an answer first", `[{"role":"assistant","content":"a"}]`, "want user"},
		{"a result of no call", `[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"9","content":"x"}]`, "message 2: it has a result"},
		{"a result twice", `[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","name":"r"}]},{"role":"tool","tool_call_id":"1"},{"role":"tool","tool_call_id":"1"}]`, "message 4: it has a result"},
		{"two calls of one name", `[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","name":"r"},{"id":"1","name":"r"}]}]`, "an id of its own"},
		{"arguments that are no JSON", `[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"r","arguments":"{"}}]}]`, "its input as JSON"},
		{"text that is elsewhere", `[{"role":"user","content_ref":{"sha256":"00","size":1}}]`, "too large for it"},
		{"parts of another kind", `[{"role":"user","content":[{"media":{"url":"x"}}]}]`, "part 1"},
		{"content of another kind", `[{"role":"user","content":5}]`, "neither a text"},
		{"too large", "[" + strings.Repeat(" ", history.MaxFile) + "]", "the limit is"},
		{"too large when it is sent", `[{"role":"user","content":"` + strings.Repeat("<", history.MaxFile/2) + `"},{"role":"assistant","content":"a"}]`, "the limit is"},
		{"too many", "[" + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},{"role":"assistant","content":"b"},`, events.MaxGiven/2+1), ",") + "]", "258 messages"},
	} {
		t.Run("SESS-10 refused: "+tc.name, func(t *testing.T) {
			t.Parallel()
			if got, err := history.Read([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v %.300s", err, told(got))
			}
		})
	}
	t.Run("SESS-10 whatever the messages are, what is read is one that every provider takes and is read again as the same", func(t *testing.T) {
		t.Parallel()
		pieces := []string{`{"role":"user","content":"a"}`, `{"role":"assistant","content":"b"}`, `{"role":"model","content":[{"text":"c"},{"toolRequest":{"ref":"1","name":"r"}}]}`,
			`{"role":"tool","tool_call_id":"1","content":"x"}`, `{"role":"assistant","content":"","tool_calls":[{"id":"1","name":"q","input":[1]},{"id":"2","name":"q"}]}`,
			`{"role":"tool","tool_results":[{"call_id":"2","name":"z","output":"y"}]}`, `{"role":"system","content":"s"}`, `{"role":"user","content":" "}`, `{}`, `null`, `{"role":"assistant"}`}
		rapid.Check(t, func(t *rapid.T) {
			text := "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "messages"), ",") + "]"
			got, err := history.Read([]byte(text))
			if err != nil {
				return
			}
			if err := history.CheckGiven(got); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, told(got))
			}
			b, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := history.Read(b)
			if err != nil || told(again) != told(got) {
				t.Fatalf("%v\n%s\n%s", err, told(got), told(again))
			}
		})
	})
}
