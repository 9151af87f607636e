package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/pattern"
)

// blank finds {{word}} and {{word.word}}; other text in double braces is left as it is.
var blank = pattern.New(`\{\{\s*([A-Za-z_]\w*(?:\.\w+)?)\s*\}\}`)

const blankHint = "use {{task}}, {{turn}}, {{step}} or {{result.N}} with N from 1, the newest result"

func checkPlaceholders(text string) error {
	for _, m := range blank.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "task", "turn", "step":
			continue
		}
		if _, err := resultNumber(m[1]); err != nil {
			return err
		}
	}
	return nil
}

func resultNumber(word string) (int, error) {
	digits, ok := strings.CutPrefix(word, "result.")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 {
		return 0, fmt.Errorf("unknown placeholder {{%s}}; %s", word, blankHint)
	}
	return n, nil
}

// fill replaces the placeholders of text once; what is put in is not looked at again.
func fill(text string, req llm.Request) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	var failed error
	out := blank.ReplaceAllStringFunc(text, func(found string) string {
		value, err := lookUp(blank.FindStringSubmatch(found)[1], req)
		if err != nil && failed == nil {
			failed = err
		}
		return value
	})
	return out, failed
}

func lookUp(word string, req llm.Request) (string, error) {
	switch word {
	case "task":
		if len(req.Messages) == 0 {
			return "", nil
		}
		return req.Messages[0].Text, nil
	case "turn":
		return strconv.Itoa(req.Meta.Turn), nil
	case "step":
		return req.Meta.Step, nil
	}
	n, err := resultNumber(word)
	if err != nil {
		return "", err
	}
	have := 0
	for i := len(req.Messages) - 1; i >= 0; i-- {
		results := req.Messages[i].Results
		if n <= have+len(results) {
			return results[len(results)-(n-have)].Output, nil
		}
		have += len(results)
	}
	return "", fmt.Errorf("{{%s}} needs result %d from the end, the conversation has %d", word, n, have)
}

// prepare checks the input and keeps its JSON where nothing is to be filled in.
func (c *call) prepare() error {
	if c.Input == nil {
		c.Input = map[string]any{}
	}
	b, err := marshal(c.Input)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), "{{") {
		c.fixed = b
		return nil
	}
	_, err = walk(c.Input, func(s string) (string, error) { return s, checkPlaceholders(s) })
	return err
}

func (c *call) input(req llm.Request) (json.RawMessage, error) {
	if c.fixed != nil {
		return bytes.Clone(c.fixed), nil
	}
	v, err := walk(c.Input, func(s string) (string, error) { return fill(s, req) })
	if err != nil {
		return nil, err
	}
	return marshal(v)
}

// walk copies v with every string in it, but no key, changed by f.
func walk(v any, f func(string) (string, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = walk(v[i], f); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			if out[k], err = walk(v[k], f); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// marshal is JSON without the escapes that are only for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
