package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
)

const (
	// somePage is how many tasks a page has where none is asked for, maxPage the most that may be.
	somePage = 50
	maxPage  = 100
)

// A2ATasks is a page of a list of tasks.
type A2ATasks struct {
	Tasks []A2ATask `json:"tasks"`
	Next  string    `json:"nextPageToken"`
	Size  int       `json:"pageSize"`
	Total int       `json:"totalSize"`
}

// place of a run in the list: the one that changed last comes first.
func place(i run.Info) string { return fmt.Sprintf("%020d-%s", i.UpdatedAt.UnixNano(), i.HarnessID) }

// list lists tasks from the index, which may be a moment behind. Runs inside of others are none.
func (x *a2aCall) list(raw json.RawMessage) error {
	var in struct {
		Context   string    `json:"contextId"`
		Status    string    `json:"status"`
		Size      *int      `json:"pageSize"`
		Page      string    `json:"pageToken"`
		History   *int      `json:"historyLength"`
		After     time.Time `json:"statusTimestampAfter"`
		Artifacts bool      `json:"includeArtifacts"`
	}
	if err := params(raw, &in); err != nil {
		return err
	}
	size := somePage
	if in.Size != nil {
		size = *in.Size
	}
	if size < 1 || size > maxPage {
		return fault(rpcParams, "INVALID_PARAMS", fmt.Sprintf("pageSize: want 1 to %d", maxPage), "")
	}
	ctx, cancel := x.c.within()
	defer cancel()
	all, err := x.g.client.Runs().Find(ctx, client.Of{Session: in.Context})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i run.Info) bool {
		return i.ParentHarnessID != "" || x.agent != "" && i.AgentName != x.agent || i.UpdatedAt.Before(in.After) ||
			in.Status != "" && in.Status != a2aPhase(phase.OfInfo(i), i.Gates, x.c.token)
	})
	sort.Slice(all, func(i, j int) bool { return place(all[j]) < place(all[i]) })
	out := A2ATasks{Tasks: []A2ATask{}, Total: len(all)}
	for n, i := range all {
		if in.Page != "" && place(i) >= in.Page {
			continue
		}
		if len(out.Tasks) == size {
			out.Next = place(all[n-1])
			break
		}
		s, err := x.g.client.State(ctx, i.HarnessID)
		if errors.Is(err, client.ErrNotFound) {
			continue // its log is in an archive
		}
		if err != nil {
			return err
		}
		t := x.taskOf(s, in.History)
		if !in.Artifacts {
			t.Artifacts = nil
		}
		out.Tasks = append(out.Tasks, t)
	}
	out.Size = len(out.Tasks)
	return x.reply(out)
}
