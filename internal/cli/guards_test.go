package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli"
)

const strictAgent = `---
name: strict
model: scripted/strict
tools: [bash, write]
permissions: {bash: {"make *": ask}}
guards:
  - {id: no-curl, tool: bash, match: {argv: ["curl", "**"]}, action: deny, reason: no network}
hooks:
  - {id: late, on: pre_tool, tool: write, builtin: doom-loop}
---
Do it.
`

const stationPolicy = `version: 1
rules:
  - {id: no-ssh, tool: bash, match: {argv: ["ssh", "**"]}, action: deny, reason: no shells elsewhere}
hooks:
  - {id: audit, on: pre_tool, subject: audit}
`

// guardsOf runs the guards command without a station.
func guardsOf(t *testing.T, argv ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.MainAlone(t.Context(), append([]string{"guards"}, argv...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestGuards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent, policy := filepath.Join(dir, "strict.prompt"), filepath.Join(dir, "policy.yaml")
	for path, text := range map[string]string{agent: strictAgent, policy: stationPolicy} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"--agent", agent, "--policy", policy}
	t.Run("GUARD-5 GUARD-6 guards test names verdict, rule, layer and the command that met it, and exits accordingly", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			call, verdict, rule, layer, met string
			code                            int
		}{
			{"go test ./...", "allow", "", "", "", 0},
			{"true && sudo git -C x push --force origin main", "deny", "force-push", "built-in", "git push --force origin main", 4},
			{"echo x; ssh host", "deny", "no-ssh", "station", "ssh host", 4},
			{"curl x | sh", "deny", "no-curl", "agent", "curl x", 4},
			{"make all", "ask", "permissions-bash-1", "agent", "make all", 3},
			{`eval "$X"`, "ask", "unclear-shell", "", "", 3},
			{`write {"path":"../x"}`, "deny", "outside-workspace", "built-in", "", 4},
			{`write {"path":"x"}`, "allow", "", "", "", 0},
			{`read {"path":"x"}`, "deny", "allowed-set", "agent", "", 4},
		} {
			code, out, errOut := guardsOf(t, append([]string{"test", c.call, "--json"}, files...)...)
			var got struct {
				Verdict, Rule, Layer string
				Command, Hooks       []string
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%s: %v: %s%s", c.call, err, out, errOut)
			}
			if code != c.code || got.Verdict != c.verdict || got.Rule != c.rule || got.Layer != c.layer || strings.Join(got.Command, " ") != c.met {
				t.Errorf("%s: exit %d, %+v", c.call, code, got)
			}
			if wantHooks := got.Verdict != "deny"; wantHooks != (len(got.Hooks) > 0) {
				t.Errorf("%s: hooks %v", c.call, got.Hooks)
			}
		}
	})
	t.Run("GUARD-11 guards show lists each rule with its layer, and its bytes are those of the digest", func(t *testing.T) {
		t.Parallel()
		_, out, errOut := guardsOf(t, append([]string{"show", "--json"}, files...)...)
		var got struct {
			Digest       string
			Rules, Hooks []struct{ ID, Layer string }
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, errOut)
		}
		layers := map[string]string{}
		for _, r := range got.Rules {
			layers[r.ID] = r.Layer
		}
		if layers["force-push"] != "built-in" || layers["no-ssh"] != "station" || layers["no-curl"] != "agent" || len(got.Hooks) != 2 || got.Hooks[0].ID != "audit" {
			t.Errorf("%v %v", layers, got.Hooks)
		}
		code, raw, _ := guardsOf(t, append([]string{"show", "--bytes"}, files...)...)
		sum := sha256.Sum256([]byte(raw))
		if code != 0 || hex.EncodeToString(sum[:]) != got.Digest {
			t.Errorf("the bytes do not have the digest %s", got.Digest)
		}
		if _, again, _ := guardsOf(t, append([]string{"show", "--bytes"}, files...)...); again != raw {
			t.Error("not the same bytes twice")
		}
		if _, plain, _ := guardsOf(t, append([]string{"show"}, files...)...); !strings.Contains(plain, "no-ssh") || !strings.Contains(plain, "subject station.*.hook.audit") {
			t.Error(plain)
		}
	})
	t.Run("bad input is the fault of the command line or of the file, and says so", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			argv []string
			code int
			want string
		}{
			{[]string{"test"}, 2, "1"}, {[]string{"test", " "}, 2, "empty"}, {[]string{"test", `write {"path":}`}, 2, "not JSON"},
			{[]string{"show", "--agent", filepath.Join(dir, "none.prompt")}, 1, "none.prompt"},
			{[]string{"sow"}, 2, "show"},
		} {
			if code, out, errOut := guardsOf(t, c.argv...); code != c.code || !strings.Contains(errOut, c.want) {
				t.Errorf("%v: exit %d %s%s", c.argv, code, out, errOut)
			}
		}
	})
}
