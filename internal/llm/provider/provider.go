// Package provider finds the model that a reference such as "anthropic/claude-sonnet-5-5" names, or the models
// of a list of references such as "anthropic/claude-sonnet-5-5,openai/gpt-6.1-terra", where the later ones stand in for
// those before them.
//
// Promises: each provider stands behind a breaker (package breaker). Nothing is asked of a network here, and a missing
// key is an error only when a reference needs it. A script's name is one word; nothing outside of the scripts' folder
// can be opened through it, not through links either. Every error is an *llm.Error with a hint and without a key.
package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/anthropic"
	"github.com/inspan/inspan/internal/llm/breaker"
	"github.com/inspan/inspan/internal/llm/external"
	"github.com/inspan/inspan/internal/llm/gemini"
	"github.com/inspan/inspan/internal/llm/openai"
	"github.com/inspan/inspan/internal/llm/scripted"
	"github.com/inspan/inspan/internal/llm/wire"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/secret"
)

// Config of the providers. The zero Config has none that can answer.
type Config struct {
	AnthropicKey     secret.Value
	AnthropicBaseURL string
	// OpenAIKey may stay empty where OpenAIBaseURL names a local server.
	OpenAIKey     secret.Value
	OpenAIBaseURL string
	// OpenAIAPI is "chat" or "responses"; empty lets the address decide.
	OpenAIAPI     string
	GeminiKey     secret.Value
	GeminiBaseURL string
	// ScriptsDir holds the scripts of the scripted model as NAME.yaml. Empty means there are none.
	ScriptsDir string
	// HTTPClient; nil uses the default transport.
	HTTPClient *http.Client
	// Idle is how long a provider may send nothing, see wire.Watched; 0 is no limit.
	Idle time.Duration
}

// Set resolves references. It is safe for concurrent use.
type Set struct {
	cfg   Config
	makes map[string]func(name string) (llm.Model, error)

	mu      sync.Mutex
	made    map[string]llm.Model
	scripts map[string]script
	lists   map[string]*list
}

// maxLists bounds the lists whose state is kept.
const maxLists = 256

// script is one that was read, and the state of its file then.
type script struct {
	model   *scripted.Model
	changed time.Time
	size    int64
}

// is reports whether a file has not changed since the script was read from it.
func (s script) is(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && s.changed.Equal(info.ModTime()) && s.size == info.Size()
}

// New makes a set. It does no I/O.
func New(cfg Config) *Set {
	cfg.HTTPClient = wire.Watched(cfg.HTTPClient, cfg.Idle)
	s := &Set{cfg: cfg, made: map[string]llm.Model{}, scripts: map[string]script{}, lists: map[string]*list{}}
	s.makes = map[string]func(string) (llm.Model, error){
		anthropic.Provider: s.anthropic,
		openai.Provider:    s.openai,
		gemini.Provider:    s.gemini,
		scripted.Provider:  s.script,
		external.Provider:  func(string) (llm.Model, error) { return external.Model{}, nil },
	}
	return s
}

// Names of the providers, in order.
func (s *Set) Names() []string {
	return []string{anthropic.Provider, openai.Provider, gemini.Provider, scripted.Provider, external.Provider}
}

var modelName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)

// Model gives the adapter for ref, which is "provider/name", and the provider's own name of the model for
// llm.Request.Model. The name may have slashes itself. Of several references, separated by commas, the first is asked,
// and each later one where those before it failed twice, rest, refuse the key or do not exist.
func (s *Set) Model(ref string) (llm.Model, string, error) {
	if strings.Contains(ref, ",") {
		return s.list(ref)
	}
	provider, name, found := strings.Cut(ref, "/")
	if !found {
		return nil, "", s.invalid(fmt.Errorf("model %q is not written as provider/name", shorten(ref)))
	}
	makeModel := s.makes[provider]
	if makeModel == nil {
		return nil, "", s.invalid(fmt.Errorf("unknown provider %q", shorten(provider)))
	}
	if !modelName.MatchString(name) {
		return nil, "", s.invalid(fmt.Errorf("%q is not a model name", shorten(name)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.made[provider]; m != nil {
		return m, name, nil
	}
	m, err := makeModel(name)
	if err != nil {
		return nil, "", err
	}
	if provider != scripted.Provider && provider != external.Provider {
		m = breaker.New(provider, m)
		s.made[provider] = m
	}
	return m, name, nil
}

func (s *Set) invalid(err error) error {
	return &llm.Error{Class: llm.Invalid, Err: err,
		Hint: "write it as provider/name, with one of these providers: " + strings.Join(s.Names(), ", ")}
}

// shorten keeps a stranger's text from filling an error.
func shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}

func (s *Set) anthropic(string) (llm.Model, error) {
	m, err := anthropic.New(anthropic.Config{APIKey: s.cfg.AnthropicKey.Reveal(), BaseURL: s.cfg.AnthropicBaseURL,
		HTTPClient: s.cfg.HTTPClient})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (s *Set) openai(string) (llm.Model, error) {
	m, err := openai.New(openai.Config{APIKey: s.cfg.OpenAIKey.Reveal(), BaseURL: s.cfg.OpenAIBaseURL,
		API: openai.API(s.cfg.OpenAIAPI), HTTPClient: s.cfg.HTTPClient})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (s *Set) gemini(string) (llm.Model, error) {
	m, err := gemini.New(gemini.Config{APIKey: s.cfg.GeminiKey.Reveal(), BaseURL: s.cfg.GeminiBaseURL,
		HTTPClient: s.cfg.HTTPClient})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// scriptName has no dot and no slash, so that it is one file of the folder.
var scriptName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// script reads the script called name, or gives the one read before where the file did not change. The caller holds mu.
func (s *Set) script(name string) (llm.Model, error) {
	if !scriptName.MatchString(name) {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("%q is not a script name", shorten(name)),
			Hint: "a name has letters, digits, - and _ only, and its file is NAME.yaml in the folder of scripts"}
	}
	if s.cfg.ScriptsDir == "" {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("script %s: no folder of scripts is configured", name),
			Hint: "configure the folder that holds the scripts"}
	}
	known, read := s.scripts[name]
	if read { // most of the time it is enough to look at the file
		if info, err := os.Lstat(filepath.Join(s.cfg.ScriptsDir, name+".yaml")); err == nil && known.is(info) {
			return known.model, nil
		}
	}
	f, err := os.OpenInRoot(s.cfg.ScriptsDir, name+".yaml")
	if err != nil {
		return nil, s.unread(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, s.unread(name, err)
	}
	if read && known.is(info) {
		return known.model, nil
	}
	if !info.Mode().IsRegular() {
		return nil, s.unread(name, errors.New("not a regular file"))
	}
	m, err := scripted.Read(name, f)
	if err != nil {
		return nil, s.unread(name, err)
	}
	s.scripts[name] = script{model: m, changed: info.ModTime(), size: info.Size()}
	return m, nil
}

func (s *Set) unread(name string, err error) error {
	hint := "fix the script"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "put " + name + ".yaml into the folder of scripts, " + s.cfg.ScriptsDir
	}
	return &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("script %s: %w", name, err), Hint: hint}
}
