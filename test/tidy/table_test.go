package tidy

// Room is one row of the import table.
type Room struct {
	Name string
	// Dirs that are the room; "/..." at the end takes the folders below with it. The first room that fits is meant.
	Dirs []string
	// May lists the folders of this module that the room may import. Nil means any that no other row keeps for itself.
	May []string
	// Not lists folders that it may not import although May allows them.
	Not []string
	// NoStd lists packages of the standard library that it may not import, with "/..." for those below.
	NoStd []string
	// Pure forbids the clock and goroutines.
	Pure bool
	Why  string
}

// What several rows have in common.
var (
	words  = []string{"pkg/events"}
	memory = []string{"pkg/events", "pkg/run"}
	above  = []string{"services/...", "internal/outside", "internal/callback", "internal/forward", "internal/service/...", "internal/program", "internal/station", "internal/cli/...", "internal/demo", "internal/docgen", "internal/operator", "pkg/client", "pkg/station", "pkg/harness", "cmd/...", "test/..."}
	roles  = []string{"internal/service/all", "internal/service/models", "internal/service/planner", "internal/service/gatekeeper", "internal/service/executor", "internal/service/toolrunner", "internal/service/persister"}
	// notPlanner is what no part of the planner sees: NATS, models, other roles, and whatever wires them.
	notPlanner = append([]string{"internal/llm/...", "internal/jet/...", "internal/mem/...", "internal/localstore/...", "services/executor/...", "services/toolrunner/...",
		"services/gatekeeper/...", "services/persister", "services/gateway/..."}, above[1:]...)
	worldy = []string{"context", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "os", "os/exec", "os/signal", "os/user",
		"net", "net/http", "net/rpc", "io/ioutil", "syscall", "testing/synctest", "database/sql", "plugin"}
)

