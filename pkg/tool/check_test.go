package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

type fake struct{ spec tool.Spec }

func (f fake) Spec() tool.Spec { return f.spec }
func (f fake) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Output: f.spec.Name}, nil
}

const schema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string"},"limit":{"type":"integer","minimum":1},"tags":{"type":"array","items":{"type":"string"}},"any":{}}}`

func named(name string) fake {
	return fake{tool.Spec{Name: name, Input: json.RawMessage(schema)}}
}

func TestNewRegistry(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-19 tools are found by name, in order", func(t *testing.T) {
		t.Parallel()
		r, err := tool.NewRegistry(named("zeta"), named("alpha"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Names(), " "); got != "alpha zeta" {
			t.Errorf("names = %q", got)
		}
		if _, ok := r.Get("zeta"); !ok {
			t.Error("zeta is not found")
		}
		if _, ok := r.Get("beta"); ok {
			t.Error("beta is found")
		}
		r.Names()[0] = "changed"
		if r.Names()[0] != "alpha" {
			t.Error("the caller changed the registry")
		}
	})
	t.Run("TOOL-12 a second tool of a name is refused", func(t *testing.T) {
		t.Parallel()
		if _, err := tool.NewRegistry(named("read"), named("read")); err == nil || !strings.Contains(err.Error(), `"read"`) {
			t.Errorf("err = %v", err)
		}
	})
	for _, name := range []string{"", "Read", "re ad", "a.b", "a>", "*", "é", "a\n", strings.Repeat("a", 65)} {
		t.Run(fmt.Sprintf("SAFE-12 the name %q is refused", name), func(t *testing.T) {
			t.Parallel()
			if _, err := tool.NewRegistry(named(name)); err == nil {
				t.Error("accepted")
			}
		})
	}
	t.Run("a name of 64 characters is taken", func(t *testing.T) {
		t.Parallel()
		if _, err := tool.NewRegistry(named(strings.Repeat("a", 64))); err != nil {
			t.Error(err)
		}
	})
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{
		"nothing": ``, "no JSON": `{`, "an array": `[]`, "a type that is none": `{"type":"object","properties":{"a":{"type":"text"}}}`,
		"another type": `{"type":"string"}`, "a bad pattern": `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"a file outside": `{"type":"object","properties":{"a":{"$ref":"file://` + secret + `"}}}`,
		"an address":     `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}`,
	} {
		t.Run("TOOL-19 a schema that is "+what+" is refused with the tool's name", func(t *testing.T) {
			t.Parallel()
			_, err := tool.NewRegistry(fake{tool.Spec{Name: "mine", Input: json.RawMessage(bad)}})
			if err == nil || !strings.Contains(err.Error(), `"mine"`) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(named("mine"))
	if err != nil {
		t.Fatal(err)
	}
	nested := func(levels int) string { // levels counts the object around them
		return `{"path":"a","any":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	sized := func(n int) string { return `{"path":"` + strings.Repeat("x", n-len(`{"path":""}`)) + `"}` }
	for _, c := range []struct{ name, input, want string }{
		{"what fits", `{"path":"a","limit":1,"tags":["x"]}`, ""},
		{"an argument that is not known", `{"path":"a","pth":1}`, "pth"},
		{"an argument in other letters", `{"Path":"a"}`, "path"},
		{"a wrong type", `{"path":1}`, "/path: got number, want string"},
		{"a wrong type further in", `{"path":"a","tags":["x",2]}`, "/tags/1: got number, want string"},
		{"a missing argument", `{}`, "missing property 'path'"},
		{"a number too small", `{"path":"a","limit":0}`, "/limit"},
		{"no object", `[]`, "got array, want object"},
		{"null", `null`, "got null, want object"},
		{"nothing", ``, "not JSON"},
		{"half an object", `{"path":`, "not JSON"},
		{"two objects", `{"path":"a"}{}`, "not JSON"},
		{"depth at the limit", nested(tool.MaxInputDepth), ""},
		{"depth above the limit", nested(tool.MaxInputDepth + 1), "33 levels deep, the limit is 32"},
		{"brackets in text", `{"path":"` + strings.Repeat(`[{\"`, 50) + `"}`, ""},
		{"a wall of open brackets", strings.Repeat("[", tool.MaxInput), "levels deep"},
		{"size at the limit", sized(tool.MaxInput), ""},
		{"size above the limit", sized(tool.MaxInput + 1), "1048577 bytes, the limit is 1048576"},
		{"exponent at the limit", `{"path":"a","limit":1e308}`, ""},
		{"exponent above the limit", `{"path":"a","limit":1e309}`, "/limit"},
		{"an exponent beyond arithmetic", `{"path":"a","limit":1e99999999}`, "/limit"},
		{"a negative one", `{"path":"a","any":[1E-99999999]}`, "/any/0"},
		{"one beyond integers", `{"path":"a","any":1e99999999999999999999}`, "/any"},
		{"a very long number", `{"path":"a","limit":` + strings.Repeat("9", tool.MaxNumber+1) + `}`, "/limit"},
		{"NUL and bidi in text", `{"path":"a\u0000\u202e"}`, ""},
	} {
		t.Run("SAFE-12 "+c.name, func(t *testing.T) {
			t.Parallel()
			err := r.Check("mine", json.RawMessage(c.input))
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("err = %v, want it to say %q", err, c.want)
			}
			var e *tool.Error
			if !errors.As(err, &e) || e.Class != tool.Invalid || e.Hint == "" {
				t.Errorf("err = %#v, want class invalid with a hint", err)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 {
				t.Errorf("not one short line: %d bytes", len(err.Error()))
			}
		})
	}
	t.Run("TOOL-19 an unknown tool is told which there are", func(t *testing.T) {
		t.Parallel()
		err := r.Check("other", json.RawMessage(`{}`))
		if tool.ClassOf(err) != tool.Invalid || !strings.Contains(err.Error(), "mine") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("many mistakes are told in part", func(t *testing.T) {
		t.Parallel()
		err := r.Check("mine", json.RawMessage(`{"path":"a","tags":[`+strings.Repeat("1,", 5000)+`1]}`))
		if err == nil || !strings.Contains(err.Error(), "/tags/0") || len(err.Error()) > 1000 {
			t.Errorf("err = %.300v", err)
		}
	})
}

// FuzzCheck proves that no bytes crash the check.
func FuzzCheck(f *testing.F) {
	r, err := tool.NewRegistry(named("mine"))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{`{"path":"a"}`, `{"limit":1e999}`, `[[[`, `{"path":"\ud800"}`, `"\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if err := r.Check("mine", input); err != nil {
			if tool.ClassOf(err) != tool.Invalid {
				t.Errorf("class of %v", err)
			}
			return
		}
		if !json.Valid(input) {
			t.Errorf("%q was accepted", input)
		}
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-6 the strictest is the default", func(t *testing.T) {
		t.Parallel()
		var s tool.Spec
		if s.EffectOf() != tool.Once || s.TimeoutOf() != tool.DefaultTimeout {
			t.Errorf("effect %q timeout %s", s.EffectOf(), s.TimeoutOf())
		}
	})
	t.Run("TOOL-5 an error without a class is permanent", func(t *testing.T) {
		t.Parallel()
		for want, err := range map[tool.Class]error{tool.Permanent: errors.New("x"), tool.Timeout: fmt.Errorf("y: %w", context.DeadlineExceeded),
			tool.Transient: fmt.Errorf("z: %w", tool.Fail(tool.Transient, "", errors.New("w")))} {
			if got := tool.ClassOf(err); got != want {
				t.Errorf("ClassOf(%v) = %s, want %s", err, got, want)
			}
		}
	})
}
