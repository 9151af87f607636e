package needs_test

import (
	"testing"

	"github.com/inspan/inspan/internal/core/needs"
)

func TestNeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]needs.Need{
		"git": {Command: "git"}, "go>=1.22": {"go", ">=", "1.22"}, " node > 20 ": {"node", ">", "20"}, "python3.11=3.11": {"python3.11", "==", "3.11"}, "g++<14": {"g++", "<", "14"},
		"clang-format<=17.0.1": {"clang-format", "<=", "17.0.1"},
	} {
		if got, err := needs.Parse(text); err != nil || got != want {
			t.Errorf("SBX-21 %q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ">=1", "go>=", "go>=x", "/bin/sh", "a b", "git;rm", "$(x)", "-v", "go>=1.2.3.4.5", "go~1"} {
		if got, err := needs.Parse(text); err == nil {
			t.Errorf("SBX-21 %q: got %+v, want an error", text, got)
		}
	}
	for _, c := range []struct {
		need   string
		found  bool
		output string
		want   string
	}{
		{"git", true, "", ""},
		{"git", false, "", "git is required and missing"},
		{"go>=1.22", true, "go version go1.22.3 linux/amd64", ""},
		{"go>=1.22", true, "go version go1.9.7 linux/amd64", "go>=1.22 is required, and go is version 1.9.7"},
		{"go==1.22", true, "go1.22.9", ""},
		{"go>1.22", true, "go1.22.9", "go>1.22 is required, and go is version 1.22.9"},
		{"go>1.22", true, "go1.23", ""},
		{"node<20", true, "v18.1.0", ""},
		{"node<=18", true, "v18.1.0", ""},
		{"less>=500", true, "less 590 (GNU regular expressions)", ""},
		{"x>=1", true, "no idea", "x>=1 is required, and x does not print its version"},
		{"x>=1.2.3", true, "1.2", "x>=1.2.3 is required, and x is version 1.2"},
	} {
		n, err := needs.Parse(c.need)
		if got := n.Missing(c.found, c.output); err != nil || got != c.want {
			t.Errorf("SBX-21 %s, %q: got %q, %v, want %q", c.need, c.output, got, err, c.want)
		}
	}
}