// Rooms is the import table: imports point down only. It holds for all files but tests.
var Rooms = []Room{
	{Name: "words", Dirs: []string{"pkg/events"}, May: []string{}, NoStd: append([]string{"sync"}, worldy...), Pure: true,
		Why: "words know nothing of who says them"},
	{Name: "words as CloudEvents", Dirs: []string{"pkg/events/ce"}, May: words, NoStd: worldy, Pure: true, Why: "a reader of strangers' bytes"},
	{Name: "signed answers", Dirs: []string{"pkg/approval"}, May: words, Why: "whoever verifies needs no station"},
	{Name: "memory", Dirs: []string{"pkg/run"}, May: words, NoStd: append([]string{"sync"}, worldy...), Pure: true,
		Why: "a fold gives the same state everywhere and always"},
	{Name: "histories for tests", Dirs: []string{"pkg/run/runtest"}, May: memory, Why: "made-up histories"},
	{Name: "mind", Dirs: []string{"internal/core/..."}, May: []string{"pkg/events", "pkg/run", "internal/core/...", "internal/pattern", "internal/template"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "decisions are functions of a state, an input and the time they are given"},
	{Name: "texts with fields", Dirs: []string{"internal/template"}, May: []string{}, NoStd: append([]string{"text/template"}, worldy...), Pure: true,
		Why: "equal data give equal texts, and the linker leaves out methods that are not called"},
	{Name: "what may be reached", Dirs: []string{"internal/egress/policy"}, May: []string{}, NoStd: append([]string{"sync"}, worldy...), Pure: true,
		Why: "a judge of names and addresses resolves and dials nothing"},
	{Name: "helper of sandboxes", Dirs: []string{"internal/egress/inside"}, May: []string{"internal/sandbox/helper"}, Why: "it runs inside, for a moment"},
	{Name: "reader of patches", Dirs: []string{"internal/patch"}, May: []string{"internal/pattern"}, NoStd: worldy, Pure: true,
		Why: "a patch is judged and carried out by the same reading"},
	{Name: "messages of strangers", Dirs: []string{"internal/payload"}, May: []string{"pkg/events", "internal/pattern"}, NoStd: worldy, Pure: true,
		Why: "equal templates and messages give equal texts"},
	{Name: "formulas", Dirs: []string{"internal/formula"}, May: []string{"pkg/events", "internal/didyoumean", "internal/pattern", "internal/starlark"}, NoStd: worldy, Pure: true,
		Why: "equal files and values give equal plans"},
	{Name: "expressions", Dirs: []string{"internal/starlark"}, May: []string{}, NoStd: worldy, Pure: true,
		Why: "equal expressions and values give equal results"},
	{Name: "table", Dirs: []string{"internal/topology"}, May: append([]string{"internal/pattern"}, words...), NoStd: worldy, Pure: true, Why: "plain data"},
	{Name: "kernel", Dirs: []string{"internal/kernel"}, May: words, Why: "it knows ports and aggregates, not what fills them: no run"},
	{Name: "log of runs", Dirs: []string{"internal/runlog"}, May: []string{"pkg/events", "pkg/run", "internal/kernel"}, Why: "the aggregate of runs, for those who append to it"},
	{Name: "log of a run for tests", Dirs: []string{"internal/runlog/runlogtest"}, May: []string{"pkg/events", "pkg/run", "internal/kernel", "internal/runlog", "internal/mem"},
		Why: "tests append and read with the ledger that services have"},
	{Name: "sessions", Dirs: []string{"internal/session"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of sessions: decisions and fold are functions of a state, an input and the time they are given"},
	{Name: "schedules", Dirs: []string{"internal/schedule"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of schedules, as that of sessions; cron expressions are read here alone"},
	{Name: "work items", Dirs: []string{"internal/work"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of work items, as that of sessions"},
	{Name: "addresses and mailboxes", Dirs: []string{"internal/mailbox"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of addresses, as that of sessions"},
	{Name: "merge queues", Dirs: []string{"internal/mergequeue"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of merge queues, as that of sessions"},
	{Name: "harnesses", Dirs: []string{"internal/harness"}, May: []string{"pkg/events", "internal/kernel"},
		NoStd: append([]string{"sync", "sync/atomic", "runtime"}, worldy...), Pure: true,
		Why: "the aggregate of harnesses, as that of sessions; programs of others judge by it without a station"},
	{Name: "SDK", Dirs: []string{"pkg/harness"}, May: []string{"pkg/events", "pkg/client", "internal/harness"}, Why: "it talks to a station as others do, and needs none"},
	{Name: "exam of journals", Dirs: []string{"internal/kernel/kerneltest"}, May: []string{"pkg/...", "internal/kernel", "internal/topology"},
		Not: []string{"pkg/client", "pkg/harness"}, Why: "the same exam for all journals"},
	{Name: "programs of the wasm toolbox", Dirs: []string{"internal/wasmbox", "internal/wasmbox/js"}, May: []string{}, Why: "they run inside, and are compiled for another system"},
	{Name: "sandbox of a tool", Dirs: []string{"pkg/tool/sandbox"}, May: []string{}, Why: "tools of others see it"},
	{Name: "port of tools", Dirs: []string{"pkg/tool"}, May: []string{"pkg/tool/sandbox"}, Why: "a tool sees its sandbox only"},
	{Name: "ports", Dirs: []string{"internal/llm", "internal/sandbox"}, May: append([]string{"pkg/tool/sandbox"}, words...), Why: "a port does not know what fills it"},
	{Name: "requests for tests", Dirs: []string{"services/executor/executortest"}, May: []string{"pkg/events", "pkg/run/...", "pkg/tool", "internal/llm", "internal/kernel", "internal/runlog", "services/executor"},
		Why: "requests as executors make them, for the exams of adapters"},
	{Name: "gateway", Dirs: []string{"services/gateway"}, May: []string{"docs", "internal/agentbus", "internal/payload", "pkg/client", "pkg/events/...", "pkg/run", "services/gateway/..."},
		Why: "a client of the station as any other: it sees no NATS, no role and no log"},
	{Name: "generated documents", Dirs: []string{"docs"}, May: []string{}, Pure: true, Why: "bytes"},
	{Name: "parts of the gateway", Dirs: []string{"services/gateway/..."}, May: []string{"pkg/events/...", "pkg/run", "internal/disk", "internal/pattern", "internal/payload", "internal/secret"},
		Why: "files and calls of strangers, without a station"},
	{Name: "ports of the planner's parts", Dirs: []string{"services/planner/part"},
		May: []string{"pkg/events/...", "pkg/run", "internal/core/budget", "internal/didyoumean", "internal/git", "internal/kernel", "internal/runlog"},
		Why: "what the parts share knows none of them"},
	{Name: "planner", Dirs: []string{"services/planner"}, Not: append([]string{"services/planner/team", "services/planner/schedules", "services/planner/funding",
		"services/planner/sessions", "services/planner/halts", "services/planner/harnesses"}, notPlanner...),
		Why: "it has the runs, and reaches the other parts by what it is given; only the executor knows models"},
	{Name: "parts of the planner", Dirs: []string{"services/planner/..."}, Not: append([]string{"services/planner", "services/planner/team", "services/planner/schedules",
		"services/planner/funding", "services/planner/sessions", "services/planner/halts", "services/planner/harnesses", "services/planner/tasks"}, notPlanner...),
		Why: "they reach runs through part.Runs, and each other not at all"},
	{Name: "gatekeeper", Dirs: []string{"services/gatekeeper"}, Not: append([]string{"internal/llm/...", "internal/jet/...", "internal/mem/...", "internal/localstore/...",
		"services/planner/...", "services/executor/...", "services/toolrunner/...", "services/persister", "services/gateway/..."}, above[1:]...),
		Why: "as the other roles, and it has parts below it"},
	{Name: "roles", Dirs: []string{"services/..."}, Not: append([]string{"internal/jet/...", "internal/mem/...", "internal/localstore/..."}, above...),
		Why: "a role sees no NATS, no other role and nothing that wires it"},
	{Name: "hosting of services", Dirs: []string{"internal/service"},
		Not: append([]string{"services/...", "internal/jet/...", "internal/localstore/...", "internal/natsserver", "internal/mcp/...", "internal/tools/...",
			"internal/llm/provider", "internal/sandbox/...", "internal/station", "internal/cli/...", "internal/demo", "internal/docgen", "internal/program", "cmd/...", "test/..."}, roles...),
		Why: "what all programs share links nothing that one of them needs alone"},
	{Name: "wiring of the planner", Dirs: []string{"internal/service/planner"},
		Not: []string{"internal/llm/...", "internal/service/models", "internal/jet/...", "internal/localstore/...", "internal/natsserver", "internal/station", "internal/cli/...",
			"internal/demo", "internal/docgen", "internal/program", "cmd/...", "test/..."},
		Why: "only the executor knows models"},
	{Name: "wiring of services", Dirs: []string{"internal/service/..."},
		Not: []string{"internal/jet/...", "internal/localstore/...", "internal/natsserver", "internal/station", "internal/cli/...", "internal/demo", "internal/docgen", "internal/program", "cmd/...", "test/..."},
		Why: "the same wiring for any journal"},
	{Name: "a role as a program", Dirs: []string{"internal/program"},
		Not: append([]string{"services/...", "internal/localstore/...", "internal/natsserver", "internal/station", "internal/cli/...", "internal/demo", "internal/docgen", "cmd/...", "test/..."}, roles...),
		Why: "it links the client of NATS and the role that it is given"},
	{Name: "notices", Dirs: []string{"internal/notify"}, May: append([]string{"internal/core/gate", "internal/core/view"}, memory...),
		Why: "who calls a person knows no station: the log was read by whoever asks for it"},
	{Name: "terminals", Dirs: []string{"internal/cli/terminal"}, May: []string{"internal/core/view", "internal/pattern"}, Why: "it shows lines and knows nothing of runs"},
	{Name: "line editor", Dirs: []string{"internal/cli/lineedit"}, May: []string{"internal/core/view", "internal/cli/terminal"}, Why: "it knows no command"},
	{Name: "run trees", Dirs: []string{"internal/cli/runtree"}, May: []string{"pkg/events", "pkg/run", "internal/core/view", "internal/cli/terminal"},
		NoStd: worldy, Pure: true, Why: "a run is drawn from its state and the time it is given"},
	{Name: "doors", Dirs: []string{"cmd/...", "internal/station", "internal/cli/...", "internal/demo", "internal/docgen", "internal/operator", "internal/outside", "internal/callback", "internal/forward", "pkg/client", "pkg/station", "pkg/harness", "test/...", "examples/..."},
		Not: []string{"cmd/..."}, Why: "they wire"},
	{Name: "hands", Dirs: []string{"internal/...", "pkg/..."}, Not: above, Why: "they fill ports and know no role"},
}

// Door is a module of others and who may import it: one door per dependency.
type Egress struct {
	// Module is the beginning of the import paths.
	Module string
	Dirs   []string
	// Tests opens it to all test files as well.
	Tests bool
}

// Doors holds for tests as well.
var Doors = []Egress{
	{Module: "github.com/modelcontextprotocol/", Dirs: []string{"internal/mcp/...", "services/gateway"}, Tests: true},
	{Module: "github.com/nats-io/nats-server", Dirs: []string{"internal/natsserver"}},
	{Module: "github.com/nats-io/", Dirs: []string{"internal/jet/...", "pkg/tool/serve", "test/tutorials/nats"}},
	{Module: "github.com/minio/highwayhash", Dirs: []string{"internal/storecheck"}},
	{Module: "github.com/synadia-io/", Dirs: []string{"internal/jet/..."}},
	{Module: "github.com/cloudevents/sdk-go", Dirs: []string{"pkg/events/ce"}, Tests: true},
	{Module: "github.com/google/dotprompt", Dirs: []string{"internal/agentfile"}},
	{Module: "github.com/mailgun/raymond", Dirs: []string{"internal/agentfile"}},
	{Module: "go.opentelemetry.io/", Dirs: []string{"internal/telemetry/..."}, Tests: true},
	{Module: "google.golang.org/protobuf", Dirs: []string{"internal/telemetry/otlp"}, Tests: true},
	{Module: "github.com/goccy/go-yaml", Dirs: []string{"internal/agentfile", "internal/formula", "internal/cli/app", "internal/llm/scripted", "internal/docgen"}, Tests: true},
	{Module: "github.com/pelletier/go-toml", Dirs: []string{"internal/adopt", "internal/agentfile", "internal/formula", "internal/runtime", "internal/cli/colony", "internal/callback", "services/gateway/webhook"}},
	{Module: "github.com/bmatcuk/doublestar", Dirs: []string{"internal/tools", "internal/capture", "internal/checks"}},
	{Module: "mvdan.cc/sh", Dirs: []string{"internal/shell", "internal/wasmbox"}},
	{Module: "github.com/golang-jwt/jwt", Dirs: []string{"services/gateway/oidc/..."}},
	{Module: "github.com/dop251/goja", Dirs: []string{"internal/wasmbox/js"}},
	{Module: "github.com/minio/minio-go/v7", Dirs: []string{"internal/archive/at"}},
	{Module: "github.com/tetratelabs/wazero", Dirs: []string{"internal/sandbox/wasm"}},
	{Module: "github.com/santhosh-tekuri/jsonschema", Dirs: []string{"pkg/tool", "internal/docgen"}, Tests: true},
	{Module: "github.com/invopop/jsonschema", Dirs: []string{"internal/docgen", "internal/tools"}},
	{Module: "golang.org/x/oauth2", Dirs: []string{"internal/mcp"}},
	{Module: "golang.org/x/time", Dirs: []string{"services/gateway", "internal/intake"}},
	{Module: "github.com/KimMachineGun/automemlimit", Dirs: []string{"internal/memory"}},
	{Module: "github.com/klauspost/compress", Dirs: []string{"internal/snapshot", "services/persister", "test/recovery"}},
	{Module: "go.etcd.io/bbolt", Dirs: []string{"internal/localstore"}},
	{Module: "github.com/kelseyhightower/envconfig", Dirs: []string{"internal/service"}},
	{Module: "github.com/prometheus/client_golang", Dirs: []string{"internal/service"}},
	{Module: "github.com/rs/zerolog", Dirs: []string{"internal/kernel", "internal/jet", "internal/service/...", "internal/program", "internal/outside", "internal/callback", "internal/forward", "internal/station", "internal/cli/...", "internal/demo", "internal/archive", "pkg/station", "test/bench", "test/sim"}, Tests: true},
	{Module: "github.com/spf13/", Dirs: []string{"internal/cli/...", "internal/docgen"}},
	{Module: "charm.land/", Dirs: []string{"internal/cli/..."}},
	{Module: "github.com/charmbracelet/", Dirs: []string{"internal/cli/..."}},
	{Module: "github.com/jackc/pgx", Dirs: []string{"test/bench"}},
	{Module: "golang.org/x/crypto", Dirs: []string{"internal/git"}},
	{Module: "golang.org/x/term", Dirs: []string{"internal/cli/terminal", "internal/cli/lineedit"}},
	{Module: "github.com/creack/pty", Dirs: []string{"internal/cli", "internal/runtime/pty"}},
	{Module: "golang.org/x/sys", Dirs: []string{"internal/sandbox/...", "internal/egress/inside", "internal/tools", "internal/git/...", "test/scale"}, Tests: true},
	{Module: "golang.org/x/net", Dirs: []string{"internal/egress", "internal/tools", "internal/sandbox/seccomp"}},
	{Module: "github.com/JohannesKaufmann/html-to-markdown", Dirs: []string{"internal/tools"}},
	{Module: "github.com/moby/", Dirs: []string{"internal/sandbox/docker"}},
	{Module: "github.com/containerd/errdefs", Dirs: []string{"internal/sandbox/docker"}},
	{Module: "github.com/landlock-lsm/", Dirs: []string{"internal/sandbox/launch"}},
	{Module: "github.com/elastic/go-seccomp-bpf", Dirs: []string{"internal/sandbox/seccomp"}},
	{Module: "github.com/hashicorp/yamux", Dirs: []string{"internal/sandbox/microvm/wire"}},
	{Module: "github.com/coder/websocket", Dirs: []string{"internal/sandbox/kubernetes/..."}},
	{Module: "github.com/anishathalye/porcupine", Dirs: []string{"test/faults"}},
	{Module: "go.starlark.net/", Dirs: []string{"internal/starlark"}},
	{Module: "github.com/robfig/cron", Dirs: []string{"internal/schedule"}},
	{Module: "pgregory.net/rapid", Dirs: []string{"pkg/run/runtest", "internal/llm/llmtest", "services/executor/executortest"}, Tests: true},
}

// Limits of files and functions, in lines, and of lines, in characters.
const (
	MaxFile     = 500
	MaxFunction = 80
	MaxColumns  = 120
)

// Exception lets one rule be broken in one place.
type Exception struct {
	// Rule is the name of the rule, At the path of a file, or "path name" for a function.
	Rule, At, Why string
}

// Exceptions is the only list of them. One that nothing needs is a fault.
var Exceptions = []Exception{
	{"door", "services/persister/persister.go", "a snapshot that could not be written is told to no one else: the run goes on"},
	{"skip", "internal/kernel/ledger_prop_test.go", "rapid draws another action where there is nothing to hear"},
	{"skip", "internal/archive/at/at_test.go", "storage of others has no switch that has it ignore conditions; it runs with the storage of the test itself"},
	{"skip", "internal/git/isolation_linux_test.go", "walls need the right to mount; they run wherever the tests run as root, or where user namespaces are open"},
	{"skip", "internal/git/limit_linux_test.go", "says NOT TESTED where the kernel does not list the children of a process; a shell sets the limits there"},
	{"skip", "internal/git/wall/wall_test.go", "as above, for each of the two ways to raise them"},
	{"skip", "internal/tools/screenshot_test.go", "a browser outside of PATH cannot be hidden; it runs where there is none, as on the continuous test machine"},
	{"skip", "test/e2e/screenshot_slow_test.go", "needs a browser, behind a build tag: says NOT TESTED with what to install"},
	{"skip", "internal/runtime/pty/real_slow_test.go", "needs a program of others, behind a build tag: says NOT TESTED with the target that installs it"},
	{"skip", "test/e2e/realruntimes_slow_test.go", "needs 1 GB of programs of others, behind a build tag: says NOT TESTED with the target that installs them"},
	{"skip", "test/faults/realprograms_test.go", "needs 1 GB of programs of others, behind a build tag: says NOT TESTED with the target that installs them"},
	{"skip", "test/e2e/hooks_test.go", "a stop waits for its hooks for 5 s: says NOT TESTED where a step of one call takes longer than that"},
	{"skip", "internal/tools/git_test.go", "only root can give a repository to another owner; it runs wherever the tests run as root, as in a container"},
	{"skip", "internal/sandbox/sandboxtest/exam.go", "says NOT TESTED with what the machine lacks; the continuous test machine installs bubblewrap"},
	{"skip", "test/security/robust_test.go", "says NOT TESTED with what the machine lacks, in the test and in the report"},
	{"skip", "test/models/live_test.go", "live models cost money and need keys: says NOT TESTED with what is missing, and is behind a build tag"},
	{"skip", "internal/sandbox/docker/crash_test.go", "says NOT TESTED where no program is named that kills and starts a real engine"},
	{"skip", "internal/sandbox/microvm/realfaults_test.go", "says NOT TESTED where only root could mount a small disk; it needs virtual machines anyway"},
	{"skip", "internal/sandbox/sandboxtest/exec.go", "says NOT TESTED where there is no /proc"},
	{"skip", "internal/shell/hostile_test.go", "needs bash to compare with; the corpus is judged on every machine"},
	{"skip", "internal/jet/staging_test.go", "says NOT TRIED where the machine has no folder in memory; every Linux has one"},
	{"skip", "internal/jet/staging_linux_test.go", "says NOT TRIED where a small folder in memory cannot be mounted; that nothing can be staged is tried everywhere"},
}
