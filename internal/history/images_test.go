package history_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestImages(t *testing.T) {
	t.Parallel()
	t.Run("SESS-9 PLUS-2 a picture in a result is told in words to the runs after it", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		c := runtest.Asked(1, 1, "read", `{"path":"a.png"}`)
		ref := runtest.Ref("a", c.ID, "read")
		done := runtest.CallDone(ref, 0, "a picture")
		done.Images = []events.Image{{Ref: events.Ref{SHA256: strings.Repeat("ab", 32), Size: 9}, MediaType: "image/png", Width: 3, Height: 2}}
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "", c), runtest.CallYes(ref, "read"), done, runtest.Turn(2, "a", "seen"))
		all, err := history.Of(b.State())
		if err != nil || len(all) < 3 || len(all[2].Results) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if out := all[2].Results[0].Output; !strings.HasPrefix(out, "a picture\n") || !strings.Contains(out, "not shown here") || !strings.Contains(out, "image/png, 3x2 pixels") {
			t.Errorf("got %q", out)
		}
	})
}
