package guard

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func build(t *testing.T, layers ...[]events.Rule) Set {
	t.Helper()
	set, err := Build(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func bash(line string) Action {
	return Action{Tool: "bash", Commands: [][]string{strings.Fields(line)}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-5 what no rule is about is allowed, without a rule's name", func(t *testing.T) {
		t.Parallel()
		if got := build(t).Judge(bash("go test ./...")); got != (Verdict{Action: Allow}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-5 one bad command among many is enough", func(t *testing.T) {
		t.Parallel()
		a := bash("git status")
		a.Commands = append(a.Commands, strings.Fields("git push --force"), strings.Fields("ls"))
		if got := build(t).Judge(a); got.Action != Deny || got.Rule != "force-push" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-5 a text that cannot be judged is asked, even where a rule allows it", func(t *testing.T) {
		t.Parallel()
		a := bash("ls")
		a.Unclear = "because"
		got := build(t, []events.Rule{{ID: "all", Action: Allow}}).Judge(a)
		if got.Action != Ask || got.Rule != UnclearShell || !strings.Contains(got.Reason, "because") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-5 a text that cannot be judged is denied where a part of it is", func(t *testing.T) {
		t.Parallel()
		a := bash("git push -f")
		a.Unclear = "because"
		if got := build(t).Judge(a); got.Action != Deny {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-12 a path that leaves the workspace is denied for every tool", func(t *testing.T) {
		t.Parallel()
		for _, tool := range []string{"read", "write", "mcp:files/read", "bash"} {
			if got := build(t).Judge(Action{Tool: tool, Outside: []string{"../x"}}); got.Action != Deny || got.Rule != "outside-workspace" {
				t.Errorf("%s: %+v", tool, got)
			}
		}
	})
	t.Run("GUARD-12 the rule about paths outside is locked", func(t *testing.T) {
		t.Parallel()
		for _, r := range []events.Rule{{ID: "outside-workspace", Remove: true}, {ID: "outside-workspace", Action: Allow}} {
			if _, err := Build([]events.Rule{r}); !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), "locked") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("GUARD-7 the shell rules hold for every tool that runs a text", func(t *testing.T) {
		t.Parallel()
		a := bash("git push -f")
		a.Tool = "mcp:remote/shell"
		if got := build(t).Judge(a); got.Action != Deny {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-9 a set that was never built denies everything", func(t *testing.T) {
		t.Parallel()
		if got := (Set{}).Judge(bash("ls")); got.Action != Deny || got.Rule != Fault {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-9 a judge that breaks denies", func(t *testing.T) {
		t.Parallel()
		if got := closed(func() Finding { panic("broken") }); got.Action != Deny || got.Rule != Fault {
			t.Errorf("%+v", got)
		}
	})
}

func TestGuardMatches(t *testing.T) {
	t.Parallel()
	except := &events.Match{FlagsAny: []string{"--dry-run"}}
	cases := []struct {
		name   string
		match  events.Match
		except *events.Match
		line   string
		want   truth
	}{
		{"one word", events.Match{Argv: []string{"npm", "*"}}, nil, "npm test", yes},
		{"one word, not two", events.Match{Argv: []string{"npm", "*"}}, nil, "npm run x", no},
		{"any number of words", events.Match{Argv: []string{"npm", "**", "x"}}, nil, "npm a b x", yes},
		{"none is a number", events.Match{Argv: []string{"npm", "**", "x"}}, nil, "npm x", yes},
		{"a glob crosses slashes", events.Match{Argv: []string{"cat", "*.pem"}}, nil, "cat a/b/c.pem", yes},
		{"alternatives", events.Match{Argv: []string{"{npm,pnpm}", "pub{lish,}"}}, nil, "pnpm publish", yes},
		{"an alternative that is none", events.Match{Argv: []string{"{npm,pnpm}"}}, nil, "yarn", no},
		{"the shortest form of a path", events.Match{Argv: []string{"cat", "secret/*"}}, nil, "cat x/../secret//y", yes},
		{"git behind its options", events.Match{Argv: []string{"git", "push", "**"}}, nil, "/usr/bin/git -C x -c a=b --no-pager push", yes},
		{"a flag in a cluster", events.Match{FlagsAny: []string{"-f"}}, nil, "x -vfq", yes},
		{"a long flag shortened", events.Match{FlagsAny: []string{"--force"}}, nil, "x --fo", yes},
		{"a long flag with a value", events.Match{FlagsAny: []string{"--force"}}, nil, "x --force=1", yes},
		{"a longer flag is another", events.Match{FlagsAny: []string{"--force"}}, nil, "x --force-with-lease", no},
		{"a flag behind --", events.Match{FlagsAny: []string{"-f"}}, nil, "x y -- -f", no},
		{"a flag behind a -- that may be a value", events.Match{FlagsAny: []string{"-f"}}, nil, "x -o -- -f", yes},
		{"a word of one dash", events.Match{FlagsAny: []string{"-delete"}}, nil, "find . -delete", yes},
		{"all flags", events.Match{FlagsAll: []string{"-r|-R|--recursive", "-f|--force"}}, nil, "rm -Rf x", yes},
		{"one of all is missing", events.Match{FlagsAll: []string{"-r|-R|--recursive", "-f|--force"}}, nil, "rm -R x", no},
		{"a forced refspec", events.Match{RefspecForce: true}, nil, "git push origin +main", yes},
		{"a lone plus", events.Match{RefspecForce: true}, nil, "expr 1 + 2", no},
		{"a glob over the text", events.Match{Glob: "git commit *"}, nil, "git commit -m x", yes},
		{"all conditions", events.Match{Argv: []string{"npm", "**"}, FlagsAny: []string{"-f"}}, nil, "npm x", no},
		{"no condition", events.Match{}, nil, "anything at all", yes},
		{"an exception", events.Match{Argv: []string{"npm", "**"}}, except, "npm x --dry-run", no},
		{"an exception is not shortened", events.Match{Argv: []string{"npm", "**"}}, except, "npm x --dry", yes},
		{"an exception without a match of its own", events.Match{}, except, "npm x --dry-run", no},
		{"an exception does not follow ..", events.Match{Argv: []string{"rm", "**"}}, &events.Match{Argv: []string{"rm", "build/*"}}, "rm build/../x", yes},
		{"an exception for what is there", events.Match{Argv: []string{"rm", "**"}}, &events.Match{Argv: []string{"rm", "build/*"}}, "rm build/x", no},
		{"an exception needs to know", events.Match{Argv: []string{"rm", "**"}}, &events.Match{Argv: []string{"rm", "build/*"}}, "rm build/" + Unknown, yes},
		{"a word known later", events.Match{Argv: []string{"npm", "publish"}}, nil, "npm " + Unknown, maybe},
		{"a word whose beginning is known", events.Match{Argv: []string{"npm", "publish"}}, nil, "npm pub" + Unknown, maybe},
		{"a word whose beginning differs", events.Match{Argv: []string{"npm", "publish"}}, nil, "npm run" + Unknown, no},
		{"many words known later", events.Match{Argv: []string{"npm", "a", "b", "c"}}, nil, "npm " + Many + " c", maybe},
		{"a flag known later", events.Match{FlagsAny: []string{"-f"}}, nil, "x " + Unknown, maybe},
		{"a cluster known later", events.Match{FlagsAny: []string{"-f"}}, nil, "x -v" + Unknown, maybe},
		{"no flag behind --", events.Match{FlagsAny: []string{"-f"}}, nil, "x y -- " + Unknown, no},
		{"a long flag known later", events.Match{FlagsAny: []string{"--force"}}, nil, "x --fo" + Unknown, maybe},
	}
	for _, c := range cases {
		t.Run("GUARD-5 GUARD-13 match: "+c.name, func(t *testing.T) {
			t.Parallel()
			r := events.Rule{ID: "x", Match: c.match, Except: c.except, Action: Ask}
			a := bash(c.line)
			if got, _ := holds(r, a, []command{read(a.Commands[0])}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
	t.Run("GUARD-5 an exception for one command does not cover its neighbour", func(t *testing.T) {
		t.Parallel()
		set := build(t, []events.Rule{{ID: "x", Tool: "bash", Action: Deny, Except: &events.Match{Argv: []string{"ls", "**"}}}})
		a := bash("ls -l")
		if got := set.Judge(a); got.Action != Allow {
			t.Errorf("%+v", got)
		}
		a.Commands = append(a.Commands, []string{"curl", "x"})
		if got := set.Judge(a); got.Action != Deny {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-13 tools are globs too", func(t *testing.T) {
		t.Parallel()
		set := build(t, []events.Rule{{ID: "x", Tool: "{write,mcp:*}", Action: Deny}})
		for tool, want := range map[string]string{"write": Deny, "mcp:a/b": Deny, "read": Allow} {
			if got := set.Judge(Action{Tool: tool}); got.Action != want {
				t.Errorf("%s: %+v", tool, got)
			}
		}
	})
}

func TestBuild(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-6 GUARD-13 the same id replaces in place, a new one is appended, remove removes", func(t *testing.T) {
		t.Parallel()
		ids := func(s Set) (out []string) {
			for _, r := range s.Rules()[len(Builtin()):] {
				out = append(out, r.ID+"="+r.Action)
			}
			return out
		}
		low := []events.Rule{{ID: "a", Action: Ask}, {ID: "b", Action: Ask}, {ID: "c", Action: Ask}}
		high := []events.Rule{{ID: "d", Action: Deny}, {ID: "b", Action: Deny}, {ID: "a", Remove: true}, {ID: "nobody", Remove: true}}
		if got, want := ids(build(t, low, high)), []string{"b=deny", "c=ask", "d=deny"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("GUARD-13 a default that is not locked can be replaced and removed", func(t *testing.T) {
		t.Parallel()
		if got := build(t, []events.Rule{{ID: "recursive-delete", Remove: true}}).Judge(bash("rm -r build")); got.Action != Allow {
			t.Errorf("%+v", got)
		}
		stricter := []events.Rule{{ID: "recursive-delete", Match: events.Match{Argv: []string{"rm", "**"}}, Action: Deny}}
		if got := build(t, stricter).Judge(bash("rm x")); got.Action != Deny {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-6 a rule that a layer locks binds the layers above it", func(t *testing.T) {
		t.Parallel()
		_, err := Build([]events.Rule{{ID: "mine", Action: Deny, Locked: true}}, []events.Rule{{ID: "mine", Action: Allow}})
		if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), `"mine"`) || !strings.Contains(err.Error(), "choose another id") {
			t.Error(err)
		}
	})
	t.Run("GUARD-7 every locked built-in rule stays", func(t *testing.T) {
		t.Parallel()
		locked := 0
		for _, r := range Builtin() {
			if !r.Locked {
				continue
			}
			locked++
			if _, err := Build([]events.Rule{{ID: r.ID, Remove: true}}); err == nil {
				t.Errorf("%s can be removed", r.ID)
			}
		}
		if locked < 10 {
			t.Errorf("only %d are locked", locked)
		}
	})
	t.Run("GUARD-6 the set does not change with what it was built from", func(t *testing.T) {
		t.Parallel()
		rules := []events.Rule{{ID: "a", Match: events.Match{Argv: []string{"ls"}}, Action: Deny}}
		set := build(t, rules)
		rules[0].Match.Argv[0] = "x"
		set.Rules()[len(Builtin())].Match.Argv[0] = "x"
		if got := set.Judge(bash("ls")); got.Action != Deny {
			t.Errorf("%+v", got)
		}
	})
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	long := make([]string, MaxWords+1)
	for i := range long {
		long[i] = "x"
	}
	m := func(m events.Match) events.Rule { return events.Rule{ID: "x", Action: Deny, Match: m} }
	cases := []struct {
		name string
		rule events.Rule
		want string
	}{
		{"no id", events.Rule{Action: Deny}, "has no id"},
		{"no action", events.Rule{ID: "x"}, "write allow, deny or ask"},
		{"a slip of the keys", events.Rule{ID: "x", Action: "dney"}, "was deny meant?"},
		{"another slip", events.Rule{ID: "x", Action: "Alow"}, "was allow meant?"},
		{"another word", events.Rule{ID: "x", Action: "block"}, "was deny meant?"},
		{"a bad tool glob", events.Rule{ID: "x", Action: Deny, Tool: "[a"}, "tool: pattern"},
		{"a bad word glob", m(events.Match{Argv: []string{"a", "[a"}}), "match: pattern"},
		{"open braces", m(events.Match{Argv: []string{"{a,b"}}), "braces"},
		{"too many alternatives", m(events.Match{Glob: strings.Repeat("{a,b}", 9)}), "braces"},
		{"a long pattern", m(events.Match{Glob: strings.Repeat("a", MaxPattern+1)}), "split it"},
		{"a long list", m(events.Match{Argv: long}), "split the rule"},
		{"an empty word", m(events.Match{Argv: []string{""}}), "empty pattern"},
		{"a flag without a dash", m(events.Match{FlagsAny: []string{"force"}}), "can never match"},
		{"a flag with a value", m(events.Match{FlagsAll: []string{"-f|--a=b"}}), "can never match"},
		{"another place", m(events.Match{PathOutside: "home"}), "write workspace"},
		{"an empty exception", events.Rule{ID: "x", Action: Deny, Except: &events.Match{}}, "disables the whole rule"},
		{"a bad exception", events.Rule{ID: "x", Action: Deny, Except: &events.Match{Glob: "["}}, "except: pattern"},
	}
	for _, c := range cases {
		t.Run("GUARD-6 refused: "+c.name, func(t *testing.T) {
			t.Parallel()
			set, err := Build([]events.Rule{c.rule})
			if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := set.Judge(bash("ls")); got.Action != Deny {
				t.Errorf("what came with an error judges: %+v", got)
			}
		})
	}
	t.Run("GUARD-6 refused: an id twice in one layer", func(t *testing.T) {
		t.Parallel()
		if _, err := Build([]events.Rule{{ID: "x", Action: Deny}, {ID: "x", Action: Ask}}); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Error(err)
		}
	})
	t.Run("GUARD-6 limit: the most rules, and one more", func(t *testing.T) {
		t.Parallel()
		layer := make([]events.Rule, MaxRules-len(Builtin()), MaxRules)
		for i := range layer {
			layer[i] = events.Rule{ID: "r" + strings.Repeat("x", i), Action: Ask}
		}
		if _, err := Build(layer); err != nil {
			t.Error(err)
		}
		if _, err := Build(append(layer, events.Rule{ID: "more", Action: Ask})); err == nil {
			t.Error("one too many is taken")
		}
	})
}
