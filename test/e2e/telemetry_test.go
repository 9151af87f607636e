package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// receiver is an OTLP/HTTP receiver.
type receiver struct {
	mu sync.Mutex
	// Guarded by mu.
	spans   []*otlp.Span
	metrics []string
	raw     []byte
	bad     []error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, body...)
	var spans collect.ExportTraceServiceRequest
	var metrics collectmetrics.ExportMetricsServiceRequest
	switch {
	case err != nil:
	case req.URL.Path == "/v1/traces":
		if err = proto.Unmarshal(body, &spans); err == nil {
			for _, res := range spans.ResourceSpans {
				for _, scope := range res.ScopeSpans {
					r.spans = append(r.spans, scope.Spans...)
				}
			}
		}
	case req.URL.Path == "/v1/metrics":
		if err = proto.Unmarshal(body, &metrics); err == nil {
			for _, res := range metrics.ResourceMetrics {
				for _, scope := range res.ScopeMetrics {
					for _, m := range scope.Metrics {
						r.metrics = append(r.metrics, m.Name)
					}
				}
			}
		}
	default:
		err = fmt.Errorf("no one should ask for %s", req.URL.Path)
	}
	if err != nil {
		r.bad = append(r.bad, err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// tree draws the spans below one as "name(child child)", each level sorted.
func tree(spans []*otlp.Span, parent []byte) string {
	var all []string
	for _, s := range spans {
		if string(s.ParentSpanId) == string(parent) {
			below := tree(spans, s.SpanId)
			if below != "" {
				below = "(" + below + ")"
			}
			all = append(all, s.Name+below)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func attributes(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = strings.Trim(a.Value.String(), " ")
	}
	return all
}

// worker reads in its first step, which is asked for in one turn, and only speaks in its second.
const worker = `
turns:
  - when: {step: one, turn: 1}
    text: I read.
    calls:
      - {name: read, input: {path: note.txt}}
    usage: {input: 100, output: 20, cached: 7}
  - when: {step: one, turn: 2}
    text: secret words
    usage: {input: 200, output: 30}
  - when: {step: two, turn: 1}
    text: done
    usage: {input: 5, output: 6}
`

func TestTelemetry(t *testing.T) {
	t.Parallel()
	in := &receiver{}
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.OTLP = server.URL }
	w.agent(events.Agent{Name: "worker", Tools: []string{"read"}, Prompt: "You work.", Autonomy: 3}, worker)
	w.file("session/s1", "note.txt", "private note\n")
	first := w.start()
	const trace, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	w.publish(events.TaskSubject("test"), `{"id":"traced","agent":"worker","task":"private task","session_id":"s1","plan":{"steps":[{"id":"one","description":"read"},{"id":"two","description":"speak","needs":["one"],"critical":true}]}}`,
		"traceparent", "00-"+trace+"-"+above+"-01")
	waits := w.await("traced", "waiting at a gate", func(s run.State) bool { return len(s.Waiting()) > 0 })
	gate := waits.Waiting()[0].ID
	first.stop() // every role ends in the middle, others come
	second := w.start()
	w.publish(events.GateSubject("test", "traced", gate), `{"decision":"approve"}`)
	s := w.ended("traced")
	second.stop()
	in.mu.Lock()
	defer in.mu.Unlock()

	t.Run("OBS-23 ECO-7 one tree of run, steps, turns, model calls and tool call, each once, though all roles were others in the middle", func(t *testing.T) {
		if len(in.bad) > 0 {
			t.Fatal(in.bad)
		}
		parent, _ := hex.DecodeString(above)
		const want = "invoke_workflow worker(invoke_agent worker(gate turn(chat worker)) invoke_agent worker(turn(chat worker execute_tool read) turn(chat worker)))"
		if got := tree(in.spans, parent); got != want || s.Status != events.Completed {
			t.Errorf("%s:\ngot  %s\nwant %s", s.Status, got, want)
		}
		seen := map[string]bool{}
		for _, sp := range in.spans {
			if id := hex.EncodeToString(sp.SpanId); seen[id] {
				t.Errorf("%s comes twice", sp.Name)
			} else {
				seen[id] = true
			}
			if got := hex.EncodeToString(sp.TraceId); got != trace {
				t.Errorf("%s is in trace %s", sp.Name, got)
			}
			if sp.EndTimeUnixNano < sp.StartTimeUnixNano {
				t.Errorf("%s ends before it begins", sp.Name)
			}
			if strings.HasPrefix(sp.Name, "invoke") && sp.EndTimeUnixNano == sp.StartTimeUnixNano {
				t.Errorf("%s takes no time: its beginning was not found", sp.Name)
			}
		}
	})
	t.Run("ECO-7 the attributes are those of the GenAI conventions", func(t *testing.T) {
		for _, sp := range in.spans {
			a := attributes(sp)
			switch sp.Name {
			case "chat worker":
				if a["gen_ai.operation.name"] != `string_value:"chat"` || a["gen_ai.provider.name"] != `string_value:"scripted"` || a["gen_ai.request.model"] != `string_value:"worker"` || sp.Kind != otlp.Span_SPAN_KIND_CLIENT {
					t.Errorf("chat: %v", a)
				}
				if a["inspan.step.id"] == `string_value:"two"` && (a["gen_ai.usage.input_tokens"] != "int_value:5" || a["gen_ai.usage.output_tokens"] != "int_value:6") {
					t.Errorf("usage: %v", a)
				}
			case "execute_tool read":
				if a["gen_ai.tool.name"] != `string_value:"read"` || a["gen_ai.tool.call.id"] == "" || a["gen_ai.operation.name"] != `string_value:"execute_tool"` {
					t.Errorf("tool: %v", a)
				}
			}
		}
		for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "inspan.tool.duration", "inspan.run.duration"} {
			if !slices.Contains(in.metrics, name) {
				t.Errorf("no metric %s among %v", name, in.metrics)
			}
		}
	})
	t.Run("OBS-23 nothing that people or models wrote is exported", func(t *testing.T) {
		for _, text := range []string{"private task", "private note", "secret words"} {
			if strings.Contains(string(in.raw), text) {
				t.Errorf("%q is exported", text)
			}
		}
	})
	t.Run("OBS-23 all events of the run carry the trace of its task", func(t *testing.T) {
		for _, r := range w.events("traced") {
			if f, err := events.Decode(r.Bytes); err != nil || f.TraceParent != "00-"+trace+"-"+above+"-01" {
				t.Fatalf("event %d has %q: %v", f.Sequence, f.TraceParent, err)
			}
		}
	})
}
