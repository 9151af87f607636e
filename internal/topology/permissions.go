package topology

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Right is what a person or program outside the services may do.
type Right string

// The rights of users. A user may have several.
const (
	// MayDispatch publishes tasks and steers runs.
	MayDispatch Right = "dispatch"
	// MayWatch receives what happens, reads the log and the dead letters.
	MayWatch Right = "watch"
	// MayApprove answers gates.
	MayApprove Right = "approve"
	// MayHook answers the questions of services to hooks. Give it to no one else: whoever has it can permit in a hook's
	// place.
	MayHook Right = "hook"
	// MayServe serves tools to the station. Whoever has it can answer in the place of any tool server, and sees the
	// arguments of its calls.
	MayServe Right = "serve"
	// MayRecord records the steps of harnesses, which are programs of pkg/harness. Whoever has it can record steps of any
	// harness of the station.
	MayRecord Right = "record"
	// MayHalt stops the whole station, and releases it.
	MayHalt Right = "halt"
	// MayBudget sets and removes the budgets of projects, users and the station.
	MayBudget Right = "budget"
	// MayBackup reads what a backup needs: all that a watcher may read, what no service has taken yet, timers, and the
	// configuration without keys.
	MayBackup Right = "backup"
)

// InboxPrefix is where the answers to a service go. It is not the common _INBOX, so that no one who may listen there
// receives what is delivered to a service. Its connection must be opened with this prefix.
func InboxPrefix(station string, role events.Service) string {
	return "_INBOX_" + station + "_" + string(role)
}

// Permissions returns the subjects on which the NATS user of one service may publish and subscribe. Everything else is
// denied; the user must not be given allow_responses, which lets whoever asks it something name any subject as the one
// to answer on.
//
// What stays possible with a leaked credential: to say the role's own facts (the others' folds check them), to set or
// erase the role's own timers, and to add to the stores that the role writes. Not possible: to say the facts of another
// role, to set its timers or take its work, to read or write the log of another station, to change or erase a stored
// fact, an object that a fact needs or the streams. The persister may take away artifacts, which are kept for a time
// only.
func (b Buckets) Permissions(station string, role events.Service) (publish, subscribe []string) {
	s := "station." + station + "."
	publish = append(publish, publishesAll(station, role)...)
	for _, family := range SubscriptionsOf(role).Timers {
		publish = append(publish, s+"timer.*."+family+".*", s+"due.*."+family+".*")
	}
	publish = append(publish, s+"dead."+string(role), // and reads whether it refused a message before
		"$JS.API.DIRECT.GET."+Dead(station), "$JS.API.STREAM.MSG.GET."+Dead(station))
	if role == events.Executor || role == events.Toolrunner {
		publish = append(publish, s+"run.*.live", s+"run.*.kept")
	}
	publish = append(publish, b.stores(station, role)...)
	publish = append(publish, b.reading(station)...)
	if asksHooks(role) {
		publish = append(publish, events.HookSubject(station, "*"))
	}
	if role == events.Toolrunner {
		publish = append(publish, events.ToolSubject(station, "*"), events.ToolControlSubject(station, "*"))
	}
	if role == events.Planner {
		publish = append(publish, "$JS.API.INFO") // how much room the account has left
	}
	for _, c := range Consumers(station, role) {
		publish = append(publish,
			"$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name,
			"$JS.API.CONSUMER.MSG.NEXT."+c.Stream+"."+c.Name,
			"$JS.ACK."+c.Stream+"."+c.Name+".>",
			"$JS.ACK.*.*."+c.Stream+"."+c.Name+".>") // the newer form, with domain and account
	}
	publish = append(publish, peopleInbox, UserInfo) // the answers of its status endpoint, and what its own rights are

	name := "inspan-" + string(role)
	subscribe = []string{InboxPrefix(station, role) + ".>", s + "run.*.stream", "inspan." + string(role) + ".status"}
	if asksHooks(role) {
		subscribe = append(subscribe, events.HookedSubject(station, role, "*"))
	}
	if role == events.Executor || role == events.Toolrunner {
		subscribe = append(subscribe, s+"run.*.sofar")
	}
	if role == events.Toolrunner {
		subscribe = append(subscribe, events.ToolReplySubject(station, "*"))
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		subscribe = append(subscribe, "$SRV."+verb, "$SRV."+verb+"."+name, "$SRV."+verb+"."+name+".*")
	}
	return publish, subscribe
}

// asksHooks reports whether a role asks hooks: all but the persister, which decides nothing.
func asksHooks(role events.Service) bool { return role != events.Persister }

// peopleInbox is where answers to people and their programs go: the prefix that every NATS client uses by itself.
const peopleInbox = "_INBOX.>"

