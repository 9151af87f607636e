package events_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestValidTraceParent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if !events.ValidTraceParent(good) {
		t.Error("the example of the standard is refused")
	}
	for _, bad := range []string{"", good + "0", strings.ToUpper(good), "ff" + good[2:], strings.Replace(good, "-", "_", 1), good[:36] + "0000000000000000-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", good[:54] + "g", good[:54] + "\n"} {
		if events.ValidTraceParent(bad) {
			t.Errorf("%q is let through", bad)
		}
	}
}
