package gateway_test

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
)

// shaper is an agent with structured output, that saves an artifact.
var shaper = map[string]string{
	"agents/shaper.prompt": "---\nname: shaper\ndescription: A test agent\nversion: 1\nmodel: scripted/shaper\ntools: [write, artifact_save]\n" +
		"output: {schema: {verdict: string}}\nharness:\n  enabled: true\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n",
	"scripts/shaper.yaml": "turns:\n  - when: {turn: 1}\n    text: I write it.\n    calls:\n      - {name: write, input: {path: report.txt, content: good}}\n" +
		"  - when: {turn: 2}\n    text: I save it.\n    calls:\n      - {name: artifact_save, input: {path: report.txt, type: report}}\n" +
		"  - when: {turn: 3}\n    text: '{\"verdict\":\"good\"}'\n",
}

func TestFinal(t *testing.T) {
	t.Parallel()
	t.Run("DLV-6 DLV-7 DLV-8 who waits, who asks later, the SDK and the event of the end say the same, with structured output and artifacts", func(t *testing.T) {
		t.Parallel()
		w := newWorldOf(t, shaper)
		d := w.open(t, nil)
		a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", "all", `{"agent_id":"shaper","task":"judge","autonomy":5}`))
		if a.Result == nil || string(a.Result.Structured) != `{"verdict":"good"}` || a.Result.Output != `{"verdict":"good"}` {
			t.Fatalf("%+v", a.Result)
		}
		saved := false
		for _, f := range a.Result.Artifacts {
			saved = saved || f.Path == "report.txt" && f.Size == 4 && f.SHA256 != ""
		}
		if !saved {
			t.Errorf("%+v", a.Result.Artifacts)
		}
		same := func(what string, got any) {
			t.Helper()
			text := func(v any) string {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			if text(got) != text(a.Result) {
				t.Errorf("%s: %s\nwant %s", what, text(got), text(a.Result))
			}
		}
		same("asked later", in[gateway.RunAnswer](t, d.want(t, 200, "GET", "/api/v1/runs/"+a.Run, "all", "")).Result)
		out, err := w.client.Runs().Outcome(t.Context(), a.Run)
		if err != nil {
			t.Fatal(err)
		}
		same("the SDK", out.Final)
		published := 0
		for item, err := range w.client.Events(t.Context(), a.Run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if end, ok := item.Payload.(*events.RunCompletedData); ok {
				published++
				same("the event", run.Final{Result: end.Result, Structured: a.Result.Structured, Artifacts: a.Result.Artifacts})
			}
		}
		if published != 1 {
			t.Errorf("%d ends", published)
		}
	})
}
