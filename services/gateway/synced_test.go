package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/service"
)

func TestSynced(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Port: -1, LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	plane := jettest.Outside(t, server.URL())
	plane.Stream("DONE", "plane.done.>")
	w := newWorldOf(t, shaper)
	cfg := service.Messages{MessagesURL: server.URL(), MessagesWorkDone: "plane.done", MessagesWorkMost: 2, MessagesSync: true, MessagesReports: true}
	n := 0
	// respond has an assignment be worked off with some settings.
	respond := func(t *testing.T, tune func(*service.Messages)) (r assign.Response) {
		t.Helper()
		n++
		c, id := cfg, fmt.Sprintf("w%d", n)
		c.MessagesWork = "plane.work." + id
		tune(&c)
		plane.Stream("WORK-"+id, c.MessagesWork)
		log := &logged{}
		stop := w.follow(t, c, log)
		defer stop()
		plane.Say(c.MessagesWork, fmt.Sprintf(`{"work_id":%q,"orchestrator_run_id":"orch-9","agent_id":"shaper","task":"judge"}`, id), "")
		if c.MessagesFiles == "late" {
			until(t, func() bool { return log.has("nats object add late") })
			plane.Bucket("late")
		}
		until(t, func() bool {
			for _, m := range plane.Stored("DONE") {
				if text, ok := strings.CutPrefix(m, "plane.done."+id+" "); ok {
					r = in[assign.Response](t, answered{body: text})
					return true
				}
			}
			return false
		})
		if r.Status != "completed" || r.Tokens == 0 || r.DurationMS == 0 || r.Orchestrator != "orch-9" {
			t.Errorf("%+v", r)
		}
		return r
	}
	object := func(t *testing.T, r assign.Response) string {
		t.Helper()
		for _, a := range r.Artifacts {
			if a.Key == "runs/orch-9/output/report.txt" {
				return a.Object
			}
		}
		t.Errorf("no report among %+v", r.Artifacts)
		return ""
	}
	t.Run("CLOUD-4a CLOUD-5a what a run made is copied to the platform before the response, which says where", func(t *testing.T) {
		plane.Bucket("files")
		r := respond(t, func(c *service.Messages) { c.MessagesFiles = "files" })
		all, name := plane.Objects("files"), object(t, r)
		if name != r.WorkID+"/runs/orch-9/output/report.txt" || all[name] != "good" || r.Files != "files" || r.Log != "" || r.Result == "" {
			t.Errorf("%q of %q, %+v", all[name], all, r)
		}
		for _, a := range r.Artifacts {
			if int64(len(all[a.Object])) != a.Size {
				t.Errorf("%+v has %d bytes", a, len(all[a.Object]))
			}
		}
	})
	t.Run("CLOUD-4b two works of one orchestrator that make the same file have a copy each", func(t *testing.T) {
		r := respond(t, func(c *service.Messages) { c.MessagesFiles = "files" })
		if all := plane.Objects("files"); all["w1/runs/orch-9/output/report.txt"] != "good" || all[object(t, r)] != "good" {
			t.Errorf("%q", all)
		}
	})
	t.Run("CLOUD-5b the events of a run are sent where that is set, as lines of JSON", func(t *testing.T) {
		r := respond(t, func(c *service.Messages) { c.MessagesFiles, c.MessagesLogs = "files", true })
		lines := strings.Split(strings.TrimSpace(plane.Objects("files")[r.Log]), "\n")
		for i, line := range lines {
			var e struct{ Type string }
			if json.Unmarshal([]byte(line), &e) != nil || i == 0 && !strings.Contains(e.Type, "run.created") {
				t.Errorf("line %d is %.200s", i, line)
			}
		}
		if len(lines) < 10 {
			t.Errorf("%d lines in %q", len(lines), r.Log)
		}
	})
	t.Run("CLOUD-5c without reports a response says how the run ended, and nothing of what it made", func(t *testing.T) {
		for _, tune := range []func(*service.Messages){
			func(c *service.Messages) { c.MessagesFiles, c.MessagesReports = "files", false },
			func(c *service.Messages) { c.MessagesFiles, c.MessagesLogs, c.MessagesSync = "files", true, false },
		} {
			r := respond(t, tune)
			if !r.Withheld || r.Result != "" || len(r.Artifacts) > 0 || r.Log != "" {
				t.Errorf("%+v", r)
			}
			for name := range plane.Objects("files") {
				if strings.HasPrefix(name, r.WorkID+"/") {
					t.Errorf("%s was sent", name)
				}
			}
		}
	})
	t.Run("CLOUD-4c a bucket that is not there is named in the log, and the response waits for it", func(t *testing.T) {
		r := respond(t, func(c *service.Messages) { c.MessagesFiles = "late" })
		if plane.Objects("late")[object(t, r)] != "good" {
			t.Errorf("%+v", r)
		}
	})
}
