package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
)

// The last revision of MCP that has sessions, and the first that has none.
const (
	withSessions = "2025-11-25"
	stateless    = "2026-07-28"
)

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// mcp connects a client. person, which may be nil, is asked for gates.
func (d *door) mcp(t *testing.T, token, revision string, person func(*sdk.ElicitParams) *sdk.ElicitResult,
	notes func(*sdk.ProgressNotificationParams)) *sdk.ClientSession {
	t.Helper()
	opts := &sdk.ClientOptions{}
	if person != nil {
		opts.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return person(r.Params), nil
		}
	}
	if notes != nil {
		opts.ProgressNotificationHandler = func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			notes(r.Params)
		}
	}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(d.secrets[token])}},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if got := s.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("the revision is %s, want %s", got, revision)
	}
	return s
}

type args = map[string]any

// call calls a tool and returns what it says.
func callTool(t *testing.T, s *sdk.ClientSession, name string, in args) (gateway.ToolRun, *sdk.CallToolResult) {
	t.Helper()
	p := &sdk.CallToolParams{Name: name, Arguments: in}
	p.SetProgressToken("p")
	res, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return standing(t, res), res
}

func standing(t *testing.T, res *sdk.CallToolResult) (out gateway.ToolRun) {
	t.Helper()
	if res.StructuredContent == nil {
		return out
	}
	b, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func text(res *sdk.CallToolResult) string {
	if len(res.Content) != 1 {
		return ""
	}
	c, _ := res.Content[0].(*sdk.TextContent)
	return c.Text
}

func toolsOf(t *testing.T, s *sdk.ClientSession) (names []string) {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func accepts(decision string) func(*sdk.ElicitParams) *sdk.ElicitResult {
	return func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: args{"decision": decision, "reason": "so be it"}}
	}
}

func TestMCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil)
	for _, revision := range []string{withSessions, stateless} {
		t.Run("TRIG-4 ECO-4a an agent is called in revision "+revision+", with progress, and by its own name", func(t *testing.T) {
			var mu sync.Mutex
			var notes []string
			var last float64
			s := d.mcp(t, "all", revision, nil, func(p *sdk.ProgressNotificationParams) {
				mu.Lock()
				defer mu.Unlock()
				if p.Progress <= last {
					t.Errorf("progress goes from %v to %v", last, p.Progress)
				}
				last = p.Progress
				notes = append(notes, p.Message)
			})
			out, res := callTool(t, s, "call_harness_agent", args{"agent": "talker", "task": "say so", "session_id": "m" + revision,
				"timeout": "30m", "autonomy": 5})
			if res.IsError || out.Status != events.Completed || out.Output != said || text(res) != said {
				t.Fatalf("%+v\n%s", out, text(res))
			}
			state, err := w.client.State(t.Context(), out.Run)
			if err != nil || state.Created.By != "all" || state.Created.Session != "m"+revision {
				t.Errorf("%+v, %v", state.Created, err)
			}
			mu.Lock()
			if len(notes) == 0 || !strings.Contains(notes[0], out.Run) {
				t.Errorf("progress: %q", notes)
			}
			last = 0
			mu.Unlock()
			want := []string{"answer_gate", "asks", "broken", "call_harness_agent", "control_run", "get_run", "helper", "looker", "several", "slowly", "talker"}
			if got := toolsOf(t, s); !slices.Equal(got, want) {
				t.Errorf("tools %q, want %q", got, want)
			}
			if out, res = callTool(t, s, "helper", args{"task": "say so", "autonomy": 5}); out.Output != "It is done." {
				t.Errorf("%+v %s", out, text(res))
			}
			if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "nobody", Arguments: args{}}); err == nil {
				t.Error("a tool that there is not was called")
			}
			if _, res = callTool(t, s, "helper", args{"task": "x", "mood": "good"}); !res.IsError || !strings.Contains(text(res), "mood") {
				t.Errorf("an argument that there is not: %s", text(res))
			}
		})
		t.Run("TRIG-4 ECO-4a GATE-9 a person is asked for a gate by elicitation, revision "+revision, func(t *testing.T) {
			var asked *sdk.ElicitParams
			s := d.mcp(t, "all", revision, func(p *sdk.ElicitParams) *sdk.ElicitResult {
				asked = p
				return accepts("approve")(p)
			}, nil)
			out, res := callTool(t, s, "helper", args{"task": "x", "autonomy": 1})
			if out.Status != events.Completed || asked == nil || !strings.Contains(asked.Message, out.Run) {
				t.Fatalf("%+v\n%s\nasked: %+v", out, text(res), asked)
			}
			var gates int
			for item, err := range w.client.Events(t.Context(), out.Run, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if p, ok := item.Payload.(*events.GateApprovedData); ok {
					gates++
					if p.Assurance != events.AssuranceGateway || p.By != "all" || p.Reason != "so be it" {
						t.Errorf("%+v", p)
					}
				}
			}
			if gates == 0 {
				t.Error("no gate was approved")
			}
			if slices.Contains(toolsOf(t, s), "answer_gate") {
				t.Error("the model of a client that asks a person may answer itself")
			}
			if _, res := callTool(t, s, "answer_gate", args{"run_id": out.Run, "gate_id": "x", "proposal_hash": "x",
				"decision": "approve"}); !res.IsError || !strings.Contains(text(res), "asks a person") {
				t.Errorf("%s", text(res))
			}
		})
		t.Run("TRIG-4 ECO-4a a rejected gate pauses the run, an undecided one waits, revision "+revision, func(t *testing.T) {
			out, res := callTool(t, d.mcp(t, "all", revision, accepts("reject"), nil), "helper", args{"task": "x", "autonomy": 1})
			if out.Status != events.Paused || res.IsError || !strings.Contains(out.Next, "control_run") {
				t.Errorf("%+v", out)
			}
			decline := func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} }
			out, _ = callTool(t, d.mcp(t, "all", revision, decline, nil), "helper", args{"task": "x", "autonomy": 1})
			if out.Status.Ended() || len(out.Gates) != 1 || !strings.Contains(out.Gates[0].Note, "did not decide") {
				t.Errorf("%+v", out)
			}
			// a token that may not answer asks nobody
			out, _ = callTool(t, d.mcp(t, "both", revision, func(*sdk.ElicitParams) *sdk.ElicitResult {
				t.Error("a person was asked")
				return &sdk.ElicitResult{Action: "cancel"}
			}, nil), "helper", args{"task": "x", "autonomy": 1})
			if len(out.Gates) != 1 || !strings.Contains(out.Next, out.Gates[0].Gate) {
				t.Errorf("%+v", out)
			}
		})
		t.Run("TRIG-4 ECO-4a a gate is told where nobody can be asked, and answered with a tool, revision "+revision, func(t *testing.T) {
			s := d.mcp(t, "all", revision, nil, nil)
			out, res := callTool(t, s, "helper", args{"task": "x", "autonomy": 1})
			if len(out.Gates) != 1 || res.IsError || !strings.Contains(text(res), out.Gates[0].Gate) {
				t.Fatalf("%+v\n%s", out, text(res))
			}
			answer := args{"run_id": out.Run, "gate_id": out.Gates[0].Gate, "proposal_hash": "00", "decision": "approve"}
			if _, res := callTool(t, s, "answer_gate", answer); !res.IsError || !strings.Contains(text(res), "stale_answer") {
				t.Errorf("%s", text(res))
			}
			answer["proposal_hash"] = out.Gates[0].Hash
			if _, res := callTool(t, s, "answer_gate", answer); res.IsError {
				t.Errorf("%s", text(res))
			}
			if out, _ = callTool(t, s, "get_run", args{"run_id": out.Run, "wait": "2m"}); out.Output != "It is done." {
				t.Errorf("%+v", out)
			}
		})
		t.Run("TRIG-4 ECO-4a a call that is cancelled leaves its run, and the same key finds it again, revision "+revision, func(t *testing.T) {
			begun := make(chan struct{})
			once := sync.OnceFunc(func() { close(begun) })
			s := d.mcp(t, "both", revision, nil, func(*sdk.ProgressNotificationParams) { once() })
			in := args{"agent": "talker", "task": "x", "autonomy": 5, "idempotency_key": "k" + revision}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-begun; cancel() }()
			p := &sdk.CallToolParams{Name: "call_harness_agent", Arguments: in}
			p.SetProgressToken("p")
			_, _ = s.CallTool(ctx, p) // it may have been faster
			_ = s.Close()
			second := w.open(t, nil)
			out, _ := callTool(t, second.mcp(t, "both", revision, nil, nil), "call_harness_agent", in)
			if out.Output != said {
				t.Fatalf("%+v", out)
			}
			in["wait"] = "0s"
			if again, _ := callTool(t, d.mcp(t, "both", revision, nil, nil), "call_harness_agent", in); again.Run != out.Run {
				t.Errorf("run %s, want %s", again.Run, out.Run)
			}
			in["task"] = "y"
			if _, res := callTool(t, d.mcp(t, "both", revision, nil, nil), "call_harness_agent", in); !res.IsError || !strings.Contains(text(res), "duplicate_id") {
				t.Errorf("%s", text(res))
			}
		})
		t.Run("TRIG-4 ECO-4a a failure is an error with its reason, and so is a refusal, revision "+revision, func(t *testing.T) {
			s := d.mcp(t, "all", revision, nil, nil)
			out, res := callTool(t, s, "broken", args{"task": "x", "autonomy": 5})
			if !res.IsError || out.Status != events.Failed || !strings.Contains(text(res), "the model is gone") {
				t.Errorf("%+v\n%s", out, text(res))
			}
			for _, in := range []args{{"agent": "nobody", "task": "x"}, {"agent": "helper", "task": "x", "session_id": "a b"},
				{"agent": "helper", "task": "x", "wait": "2h"}} {
				if _, res = callTool(t, s, "call_harness_agent", in); !res.IsError || text(res) == "" {
					t.Errorf("%v: %s", in, text(res))
				}
			}
			if _, res = callTool(t, s, "get_run", args{"run_id": "none"}); !res.IsError || !strings.Contains(text(res), "not_found") {
				t.Errorf("%s", text(res))
			}
			out, _ = callTool(t, s, "helper", args{"task": "x", "autonomy": 1})
			if out, _ = callTool(t, s, "control_run", args{"run_id": out.Run, "action": "stop"}); out.FinishReason != events.FinishStopped {
				t.Errorf("%+v", out)
			}
		})
		t.Run("TRIG-4 ECO-4a a token sees and uses what its scopes allow, revision "+revision, func(t *testing.T) {
			s := d.mcp(t, "reader", revision, nil, nil)
			if got := toolsOf(t, s); !slices.Equal(got, []string{"get_run"}) {
				t.Errorf("%q", got)
			}
			for _, name := range []string{"helper", "call_harness_agent", "control_run", "answer_gate"} {
				in := map[string]args{"helper": {"task": "x"}, "call_harness_agent": {"agent": "helper", "task": "x"},
					"control_run": {"run_id": "x", "action": "stop"},
					"answer_gate": {"run_id": "x", "gate_id": "x", "proposal_hash": "x", "decision": "approve"}}[name]
				if _, res := callTool(t, s, name, in); !res.IsError || !strings.Contains(text(res), "scope") {
					t.Errorf("%s: %s", name, text(res))
				}
			}
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 0 {
		t.Errorf("failures inside: %q", w.failed)
	}
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	callHelper  = `{"jsonrpc":"2.0","id":"call 7","method":"tools/call","params":{"name":"helper","arguments":{"task":"x","autonomy":5}}}`
)

func TestMCPRaw(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil)
	accept := []string{"Accept", "application/json, text/event-stream"}
	begin := func(t *testing.T, token string) []string {
		t.Helper()
		a := d.want(t, 200, "POST", "/mcp", token, initialize, accept...)
		session := append(slices.Clone(accept), "Mcp-Session-Id", a.header.Get("Mcp-Session-Id"))
		d.want(t, 202, "POST", "/mcp", token, initialized, session...)
		return session
	}
	t.Run("TRIG-4 ECO-4a the same request of a session that is sent again is the same run", func(t *testing.T) {
		session := begin(t, "all")
		first, again := d.want(t, 200, "POST", "/mcp", "all", callHelper, session...), d.want(t, 200, "POST", "/mcp", "all", callHelper, session...)
		all, err := w.client.Runs().List(t.Context())
		for err == nil && len(all) == 0 { // the index follows
			pause(t)
			all, err = w.client.Runs().List(t.Context())
		}
		if err != nil || len(all) != 1 || !strings.Contains(first.body, all[0].HarnessID) || !strings.Contains(again.body, all[0].HarnessID) {
			t.Errorf("%d runs, %v\n%s\n%s", len(all), err, first.body, again.body)
		}
		other := begin(t, "all")
		if third := d.want(t, 200, "POST", "/mcp", "all", callHelper, other...); strings.Contains(third.body, all[0].HarnessID) {
			t.Error("the request of one session is that of another")
		}
	})
	t.Run("TRIG-4 ECO-4a a session is that of its token, and ends", func(t *testing.T) {
		session := begin(t, "all")
		d.want(t, 404, "POST", "/mcp", "reader", callHelper, session...)
		d.want(t, 404, "DELETE", "/mcp", "reader", "", session...)
		d.want(t, 204, "DELETE", "/mcp", "all", "", session...)
		d.want(t, 404, "POST", "/mcp", "all", callHelper, session...)
	})
	t.Run("TRIG-4 ECO-4a what comes without a token, with too little scope, from another page or too large is refused", func(t *testing.T) {
		d.want(t, 401, "POST", "/mcp", "", initialize, accept...)
		d.want(t, 401, "POST", "/mcp", "wrong", initialize, accept...)
		d.want(t, 403, "POST", "/mcp", "writer", initialize, accept...)
		d.want(t, 403, "POST", "/mcp", "all", initialize, append([]string{"Origin", "https://evil.example"}, accept...)...)
		d.want(t, 413, "POST", "/mcp", "all", `{"x":"`+strings.Repeat("x", 256<<10)+`"}`, accept...)
		d.want(t, 400, "POST", "/mcp", "all", `{"x":`, accept...)
		d.want(t, 405, "PUT", "/mcp", "all", initialize, accept...)
	})
	t.Run("TRIG-4 ECO-4a a requestState is believed nothing", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"helper","task":"theirs","autonomy":1}`)
		d.gate(t, id)
		s := d.mcp(t, "all", stateless, nil, nil)
		for _, state := range []string{"x", `{"run_id":"made-up"}`, `{"run_id":"` + id + `"}`} {
			p := &sdk.CallToolParams{Name: "helper", Arguments: args{"task": "x", "autonomy": 1}, RequestState: state}
			res, err := s.CallTool(t.Context(), p)
			if err != nil || !res.IsError {
				t.Errorf("%s: %+v, %v", state, res, err)
			}
		}
		if s, err := w.client.State(t.Context(), "made-up"); err == nil {
			t.Errorf("%+v", s)
		}
		if s, err := w.client.State(t.Context(), id); err != nil || s.Gates[0].Status != run.GatePending {
			t.Errorf("%+v, %v", s.Gates, err)
		}
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/stop", "all", "")
	})
}
