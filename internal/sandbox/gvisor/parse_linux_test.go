package gvisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// statOf is a line of proc_pid_stat(5) with a name, a state and a parent.
func statOf(pid int, name string, state byte, parent int) string {
	return fmt.Sprintf("==> /proc/%d/stat <==\n%d (%s) %c %d %s\n\n", pid, pid, name, state, parent, strings.Repeat("7 ", 30))
}

func lineOf(pid int, args ...string) string {
	return fmt.Sprintf("==> /proc/%d/cmdline <==\n%s\x00\n", pid, strings.Join(args, "\x00"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	t.Run("SBX-2 processes are read, the lister and the dead left out", func(t *testing.T) {
		text := "9\n" + statOf(1, "sh", 'S', 0) + statOf(4, "a) b (c", 'R', 1) + statOf(5, "gone", 'Z', 1) + statOf(9, "head", 'R', 0) +
			lineOf(1, "sh", "-c", "two words") + lineOf(4, "sleep", "600") + lineOf(9, "head")
		list := parse(3, text)
		if len(list) != 2 || list[0].PID != 300001 || list[0].Parent != 0 || list[1].PID != 300004 || list[1].Parent != 300001 ||
			!slices.Equal(list[0].Args, []string{"sh", "-c", "two words"}) || !slices.Equal(list[1].Args, []string{"sleep", "600"}) {
			t.Errorf("got %+v", list)
		}
	})
	t.Run("SBX-2 whatever is said, numbers are those of this kernel", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\n", "==> /proc/", "/stat <==\n", "/cmdline <==\n", "-1", "99999999", "1", ")",
			strings.Repeat("-9 ", 30), "\x00"}))).Draw(t, "text")
		for _, info := range parse(3, strings.Join(text, "")) {
			if info.PID/numbers != 3 || info.PID%numbers == 0 || info.RSS < 0 {
				t.Fatalf("got %+v", info)
			}
		}
	}))
}
