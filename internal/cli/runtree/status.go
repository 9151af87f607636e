package runtree

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// CostText is what a run cost, "" where nothing is known of it.
func CostText(cost events.MicroUSD) string {
	if cost == 0 {
		return ""
	}
	return cost.String()
}

// UseText says what runs used.
func UseText(u events.Use) string {
	text := fmt.Sprintf("%s, %s, %s tokens", view.Plural(u.Turns, "turn"), view.Plural(u.ToolCalls, "call"),
		view.Count(int(u.Tokens())))
	if cost := CostText(u.Paid()); cost != "" {
		text += ", " + cost
	}
	return text
}

// The statuses that a list shows: those of a run, and some that say more.
const (
	statusHeld     = "held"
	statusWaiting  = "waiting"
	statusProvider = "waiting: provider"
	statusStopped  = "stopped"
	statusHanded   = "handed off"
)

// StatusOf is the status that a list shows for a run. A run that a person stopped, and one of an
// agent that handed off, have failed in their events.
func StatusOf(i run.Info) string {
	switch {
	case i.Held != "":
		return statusHeld
	case len(i.Gates) > 0 && i.Status == events.Running:
		return statusWaiting
	case i.Provider != "" && i.Status == events.Running:
		return statusProvider
	case view.Stopped(events.Result{Status: i.Status, FinishReason: i.FinishReason}):
		return statusStopped
	case view.HandedOff(events.Result{Status: i.Status, FinishReason: i.FinishReason}):
		return statusHanded
	}
	return string(i.Status)
}

// Is reports whether a run has a status that a person asks for: that of its events, or what a list shows.
func Is(i run.Info, status string) bool {
	shown := StatusOf(i)
	kind, _, _ := strings.Cut(shown, ":")
	return status == "" || status == shown || status == kind || status == string(i.Status)
}

// Statuses are all that a person can ask for.
var Statuses = []string{string(events.Created), string(events.Running), statusWaiting, string(events.Paused),
	string(events.Completed), string(events.Failed), statusStopped, statusHanded, statusHeld}
