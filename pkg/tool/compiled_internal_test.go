package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func schemaOf(title string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","title":%q,"required":["n"]}`, title))
}

func TestCompiledSchemas(t *testing.T) {
	t.Parallel()
	t.Run("a schema is compiled once, and another one of its own", func(t *testing.T) {
		t.Parallel()
		c := compiledSchemas{by: map[string]*checker{}}
		one, err := c.compile(schemaOf("one"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.compile(schemaOf("one"))
		if err != nil || again != one {
			t.Errorf("%p, %v, want %p", again, err, one)
		}
		if other, err := c.compile(schemaOf("two")); err != nil || other == one {
			t.Errorf("another schema is %p, %v", other, err)
		}
		if err := check(one, "the arguments", json.RawMessage(`{}`)); err == nil {
			t.Error("arguments without n fit")
		}
	})
	t.Run("a schema that does not compile is refused each time", func(t *testing.T) {
		t.Parallel()
		c := compiledSchemas{by: map[string]*checker{}}
		for range 2 {
			if s, err := c.compile(json.RawMessage(`{"type":"array"}`)); err == nil {
				t.Errorf("%v", s)
			}
		}
		if len(c.by) > 0 {
			t.Errorf("%d schemas are remembered", len(c.by))
		}
	})
	t.Run("no more schemas are remembered than the limit, and no long one", func(t *testing.T) {
		t.Parallel()
		c := compiledSchemas{by: map[string]*checker{}}
		if _, err := c.compile(schemaOf(strings.Repeat("x", mostSchema))); err != nil || len(c.by) > 0 {
			t.Errorf("%d schemas are remembered, %v", len(c.by), err)
		}
		for i := range mostCompiled + 1 {
			if _, err := c.compile(schemaOf(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if len(c.by) > mostCompiled {
				t.Fatalf("%d schemas are remembered, the limit is %d", len(c.by), mostCompiled)
			}
		}
		if len(c.by) != 1 {
			t.Errorf("%d schemas are remembered after one more than the limit, want 1", len(c.by))
		}
	})
}

// BenchmarkRegistry is the registry of a station with twenty tools.
func BenchmarkRegistry(b *testing.B) {
	var list []Tool
	for i := range 20 {
		list = append(list, described{Spec{Name: fmt.Sprintf("tool%d", i), Description: "d", Effect: Read, Input: schemaOf(fmt.Sprint("t", i))}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewRegistry(list...); err != nil {
			b.Fatal(err)
		}
	}
}

type described struct{ spec Spec }

func (d described) Spec() Spec { return d.spec }

func (d described) Run(context.Context, Call) (Result, error) { return Result{}, nil }
