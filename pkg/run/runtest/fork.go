package runtest

import (
	"sync"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// forked is a run that was forked in the middle of a step, with the start in two parts. It is made once.
var forked = sync.OnceValues(makeFork)

func makeFork() (events.ForkOrigin, []*events.RunForkedData) {
	b := New("demo", "origin")
	b.Append(Created(), Started(), Plan(Step("a"), Step("b", "a")), Ready("a"), Allowed("a"),
		Turn(1, "a", "two calls", Asked(1, 1, "read", `{"path":"a.txt"}`), Asked(1, 2, "bash", `{"command":"make"}`)))
	b.Append(CallYes(Ref("a", "c1-2", "bash"), "once"), CallBegun(Ref("a", "c1-2", "bash"), 1))
	start, err := run.Fork(b.State(), "try the other way", true)
	if err != nil {
		panic("runtest: " + err.Error())
	}
	from, parts, err := run.ForkParts(b.State(), start)
	if err != nil {
		panic("runtest: " + err.Error())
	}
	whole, half := parts[0].Data, len(parts[0].Data)/2
	return from, []*events.RunForkedData{{Event: "run_forked", Data: whole[:half]}, {Event: "run_forked", Offset: half,
		Data: whole[half:]}}
}

// ForkCreated opens a run that is a fork.
func ForkCreated() *events.RunCreatedData {
	c := Created()
	from, _ := forked()
	c.ForkOf = &from
	return c
}

// ForkPart is the part at an offset of the state that the run of ForkCreated begins with.
func ForkPart(offset int) *events.RunForkedData {
	_, parts := forked()
	for _, p := range parts {
		if p.Offset == offset {
			return p
		}
	}
	panic("runtest: there is no part at that offset")
}
