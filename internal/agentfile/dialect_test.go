package agentfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the difference before you keep it")

// TestDialects compares each accepted form of an agent file with its normalised one.
func TestDialects(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/dialects/*.prompt")
	if err != nil || len(files) < 5 {
		t.Fatalf("dialects: %v %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), agentfile.Ext)
		t.Run("ID-10 LOOP-1 LOOP-2 C26 C27 "+name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			agent, warnings, err := agentfile.Parse(name, data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(struct {
				Agent    events.Agent        `json:"agent"`
				Warnings []agentfile.Warning `json:"warnings"`
			}{agent, warnings}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, agentfile.Ext) + ".json"
			if *rewrite {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(append(got, '\n'), want) {
				t.Errorf("%s is not what it was; got:\n%s", golden, got)
			}
		})
	}
}

// TestShippedAgents loads the agents of the examples as a station does.
func TestShippedAgents(t *testing.T) {
	t.Parallel()
	agents, warnings, err := agentfile.LoadDir("../../examples/agents")
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Errorf("a shipped agent says something without effect: %v", warnings)
	}
	want := map[string]string{
		"fixer":     "read edit bash glob grep git_status git_diff",
		"reviewer":  "read glob grep git_diff git_log",
		"writer":    "write read",
		"architect": "read write edit glob grep bash git_status git_diff",
	}
	for name, tools := range want {
		t.Run("ID-11 TOOL-14 LOOP-16 "+name, func(t *testing.T) {
			t.Parallel()
			a, ok := agents[name]
			if !ok {
				t.Fatalf("%s is not there", name)
			}
			if got := strings.Join(a.Tools, " "); got != tools {
				t.Errorf("tools %q, want %q", got, tools)
			}
			if a.Model != "scripted/"+name {
				t.Errorf("model %q", a.Model)
			}
			if (a.Plan == "model") != (name == "architect") {
				t.Errorf("plan %q", a.Plan)
			}
			r, err := agentfile.Render(a, agentfile.RenderInput{Task: "the {{task}}", Step: "one", StepDescription: "first"})
			if err != nil {
				t.Fatal(err)
			}
			if r.User != "the {{task}}" || len(r.System) < 500 {
				t.Errorf("user %q, %d bytes of system", r.User, len(r.System))
			}
		})
	}
	if len(agents) != len(want) {
		t.Errorf("%d agents, want %d", len(agents), len(want))
	}
}
