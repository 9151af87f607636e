package main

import (
	"cmp"
	"fmt"
	"time"
)

// backend is one of the sandboxes, and where its tests are.
type backend struct {
	mode string
	// apart says what examines it instead, where that takes too long for this program, unless the variable when is set.
	apart, when string
	// at is the package where it is not that of the mode's name, tests are those of its exam and ways out where the
	// package has others too, and turns the most that are measured.
	at, tests string
	turns     int
	// against says what stands for the real thing, where that is not on this machine.
	against string
	// walls says why there is no list of ways out.
	isolation string
	// most is the time each of its two parts may take.
	most time.Duration
	aims []aim
}

// aim is what a figure should be at most.
type aim struct {
	// figure of sandboxtest.Costs; what it is called on the page.
	figure, name string
	most         float64
	want         string
}

const (
	onDouble    = "a double of the service on this machine: what is measured is this side of it"
	noIsolation = "the walls are the service's, and a double has none"
)

var backends = []backend{
	{mode: "host", most: 5 * time.Minute, isolation: "it has no walls, and says so",
		aims: []aim{{"warm-times", "command, times bare", 1.25, "1x (1.25 with the noise of a run)"}}},
	{mode: "landlock", most: 5 * time.Minute},
	{mode: "bwrap", most: 5 * time.Minute, aims: []aim{{"cold-ms", "cold", 15, "15 ms"}}},
	{mode: "wasm", most: 10 * time.Minute, aims: []aim{{"warm-ms", "warm", 10, "10 ms"}}},
	{mode: "gvisor", most: 10 * time.Minute, aims: []aim{{"cold-ms", "cold", 150, "150 ms"},
		{"cold-ms", "cold, upper bound", 500, "500 ms"}}},
	{mode: "docker", most: 6 * time.Minute, aims: []aim{{"warm-ms", "warm", 60, "60 ms"}, {"cold-ms", "cold, upper bound",
		2000, "2 s"}}},
	{mode: "qemu", apart: "under emulation a machine takes seconds to start: make microvm-test examines and measures it, this program does where INSPAN_MICROVM_KERNEL and the like are set",
		when: "INSPAN_MICROVM_KERNEL", at: "microvm", tests: "^Test(RealExam|Escape)$", turns: 5, most: 90 * time.Minute},
	{mode: "firecracker", apart: "its engine was not there: make firecracker-test examines and measures it, make test its double"},
	{mode: "e2b", against: onDouble, isolation: noIsolation, most: 5 * time.Minute,
		aims: []aim{{"cold-ms", "cold, upper bound", 3000, "3 s"}}},
	{mode: "kubernetes", against: onDouble, isolation: noIsolation, most: 5 * time.Minute},
}

// dir is the package of a backend.
func (b backend) dir() string { return "./internal/sandbox/" + cmp.Or(b.at, b.mode) }

// verdict is an aim beside what was seen.
type verdict struct {
	Figure string `json:"figure"`
	Saw    string `json:"saw"`
	Want   string `json:"want"`
	Met    bool   `json:"met"`
}

// judge puts figures beside aims. A figure that is missing meets none.
func judge(b backend, costs map[string]float64) (list []verdict) {
	for _, a := range b.aims {
		v := verdict{Figure: a.name, Want: a.want, Saw: "not measured"}
		if got, ok := costs[a.figure]; ok {
			v.Met = got <= a.most
			v.Saw = figure(a.figure, got)
		}
		list = append(list, v)
	}
	return list
}

// figure is a number with its unit.
func figure(name string, v float64) string {
	if len(name) > 6 && name[len(name)-6:] == "-times" {
		return fmt.Sprintf("%.3gx", v)
	}
	if v >= 100 {
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f ms", v)
}
