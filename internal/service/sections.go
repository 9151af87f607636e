package service

import (
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/secret"
)

// The settings of a program are made of these sections: each is read by one role, or by those that share it. Every
// value has a default but secrets.

// NATS: how NATS is reached.
type NATS struct {
	NATSEnabled  bool         `envconfig:"INSPAN_NATS_ENABLED" default:"true" desc:"false does without NATS: the inspan program keeps its station in a local store, as with --local; services that are programs of their own need NATS"`
	NATSURL      string       `envconfig:"INSPAN_NATS_URL" default:"nats://127.0.0.1:4222" desc:"address of the NATS server or servers"`
	NATSCreds    string       `envconfig:"INSPAN_NATS_CREDS" desc:"path of a NATS credentials file"`
	NATSUser     string       `envconfig:"INSPAN_NATS_USER" desc:"NATS user name"`
	NATSPassword secret.Value `envconfig:"INSPAN_NATS_PASSWORD" desc:"NATS password; NATS_PASSWORD_FILE names a file with it"`
	NATSShared   bool         `envconfig:"INSPAN_NATS_SHARED_ACCOUNT" default:"false" desc:"true accepts a NATS server whose streams are in the same account as its users, such as a managed one: services can then act for each other; see own-nats.md (setup, every service)"`
	NATSMonitor  string       `envconfig:"INSPAN_NATS_MONITOR" desc:"HTTP address of the server's monitoring endpoint, to read the fsync mode from"`
	AcceptLazy   bool         `envconfig:"INSPAN_ACCEPT_LAZY_FSYNC" default:"false" desc:"start although the server acknowledges before it syncs; a power cut may then lose acknowledged facts"`
}

// Store: what whoever sets the station up makes it with.
type Store struct {
	Replicas         int    `envconfig:"INSPAN_REPLICAS" default:"1" desc:"copies of each stream and bucket: 1 or 3"`
	LogMaxBytes      int64  `envconfig:"INSPAN_LOG_MAX_BYTES" default:"0" desc:"limit of the station's log in bytes; 0 leaves it to the server's disk limit"`
	InMaxBytes       int64  `envconfig:"INSPAN_IN_MAX_BYTES" default:"0" desc:"limit of what waits for the services, in bytes; full means that tasks and answers are refused; 0 is 650 MiB, for 10,000 of the largest tasks (setup)"`
	FilesMaxBytes    int64  `envconfig:"INSPAN_FILES_MAX_BYTES" default:"0" desc:"limit of the object store of what events refer to, in bytes; full means that no work is taken that needs it; 0 leaves it to the server's disk limit (setup)"`
	StateBucket      string `envconfig:"INSPAN_STATE_BUCKET" default:"harness-state" desc:"name of the key-value bucket of the index and the snapshots; inspan setup, every service and the command line must be given the same, and it stays what it was when the station was set up; --local has none"`
	FilesBucket      string `envconfig:"INSPAN_FILES_BUCKET" default:"harness-files" desc:"name of the object store of what events refer to; as with INSPAN_STATE_BUCKET"`
	ArtifactMaxBytes int64  `envconfig:"INSPAN_ARTIFACT_MAX_BYTES" default:"0" desc:"limit of the store of artifacts in bytes; files that do not fit are left out; 0 leaves it to the server's disk limit"`
}

