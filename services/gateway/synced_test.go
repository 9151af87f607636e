package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
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
	files := maps.Clone(shaper)
	files["agents/shaper.prompt"] = strings.Replace(files["agents/shaper.prompt"], "harness:\n", "artifacts:\n  ttl: 2h\nharness:\n", 1)
	w := newWorldOf(t, files, func(c *service.Config) { c.ArtifactTTLs = []string{"acme=720h"} })
	cfg := service.Messages{MessagesURL: server.URL(), MessagesWorkDone: "plane.done", MessagesWorkMost: 2, MessagesSync: true, MessagesReports: true}
	n, organization := 0, ""
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
		plane.Say(c.MessagesWork, fmt.Sprintf(`{"work_id":%q,"orchestrator_run_id":"orch-9","agent_id":"shaper","task":"judge","organization":%q}`, id, organization), "")
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
		if ok := organization != "not/one"; ok && (r.Status != "completed" || r.Tokens == 0 || r.DurationMS == 0 || r.Orchestrator != "orch-9") {
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
	t.Run("CLOUD-6 what the runs of an organization made is kept as long as is set for it, whatever the agent says", func(t *testing.T) {
		for project, want := range map[string]time.Duration{"acme": 720 * time.Hour, "other": 2 * time.Hour, "": 2 * time.Hour} {
			organization = project
			r := respond(t, func(*service.Messages) {})
			made, err := w.client.Artifacts().List(t.Context(), r.Run)
			if err != nil || len(made) == 0 {
				t.Fatalf("%d, %v", len(made), err)
			}
			for _, a := range made {
				if a.Kept == events.StoredInBucket && a.TTLMS != want.Milliseconds() {
					t.Errorf("%q: %s is kept for %s", project, a.Key, time.Duration(a.TTLMS)*time.Millisecond)
				}
			}
			s, err := w.client.State(t.Context(), r.Run)
			if err != nil || s.Created.Project != project {
				t.Errorf("%q: the run is of %q, %v", project, s.Created.Project, err)
			}
		}
		organization = "not/one"
		if r := respond(t, func(*service.Messages) {}); r.Status != "failed" || r.Run != "" || !strings.Contains(r.Error, "organization") {
			t.Errorf("%+v", r)
		}
		organization = ""
	})
	t.Run("CLOUD-4c a bucket that is not there is named in the log, and the response waits for it", func(t *testing.T) {
		r := respond(t, func(c *service.Messages) { c.MessagesFiles = "late" })
		if plane.Objects("late")[object(t, r)] != "good" {
			t.Errorf("%+v", r)
		}
	})
}
