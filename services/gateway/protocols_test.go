package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/services/gateway"
)

// TestProtocols speaks the protocols of others as raw requests to one station: a run, a stream, a gate that is asked
// for and answered, an end by the client, a client that comes back, a failure, and what is malformed.
func TestProtocols(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil)
	t.Run("a2a", func(t *testing.T) { t.Parallel(); testA2A(t, d) })
	t.Run("responses", func(t *testing.T) { t.Parallel(); testResponses(t, d) })
	t.Run("agui", func(t *testing.T) { t.Parallel(); testAGUI(t, d) })
	t.Run("TRIG-1 a stream of any protocol that is never read is dropped, and its place is free again", func(t *testing.T) {
		t.Parallel()
		testUnread(t, w)
	})
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.failed) > 0 {
			t.Errorf("failures inside: %q", w.failed)
		}
	})
}

// tree is an object of JSON whose parts are looked up by their path.
type tree map[string]any

// at is the part at a path such as result.task.parts.0.text; nil where there is none.
func (o tree) at(path string) any {
	var v any = map[string]any(o)
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i := 0
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func (o tree) text(path string) string {
	s, _ := o.at(path).(string)
	return s
}

// posted opens a stream of server-sent events with a request. next returns the data of the next one, and nil at the
// end; cut ends it.
func (d *door) posted(t *testing.T, path, token, body string, headers ...string) (next func() tree, cut func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	res, err := web.Do(d.request(t, "POST", path, token, body, headers...).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: %d %v", path, res.StatusCode, res.Header)
	}
	lines := bufio.NewReader(res.Body)
	return func() tree {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasPrefix(data, "{") {
				var o tree
				if err := json.Unmarshal([]byte(data), &o); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				return o
			}
		}
	}, cancel
}

// all is what is left of a stream.
func all(next func() tree) (events []tree) {
	for o := next(); o != nil; o = next() {
		events = append(events, o)
	}
	return events
}

var a2a = []string{"A2A-Version", "1.0"}

// rpc makes a request of A2A.
func (d *door) rpc(t *testing.T, agent, token, method, params string, headers ...string) tree {
	t.Helper()
	if headers == nil {
		headers = a2a
	}
	return in[tree](t, d.do(t, "POST", "/a2a"+agent, token, call(method, params), headers...))
}

func call(method, params string) string {
	return `{"jsonrpc":"2.0","id":"7","method":"` + method + `","params":` + params + `}`
}

// message is the params of a request that sends a text; more are further fields of the message.
func message(id, text, more string) string {
	return `{"message":{"messageId":"` + id + `","role":"ROLE_USER","parts":[{"text":"` + text + `"}]` + more + `}}`
}

