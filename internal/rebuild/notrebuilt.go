package rebuild

// Untouched is something that a rebuild leaves as it is.
type Untouched struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// NotRebuilt lists what a rebuild does not make, although it lies beside the log, and why. All of it needs a backup of
// its own.
func NotRebuilt() []Untouched {
	return []Untouched{
		{"harness-state, log.mark", "evidence of how far the log reached; the persister writes it again, about the log as it is then"},
		{"harness-state, anchorkey.*",
			"public keys of anchors; a persister that has the key writes its own again when it starts"},
		{"harness-sessions, rows of sessions without a log",
			"an older version kept them; a planner takes each over into its log when the session is used next"},
		{"harness-trees, rows of workspaces without a log",
			"an older version kept them; a toolrunner takes each over into its log when the workspace is used next"},
		{"harness-trees, published branches", "their records are in no log"},
		{"harness-trees, rows of toolrunners", "which of them run now; they write it when they start"},
		{"harness-config", "agents, the station's key, durability and losses: what people and the station set"},
		{"harness-lease", "which instances live now; they write it again within seconds"},
		{"harness-files", "the objects that events refer to: the events do not hold them; archives of ended runs are put again"},
		{"harness-artifacts", "what runs made, kept for a time"},
		{"snapshots of runs without eternal_engine_enabled",
			"they are in the local store of a persister, which takes them again"},
	}
}
