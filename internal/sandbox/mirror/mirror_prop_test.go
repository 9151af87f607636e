package mirror_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/sandbox"
)

// change is a line of a shell that changes a tree somehow; what does not fit is left.
func change() *rapid.Generator[string] {
	name := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c d"}), 1, 3), func(parts []string) string { return "'" + strings.Join(parts, "/") + "'" })
	return rapid.Custom(func(t *rapid.T) string {
		n := name.Draw(t, "name")
		return rapid.SampledFrom([]string{
			fmt.Sprintf("mkdir -p %s", n), fmt.Sprintf("rm -rf %s", n), fmt.Sprintf("rmdir %s", n), fmt.Sprintf("chmod 7%d%d %s", rapid.IntRange(0, 7).Draw(t, "g"), rapid.IntRange(0, 7).Draw(t, "o"), n),
			fmt.Sprintf("echo %d > %s", rapid.IntRange(0, 99).Draw(t, "n"), n), fmt.Sprintf("echo %d >> %s", rapid.IntRange(0, 99).Draw(t, "n"), n),
			fmt.Sprintf("ln -sfn %s %s", name.Draw(t, "to"), n), fmt.Sprintf("mv -T %s %s", n, name.Draw(t, "to")), fmt.Sprintf("ln %s %s", n, name.Draw(t, "to")), fmt.Sprintf("touch %s", n),
		}).Draw(t, "change")
	})
}

// TestBothWays changes the tree on one side and on the other, by turns: after each command both are the same.
func TestBothWays(t *testing.T) {
	t.Parallel()
	turns := rapid.SliceOfN(rapid.SliceOfN(change(), 0, 6), 12, 12)
	for seed := range 6 {
		t.Run(fmt.Sprintf("SBX-18 seed %d", seed), func(t *testing.T) {
			t.Parallel()
			sb, _ := open(t, sandbox.Config{})
			for i, turn := range turns.Example(seed) {
				script := strings.Join(turn, " 2>/dev/null\n") + " 2>/dev/null\ntrue"
				if i%2 == 0 {
					cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
					cmd.Dir = sb.Workspace()
					must(t, cmd.Run())
					script = "true"
				}
				if _, err := sh(t, sb, script); err != nil {
					t.Fatalf("turn %d: %v\n%s", i, err, strings.Join(turn, "\n"))
				}
				if here, there := shape(t, sb.Workspace()), shape(t, sb.Inside()); here != there {
					t.Fatalf("turn %d:\n%s\nhere:\n%s\nthere:\n%s", i, strings.Join(turn, "\n"), here, there)
				}
			}
		})
	}
}
