package service

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Setting is one row of the table of all settings: a variable, a key of config.yaml, or both.
type Setting struct {
	// Key in config.yaml, such as "harness.sandbox.mode"; empty for what only a variable can say.
	Key string
	// Variable such as "INSPAN_SANDBOX"; empty for the defaults of agents.
	Variable string
	Default  string
	Doc      string
	// Standard is the name that other programs use for it too.
	Standard string
	Form     agentfile.Form
	// Secret values are never shown, and may stand in a file that NAME_FILE names.
	Secret bool
	// Path values of a file are relative to where the file belongs.
	Path bool
	// Project says that the file of a project may set it: nothing that decides whom to trust, where keys are sent or
	// what is watched, because a project may be somebody else's.
	Project bool
	// Inert settings are accepted and nothing acts on them yet.
	Inert bool
	// SecretFile settings name the file of a secret: their key is that of the secret and "_file".
	SecretFile bool

	// name of the field of Config, empty where there is none.
	name string
}

// trait is what the table knows of a variable besides its tags.
type trait struct {
	key      string
	standard string
	path     bool
	project  bool
}

// Program reports whether only the program inspan reads it.
func (s Setting) Program() bool { return s.Variable != "" && s.name == "" && !s.SecretFile }

// traits of variables. A variable that is not here has the key of its own name in small letters.
func traits() map[string]trait {
	all := map[string]trait{
		"INSPAN_STATION":                       {key: "station", project: true},
		"INSPAN_NATS_ENABLED":                  {key: "harness.nats.enabled"},
		"INSPAN_STATE_BUCKET":                  {key: "harness.nats.kv_bucket"},
		"INSPAN_FILES_BUCKET":                  {key: "harness.nats.object_bucket"},
		"INSPAN_NATS_URL":                      {key: "nats.url", standard: "NATS_URL"},
		"INSPAN_NATS_CREDS":                    {key: "nats.creds", standard: "NATS_CREDS", path: true},
		"INSPAN_NATS_USER":                     {key: "nats.user", standard: "NATS_USER"},
		"INSPAN_NATS_PASSWORD":                 {key: "nats.password", standard: "NATS_PASSWORD"},
		"INSPAN_NATS_MONITOR":                  {key: "nats.monitor"},
		"INSPAN_NATS_SHARED_ACCOUNT":           {key: "nats.shared_account"},
		"INSPAN_REPLICAS":                      {key: "nats.replicas"},
		"INSPAN_LOG_MAX_BYTES":                 {key: "nats.log_max_bytes"},
		"INSPAN_IN_MAX_BYTES":                  {key: "nats.in_max_bytes"},
		"INSPAN_FILES_MAX_BYTES":               {key: "nats.files_max_bytes"},
		"INSPAN_ACCEPT_LAZY_FSYNC":             {key: "nats.accept_lazy_fsync"},
		"INSPAN_HTTP":                          {key: "service.http"},
		"INSPAN_LOG_LEVEL":                     {key: "service.log_level", project: true},
		"INSPAN_WORKERS":                       {key: "service.workers"},
		"INSPAN_DRAIN":                         {key: "service.drain"},
		"INSPAN_MAX_RUNS":                      {key: "limits.runs"},
		"INSPAN_MAX_RUNS_PER_MINUTE":           {key: "limits.runs_per_minute"},
		"INSPAN_TASK_PATIENCE":                 {key: "limits.task_patience"},
		"INSPAN_MAX_TASKS_PER_SENDER":          {key: "limits.tasks_per_sender"},
		"INSPAN_MAX_GATES":                     {key: "limits.gates"},
		"INSPAN_MAX_ANSWERS_PER_APPROVER":      {key: "limits.answers_per_approver"},
		"INSPAN_POLICY":                        {key: "policy", path: true},
		"INSPAN_HOOKS_DIR":                     {key: "hooks_dir", path: true},
		"INSPAN_HOOK_PASSWORD":                 {key: "hook_password"},
		"INSPAN_TOOLS_PASSWORD":                {key: "tools_password"},
		"INSPAN_PRICES":                        {key: "prices", path: true},
		"INSPAN_AGENTS":                        {key: "agents", path: true, project: true},
		"INSPAN_SCRIPTS":                       {key: "scripts", path: true, project: true},
		"INSPAN_WORKSPACE":                     {key: "harness.workspace.path", path: true, project: true},
		"INSPAN_LONG_RUNNING":                  {key: "harness.long_running", project: true},
		"INSPAN_ISOLATION_MODE":                {key: "harness.workspace.isolation_mode", project: true},
		"INSPAN_WORKSPACE_CLEANUP_ON_COMPLETE": {key: "harness.workspace.cleanup_on_complete"},
		"INSPAN_WORKSPACE_SNAPSHOT":            {key: "harness.workspace.snapshot"},
		"INSPAN_WORKSPACE_CLEANUP_AFTER":       {key: "harness.workspace.cleanup_after"},
		"INSPAN_EGRESS_CREDENTIALS":            {key: "egress.credentials"},
		"INSPAN_MCP_SECRETS":                   {key: "mcp_secrets", path: true},
		"INSPAN_APPROVER_KEYS":                 {key: "approvals.keys", path: true},
		"INSPAN_ONLY_SIGNED":                   {key: "approvals.only_signed"},
		"INSPAN_ARTIFACTS":                     {key: "artifacts.mode", project: true},
		"INSPAN_ARTIFACT_TTL":                  {key: "artifacts.ttl"},
		"INSPAN_ARTIFACT_TTL_PROJECTS":         {key: "artifacts.ttl_projects"},
		"INSPAN_MAX_FILE_SIZE":                 {key: "nats.max_file_size"},
		"INSPAN_ARTIFACT_MAX_BYTES":            {key: "artifacts.max_bytes"},
		"INSPAN_ARCHIVE":                       {key: "archive.path", path: true},
		"INSPAN_ARCHIVE_EVERY":                 {key: "archive.every"},
		"INSPAN_ARCHIVE_FILES_MAX_BYTES":       {key: "archive.files_max_bytes"},
		"INSPAN_PROMETHEUS_URL":                {key: "prometheus.url"},
		"INSPAN_PROMETHEUS_TOKEN":              {key: "prometheus.token"},
		"INSPAN_ANTHROPIC_API_KEY":             {key: "models.anthropic.api_key", standard: "ANTHROPIC_API_KEY"},
		"INSPAN_ANTHROPIC_BASE_URL":            {key: "models.anthropic.base_url", standard: "ANTHROPIC_BASE_URL"},
		"INSPAN_OPENAI_API_KEY":                {key: "models.openai.api_key", standard: "OPENAI_API_KEY"},
		"INSPAN_OPENAI_BASE_URL":               {key: "models.openai.base_url", standard: "OPENAI_BASE_URL"},
		"INSPAN_OPENAI_API":                    {key: "models.openai.api"},
		"INSPAN_GEMINI_API_KEY":                {key: "models.gemini.api_key", standard: "GEMINI_API_KEY"},
		"INSPAN_GEMINI_BASE_URL":               {key: "models.gemini.base_url", standard: "GEMINI_BASE_URL"},
		"INSPAN_MODEL_IDLE":                    {key: "models.idle"},
		"INSPAN_MODEL_TIMEOUT":                 {key: "models.timeout"},
		"INSPAN_MODEL_MAX_WAIT":                {key: "models.max_wait"},
	}
	maps.Copy(all, sandboxTraits())
	maps.Copy(all, gatewayTraits())
	maps.Copy(all, messagesTraits())
	maps.Copy(all, forwardingTraits())
	return all
}

