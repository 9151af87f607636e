package agentfile

import (
	"strconv"

	"github.com/inspan/inspan/pkg/events"
)

// compaction fills in what the file says about the history of the agent's steps, and whether its model takes images.
func (p *parsing) compaction(root *node, a *events.Agent) {
	if on := root.get("config", "images"); on != nil {
		a.NoImages = !on.yes()
	}
	n := root.get("harness", "compaction")
	if n == nil {
		return
	}
	a.ContextWindow = n.get("context_window").whole()
	var c events.Compaction
	if on := n.child("enabled"); on != nil {
		c.Off = on.kind == isBool && on.text == "false"
	}
	if t := n.child("threshold"); t != nil {
		if v, err := strconv.ParseFloat(t.text, 64); err == nil {
			c.Threshold = v
		}
	}
	if t := n.child("protect_tokens"); t != nil {
		v := t.whole()
		c.ProtectTokens = &v
	}
	if c != (events.Compaction{}) {
		a.Compaction = &c
	}
}
