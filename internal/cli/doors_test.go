package cli_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/cli"
)

var command = regexp.MustCompile("inspan ([a-z]+)(?: ([a-z]+))?")

func TestDoors(t *testing.T) {
	t.Parallel()
	t.Run("CLI-13 every entry point of the page exists, and the page leaves out no command that opens a door", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile("../../docs/entrypoints.md")
		if err != nil {
			t.Fatal(err)
		}
		var named []string
		for _, m := range command.FindAllStringSubmatch(string(page), -1) {
			if m[1] == "completion" {
				continue // made when the program runs
			}
			root := cli.Root()
			found, _, err := root.Find([]string{m[1]})
			if err != nil || found == root {
				t.Errorf("%q: there is no such command", m[0])
				continue
			}
			if sub, _, err := root.Find([]string{m[1], m[2]}); found.HasSubCommands() && m[2] != "" && (err != nil || sub == found) {
				t.Errorf("%q: there is no such command", m[0])
			}
			named = append(named, found.Name())
		}
		for _, egress := range []string{"demo", "init", "run", "repl", "up", "logs", "watch", "approve", "session", "config"} {
			if !slices.Contains(named, egress) {
				t.Errorf("inspan %s is not on the page", egress)
			}
		}
	})
}
