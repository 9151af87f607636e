package agentfile_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

// hostileText draws texts that are likely to hold what a template is made of.
func hostileText() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"{{", "}}", "{{userInput}}", "{{x}}", `{{role "system"}}`, `{{role "user"}}`, "{{!--", "--}}", "~", "\\", "\n", " ", "{", "}"}),
		rapid.String(),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
	})
}

// TestRenderIsPure renders twice with equal arguments and compares all that it was given before and after.
func TestRenderIsPure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := events.Agent{Name: "demo", Prompt: hostileText().Draw(t, "body"), Tools: []string{"read"}}
		in := agentfile.RenderInput{Task: hostileText().Draw(t, "task"), Variables: map[string]string{"x": hostileText().Draw(t, "x")}}
		before := maps.Clone(in.Variables)
		r1, err1 := agentfile.Render(a, in)
		r2, err2 := agentfile.Render(a, in)
		if r1 != r2 || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("equal inputs, different answers: %q %v, %q %v", r1, err1, r2, err2)
		}
		if !reflect.DeepEqual(before, in.Variables) {
			t.Fatal("the variables were changed")
		}
		if err1 == nil && strings.TrimSpace(r1.User) == "" && strings.TrimSpace(in.Task) != "" {
			t.Fatal("the user's message is blank")
		}
	})
}

// TestValuesNeverBecomeTemplate compares the rendering of hostile values with that of plain ones in the same places:
// putting the hostile text where the plain one stands gives the same bytes.
func TestValuesNeverBecomeTemplate(t *testing.T) {
	t.Parallel()
	const mark, other = "\u2460task\u2460", "\u2461x\u2461"
	bodies := []string{"{{userInput}}", "S{{role \"user\"}}U {{userInput}} {{x}}", "{{x}}{{x}}{{role \"user\"}}{{~userInput~}}", "{{! c }}{{x}}", "{{role \"user\"}}only {{input.x}}"}
	rapid.Check(t, func(t *rapid.T) {
		a := events.Agent{Name: "demo", Prompt: rapid.SampledFrom(bodies).Draw(t, "body")}
		task, x := "."+hostileText().Draw(t, "task"), "."+hostileText().Draw(t, "x")
		plain, err := agentfile.Render(a, agentfile.RenderInput{Task: mark, Variables: map[string]string{"x": other}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := agentfile.Render(a, agentfile.RenderInput{Task: task, Variables: map[string]string{"x": x}})
		if err != nil {
			t.Fatal(err)
		}
		put := strings.NewReplacer(mark, task, other, x)
		if got.System != put.Replace(plain.System) || got.User != put.Replace(plain.User) {
			t.Fatalf("got %q, want %q and %q", got, put.Replace(plain.System), put.Replace(plain.User))
		}
	})
}

// TestParseKeepsWhatWasWritten writes files from drawn settings and reads them back.
func TestParseKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.IntRange(1, 10_000).Draw(t, "steps")
		calls := rapid.IntRange(1, 100_000).Draw(t, "calls")
		autonomy := rapid.IntRange(1, 5).Draw(t, "autonomy")
		ms := rapid.Int64Range(1, 86_400_000).Draw(t, "ms")
		tools := rapid.SliceOfNDistinct(rapid.StringMatching(`t[a-z0-9_]{0,20}`), 0, 12, rapid.ID[string]).Draw(t, "tools")
		where := rapid.SampledFrom([]string{"harness", "harness_config"}).Draw(t, "where")
		body := "b" + strings.NewReplacer("{", "", "\x00", "").Replace(hostileText().Draw(t, "body"))
		src := fmt.Sprintf("---\nmodel: a/b\n%s: {max_steps: %d, autonomy: %d, timeout: %dms, budget: {tool_calls: %d}}\ntools: [%s]\n---\n%s",
			where, steps, autonomy, ms, calls, strings.Join(quoted(tools), ", "), body)
		a, _, err := agentfile.Parse("demo", []byte(src))
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		if a.MaxSteps != steps || a.Autonomy != autonomy || a.TimeoutMS != ms || a.MaxToolCalls != calls || a.Prompt != body ||
			strings.Join(a.Tools, " ") != strings.Join(tools, " ") {
			t.Fatalf("got %+v from\n%s", a, src)
		}
	})
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = `"` + w + `"`
	}
	return out
}
