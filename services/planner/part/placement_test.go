package part

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	long := "https://x/" + strings.Repeat("x", events.MaxAddress-len("https://x/"))
	for _, tc := range []struct {
		name, want string
		task       events.Task
	}{
		{"CLI-5 a task without a place is taken", "", events.Task{}},
		{"GIT-12 a repository by https, with all that can be said of it", "", events.Task{Repo: "https://github.com/x/y", Ref: "pull/123/head", Branch: "main", Depth: 1}},
		{"GIT-12 a repository by ssh", "", events.Task{Repo: "git@github.com:x/y.git", Ref: "v1.2"}},
		{"CLI-5 an address at the limit", "", events.Task{Repo: long, Ref: "main"}},
		{"CLI-5 an address above the limit", "more than", events.Task{Repo: long + "x"}},
		{"SAFE-12 an address that git would take for an option", "bad name", events.Task{Repo: "--upload-pack=x"}},
		{"SAFE-12 a ref with a line break", "bad name", events.Task{Repo: "https://x/y", Ref: "a\nb"}},
		{"SAFE-12 a branch that git would take for an option", "bad name", events.Task{Repo: "https://x/y", Branch: "--force"}},
		{"CLI-5 a ref alone", "without a repo", events.Task{Ref: "main"}},
		{"GIT-12 a depth alone", "without a repo", events.Task{Depth: 1}},
		{"GIT-12 a depth below zero", "want 0 to", events.Task{Repo: "https://x/y", Depth: -1}},
		{"GIT-5 a word that is no way to work together", "want sequential or parallel", events.Task{Git: &events.TaskGit{GitSettings: events.GitSettings{Collaboration: "both"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := CheckPlacement(tc.task)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("SAFE-11 a secret in an address is refused, and is not repeated", func(t *testing.T) {
		t.Parallel()
		for _, repo := range []string{"https://me:hunter2@host/x", "https://hunter2@host/x", "hunter2@@host:x"} {
			if err := CheckPlacement(events.Task{Repo: repo}); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", repo, err)
			}
		}
	})
}
