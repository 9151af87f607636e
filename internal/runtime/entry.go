package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// Folder of the folder of agents has the runtimes of a project, each as NAME.toml.
	Folder = "runtimes"
	// Ext is the ending of their names.
	Ext = ".toml"
	// MaxFile is the size of one, in bytes, MaxEntries how many a folder has.
	MaxFile    = 64 << 10
	MaxEntries = 256
	// maxWords and maxWord bound arguments and variables.
	maxWords = 64
	maxWord  = 4 << 10
	// maxTranscripts bounds the patterns of files that are stored of a session.
	maxTranscripts = 8
	// leastSilence and mostSilence bound how long a program may be silent.
	leastSilence = time.Minute
	mostSilence  = 24 * time.Hour
)

// Entry is what a file says of a runtime. The keys are those of runtimes/NAME.toml.
type Entry struct {
	Name        string            `toml:"name" json:"name"`
	Description string            `toml:"description" json:"description,omitempty"`
	Kind        string            `toml:"kind" json:"kind"`
	Command     string            `toml:"command" json:"command"`
	Args        []string          `toml:"args" json:"args,omitempty"`
	Autonomous  []string          `toml:"autonomous_args" json:"autonomous_args,omitempty"`
	Env         map[string]string `toml:"env" json:"env,omitempty"`
	EnvPass     []string          `toml:"env_pass" json:"env_pass,omitempty"`
	Processes   []string          `toml:"process_names" json:"process_names,omitempty"`
	VersionArgs []string          `toml:"version_args" json:"version_args,omitempty"`
	Headless    struct {
		Parser string `toml:"parser" json:"parser,omitempty"`
	} `toml:"headless" json:"headless"`
	Screen
	ACP struct {
		Args []string `toml:"args" json:"args,omitempty"`
	} `toml:"acp" json:"acp"`
	Session struct {
		Resume bool `toml:"resume" json:"resume"`
		// IDFlag, IDEnv, ResumeFlag and ContinueFlag are how a program with a screen gets the name of its session.
		IDFlag       string `toml:"id_flag" json:"id_flag,omitempty"`
		IDEnv        string `toml:"id_env" json:"id_env,omitempty"`
		ResumeFlag   string `toml:"resume_flag" json:"resume_flag,omitempty"`
		ContinueFlag string `toml:"continue_flag" json:"continue_flag,omitempty"`
		// Transcripts are the files below HOME that a session is gone on with by.
		Transcripts []string `toml:"transcripts" json:"transcripts,omitempty"`
	} `toml:"session" json:"session"`
	Capabilities struct {
		Gate string `toml:"gate_tools" json:"gate_tools"`
	} `toml:"capabilities" json:"capabilities"`
	Model struct {
		API     string `toml:"api" json:"api,omitempty"`
		URL     string `toml:"url" json:"url,omitempty"`
		BaseEnv string `toml:"base_env" json:"base_env,omitempty"`
		KeyEnv  string `toml:"key_env" json:"key_env,omitempty"`
	} `toml:"model" json:"model"`
	// StuckAfter is how long the program may be silent without a reason; empty for ever.
	StuckAfter string `toml:"stuck_after" json:"stuck_after,omitempty"`
	// Verified is the version that was tried, with the way it was; empty where it never was.
	Verified string `toml:"verified" json:"verified,omitempty"`

	// Preset is true for one that this program brings along. Digest is the SHA-256 (hex) of the file.
	Preset bool   `toml:"-" json:"preset"`
	Digest string `toml:"-" json:"digest"`
}

// Kinds of entries.
const (
	KindACP = "acp"
	KindCLI = "cli"
)

// later are keys that other programs have in such files, and that nothing here does anything with.
var later = []string{"acp.command", "acp.mode", "capabilities.token_usage", "capabilities.tools_visible", "config",
	"cost", "headless.output_flag", "headless.prompt_flag", "headless.stream", "headless.subcommand", "hooks", "instructions_file",
	"interrupt", "prompt", "ready.delay", "ready.method", "session.fork", "session.resume_style", "wrapper"}

