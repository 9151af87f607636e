package tidy

// Links says what a program or a package that others import must not link, directly or through anything else.
type Links struct {
	// Of are packages of this module, Not beginnings of import paths: of this module where they have no dot before the
	// first slash, else of others. A path that ends with "/..." takes what is below with it.
	Of, Not []string
	Why     string
}

// What several rows keep out.
var (
	servers   = []string{"internal/natsserver", "github.com/nats-io/nats-server/..."}
	databases = []string{"internal/localstore/...", "go.etcd.io/bbolt/..."}
	providers = []string{"internal/llm/provider", "internal/llm/anthropic", "internal/llm/openai", "internal/llm/gemini", "internal/llm/scripted"}
	runners   = []string{"internal/mcp/...", "github.com/modelcontextprotocol/...", "internal/tools", "internal/sandbox/backends", "internal/sandbox/bwrap",
		"internal/sandbox/landlock", "internal/sandbox/host", "internal/sandbox/docker/...", "internal/sandbox/gvisor", "internal/sandbox/wasm", "internal/sandbox/microvm/...",
		"internal/sandbox/e2b", "internal/sandbox/kubernetes/...", "github.com/moby/...", "github.com/tetratelabs/...", "internal/workspace", "internal/gitwork"}
	people = []string{"internal/cli/...", "internal/station", "internal/demo", "github.com/spf13/..."}
)

// AllLinks holds for what the programs of this module link, tests apart.
var AllLinks = []Links{
	{Of: []string{"cmd/planner", "cmd/gatekeeper", "cmd/executor", "cmd/toolrunner", "cmd/persister"}, Not: join(servers, databases, people),
		Why: "a service is a client of NATS and keeps nothing itself"},
	{Of: []string{"cmd/planner", "cmd/gatekeeper", "cmd/executor", "cmd/persister"}, Not: runners, Why: "only the toolrunner carries calls out"},
	{Of: []string{"cmd/gatekeeper", "cmd/toolrunner", "cmd/persister"}, Not: providers, Why: "they ask no model"},
	{Of: []string{"cmd/planner"}, Not: []string{"internal/llm/..."}, Why: "only the executor knows models"},
	{Of: []string{"cmd/planner"}, Not: []string{"services/gatekeeper", "services/executor", "services/toolrunner", "services/persister"}, Why: "a program is one role"},
	{Of: []string{"cmd/gatekeeper"}, Not: []string{"services/planner", "services/executor", "services/toolrunner", "services/persister"}, Why: "a program is one role"},
	{Of: []string{"cmd/executor"}, Not: []string{"services/planner", "services/gatekeeper", "services/toolrunner", "services/persister"}, Why: "a program is one role"},
	{Of: []string{"cmd/toolrunner"}, Not: []string{"services/planner", "services/gatekeeper", "services/executor", "services/persister"}, Why: "a program is one role"},
	{Of: []string{"cmd/persister"}, Not: []string{"services/planner", "services/gatekeeper", "services/executor", "services/toolrunner"}, Why: "a program is one role"},
	{Of: []string{"pkg/tool", "pkg/tool/serve", "pkg/tool/wire"}, Not: []string{"internal/..."}, Why: "tools of others import it"},
	{Of: []string{"pkg/tool/serve"}, Not: join(servers, databases), Why: "a tool server is a client of NATS"},
	{Of: []string{"pkg/tool", "pkg/tool/wire"}, Not: []string{"github.com/nats-io/..."}, Why: "a tool sees no NATS"},
	{Of: []string{"internal/jet"}, Not: servers, Why: "it is the client"},
	{Of: []string{"pkg/client", "pkg/harness", "pkg/tool"}, Not: join(servers, databases, providers, runners, people, []string{"services/...", "internal/service/..."}),
		Why: "programs of others import it"},
}

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