// boxTraits are those of the variables of sandboxes and of git work.
func sandboxTraits() map[string]trait {
	return map[string]trait{
		"INSPAN_SANDBOX":                  {key: "harness.sandbox.mode"},
		"INSPAN_SANDBOX_BACKEND":          {key: "harness.sandbox.isolation_backend"},
		"INSPAN_SANDBOX_MIN":              {key: "harness.sandbox.min_isolation"},
		"INSPAN_SANDBOX_REACHES_STATION":  {key: "harness.sandbox.reaches_station"},
		"INSPAN_SANDBOX_CLOSED":           {key: "harness.sandbox.closed"},
		"INSPAN_SANDBOX_KEEP":             {key: "harness.sandbox.keep"},
		"INSPAN_DOCKER_HOST":              {key: "docker.host"},
		"INSPAN_DOCKER_IMAGE":             {key: "docker.image"},
		"INSPAN_DOCKER_PULL":              {key: "docker.pull"},
		"INSPAN_DOCKER_NETWORK":           {key: "docker.network"},
		"INSPAN_DOCKER_USER":              {key: "docker.user"},
		"INSPAN_DOCKER_HELPER":            {key: "docker.helper", path: true},
		"INSPAN_E2B_API_KEY":              {key: "e2b.api_key", standard: "E2B_API_KEY"},
		"INSPAN_E2B_URL":                  {key: "e2b.url"},
		"INSPAN_E2B_SANDBOX_URL":          {key: "e2b.sandbox_url"},
		"INSPAN_E2B_TEMPLATE":             {key: "e2b.template"},
		"INSPAN_KUBERNETES_URL":           {key: "kubernetes.url"},
		"INSPAN_KUBERNETES_TOKEN_FILE":    {key: "kubernetes.token_file", path: true},
		"INSPAN_KUBERNETES_CA_FILE":       {key: "kubernetes.ca_file", path: true},
		"INSPAN_KUBERNETES_NAMESPACE":     {key: "kubernetes.namespace"},
		"INSPAN_KUBERNETES_IMAGE":         {key: "kubernetes.image"},
		"INSPAN_KUBERNETES_RUNTIME_CLASS": {key: "kubernetes.runtime_class"},
		"INSPAN_KUBERNETES_WARM_POOL":     {key: "kubernetes.warm_pool"},
		"INSPAN_KUBERNETES_ENFORCES":      {key: "kubernetes.enforces"},
		"INSPAN_QEMU":                     {key: "qemu.program"},
		"INSPAN_FIRECRACKER":              {key: "firecracker.program"},
		"INSPAN_MICROVM_KERNEL":           {key: "microvm.kernel", path: true},
		"INSPAN_MICROVM_INITRD":           {key: "microvm.initrd", path: true},
		"INSPAN_MICROVM_ROOT":             {key: "microvm.rootfs", path: true},
		"INSPAN_MICROVM_ACCEL":            {key: "microvm.accel"},
		"INSPAN_MICROVM_VCPU":             {key: "microvm.vcpu"},
		"INSPAN_MICROVM_MEMORY":           {key: "microvm.memory"},
		"INSPAN_MICROVM_DISK":             {key: "microvm.disk"},
		"INSPAN_SANDBOX_READ_ONLY":        {key: "commands.read_only"},
		"INSPAN_SANDBOX_ENV":              {key: "commands.env"},
		"INSPAN_GVISOR":                   {key: "gvisor.program"},
		"INSPAN_GVISOR_PLATFORM":          {key: "gvisor.platform"},
		"INSPAN_SANDBOX_SECRETS":          {key: "commands.secrets"},
		"INSPAN_WASM_PROGRAMS":            {key: "wasm.programs"},
		"INSPAN_WASM_CACHE":               {key: "wasm.cache", path: true},
		"INSPAN_GIT_PROTOCOLS":            {key: "git.protocols"},
		"INSPAN_GIT_HOSTS":                {key: "git.hosts"},
		"INSPAN_GIT_PRIVATE":              {key: "git.private"},
		"INSPAN_GIT_KEYS":                 {key: "git.keys", path: true},
		"INSPAN_GIT_AUTHOR_NAME":          {key: "git.author.name"},
		"INSPAN_GIT_AUTHOR_EMAIL":         {key: "git.author.email"},
		"INSPAN_GIT_TIMEOUT":              {key: "git.timeout"},
		"INSPAN_GIT_MAX_BYTES":            {key: "git.max_bytes"},
		"INSPAN_GIT_KEEP":                 {key: "git.keep"},
		"INSPAN_GIT_PROXY":                {key: "git.proxy"},
		"INSPAN_GIT_CA_FILE":              {key: "git.ca_file", path: true},
	}
}

