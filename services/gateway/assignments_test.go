package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Port: -1, LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	w, plane := newWorld(t), jettest.Outside(t, server.URL())
	cfg := service.Messages{MessagesURL: server.URL(), MessagesWork: "plane.work.s", MessagesWorkDone: "plane.done", MessagesWorkMost: 8, MessagesSync: true, MessagesReports: true}
	responses := func() map[string][]assign.Response {
		all := map[string][]assign.Response{}
		for _, m := range plane.Stored("DONE") {
			subject, text, _ := strings.Cut(m, " ")
			r := in[assign.Response](t, answered{body: text})
			all[r.WorkID] = append(all[r.WorkID], r)
			if subject != "plane.done."+r.WorkID {
				t.Errorf("%s has the response to %s", subject, r.WorkID)
			}
		}
		return all
	}
	work := func(id, agent string) {
		plane.Say("plane.work.s", fmt.Sprintf(`{"work_id":%q,"orchestrator_run_id":"orch","agent_id":%s,"task":"x","workspace":{}}`, id, agent), "")
	}
	log := &logged{}
	stop := []func(){w.follow(t, cfg, log), w.follow(t, cfg, &logged{})}
	until(t, func() bool { return log.has("no stream holds plane.work.s") })
	plane.Stream("WORK", "plane.work.>")
	plane.Stream("DONE", "plane.done.>")
	t.Run("TRIG-12 CLOUD-1 CLOUD-2 CLOUD-3 an assignment is one run in the session of its work, with one response", func(t *testing.T) {
		work("w1", `"helper"`)
		work("w1", `"helper"`)
		work("w2", `42`)
		work("w3", `"looker"`)
		until(t, func() bool { n, c := plane.Open("WORK"); return c == 1 && n == 0 && len(plane.Stored("DONE")) >= 3 })
		all := responses()
		for id, want := range map[string]string{"w1": "completed It is done. ", "w2": "failed  ", "w3": "completed I have looked. "} {
			if len(all[id]) != 1 {
				t.Errorf("%d responses to %s", len(all[id]), id)
				continue
			}
			r := all[id][0]
			if got := r.Status + " " + r.Result + " "; got != want || r.Orchestrator != "orch" || r.Artifacts == nil || (r.Status == "completed") != (r.Tokens > 0 && r.Error == "") {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if !strings.Contains(all["w2"][0].Error, "42") {
			t.Errorf("%+v", all["w2"])
		}
		runs, err := w.client.Runs().Find(t.Context(), client.Of{Session: "ses_w1"})
		if err != nil || len(runs) != 1 || runs[0].HarnessID != all["w1"][0].Run {
			t.Errorf("%+v, %v", runs, err)
		}
	})
	t.Run("CLOUD-3 gateways that go away while the run works leave one response all the same", func(t *testing.T) {
		work("w4", `"talker"`)
		until(t, func() bool {
			runs, err := w.client.Runs().Find(t.Context(), client.Of{Session: "ses_w4"})
			return err == nil && len(runs) == 1
		})
		for _, one := range stop {
			one()
		}
		w.follow(t, cfg, &logged{})
		until(t, func() bool { n, _ := plane.Open("WORK"); return n == 0 })
		work("w4", `"helper"`) // the work was done, whatever this says
		until(t, func() bool { return len(plane.Stored("WORK")) == 6 })
		until(t, func() bool { n, _ := plane.Open("WORK"); return n == 0 })
		if r := responses()["w4"]; len(r) != 1 || r[0].Result != said {
			t.Errorf("%+v", r)
		}
		if runs, err := w.client.Runs().Find(t.Context(), client.Of{Session: "ses_w4"}); err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
	t.Run("CLOUD-1 an assignment without an id of work is a dead letter", func(t *testing.T) {
		w.follow(t, cfg, &logged{})
		plane.Say("plane.work.s", `{"work_id":"a.>","agent_id":"helper","task":"x"}`, "")
		until(t, func() bool { return len(w.letters(t, "bad_assignment")) == 1 })
	})
}