// Telemetry: what is exported, and where to.
type Telemetry struct {
	OTLP            string `envconfig:"OTEL_EXPORTER_OTLP_ENDPOINT" desc:"address of an OTLP/HTTP receiver of traces and metrics, for example http://127.0.0.1:4318; nothing is exported without one; see telemetry.md for this and the next"`
	OTLPTraces      string `envconfig:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" desc:"whole address for traces, goes before the one above"`
	OTLPMetrics     string `envconfig:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" desc:"whole address for metrics, goes before the one above"`
	OTLPProtocol    string `envconfig:"OTEL_EXPORTER_OTLP_PROTOCOL" desc:"http/protobuf, the only one there is here"`
	OTELDisabled    bool   `envconfig:"OTEL_SDK_DISABLED" default:"false" desc:"true exports nothing"`
	TracesExporter  string `envconfig:"OTEL_TRACES_EXPORTER" desc:"otlp, or none for no traces"`
	MetricsExporter string `envconfig:"OTEL_METRICS_EXPORTER" desc:"otlp, or none for no metrics"`
	Sampler         string `envconfig:"OTEL_TRACES_SAMPLER" desc:"always_on, always_off or traceidratio, alone or behind parentbased_; parentbased_always_on where it is not set"`
	SamplerArg      string `envconfig:"OTEL_TRACES_SAMPLER_ARG" desc:"share of traces for traceidratio, from 0 to 1"`
	CaptureContent  bool   `envconfig:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" default:"false" desc:"put tasks, answers of models, arguments and results of tools into spans"`
}