// stores are the objects and keys that a role writes.
func (b Buckets) stores(station string, role events.Service) []string {
	b = b.Named()
	objects := []string{"$O." + b.Files + ".C.>", "$O." + b.Files + ".M.>"}
	switch role {
	case events.Planner:
		key := configKey(station, ChildKeyKey)
		return append(objects, key, "$JS.API.DIRECT.GET."+KVStream(ConfigBucket)+"."+key, configKey(station, DurabilityKey),
			configKey(station, DamageKey), "$KV."+SessionBucket+"."+
				station+".>",
			"$KV."+b.State+"."+station+"."+OrchestratorKeys+"*", "$KV."+b.State+"."+station+"."+WorkflowKeys+"*")
	case events.Executor:
		return objects
	case events.Toolrunner: // and it alone reads the station's key
		key := configKey(station, StationKeyKey)
		return append(objects, "$O."+ArtifactBucket+".C.>", "$O."+ArtifactBucket+".M.>",
			"$KV."+LeaseBucket+"."+station+".>", "$KV."+TreeBucket+"."+station+".>", key,
			"$JS.API.DIRECT.GET."+KVStream(ConfigBucket)+"."+key)
	case events.Persister: // and it alone takes artifacts away, whose time is over
		return append(objects, "$KV."+b.State+"."+station+".>", purgeArtifacts)
	case events.Gatekeeper: // nothing but facts
	}
	return nil
}

// purgeArtifacts takes artifacts away. No other stream may be purged by anybody.
const purgeArtifacts = "$JS.API.STREAM.PURGE.OBJ_" + ArtifactBucket

// Rows of the index that name the runs of a workflow: all else there is written by persisters alone.
const (
	// OrchestratorKeys is what the keys begin with of the runs of an orchestrator.
	OrchestratorKeys = "orchestrator."
	// WorkflowKeys is the same for the run of a workflow.
	WorkflowKeys = "workflow."
)

// Keys of the configuration bucket, behind the station's name.
const (
	// AgentKeys is what the keys of agent definitions begin with.
	AgentKeys = "agent."
	// DurabilityKey holds what the server does before it acknowledges, for those who can not ask it.
	DurabilityKey = "durability"
	// DamageKey holds what is known to be lost of the station's store, for those who cannot read its files.
	DamageKey = "damage"
	// RestoreKey is there while a restore of the station is not done: its services do nothing. Only who sets the station
	// up writes it.
	RestoreKey = "restore"
	// MoveKey is there while a station is moved to this place: which copy of which station it is filled with. Only who
	// sets the station up writes it.
	MoveKey = "move"
	// PolicyKey holds the digest of the station's policy, which only whoever sets it up writes.
	PolicyKey = "policy"
	// StationKeyKey holds the key of idempotency keys where none is configured. Only toolrunners may read it.
	StationKeyKey = "key.idempotency"
	// ChildKeyKey holds the key that the ids of child runs are derived with. Only planners may read it.
	ChildKeyKey = "key.children"
)

func configKey(station, key string) string { return "$KV." + ConfigBucket + "." + station + "." + key }

// reading is what every service and every watcher may ask: the log, objects, and the keys of the station. No one but
// the setup user may create a consumer: it delivers wherever its creator says, also where the creator may not publish.
func (b Buckets) reading(station string) []string {
	b = b.Named()
	var subjects []string
	for _, st := range b.Streams(station, Limits{}) {
		subjects = append(subjects, "$JS.API.STREAM.INFO."+st.Name)
	}
	subjects = append(subjects,
		"$JS.API.DIRECT.GET."+Log(station), "$JS.API.STREAM.MSG.GET."+Log(station),
		"$JS.API.DIRECT.GET."+b.FilesStream(), "$JS.API.STREAM.MSG.GET."+b.FilesStream(),
		"$JS.API.DIRECT.GET."+ArtifactStream(), "$JS.API.STREAM.MSG.GET."+ArtifactStream(),
		"$JS.API.STREAM.MSG.GET."+KVStream(LeaseBucket),
		"$JS.API.DIRECT.GET."+KVStream(b.State)+".$KV."+b.State+"."+station+".>",
		"$JS.API.DIRECT.GET."+KVStream(SessionBucket)+".$KV."+SessionBucket+"."+station+".>",
		"$JS.API.DIRECT.GET."+KVStream(TreeBucket)+".$KV."+TreeBucket+"."+station+".>")
	for _, key := range []string{AgentKeys + "*", DurabilityKey, DamageKey, RestoreKey, PolicyKey} {
		subjects = append(subjects, "$JS.API.DIRECT.GET."+KVStream(ConfigBucket)+"."+configKey(station, key))
	}
	return subjects
}

