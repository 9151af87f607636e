package guard

import (
	"reflect"
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestDeniedPrograms(t *testing.T) {
	t.Parallel()
	argv := func(words ...string) events.Match { return events.Match{Argv: words} }
	builtin := build(t).DeniedPrograms()
	cases := []struct {
		name string
		rule events.Rule
		want []string
	}{
		{"a name and any words", events.Rule{Match: argv("curl", "**")}, []string{"curl"}},
		{"alternatives", events.Rule{Match: argv("{curl,wget}", "**")}, []string{"curl", "wget"}},
		{"a glob over names", events.Rule{Match: argv("python3*", "**")}, []string{"python3*"}},
		{"at least one word", events.Rule{Match: argv("curl", "*", "**")}, []string{"curl"}},
		{"permissions of bash", events.Rule{Tool: "bash", Match: events.Match{Glob: "curl *"}}, []string{"curl"}},
		{"permissions of bash, joined", events.Rule{Tool: "bash", Match: events.Match{Glob: "{curl,wget} *"}}, []string{"curl", "wget"}},
		{"permissions of bash without a space", events.Rule{Tool: "bash", Match: events.Match{Glob: "curl*"}}, []string{"curl*"}},
		{"tools by glob", events.Rule{Tool: "{bash,mcp:*}", Match: argv("curl", "**")}, []string{"curl"}},
		{"another tool", events.Rule{Tool: "mcp:*", Match: argv("curl", "**")}, nil},
		{"the bare name only", events.Rule{Match: argv("curl")}, nil},
		{"the bare name only, as a text", events.Rule{Match: events.Match{Glob: "curl"}}, nil},
		{"some uses", events.Rule{Match: argv("git", "push", "**")}, nil},
		{"some uses, as a text", events.Rule{Match: events.Match{Glob: "git push*"}}, nil},
		{"exactly one word", events.Rule{Match: argv("npm", "*")}, nil},
		{"with a flag", events.Rule{Match: events.Match{Argv: []string{"rm", "**"}, FlagsAny: []string{"-r"}}}, nil},
		{"with a path", events.Rule{Match: events.Match{Argv: []string{"rm", "**"}, Path: "x"}}, nil},
		{"with an exception", events.Rule{Match: argv("npm", "**"), Except: &events.Match{Argv: []string{"npm", "test"}}}, nil},
		{"every program", events.Rule{Match: argv("**")}, nil},
		{"every program by one word", events.Rule{Match: argv("*", "**")}, nil},
		{"the whole tool", events.Rule{Tool: "bash"}, nil},
		{"a folder, which no name has", events.Rule{Match: argv("/usr/bin/curl", "**")}, nil},
	}
	for _, c := range cases {
		t.Run("GUARD-5 programs denied as a whole: "+c.name, func(t *testing.T) {
			t.Parallel()
			c.rule.ID, c.rule.Action = "x", Deny
			got := slices.DeleteFunc(build(t, []events.Rule{c.rule}).DeniedPrograms(), func(p string) bool { return slices.Contains(builtin, p) })
			if len(got)+len(c.want) > 0 && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			c.rule.Action = Ask
			if got := build(t, []events.Rule{c.rule}).DeniedPrograms(); !reflect.DeepEqual(got, builtin) {
				t.Errorf("a rule that asks denies %q", got)
			}
		})
	}
	t.Run("GUARD-7 the built-in rules name those that destroy disks and stop the machine", func(t *testing.T) {
		t.Parallel()
		want := []string{"halt", "mke2fs", "mkfs*", "mkswap", "poweroff", "reboot", "shutdown", "wipefs"}
		for _, p := range want {
			if !slices.Contains(builtin, p) {
				t.Errorf("%s is missing in %q", p, builtin)
			}
		}
		if slices.Contains(builtin, "rm") || slices.Contains(builtin, "git") || !slices.IsSorted(builtin) {
			t.Errorf("got %q", builtin)
		}
	})
	t.Run("GUARD-5 a rule that is removed or replaced denies no program", func(t *testing.T) {
		t.Parallel()
		set := build(t, []events.Rule{{ID: "x", Match: argv("curl", "**"), Action: Deny}}, []events.Rule{{ID: "x", Remove: true}})
		if got := set.DeniedPrograms(); slices.Contains(got, "curl") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("GUARD-9 a set that was never built names none", func(t *testing.T) {
		t.Parallel()
		if got := (Set{}).DeniedPrograms(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}