// programSettings are read by the program inspan alone.
func programSettings() []Setting {
	return []Setting{
		{Key: "model", Variable: "MODEL", Form: agentfile.FormText, Project: true,
			Doc: "other model for runs that this program starts, provider/name"},
		{Key: "default_model", Variable: "INSPAN_DEFAULT_MODEL", Form: agentfile.FormText,
			Doc: "model of new agent files and of the built-in agent, provider/name; where it is not set, one whose key is"},
		{Key: "agent", Variable: "INSPAN_AGENT", Form: agentfile.FormText, Project: true,
			Doc: "agent that inspan without a command talks to; where it is not set, the only one there is, the built-in one, or one that is asked for"},
		{Key: "store", Variable: "INSPAN_STORE", Default: ".inspan", Form: agentfile.FormText, Path: true, Project: true,
			Doc: "folder of the local store of --local"},
		{Key: "approver", Variable: "INSPAN_APPROVER", Form: agentfile.FormText,
			Doc: "in whose name gates are answered and runs are steered; USER where it is not set"},
		{Key: "sign_key", Variable: "INSPAN_SIGN_KEY", Form: agentfile.FormText, Path: true,
			Doc: "file of the key that answers to gates are signed with"},
		{Key: "notify.terminal", Variable: "INSPAN_NOTIFY_TERMINAL", Default: "auto", Form: agentfile.FormText,
			Doc: "how a terminal calls a person, see notices.md: auto, bell, osc9, osc777 or off"},
		{Key: "notify.after", Variable: "INSPAN_NOTIFY_AFTER", Default: "10s", Form: agentfile.FormDuration,
			Doc: "how long an end must have been waited for at a terminal to call a person; a gate always does"},
		{Key: "notify.command", Variable: "INSPAN_NOTIFY_COMMAND", Form: agentfile.FormList,
			Doc: "command that is run for each notice, a list of the program and its arguments, comma separated in the variable; without a shell, the notice is JSON on its standard input"},
		{Key: "notify.timeout", Variable: "INSPAN_NOTIFY_TIMEOUT", Default: "10s", Form: agentfile.FormDuration,
			Doc: "how long that command may run"},
	}
}