// backingUp is what a backup may ask. A message of these streams is asked for alone, from the leader: they have no
// direct reads.
func (b Buckets) backingUp(station string) []string {
	subjects := append(b.reading(station), "$JS.API.STREAM.MSG.GET."+In(station))
	for _, st := range timers(station) {
		subjects = append(subjects, "$JS.API.STREAM.MSG.GET."+st.Name)
	}
	return subjects
}

// UserPermissions returns the subjects for a user with some rights. With MayApprove, approver binds the answers to that
// last subject token; empty lets the user answer gates in no one's name.
func (b Buckets) UserPermissions(station, approver string, rights ...Right) (publish, subscribe []string) {
	s := "station." + station + "."
	subscribe = []string{peopleInbox}
	if slices.Contains(rights, MayDispatch) {
		publish = append(publish, s+"task", s+"task.*", s+"run.*.control", s+"session.*.control", s+"session.*.sweep",
			s+"schedule.*.control", s+"work.*.control", s+"agent.*.control", s+"mergequeue.*.control")
	}
	if slices.Contains(rights, MayApprove) {
		if approver == "" {
			publish = append(publish, s+"run.*.gate.*")
		} else {
			publish = append(publish, s+"run.*.gate.*."+approver)
			if approver != events.Gateway {
				publish = append(publish, events.DeputySubject(station, approver))
			}
		}
	}
	if approver == events.Gateway { // what was published for agents and can start no run
		publish = append(publish, s+"dead."+events.Gateway)
		answer, hear := agentBus(station)
		publish, subscribe = append(publish, answer...), append(subscribe, hear...)
	}
	ask, hear := agentCallers(station, rights)
	publish, subscribe = append(publish, ask...), append(subscribe, hear...)
	if slices.Contains(rights, MayRecord) {
		publish = append(publish, s+"harness.*.control")
	}
	if slices.Contains(rights, MayHalt) {
		publish = append(publish, events.HaltSubject(station))
	}
	if slices.Contains(rights, MayBudget) {
		publish = append(publish, events.BudgetSubject(station))
	}
	if slices.Contains(rights, MayHook) {
		publish = append(publish, events.HookedSubject(station, "*", "*"))
		subscribe = append(subscribe, events.HookSubject(station, "*"))
	}
	if slices.Contains(rights, MayServe) {
		publish = append(publish, events.ToolReplySubject(station, "*"), events.ToolSpecSubject(station, "*"))
		subscribe = append(subscribe, events.ToolSubject(station, "*"), events.ToolControlSubject(station, "*"),
			events.ToolsSubject(station))
	}
	if slices.Contains(rights, MayBackup) {
		publish = append(publish, b.backingUp(station)...)
	}
	if slices.Contains(rights, MayWatch) {
		publish = append(publish, b.reading(station)...)
		publish = append(publish, "$JS.API.DIRECT.GET."+Dead(station), "$JS.API.DIRECT.GET."+Live(station), "$SRV.PING",
			"$SRV.INFO", "$SRV.STATS", "inspan.*.status", s+"run.*.sofar", events.ToolsSubject(station))
		for _, role := range events.Services() {
			for _, c := range Consumers(station, role) {
				publish = append(publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name)
			}
		}
		// The account has one station: patterns for all stations, as people type them, show no other.
		subscribe = append(subscribe, "station.*.run.*.stream", "station.*.run.*.live", "station.*.harness.*.stream",
			"station.*.dead.>",
			events.ToolSpecSubject("*", "*"))
	}
	if len(publish) > 0 {
		publish = append(publish, UserInfo)
	}
	return publish, subscribe
}

// UserInfo is where a user asks the server for its own account and rights, which inspan doctor compares.
const UserInfo = "$SYS.REQ.USER.INFO"

// SetupPermissions returns the subjects for the user who sets stations up: it may create streams, consumers and
// buckets.
func (b Buckets) SetupPermissions(station string) (publish, subscribe []string) {
	for _, st := range b.Streams(station, Limits{}) {
		publish = append(publish, "$JS.API.STREAM.INFO."+st.Name, "$JS.API.STREAM.CREATE."+st.Name)
	}
	for _, role := range events.Services() {
		for _, c := range Consumers(station, role) {
			filter := ""
			if len(c.Filters) == 1 {
				filter = "." + c.Filters[0]
			}
			publish = append(publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name, "$JS.API.CONSUMER.CREATE."+c.Stream+"."+
				c.Name+filter)
		}
	}
	publish = append(publish, UserInfo, "$JS.API.INFO", configKey(station, ">"), "$JS.API.DIRECT.GET."+KVStream(ConfigBucket)+"."+configKey(station,
		">"))
	return append(publish, b.reading(station)...), []string{peopleInbox}
}
