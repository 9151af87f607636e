package planner

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	fetching, plain := &Role{cfg: Config{Repos: true}}, &Role{}
	long := strings.Repeat("x", events.MaxAddress)
	for _, tc := range []struct {
		name, want string
		role       *Role
		task       events.Task
	}{
		{"CLI-5 a task without a place is taken", "", plain, events.Task{}},
		{"CLI-5 a repository is refused where none is fetched", "does not fetch repositories", plain, events.Task{Repo: "https://x/y"}},
		{"CLI-5 a repository is taken where they are fetched", "", fetching, events.Task{Repo: long, Ref: "main"}},
		{"CLI-5 an address above the limit", "more than", fetching, events.Task{Repo: long + "x"}},
		{"SAFE-12 an address that git would take for an option", "not an address", fetching, events.Task{Repo: "--upload-pack=x"}},
		{"SAFE-12 a ref with a line break", "not an address", fetching, events.Task{Repo: "x", Ref: "a\nb"}},
		{"CLI-5 a ref alone", "without a repo", plain, events.Task{Ref: "main"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.role.checkPlace(tc.task)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
