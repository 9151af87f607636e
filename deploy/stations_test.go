package deploy_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/topology"
)

// TestStations carries out what docs/stations.md says for a second station on the same servers.
func TestStations(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 the command of docs/stations.md makes the accounts of another station, with names of its own", func(t *testing.T) {
		t.Parallel()
		command := regexp.MustCompile(`(?m)^sed .* deploy/nats/users\.conf`).FindString(string(read(t, "../docs/stations.md")))
		if command == "" {
			t.Fatal("docs/stations.md has no such command")
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = ".."
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		outsiders := append(topology.Buckets{}.ShippedOutsiders("eu"), topology.Buckets{}.Consoles("eu")...)
		want := topology.Accounts("eu", outsiders, func(user string) string { return strings.Replace(variable(user), "$NATS_", "$NATS_EU_", 1) },
			topology.Setup("eu"))
		want = strings.TrimSuffix(strings.TrimPrefix(want, "accounts {\n"), "}\n")
		if want = regexp.MustCompile(`(?m)^( *user: )`).ReplaceAllString(want, "${1}eu-"); string(got) != want {
			t.Errorf("%d bytes are not the %d of the table", len(got), len(want))
		}
	})
}
