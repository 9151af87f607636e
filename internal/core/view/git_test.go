package view_test

import (
	"testing"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

func TestDelivery(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef01234567"
	for name, tc := range map[string]struct {
		d    *events.Delivery
		want string
	}{
		"CLI-6 nothing is said of a run that does not work in git": {nil, ""},
		"GIT-2 a push":                         {&events.Delivery{Branch: "agent/x", Commit: id, Pushed: true, Remote: "https://host/x", RemoteBranch: "agent/x"}, "branch agent/x at 0123456789ab pushed to https://host/x"},
		"GIT-2 a push by another name":         {&events.Delivery{Branch: "agent/x", Commit: id, Pushed: true, Remote: "https://host/x", RemoteBranch: "y"}, "branch agent/x at 0123456789ab pushed to https://host/x as y"},
		"GATE-13 what was not pushed, and why": {&events.Delivery{Branch: "agent/x", Commit: id, Note: "not pushed: anna said no"}, "branch agent/x at 0123456789ab, not pushed; not pushed: anna said no"},
		"GIT-8 conflicts are told": {&events.Delivery{Branch: "main", Commit: id, Merged: []events.MergedBranch{{Branch: "a"}}, Conflicts: []events.MergeConflict{{Branch: "b", Paths: []string{"x.go", "y\x1b[2Jz"}}}},
			"branch main at 0123456789ab, not pushed; merged a; b is in conflict in x.go, y·[2Jz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := view.Delivery(tc.d); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