func testA2A(t *testing.T, d *door) {
	t.Run("ECO-6b the card of an agent says how it is reached, that of the station what agents there are", func(t *testing.T) {
		card := in[gateway.A2ACard](t, d.want(t, 200, "GET", "/a2a/helper/.well-known/agent-card.json", "reader", ""))
		if card.Name != "helper" || len(card.Skills) != 1 || card.Interfaces[0] != (gateway.A2AInterface{URL: d.url + "/a2a/helper", Binding: "JSONRPC", Version: "1.0"}) ||
			!card.Capabilities.Streaming {
			t.Errorf("%+v", card)
		}
		card = in[gateway.A2ACard](t, d.want(t, 200, "GET", "/.well-known/agent-card.json", "reader", ""))
		if len(card.Skills) != 7 || card.Interfaces[0].URL != d.url+"/a2a" {
			t.Errorf("%+v", card)
		}
		d.want(t, 404, "GET", "/a2a/nobody/.well-known/agent-card.json", "reader", "")
		d.want(t, 401, "GET", "/.well-known/agent-card.json", "", "")
	})
	t.Run("ECO-6b a message is a run, and the same message the same run", func(t *testing.T) {
		first := d.rpc(t, "/helper", "both", "SendMessage", message("m1", "do it", ""))
		if first.text("result.task.status.state") != "TASK_STATE_COMPLETED" || first.text("result.task.artifacts.0.parts.0.text") != "It is done." ||
			first.text("id") != "7" || first.text("result.task.history.0.parts.0.text") != "do it" {
			t.Fatalf("%v", first)
		}
		id, context := first.text("result.task.id"), first.text("result.task.contextId")
		if again := d.rpc(t, "/helper", "both", "SendMessage", message("m1", "do it", "")); again.text("result.task.id") != id || context == "" {
			t.Errorf("%v", again)
		}
		if other := d.rpc(t, "/helper", "both", "SendMessage", message("m1", "do that", "")); other.at("error.code") != -32602. {
			t.Errorf("%v", other)
		}
		if mine := d.rpc(t, "/helper", "all", "SendMessage", message("m1", "do it", "")); mine.text("result.task.id") == id {
			t.Error("the run of another token")
		}
		next := d.rpc(t, "", "both", "SendMessage", message("m2", "go on", `,"contextId":"`+context+`","metadata":{"agent":"helper"}`))
		if next.text("result.task.contextId") != context || next.text("result.task.id") == id {
			t.Errorf("%v", next)
		}
		if got := d.rpc(t, "/helper", "reader", "GetTask", `{"id":"`+id+`","historyLength":0}`); got.text("result.status.state") != "TASK_STATE_COMPLETED" || got.at("result.history") != nil {
			t.Errorf("%v", got)
		}
		if got := d.rpc(t, "/talker", "reader", "GetTask", `{"id":"`+id+`"}`); got.at("error.code") != -32001. {
			t.Errorf("the run of another agent: %v", got)
		}
	})
	t.Run("ECO-6b a stream has the text as it is written, and ends with the task", func(t *testing.T) {
		next, _ := d.posted(t, "/a2a/talker", "both", call("SendStreamingMessage", message("m3", "say so", "")), a2a...)
		first, events := next(), all(next)
		if first.text("result.task.id") == "" || len(events) < 3 {
			t.Fatalf("%v %v", first, events)
		}
		text := ""
		for _, e := range events {
			if part := e.text("result.artifactUpdate.artifact.parts.0.text"); e.at("result.artifactUpdate.append") == true {
				text += part
			} else if part != "" {
				text = part
			}
		}
		if last := events[len(events)-1]; text != said || last.text("result.statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			t.Errorf("%q, %v", text, last)
		}
	})
	t.Run("ECO-6b a gate is asked for, and answered by a message that names it", func(t *testing.T) {
		asked := d.rpc(t, "/asks", "all", "SendMessage", message("m4", "x", ""))
		id, gate := asked.text("result.task.id"), asked.text("result.task.status.message.parts.1.data.gate_id")
		if asked.text("result.task.status.state") != "TASK_STATE_INPUT_REQUIRED" || gate == "" || !strings.Contains(asked.text("result.task.status.message.parts.0.text"), "approve "+gate) {
			t.Fatalf("%v", asked)
		}
		for text, code := range map[string]float64{"yes": -32602, "approve": -32602, "approve other": -32602} {
			if got := d.rpc(t, "/asks", "all", "SendMessage", message("m5", text, `,"taskId":"`+id+`"`)); got.at("error.code") != code {
				t.Errorf("%s: %v", text, got)
			}
		}
		stale := `{"message":{"messageId":"m5","role":"ROLE_USER","taskId":"` + id + `","parts":[{"data":{"gate_id":"` + gate + `","proposal_hash":"` + strings.Repeat("0", 64) + `","decision":"approve"}}]}}`
		if got := d.rpc(t, "/asks", "all", "SendMessage", stale); got.at("error") == nil {
			t.Errorf("an answer to another proposal: %v", got)
		}
		next, _ := d.posted(t, "/a2a/asks", "all", call("SendStreamingMessage", message("m6", "approve "+gate+" because", `,"taskId":"`+id+`"`)), a2a...)
		events := all(next)
		if last := events[len(events)-1]; last.text("result.statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			t.Errorf("%v", events)
		}
		s, err := d.client.State(t.Context(), id)
		if err != nil || s.Gates[0].By != "all" || s.Gates[0].Reason != "because" {
			t.Errorf("%+v, %v", s.Gates[0], err)
		}
		if got := d.rpc(t, "/asks", "all", "SendMessage", message("m6", "approve "+gate, `,"taskId":"`+id+`"`)); got.text("result.task.status.state") != "TASK_STATE_COMPLETED" {
			t.Errorf("the answer again: %v", got)
		}
		if got := d.rpc(t, "/asks", "all", "SendMessage", message("m7", "more", `,"taskId":"`+id+`"`)); got.at("error.code") != -32004. {
			t.Errorf("%v", got)
		}
	})
	t.Run("ECO-6b a rejection pauses the task, which goes on when it is resumed", func(t *testing.T) {
		asked := d.rpc(t, "/asks", "all", "SendMessage", message("m8", "x", ""))
		id, gate := asked.text("result.task.id"), asked.text("result.task.status.message.parts.1.data.gate_id")
		got := d.rpc(t, "/asks", "all", "SendMessage", message("m9", "reject "+gate+" not now", `,"taskId":"`+id+`"`))
		if got.text("result.task.status.state") != "TASK_STATE_INPUT_REQUIRED" || !strings.Contains(got.text("result.task.status.message.parts.0.text"), "not now") {
			t.Fatalf("%v", got)
		}
		if got = d.rpc(t, "/asks", "all", "SendMessage", message("m10", "resume", `,"taskId":"`+id+`"`)); got.text("result.task.status.message.parts.1.data.gate_id") == "" {
			t.Errorf("%v", got)
		}
		d.rpc(t, "/asks", "all", "CancelTask", `{"id":"`+id+`"}`)
	})
	t.Run("ECO-6b who may not answer is told so, and a stream goes on when somebody else does", func(t *testing.T) {
		next, cut := d.posted(t, "/a2a/asks", "both", call("SendStreamingMessage", message("m11", "x", "")), a2a...)
		first := next()
		id, state := first.text("result.task.id"), first.text("result.task.status.state")
		for state != "TASK_STATE_AUTH_REQUIRED" {
			state = next().text("result.statusUpdate.status.state")
		}
		cut() // a client that is gone comes back
		next, _ = d.posted(t, "/a2a/asks", "both", call("SubscribeToTask", `{"id":"`+id+`"}`), a2a...)
		if first = next(); first.text("result.task.status.state") != "TASK_STATE_AUTH_REQUIRED" {
			t.Fatalf("%v", first)
		}
		gate := d.gate(t, id)
		if got := d.rpc(t, "/asks", "both", "SendMessage", message("m12", "approve "+gate, `,"taskId":"`+id+`"`)); got.at("error.code") != -32000. {
			t.Errorf("%v", got)
		}
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/gates/"+gate, "all", `{"decision":"approve"}`)
		events := all(next)
		if last := events[len(events)-1]; last.text("result.statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			t.Errorf("%v", events)
		}
		if got := d.rpc(t, "/asks", "both", "SubscribeToTask", `{"id":"`+id+`"}`); got.at("error.code") != -32004. {
			t.Errorf("%v", got)
		}
	})
	t.Run("ECO-6b a task is cancelled once, and one that has ended is not", func(t *testing.T) {
		id := d.rpc(t, "/asks", "all", "SendMessage", message("m13", "x", "")).text("result.task.id")
		for range 2 {
			if got := d.rpc(t, "/asks", "both", "CancelTask", `{"id":"`+id+`"}`); got.text("result.status.state") != "TASK_STATE_CANCELED" {
				t.Errorf("%v", got)
			}
		}
		id = d.rpc(t, "/helper", "both", "SendMessage", message("m14", "x", "")).text("result.task.id")
		if got := d.rpc(t, "/helper", "both", "CancelTask", `{"id":"`+id+`"}`); got.at("error.code") != -32002. {
			t.Errorf("%v", got)
		}
	})
	t.Run("ECO-6b a run that fails is a task that failed, with its reason", func(t *testing.T) {
		got := d.rpc(t, "/broken", "both", "SendMessage", message("m15", "x", ""))
		if got.text("result.task.status.state") != "TASK_STATE_FAILED" || !strings.Contains(got.text("result.task.status.message.parts.0.text"), "the model is gone") {
			t.Errorf("%v", got)
		}
	})
	t.Run("ECO-6b tasks are listed page by page, the one that changed last first", func(t *testing.T) {
		for i := range 3 {
			d.rpc(t, "/helper", "both", "SendMessage", message(fmt.Sprintf("list%d", i), "x", `,"contextId":"listed"`))
		}
		d.rpc(t, "/asks", "both", "SendMessage", message("list3", "x", `,"contextId":"listed"`))
		list := func(agent, more string) tree {
			return d.rpc(t, agent, "reader", "ListTasks", `{"contextId":"listed"`+more+`}`)
		}
		for list("", `,"status":"TASK_STATE_COMPLETED"`).at("result.totalSize") != 3. || list("/asks", `,"status":"TASK_STATE_AUTH_REQUIRED"`).at("result.totalSize") != 1. {
			pause(t) // the index follows
		}
		first := list("", `,"pageSize":3`)
		next := first.text("result.nextPageToken")
		second := list("", `,"pageSize":3,"pageToken":"`+next+`"`)
		if next == "" || first.at("result.tasks.2.id") == nil || second.at("result.pageSize") != 1. || second.at("result.nextPageToken") != "" || second.at("result.tasks.0.artifacts") != nil {
			t.Errorf("%v\n%v", first, second)
		}
		seen := map[string]bool{second.text("result.tasks.0.id"): true}
		for i := range 3 {
			seen[first.text(fmt.Sprintf("result.tasks.%d.id", i))] = true
		}
		if len(seen) != 4 {
			t.Errorf("%v", seen)
		}
		if got := list("/helper", `,"includeArtifacts":true,"pageSize":1`); got.at("result.totalSize") != 3. || got.text("result.tasks.0.artifacts.0.parts.0.text") != "It is done." {
			t.Errorf("%v", got)
		}
	})
	t.Run("ECO-6b what is malformed or not permitted starts nothing", func(t *testing.T) {
		fine := message("bad", "x", "")
		for _, c := range []struct {
			agent, token, body string
			status             int
			code               float64
		}{
			{"helper", "both", `{`, 200, -32700}, {"helper", "both", `[` + call("GetTask", "{}") + `]`, 200, -32600}, {"helper", "both", `{"jsonrpc":"2.0","method":"GetTask"}`, 200, -32600},
			{"helper", "both", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, 200, -32600}, {"helper", "both", `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, 200, -32600},
			{"helper", "both", call("tasks/get", "{}"), 200, -32601}, {"helper", "both", call("GetTask", `[]`), 200, -32602}, {"helper", "both", call("GetTask", `{"id":"../x"}`), 200, -32602},
			{"helper", "both", call("GetTask", `{"id":"none"}`), 200, -32001}, {"helper", "both", call("SendMessage", `{}`), 200, -32602},
			{"helper", "both", call("SendMessage", message("bad", "x", `,"contextId":"a b"`)), 200, -32602}, {"helper", "both", call("SendMessage", message("bad", "x", `,"taskId":"none"`)), 200, -32001},
			{"helper", "both", call("SendMessage", `{"message":{"messageId":"bad","role":"ROLE_USER","parts":[{"url":"http://x"}]}}`), 200, -32005},
			{"helper", "both", call("SendMessage", strings.Replace(fine, `}}`, `},"configuration":{"taskPushNotificationConfig":{"url":"http://x"}}}`, 1)), 200, -32003},
			{"nobody", "both", call("SendMessage", fine), 200, -32602}, {"", "both", call("SendMessage", fine), 200, -32602}, {"helper", "reader", call("SendMessage", fine), 403, -32000},
			{"helper", "reader", call("CancelTask", `{"id":"none"}`), 403, -32000}, {"helper", "both", call("SendMessage", message("bad", strings.Repeat("x", 300<<10), "")), 413, -32602},
			{"helper", "both", call("ListTasks", `{"pageSize":101}`), 200, -32602}, {"helper", "both", strings.Repeat("[", 20000), 200, -32700},
		} {
			path := strings.TrimSuffix("/a2a/"+c.agent, "/")
			a := d.do(t, "POST", path, c.token, c.body, a2a...)
			if got := in[tree](t, a); a.status != c.status || got.at("error.code") != c.code || got.text("error.message") == "" {
				t.Errorf("%.80s: %d %s", c.body, a.status, a.body)
			}
		}
		if got := d.rpc(t, "/helper", "both", "SendMessage", fine, "A2A-Version", "0.3"); got.at("error.code") != -32009. {
			t.Errorf("%v", got)
		}
		d.want(t, 401, "POST", "/a2a/helper", "", call("SendMessage", fine), a2a...)
		d.want(t, 403, "POST", "/a2a/helper", "writer", call("SendMessage", fine), a2a...)
	})
}

// testUnread opens streams that no one reads beyond their status.
func testUnread(t *testing.T, w *world) {
	t.Helper()
	p := newPipes()
	d := w.open(t, p, func(c *gateway.Config) { c.Streams, c.WriteWait = 1, 50*time.Millisecond })
	for path, body := range map[string]string{"/a2a/talker": call("SendStreamingMessage", message("unread", "x", "")), "/agui/talker": uiInput("unread", "r1", "x", ""),
		"/v1/responses": `{"model":"talker","input":"x","stream":true}`} {
		ask := func() string {
			conn := p.dial(t)
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				path, d.secrets["both"], len(body), body)
			line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		for opened := 0; opened < 2; { // the second time the first one was given up
			line := ask()
			if strings.Contains(line, " 200 ") {
				opened++
			} else if !strings.Contains(line, " 429 ") {
				t.Fatalf("%s: %s", path, line)
			}
		}
	}
}
