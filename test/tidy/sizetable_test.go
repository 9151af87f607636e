package tidy

// Reasons that several exceptions share.
const (
	storedJSON = "stored JSON, whose fields are at one level in every history: a group would change what is stored"
	composed   = "a composition root: it makes the parts and hands them to each other"
	oneReader  = "a recursive descent parser: one method for each rule of its grammar, all on the same input"
	ports      = "implements many small interfaces of internal/kernel on one store; one type is what opens and closes it"
)

// SizeExceptions are the only types and packages above the limits. One that nothing needs is a fault.
var SizeExceptions = []Exception{
	{"fields", "pkg/events Agent", storedJSON},
	{"fields", "pkg/events CallFinishedData", storedJSON},
	{"fields", "pkg/events Result", storedJSON},
	{"fields", "pkg/events RunCreatedData", storedJSON},
	{"fields", "pkg/events Task", storedJSON},
	{"fields", "pkg/events TurnFinishedData", storedJSON},
	{"fields", "pkg/run CallRecord", storedJSON},
	{"fields", "pkg/run Info", storedJSON},
	{"fields", "pkg/run State", storedJSON},
	{"fields", "pkg/run Step", storedJSON},
	{"fields", "internal/core/view Tree", storedJSON},
	{"fields", "internal/topology Stream", "a row of the table of streams: its columns are the settings of NATS that the table fixes"},
	{"fields", "internal/service Ports", composed},
	{"fields", "internal/shell reader", oneReader},
	{"fields", "internal/mem Station", ports},
	{"imports", "internal/agentfile", "it reads all that an agent's file can name, and each of these is a package of its own"},
	{"imports", "internal/cli", composed},
	{"imports", "internal/service", composed},
	{"imports", "internal/service/planner", composed},
	{"imports", "internal/service/toolrunner", composed},
	{"imports", "internal/station", composed},
	{"methods", "internal/agentfile parsing", oneReader},
	{"methods", "internal/shell reader", oneReader},
	{"methods", "internal/jet Station", ports},
	{"methods", "internal/mem Station", ports},
	{"methods", "internal/localstore Fallback", ports},
	{"methods", "internal/localstore Station", ports},
	{"methods", "pkg/run State", "the state that is folded from a run: one method for each event type, and questions about it"},
}
