package run_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestImages(t *testing.T) {
	t.Parallel()
	b := runtest.New("demo", "old")
	c := runtest.Asked(1, 1, "read", `{"path":"a.png"}`)
	ref := runtest.Ref("a", c.ID, "read")
	done := runtest.CallDone(ref, 0, "a picture")
	done.Images = []events.Image{{Ref: events.Ref{SHA256: strings.Repeat("ab", 32), Size: 9, Type: "image"}, MediaType: "image/png", Width: 3, Height: 2}}
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "", c), runtest.CallYes(ref, "read"), done)
	t.Run("PLUS-2 TOOL-2 the record of a call keeps its pictures by reference, also in a stored state", func(t *testing.T) {
		t.Parallel()
		doc, err := run.Codec{}.Encode(b.State())
		if err != nil {
			t.Fatal(err)
		}
		again, err := run.Codec{}.Decode(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []run.State{b.State(), again} {
			if got := s.ToolCallHistory.At(0).Images; !reflect.DeepEqual(got, done.Images) {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("PLUS-1 PLUS-2 a fork names the pictures that it needs and shows them", func(t *testing.T) {
		t.Parallel()
		start, err := run.Fork(b.State(), "", false)
		if err != nil {
			t.Fatal(err)
		}
		_, parts, err := run.ForkParts(b.State(), start)
		if err != nil || !slices.Contains(parts[0].Refs, done.Images[0].Ref) {
			t.Errorf("got %+v, %v", parts[0].Refs, err)
		}
		if got := fork(t, b.State(), "", false).State().ToolCallHistory.At(0).Images; !reflect.DeepEqual(got, done.Images) {
			t.Errorf("got %+v", got)
		}
	})
}
