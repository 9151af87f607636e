package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway"
)

// part is a message of the answer to a prompt.
type part struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// talk is a prompt with its answer, as a plain client of NATS has it.
type talk struct {
	t   *testing.T
	out *jettest.Outsider
	sub *jettest.Answers
	// text is all that the agent said, run the run, queries the questions; code and why are the error that came.
	text, run, code, why string
	acks                 int
}

// prompted sends a prompt. id may be "".
func prompted(t *testing.T, out *jettest.Outsider, agent, text, id string) *talk {
	t.Helper()
	return &talk{t: t, out: out, sub: out.Ask("agents.prompt.inspan.default."+agent, text, id)}
}

// question is what an agent asks.
type asked struct {
	ID     string `json:"id"`
	Reply  string `json:"reply_subject"`
	Prompt string `json:"prompt"`
}

// next reads until a question comes, or the end; over says that it has ended.
func (k *talk) next() (q asked, over bool) {
	k.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
		m, err := k.sub.Next(ctx)
		cancel()
		if err != nil {
			k.t.Fatalf("nothing more came: %v, after %q", err, k.text)
		}
		if m.Data == "" && m.Bare {
			return q, true
		}
		if code := m.Header("Nats-Service-Error-Code"); code != "" {
			k.code, k.why = code, m.Header("Nats-Service-Error")
			continue
		}
		var p part
		if err := json.Unmarshal([]byte(m.Data), &p); err != nil {
			k.t.Fatalf("%v: %q", err, m.Data)
		}
		var text string
		_ = json.Unmarshal(p.Data, &text) // where it is one
		switch p.Type {
		case "status":
			if k.acks++; text != "ack" {
				k.t.Errorf("status %s", p.Data)
			}
		case "response":
			if k.acks == 0 {
				k.t.Error("text before the acknowledgement")
			}
			k.text += text
		case "inspan.run":
			var v struct {
				Run string `json:"run_id"`
			}
			if err := json.Unmarshal(p.Data, &v); err != nil {
				k.t.Error(err)
			}
			k.run = v.Run
		case "query":
			if err := json.Unmarshal(p.Data, &q); err != nil {
				k.t.Error(err)
			}
			return q, false
		}
	}
}

// end reads to the end.
func (k *talk) end() *talk {
	k.t.Helper()
	if q, over := k.next(); !over {
		k.t.Fatalf("it asks %+v", q)
	}
	return k
}

