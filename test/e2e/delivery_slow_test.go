//go:build slow

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// other makes a commit on top of main that no run knows, and returns it.
func (r remote) other(name string) string {
	r.t.Helper()
	dir := filepath.Join(r.t.(*testing.T).TempDir(), "other")
	r.git("clone", "--quiet", r.dir, dir)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.git("-C", dir, "add", ".")
	r.git("-C", dir, "commit", "--quiet", "-m", name)
	id := r.git("-C", dir, "rev-parse", "HEAD")
	r.git("-C", dir, "push", "--quiet", r.dir, "HEAD:refs/heads/other-"+name)
	return id
}

func TestDeliveryCutBefore(t *testing.T) {
	t.Parallel()
	t.Run("DLV-2 SAFE-3 planners die before each phase and before each event of the merge queue: each is done once, and the work lands once", func(t *testing.T) {
		t.Parallel()
		cutDelivery(t, true)
	})
}

func TestLandingInTrouble(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	deliverers(t, w, "alice=good", "bob=fine")
	w.agent(events.Agent{Name: "careful", Tools: []string{"write"}}, writes("x.txt", "x"))
	w.start()
	t.Run("DLV-1 a target that moves while the merge is tested is merged and tested again", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		moved, mark := r.other("moved"), filepath.Join(t.TempDir(), "mark")
		w.addQueue("moving", r, "alice", fmt.Sprintf("test -e %s || { touch %s; git --git-dir=%s update-ref refs/heads/main %s; }", mark, mark, r.dir, moved))
		w.addItem("moving", events.WorkSpec{Title: "Say hello"})
		w.work("moving", delivers("alice", r, "moving"))
		s := w.itemIs("moving", "released", isReleased)
		if got := w.queued("moving"); got != "created enqueued taken returned taken landed" {
			t.Errorf("the queue: %s", got)
		}
		e := w.queue("moving").Done[0]
		if e.Base != moved || r.at("main") != s.Delivery.Landed || r.git("-C", r.dir, "merge-base", "--is-ancestor", moved, "main") != "" {
			t.Errorf("%+v, main is at %s", e, r.at("main"))
		}
	})
	t.Run("DLV-1 a remote that refuses the push by a rule bounces the entry with its message", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		r.git("-C", r.dir, "config", "receive.hideRefs", "refs/heads/main")
		defer r.git("-C", r.dir, "config", "--unset", "receive.hideRefs")
		before := r.at("main")
		w.addQueue("ruled", r, "bob", "true")
		w.addItem("ruled", events.WorkSpec{Title: "Say hello"})
		w.work("ruled", delivers("bob", r, "ruled"))
		d := w.itemIs("ruled", "delivered, or not", func(s work.State) bool { return isBounced(s) || isReleased(s) }).Delivery
		if d.Code != events.LandingRejected || r.at("main") != before || r.at(d.RemoteBranch) != d.Commit || w.queued("ruled") != "created enqueued taken returned taken bounced" {
			t.Errorf("%+v, the queue: %s", d, w.queued("ruled"))
		}
	})
	t.Run("DLV-1 GATE-13 a branch that vanished or was rewritten bounces, as does a push that a person refuses; an entry is dropped", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		deliverers(t, w, "dan=1", "eve=2", "finn=3", "gil=4")
		w.addQueue("careful", r, "careful", "true")
		var runs []string
		for _, c := range []struct{ item, agent string }{{"first", "dan"}, {"gone", "eve"}, {"rewritten", "finn"}, {"dropped", "gil"}} {
			w.addItem(c.item, events.WorkSpec{Title: "Say hello"})
			w.work(c.item, delivers(c.agent, r, "careful"))
			s := w.itemIs(c.item, "notified", func(s work.State) bool { return s.Delivery != nil && s.Delivery.Phase == events.DeliveryIsNotified })
			runs = append(runs, s.Delivery.RemoteBranch)
		}
		w.work("dropped", events.WorkControl{Action: work.Close})
		w.merges("careful", events.QueueControl{Action: mergequeue.Drop, Work: "dropped", By: "anna", Reason: "not now"})
		if d := w.itemIs("dropped", "bounced", isBounced).Delivery; d.Code != events.LandingDropped || d.Reason != "not now" {
			t.Errorf("%+v", d)
		}
		r.git("-C", r.dir, "update-ref", "-d", "refs/heads/"+runs[1])
		r.git("-C", r.dir, "update-ref", "refs/heads/"+runs[2], r.other("rewritten"))
		e, _ := w.queue("careful").Taken()
		w.await(e.Landing, "waiting", func(s run.State) bool { return waiting(s) })
		w.merges("careful", events.QueueControl{Action: mergequeue.Drop, Work: "first"})
		w.approve(e.Landing, "reject")
		for item, code := range map[string]string{"first": events.LandingDenied, "gone": events.LandingGone, "rewritten": events.LandingRewritten} {
			if d := w.itemIs(item, "bounced", isBounced).Delivery; d.Code != code || d.Reason == "" {
				t.Errorf("%s: %+v", item, d)
			}
		}
		if got := w.queued("careful"); strings.Count(got, "bounced") != 3 || strings.Count(got, "landed") != 0 {
			t.Errorf("the queue: %s", got)
		}
	})
	t.Run("DLV-1 DLV-2 of many items that are delivered at once each lands once, one after the other", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.addQueue("many", r, "alice", "true")
		const n = 5
		for i := range n {
			name := fmt.Sprintf("many%d", i)
			no := false
			w.agent(events.Agent{Name: name, Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes(name+".txt", "x"))
			w.addItem(name, events.WorkSpec{Title: "Say hello"})
			w.work(name, delivers(name, r, "many"))
		}
		for i := range n {
			w.itemIs(fmt.Sprintf("many%d", i), "released", isReleased)
			r.git("-C", r.dir, "cat-file", "-e", fmt.Sprintf("main:many%d.txt", i))
		}
		if got := w.queued("many"); strings.Count(got, "landed") != n || strings.Count(got, "taken") != n || strings.Contains(got, "taken taken") {
			t.Errorf("the queue: %s", got)
		}
	})
}
