package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

// gitDouble stands for the toolrunner's git work.
type gitDouble struct {
	answer      string
	done        bool
	err         error
	name, asked string // what it was asked for last
}

func (g *gitDouble) Do(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	g.name, g.asked = name, string(input)
	return json.RawMessage(g.answer), errors.Join(ctx.Err(), g.err)
}

func (g *gitDouble) Done(_ context.Context, name string, input json.RawMessage) (bool, json.RawMessage, error) {
	g.name, g.asked = "done "+name, string(input)
	return g.done, json.RawMessage(g.answer), g.err
}

func TestGitWork(t *testing.T) {
	t.Parallel()
	all := map[string]args{"git_prepare": {"url": "https://a.example/x"}, "git_branch": {"task": "t"}, "git_commit": {"message": "m"}, "git_merge": {"from": []string{"a"}},
		"git_push": {"branch": "a", "commit": strings.Repeat("a", 40)}, "git_publish": {"branch": "a"},
		"git_remove": {"branch": "a", "commit": strings.Repeat("a", 40), "into": "main"},
		"git_review": {"how": "github", "branch": "a", "commit": strings.Repeat("a", 40), "target": "main"}}
	t.Run("GIT-2 the toolrunner is asked by the tool's name, and its answer is the result", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		g := &gitDouble{answer: `{"commit":"c"}`}
		b.env.Git = g
		for name, a := range all {
			if got := b.good(name, a); got != g.answer || g.name != name || !strings.Contains(g.asked, `"`) {
				t.Errorf("%s: got %s, asked %s %s", name, got, g.name, g.asked)
			}
		}
		g.err = tool.Fail(tool.Transient, "", errors.New("away"))
		for name, a := range all {
			if _, err := b.try(t.Context(), name, a); tool.ClassOf(err) != tool.Transient {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("GIT-2 without git it says what to do", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for name, a := range all {
			if _, err := b.try(t.Context(), name, a); tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "install git") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("SAFE-7 TOOL-22 a push and a review are verified by asking, everything else may be done again", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for name := range all {
			tl, _ := b.tools.Get(name)
			v, verifies := tl.(tool.Verifier)
			want := tool.Idempotent
			asks := name == "git_push" || name == "git_review"
			if asks {
				want = tool.Reconcilable
			}
			if tl.Spec().EffectOf() != want || verifies != asks {
				t.Errorf("%s: %s, verifies %v", name, tl.Spec().EffectOf(), verifies)
			}
			if !verifies {
				continue
			}
			for _, g := range []*gitDouble{{answer: `{"commit":"c"}`, done: true}, {}, {err: errors.New("away")}} {
				b.env.Git = g
				done, r, err := v.Verify(t.Context(), b.call(name, all[name]))
				if done != g.done || !errors.Is(err, g.err) || done && r.Output != g.answer || g.name != "done "+name {
					t.Errorf("%+v: %v %+v %v", g, done, r, err)
				}
			}
		}
	})
	t.Run("SAFE-12 arguments that are none are refused before anything is done", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for name, bad := range map[string][]string{
			"git_push":    {`{"branch":"a"}`, `{"branch":"a","commit":"HEAD"}`, `{"branch":"a","commit":"abc"}`, `{"branch":"","commit":"` + strings.Repeat("a", 40) + `"}`, `{"branch":"a","commit":"` + strings.Repeat("a", 40) + `","force":true}`},
			"git_prepare": {`{"depth":0}`, `{"depth":-1}`, `{"url":""}`, `{"url":"` + strings.Repeat("x", 2049) + `"}`, `{"new_branch":"` + strings.Repeat("x", 201) + `"}`},
			"git_merge":   {`{}`, `{"from":[]}`, `{"from":"a"}`, `{"from":["a"],"strategy":"ours"}`},
			"git_commit":  {`{}`, `{"message":""}`, `{"message":"m","amend":true}`},
		} {
			for _, input := range bad {
				if err := b.tools.Check(name, json.RawMessage(input)); tool.ClassOf(err) != tool.Invalid {
					t.Errorf("%s %.80s: %v", name, input, err)
				}
			}
		}
	})
}