// decide answers a question.
func (k *talk) decide(q asked, text string) {
	k.t.Helper()
	if err := k.out.Publish(q.Reply, []byte(text)); err != nil {
		k.t.Fatal(err)
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	outer := t
	w := newWorld(t, func(c *service.Config) { c.GatewayAgents = true })
	conn, err := station.Gateway(t.Context(), w.station)
	if err != nil {
		t.Fatal(err)
	}
	agents := func(c *gateway.Config) {
		c.Agents, c.Program, c.Heartbeat = jet.AgentBusOf(conn), "1.2.3", time.Second
	}
	out := jettest.Outside(t, w.station.URL())
	beats := out.Hear("agents.hb.*.*.*")
	d := w.open(t, nil, agents)
	until(t, func() bool {
		m, err := out.Request("agents.status.inspan.default.helper", nil, time.Second)
		return err == nil && strings.Contains(string(m.Data), `"session":"helper"`)
	})
	t.Run("ECO-5 agents are instances of the micro service agents, with heartbeats", func(t *testing.T) {
		about := out.Ask("$SRV.INFO.agents", "", "")
		var info tree
		for info == nil {
			m, err := about.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var v tree
			if err := json.Unmarshal([]byte(m.Data), &v); err != nil {
				t.Fatal(err)
			}
			if v.at("metadata.session") == "talker" {
				info = v
			}
		}
		for path, want := range map[string]any{"name": "agents", "version": "1.2.3", "metadata.agent": "inspan",
			"metadata.owner": "default", "metadata.protocol_version": "0.3", "endpoints.0.name": "prompt",
			"endpoints.0.subject": "agents.prompt.inspan.default.talker", "endpoints.0.queue_group": "agents",
			"endpoints.0.metadata.attachments_ok": "false", "endpoints.1.subject": "agents.status.inspan.default.talker"} {
			if got := info.at(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		m, err := out.Request("$SRV.PING.agents."+info.at("id").(string), nil, time.Minute)
		if err != nil || !strings.Contains(string(m.Data), info.at("id").(string)) {
			t.Errorf("%v", err)
		}
		beat, err := beats.Next(t.Context())
		if err != nil || !strings.Contains(beat.Data, `"interval_s":10`) {
			t.Errorf("%v", err)
		}
		m, err = out.Request("agents.status.inspan.default.nobody", nil, time.Minute)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "404" {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("ECO-5 run: a prompt is acknowledged, carried out and answered, and ends with an empty message",
		func(t *testing.T) {
			k := prompted(t, out, "helper", "do it", "").end()
			if k.text != "It is done." || k.code != "" || k.acks == 0 {
				t.Errorf("%+v", k)
			}
			if s, err := w.client.State(t.Context(),
				k.run); err != nil || s.Created.Task != "do it" || s.Status != events.Completed {
				t.Errorf("%+v, %v", s.Status, err)
			}
		})
	t.Run("ECO-5 stream: text comes as it is written, in the session that the envelope names", func(t *testing.T) {
		k := prompted(t, out, "talker", `{"prompt":"talk","session_id":"agents-1"}`, "").end()
		if k.text != said || k.code != "" {
			t.Errorf("%+v", k)
		}
		if s, err := w.client.State(t.Context(), k.run); err != nil || s.Created.Session != "agents-1" {
			t.Errorf("%+v, %v", s.Created, err)
		}
	})
	t.Run("ECO-5 GATE-6 gate: it is a query, whose answer is recorded as the word of the gateway", func(t *testing.T) {
		k := prompted(t, out, "asks", "go", "")
		q, over := k.next()
		if over || !strings.Contains(q.Prompt, "wants to do this") || !strings.HasPrefix(q.Reply,
			"agents.answer.inspan.default.") {
			t.Fatalf("%+v %v", q, over)
		}
		k.decide(q, "perhaps")
		again, over := k.next()
		if over || again.ID != q.ID || again.Reply == q.Reply || !strings.Contains(again.Prompt,
			"neither approve nor reject") {
			t.Fatalf("%+v %v", again, over)
		}
		k.decide(q, "approve") // to a question that is over
		k.decide(again, `{"prompt":"approve"}`)
		if k.end(); k.text != "It is done." || k.code != "" {
			t.Errorf("%+v", k)
		}
		approved := 0
		for item, err := range w.client.Events(t.Context(), k.run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := item.Payload.(*events.GateApprovedData); ok {
				if approved++; p.Assurance != events.AssuranceGateway || p.By != "agents-protocol" {
					t.Errorf("%+v", p)
				}
			}
		}
		if approved != 1 {
			t.Errorf("%d answers", approved)
		}
	})
	t.Run("ECO-5 GATE-6 gate: one that is rejected pauses the run, which asks what becomes of it", func(t *testing.T) {
		k := prompted(t, out, "asks", "go", "")
		q, _ := k.next()
		k.decide(q, "reject not today")
		p, over := k.next()
		if over || !strings.HasPrefix(p.ID, "pause-") {
			t.Fatalf("%+v %v", p, over)
		}
		k.decide(p, "stop")
		if k.end(); k.code != "409" || !strings.Contains(k.why, "stopped") {
			t.Errorf("%+v", k)
		}
		if s, err := w.client.State(t.Context(), k.run); err != nil || s.Gate(q.ID).Reason != "not today" {
			t.Errorf("%+v, %v", s.Gate(q.ID), err)
		}
	})
	t.Run("ECO-5 GATE-8 gate: where the word of the gateway does not count, the answer says so and decides nothing",
		func(t *testing.T) {
			k := prompted(t, out, "several", "go", "")
			q, _ := k.next()
			k.decide(q, "approve")
			again, over := k.next()
			if over || !strings.Contains(again.Prompt, "Nothing was decided") {
				t.Fatalf("%+v %v", again, over)
			}
			if _, err := w.client.Control(t.Context(), k.run, events.Control{Action: "stop", By: "ada"}); err != nil {
				t.Fatal(err)
			}
			k.end()
		})
	t.Run("ECO-5 cancel: a run that is stopped ends its answer with 409; a caller that goes away leaves its run",
		func(t *testing.T) {
			k := prompted(t, out, "asks", "go", "")
			k.next()
			if _, err := w.client.Control(t.Context(), k.run, events.Control{Action: "stop", By: "ada"}); err != nil {
				t.Fatal(err)
			}
			if k.end(); k.code != "409" {
				t.Errorf("%+v", k)
			}
			gone := prompted(t, out, "asks", "go", "")
			q, _ := gone.next()
			bus := jet.AgentBusOf(conn)
			if !bus.Alive(t.Context(), gone.sub.Subject()) {
				t.Error("a caller that listens is taken for gone")
			}
			gone.sub.Leave()
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			if bus.Alive(t.Context(), gone.sub.Subject()) {
				t.Error("a caller that is gone is taken for one that listens")
			}
			if _, err := w.client.Gates().Approve(t.Context(), client.Decision{Run: gone.run, Gate: q.ID, By: "ada",
				Asserted: true}); err != nil {
				t.Errorf("its run does not wait: %v", err)
			}
		})
	t.Run("ECO-5 reconnect: a prompt that comes again is the same run, told from its beginning, also at another gateway",
		func(t *testing.T) {
			k := prompted(t, out, "asks", "go on", "p-1")
			first, _ := k.next()
			d.stop()
			if k.next(); k.code != "500" || !strings.Contains(k.why, "same Nats-Msg-Id") {
				t.Errorf("%+v", k)
			}
			w.open(outer, nil, agents)
			until(t, func() bool {
				_, err := out.Request("agents.status.inspan.default.asks", nil, time.Second)
				return err == nil
			})
			b := prompted(t, out, "asks", "go on", "p-1")
			q, over := b.next()
			if over || q.ID != first.ID || b.run != k.run {
				t.Fatalf("%+v %+v", q, b)
			}
			b.decide(q, "approve")
			if b.end(); b.text != "It is done." || b.code != "" {
				t.Errorf("%+v", b)
			}
			if c := prompted(t, out, "asks", "go on", "p-1").end(); c.run != k.run || c.text != b.text {
				t.Errorf("%+v", c)
			}
			if c := prompted(t, out, "asks", "something else", "p-1").end(); c.code != "409" {
				t.Errorf("%+v", c)
			}
		})
	t.Run("ECO-5 failure: a run that fails, an agent that there is not and a prompt without sense are errors",
		func(t *testing.T) {
			for prompt, want := range map[string]string{"broken x": "500 failed", "nobody x": "404 ",
				"helper {}": "400 missing or empty",
				"helper " + `{"prompt":"x","session_id":"no good"}`: "400 "} {
				agent, text, _ := strings.Cut(prompt, " ")
				k := prompted(t, out, agent, text, "").end()
				code, why, _ := strings.Cut(want, " ")
				if k.code != code || !strings.Contains(k.why, why) || k.text != "" {
					t.Errorf("%s: %s %s %q", prompt, k.code, k.why, k.text)
				}
			}
		})
	t.Run("SAFE-6 ECO-5 a prompt that is to be answered elsewhere than in an inbox starts nothing", func(t *testing.T) {
		if err := out.PublishRequest("agents.prompt.inspan.default.helper", "station.default.task",
			[]byte("forged")); err != nil {
			t.Fatal(err)
		}
		prompted(t, out, "helper", "after it", "").end()
		all, err := w.client.Runs().Find(t.Context(), client.Of{})
		if err != nil || len(all) == 0 {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Task == "forged" {
				t.Errorf("%+v", r)
			}
		}
	})
}
