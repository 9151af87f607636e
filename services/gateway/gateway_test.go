package gateway_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
)

const run5 = `{"agent_id":"helper","task":"say so","autonomy":5}`

type page[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"`
}

func TestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil)
	t.Run("TRIG-3 TRIG-1 a run is started and waited for, with session and variables", func(t *testing.T) {
		a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", "all",
			`{"agent_id":"helper","task":"say so","session_id":"s1","variables":{"who":"me"},"autonomy":5}`))
		if a.Status != events.Completed || a.Result == nil || a.Result.Output != "It is done." {
			t.Fatalf("%+v", a)
		}
		s, err := w.client.State(t.Context(), a.Run)
		if err != nil || s.Created.By != "all" || s.Created.Session != "s1" || s.Created.Variables["who"] != "me" {
			t.Errorf("%+v, %v", s.Created, err)
		}
		one := in[gateway.RunAnswer](t, d.want(t, 200, "GET", "/api/v1/runs/"+a.Run, "reader", ""))
		if one.Info == nil || one.Info.HarnessID != a.Run || one.Result == nil {
			t.Errorf("%+v", one)
		}
	})
	t.Run("TRIG-3 the same Idempotency-Key starts one run, at the same time and after a restart of the gateway", func(t *testing.T) {
		ids, key := make(chan string, 6), []string{"Idempotency-Key", "order 1"}
		for range cap(ids) {
			go func() {
				res, err := web.Do(d.request(t, "POST", "/api/v1/harness/run", "all", run5, key...))
				if err != nil {
					ids <- err.Error()
					return
				}
				_ = res.Body.Close()
				ids <- strconv.Itoa(res.StatusCode/100) + res.Header.Get("Location")
			}()
		}
		var all []string
		for range cap(ids) {
			all = append(all, <-ids)
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != 1 || !strings.HasPrefix(all[0], "2/api/v1/runs/key-") {
			t.Fatalf("%q", all)
		}
		again := w.open(t, nil)
		id := strings.TrimPrefix(all[0], "2/api/v1/runs/")
		if a := in[gateway.RunAnswer](t, again.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", "all", run5, key...)); a.Run != id {
			t.Errorf("%s, want %s", a.Run, id)
		}
		p := in[gateway.Problem](t, again.want(t, 422, "POST", "/api/v1/harness/run", "all", strings.Replace(run5, "say so", "say no", 1), key...))
		if p.Code != "duplicate_id" || p.Run != id || p.Hint == "" {
			t.Errorf("%+v", p)
		}
		a := again.do(t, "POST", "/api/v1/harness/run", "writer", run5, key...) // it may have ended
		if a.status/100 != 2 || in[gateway.RunAnswer](t, a).Run == id {
			t.Error("the key of one token is that of another")
		}
	})
	t.Run("TRIG-3 a run that fails says why, and one that is refused what to do", func(t *testing.T) {
		a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", "all", `{"agent_id":"broken","task":"x","autonomy":5}`))
		if a.Status != events.Failed || a.Result == nil || !strings.Contains(a.Result.Error, "the model is gone") {
			t.Errorf("%+v", a)
		}
		p := in[gateway.Problem](t, d.want(t, 422, "POST", "/api/v1/harness/run", "all", `{"agent_id":"nobody","task":"x"}`))
		if p.Code != "unknown_agent" || p.Type != "urn:inspan:problem:unknown_agent" || p.Hint == "" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("TRIG-3 a run that waits for a person is answered with its gates, and can be stopped", func(t *testing.T) {
		a := in[gateway.RunAnswer](t, d.want(t, 202, "POST", "/api/v1/harness/run?wait=1ms", "all", `{"agent_id":"helper","task":"x","autonomy":1}`))
		d.gate(t, a.Run)
		if got := in[gateway.RunAnswer](t, d.want(t, 202, "GET", "/api/v1/runs/"+a.Run+"?wait=50ms", "reader", "")); len(got.Gates) != 1 {
			t.Errorf("%+v", got)
		}
		s := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/runs/"+a.Run+"/stop", "all", `{"reason":"enough"}`))
		if s.Status != events.Failed || s.Result == nil || s.Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s)
		}
		if p := in[gateway.Problem](t, d.want(t, 409, "POST", "/api/v1/runs/"+a.Run+"/pause", "all", "")); p.Code != "bad_move" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("GATE-9 SAFE-9 an answer to a gate is recorded as the gateway's word, once", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
		gate := d.gate(t, id)
		path := "/api/v1/runs/" + id + "/gates/" + gate
		d.want(t, 403, "POST", path, "writer", `{"decision":"approve"}`)
		if p := in[gateway.Problem](t, d.want(t, 409, "POST", path, "all", `{"decision":"approve","proposal_hash":"00"}`)); p.Code != "stale_answer" {
			t.Errorf("%+v", p)
		}
		person, err := operator.On(w.station.Conn(), w.station.Name())
		if err != nil {
			t.Fatal(err)
		}
		for what, of := range map[*client.Client]client.Decision{person: {Run: id, Gate: gate, By: "all", Asserted: true}, w.client: {Run: id, Gate: gate, By: "anna"}} {
			if _, err := what.Gates().Approve(t.Context(), of); !errors.Is(err, client.ErrDenied) {
				t.Errorf("%+v: %v, want that only the gateway asserts, and does nothing else", of, err)
			}
		}
		g := in[gateway.GateResult](t, d.want(t, 200, "POST", path, "all", `{"decision":"approve","reason":"fine"}`))
		if g.Gate.Status != run.GateApproved || g.Gate.By != "all" {
			t.Errorf("%+v", g.Gate)
		}
		d.want(t, 200, "POST", path, "all", `{"decision":"approve"}`) // it is what was said
		if p := in[gateway.Problem](t, d.want(t, 409, "POST", path, "all", `{"decision":"reject"}`)); p.Code != "gate_closed" {
			t.Errorf("%+v", p)
		}
		if a := in[gateway.RunAnswer](t, d.want(t, 200, "GET", "/api/v1/runs/"+id+"?wait=2m", "all", "")); a.Status != events.Completed {
			t.Errorf("%+v", a)
		}
		for item, err := range w.client.Events(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := item.Payload.(*events.GateApprovedData); ok && (p.Assurance != events.AssuranceGateway || p.By != "all") {
				t.Errorf("%+v", p)
			}
		}
	})
	t.Run("SAFE-9 a gate that needs several approvers refuses what the gateway asserts", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"several","task":"x","autonomy":1}`)
		path := "/api/v1/runs/" + id + "/gates/" + d.gate(t, id)
		if p := in[gateway.Problem](t, d.want(t, 403, "POST", path, "all", `{"decision":"approve"}`)); p.Code != "unproven_answer" || p.Hint == "" {
			t.Errorf("%+v", p)
		}
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/stop", "all", "")
	})
	t.Run("TRIG-3 pause and resume", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
		d.gate(t, id)
		if a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/runs/"+id+"/pause", "all", "")); a.Status != events.Paused {
			t.Errorf("%+v", a)
		}
		if a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/runs/"+id+"/resume", "all", "{}")); a.Status != events.Running {
			t.Errorf("%+v", a)
		}
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/stop", "all", "")
	})
	t.Run("TRIG-3 lists and single things", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1,"session_id":"s2"}`)
		d.gate(t, id)
		waits := func(of client.Waiting) bool { return of.Run.HarnessID == id }
		for !slices.ContainsFunc(in[page[client.Waiting]](t, d.want(t, 200, "GET", "/api/v1/gates", "reader", "")).Items, waits) { // the index follows
			pause(t)
		}
		if got := in[page[run.Info]](t, d.want(t, 200, "GET", "/api/v1/runs?session_id=s2&limit=1", "reader", "")); len(got.Items) != 1 || got.Items[0].HarnessID != id {
			t.Errorf("%+v", got)
		}
		agents := in[page[gateway.AgentInfo]](t, d.want(t, 200, "GET", "/api/v1/agents", "reader", ""))
		if agents.Total != 7 || agents.Items[2].Name != "helper" || agents.Items[2].Description == "" {
			t.Errorf("%+v", agents)
		}
		for path, want := range map[string]int{"/api/v1/sessions": 200, "/api/v1/sessions/s2": 200, "/api/v1/sessions/none": 404, "/api/v1/schedules": 200,
			"/api/v1/schedules/none": 404, "/api/v1/work": 200, "/api/v1/work/none": 404, "/api/v1/runs/none": 404, "/api/v1/runs/none/events": 404,
			"/api/v1/runs/" + id + "/artifacts": 200, "/api/v1/runs/" + id + "/artifacts/none": 404, "/api/v1/runs/" + id + "/report": 200, "/api/v1/openapi.json": 200,
			"/api/v1/runs?limit=0": 400, "/api/v1/runs?limit=x": 400, "/api/v1/runs/" + id + "?wait=11m": 400, "/api/v1/runs/" + id + "/gates/none": 405} {
			d.want(t, want, "GET", path, "reader", "")
		}
		d.want(t, 404, "POST", "/api/v1/runs/"+id+"/gates/none", "all", `{"decision":"approve"}`)
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/stop", "all", "")
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 0 {
		t.Errorf("failures inside: %q", w.failed)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.open(t, nil)
	t.Run("TRIG-3 events come once and in order over a cut connection and a restart of the gateway", func(t *testing.T) {
		id := first.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
		gate := first.gate(t, id)
		var ids []string
		next, cut := first.stream(t, id, "")
		for range 2 {
			s, _ := next()
			ids = append(ids, s.id)
		}
		cut()
		next, _ = first.stream(t, id, ids[len(ids)-1])
		s, ok := next()
		if !ok {
			t.Fatal("nothing after the connection was cut")
		}
		ids = append(ids, s.id)
		first.stop() // with the stream open
		for {
			s, ok := next()
			if !ok {
				break
			}
			ids = append(ids, s.id)
		}
		second := w.open(t, nil)
		next, _ = second.stream(t, id, ids[len(ids)-1])
		second.want(t, 200, "POST", "/api/v1/runs/"+id+"/gates/"+gate, "all", `{"decision":"approve"}`)
		last := sent{}
		for {
			s, ok := next()
			if !ok {
				break
			}
			if last = s; s.id != "" {
				ids = append(ids, s.id)
			}
		}
		if last.event != "end" {
			t.Errorf("it ended with %+v", last)
		}
		stored := 0
		for item, err := range w.client.Events(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			stored++
			if n := len(ids); stored > n || ids[stored-1] != strconv.FormatUint(item.Event.Sequence, 10) {
				t.Fatalf("event %d: the ids that came are %v", stored, ids)
			}
		}
		if stored < 6 || len(ids) != stored {
			t.Errorf("%d events are stored, %v came", stored, ids)
		}
		second.want(t, http.StatusNoContent, "GET", "/api/v1/runs/"+id+"/events", "reader", "", "Last-Event-ID", ids[len(ids)-1])
		for _, bad := range []string{"x", "-1", "1e3", "18446744073709551615"} {
			second.want(t, 400, "GET", "/api/v1/runs/"+id+"/events", "reader", "", "Last-Event-ID", bad)
		}
	})
	t.Run("TRIG-3 a stream ends when its token is removed", func(t *testing.T) {
		d := w.open(t, nil)
		id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
		w.token("brief", tokens.Read)
		res, err := web.Do(d.request(t, "GET", "/api/v1/runs/"+id+"/events", "brief", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := tokens.Change(w.list, func(l tokens.List) (tokens.List, error) { return l.Without("brief") }); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 1<<10); err == nil; { // until it ends
			_, err = res.Body.Read(b)
		}
		d.want(t, 401, "GET", "/api/v1/runs/"+id, "brief", "")
		d.want(t, 200, "POST", "/api/v1/runs/"+id+"/stop", "all", "")
	})
}

func TestSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onlySigned)
	d := w.open(t, nil)
	t.Run("SAFE-9 a station that takes signed answers only refuses what the gateway asserts", func(t *testing.T) {
		id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
		p := in[gateway.Problem](t, d.want(t, 403, "POST", "/api/v1/runs/"+id+"/gates/"+d.gate(t, id), "all", `{"decision":"approve"}`))
		if p.Code != "unsigned_answer" {
			t.Errorf("%+v", p)
		}
	})
}
