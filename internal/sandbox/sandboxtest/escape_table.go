package sandboxtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// print shows the table of what was tried.
func (o *outcome) print(t *testing.T, mode sandbox.Mode) {
	var b strings.Builder
	out := 0
	for _, name := range slices.Sorted(maps.Keys(o.rows)) {
		fmt.Fprintf(&b, "%-9s %-36s %s\n", mode, name, o.rows[name])
		if strings.ToUpper(o.rows[name]) == o.rows[name] {
			out++
		}
	}
	t.Logf("%d tried, %d got out\n%s", len(o.rows), out, b.String())
}
