package notify

import (
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// InPlace is who answers a gate in the place of somebody who is away, and until when.
type InPlace struct {
	For   string    `json:"for"`
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// people are those whom a notice of a gate names, those first who may answer where others may not. To may be a group
// of the operator, which is away only where somebody has its name.
func (n Notice) people() (names []string) {
	for _, name := range append(slices.Clone(n.Approvers), n.To, n.By) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// WithDeputies is a notice with those who at a time answer in the place of the people whom it names. The deputy of a
// deputy is none, so a circle of deputies adds no one. A notice of the end or the pause of a run has none.
func (n Notice) WithDeputies(all events.Deputies, now time.Time) Notice {
	n.Deputies = nil
	if !n.AtGate() {
		return n
	}
	for _, name := range n.people() {
		if d := all.Of(name); d.Holds(now) {
			n.Deputies = append(n.Deputies, InPlace{For: d.For, By: d.To, Until: d.Until})
		}
	}
	return n
}

// Names reports whether a notice is for somebody: the run was asked for in that name, the gate names that approver, or
// a reminder is for them.
func (n Notice) Names(name string) bool { return slices.Contains(n.people(), name) }

// Deputizes is in whose place somebody answers the gate of a notice, where it names one who is away.
func (n Notice) Deputizes(name string) (d InPlace, ok bool) {
	i := slices.IndexFunc(n.Deputies, func(d InPlace) bool { return d.By == name })
	if i < 0 {
		return d, false
	}
	return n.Deputies[i], true
}

// Reaches reports whether a notice is for somebody, or for one in whose place they answer.
func (n Notice) Reaches(name string) bool {
	_, deputizes := n.Deputizes(name)
	return deputizes || n.Names(name)
}

// Calls reports whether a reminder is for a group or a person of a name, or for one in whose place they answer.
func (n Notice) Calls(name string) bool {
	return n.To == name || slices.ContainsFunc(n.Deputies, func(d InPlace) bool { return d.For == n.To && d.By == name })
}

// Away says on one line who answers in whose place; empty where no one does.
func (n Notice) Away() string {
	var text []string
	for _, d := range n.Deputies {
		text = append(text, d.By+" answers for "+d.For+" (--deputy-for "+d.For+")")
	}
	return strings.Join(text, "; ")
}
