package tools_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func TestArtifactSave(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-15 what was asked for is kept, and the model is told", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("out/r.bin", "12345")
		var asked tool.Saving
		b.env.Save = func(_ context.Context, s tool.Saving) (tool.Saved, error) {
			asked = s
			return tool.Saved{Name: s.Name, Type: s.Type, Size: 5}, nil
		}
		r := b.run("artifact_save", args{"path": "out/r.bin", "type": "data", "name": "the\u202e numbers"})
		if r.Failed || asked != (tool.Saving{Path: "out/r.bin", Type: "data", Name: "the\u202e numbers"}) || !strings.Contains(r.Output, "(data, 5 bytes)") || strings.Contains(r.Output, "\u202e") {
			t.Errorf("%+v, asked for %+v", r, asked)
		}
	})
	t.Run("TOOL-15 a file that is not there or is refused is a result, a store that is away is an error to try again", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a.txt", "x")
		b.env.Save = func(context.Context, tool.Saving) (tool.Saved, error) {
			return tool.Saved{}, tool.Fail(tool.Invalid, "", errors.New("it is too large"))
		}
		if r := b.run("artifact_save", args{"path": "nothing.txt"}); !r.Failed || !strings.Contains(r.Output, "no such file") {
			t.Errorf("%+v", r)
		}
		if r := b.run("artifact_save", args{"path": "a.txt"}); !r.Failed || !strings.Contains(r.Output, "it is too large") {
			t.Errorf("%+v", r)
		}
		b.env.Save = func(context.Context, tool.Saving) (tool.Saved, error) {
			return tool.Saved{}, tool.Fail(tool.Transient, "", errors.New("away"))
		}
		if _, err := b.try(t.Context(), "artifact_save", args{"path": "a.txt"}); tool.ClassOf(err) != tool.Transient {
			t.Errorf("%v", err)
		}
		b.env.Save = nil
		if _, err := b.try(t.Context(), "artifact_save", args{"path": "a.txt"}); tool.ClassOf(err) != tool.Permanent {
			t.Errorf("%v", err)
		}
	})
}
