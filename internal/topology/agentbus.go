package topology

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// agentBus is what a gateway needs to answer prompts of the Synadia Agent Protocol. Answers go to inboxes alone.
func agentBus(station string) (publish, subscribe []string) {
	publish = []string{peopleInbox, events.AgentHeartbeatSubject(station, "*")}
	subscribe = []string{events.AgentPromptSubject(station, "*"), events.AgentStatusSubject(station, "*"),
		events.AgentAnswerSubject(station, "*")}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		subscribe = append(subscribe, "$SRV."+verb, "$SRV."+verb+"."+events.AgentsName,
			"$SRV."+verb+"."+events.AgentsName+".*")
	}
	return publish, subscribe
}

// agentCallers is what who may dispatch needs to prompt agents by that protocol, and who may approve to answer what
// they ask. The answers say nothing of who gave them.
func agentCallers(station string, rights []Right) (publish, subscribe []string) {
	if slices.Contains(rights, MayDispatch) {
		publish = append(publish, events.AgentPromptSubject(station, "*"), events.AgentStatusSubject(station, "*"))
		for _, verb := range []string{"PING", "INFO"} {
			publish = append(publish, "$SRV."+verb+"."+events.AgentsName, "$SRV."+verb+"."+events.AgentsName+".*")
		}
		// The account has one station: the pattern for all agents, as people type it, shows no other.
		subscribe = append(subscribe, events.AgentsName+".hb.*.*.*")
	}
	if slices.Contains(rights, MayApprove) {
		publish = append(publish, events.AgentAnswerSubject(station, "*"))
	}
	return publish, subscribe
}