// Table lists all settings: those of the services in the order of Config, those of the program, and the defaults of
// agents. The list is the caller's own.
func Table() []Setting { return slices.Clone(table()) }

// table is made once: a command line asks for it with each of its flags.
var table = sync.OnceValue(func() []Setting {
	out := slices.Clone(serviceSettings())
	out = append(out, secretFiles(out)...)
	out = append(out, programSettings()...)
	return append(out, harnessSettings(out)...)
})

// serviceSettings are those of the services in the order of Config, made once.
var serviceSettings = sync.OnceValue(func() []Setting {
	known := traits()
	var out []Setting
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		tag := f.Tag
		name := tag.Get("envconfig")
		if name == "" {
			continue
		}
		k := known[name]
		if k.key == "" {
			k.key = strings.ToLower(strings.TrimPrefix(name, Prefix+"_"))
		}
		out = append(out, Setting{Key: k.key, Variable: name, Default: tag.Get("default"), Doc: tag.Get("desc"),
			Standard: k.standard,
			Form:     formOf(f.Type), Secret: f.Type == reflect.TypeFor[secret.Value](), Path: k.path, Project: k.project,
			name: f.Name})
	}
	return out
})

// secretFiles are the settings that name files of secrets. A service reads them with the secret itself.
func secretFiles(all []Setting) []Setting {
	var out []Setting
	for _, s := range all {
		if s.Secret && s.Key != "" {
			out = append(out, Setting{Key: s.Key + fileSuffix, Variable: s.Variable + "_FILE", Form: agentfile.FormText,
				Standard: strings.TrimPrefix(s.Variable, Prefix+"_") + "_FILE", Path: true, SecretFile: true,
				Doc: "file with " + s.Key + ", which others should not be able to read"})
		}
	}
	return out
}

