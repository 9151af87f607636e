package topology

import (
	"slices"

	"github.com/inspan/inspan/internal/agentbus"
)

// agentBus is what a gateway needs to answer prompts of the Synadia Agent Protocol. Answers go to inboxes alone.
func agentBus(station string) (publish, subscribe []string) {
	publish = []string{peopleInbox, agentbus.HeartbeatSubject(station, "*")}
	subscribe = []string{agentbus.PromptSubject(station, "*"), agentbus.StatusSubject(station, "*"),
		agentbus.AnswerSubject(station, "*")}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		subscribe = append(subscribe, "$SRV."+verb, "$SRV."+verb+"."+agentbus.Name, "$SRV."+verb+"."+agentbus.Name+".*")
	}
	return publish, subscribe
}

// agentCallers is what who may dispatch needs to prompt agents by that protocol, and who may approve to answer what they
// ask. The answers say nothing of who gave them.
func agentCallers(station string, rights []Right) (publish, subscribe []string) {
	if slices.Contains(rights, MayDispatch) {
		publish = append(publish, agentbus.PromptSubject(station, "*"), agentbus.StatusSubject(station, "*"))
		for _, verb := range []string{"PING", "INFO"} {
			publish = append(publish, "$SRV."+verb+"."+agentbus.Name, "$SRV."+verb+"."+agentbus.Name+".*")
		}
		// The account has one station: the pattern for all agents, as people type it, shows no other.
		subscribe = append(subscribe, agentbus.Name+".hb.*.*.*")
	}
	if slices.Contains(rights, MayApprove) {
		publish = append(publish, agentbus.AnswerSubject(station, "*"))
	}
	return publish, subscribe
}
