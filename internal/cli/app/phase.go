package app

import (
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Phase reads NAME[=AGENT][: COMMAND].
func Phase(text string) events.Phase {
	head, command, checked := strings.Cut(text, ":")
	name, agent, _ := strings.Cut(head, "=")
	p := events.Phase{Name: strings.TrimSpace(name), Agent: strings.TrimSpace(agent)}
	if checked {
		p.Accept = &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: strings.TrimSpace(command)}}}
	}
	return p
}
