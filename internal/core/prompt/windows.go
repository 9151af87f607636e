package prompt

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// windows are the context windows, in tokens, of the models that are sure. The first pattern that fits counts.
var windows = []Window{
	{"scripted/*", 0}, // a script reads everything
	{"anthropic/claude-*", 200_000},
	{"openai/gpt-4.1*", 1_047_576},
	{"openai/gpt-4o*", 128_000},
	{"openai/gpt-4-turbo*", 128_000},
	{"openai/o1", 200_000},
	{"openai/o3*", 200_000},
	{"openai/o4-mini*", 200_000},
	{"openai/gpt-5*", 272_000}, // 400,000 with the answer
	{"openai/gpt-6*", 922_000}, // 1,050,000 with the answer
	{"gemini/gemini-2*", 1_048_576},
	{"gemini/gemini-3*", 1_000_000},
}

// Window is the context window of the models that a pattern stands for.
type Window struct {
	// Model is "provider/name"; * stands for any characters of a name but "/".
	Model string
	// Tokens of the prompt; 0 says that there is no limit.
	Tokens int
}

// Windows are those that an operator configured, before those that are known.
type Windows []Window

// Of returns the context window of a model in tokens, 0 where it has none: the first configured pattern that fits, else
// the model's known one, else UnknownWindow.
func (w Windows) Of(model string) int {
	for _, list := range [][]Window{w, windows} {
		for _, one := range list {
			if ok, err := path.Match(one.Model, model); err == nil && ok {
				return one.Tokens
			}
		}
	}
	return UnknownWindow
}

// maxWindow bounds what can be configured.
const maxWindow = 100_000_000

// ParseWindows reads a list such as "openai/local-*=8192,anthropic/claude-x=1000000".
func ParseWindows(list []string) (Windows, error) {
	var out Windows
	for _, item := range list {
		model, tokens, ok := strings.Cut(strings.TrimSpace(item), "=")
		n, err := strconv.Atoi(tokens)
		if _, bad := path.Match(model, ""); !ok || err != nil || bad != nil || n < 0 || n > maxWindow ||
			!strings.Contains(model, "/") {
			return nil, fmt.Errorf("%q is not MODEL=TOKENS: write for example openai/my-model=8192, with * for any characters and 0 for no limit", item)
		}
		out = append(out, Window{Model: model, Tokens: n})
	}
	return out, nil
}
