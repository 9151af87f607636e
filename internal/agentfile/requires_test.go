package agentfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
)

func TestRequires(t *testing.T) {
	t.Parallel()
	t.Run("SBX-21 an agent file lists the commands and versions that it needs", func(t *testing.T) {
		t.Parallel()
		a, _, err := agentfile.Parse("coder", []byte("---\nname: coder\nmodel: scripted/coder\nrequires: [go>=1.22, git]\n---\n{{userInput}}\n"))
		if err != nil || !slices.Equal(a.Sandbox.Requires, []string{"go>=1.22", "git"}) {
			t.Errorf("got %v, %v", a.Sandbox.Requires, err)
		}
	})
	t.Run("SBX-21 what is no command is an error with its place", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"[/bin/sh]", "[\"go ~ 1\"]", "[3]", "git"} {
			if _, _, err := agentfile.Parse("coder", []byte("---\nname: coder\nmodel: scripted/coder\nrequires: "+bad+"\n---\n{{userInput}}\n")); err == nil || !strings.Contains(err.Error(), "requires") {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}