var (
	nameRule    = pattern.New(`^[a-z0-9][a-z0-9-]{0,31}$`)
	commandRule = pattern.New(`^[A-Za-z0-9_.@/+-]{1,256}$`)
	envRule     = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	// transcriptRule has no blank and no character that a shell reads, but for *.
	transcriptRule = pattern.New(`^[A-Za-z0-9._][A-Za-z0-9._*{}/-]{0,255}$`)
)

// Error is one thing that is wrong with a file.
type Error struct {
	File string `json:"file"`
	// Line counts from 1; 0 where the error is about the whole file.
	Line    int    `json:"line,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Hint says what to do next.
	Hint string `json:"hint,omitempty"`
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File + ":")
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:", e.Line)
	}
	b.WriteString(" ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Parse reads one entry. file is its name, which must be that of the runtime. The error joins one *Error for each thing
// that is wrong.
func Parse(file string, data []byte) (Entry, error) {
	p := &parsing{file: file, data: data}
	if len(data) > MaxFile {
		return Entry{}, &Error{File: file, Message: fmt.Sprintf("the file has %d bytes, the limit is %d", len(data), MaxFile)}
	}
	var e Entry
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		p.decoded(err)
		if len(p.errs) > 0 {
			return Entry{}, errors.Join(p.errs...)
		}
	}
	p.check(&e)
	if len(p.errs) > 0 {
		return Entry{}, errors.Join(p.errs...)
	}
	e.Digest = events.HashOf(data)
	return e, nil
}

type parsing struct {
	file string
	data []byte
	errs []error
}

// fail is about a key, by its path.
func (p *parsing) fail(key, message, hint string) {
	p.errs = append(p.errs, &Error{File: p.file, Line: p.lineOf(key), Path: key, Message: message, Hint: hint})
}

// lineOf finds the line of a key, of which the last part stands alone, in a table or before a dot; 0 where it does not.
func (p *parsing) lineOf(key string) int {
	first, _, _ := strings.Cut(key, ".")
	for _, at := range []string{key[strings.LastIndexByte(key, '.')+1:], first} {
		for i, line := range strings.Split(string(p.data), "\n") {
			head, _, _ := strings.Cut(line, "#")
			words := strings.FieldsFunc(head, func(r rune) bool { return strings.ContainsRune(" \t=,{}[]\".", r) })
			if slices.Contains(words, at) {
				return i + 1
			}
		}
	}
	return 0
}

// decoded takes an error of the decoder apart: keys that are not known, or one value of another type.
func (p *parsing) decoded(err error) {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		for _, one := range strict.Errors {
			key := strings.Join(one.Key(), ".")
			known := func(k string) bool { // one of an inline table comes without the name of the table
				return k == key || strings.HasPrefix(key, k+".") || strings.HasSuffix(k, "."+key)
			}
			if slices.ContainsFunc(later, known) || strings.HasPrefix(key, "x-") {
				continue
			}
			line, _ := one.Position()
			p.errs = append(p.errs, &Error{File: p.file, Line: line, Path: key, Message: "the key is not known",
				Hint: didyoumean.Hint(key, keys(), "docs/runtimes.md lists the keys")})
		}
		return
	}
	e := &Error{File: p.file, Message: "the file is not as it should be: " + err.Error(),
		Hint: "docs/runtimes.md lists the keys with their types"}
	if one, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.Line, _ = one.Position()
		e.Path = strings.Join(one.Key(), ".")
	}
	p.errs = append(p.errs, e)
}

// keys are all that are known.
func keys() []string {
	out := slices.Clone(later)
	var walk func(t reflect.Type, before string)
	walk = func(t reflect.Type, before string) {
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("toml")
			if f.Anonymous {
				walk(f.Type, before)
			}
			if f.Anonymous || name == "-" {
				continue
			}
			out = append(out, before+name)
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, before+name+".")
			}
		}
	}
	walk(reflect.TypeFor[Entry](), "")
	slices.Sort(out)
	return out
}

func (p *parsing) check(e *Entry) {
	if want := strings.TrimSuffix(path.Base(p.file), Ext); !nameRule.MatchString(e.Name) || e.Name != want {
		p.fail("name", fmt.Sprintf("%.64q is not the name of the file, of 1 to 32 characters of a-z 0-9 and -", e.Name),
			"rename the file or the runtime")
	}
	switch {
	case e.Driver != "" && (e.Driver != events.DriverPTY || e.Kind != KindCLI || e.Headless.Parser != ""):
		p.fail("driver", fmt.Sprintf("%.64q is no driver of this kind of program", e.Driver), `write "pty", with kind = "cli" and without headless.parser, or leave it out`)
	case e.Kind == KindACP, e.Driver == events.DriverPTY:
	case e.Kind == KindCLI && slices.Contains([]string{events.DriverClaude, events.DriverCodex}, e.Headless.Parser):
	case e.Kind == KindCLI:
		p.fail("headless.parser", fmt.Sprintf("%.64q is no known form of output", e.Headless.Parser), `write "claude" or "codex"; a program that speaks ACP has kind = "acp"`)
	default:
		p.fail("kind", fmt.Sprintf("%.64q is no kind that can be driven", e.Kind), `write "acp" or "cli"`)
	}
	if !commandRule.MatchString(e.Command) {
		p.fail("command", fmt.Sprintf("%.64q is no program", e.Command),
			"write the name or the path of one program; its arguments are args")
	}
	unfit := func(w string) bool { return len(w) > maxWord || strings.ContainsRune(w, 0) }
	for key, words := range map[string][]string{"args": e.Args, "autonomous_args": e.Autonomous,
		"acp.args": e.ACP.Args, "version_args": e.VersionArgs} {
		if len(words) > maxWords || slices.ContainsFunc(words, unfit) {
			p.fail(key, fmt.Sprintf("more than %d words, or one of more than %d bytes", maxWords, maxWord), "")
		}
	}
	p.environment(e)
	p.transcripts(e)
	p.model(e)
	p.terminal(e)
	if d, err := time.ParseDuration(e.StuckAfter); e.StuckAfter != "" &&
		(err != nil || d < leastSilence || d > mostSilence) {
		p.fail("stuck_after", fmt.Sprintf("%.64q is no time between %s and %s", e.StuckAfter, leastSilence, mostSilence), `write it as "20m"`)
	}
	switch g := e.Capabilities.Gate; {
	case g == events.RuntimeAsksNot:
	case g == "native" && (e.Kind == KindACP || e.Headless.Parser == events.DriverClaude):
	case g == "":
		p.fail("capabilities.gate_tools", "it is not said whether the program asks before it acts", `write "native" or "none"`)
	default:
		p.fail("capabilities.gate_tools", fmt.Sprintf("the program cannot be asked in the way %.64q", g),
			`"native" needs kind acp, or headless.parser claude; all others are "none"`)
	}
}

// environment checks variables: what must not be seen is named and not written.
func (p *parsing) environment(e *Entry) {
	if len(e.Env)+len(e.EnvPass) > maxWords {
		p.fail("env", fmt.Sprintf("more than %d variables", maxWords), "")
	}
	for name, value := range e.Env {
		switch key := "env." + name; {
		case !envRule.MatchString(name):
			p.fail(key, "the key is not the name of a variable", "A-Z a-z 0-9 and _")
		case strings.HasPrefix(value, "secret:") && !secret.IsRef(value):
			p.fail(key, "the value does not name a secret", "write secret:NAME")
		case secret.Named(name) && !secret.IsRef(value):
			p.fail(key, "a secret must not be in the file",
				"write secret:NAME, and put the value into the file NAME of the folder that INSPAN_MCP_SECRETS names for the toolrunner")
		}
	}
	for _, name := range e.EnvPass {
		if !envRule.MatchString(name) {
			p.fail("env_pass", fmt.Sprintf("%.64q is not the name of a variable", name), "A-Z a-z 0-9 and _")
		}
	}
}

// transcripts checks the patterns of files: they stay below HOME, and are those of one session.
func (p *parsing) transcripts(e *Entry) {
	const key = "session.transcripts"
	all := e.Session.Transcripts
	if len(all) > 0 && !e.Session.Resume {
		p.fail(key, "a session that is not gone on with needs none", "set session.resume = true, or leave it out")
	}
	if len(all) > maxTranscripts {
		p.fail(key, fmt.Sprintf("more than %d patterns", maxTranscripts), "")
	}
	for _, name := range all {
		if !transcriptRule.MatchString(name) || !filepath.IsLocal(name) || path.Clean(name) != name {
			p.fail(key, fmt.Sprintf("%.128q is no path below HOME", name),
				"write it as .program/sessions/*/"+events.TranscriptSession+".jsonl")
		} else if !strings.Contains(name, events.TranscriptSession) {
			p.fail(key, fmt.Sprintf("%.128q is not the file of one session", name),
				"write "+events.TranscriptSession+" in the place of the name of the session")
		}
	}
}

// model checks how the program asks its model.
func (p *parsing) model(e *Entry) {
	m := e.Model
	if m.API == "" && m.URL == "" && m.BaseEnv == "" && m.KeyEnv == "" {
		return
	}
	if !slices.Contains([]string{events.FormAnthropic, events.FormOpenAI, events.FormGemini}, m.API) {
		p.fail("model.api", fmt.Sprintf("%.64q is no known form of requests", m.API), `write "anthropic", "openai" or "gemini"`)
	}
	if u, err := url.Parse(m.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		u.User != nil {
		p.fail("model.url", "it is no URL of http or https", "write the address of the provider, without a key")
	}
	if !envRule.MatchString(m.BaseEnv) || !envRule.MatchString(m.KeyEnv) || m.BaseEnv == m.KeyEnv {
		p.fail("model.base_env", "base_env and key_env are not the names of two variables",
			"write the variables in which the program reads the address and the key, such as OPENAI_BASE_URL and OPENAI_API_KEY")
	}
	for _, name := range []string{m.BaseEnv, m.KeyEnv} {
		if _, set := e.Env[name]; set || slices.Contains(e.EnvPass, name) {
			p.fail("model", fmt.Sprintf("%.64q is set in env or env_pass, too", name),
				"leave it out there: the program has a token in the place of the key")
		}
	}
}

// Runtime is what a run pins of an entry.
func (e Entry) Runtime() events.Runtime {
	r := events.Runtime{Name: e.Name, Digest: e.Digest, Driver: events.DriverACP,
		Command:    append([]string{e.Command}, e.Args...),
		Autonomous: e.Autonomous, Env: e.Env, Pass: e.EnvPass, Gate: e.Capabilities.Gate, Resumes: e.Session.Resume,
		Transcripts: e.Session.Transcripts}
	if e.Driver == events.DriverPTY {
		r.Driver, r.Terminal = e.Driver, e.terminal()
	} else if e.Kind == KindACP {
		r.Command = append(r.Command, e.ACP.Args...)
	} else {
		r.Driver = e.Headless.Parser
	}
	if d, err := time.ParseDuration(e.StuckAfter); err == nil {
		r.StuckMS = d.Milliseconds()
	}
	if m := e.Model; m.API != "" {
		r.Model = &events.RuntimeModel{API: m.API, URL: m.URL, BaseEnv: m.BaseEnv, KeyEnv: m.KeyEnv}
	}
	return r
}

// Load reads the entries of a folder of agents and the presets, by name. An entry of the folder takes the place of the
// preset of its name. The error joins what is wrong in all files; the entries that are sound are returned also then.
func Load(agents fs.FS) (map[string]Entry, error) {
	all := Presets()
	if agents == nil {
		return all, nil
	}
	names, err := fs.Glob(agents, Folder+"/*"+Ext)
	if err != nil {
		return all, err
	}
	if len(names) > MaxEntries {
		return all, &Error{File: Folder, Message: fmt.Sprintf("more than %d runtimes", MaxEntries)}
	}
	var errs []error
	for _, name := range names {
		info, err := fs.Stat(agents, name)
		if err == nil && (!info.Mode().IsRegular() || info.Size() > MaxFile) {
			err = &Error{File: name, Message: fmt.Sprintf("not a regular file of at most %d bytes", MaxFile)}
		}
		var data []byte
		if err == nil {
			data, err = fs.ReadFile(agents, name)
		}
		var e Entry
		if err == nil {
			e, err = Parse(name, data)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all[e.Name] = e
	}
	return all, errors.Join(errs...)
}