// fileSuffix makes the key of a secret that of the setting which names its file.
const fileSuffix = "_file"

func formOf(t reflect.Type) agentfile.Form {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return agentfile.FormDuration
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return agentfile.FormWhole
	case reflect.TypeFor[bool]():
		return agentfile.FormBool
	case reflect.TypeFor[[]string]():
		return agentfile.FormList
	}
	return agentfile.FormText
}

// looser are the defaults of agents that could take protection away, so that a project may not give them.
var looser = []string{"harness.autonomy", "harness.sandbox.", "harness.workspace.mode"}

func harnessSettings(others []Setting) []Setting {
	o := events.DefaultOptions()
	defaults := map[string][2]string{
		"harness.enabled": {"",
			"false lets runs take the direct path, true wraps them in the harness; unset, the task decides and else they are wrapped"},
		"harness.max_steps":          {strconv.Itoa(o.MaxSteps), "most model turns of a step"},
		"harness.timeout":            {(time.Duration(o.TimeoutMS) * time.Millisecond).String(), "time limit of a run"},
		"harness.autonomy":           {strconv.Itoa(o.Autonomy), "1 to 5: how much an agent does without asking"},
		"harness.budget.tool_calls":  {strconv.Itoa(o.MaxToolCalls), "most tool calls of a run"},
		"harness.retry.max_retries":  {"3", "retries of a tool call that failed for a reason that passes"},
		"harness.retry.base_backoff": {"1s", "wait before the first retry; each later one is twice as long"},
	}
	var out []Setting
	for _, k := range agentfile.HarnessKeys() {
		if slices.ContainsFunc(others, func(s Setting) bool { return s.Key == k.Key }) {
			continue
		}
		d := defaults[k.Key]
		if d[1] == "" {
			d[1] = "as in an agent file"
		}
		loose := slices.ContainsFunc(looser, func(l string) bool {
			return k.Key == l || strings.HasSuffix(l, ".") &&
				strings.HasPrefix(k.Key, l)
		})
		out = append(out, Setting{Key: k.Key, Default: d[0], Doc: d[1] + "; an agent file overrides it", Project: !loose,
			Inert: !k.Acts})
	}
	return out
}

// forms are the keys of config.yaml that are not defaults of agents.
func forms(table []Setting) map[string]agentfile.Form {
	out := map[string]agentfile.Form{}
	for _, s := range table {
		if s.Variable != "" && s.Key != "" {
			out[s.Key] = s.Form
		}
	}
	return out
}

// assign gives a field of Config a value as text.
func assign(field reflect.Value, text string) (err error) {
	switch f := field.Addr().Interface().(type) {
	case *string:
		*f = text
	case *secret.Value:
		*f = secret.New(text)
	case *[]string:
		*f = nil
		if text != "" {
			*f = strings.Split(text, ",")
		}
	case *bool:
		*f, err = strconv.ParseBool(text)
	case *int:
		*f, err = strconv.Atoi(text)
	case *int64:
		*f, err = strconv.ParseInt(text, 10, 64)
	case *time.Duration:
		*f, err = time.ParseDuration(text)
	default:
		panic("a field of service.Config has a type that settings cannot fill: " + field.Type().String())
	}
	return err
}