// Base: what every program reads.
type Base struct {
	Station string `envconfig:"INSPAN_STATION" default:"default" desc:"station this service belongs to"`
	NATS
	Store
	SnapshotForm string        `envconfig:"INSPAN_SNAPSHOT_FORM" default:"binary" desc:"form in which states are stored: binary, or json+gzip; both are read"`
	HTTP         string        `envconfig:"INSPAN_HTTP" default:"127.0.0.1:0" desc:"address of /healthz, /readyz and /metrics; empty turns them off"`
	LogLevel     string        `envconfig:"INSPAN_LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	Workers      int           `envconfig:"INSPAN_WORKERS" default:"0" desc:"messages handled at a time; 0 is the role's default"`
	Drain        time.Duration `envconfig:"INSPAN_DRAIN" default:"25s" desc:"how long work under way may take after SIGTERM"`
	Policy       string        `envconfig:"INSPAN_POLICY" desc:"file of guard rules and hooks for all agents of the station; every service and inspan setup must be given the same, a service with another one takes nothing (setup, planner, gatekeeper, executor, toolrunner)"`
	HooksDir     string        `envconfig:"INSPAN_HOOKS_DIR" desc:"folder of the programs that agent files may name as hooks; empty lets them name none, and their hooks block"`
	Telemetry
	// Masked are the secrets of this process that no tool and no hook is shown; Load finds them.
	Masked []secret.Value `ignored:"true" json:"-"`
}

// Standalone: of a station in one process alone.
type Standalone struct {
	HookPassword  secret.Value `envconfig:"INSPAN_HOOK_PASSWORD" desc:"password of the NATS user hook, who may answer the hooks of a station of inspan up; without one there is no such user; INSPAN_HOOK_PASSWORD_FILE names a file with it"`
	ToolsPassword secret.Value `envconfig:"INSPAN_TOOLS_PASSWORD" desc:"password of the NATS user tools, who may serve tools to a station of inspan up; without one there is no such user; INSPAN_TOOLS_PASSWORD_FILE names a file with it"`
}

// Planning: of the planner, and of whoever registers agents.
type Planning struct {
	MaxRuns         int           `envconfig:"INSPAN_MAX_RUNS" default:"100000" desc:"runs of the station that have not ended; tasks above it wait; 0 is no limit (planner)"`
	RunsPerMinute   int           `envconfig:"INSPAN_MAX_RUNS_PER_MINUTE" default:"6000" desc:"runs of the station that begin in a minute; tasks above it wait; 0 is no limit (planner)"`
	Patience        time.Duration `envconfig:"INSPAN_TASK_PATIENCE" default:"10m" desc:"how long a task above these limits waits before it is refused with quota_exceeded (planner)"`
	SenderPerMinute int           `envconfig:"INSPAN_MAX_TASKS_PER_SENDER" default:"0" desc:"tasks a minute of one sender, the project of the subject and the source of the CloudEvent; those above it are refused with quota_exceeded; each planner counts for itself; 0 is no limit"`
	Prices          string        `envconfig:"INSPAN_PRICES" desc:"file of the prices of models, in US dollars per million tokens, which go before those of this program: a line such as anthropic/claude-sonnet-5*: {input: 2, output: 10, cached: 0.20, cache_write: 2.50} for each (planner); each run keeps those in force when it began; a run with a budget of money and a model without a price is refused; see limits.md"`
	Agents          string        `envconfig:"INSPAN_AGENTS" desc:"folder of agent files to register at start (planner)"`
	LongRunning     time.Duration `envconfig:"INSPAN_LONG_RUNNING" default:"5m" desc:"how long a task must be thought to take, by its estimate, for its run to be wrapped in the harness (planner); see direct.md"`
	Isolation       string        `envconfig:"INSPAN_ISOLATION_MODE" default:"per_workflow" desc:"per_workflow, per_run or shared"`
	Context         string        `envconfig:"INSPAN_CONTEXT" desc:"file with what all agents of the station are told, at most 32 KiB; each run keeps what it said when it began (planner)"`
	ContextWindows  []string      `envconfig:"INSPAN_CONTEXT_WINDOWS" desc:"context windows of models as MODEL=TOKENS, comma separated, * for any characters, 0 for no limit; those of others are 32768 unless they are known (planner)"`
	// AgentDefaults are what configuration files say under harness, for agents that do not say otherwise.
	AgentDefaults agentfile.Defaults `ignored:"true" json:"-"`
}

// Models: the providers of models.
type Models struct {
	Scripts          string        `envconfig:"INSPAN_SCRIPTS" desc:"folder of scripts for the scripted model"`
	AnthropicKey     secret.Value  `envconfig:"INSPAN_ANTHROPIC_API_KEY" desc:"key for anthropic/ models; ANTHROPIC_API_KEY_FILE names a file with it"`
	AnthropicBaseURL string        `envconfig:"INSPAN_ANTHROPIC_BASE_URL" desc:"other address of the Anthropic API"`
	OpenAIKey        secret.Value  `envconfig:"INSPAN_OPENAI_API_KEY" desc:"key for openai/ models; OPENAI_API_KEY_FILE names a file with it"`
	OpenAIBaseURL    string        `envconfig:"INSPAN_OPENAI_BASE_URL" desc:"address of an OpenAI-compatible server"`
	OpenAIAPI        string        `envconfig:"INSPAN_OPENAI_API" desc:"chat or responses; where it is not set, responses with OpenAI itself and chat with other servers"`
	GeminiKey        secret.Value  `envconfig:"INSPAN_GEMINI_API_KEY" desc:"key for gemini/ models; GEMINI_API_KEY_FILE names a file with it"`
	GeminiBaseURL    string        `envconfig:"INSPAN_GEMINI_BASE_URL" desc:"other address of the Gemini API"`
	ModelIdle        time.Duration `envconfig:"INSPAN_MODEL_IDLE" default:"60s" desc:"how long a provider may send nothing during an answer before the request is made again, five times as long before the answer begins; raise it for models that think in silence; 0 is no limit (executor)"`
	ModelTimeout     time.Duration `envconfig:"INSPAN_MODEL_TIMEOUT" default:"0s" desc:"longest time of one model request in all, after which it is made again; 0 is no limit (executor)"`
	ModelMaxWait     time.Duration `envconfig:"INSPAN_MODEL_MAX_WAIT" default:"24h" desc:"how long a run waits for a provider that does not answer before it is paused, so that inspan resume goes on; 0 is no limit (executor)"`
}

// Gates: of the gatekeeper.
type Gates struct {
	MaxGates          int           `envconfig:"INSPAN_MAX_GATES" default:"64" desc:"gates of a run that stand open at the same time; the next one opens when one is answered; 0 is no limit (gatekeeper)"`
	GateApprovers     int           `envconfig:"INSPAN_GATE_APPROVERS" default:"1" desc:"different people who must approve a gate, at least; where it is more than one, not who asked for the run, and only with proof of who they are; agents and rules can ask for more (gatekeeper)"`
	GateExpires       time.Duration `envconfig:"INSPAN_GATE_EXPIRES" default:"0s" desc:"how long a gate waits for its answer, at most; 0 is for ever; agents and rules can ask for less (gatekeeper)"`
	GateOnExpiry      string        `envconfig:"INSPAN_GATE_ON_EXPIRY" default:"reject" desc:"what follows where a gate expires: reject, as a no, or fail, which ends the run (gatekeeper)"`
	GateRemind        time.Duration `envconfig:"INSPAN_GATE_REMIND" default:"0s" desc:"how long a gate waits before people are called again, and again after as long, ten times at most; 0 is never; agents and rules can ask for less (gatekeeper)"`
	GateEscalateAfter time.Duration `envconfig:"INSPAN_GATE_ESCALATE_AFTER" default:"0s" desc:"how long a gate waits before others are called; 0 is never; see gates.md (gatekeeper)"`
	GateEscalateTo    string        `envconfig:"INSPAN_GATE_ESCALATE_TO" desc:"who these are: a person or a group, by the word that callbacks have in their list groups (gatekeeper)"`
	AnswersPerMinute  int           `envconfig:"INSPAN_MAX_ANSWERS_PER_APPROVER" default:"600" desc:"answers a minute in the name of one approver; those above it are refused with quota_exceeded; each gatekeeper counts for itself; 0 is no limit"`
}

// Approvals: whose answers to gates are accepted.
type Approvals struct {
	ApproverKeys string `envconfig:"INSPAN_APPROVER_KEYS" desc:"folder of public keys, NAME.pub, whose signed answers to gates are believed (gatekeeper); inspan keygen makes keys"`
	OnlySigned   bool   `envconfig:"INSPAN_ONLY_SIGNED" default:"false" desc:"refuse answers to gates that are not signed with one of these keys (gatekeeper)"`
}

// Live: where text and output are published as they come.
type Live struct {
	Streaming string `envconfig:"INSPAN_STREAMING" default:"true" desc:"where the text of models and the output of tools are published as they come (executor, toolrunner): nats, for those who watch now; jetstream, which also keeps it for 2 hours, so that who comes late hears the turn under way from its beginning although the executor is gone; channel, for a program that has the station in its own process; several, separated by commas; true is nats; false or none is nowhere"`
}

// Workspaces: where workspaces are and how long they stay, see docs/workspaces.md.
type Workspaces struct {
	Workspace         string        `envconfig:"INSPAN_WORKSPACE" default:"./workspace" desc:"root of the workspaces (toolrunner)"`
	WorkspaceMode     string        `envconfig:"INSPAN_WORKSPACE_MODE" default:"local" desc:"local: all toolrunners are on one machine, and take nothing where they are not; shared: their workspace root is one volume, and one of them works in a workspace at a time; follow: each has a root of its own, and where a toolrunner is lost another goes on with what was kept of the workspace in the object store (toolrunner)"`
	WorkspaceSnapshot string        `envconfig:"INSPAN_WORKSPACE_SNAPSHOT" default:"call" desc:"with follow: when a workspace is kept in the object store: call, after each call that may have changed files; step, when a step ends, which is cheaper and tells the agent what was lost with a machine in between (toolrunner)"`
	CleanupOnComplete bool          `envconfig:"INSPAN_WORKSPACE_CLEANUP_ON_COMPLETE" default:"false" desc:"with local and follow: take the workspace of a run away when the run ends; those of sessions stay, and those with a git repository whose work cannot be kept elsewhere (toolrunner)"`
	CleanupAfter      time.Duration `envconfig:"INSPAN_WORKSPACE_CLEANUP_AFTER" default:"24h" desc:"with local and follow: how long the workspace of a run or workflow stays after its last run has ended (toolrunner)"`
}

// Capture: what is kept of what runs make.
type Capture struct {
	Artifacts    string        `envconfig:"INSPAN_ARTIFACTS" default:"nats" desc:"where what runs make is kept: nats, in the store of artifacts; local, in the workspace alone; off, nothing but what agents save by name (toolrunner)"`
	ArtifactTTL  time.Duration `envconfig:"INSPAN_ARTIFACT_TTL" default:"24h" desc:"how long artifacts are kept after the end of their run; agents can say otherwise (toolrunner, persister)"`
	ArtifactTTLs []string      `envconfig:"INSPAN_ARTIFACT_TTL_PROJECTS" desc:"how long artifacts of projects are kept, as PROJECT=DURATION, comma separated, such as acme=720h; it goes before what agents say (toolrunner)"`
	MaxFileSize  int64         `envconfig:"INSPAN_MAX_FILE_SIZE" default:"104857600" desc:"largest file in bytes that is kept of what runs make, also by name, at most 104857600; agents can set less (toolrunner)"`
}

// Sandboxes: what commands run in, see docs/sandboxes.md.
type Sandboxes struct {
	Sandbox         string        `envconfig:"INSPAN_SANDBOX" default:"auto" desc:"sandbox of agents that do not ask for one: auto, bwrap, landlock or host, or by name alone docker, gvisor, wasm, qemu, firecracker, e2b or kubernetes"`
	SandboxBackend  string        `envconfig:"INSPAN_SANDBOX_BACKEND" desc:"what auto means, one of the modes of INSPAN_SANDBOX; empty for the strongest of bwrap, landlock and host that works"`
	SandboxMin      string        `envconfig:"INSPAN_SANDBOX_MIN" desc:"the weakest sandbox that any agent may have, such as landlock, bwrap or gvisor; what is weaker is refused"`
	SandboxReaches  bool          `envconfig:"INSPAN_SANDBOX_REACHES_STATION" default:"false" desc:"open sandboxes whose commands can connect to the station, and so answer the gates of their own run, because their network is open and nothing keeps them from it; not needed with INSPAN_ONLY_SIGNED (toolrunner)"`
	SandboxClosed   []string      `envconfig:"INSPAN_SANDBOX_CLOSED" desc:"further addresses of the station, HOST:PORT, comma separated, that commands of sandboxes with an open network cannot connect to; those of NATS and of this process are closed anyway (toolrunner)"`
	SandboxKeep     time.Duration `envconfig:"INSPAN_SANDBOX_KEEP" default:"10m" desc:"how long a sandbox that no one uses stays for the next call: those of a session, with HOME and TMPDIR of its agent, and those that are slow to start (docker, gvisor, e2b, kubernetes and virtual machines) for the calls of a step; 0 opens one for each call (toolrunner)"`
	SandboxReadOnly []string      `envconfig:"INSPAN_SANDBOX_READ_ONLY" desc:"further host paths that commands may read, comma separated"`
	MCPPackages     string        `envconfig:"INSPAN_MCP_PACKAGES" desc:"folder of installed MCP servers (inspan mcp install), which commands may read where it is there; empty for inspan/mcp in XDG_DATA_HOME or ~/.local/share"`
	BuildCache      string        `envconfig:"INSPAN_SANDBOX_BUILD_CACHE" default:"off" desc:"folder with the compiled standard library of Go, which commands of bwrap and landlock read in workspaces with a go.mod and cannot write; the station fills it; auto is inspan/build in XDG_CACHE_HOME or ~/.cache, off is none (toolrunner)"`
	SandboxEnv      []string      `envconfig:"INSPAN_SANDBOX_ENV" desc:"further NAME=value for commands, comma separated; shown in logs"`
	SandboxSecrets  secret.Value  `envconfig:"INSPAN_SANDBOX_SECRETS" desc:"NAME=value for commands, comma separated, that must not be seen: each value, of at least 8 characters, is masked in what tools answer"`
}

// Calls: what calls of tools reach and are given.
type Calls struct {
	StationKey      secret.Value  `envconfig:"INSPAN_STATION_KEY" desc:"key of idempotency keys; made and kept in the config bucket where it is not set"`
	MCPSecrets      string        `envconfig:"INSPAN_MCP_SECRETS" desc:"folder of secrets for MCP servers, one in each file (toolrunner): secret:NAME in an agent file stands for what the file NAME holds, of at least 8 characters; masked in what tools answer"`
	MCPKeep         time.Duration `envconfig:"INSPAN_MCP_KEEP" default:"10m" desc:"how long the server of an MCP tool that no call uses lives on, for the next call of its run or session; 0 starts one for each call (toolrunner)"`
	MCPMost         int           `envconfig:"INSPAN_MCP_MOST" default:"16" desc:"how many such servers live on at most; the one that was unused for longest ends first (toolrunner)"`
	MCPIdleBytes    int64         `envconfig:"INSPAN_MCP_IDLE_BYTES" default:"1048576" desc:"how many bytes such a server may send between calls before it is ended (toolrunner)"`
	Credentials     secret.Value  `envconfig:"INSPAN_EGRESS_CREDENTIALS" desc:"headers that are added to requests of agents for a host, so that no tool holds them, comma separated: api.example.com=Authorization: Bearer KEY; http://HOST=... for plain HTTP; masked in what tools answer; see egress.md (toolrunner)"`
	PrometheusURL   string        `envconfig:"INSPAN_PROMETHEUS_URL" desc:"the Prometheus server that the tool prometheus asks, and no other, for example http://prometheus:9090 (toolrunner)"`
	PrometheusToken secret.Value  `envconfig:"INSPAN_PROMETHEUS_TOKEN" desc:"bearer token for it; INSPAN_PROMETHEUS_TOKEN_FILE names a file with it"`
}

// Docker: sandboxes in containers, see docs/sandbox-docker.md.
type Docker struct {
	DockerHost    string `envconfig:"INSPAN_DOCKER_HOST" desc:"address of the container engine for sandbox docker, such as unix:///run/docker.sock; empty for DOCKER_HOST or the system's own (toolrunner)"`
	DockerImage   string `envconfig:"INSPAN_DOCKER_IMAGE" desc:"image of sandboxes of mode docker whose agent names none; empty for inspan-sandbox:0.1.0, which make sandbox-image builds (toolrunner)"`
	DockerPull    bool   `envconfig:"INSPAN_DOCKER_PULL" default:"false" desc:"get images of sandboxes that are not on this machine from their registry; without it they are refused (toolrunner)"`
	DockerNetwork string `envconfig:"INSPAN_DOCKER_NETWORK" default:"bridge" desc:"the engine's network of sandboxes whose network is open (toolrunner)"`
	DockerUser    string `envconfig:"INSPAN_DOCKER_USER" desc:"user of commands in containers as UID:GID; empty for that of the toolrunner, which must not be root then (toolrunner)"`
	DockerHelper  string `envconfig:"INSPAN_DOCKER_HELPER" desc:"static program of this version that is put into containers as their helper; empty for inspan-within beside the toolrunner, or the toolrunner itself (toolrunner)"`
}

// Remote: sandboxes on other machines, see docs/sandbox-e2b.md and docs/sandbox-kubernetes.md.
type Remote struct {
	E2BKey        secret.Value `envconfig:"INSPAN_E2B_API_KEY" desc:"API key of E2B, for sandboxes of mode e2b; INSPAN_E2B_API_KEY_FILE names a file with it (toolrunner)"`
	E2BURL        string       `envconfig:"INSPAN_E2B_URL" default:"https://api.e2b.app" desc:"address of the E2B API, or of another service that speaks it; the key is sent there (toolrunner)"`
	E2BSandboxURL string       `envconfig:"INSPAN_E2B_SANDBOX_URL" desc:"address at which all sandboxes of that service are reached; empty for the one that the service gives each (toolrunner)"`
	E2BTemplate   string       `envconfig:"INSPAN_E2B_TEMPLATE" default:"base" desc:"template of sandboxes of mode e2b: its processors, memory and disk are theirs (toolrunner)"`
	KubeURL       string       `envconfig:"INSPAN_KUBERNETES_URL" desc:"address of the API server, for sandboxes of mode kubernetes; empty for the cluster that the toolrunner runs in (toolrunner)"`
	KubeTokenFile string       `envconfig:"INSPAN_KUBERNETES_TOKEN_FILE" desc:"file of the bearer token for it, read for each request; empty for that of the toolrunner's pod (toolrunner)"`
	KubeCAFile    string       `envconfig:"INSPAN_KUBERNETES_CA_FILE" desc:"file of the certificates that it is known by; empty for those of the toolrunner's pod, or of the system (toolrunner)"`
	KubeNamespace string       `envconfig:"INSPAN_KUBERNETES_NAMESPACE" default:"default" desc:"namespace of the pods of sandboxes, which should hold nothing else (toolrunner)"`
	KubeImage     string       `envconfig:"INSPAN_KUBERNETES_IMAGE" desc:"image of the pods of sandboxes (toolrunner)"`
	KubeRuntime   string       `envconfig:"INSPAN_KUBERNETES_RUNTIME_CLASS" desc:"RuntimeClass of the pods of sandboxes, such as gvisor; empty for the cluster's own (toolrunner)"`
	KubeWarmPool  string       `envconfig:"INSPAN_KUBERNETES_WARM_POOL" desc:"SandboxWarmPool of agent-sandbox whose pods are claimed for sandboxes, in the place of an image and a RuntimeClass (toolrunner)"`
	KubeEnforces  []string     `envconfig:"INSPAN_KUBERNETES_ENFORCES" desc:"what the operator states that the cluster keeps, comma separated: network, station (pods whose network is open do not reach NATS and the services), cpu, memory, disk; sandboxes that want what is not named are refused (toolrunner)"`
}

// MicroVM: sandboxes in virtual machines, see docs/sandbox-microvm.md.
type MicroVM struct {
	QEMU          string `envconfig:"INSPAN_QEMU" desc:"name or path of the program of QEMU, for sandboxes of mode qemu; empty for qemu-system-x86_64 (toolrunner)"`
	Firecracker   string `envconfig:"INSPAN_FIRECRACKER" desc:"name or path of the program of Firecracker, for sandboxes of mode firecracker; empty for firecracker (toolrunner)"`
	MicroVMKernel string `envconfig:"INSPAN_MICROVM_KERNEL" desc:"file of the kernel of virtual machines; make microvm builds this one and the next two (toolrunner)"`
	MicroVMInitrd string `envconfig:"INSPAN_MICROVM_INITRD" desc:"file of their first file system, with inspan-guest as /init (toolrunner)"`
	MicroVMRoot   string `envconfig:"INSPAN_MICROVM_ROOT" desc:"image of their root, ext4 or squashfs, which all share and none can write (toolrunner)"`
	MicroVMAccel  string `envconfig:"INSPAN_MICROVM_ACCEL" default:"kvm" desc:"how their processors come about under QEMU: kvm; tcg, emulated and ten times slower or worse; auto, emulated where no machine boots with KVM (toolrunner)"`
	MicroVMCPUs   int    `envconfig:"INSPAN_MICROVM_VCPU" default:"1" desc:"processors of machines whose agent asks for none (toolrunner)"`
	MicroVMMemory int64  `envconfig:"INSPAN_MICROVM_MEMORY" default:"1024" desc:"memory for commands in machines whose agent asks for none, in MiB (toolrunner)"`
	MicroVMDisk   int64  `envconfig:"INSPAN_MICROVM_DISK" default:"10240" desc:"disk for the workspace, HOME and TMPDIR in machines whose agent asks for none, in MiB; what is not written takes no room (toolrunner)"`
}

// Interpreted: sandboxes of gVisor and WebAssembly, see docs/sandbox-gvisor.md and docs/sandbox-wasm.md.
type Interpreted struct {
	GVisor         string   `envconfig:"INSPAN_GVISOR" desc:"name or path of the program of gVisor, for sandboxes of the mode gvisor; empty for runsc (toolrunner); see sandbox-gvisor.md"`
	GVisorPlatform string   `envconfig:"INSPAN_GVISOR_PLATFORM" desc:"how gVisor catches system calls: systrap, ptrace or kvm; empty for the first of systrap and ptrace that works (toolrunner)"`
	WASMPrograms   []string `envconfig:"INSPAN_WASM_PROGRAMS" desc:"directories of the programs of the sandbox mode wasm, as NAME.wasm, comma separated; make wasm builds a toolbox into bin/wasm; see sandbox-wasm.md (toolrunner)"`
	WASMCache      string   `envconfig:"INSPAN_WASM_CACHE" desc:"directory where compiled wasm programs are kept, which no one else may write; the user's cache directory where it is not set (toolrunner)"`
}

// GitWork: git work, see docs/git-tools.md.
type GitWork struct {
	GitProtocols   []string      `envconfig:"INSPAN_GIT_PROTOCOLS" default:"https,ssh" desc:"protocols by which the git tools reach remotes, comma separated: https, ssh, http, file; with file every repository of this machine is a remote, but for those in workspaces (toolrunner)"`
	GitHosts       []string      `envconfig:"INSPAN_GIT_HOSTS" default:"*" desc:"hosts of remotes, comma separated: github.com, *.example.com for all below it, * for all (toolrunner)"`
	GitPrivate     []string      `envconfig:"INSPAN_GIT_PRIVATE" desc:"ranges of addresses that are not public and that remotes may have all the same, comma separated, such as 10.1.0.0/16 (toolrunner)"`
	GitKeys        string        `envconfig:"INSPAN_GIT_KEYS" desc:"folder of ssh keys for remotes, each in a file named as its host, or HOST_PORT, and known_hosts with the hosts' own keys (toolrunner); for https see INSPAN_EGRESS_CREDENTIALS"`
	GitAuthorName  string        `envconfig:"INSPAN_GIT_AUTHOR_NAME" default:"inspan" desc:"author of the commits that the git tools make (toolrunner)"`
	GitAuthorEmail string        `envconfig:"INSPAN_GIT_AUTHOR_EMAIL" default:"inspan@localhost" desc:"the author's address (toolrunner)"`
	GitTimeout     time.Duration `envconfig:"INSPAN_GIT_TIMEOUT" default:"10m" desc:"how long one git command may take (toolrunner)"`
	GitMaxBytes    int64         `envconfig:"INSPAN_GIT_MAX_BYTES" default:"2147483648" desc:"most bytes of one transfer; a tree that is checked out may have twice that (toolrunner)"`
	GitKeep        time.Duration `envconfig:"INSPAN_GIT_KEEP" default:"720h" desc:"how long branches stay that runs left with the station, but for those of sessions, which stay as long as their session and then that long (toolrunner)"`
	GitProxy       string        `envconfig:"INSPAN_GIT_PROXY" desc:"proxy for remotes by https and http, such as http://proxy:3128 (toolrunner)"`
	GitCAFile      string        `envconfig:"INSPAN_GIT_CA_FILE" desc:"file of certificates that remotes by https must be certified by; those of the machine where it is not set (toolrunner)"`
}

// Archives: of the persister.
type Archives struct {
	AnchorKey secret.Value `envconfig:"INSPAN_ANCHOR_KEY" desc:"signing key of anchors, 64 hex digits (persister); inspan up makes one beside its store; without one the cut-off end of a log cannot be found"`
	// AnchorKeyFile is the file that AnchorKey was read from, where it is looked at again while the process runs: that of
	// a station in one process.
	AnchorKeyFile string        `ignored:"true" json:"-"`
	Archive       string        `envconfig:"INSPAN_ARCHIVE" desc:"where the logs, objects and agents of the station are archived, outside of its store (persister): a folder, or s3://BUCKET/PREFIX; inspan restore reads it"`
	ArchiveEvery  time.Duration `envconfig:"INSPAN_ARCHIVE_EVERY" default:"30s" desc:"how often running runs are saved to the archive; those that end, pause or wait are saved at once"`
	ArchiveFiles  int64         `envconfig:"INSPAN_ARCHIVE_FILES_MAX_BYTES" default:"1073741824" desc:"how large what is kept of one workspace, a published branch, or the artifacts of one run may be to be in the archive; 0 keeps none of them there"`
}
