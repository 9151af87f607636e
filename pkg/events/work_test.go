package events

import "testing"

func TestRunOf(t *testing.T) {
	t.Parallel()
	works := WorkItem{Epoch: 2, Binding: &WorkBinding{Epoch: 2, Run: "b"}, Last: &WorkEnd{Epoch: 1, Run: "a"}}
	ended := WorkItem{Epoch: 2, Last: &WorkEnd{Epoch: 2, Run: "b"}}
	for _, c := range []struct {
		name  string
		item  WorkItem
		epoch int
		want  string
	}{
		{"no binding yet", WorkItem{}, 1, ""},
		{"it works", works, 2, "b"},
		{"the one before it", works, 1, "a"},
		{"it has ended", ended, 2, "b"},
		{"an older one", ended, 1, ""},
		{"a later one", ended, 3, ""},
	} {
		t.Run("WORK-2 the run of a binding: "+c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.item.RunOf(c.epoch); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
