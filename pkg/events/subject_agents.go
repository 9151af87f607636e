package events

// Words of the subjects of the Synadia Agent Protocol: AgentsName is the name of the micro service and of its queue
// group, AgentsHarness what our agents are agents of.
const (
	AgentsName    = "agents"
	AgentsHarness = "inspan"
)

// AgentPromptSubject is where an agent of a station is prompted by the Synadia Agent Protocol; "*" stands for all.
func AgentPromptSubject(station, agent string) string { return agentsSubject("prompt", station, agent) }

// AgentStatusSubject is where such an agent says that it is there.
func AgentStatusSubject(station, agent string) string { return agentsSubject("status", station, agent) }

// AgentHeartbeatSubject is where it says so by itself.
func AgentHeartbeatSubject(station, agent string) string { return agentsSubject("hb", station, agent) }

// AgentAnswerSubject is where the answer to one question of it is sent, which the token names.
func AgentAnswerSubject(station, token string) string { return agentsSubject("answer", station, token) }

func agentsSubject(verb, station, last string) string {
	return AgentsName + "." + verb + "." + AgentsHarness + "." + station + "." + last
}
