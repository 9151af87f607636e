package prompt

import (
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func image(w, h int) events.Image {
	return events.Image{Ref: events.Ref{SHA256: strings.Repeat("ab", 32), Size: 1000, Type: "image"}, MediaType: "image/png", Width: w, Height: h}
}

// gallery is a run in which each of so many turns read a picture.
func gallery(agent events.Agent, turns int, i events.Image) run.State {
	b := runtest.New("main", "r")
	created := runtest.Created()
	created.Agents["worker"] = agent
	b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	for n := 1; n <= turns; n++ {
		c := runtest.Asked(n, 1, "read", `{"path":"a.png"}`)
		ref := runtest.Ref("a", c.ID, "read")
		done := runtest.CallDone(ref, 0, "a picture")
		done.Images = []events.Image{i}
		b.Append(runtest.Turn(n, "a", "look", c), runtest.CallYes(ref, "read"), done)
	}
	return b.State()
}

// shows are the turns whose picture a prompt shows, as 1, or hides in words, as 0.
func shows(t *testing.T, p Prompt) (out []int) {
	t.Helper()
	for _, e := range p.Entries {
		if e.Exchange == nil {
			continue
		}
		r := e.Exchange.Results[0]
		if out = append(out, len(r.Images)); (len(r.Images) == 0) != strings.Contains(r.Output, "not shown here") || !strings.HasPrefix(r.Output, "a picture") {
			t.Errorf("got %q with %d images", r.Output, len(r.Images))
		}
	}
	return out
}

func TestImages(t *testing.T) {
	t.Parallel()
	input := func(turns int, i events.Image, change func(*events.Agent)) Input {
		a := runtest.Agent("worker", "read")
		if change != nil {
			change(&a)
		}
		s := gallery(a, turns, i)
		return Input{State: s, Step: s.Step("a"), Agent: a, System: "s", User: "u"}
	}
	ones := func(zeros, n int) []int {
		out := make([]int, n)
		for i := zeros; i < n; i++ {
			out[i] = 1
		}
		return out
	}
	t.Run("PLUS-2 the newest images stand in a conversation, by reference, and the older ones go many at a time", func(t *testing.T) {
		t.Parallel()
		for turns, hidden := range map[int]int{1: 0, MaxShown: 0, MaxShown + 1: MaxShown/2 + 1, MaxShown + 11: MaxShown/2 + 1, MaxShown + 12: MaxShown + 2} {
			in := input(turns, image(100, 100), nil)
			before := in.State.ToolCallHistory.At(0)
			if got := shows(t, Assemble(in)); !reflect.DeepEqual(got, ones(hidden, turns)) {
				t.Errorf("%d turns: got %v, want the first %d hidden", turns, got, hidden)
			}
			if after := in.State.ToolCallHistory.At(0); !reflect.DeepEqual(before, after) || len(after.Images) != 1 {
				t.Errorf("the history was changed: %+v", after)
			}
		}
	})
	t.Run("PLUS-2 images that are too large together go as well, the newest never", func(t *testing.T) {
		t.Parallel()
		big := image(100, 100)
		big.Ref.Size = MaxShownBytes / 3
		if got := shows(t, Assemble(input(4, big, nil))); !reflect.DeepEqual(got, ones(3, 4)) {
			t.Errorf("got %v", got)
		}
		big.Ref.Size = MaxShownBytes * 2
		if got := shows(t, Assemble(input(2, big, nil))); !reflect.DeepEqual(got, ones(1, 2)) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("PLUS-2 a model that takes no images is told of them in words", func(t *testing.T) {
		t.Parallel()
		p := Assemble(input(2, image(640, 480), func(a *events.Agent) { a.NoImages = true }))
		if got := shows(t, p); !reflect.DeepEqual(got, ones(2, 2)) {
			t.Errorf("got %v", got)
		}
		if out := p.Entries[1].Exchange.Results[0].Output; !strings.Contains(out, "image/png, 640x480 pixels, 1000 bytes") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("LOOP-7 PLUS-2 images count in the length of the prompt, and a window without room for one is told so", func(t *testing.T) {
		t.Parallel()
		window := func(n int) func(*events.Agent) { return func(a *events.Agent) { a.ContextWindow = n } }
		in := input(19, image(1000, 1000), window(20_000))
		for _, turn := range run.All(in.State.Turns()) {
			if turn.InputTokens > 100 {
				t.Fatalf("the provider's own count of %d would hide what is tested", turn.InputTokens)
			}
		}
		if m := measure(in, Assemble(in)); m.sizes[0] < 1333/2 {
			t.Errorf("got %v, want each exchange to count its image", m.sizes)
		}
		if got := shows(t, Assemble(input(1, image(1000, 1000), window(1000)))); !reflect.DeepEqual(got, ones(1, 1)) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("an estimate has bounds, also for sizes that no picture has", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ w, h, want int }{{1, 1, 258}, {750, 1000, 1000}, {8000, 2000, 1600}, {1 << 40, 1 << 40, 1600}, {0, 5, 1600}, {-1, -1, 1600}} {
			if got := ImageTokens(image(c.w, c.h)); got != c.want {
				t.Errorf("%dx%d: got %d, want %d", c.w, c.h, got, c.want)
			}
		}
	})
}
